"""A generation's graph as compact arrays: who is joined to whom, ready to be walked without a query to a store.

Nodes are numbered: first the chunks, then the entities of every layer, each in the order of their ids. The
arrays may be mapped from files: what a walk does not touch is never read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from leanrag_engine.core.graphs.graph import Graph
from leanrag_engine.core.model import Chunk, ChunkHead, Entity, Hit
from leanrag_engine.core.text.language.names import name_key

Ids = NDArray[np.bytes_]
"""Ids in ascending order."""

Nodes = NDArray[np.intp]


class Edges(NamedTuple):
    """Edges in columns: their nodes, kinds and strengths, each (m,)."""

    near: NDArray[np.int32]
    far: NDArray[np.int32]
    kinds: NDArray[np.uint8]
    strengths: NDArray[np.float64]


class EdgeKind(IntEnum):
    """Why two nodes are joined: ranking gives each kind its weight."""

    MENTION = 0
    """A chunk and a layer-0 entity that it mentions; strength 1."""
    TITLE = 1
    """A mention where the chunk's document is named after the entity; strength 1."""
    RELATION = 2
    """Two layer-0 entities; strength 1 + ln(mentions)."""
    PARENT = 3
    """An entity and a parent of it (the second-best too); strength is the responsibility."""
    INTER_CLUSTER = 4
    """Two aggregated entities; strength ln(1 + λ)."""


