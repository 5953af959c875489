"""The four retrieval routes of Youtu-GraphRAG (its §2 and §3), for comparison with ours: they rank passages, and answer nothing.

``entity``     the passages of the entities that the question resembles most
``triple``     those of the relations that it resembles most
``community``  those of the members of the clusters of G1 that it resembles most
``path``       those on the best paths that a depth-first search finds from the first entities along relations
``routes``     the ranks of all four, fused

The knowledge tree is ours: communities are the clusters of G0, by the method that the build was made with.
"""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from leanrag_engine.adapters.wiring import Adapters, compose
from leanrag_engine.core.config import Settings
from leanrag_engine.core.graphs.graph import Graph
from leanrag_engine.core.graphs.layers import find_parents
from leanrag_engine.core.model import Entity, Vectors
from leanrag_engine.core.ports import Embedder, ProgressReport
from leanrag_engine.core.vectors import unit_rows
from leanrag_engine.engine import LeanRAG
from leanrag_engine.evaluation.datasets import QuestionSet
from leanrag_engine.evaluation.scratch import place_of
from leanrag_engine.retrieval.search.seeds import best_first, fuse

from .run import QuestionResult

Scores = dict[str, float]
"""The scores of passages by chunk id."""


class Route(StrEnum):
    ENTITY = "entity"
    TRIPLE = "triple"
    COMMUNITY = "community"
    PATH = "path"


FUSED_ROUTES = "routes"
"""The name of all four together."""


@dataclass(frozen=True, slots=True)
class RouteLimits:
    """How far the routes look. Round numbers, not tuned."""

    entities: int = 20
    triples: int = 50
    communities: int = 5
    starts: int = 5
    """Entities at which paths begin."""
    depth: int = 3
    """Relations of the longest path."""
    branches: int = 5
    """Relations that a path tries at each entity."""


@dataclass(frozen=True, slots=True)
class KnowledgeTree:
    """What the routes search: entities, relations and communities with unit vectors, (n, d), (m, d), (k, d);
    the community of each entity ``labels``, the ``ends`` (m, 2) of relations, the relations ``beside``
    each entity, and their chunks."""

    entities: Vectors
    entity_chunks: Sequence[Sequence[str]]
    labels: NDArray[np.intp]
    communities: Vectors
    ends: NDArray[np.intp]
    beside: Sequence[NDArray[np.intp]]
    relations: Vectors
    relation_chunks: Sequence[Sequence[str]]

    def rank(self, question: Vectors, limits: RouteLimits) -> dict[str, list[str]]:
        """Return the passages by each route and by all of them, best first; ``question`` is a unit vector (d,)."""
        near, stated = self.entities @ question, self.relations @ question
        scores = {
            Route.ENTITY: self._score_by_entities(_best(near, limits.entities), near),
            Route.TRIPLE: _score_by_best(
                (self.relation_chunks[each], stated[each]) for each in _best(stated, limits.triples)
            ),
            Route.COMMUNITY: self._score_by_entities(self._find_members(question, limits), near),
            Route.PATH: _score_by_best(self._find_paths(near, stated, limits)),
        }
        ranked = {route.value: [hit.id for hit in best_first(each)] for route, each in scores.items()}
        return ranked | {FUSED_ROUTES: [hit.id for hit in fuse(list(ranked.values()))]}

    def _score_by_entities(self, places: Sequence[int], near: Vectors) -> Scores:
        """Score each passage by the sum over those of the entities that it mentions."""
        scores: Scores = defaultdict(float)
        for place in places:
            for chunk in self.entity_chunks[place]:
                scores[chunk] += max(float(near[place]), 0.0)
        return scores

    def _find_members(self, question: Vectors, limits: RouteLimits) -> list[int]:
        chosen = _best(self.communities @ question, limits.communities)
        members: list[int] = np.flatnonzero(np.isin(self.labels, chosen)).tolist()
        return members

    def _find_paths(
        self, near: Vectors, stated: Vectors, limits: RouteLimits
    ) -> Iterator[tuple[Sequence[str], float]]:
        """Yield the passages of every relation on a path with the path's score: the mean of its relations' similarities."""
        stack: list[tuple[int, tuple[int, ...], frozenset[int]]] = [
            (start, (), frozenset([start])) for start in _best(near, limits.starts)
        ]
        while stack:
            entity, path, visited = stack.pop()
            if len(path) == limits.depth:
                continue
            choices = self.beside[entity]
            for choice in _best(stated[choices], limits.branches):
                relation = int(choices[choice])
                first, second = self.ends[relation].tolist()
                other = second if first == entity else first
                if other not in visited:
                    longer = (*path, relation)
                    yield self.relation_chunks[relation], float(stated[list(longer)].mean())
                    stack.append((other, longer, visited | {other}))


