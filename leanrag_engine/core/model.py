"""The nouns of LeanRAG: frozen values that each stage passes to the next. Vectors accompany a sequence of
nouns as one ``(n, d)`` float32 array. Ids are derived from content: a second run is a no-op."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from itertools import product
from operator import add, attrgetter
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeAlias, TypedDict

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
"""An ``(n, d)`` array of L2-normalised rows, one for each item of the sequence beside it."""

PackedTokens = NDArray[np.uint8]
"""The tokens of a text that say something, ``(n, 2 + d / 8)``: each one's number in the vocabulary of its embedder in two bytes,
the lower one first, and the signs of its vector, a bit each."""


@dataclass(frozen=True, slots=True, eq=False)
class QueryTokens:
    """The tokens of a question that say something: their numbers ``(n,)`` and L2-normalised vectors ``(n, d)``."""

    numbers: NDArray[np.uint16]
    vectors: Vectors


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddedQueries:
    """A row for each query, ``(n, d)``, and its tokens, from an embedder that has vectors of tokens."""

    rows: Vectors
    tokens: Sequence[QueryTokens] = ()


Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
"""A value that JSON can hold. What was read from outside is checked with ``isinstance`` before it is used."""

JsonObject: TypeAlias = Mapping[str, Json]

CheckedObject: TypeAlias = Mapping[str, Any]
"""A JSON object whose form a JSON schema has checked: its fields are used as the schema has them."""


class JsonSchema(TypedDict, total=False):
    """The part of JSON Schema in which answers of models and agents are described."""

    title: str
    description: str
    type: str
    properties: Mapping[str, JsonSchema]
    required: Sequence[str]
    additionalProperties: bool
    items: JsonSchema
    enum: Sequence[str | int]
    pattern: str
    maxLength: int
    minItems: int
    maxItems: int
    minimum: int
    maximum: int


NO_METADATA: Mapping[str, str] = MappingProxyType({})

_NO_CODE = frozenset({"text/x-chat", "text/x-hcl", "text/x-ini", "text/x-log", "text/x-rst", "text/x-tex"})


_DAY = re.compile(r"\d{4}-\d\d-\d\d$")
FILE_TIME = "file time"  # The origin of a date that a copy or a download may have set


def is_code(media_type: str) -> bool:
    """Return whether a document of this kind is source code: the headings of its windows are lines of it, as they are written."""
    return media_type.startswith("text/x-") and media_type not in _NO_CODE


_BASE_32 = "abcdefghijklmnopqrstuvwxyz234567"
_PAIRS = ["".join(letters) for letters in product(_BASE_32, repeat=2)]
"""10 bits in base 32. Pairs halve the time of an id, and a build makes a million of them."""


def content_id(prefix: str, *parts: str) -> str:
    """Return a short stable id: ``prefix`` and 12 base-32 characters (60 bits) of the digest of ``parts``."""
    text = "\x00".join((*parts, ""))
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=10).digest()
    bits = int.from_bytes(digest[:8], "big") >> 4
    high = f"{_PAIRS[bits >> 50]}{_PAIRS[bits >> 40 & 0x3FF]}{_PAIRS[bits >> 30 & 0x3FF]}"
    return f"{prefix}{high}{_PAIRS[bits >> 20 & 0x3FF]}{_PAIRS[bits >> 10 & 0x3FF]}{_PAIRS[bits & 0x3FF]}"


def window_id(chunk_id: str, number: int) -> str:
    """Return the id of window ``number`` (from 0) of a chunk."""
    return f"{chunk_id}#{number}"


def parse_window_id(id: str) -> tuple[str, int]:
    """Return the chunk and the number of a window."""
    chunk_id, _, number = id.partition("#")
    return chunk_id, int(number)


class Method(StrEnum):
    """How a text was made. Every extract, description and relation records it."""

    HEURISTIC = "heuristic"
    MODEL = "model"
    AGENT = "agent"
    JOINED = "joined"
    """The joined texts of the relations beneath (paper eq. 5, λ ≤ τ)."""
    IMPORTED = "imported"
    """Taken over from the graph of another program."""

    @property
    def written(self) -> bool:
        """Whether a model or an agent wrote the text, here or elsewhere: heuristic texts quote the documents."""
        return self in (Method.MODEL, Method.AGENT, Method.IMPORTED)


METHODS: Mapping[str, Method] = {each.value: each for each in Method}
"""By name: calling the class takes several times as long, and a build has a million of them."""


# --- documents -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DocumentSource:
    """A document to ingest: exactly one of ``path`` and ``text``. ``id`` is the caller's, by default the
    resolved path or the text's digest; another content replaces it."""

    path: str = ""
    text: str | None = None
    title: str = ""
    id: str = ""
    metadata: Mapping[str, str] = field(default_factory=lambda: NO_METADATA)


