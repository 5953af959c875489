"""Small corpora in the real stores, and what they are asked with."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from leanrag_engine.adapters.chroma.store import ChromaVectorStore
from leanrag_engine.adapters.sql import SqlDatabase
from leanrag_engine.adapters.sql.dialect.sqlite.opening import FILE
from leanrag_engine.core.graphs.graph import GenerationContent, Graph, Hierarchy
from leanrag_engine.core.graphs.texts import list_sentences
from leanrag_engine.core.history import Publication
from leanrag_engine.core.model import (
    BuildRecord,
    Chunk,
    Entity,
    LoadedDocument,
    ReadDocument,
    Relation,
    VectorSpaces,
)
from leanrag_engine.hierarchy.health import count_methods
from leanrag_engine.retrieval.graph.adjacency_cache import make_adjacency
from leanrag_engine.retrieval.index import IndexSnapshot


@dataclass
class Corpus:
    """Texts by title, and the hierarchy over what they mention; ``index()`` makes both searchable.

    The last ``pending`` texts came in after the build. The stores are made once; a test that writes to them takes a
    corpus of its own (``make_corpus``).
    """

    stores: StoreFactory
    texts: Mapping[str, str]
    hierarchy: Hierarchy | None = None
    metadata: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    pending: int = 0
    snapshot: IndexSnapshot | None = None

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
                tokens=self.stores.tokenizer.count(text),
                citation=f"d{number}:c1",
                title=title,
            )
            for number, (title, text) in enumerate(self.texts.items(), start=1)
        ]

    async def index(self) -> IndexSnapshot:
        if self.snapshot is None:
            self.snapshot = await self.stores.fill(self)
        return self.snapshot


class StoreFactory:
    """Gives each corpus a database, and vector spaces of its own in one vector store."""

    def __init__(self, folder: Path, vectors: ChromaVectorStore, words: Any) -> None:
        self._folder = folder
        self._vectors = vectors
        self._words = words
        self._databases: list[SqlDatabase] = []
        self.tokenizer = words.WordTokenizer()

    async def fill(self, corpus: Corpus) -> IndexSnapshot:
        folder = self._folder / f"corpus-{len(self._databases)}"
        database = await self._open(folder)
        await database.documents.create_collection("default")
        chunks = corpus.chunks
        built = len(chunks) - corpus.pending
        await self._put(database, corpus, chunks[:built])
        embedder = spaces = adjacency = None
        if corpus.hierarchy:
            embedder = self._words.WordEmbedder([chunk.indexed_text for chunk in chunks])
            written = len(list_sentences(corpus.hierarchy.layers))
            record = BuildRecord(vectors={"sentences": written}, methods=count_methods(corpus.hierarchy))
            content = GenerationContent(corpus.hierarchy, "words", embedder.dimension, b"", record)
            await database.generations.publish("default", built, content, Publication())
            spaces = await self._embed(embedder, folder.name, chunks, corpus.hierarchy)
            adjacency = make_adjacency(corpus.hierarchy.layers, chunks)
        await self._put(database, corpus, chunks[built:])
        _set_dates(folder)
        collection = await database.documents.collection("default")
        assert collection is not None
        return IndexSnapshot(
            documents=database.documents,
            generations=database.generations,
            vectors=self._vectors,
            embedder=embedder,
            tokenizer=self.tokenizer,
            collection=collection,
            spaces=spaces,
            adjacency=adjacency,
        )

    async def close(self) -> None:
        for database in self._databases:
            await database.close()
        await self._vectors.close()

    async def _open(self, folder: Path) -> SqlDatabase:
        folder.mkdir()
        database = await SqlDatabase.open(folder, read_only=False)
        self._databases.append(database)
        return database

    async def _put(self, database: SqlDatabase, corpus: Corpus, chunks: Sequence[Chunk]) -> None:
        for chunk in chunks:
            labels = corpus.metadata.get(chunk.title, {})
            document = LoadedDocument(
                chunk.document_id, chunk.title, chunk.text, "text/plain", metadata=labels
            )
            await database.documents.put_all("default", [ReadDocument(document, [chunk], [])])

    async def _embed(
        self, embedder: Any, prefix: str, chunks: Sequence[Chunk], hierarchy: Hierarchy
    ) -> VectorSpaces:
        spaces = VectorSpaces(
            *(f"{prefix}-{kind}" for kind in ("windows", "entities", "aggregates", "facts", "sentences"))
        )
        base, *above = hierarchy.layers
        texts = {
            spaces.windows: [window for chunk in chunks for window in chunk.indexed_windows],
            spaces.entities: [(each.id, each.indexed_text) for each in base.entities],
            spaces.aggregates: [(each.id, each.indexed_text) for layer in above for each in layer.entities],
            spaces.facts: base.facts(),
            spaces.sentences: list_sentences(hierarchy.layers),
        }
        for space, pairs in texts.items():
            rows = await embedder.embed([text for _, text in pairs])
            await self._vectors.upsert(space, [id_ for id_, _ in pairs], rows)
        return spaces


def _set_dates(folder: Path) -> None:
    """Date document number N to the Nth of January 2026."""
    with closing(sqlite3.connect(folder / FILE)) as connection, connection:
        connection.execute("UPDATE documents SET date = printf('2026-01-%02d', number)")


class CallCounter:
    """A store whose calls are counted by name in ``calls``."""

    def __init__(self, store: Any, calls: Counter[str]) -> None:
        self._store = store
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        self._calls[name] += 1
        return getattr(self._store, name)


@pytest.fixture(scope="session")
def count_calls() -> type[CallCounter]:
    return CallCounter


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
def stores(tmp_path_factory: pytest.TempPathFactory, word_doubles: Any) -> Iterator[StoreFactory]:
    # Not an asynchronous fixture: of this scope it would hold an event loop over all tests that follow.
    folder = tmp_path_factory.mktemp("corpora")
    factory = StoreFactory(folder, ChromaVectorStore(folder / "vectors"), word_doubles)
    yield factory
    anyio.run(factory.close)


@pytest.fixture(scope="session")
def make_corpus(stores: StoreFactory) -> partial[Corpus]:
    """For tests that need texts of their own, or write."""
    return partial(Corpus, stores)


@pytest.fixture(scope="session")
def corpus(make_corpus: partial[Corpus]) -> Corpus:
    """Seven documents of one chunk each, fifteen entities in four layers."""
    return make_corpus(
        TEXTS,
        known_hierarchy(TEXTS),
        {title: {"field": "food" if title in ("Sourdough", "Brewing") else "astronomy"} for title in TEXTS},
    )


@pytest.fixture(scope="session")
def unbuilt(make_corpus: partial[Corpus]) -> Corpus:
    """The same documents before the first build."""
    return make_corpus(TEXTS)


@pytest.fixture(scope="session")
def tokenizer(word_doubles: Any) -> Any:
    return word_doubles.WordTokenizer()
