"""Cut what a model or agent wrote about the graph into statements, each sentence with the passages that it rests on.
Heuristic descriptions quote sentences of the documents, which compete as windows: they make no statements, except in
mode ``global``, which asks for summaries."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from leanrag_engine.core.graphs.texts import cut_sentences
from leanrag_engine.core.model import Attribute, Entity, Finding, Relation
from leanrag_engine.core.text.shortening import cut_end, one_line

from .rendering import Statement

Origins = tuple[tuple[int, int, str], ...]
"""Start and end of parts of a text, and the citation of the passage that each was taken from."""


@dataclass(frozen=True, slots=True)
class LineCitations:
    """For the id of a node or relation: the citations of passages that support it, best first, and which
    of them the parts of its description were taken from."""

    supporting: Mapping[str, tuple[str, ...]]
    origins: Mapping[str, Origins] = field(default_factory=dict)
    findings: Mapping[Finding, tuple[str, ...]] = field(default_factory=dict)
    """The citations of the passages that a finding rests on."""
    attributes: Mapping[Attribute, tuple[str, ...]] = field(default_factory=dict)
    """The citations of the passages that give the value."""
    dates: Mapping[str, str] = field(default_factory=dict)
    """The dates of passages, by citation, of documents that have one."""

    def of(self, id_: str) -> tuple[str, ...]:
        """Return the two best citations of the node or relation."""
        return self.supporting.get(id_, ())[:2]


def entity_statements(entity: Entity, citations: LineCitations) -> list[Statement]:
    """Return the sentences of an entity's or cluster's description, its findings and its attributes."""
    kind = "summary" if entity.layer else "entity description"
    subject = shorten_name(entity.name)
    said = _cut(entity, subject, kind, citations)
    for attribute in entity.attributes:
        if cited := citations.attributes.get(attribute, ()):
            said.append(Statement(subject, one_line(str(attribute)), cited[:2], 0.0, "attribute"))
    return said


def relation_statements(
    relation: Relation, names: Mapping[str, str], citations: LineCitations
) -> list[Statement]:
    """Return the sentences of a relation's description, under its ends and the types that a schema gave it."""
    subject = f"{shorten_name(names[relation.source_id])} — {shorten_name(names[relation.target_id])}"
    if relation.types:
        subject += f" ({', '.join(relation.types)})"
    return _cut(relation, subject, "relation", citations)


def is_written(items: Iterable[Entity | Relation]) -> bool:
    """Return whether a model or agent wrote any of the items."""
    return any(each.method.written for each in items)


def _cut(item: Entity | Relation, subject: str, kind: str, citations: LineCitations) -> list[Statement]:
    """Return each sentence with the citations of its own passages; what has none went with its document."""
    # What supports a cluster as a whole need not support a sentence that its writer gave no support.
    written = isinstance(item, Entity) and item.layer > 0 and item.method.written
    ordinary = () if written else citations.of(item.id)
    found = []
    for each in cut_sentences(item):
        origins = () if each.finding else citations.origins.get(item.id, ())
        own = tuple(dict.fromkeys(cited for first, last, cited in origins if first <= each.start < last))
        if each.finding and each.finding.chunk_ids:
            cited = citations.findings.get(each.finding, ())[:2]
        else:
            # What no other passage says went with its own, of which the item still knows.
            cited = own or (() if item.evidence else ordinary)
        if cited:
            what = "finding" if each.finding else kind
            date = citations.dates.get(cited[0], "")
            found.append(Statement(subject, each.text, cited, 0.0, what, id=each.id, date=date))
    return found


def shorten_name(name: str) -> str:
    """Return a name on one line, cut where it is longer than a name should be."""
    return cut_end(one_line(name), 80)