@dataclass(frozen=True, slots=True)
class Page:
    """Where page ``number`` (from 1) starts in the text of its document."""

    number: int
    start: int


@dataclass(frozen=True, slots=True)
class LoadedDocument:
    """A source after reading: plain text whose offsets every chunk and citation refer to."""

    id: str
    title: str
    text: str
    media_type: str
    source: str = ""
    pages: tuple[Page, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=lambda: NO_METADATA)
    date: str = ""
    """When it was written: an ISO date as precise as its source (``2024-03-01``, ``2024-03``, ``2024``); "" if unknown."""
    date_origin: str = ""
    """Where the date was found: metadata, title, file name, file properties or file time."""
    file_stamp: str = ""
    """Size and time of the file that was read; "" for a text, and for a file that may have changed since unnoticed."""
    file_digest: str = ""
    """A digest of the bytes of the file that was read; "" for a text."""
    first_line: int = 0
    """The line of the file, from 1, on which the text begins; 0 if the lines of the text are not those of a file."""

    @property
    def digest(self) -> str:
        """Return a digest; if it is equal, ingesting again would change nothing."""
        labels = [f"{key}={value}" for key, value in sorted(self.metadata.items())]
        # Windows of code that were cut before had no signatures.
        cutting = ["signatures"] if is_code(self.media_type) else []
        return content_id("", self.title, self.text, str(self.first_line), *labels, *cutting)


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """A document with its chunks, and an extract for each."""

    document: LoadedDocument
    chunks: Sequence[Chunk]
    extracts: Sequence[Extract]


@dataclass(frozen=True, slots=True)
class Document:
    """A document in the graph store. ``number`` counts from 1 within the collection and is never reused: citations start with
    it. It stays when the content is replaced. ``added`` is the collection's revision that brought the document, ``revision``
    the one that brought this content. ``date``, ``file_stamp`` and ``file_digest`` are those of :class:`LoadedDocument`."""

    id: str
    number: int
    title: str
    source: str
    media_type: str
    digest: str
    characters: int
    chunks: int
    added: int
    revision: int
    ingested_at: datetime
    metadata: Mapping[str, str] = field(default_factory=lambda: NO_METADATA)
    date: str = ""
    date_origin: str = ""
    file_stamp: str = ""
    file_digest: str = ""

    @property
    def own_date(self) -> str:
        """The document's date, "" if that is only the time of its file."""
        return "" if self.date_origin == FILE_TIME else self.date


class _Sent:
    """Pickled by its fields in order: as a dataclass with slots does it by itself, most of the time of a message goes there."""

    __slots__ = ()
    __match_args__: ClassVar[tuple[str, ...]]

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        return type(self), attrgetter(*self.__match_args__)(self)


@dataclass(frozen=True, slots=True)
class Window(_Sent):
    """A few sentences of a chunk: ``document.text[start:end]``, under the path of headings ``heading``. In source
    code (:func:`is_code`) ``heading`` holds the signatures that the window lies within, outermost first, as they are
    written. Search finds windows, and contexts are made of them; extraction and citations are by chunk."""

    start: int
    end: int
    heading: str = ""


