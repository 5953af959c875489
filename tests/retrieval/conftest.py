# ruff: noqa: ARG002 - the ports' arguments; a store of one collection and one generation needs few of them
"""In-memory stores that keep the ports' promises, and small corpora to ask."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from leanrag_engine.core.model import (
    BuildRecord,
    Chunk,
    Collection,
    Document,
    Entity,
    Generation,
    Graph,
    Hierarchy,
    Hit,
    LayerCount,
    Relation,
    Vectors,
)
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.core.text.language.words import STOPWORDS, search_terms, words
from leanrag_engine.retrieval.graph.adjacency import Adjacency
from leanrag_engine.retrieval.index import IndexSnapshot

BUILT = datetime(2026, 1, 10, tzinfo=UTC)


class WordTokenizer:
    """Counts words and signs: simple, and never more for a text than for a longer one."""

    def count(self, text: str) -> int:
        return len(re.findall(r"\w+|[^\w\s]", text))

    def count_many(self, texts: Sequence[str]) -> list[int]:
        return [self.count(text) for text in texts]


class WordEmbedder:
    """Bags of known words: cosine similarity is word overlap, and a text of unknown words is a zero row."""

    identity = "words"

    def __init__(self, texts: Sequence[str]) -> None:
        vocabulary = sorted({word for text in texts for word in self._words(text)})
        self._place = {word: place for place, word in enumerate(vocabulary)}

    @property
    def dimension(self) -> int:
        return len(self._place)

    async def embed(self, texts: Sequence[str]) -> Vectors:
        rows = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in self._words(text):
                if word in self._place:
                    row[self._place[word]] += 1
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.divide(rows, norms, out=rows, where=norms > 0)

    async def embed_queries(self, texts: Sequence[str]) -> Vectors:
        return await self.embed(texts)

    @staticmethod
    def _words(text: str) -> list[str]:
        return [word for word in words(text) if word not in STOPWORDS]


class MemoryVectors:
    """The vector store's reading half."""

    def __init__(self) -> None:
        self.held: dict[str, dict[str, Vectors]] = {}

    async def upsert(self, space: str, ids: Sequence[str], vectors: Vectors) -> None:
        self.held.setdefault(space, {}).update(zip(ids, vectors, strict=True))

    async def search(self, space: str, vector: Vectors, limit: int) -> list[Hit]:
        hits = [Hit(id_, float(row @ vector)) for id_, row in self.held.get(space, {}).items()]
        return sorted(hits, key=lambda hit: -hit.score)[:limit]

    async def fetch(self, space: str, ids: Sequence[str]) -> dict[str, Vectors]:
        rows = self.held.get(space, {})
        return {id_: rows[id_] for id_ in ids if id_ in rows}


