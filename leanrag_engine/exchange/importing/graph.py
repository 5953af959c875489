"""What a reader finds in the files of another program: documents, passages, entities and relations, and what is amiss."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from leanrag_engine.core.jobs import LeftOut
from leanrag_engine.core.model import NO_METADATA, Finding, Method
from leanrag_engine.core.text.shortening import shorten


class Remarks:
    """Counts what could not be taken, or only with a change, by reason, with the first examples of each."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = defaultdict(int)
        self._examples: dict[str, list[str]] = defaultdict(list)

    def add(self, reason: str, example: object = "") -> None:
        """Count one more. ``example`` names what it is about."""
        self.add_many(reason, 1, [example])

    def add_many(self, reason: str, count: int, examples: Iterable[object]) -> None:
        """Count ``count`` more, of which ``examples`` are the first."""
        self._counts[reason] += count
        known = self._examples[reason]
        most = 5
        for example in examples:
            if len(known) < most and (named := shorten(" ".join(str(example).split()), 80)):
                known.append(named)

    def list_all(self) -> tuple[LeftOut, ...]:
        """Return all remarks, the most frequent first."""
        ordered = sorted(self._counts.items(), key=lambda item: -item[1])
        return tuple(LeftOut(reason, count, tuple(self._examples[reason])) for reason, count in ordered)


@dataclass(frozen=True, slots=True)
class ForeignPassage:
    """A passage as the other program cut it. ``document`` is the id of its document, "" if that is unknown."""

    id: str
    text: str
    document: str = ""


@dataclass(frozen=True, slots=True)
class ForeignDocument:
    """A document; ``text`` is "" where only its passages are known."""

    id: str
    title: str
    text: str = ""
    metadata: Mapping[str, str] = field(default_factory=lambda: NO_METADATA)
    media_type: str = "text/plain"


@dataclass(frozen=True, slots=True)
class ForeignEntity:
    """An entity, and the ids of the passages that it was found in."""

    name: str
    type: str = ""
    description: str = ""
    passages: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ForeignRelation:
    """A relation between the entities of these names, and the ids of the passages that state it."""

    source: str
    target: str
    description: str = ""
    passages: tuple[str, ...] = ()
    type: str = ""


@dataclass(frozen=True, slots=True)
class ForeignCluster:
    """A cluster of ``layer`` 1 with its ``members`` by name, or a higher one; ``parent`` is the id of one a layer up, or ""."""

    id: str
    layer: int
    name: str
    description: str = ""
    findings: tuple[Finding, ...] = ()
    method: Method = Method.IMPORTED
    parent: str = ""
    members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ForeignGraph:
    """All that was found. ``name`` is that of the file or folder; ``remarks`` of the reader are added to by who takes it."""

    name: str
    documents: Sequence[ForeignDocument] = ()
    passages: Sequence[ForeignPassage] = ()
    entities: Sequence[ForeignEntity] = ()
    relations: Sequence[ForeignRelation] = ()
    clusters: Sequence[ForeignCluster] = ()
    remarks: Remarks = field(default_factory=Remarks)