@dataclass(frozen=True, slots=True)
class Chunk(_Sent):
    """A passage of a document: ``text == document.text[start:end]``, offsets in characters.

    ``id`` is made of the text, its headings and its windows, so it stays when other parts of the document change.
    ``number`` is the place in the document, from 1. ``citation`` (``d3:c12``) is filled in by the store. ``title``,
    ``source``, ``media_type``, ``date`` and ``date_origin`` are those of its document; the number in a citation stays with the chunk and is never reused. ``windows``
    are in reading order and leave out the text that the chunk shares with the previous one. ``pages`` are those of its text, the
    first one cut off at its start; empty where the file has no pages. ``line``, from 1, is where it begins in the file, None
    where the file has no lines.
    """

    id: str
    document_id: str
    number: int
    text: str
    start: int
    end: int
    tokens: int
    pages: tuple[Page, ...] = ()
    heading: str = ""
    citation: str = ""
    title: str = ""
    source: str = ""
    windows: tuple[Window, ...] = ()
    line: int | None = None
    media_type: str = ""
    date: str = ""
    date_origin: str = ""

    def __post_init__(self) -> None:
        if not self.windows:
            object.__setattr__(self, "windows", (Window(self.start, self.end, self.heading),))

    def quote(self, window: Window) -> str:
        """Return the text of one of the chunk's windows."""
        return self.text[window.start - self.start : window.end - self.start]

    def next_window(self, number: int) -> tuple[int, int]:
        """Return the number of the chunk and of the window after window ``number``, which the document may not have."""
        return (self.number, number + 1) if number + 1 < len(self.windows) else (self.number + 1, 0)

    def line_at(self, offset: int) -> int | None:
        """Return the line of the file, from 1, that the character ``offset`` of the document is on; None if it has none."""
        return self.line and self.line + self.text.count("\n", 0, offset - self.start)

    def page_at(self, offset: int) -> int | None:
        """Return the page of the file, from 1, that the character ``offset`` of the document is on; None if it has none."""
        return next((page.number for page in reversed(self.pages) if page.start <= offset), None)

    def window_place(self, number: int) -> tuple[str, tuple[int, int]]:
        """Return the chunk's id, and start and end of a window in its text."""
        window = self.windows[number]
        return self.id, (window.start - self.start, window.end - self.start)

    def cut(self, first: int, last: int) -> Chunk:
        """Return the chunk with the characters ``[first, last)`` of its text only, and where these begin in the file."""
        start = self.start + first
        text = self.text[first:last]
        return replace(self, text=text, start=start, end=start + len(text), line=self.line_at(start))

    @property
    def own_date(self) -> str:
        """The document's date, "" if that is only the time of its file."""
        return "" if self.date_origin == FILE_TIME else self.date

    def days(self, number: int | None = None) -> list[str]:
        """Return the days that head the windows of a conversation, or its window ``number``."""
        windows = self.windows if number is None else self.windows[number : number + 1]
        return [day[0] for each in windows if (day := _DAY.search(each.heading))]

    @property
    def place(self) -> tuple[int, int]:
        """Return the document's number (0 before it is stored) and the place in it: by them chunks are in reading order."""
        document = self.citation.partition(":")[0].removeprefix("d")
        return int(document) if document.isdigit() else 0, self.number

    @property
    def indexed_windows(self) -> list[tuple[str, str]]:
        """Return id and embedded text of each window: title, headings and text."""
        return [
            (window_id(self.id, number), _label_text(self.title, window.heading, self.quote(window)))
            for number, window in enumerate(self.windows)
        ]

    @property
    def indexed_text(self) -> str:
        """Return title, heading and text."""
        return _label_text(self.title, self.heading, self.text)


def _label_text(title: str, heading: str, text: str) -> str:
    return "\n".join(filter(None, (title, heading if heading != title else "", text)))


class ChunkHead(NamedTuple):
    """A chunk without its text: a small update reads all of these. ``title`` is that of its document."""

    id: str
    document_id: str
    number: int
    title: str


@dataclass(frozen=True, slots=True)
class PassageText:
    """The text of a chunk and its place, without what else a chunk knows: many of these are read at once."""

    document: int  # The document's number
    number: int
    label: int  # The number in citations
    start: int
    tokens: int
    text: str

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def join_passages(parts: Sequence[PassageText | Chunk], start: int | None = None) -> str:
    """Return the text of consecutive passages from ``start``, by default that of the first one, what they share once.
    Between passages a document has white space only: here it is as many line breaks."""
    position = parts[0].start if start is None else start
    pieces: list[str] = []
    for part in parts:
        pieces.append("\n" * (part.start - position))
        pieces.append(part.text[max(0, position - part.start) :])
        position = max(position, part.end)
    return "".join(pieces)


# --- G0 ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ExtractedAttribute:
    """What one chunk says of an entity's attribute, such as a date of birth. ``confidence``: see ``ExtractedEntity``."""

    name: str
    value: str
    confidence: float = 0.0


@dataclass(frozen=True, slots=True)
class ExtractedEntity(_Sent):
    """An entity in one chunk, with its other names in the document. Only extraction with a schema gives
    ``attributes`` and ``confidence``: from 0 to 1, how sure a type outside it is needed."""

    name: str
    type: str = "concept"
    description: str = ""
    aliases: tuple[str, ...] = ()
    attributes: tuple[ExtractedAttribute, ...] = ()
    confidence: float = 0.0


@dataclass(frozen=True, slots=True)
class ExtractedRelation(_Sent):
    """A relation between named entities of one extract. ``importance`` is a model's rating from 1 to 10, 0
    for none; only a schema gives ``type`` and ``confidence``."""

    source: str
    target: str
    description: str = ""
    importance: float = 0.0
    type: str = ""
    confidence: float = 0.0