@dataclass(frozen=True, slots=True)
class Adjacency:
    """Every edge in both directions, in compressed rows.

    The edges of node ``n`` are ``targets``, ``kinds`` and ``strengths`` from ``offsets[n]`` to
    ``offsets[n + 1]``. ``layers`` and ``parents`` (places among the entities; −1 for the root) stand beside
    ``entity_ids``: the tree without the second-best parents. A fact is a distinct description of base relations, known by the id of the first
    relation that bears it; ``fact_ends`` are the nodes of all entities that it joins, in rows likewise.
    """

    chunk_ids: Ids
    entity_ids: Ids
    layers: NDArray[np.uint8]
    parents: NDArray[np.int32]
    offsets: NDArray[np.int64]
    targets: NDArray[np.int32]
    kinds: NDArray[np.uint8]
    strengths: NDArray[np.float32]
    fact_ids: Ids
    fact_offsets: NDArray[np.int64]
    fact_ends: NDArray[np.int32]

    @classmethod
    def of(
        cls,
        layers: Sequence[Graph],
        chunks: Iterable[Chunk | ChunkHead],
        name_keys: Mapping[str, str] = MappingProxyType({}),
    ) -> Self:
        """Build from the layers G0 … Gk and the chunks that they were built from. O(n log n).

        ``name_keys`` are keys of names, as far as they are known: making one takes longer than anything else here.
        """
        titles = {chunk.id: chunk.title for chunk in chunks}
        keys = {title: name_key(title) for title in titles.values()}
        titles = {id_: keys[title] for id_, title in titles.items()}
        chunk_ids = sorted(titles)
        layer_of = {entity.id: number for number, layer in enumerate(layers) for entity in layer.entities}
        entity_ids = sorted(layer_of)
        node = {id_: number for number, id_ in enumerate(chain(chunk_ids, entity_ids))}
        rows = _rows(_edges(layers, titles, node, name_keys), len(node))
        return cls(
            _ids(chunk_ids),
            _ids(entity_ids),
            np.array([layer_of[id_] for id_ in entity_ids], dtype=np.uint8),
            _parents(layers, {id_: place for place, id_ in enumerate(entity_ids)}),
            *rows,
            *_fact_rows(layers[0] if layers else Graph((), ()), node),
        )

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self | None:
        """Return what :meth:`arrays` gave; None if something is missing: another version wrote it."""
        names = [each.name for each in fields(cls)]
        return cls(**{name: arrays[name] for name in names}) if set(names) == set(arrays) else None

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @property
    def nodes(self) -> int:
        return len(self.offsets) - 1

    def chunk_nodes(self, ids: Sequence[str]) -> Nodes:
        """Return the nodes of chunks; −1 for one that the build did not know."""
        return _places(self.chunk_ids, ids)

    def entity_nodes(self, ids: Sequence[str]) -> Nodes:
        """Return the nodes of entities; −1 for one that is not of this generation."""
        places = _places(self.entity_ids, ids)
        return np.where(places < 0, -1, places + len(self.chunk_ids))

    def is_known_chunk(self, nodes: Nodes) -> NDArray[np.bool_]:
        """Return which of ``nodes`` are chunks in which the graph knows an entity."""
        chunks = (nodes >= 0) & (nodes < len(self.chunk_ids))
        return chunks & (self.offsets[nodes] < self.offsets[nodes + 1])

    def chunks_at(self, nodes: Nodes) -> list[str]:
        """Return the ids of chunks."""
        return [str(id_, "ascii") for id_ in self.chunk_ids[nodes].tolist()]

    def base_nodes(self, ids: Sequence[str], allowed: NDArray[np.bool_] | None = None) -> Nodes:
        """Return as :meth:`entity_nodes` does, and −1 also for aggregated entities and those that no ``allowed`` chunk mentions."""
        nodes = self.entity_nodes(ids)
        if not len(self.layers):
            return nodes
        base = (nodes >= 0) & (self.layers[nodes - len(self.chunk_ids)] == 0)
        if allowed is not None:
            mentioned = [
                known and self._is_mentioned(node, allowed) for node, known in zip(nodes, base, strict=True)
            ]
            base = np.array(mentioned, dtype=bool)
        return np.where(base, nodes, -1)

    def _is_mentioned(self, node: int, allowed: NDArray[np.bool_]) -> bool:
        near = self.targets[self.offsets[node] : self.offsets[node + 1]]
        return bool(allowed[near[near < len(self.chunk_ids)]].any())

    def ancestors(self, ids: Sequence[str]) -> list[str]:
        """Return the ids of all ancestors of entities, those of the lower layers first."""
        found: dict[int, None] = {}
        places = [place for place in _places(self.entity_ids, ids).tolist() if place >= 0]
        # Not `np.unique`: its first call imports masked arrays, which takes 2 % of the time of `leanrag query`.
        while places := sorted({*self.parents[places].tolist()} - {-1}):
            found |= dict.fromkeys(places)
        return [str(self.entity_ids[place], "ascii") for place in found]

    def entities_in(self, chunk_ids: Sequence[str]) -> list[str]:
        """Return the ids of the layer-0 entities that any of these chunks mentions."""
        nodes = self.chunk_nodes(chunk_ids)
        rows = [self.targets[self.offsets[node] : self.offsets[node + 1]] for node in nodes if node >= 0]
        found = np.unique(np.concatenate(rows)) if rows else np.empty(0, dtype=np.int32)
        return [str(id_, "ascii") for id_ in self.entity_ids[found - len(self.chunk_ids)].tolist()]

    def ends(self, fact_id: str) -> Nodes:
        """Return the nodes that a fact joins; none if it is not of this generation."""
        place = int(_places(self.fact_ids, [fact_id])[0])
        if place < 0:
            return np.empty(0, dtype=np.intp)
        return self.fact_ends[self.fact_offsets[place] : self.fact_offsets[place + 1]].astype(np.intp)

    def existing_facts(self, hits: Iterable[Hit]) -> list[Hit]:
        """Return those of ``hits`` that are facts of this generation."""
        found = list(hits)
        places = _places(self.fact_ids, [hit.id for hit in found])
        return [hit for hit, place in zip(found, places.tolist(), strict=True) if place >= 0]


def _ids(ids: Sequence[str]) -> Ids:
    return np.array([id_.encode("ascii") for id_ in ids], dtype=np.bytes_)


def _places(ids: Ids, wanted: Sequence[str]) -> Nodes:
    if not len(ids) or not wanted:
        return np.full(len(wanted), -1, dtype=np.intp)
    keys = np.array([id_.encode("ascii", "replace") for id_ in wanted], dtype=np.bytes_)
    places = np.minimum(np.searchsorted(ids, keys), len(ids) - 1)
    return np.where(ids[places] == keys, places, -1)


def _edges(
    layers: Sequence[Graph],
    titles: Mapping[str, str],
    node: Mapping[str, int],
    name_keys: Mapping[str, str],
) -> Edges:
    found = [_mentions((), titles, node, name_keys)]
    for number, layer in enumerate(layers):
        own = np.array([node[entity.id] for entity in layer.entities], dtype=np.int32)
        found.append(_mentions(layer.entities, titles, node, name_keys))
        found.append(
            _parent_edges(own, [(each.parent_id, each.responsibility) for each in layer.entities], node)
        )
        found.append(
            _parent_edges(
                own, [(each.second_parent_id, each.second_responsibility) for each in layer.entities], node
            )
        )
        counts = [each.strength if number else max(each.weight, 1) for each in layer.relations]
        strengths = np.log1p(counts) if number else 1.0 + np.log(np.array(counts, dtype=np.float64))
        kind = EdgeKind.INTER_CLUSTER if number else EdgeKind.RELATION
        near, far = own[layer.ends].T
        found.append(Edges(near, far, np.full(len(near), kind, dtype=np.uint8), strengths))
    return Edges(*map(np.concatenate, zip(*found, strict=True)))