def find_relations_beside(count: int, ends: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """Return the relations of each of ``count`` entities, whose places are ``ends`` (m, 2)."""
    near = ends.T.ravel()
    order = np.argsort(near, kind="stable")
    cuts = np.searchsorted(near[order], np.arange(1, count))
    return np.split(order % len(ends) if len(ends) else order, cuts)


def _best(scores: Vectors, count: int) -> list[int]:
    found: list[int] = np.argsort(-scores, kind="stable")[:count].tolist()
    return found


def _score_by_best(found: Iterator[tuple[Sequence[str], float]]) -> Scores:
    """Score each passage by the best that it states."""
    scores: Scores = {}
    for chunks, score in found:
        for chunk in chunks:
            scores[chunk] = max(scores.get(chunk, -1.0), float(score))
    return scores


async def ask_routes(
    settings: Settings,
    collection: str,
    questions: QuestionSet,
    report: ProgressReport = lambda _: None,
    limits: RouteLimits = RouteLimits(),
) -> dict[str, list[QuestionResult]]:
    """Return the results of each route for every question on a built collection; nothing is written."""
    settings = settings.model_copy(update={"read_only": True})
    adapters = await compose(settings)
    async with LeanRAG(settings, adapters):
        tree, embedder, document_of = await _open_tree(adapters, collection, report)
        vectors = (await embedder.embed_queries([each.text for each in questions.questions])).rows
    results: dict[str, list[QuestionResult]] = defaultdict(list)
    for question, vector in zip(questions.questions, vectors, strict=True):
        started = time.perf_counter()
        ranked = tree.rank(vector, limits)
        seconds = time.perf_counter() - started
        for name, chunks in ranked.items():
            places = dict.fromkeys(place_of(document_of[each]) for each in chunks if each in document_of)
            results[name].append(QuestionResult(question, tuple(places), {}, {}, seconds))
    return results


async def _open_tree(
    adapters: Adapters, collection: str, report: ProgressReport
) -> tuple[KnowledgeTree, Embedder, Mapping[str, str]]:
    """Return the tree of a built collection, the embedder of its vectors, and the document of each chunk."""
    found = await adapters.documents.collection(collection)
    assert found, collection
    assert found.generation, collection
    generation = found.generation
    state = await adapters.generations.embedder_state(generation.number)
    embedder = await adapters.embedders.restore(generation.embedder, state)
    base = await adapters.generations.layer(generation.number, 0)
    above = await adapters.generations.layer(generation.number, 1)
    relations = await adapters.generations.relations(generation.number, 0)
    texts = list(dict.fromkeys(each.description for each in relations))
    row = {text: number for number, text in enumerate(texts)}
    stated = await embedder.embed(texts, report)
    spaces = generation.record.spaces
    graph = Graph(tuple(base), tuple(relations))
    tree = KnowledgeTree(
        await _fetch(adapters, spaces.entities, base, generation.dimension),
        [each.chunk_ids for each in base],
        find_parents(graph, Graph(tuple(above), ())),
        await _fetch(adapters, spaces.aggregates, above, generation.dimension),
        graph.ends,
        find_relations_beside(len(base), graph.ends),
        stated[[row[each.description] for each in relations]],
        [each.chunk_ids for each in relations],
    )
    chunks = await adapters.documents.all_chunks(collection)
    return tree, embedder, {each.id: each.document_id for each in chunks}


async def _fetch(adapters: Adapters, space: str, entities: Sequence[Entity], dimension: int) -> Vectors:
    found = await adapters.vectors.fetch(space, [each.id for each in entities])
    blank = np.zeros(dimension, dtype=np.float32)
    return unit_rows(np.array([found.get(each.id, blank) for each in entities], dtype=np.float32))