@dataclass(frozen=True, slots=True)
class Extract(_Sent):
    """The entities and relations of one chunk, of which G0 is a pure function. ``schema`` is the digest of its author's schema."""

    chunk_id: str
    method: Method
    entities: tuple[ExtractedEntity, ...] = ()
    relations: tuple[ExtractedRelation, ...] = ()
    schema: str = ""


class ExtractState(NamedTuple):
    """Which extract it is, without its content: numbers of ``document`` and ``chunk`` as in citations,
    ``position`` among several of a chunk, and ``stamp``, which changes with the content."""

    document: int
    chunk: int
    position: int
    stamp: int
    chunk_id: str
    document_id: str


# --- schemas of extraction -----------------------------------------------------------------

TypeKind = Literal["entity", "relation", "attribute"]
TYPE_KINDS: tuple[TypeKind, ...] = ("entity", "relation", "attribute")


@dataclass(frozen=True, slots=True)
class ExtractionSchema:
    """The types that constrain the extraction of a collection (Youtu §1), by name, each with a description or
    "". ``name`` says where it comes from. ``decisions`` of a user about types outside it, by their refs: True
    adopts one, False refuses it. ``adopted``: the refs of such types that the schema was extended by."""

    name: str
    entities: Mapping[str, str]
    relations: Mapping[str, str]
    attributes: Mapping[str, str]
    decisions: Mapping[str, bool] = field(default_factory=dict)
    adopted: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Return a digest of the seed types alone: an extract made with it stays valid when types are adopted."""
        seeds = (self.entities, self.relations, self.attributes)
        lines = [f"{kind} {name}: {text}" for kind, types in enumerate(seeds) for name, text in types.items()]
        return content_id("h", *lines)

    def types(self, kind: TypeKind) -> dict[str, str]:
        """Return the types of one kind with their descriptions, adopted ones last."""
        seeds = {"entity": self.entities, "relation": self.relations, "attribute": self.attributes}[kind]
        added = (ref.partition(":") for ref in self.adopted)
        return {**seeds, **{name: "" for other, _, name in added if other == kind and name not in seeds}}


@dataclass(frozen=True, slots=True)
class TypeProposal:
    """A type outside the schema that models or agents gave: in how many chunks, and in how many with confidence enough."""

    kind: TypeKind
    name: str
    chunks: int
    confident: int
    adopted: bool

    @property
    def ref(self) -> str:
        """Return the reference by which a user adopts or refuses it: ``entity:vessel``."""
        return f"{self.kind}:{self.name}"


@dataclass(frozen=True, slots=True)
class SchemaEffects:
    """What a schema did in a build. ``schema`` and ``digest`` are its name and digest.

    ``proposals`` are the types outside it, adopted ones first, those of most chunks before others; ``unlisted`` are how
    many more there were, none of them adopted. ``apart`` are the entities, relations and attributes, counted by chunk,
    that were kept apart: they are in no graph. ``untyped`` are the mentions of entities found by heuristics whose type
    is none of the schema's, or cannot be told; they are in the graph. ``read_again`` are the chunks that a model had read
    with another schema or none, and read again in this build.
    """

    schema: str
    digest: str
    proposals: tuple[TypeProposal, ...] = ()
    unlisted: int = 0
    apart: int = 0
    untyped: int = 0
    read_again: int = 0

    @property
    def adopted(self) -> tuple[str, ...]:
        return tuple(each.ref for each in self.proposals if each.adopted)

    def shorten(self, most: int) -> SchemaEffects:
        """Return the same with at most so many proposals that were not adopted."""
        listed = self.proposals[: len(self.adopted) + most]
        return replace(self, proposals=listed, unlisted=self.unlisted + len(self.proposals) - len(listed))


@dataclass(frozen=True, slots=True)
class Correction:
    """What a person or an agent has decided about names; G0 is a pure function of extracts and corrections.
    ``merge``: ``names`` are one entity, called ``name``. ``split``: what is called ``names[0]`` is another
    entity, called ``name``, in the documents and chunks of these ids. Names count by their keys
    (:func:`leanrag_engine.core.text.language.names.name_key`). ``number`` is 0 before it is stored."""

    kind: Literal["merge", "split"]
    names: tuple[str, ...]
    name: str
    documents: tuple[str, ...] = ()
    chunks: tuple[str, ...] = ()
    number: int = 0
    created_at: datetime | None = field(default=None, compare=False)

    @property
    def ref(self) -> str:
        """By which a correction is named when it is undone: ``merge-3``."""
        return f"{self.kind}-{self.number}"


@dataclass(frozen=True, slots=True)
class Evidence:
    """The origin of a part of a description: ``description[start:end]`` comes from the chunk."""

    start: int
    end: int
    chunk_id: str


@dataclass(frozen=True, slots=True)
class Attribute:
    """A value of one attribute of an entity, and the chunks that say so, in reading order."""

    name: str
    value: str
    chunk_ids: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name}: {self.value}"


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding about a cluster. ``chunk_ids`` are the chunks that support it, the best first; empty if unknown."""

    summary: str
    explanation: str = ""
    chunk_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Staleness:
    """What changed beneath a written text since: in members of its cluster, those ``joined``, ``left``,
    ``changed`` or only ``cut`` by a deletion; for a sentence, in base relations."""

    joined: int = 0
    left: int = 0
    changed: int = 0
    cut: int = 0

    @property
    def total(self) -> int:
        """The number of changes, 0 if nothing changed."""
        return self.joined + self.left + self.changed + self.cut

    @property
    def gained(self) -> int:
        """The number of changes that may say something new: what is gone took the sentences that rested on it along."""
        return self.joined + self.changed

    def since(self, earlier: Staleness | None) -> Staleness | None:
        """Return these changes with those that were ``earlier`` already; None if there are none at all."""
        if earlier is None:
            return self if self.total else None
        return Staleness(*map(add, astuple(self), astuple(earlier)))

    def __str__(self) -> str:
        return ", ".join(f"{count} {what}" for what, count in asdict(self).items() if count)