def _mentions(
    entities: Sequence[Entity],
    titles: Mapping[str, str],
    node: Mapping[str, int],
    name_keys: Mapping[str, str],
) -> Edges:
    found = [each for each in entities if each.chunk_ids]
    lengths = [len(each.chunk_ids) for each in found]
    rows = np.repeat(np.arange(len(found)), lengths)
    # Chunks come first among the nodes. What is no chunk any more has no node.
    far = _nodes([node.get(id_, -1) for each in found for id_ in each.chunk_ids])
    _, first = np.unique(rows * (len(titles) + 1) + far, return_index=True)
    chosen = np.sort(first[far[first] >= 0])
    rows, far = rows[chosen], far[chosen]
    own = _nodes([node[each.id] for each in found])
    numbers = {key: number for number, key in enumerate(titles.values())}
    named = _nodes([numbers.get(name_keys.get(each.name) or name_key(each.name), -1) for each in found])
    titled = np.empty(len(titles), dtype=np.int32)
    titled[[node[id_] for id_ in titles]] = [numbers[key] for key in titles.values()]
    kinds = np.where(titled[far] == named[rows], EdgeKind.TITLE, EdgeKind.MENTION).astype(np.uint8)
    return Edges(own[rows], far, kinds, np.ones(len(far)))


def _parent_edges(
    own: NDArray[np.int32], parents: Sequence[tuple[str | None, float]], node: Mapping[str, int]
) -> Edges:
    far = _nodes([node.get(parent or "", -1) for parent, _ in parents])
    known = far >= 0
    strengths = np.array([strength for _, strength in parents], dtype=np.float64)[known]
    return Edges(own[known], far[known], np.full(len(strengths), EdgeKind.PARENT, dtype=np.uint8), strengths)


def _nodes(found: Sequence[int]) -> NDArray[np.int32]:
    return np.array(found, dtype=np.int32)


def _parents(layers: Sequence[Graph], places: Mapping[str, int]) -> NDArray[np.int32]:
    parents = np.full(len(places), -1, dtype=np.int32)
    for layer in layers:
        for entity in layer.entities:
            if entity.parent_id is not None:
                parents[places[entity.id]] = places[entity.parent_id]
    return parents


def _rows(
    edges: Edges, nodes: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.uint8], NDArray[np.float32]]:
    source, target = np.concatenate([edges.near, edges.far]), np.concatenate([edges.far, edges.near])
    order = np.argsort(source, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(source, minlength=nodes))]).astype(np.int64)
    kinds, strengths = np.tile(edges.kinds, 2)[order], np.tile(edges.strengths, 2)[order]
    return offsets, target[order], kinds.astype(np.uint8), strengths.astype(np.float32)


def _fact_rows(base: Graph, node: Mapping[str, int]) -> tuple[Ids, NDArray[np.int64], NDArray[np.int32]]:
    """Return the ids of all facts, and in compressed rows the nodes that each joins, each once in order of appearance."""
    places: dict[str, int] = {}
    firsts = [places.setdefault(each.description, place) for place, each in enumerate(base.relations)]
    places.pop("", None)
    ids = {base.relations[place].id: place for place in places.values()}
    ordered = sorted(ids)
    ranks = np.full(len(firsts), -1, dtype=np.int64)
    ranks[[ids[id_] for id_ in ordered]] = np.arange(len(ordered))
    own = _nodes([node[each.id] for each in base.entities])
    facts = np.repeat(ranks[np.array(firsts, dtype=np.intp)], 2)
    ends = own[base.ends].ravel()
    _, first = np.unique(facts * len(node) + ends, return_index=True)
    chosen = np.sort(first[facts[first] >= 0])
    facts, ends = facts[chosen], ends[chosen]
    offsets = np.concatenate([[0], np.cumsum(np.bincount(facts, minlength=len(ordered)))]).astype(np.int64)
    return _ids(ordered), offsets, ends[np.argsort(facts, kind="stable")]
