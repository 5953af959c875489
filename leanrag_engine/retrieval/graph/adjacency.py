"""A generation's graph as compact arrays: who is joined to whom, ready to be walked without a query to a
store. Nodes are numbered: first the chunks, then the entities of every layer, each in the order of their ids.
The arrays may be mapped from files: what a walk does not touch is never read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from leanrag_engine.core.graphs.graph import Digests
from leanrag_engine.core.graphs.rows import Ids

Nodes = NDArray[np.intp]


class EdgeKind(IntEnum):
    """Why two nodes are joined: ranking gives each kind its weight."""

    MENTION = 0  # A chunk and a layer-0 entity that it mentions; strength 1
    TITLE = 1  # A mention where the chunk's document is named after the entity; strength 1
    RELATION = 2  # Two layer-0 entities; strength 1 + ln(mentions)


@dataclass(frozen=True, slots=True)
class Adjacency:
    """Every edge in both directions, in compressed rows.

    The edges of node ``n`` are ``targets``, ``kinds`` and ``strengths`` from ``offsets[n]`` to
    ``offsets[n + 1]``. The mentions of an entity come first. ``titles`` and ``title_keys`` stand beside ``chunk_ids``: digests of
    the title of the document and of its key as a name. ``layers`` and ``parents`` (places among the entities; −1 for the root) stand beside
    ``entity_ids``: the tree without the second-best parents; ``incomplete`` tells which cite chunks that do not exist.
    """

    chunk_ids: Ids
    titles: Digests
    title_keys: Digests
    entity_ids: Ids
    layers: NDArray[np.uint8]
    parents: NDArray[np.int32]
    incomplete: NDArray[np.bool_]
    offsets: NDArray[np.int64]
    targets: NDArray[np.int32]
    kinds: NDArray[np.uint8]
    strengths: NDArray[np.float32]

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self | None:
        """Return what :meth:`arrays` gave; None if something is missing or of another length: another version wrote it."""
        names = [each.name for each in fields(cls)]
        if set(names) != set(arrays):
            return None
        made = cls(**{name: arrays[name] for name in names})
        return made if made._fits() else None

    def _fits(self) -> bool:
        """Return whether the lengths of the arrays belong together."""
        chunks, entities = len(self.chunk_ids), len(self.entity_ids)
        if len(self.offsets) != chunks + entities + 1:
            return False
        edges = int(self.offsets[-1])
        columns = (
            *((each, chunks) for each in (self.titles, self.title_keys)),
            *((each, entities) for each in (self.layers, self.parents, self.incomplete)),
            *((each, edges) for each in (self.targets, self.kinds, self.strengths)),
        )
        return all(len(each) == length for each, length in columns)

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
        return [str(id_, "ascii") for id_ in self.chunk_ids[nodes].tolist()]

    def base_nodes(self, ids: Sequence[str], allowed: NDArray[np.bool_] | None = None) -> Nodes:
        """Return as :meth:`entity_nodes` does, and −1 also for aggregated entities and those that no ``allowed`` chunk mentions."""
        nodes = self.entity_nodes(ids)
        if not len(self.layers):
            return nodes
        base = (nodes >= 0) & (self.layers[np.maximum(nodes - len(self.chunk_ids), 0)] == 0)
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

    def find_named_by(self, chunk_id: str) -> dict[str, int]:
        """Return the chunks of documents that are named after an entity that this chunk mentions, each with how many chunks
        mention that entity."""
        (node,) = self.chunk_nodes([chunk_id]).tolist()
        found: dict[str, int] = {}
        for entity in self.targets[self.offsets[node] : self.offsets[node + 1]].tolist() if node >= 0 else ():
            row = slice(self.offsets[entity], self.offsets[entity + 1])
            kinds = self.kinds[row]
            mentions = int((kinds != EdgeKind.RELATION).sum())
            for each in self.chunks_at(self.targets[row][kinds == EdgeKind.TITLE]):
                found[each] = min(mentions, found.get(each, mentions))
        return found


def _places(ids: Ids, wanted: Sequence[str]) -> Nodes:
    if not len(ids) or not wanted:
        return np.full(len(wanted), -1, dtype=np.intp)
    keys = np.array([id_.encode("ascii", "replace") for id_ in wanted], dtype=np.bytes_)
    places = np.minimum(np.searchsorted(ids, keys), len(ids) - 1)
    return np.where(ids[places] == keys, places, -1)