@dataclass(frozen=True, slots=True)
class Entity:
    """A node of any layer; above layer 0 an aggregated entity, which represents a cluster.

    ``id`` doubles as the ``ref`` that replies carry. ``mentions`` is the number of chunks that
    mention it (layer 0) or the number of base entities beneath it. ``chunk_ids`` (layer 0 only)
    are the chunks of all its mentions, in reading order. ``members`` is the number of children.
    ``parent_id`` is the node one layer up, ``None`` for the root alone.
    ``second_parent_id`` is the runner-up of the same layer, ``None`` if that layer has no other node. The
    responsibilities are how strongly the entity belongs to either, at most 1 together; the runner-up's
    may be higher if the parent was full. ``evidence`` names the chunk of each part of the
    description, in order; parts that come from no chunk are left out. ``stale`` says what changed beneath a summary
    that a model or an agent wrote since then, None if nothing did. ``statements`` (layer 0 only) is the digest of what the
    description was merged from, so that it need not be merged again while that is the same; "" if it was not merged.
    ``attributes`` (layer 0 only) are ordered by first mention; values that contradict each other are all kept.
    """

    id: str
    name: str
    type: str = "concept"
    layer: int = 0
    description: str = ""
    method: Method = Method.HEURISTIC
    mentions: int = 1
    members: int = 0
    parent_id: str | None = None
    aliases: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    chunk_ids: tuple[str, ...] = ()
    second_parent_id: str | None = None
    responsibility: float = 1.0
    second_responsibility: float = 0.0
    evidence: tuple[Evidence, ...] = ()
    stale: Staleness | None = None
    statements: str = ""
    attributes: tuple[Attribute, ...] = ()

    @property
    def indexed_text(self) -> str:
        """Return the text that is embedded: name, aliases, description and attributes. In place of a heuristic
        description, which consists of sentences of the documents, stand the chunks that they are from."""
        names = " / ".join((self.name, *self.aliases)) if self.aliases else self.name
        said = self.description
        if self.attributes:
            said = "\n".join(filter(None, (said, *map(str, self.attributes))))
        if not said:
            return names
        if self.layer == 0 and self.method is Method.HEURISTIC and self.evidence:
            return SharedText.of(names, [each.chunk_id for each in self.evidence])
        return f"{names}\n{said}"


class SharedText(str):
    """The names of an entity that is embedded beside the windows of chunks, which describe other entities too."""

    __slots__ = ("chunk_ids",)
    chunk_ids: tuple[str, ...]

    @classmethod
    def of(cls, names: str, chunk_ids: Iterable[str]) -> Self:
        text = cls(names)
        text.chunk_ids = tuple(dict.fromkeys(chunk_ids))
        return text


@dataclass(frozen=True, slots=True)
class EntityHead:
    """An entity without its texts: a map of the hierarchy reads all of them at once."""

    id: str
    name: str
    type: str
    layer: int
    mentions: int
    parent_id: str | None


