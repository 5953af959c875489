"""Make documents with chunks and extracts of a foreign graph: the form in which everything else enters the store."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from leanrag_engine.core.grouping import group
from leanrag_engine.core.jobs import ImportCounts
from leanrag_engine.core.model import (
    Chunk,
    Extract,
    ExtractedEntity,
    ExtractedRelation,
    LoadedDocument,
    Method,
    ReadDocument,
    content_id,
)
from leanrag_engine.core.ports import Tokenizer
from leanrag_engine.core.text.cleaning import clean, clean_line
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.core.text.shortening import shorten
from leanrag_engine.documents.chunking import chunk_at
from leanrag_engine.documents.dates import date_document

from .graph import ForeignDocument, ForeignEntity, ForeignGraph, ForeignPassage, ForeignRelation, Remarks


@dataclass(frozen=True, slots=True)
class Assembled:
    """What is stored, and how many of each kind were found and taken."""

    read: tuple[ReadDocument, ...]
    found: ImportCounts
    taken: ImportCounts


def assemble(graph: ForeignGraph, origin: str, tokenizer: Tokenizer, max_tokens: int) -> Assembled:
    """Return documents whose chunks are the passages, each with what was found in it; what has no passage is written
    out in a document of its own. ``origin`` names the program. What is left out is added to the graph's remarks."""
    merged = _Merged.of(graph)
    documents = [*_group(graph, graph.remarks), *_write_out(graph.name, merged, tokenizer, max_tokens)]
    placed = _place(merged)
    read = tuple(
        _read_document(document, passages, origin, placed, tokenizer, graph.remarks)
        for document, passages in documents
    )
    found = ImportCounts(len(graph.documents), len(graph.passages), len(graph.entities), len(graph.relations))
    taken = ImportCounts(
        len(read), sum(len(each.chunks) for each in read), len(merged.entities), len(merged.relations)
    )
    return Assembled(read, found, taken)


def join_document(
    document: LoadedDocument, chunks: Sequence[Chunk], extracts: Sequence[Extract]
) -> ReadDocument:
    """Return a document with what was found in it, of which it has a digest: an import of the same changes nothing."""
    digest = content_id("i", document.digest, *(repr(each) for each in extracts))
    return ReadDocument(replace(document, file_digest=digest), chunks, extracts)


# --- entities and relations ----------------------------------------------------------------


@dataclass(slots=True)
class _Merged:
    """Entities by the key of their name, and relations with the keys of their ends, all with passages that are ``known``;
    ``stated`` are the ends and descriptions of the relations."""

    remarks: Remarks
    known: set[str]
    entities: dict[str, ForeignEntity] = field(default_factory=dict)
    relations: list[tuple[str, str, ForeignRelation]] = field(default_factory=list)
    stated: set[tuple[str, str, str]] = field(default_factory=set)

    @classmethod
    def of(cls, graph: ForeignGraph) -> "_Merged":
        merged = cls(graph.remarks, {each.id for each in graph.passages if clean(each.text).strip()})
        for entity in graph.entities:
            merged._add_entity(entity)
        for relation in graph.relations:
            merged._add_relation(relation)
        return merged

    def _add_entity(self, entity: ForeignEntity) -> None:
        name = self._clean_name(entity.name)
        key = name_key(name)
        if not key:
            self.remarks.add("entities without a name", entity.description)
            return
        description = clean(entity.description).strip()
        if not description:
            self.remarks.add("entities without a description, taken as they are", name)
        passages = self._existing(entity.passages, name)
        given = replace(
            entity, name=name, type=clean_line(entity.type), description=description, passages=passages
        )
        before = self.entities.get(key)
        if before is None:
            self.entities[key] = given
            return
        self.remarks.add("entities of the same name as another, merged with it", name)
        self.entities[key] = replace(
            before,
            type=before.type or given.type,
            description=" ".join(dict.fromkeys(filter(None, (before.description, given.description)))),
            passages=tuple(dict.fromkeys((*before.passages, *given.passages))),
            aliases=tuple(dict.fromkeys((*before.aliases, *given.aliases))),
        )

    def _add_relation(self, relation: ForeignRelation) -> None:
        ends = [self._clean_name(each, count=False) for each in (relation.source, relation.target)]
        source, target = map(name_key, ends)
        label = f"{ends[0]} – {ends[1]}"
        if not source or not target:
            self.remarks.add("relations without a source or a target", label)
            return
        if source == target:
            self.remarks.add("relations of an entity with itself", label)
            return
        description = clean(relation.description).strip()
        if (source, target, description) in self.stated:
            self.remarks.add("relations that are there twice, taken once", label)
            return
        self.stated.add((source, target, description))
        if not description:
            self.remarks.add("relations without a description, taken as they are", label)
        passages = self._existing(relation.passages, label)
        if not passages and source in self.entities and target in self.entities:
            # The first passage that both ends were found in.
            both = set(self.entities[target].passages)
            passages = tuple(each for each in self.entities[source].passages if each in both)[:1]
        for key, name in ((source, ends[0]), (target, ends[1])):
            if key not in self.entities:
                self.remarks.add("ends of relations that no entity describes, taken as entities", name)
                self.entities[key] = ForeignEntity(name, passages=passages)
        given = replace(relation, description=description, passages=passages, type=clean_line(relation.type))
        self.relations.append((source, target, given))

    def _clean_name(self, name: str, *, count: bool = True) -> str:
        cleaned = clean_line(name)
        longest = 200  # what is longer is a sentence or a fault of the other program
        if len(cleaned) <= longest:
            return cleaned
        if count:
            self.remarks.add(f"entities whose name was shortened to {longest} characters", cleaned)
        return shorten(cleaned, longest)

    def _existing(self, passages: Iterable[str], name: str) -> tuple[str, ...]:
        named = tuple(dict.fromkeys(passages))
        for each in named:
            if each not in self.known:
                self.remarks.add("references to a passage that is not there", f"{name} → {each}")
        return tuple(each for each in named if each in self.known)