class KeywordIndex:
    """BM25 over postings."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        bags = {id_: Counter(search_terms(text, limit=10_000)) for id_, text in texts.items()}
        whole = {id_: Counter(words(text)) for id_, text in texts.items()}
        self._counts = {id_: bag | whole[id_] for id_, bag in bags.items()}
        self._length = {id_: sum(bag.values()) for id_, bag in self._counts.items()}
        self._mean = sum(self._length.values()) / max(len(texts), 1)
        self._postings: dict[str, list[str]] = {}
        for id_, bag in self._counts.items():
            for word in bag:
                self._postings.setdefault(word, []).append(id_)

    def search(self, text: str, limit: int) -> list[Hit]:
        scores: dict[str, float] = {}
        for term in search_terms(text):
            holders = self._postings.get(term, [])
            rarity = math.log(1 + (len(self._counts) - len(holders) + 0.5) / (len(holders) + 0.5))
            for id_ in holders:
                count = self._counts[id_][term]
                long = 1.2 * (0.25 + 0.75 * self._length[id_] / self._mean)
                scores[id_] = scores.get(id_, 0.0) + rarity * count * 2.2 / (count + long)
        return sorted((Hit(*item) for item in scores.items()), key=lambda hit: -hit.score)[:limit]


class MemoryGraph:
    """The reading half of the stores of documents and generations. ``calls`` counts the calls."""

    def __init__(
        self, documents: Sequence[Document], chunks: Sequence[Chunk], hierarchy: Hierarchy | None
    ) -> None:
        self._documents = list(documents)
        self._chunks = {chunk.id: chunk for chunk in chunks}
        layers = hierarchy.layers if hierarchy else ()
        self._entities = {entity.id: entity for layer in layers for entity in layer.entities}
        self._relations = [relation for layer in layers for relation in layer.relations]
        self._named: dict[str, list[Entity]] = {}
        for entity in self._entities.values():
            for key in {name_key(name) for name in (entity.name, *entity.aliases)}:
                self._named.setdefault(key, []).append(entity)
        self._ends: dict[str, list[Relation]] = {}
        for relation in self._relations:
            for end in (relation.source_id, relation.target_id):
                self._ends.setdefault(end, []).append(relation)
        self._chunk_words = KeywordIndex({chunk.id: chunk.indexed_text for chunk in chunks})
        self._entity_words = KeywordIndex({each.id: each.indexed_text for each in self._entities.values()})
        self._fact_words = KeywordIndex(dict(layers[0].facts() if layers else ()))
        self.calls: Counter[str] = Counter()

    async def find_all(self, collection: str) -> list[Document]:
        self.calls["documents"] += 1
        return self._documents

    async def chunks(self, collection: str, ids: Sequence[str]) -> list[Chunk]:
        self.calls["chunks"] += 1
        return [self._chunks[id_] for id_ in ids if id_ in self._chunks]

    async def chunks_by_citation(self, collection: str, citations: Sequence[str]) -> list[Chunk]:
        known = {chunk.citation: chunk for chunk in self._chunks.values()}
        return [known[citation] for citation in citations if citation in known]

    async def chunk_ids(self, collection: str, document_ids: Sequence[str]) -> list[str]:
        wanted = set(document_ids)
        return [chunk.id for chunk in self._chunks.values() if chunk.document_id in wanted]

    async def search_chunks(self, collection: str, text: str, limit: int) -> list[Hit]:
        self.calls["search_chunks"] += 1
        return self._chunk_words.search(text, limit)

    async def layer(self, generation: int, layer: int) -> list[Entity]:
        self.calls["layer"] += 1
        return [each for each in self._entities.values() if each.layer == layer]

    async def entities(self, generation: int, ids: Sequence[str]) -> list[Entity]:
        self.calls["entities"] += 1
        return [self._entities[id_] for id_ in ids if id_ in self._entities]

    async def entities_by_name(self, generation: int, names: Sequence[str]) -> list[Entity]:
        self.calls["entities_by_name"] += 1
        keys = dict.fromkeys(map(name_key, names))
        found = (entity for key in keys for entity in self._named.get(key, ()))
        return list({entity.id: entity for entity in found}.values())

    async def similar_entities(self, generation: int, name: str, limit: int) -> list[Entity]:
        wanted = set(name.casefold())

        def likeness(entity: Entity) -> float:
            letters = set(entity.name.casefold())
            return len(wanted & letters) / len(wanted | letters)

        return sorted(self._entities.values(), key=lambda entity: -likeness(entity))[:limit]

    async def members(self, generation: int, id: str, offset: int, limit: int) -> list[Entity]:
        self.calls["members"] += 1
        children = [each for each in self._entities.values() if each.parent_id == id]
        return sorted(children, key=lambda each: -each.mentions)[offset : offset + limit]

    async def search_facts(self, generation: int, text: str, limit: int) -> list[Hit]:
        self.calls["search_facts"] += 1
        return self._fact_words.search(text, limit)

    async def search_entities(
        self, generation: int, text: str, limit: int, layer: int | None = None
    ) -> list[Hit]:
        self.calls["search_entities"] += 1
        hits = self._entity_words.search(text, len(self._entities))
        return [hit for hit in hits if layer is None or self._entities[hit.id].layer == layer][:limit]

    async def relations_of(self, generation: int, ids: Sequence[str], limit: int) -> list[Relation]:
        self.calls["relations_of"] += 1
        found = {each.id: each for id_ in ids for each in self._ends.get(id_, ())}
        return sorted(found.values(), key=lambda each: (-each.strength, -each.weight))[:limit]

    async def relations_among(self, generation: int, ids: Sequence[str]) -> list[Relation]:
        self.calls["relations_among"] += 1
        wanted = set(ids)
        found = {
            each.id: each
            for id_ in ids
            for each in self._ends.get(id_, ())
            if {each.source_id, each.target_id} <= wanted
        }
        return sorted(found.values(), key=lambda each: (-each.strength, -each.weight))

    async def relations_page(
        self,
        generation: int,
        *,
        layer: int | None,
        cluster: str | None,
        min_strength: int,
        offset: int,
        limit: int,
    ) -> tuple[list[Relation], int]:
        found = [
            each
            for each in self._relations
            if each.layer > 0
            and (layer is None or each.layer == layer)
            and (cluster is None or cluster in (each.source_id, each.target_id))
            and each.strength >= min_strength
        ]
        found.sort(key=lambda each: (-each.strength, -each.weight))
        return found[offset : offset + limit], len(found)


@dataclass(frozen=True)
class MemorySpaces:
    chunks: str = "chunks"
    entities: str = "entities"
    aggregates: str = "aggregates"
    facts: str = "facts"


@dataclass
class Corpus:
    """Texts by title, and the hierarchy over what they mention; ``index()`` makes both searchable."""

    texts: Mapping[str, str]
    hierarchy: Hierarchy | None = None
    metadata: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    pending: int = 0

    @property
    def chunks(self) -> list[Chunk]:
        return [
            Chunk(
                id=f"chunk-{number}",
                document_id=f"doc-{number}",
                number=1,
                text=text,
                start=0,
                end=len(text),
                tokens=WordTokenizer().count(text),
                citation=f"d{number}:c1",
                title=title,
            )
            for number, (title, text) in enumerate(self.texts.items(), start=1)
        ]

    @property
    def documents(self) -> list[Document]:
        return [
            Document(
                id=chunk.document_id,
                number=number,
                title=chunk.title,
                source="",
                media_type="text/plain",
                digest="",
                characters=len(chunk.text),
                chunks=1,
                revision=number,
                ingested_at=datetime(2026, 1, number, 12, tzinfo=UTC),
                metadata=self.metadata.get(chunk.title, {}),
            )
            for number, chunk in enumerate(self.chunks, start=1)
        ]

    def collection(self) -> Collection:
        generation = None
        if self.hierarchy:
            counts = tuple(
                LayerCount(layer, len(graph.entities), len(graph.relations))
                for layer, graph in enumerate(self.hierarchy.layers)
            )
            generation = Generation(
                1, "default", len(self.texts) - self.pending, "words", 0, BUILT, counts, BuildRecord()
            )
        return Collection(
            "default", 1, len(self.texts), generation, BUILT, len(self.texts), len(self.texts), self.pending
        )

    async def index(self, embedder: Any = None, tokenizer: Any = None) -> IndexSnapshot:
        chunks = self.chunks
        embedder = embedder or WordEmbedder([chunk.indexed_text for chunk in chunks])
        vectors, spaces = MemoryVectors(), MemorySpaces()
        await vectors.upsert(
            spaces.chunks, [c.id for c in chunks], await embedder.embed([c.indexed_text for c in chunks])
        )
        for layer, graph in enumerate(self.hierarchy.layers if self.hierarchy else ()):
            space = spaces.entities if layer == 0 else spaces.aggregates
            rows = await embedder.embed([entity.indexed_text for entity in graph.entities])
            await vectors.upsert(space, [entity.id for entity in graph.entities], rows)
        facts = self.hierarchy.layers[0].facts() if self.hierarchy else []
        await vectors.upsert(
            spaces.facts, [id_ for id_, _ in facts], await embedder.embed([text for _, text in facts])
        )
        built = self.hierarchy is not None
        store: Any = MemoryGraph(self.documents, chunks, self.hierarchy)  # the reading half
        return IndexSnapshot(
            documents=store,
            generations=store,
            vectors=vectors,  # type: ignore[arg-type] # the reading half
            embedder=embedder if built else None,
            tokenizer=tokenizer or WordTokenizer(),
            collection=self.collection(),
            spaces=spaces if built else None,
            adjacency=Adjacency.of(self.hierarchy.layers, chunks) if self.hierarchy else None,
        )


# --- a corpus whose facts are known ----------------------------------------------------------

TEXTS = {
    "Comets": "Caroline Herschel discovered eight comets. Caroline Herschel lived in Slough.",
    "The great telescope": "William Herschel built a forty-foot telescope in Slough. "
    "William Herschel was the brother of Caroline Herschel.",
    "Uranus": "William Herschel found Uranus in 1781. Uranus is the seventh planet.",
    "Nebulae": "Charles Messier catalogued nebulae in Paris. His catalogue lists the Crab Nebula.",
    "Sourdough": "Sourdough bread rises with a starter. The starter holds wild yeast.",
    "Brewing": "The brewers of Slough pitch yeast into wort. Wort ferments into beer.",
    "Halley": "Edmond Halley computed the orbit of a comet. Caroline Herschel admired Edmond Halley.",
}

CLUSTERS = {
    "Sky watchers": ("Caroline Herschel", "William Herschel", "Charles Messier", "Edmond Halley"),
    "Heavenly bodies": ("comet", "Uranus", "nebula", "telescope"),
    "Towns": ("Slough", "Paris"),
    "Fermentation": ("sourdough bread", "starter", "yeast", "wort", "beer"),
}

DOMAINS = {"Astronomy": ("Sky watchers", "Heavenly bodies", "Towns"), "Food": ("Fermentation",)}

FACTS = (
    ("Caroline Herschel", "comet", "Caroline Herschel discovered eight comets."),
    ("Caroline Herschel", "Slough", "Caroline Herschel lived in Slough."),
    ("William Herschel", "telescope", "William Herschel built a forty-foot telescope in Slough."),
    ("William Herschel", "Caroline Herschel", "William Herschel was the brother of Caroline Herschel."),
    ("William Herschel", "Uranus", "William Herschel found Uranus in 1781."),
    ("Charles Messier", "nebula", "Charles Messier catalogued nebulae in Paris."),
    ("Charles Messier", "Paris", "Charles Messier catalogued nebulae in Paris."),
    ("Edmond Halley", "comet", "Edmond Halley computed the orbit of a comet."),
    ("Caroline Herschel", "Edmond Halley", "Caroline Herschel admired Edmond Halley."),
    ("sourdough bread", "starter", "Sourdough bread rises with a starter."),
    ("starter", "yeast", "The starter holds wild yeast."),
    ("yeast", "wort", "The brewers of Slough pitch yeast into wort."),
    ("yeast", "Slough", "The brewers of Slough pitch yeast into wort."),
    ("wort", "beer", "Wort ferments into beer."),
)


def ref(name: str) -> str:
    return "e-" + name.replace(" ", "-").lower()


def known_hierarchy(texts: Mapping[str, str]) -> Hierarchy:
    """The clusters and facts above over ``texts``: λ, weight and support are counted, not written down."""
    above = {member: cluster for cluster, members in CLUSTERS.items() for member in members}
    domain_of = {member: domain for domain, members in DOMAINS.items() for member in members}
    chunk_texts = {f"chunk-{number}": text for number, text in enumerate(texts.values(), start=1)}

    def mentioning(*needles: str) -> tuple[str, ...]:
        stems = [needle.casefold().removesuffix("a") for needle in needles]
        return tuple(
            id_ for id_, text in chunk_texts.items() if all(stem in text.casefold() for stem in stems)
        )

    entities = tuple(
        Entity(
            ref(name),
            name,
            "person" if cluster == "Sky watchers" else "concept",
            description=" ".join(dict.fromkeys(text for *ends, text in FACTS if name in ends)),
            mentions=len(mentioning(name)),
            parent_id=ref(cluster),
            chunk_ids=mentioning(name),
        )
        for name, cluster in above.items()
    )
    relations = tuple(
        Relation(
            f"r{number}", ref(source), ref(target), description=text, chunk_ids=mentioning(source, target)
        )
        for number, (source, target, text) in enumerate(FACTS)
    )
    first, first_relations = _layer_above(entities, relations, CLUSTERS, domain_of, 1)
    top, top_relations = _layer_above(first, first_relations, DOMAINS, dict.fromkeys(DOMAINS, "Knowledge"), 2)
    root = Entity(ref("Knowledge"), "Knowledge", layer=3, description="All of it.", mentions=15, members=2)
    return Hierarchy(
        (
            Graph(entities, relations),
            Graph(first, first_relations),
            Graph(top, top_relations),
            Graph((root,), ()),
        )
    )


def _layer_above(
    entities: Sequence[Entity],
    relations: Sequence[Relation],
    clusters: Mapping[str, Sequence[str]],
    parents: Mapping[str, str],
    layer: int,
) -> tuple[tuple[Entity, ...], tuple[Relation, ...]]:
    nodes = tuple(
        Entity(
            ref(name),
            name,
            layer=layer,
            description=f"{name} brings together {', '.join(members)}.",
            members=len(members),
            mentions=sum(
                1 if each.layer == 0 else each.mentions for each in entities if each.parent_id == ref(name)
            ),
            parent_id=ref(parents[name]),
        )
        for name, members in clusters.items()
    )
    parent = {each.id: each.parent_id or "" for each in entities}
    beneath: dict[tuple[str, str], list[Relation]] = {}
    for relation in relations:
        ends = sorted((parent[relation.source_id], parent[relation.target_id]))
        if ends[0] != ends[1]:
            beneath.setdefault((ends[0], ends[1]), []).append(relation)
    above = tuple(
        Relation(
            f"R{layer}-{number}",
            source,
            target,
            layer,
            " ".join(each.description for each in below),
            strength=len(below),
            weight=sum(each.weight for each in below),
            support=sum(each.support for each in below),
        )
        for number, ((source, target), below) in enumerate(beneath.items())
    )
    return nodes, above


@pytest.fixture(scope="session")
def corpus() -> Corpus:
    """Seven documents of one chunk each, fifteen entities in four layers."""
    return Corpus(
        TEXTS,
        known_hierarchy(TEXTS),
        {title: {"field": "food" if title in ("Sourdough", "Brewing") else "astronomy"} for title in TEXTS},
    )


@pytest.fixture(scope="session")
def unbuilt() -> Corpus:
    """The same documents before the first build."""
    return Corpus(TEXTS)


@pytest.fixture(scope="session")
def make_corpus() -> type[Corpus]:
    """For tests that need texts of their own."""
    return Corpus


@pytest.fixture(scope="session")
def tokenizer() -> WordTokenizer:
    return WordTokenizer()