@dataclass(frozen=True, slots=True)
class Relation:
    """An edge between two entities of one layer; at most one for each unordered pair.

    ``strength`` is λ: the number of relations of the layer directly below that join the two
    clusters (1 at layer 0). ``weight`` is the number of mentions (at layer 0) or the sum of the
    weights beneath. ``support`` is the number of distinct base relations beneath (1 at layer 0).
    ``chunk_ids`` (layer 0 only) are the chunks that state it. ``evidence``, ``stale`` and
    ``statements``: as for an entity. ``types`` (layer 0 only) are those of a schema, the most frequent first.
    """

    id: str
    source_id: str
    target_id: str
    layer: int = 0
    description: str = ""
    method: Method = Method.HEURISTIC
    strength: int = 1
    weight: int = 1
    support: int = 1
    chunk_ids: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    stale: Staleness | None = None
    statements: str = ""
    types: tuple[str, ...] = ()


# --- the health of a hierarchy -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Distribution:
    """Minimum, median, mean and maximum of some values, rounded to four digits."""

    least: float
    median: float
    mean: float
    most: float


@dataclass(frozen=True, slots=True)
class LayerHealth:
    """One layer and its clusters. Shares are from 0 to 1.

    ``joined``: share of entities with a relation inside the layer. ``strength``: of the relations, λ above layer 0; those
    with λ > ``tau`` get a text of their own (no τ at layer 0). ``heuristic_entities``: share made without a model.

    Clusters of this layer's entities: ``sizes``; ``tightness``, the mean cosine to the mean of the own cluster;
    ``inside``, the share of relations within a cluster; ``modularity``, by how much the share of G0's relations within
    a cluster exceeds that of random ends; ``islands``, the clusters that a relation leaves but that have no relation
    of their own, which must be 0.
    """

    layer: int
    entities: int
    joined: float
    strength: Distribution
    heuristic_entities: float
    tau: int | None = None
    clusters: int = 0
    sizes: Distribution | None = None
    tightness: float = 0.0
    inside: float = 0.0
    modularity: float = 0.0
    islands: int = 0


@dataclass(frozen=True, slots=True)
class SeedMeetings:
    """Layers at which the seeds of a query have their LCA: ``pairs`` (a seed and the most similar entity) and
    ``sets`` (ten seeds) as shares by layer."""

    pairs: Mapping[int, float]
    sets: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class HierarchyHealth:
    """A whole hierarchy: the options it was built with, its layers and where seeds meet."""

    clustering: str
    cluster_size: int
    cluster_cap: int
    layers: tuple[LayerHealth, ...]
    meetings: SeedMeetings


# --- what is kept --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LayerCount:
    layer: int
    entities: int
    relations: int


@dataclass(frozen=True, slots=True)
class VectorSpaces:
    """The names of a generation's vector spaces: one each for windows, layer-0 entities, aggregates, facts and sentences."""

    windows: str = ""  # Windows of all chunks
    entities: str = ""  # Entities of layer 0
    aggregates: str = ""  # Entities of all layers above 0
    facts: str = ""  # Distinct descriptions of base relations; "" if the build wrote none
    sentences: str = ""  # Sentences that a model or agent wrote about entities, clusters and relations

    @classmethod
    def of_build(cls, collection: Collection, embedder: str, contents: Mapping[str, str]) -> VectorSpaces:
        """Name new spaces of a build by its embedder, a key of what is embedded, and the build before: a
        repeated build finds its own, no other does, as later builds may have changed them in place."""
        before = str(collection.generation.number) if collection.generation else ""
        keys = {kind: content_id("", before, each) for kind, each in contents.items()}
        prefix = f"c{collection.number}"
        return cls(**{kind: f"{prefix}-{kind}-{embedder}-{key}" for kind, key in keys.items()})

    def by_kind(self) -> dict[str, str]:
        """Return the names by kind, without the spaces that do not exist."""
        return {kind: space for kind, space in asdict(self).items() if space}


@dataclass(frozen=True, slots=True)
class MethodCounts:
    """How many entities and relations of a layer were made by which method."""

    layer: int
    entities: Mapping[str, int]
    relations: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class EmbeddingCounts:
    """How many texts a build embedded, and how many vectors it reused from the build before."""

    anew: int = 0
    reused: int = 0


@dataclass(frozen=True, slots=True)
class BuildHistory:
    """How a generation came about: its ``mode`` ("update", "rebuild", "deletion" or "rollback") and the ``reason`` for it.

    ``moved``: entities of G0 that were added or removed since the last rebuild; ``tightness``: mean cosine of G0's
    entities to the mean of their cluster at the last rebuild, against which later builds are compared; ``unknown``: share
    of the collection's words that came since an embedder was fitted on it and that it lacks. ``restored``: of a rollback,
    the generation that was published again.
    """

    mode: str = ""
    reason: str = ""
    moved: int = 0
    tightness: float = 0.0
    unknown: float = 0.0
    restored: int = 0