# --- documents -----------------------------------------------------------------------------


def _group(graph: ForeignGraph, remarks: Remarks) -> Iterator[tuple[ForeignDocument, list[ForeignPassage]]]:
    """Yield each document with its passages in order; passages of a missing document get one of their own."""
    known: dict[str, ForeignDocument] = {}
    for document in graph.documents:
        if document.id in known:
            remarks.add("documents with the id of another", document.title)
        known.setdefault(document.id, document)
    passages = _passages_by_document(graph, remarks)
    for id_, found in passages.items():
        if id_ not in known:
            reason = "passages whose document is not there, taken into a document of their own"
            remarks.add_many(reason, len(found), (each.id for each in found))
        yield known.get(id_) or ForeignDocument(id_ or "passages", id_ or graph.name), found
    for id_, document in known.items():
        if id_ not in passages:
            remarks.add("documents without a passage", document.title)


def _passages_by_document(graph: ForeignGraph, remarks: Remarks) -> dict[str, list[ForeignPassage]]:
    passages: dict[str, list[ForeignPassage]] = defaultdict(list)
    seen: set[str] = set()
    for passage in graph.passages:
        if passage.id in seen:
            remarks.add("passages with the id of another", passage.id)
            continue
        seen.add(passage.id)
        if clean(passage.text).strip():
            passages[passage.document].append(passage)
        else:
            remarks.add("passages without text", passage.id)
    return passages


def _locate(
    document: ForeignDocument, passages: Sequence[ForeignPassage], remarks: Remarks
) -> tuple[str, list[tuple[int, int, ForeignPassage]]]:
    """Return the document's text, and its passages in order, each with its start and end; if one is not in the text, the
    text is all of them, joined."""
    text = clean(document.text)
    found: list[tuple[int, int, ForeignPassage]] = []
    reached = 0
    for passage in passages if text.strip() else ():
        place = _find(text, clean(passage.text).strip(), reached)
        if place is None:
            remarks.add(
                "documents whose text lacks some of their passages: the passages were joined", document.title
            )
            break
        reached = place[0] + 1
        found.append((*place, passage))
    if found and len(found) == len(passages):
        return text, sorted(found, key=lambda each: each[:2])
    parts = [clean(passage.text).strip() for passage in passages]
    starts = accumulate((len(part) + 2 for part in parts), initial=0)
    placed = zip(starts, parts, passages, strict=False)  # the last start is that of a further one
    return "\n\n".join(parts), [(start, start + len(part), passage) for start, part, passage in placed]


def _find(text: str, passage: str, start: int) -> tuple[int, int] | None:
    """Return where ``passage`` lies in ``text``, from ``start`` on if it can be; without first lines that were put before it."""
    rest = passage
    # Another program may have put some lines of metadata before the text of a passage.
    for _ in range(12):
        at = text.find(rest, start)
        at = text.find(rest) if at < 0 else at
        if at >= 0:
            return at, at + len(rest)
        _, _, rest = rest.partition("\n")
        rest = rest.strip()
        if not rest:
            break
    return None