@dataclass(frozen=True, slots=True)
class CorrectionEffects:
    """The refs of the corrections that a build applied, and of those whose names no document mentions (any more)."""

    applied: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()


NO_CORRECTIONS = CorrectionEffects()


@dataclass(frozen=True, slots=True)
class BuildRecord:
    """What a build notes about itself beside its hierarchy. ``embedder`` is the setting at the time; ``latin``: most
    words of the documents are in Latin letters; ``vectors`` are the rows written by kind of space; ``models`` are the
    names of the models by their work; ``health`` is ``None`` only for a record without a hierarchy."""

    embedder: str = ""
    latin: bool = True
    spaces: VectorSpaces = VectorSpaces()
    vectors: Mapping[str, int] = field(default_factory=dict)
    tau: int | str = ""
    health: HierarchyHealth | None = None
    models: Mapping[str, str] = field(default_factory=dict)
    methods: tuple[MethodCounts, ...] = ()
    embedded: EmbeddingCounts = EmbeddingCounts()
    history: BuildHistory = BuildHistory()
    stale: int = 0
    """Written summaries and sentences beneath which something has changed since they were written."""
    corrections: CorrectionEffects = NO_CORRECTIONS
    schema: SchemaEffects | None = None
    """None without a schema."""

    @property
    def summaries(self) -> Counter[str]:
        """The number of aggregated entities by the method that made them."""
        counts: Counter[str] = Counter()
        for layer in self.methods:
            if layer.layer:
                counts.update(layer.entities)
        return counts

    @property
    def written(self) -> int:
        """The number of aggregated entities whose summary a model or an agent wrote."""
        return sum(count for made, count in self.summaries.items() if Method(made).written)

    @property
    def base_methods(self) -> set[str]:
        """The methods that made the entities of G0."""
        return {name for each in self.methods if not each.layer for name in each.entities}

    @property
    def graph(self) -> str:
        """Who wrote the graph, in a few words; "" where G0 was not counted, as in builds of earlier versions."""
        base = self.base_methods
        who = " and ".join(dict.fromkeys(self.models.values())) or "an agent"
        if not base or base == {Method.IMPORTED}:
            return "imported graph" if base else ""
        if base - {Method.HEURISTIC}:
            return f"graph written by {who}{' in part' if Method.HEURISTIC in base else ''}"
        return (
            f"heuristic graph{f', summaries by {who}' if self.summaries.keys() - {Method.HEURISTIC} else ''}"
        )


@dataclass(frozen=True, slots=True)
class Generation:
    """One published build of a collection, from revision ``revision``."""

    number: int
    collection: str
    revision: int
    embedder: str
    dimension: int
    created_at: datetime
    layers: tuple[LayerCount, ...]
    record: BuildRecord

    @property
    def top(self) -> int:
        return self.layers[-1].layer

    @property
    def embedder_name(self) -> str:
        """The value of the setting ``embedder`` that gives this embedder; of ``auto``, what it chose."""
        name = self.record.embedder
        return self.embedder.partition("-")[0] if name in {"", "auto"} else name


@dataclass(frozen=True, slots=True)
class Collection:
    """One corpus. ``revision`` grows with every change of its documents."""

    name: str
    number: int
    revision: int
    generation: Generation | None
    created_at: datetime
    documents: int
    chunks: int
    pending_documents: int
    """Documents ingested after the published generation was built."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """What ``.leanrag.md`` says of its folder, by the path of that with a separator at its end."""

    def describe_folders(self, paths: Sequence[str], most: int = 3) -> tuple[str, ...]:
        """Return what is noted of the folders in which files lie, the outermost first."""
        found = [each for each in sorted(self.notes) if any(path.startswith(each) for path in paths)]
        return tuple(
            f"About {each[:-1].rpartition(each[-1])[2]}/: {self.notes[each]}" for each in found[:most]
        )

    @classmethod
    def empty(cls, name: str) -> Self:
        """Return a collection without documents, which is not stored yet."""
        return cls(
            name, 0, 0, None, datetime.fromtimestamp(0, UTC), documents=0, chunks=0, pending_documents=0
        )

    @property
    def stale(self) -> bool:
        return self.generation is None or self.generation.revision != self.revision


@dataclass(frozen=True, slots=True)
class Spent:
    """What the calls of one step used, ``unpriced`` ones without ``cost`` (US dollars). ``counted`` is our
    count of the prompts; ``room`` the tokens that replies were allowed."""

    step: str
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    unpriced: int = 0
    counted: int = 0
    room: int = 0


# --- queries -------------------------------------------------------------------------------


class Hit(NamedTuple):
    """A search result: an id and a score, higher is better, comparable within one search alone."""

    id: str
    score: float


@dataclass(frozen=True, slots=True)
class RareWord:
    """A word or phrase, the number of documents that hold it (up to a bound), and the windows that do if those are few.
    Where it stands nowhere as it is written, other forms of it count: *run* for *running*, ``maxSize`` for ``max_size``.
    Windows that hold it in their text come before those that have it in a title or heading alone, then in reading order."""

    word: str
    documents: int
    windows: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Seed:
    entity: Entity
    score: float


@dataclass(frozen=True, slots=True)
class Group:
    """Seeds that share a branch: ``path`` is the union of their paths up to ``lca`` (paper eq. 7)."""

    lca: Entity
    seeds: tuple[Entity, ...]
    path: tuple[Entity, ...]


@dataclass(frozen=True, slots=True)
class Subgraph:
    """The retrieved subgraph (paper eq. 8–10): seeds, LCA paths up to ``lca`` of all seeds in groups,
    ``base_relations`` between seeds, ``inter_cluster_relations`` between path entities of one layer."""

    seeds: tuple[Seed, ...]
    groups: tuple[Group, ...]
    lca: Entity | None
    path: tuple[Entity, ...]
    base_relations: tuple[Relation, ...]
    inter_cluster_relations: tuple[Relation, ...]


@dataclass(frozen=True, slots=True)
class RankedChunk:
    chunk: Chunk
    score: float


def _part(meaning: str) -> float:
    part: float = field(default=0.0, metadata={"meaning": meaning})
    return part


@dataclass(frozen=True, slots=True)
class ScoreParts:
    """What the value of a piece of evidence is the sum of. Parts that do not apply are 0."""

    meaning: float = _part("similarity to the question, as a share of that of the best window")
    first: float = _part("being among the first of search by meaning")
    keyword: float = _part("words of the question")
    tokens: float = _part("the similarity of the question's words to its words, one by one")
    unfound: float = _part("what a window has that no search found: half of the least score")
    neighbour: float = _part("the better window beside it")
    section: float = _part("the best windows of its section")
    graph: float = _part("the place of its passage in the walk from the seeds")
    seat: float = _part("a place among the first, as the first passage names its title")
    exact: float = _part("a rare word or phrase of the question that stands in it")
    recent: float = _part("being among the newest documents, where the question asks for what holds now")
    summary: float = _part("being a summary, in mode global")
    fixed: float = _part("the value of all evidence of ranking paper, which chooses whole passages")

    @property
    def total(self) -> float:
        return sum(_PARTS_OF(self))

    def scale(self, share: float) -> ScoreParts:
        return ScoreParts(*(share * part for part in _PARTS_OF(self)))

    def items(self) -> list[tuple[str, float]]:
        """Return the name and value of each part that is not 0."""
        return [(name, value) for name in SCORE_PARTS if (value := getattr(self, name))]


SCORE_PARTS: dict[str, str] = {each.name: each.metadata["meaning"] for each in fields(ScoreParts)}
"""What each part means, by its name."""
_PARTS_OF: Callable[[ScoreParts], tuple[float, ...]] = attrgetter(*SCORE_PARTS)


EXCERPT = "excerpt"  # The kind of a line that quotes a document; statements have kinds of their own


@dataclass(frozen=True, slots=True)
class ContextLine:
    """A piece of evidence in a context, and why it is there.

    ``kind`` is ``EXCERPT``, or what is stated: "relation", "summary", "entity description", "finding" or "attribute". ``subject``
    is what a statement is about; of an excerpt, the title of its document. ``source`` is the file of an excerpt, ``line``
    and ``page`` where in it the excerpt begins; None if unknown. ``kept``: it is there whatever its value, as one
    of the best passages of the walk over the graph, as a statement near to the question, or because nothing else was asked for.
    """

    kind: str
    citations: tuple[str, ...]
    subject: str
    text: str
    parts: ScoreParts
    kept: bool = False
    source: str = ""
    line: int | None = None
    page: int | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """The subgraph as text within a token budget. ``cited`` are the citations that stand in it, ``lines`` its evidence, best first."""

    text: str
    tokens: int
    truncated: bool
    cited: tuple[str, ...]
    lines: tuple[ContextLine, ...] = ()