def _read_document(
    given: ForeignDocument,
    passages: Sequence[ForeignPassage],
    origin: str,
    placed: "Mapping[str, _Placed]",
    tokenizer: Tokenizer,
    remarks: Remarks,
) -> ReadDocument:
    text, located = _locate(given, passages, remarks)
    metadata = {**given.metadata, "imported_from": origin}
    title = clean_line(given.title) or given.id
    date = date_document(metadata, title)
    longest = 60
    document = LoadedDocument(
        id=f"{origin}:{given.id if len(given.id) <= longest else content_id('', given.id)}",
        title=title,
        text=text,
        media_type=given.media_type,
        metadata=metadata,
        date=date.date,
        date_origin=date.origin,
    )
    chunks = chunk_at(document, [each[:2] for each in located], tokenizer=tokenizer)
    extracts = [
        placed[passage.id].extract(chunk.id) if passage.id in placed else Extract(chunk.id, Method.IMPORTED)
        for chunk, (_, _, passage) in zip(chunks, located, strict=True)
    ]
    return join_document(document, chunks, extracts)


# --- what was found where ------------------------------------------------------------------


@dataclass(slots=True)
class _Placed:
    """The entities by key, and the relations, of one passage."""

    entities: dict[str, ExtractedEntity] = field(default_factory=dict)
    relations: list[ExtractedRelation] = field(default_factory=list)

    def extract(self, chunk_id: str) -> Extract:
        return Extract(chunk_id, Method.IMPORTED, tuple(self.entities.values()), tuple(self.relations))


def _write_out(
    name: str, merged: _Merged, tokenizer: Tokenizer, max_tokens: int
) -> list[tuple[ForeignDocument, list[ForeignPassage]]]:
    """Write entities and relations without a passage as lines, each entity followed by its relations, and cut those into
    passages, which they have then. Return the document of these, if there are any."""
    own = group(
        (source, place)
        for place, (source, _, relation) in enumerate(merged.relations)
        if not relation.passages
    )
    related = {key for source, target, _ in merged.relations for key in (source, target)}
    lines: list[tuple[str, str, int]] = []
    for key, entity in merged.entities.items():
        if not entity.passages and (entity.description or key not in related):
            lines.append(
                (f"{entity.name}: {entity.description}" if entity.description else entity.name, key, -1)
            )
        lines += [(_sentence(merged, place), key, place) for place in own[key]]
    counts = tokenizer.count_many([line for line, *_ in lines])
    groups: list[list[str]] = []
    size, before = 0, ""
    for (line, key, place), tokens in zip(lines, counts, strict=True):
        if not groups or key != before or size + tokens > max_tokens:
            groups.append([])
            size, before = 0, key
        groups[-1].append(line)
        size += tokens
        passages = (f"line {len(groups)} of {name}",)
        if place < 0:
            merged.entities[key] = replace(merged.entities[key], passages=passages)
        else:
            source, target, relation = merged.relations[place]
            merged.relations[place] = source, target, replace(relation, passages=passages)
    document = ForeignDocument(f"written out of {name}", f"Entities and relations of {name}")
    cut = [
        ForeignPassage(f"line {number} of {name}", "\n".join(group), document.id)
        for number, group in enumerate(groups, 1)
    ]
    return [(document, cut)] if cut else []


def _sentence(merged: _Merged, place: int) -> str:
    source, target, relation = merged.relations[place]
    names = f"{merged.entities[source].name} – {merged.entities[target].name}"
    said = ": ".join(filter(None, (relation.type, relation.description)))
    return f"{names}: {said}" if said else names


def _place(merged: _Merged) -> dict[str, _Placed]:
    """Return what each passage states, by its id. The ends of a relation are entities of its passage too."""
    placed: dict[str, _Placed] = defaultdict(_Placed)
    extracted = {
        key: ExtractedEntity(each.name, each.type.lower() or "concept", each.description, each.aliases)
        for key, each in merged.entities.items()
    }
    for key, entity in merged.entities.items():
        for passage in entity.passages:
            placed[passage].entities[key] = extracted[key]
    for source, target, relation in merged.relations:
        found = ExtractedRelation(
            extracted[source].name,
            extracted[target].name,
            relation.description
            or (relation.type and f"{extracted[source].name} {relation.type} {extracted[target].name}."),
        )
        for passage in relation.passages:
            for end in (source, target):
                placed[passage].entities.setdefault(end, extracted[end])
            placed[passage].relations.append(found)
    return placed
