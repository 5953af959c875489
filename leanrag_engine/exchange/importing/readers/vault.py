"""Take over a folder of Obsidian notes: notes are entities, wiki links relations, front matter metadata."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from leanrag_engine.core.errors import InvalidInput, LeanRAGError
from leanrag_engine.core.jobs import ImportCounts
from leanrag_engine.core.model import (
    Chunk,
    DocumentSource,
    Extract,
    ExtractedEntity,
    ExtractedRelation,
    LoadedDocument,
    Method,
    ReadDocument,
)
from leanrag_engine.core.ports import Tokenizer
from leanrag_engine.core.text.cleaning import clean_line
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.core.text.language.sentences import sentences
from leanrag_engine.documents.chunking import chunk
from leanrag_engine.documents.loading import expand, load
from leanrag_engine.documents.notices import without_notices
from leanrag_engine.exchange.importing.assembling import Assembled, join_document
from leanrag_engine.exchange.importing.graph import Remarks

from .tables import MOST_BYTES

ORIGIN = "obsidian"
_LINK = re.compile(
    r"(?P<embedded>!?)\[\[(?P<target>[^\[\]|#^\n]*)(?:[#^][^\[\]|\n]*)?(?:\|(?P<shown>[^\[\]\n]*))?\]\]"
)
_MARKS = re.compile(r"^[#>\s*+-]+")


@dataclass(frozen=True, slots=True)
class _Note:
    """A note. ``name`` is that of its file: links name it so."""

    name: str
    aliases: tuple[str, ...]
    document: LoadedDocument


def assemble_vault(path: Path, tokenizer: Tokenizer, max_tokens: int, remarks: Remarks) -> Assembled:
    """Return a document for each note, with a relation for each link: the sentence that it stands in."""
    if not path.is_dir():
        raise InvalidInput(f"{path} is no folder.", "Give the folder of the notes.")
    files = [each for each in expand(str(path), allowed=None).files if each.suffix.lower() == ".md"]
    notes = [note for each in files for note in _read_note(each, path, remarks)]
    links = _Links(_collect_names(notes, remarks), remarks)
    read: list[ReadDocument] = []
    for note in notes:
        chunks = chunk(note.document, tokenizer=tokenizer, max_tokens=max_tokens, overlap=0)
        read.append(join_document(note.document, chunks, [links.extract(note, each) for each in chunks]))
    entities = {
        name_key(entity.name) for each in read for extract in each.extracts for entity in extract.entities
    }
    return Assembled(
        tuple(read),
        ImportCounts(len(files), sum(len(each.chunks) for each in read), len(files), links.found),
        ImportCounts(len(read), sum(len(each.chunks) for each in read), len(entities), links.taken),
    )


def _read_note(file: Path, vault: Path, remarks: Remarks) -> Iterator[_Note]:
    try:
        document = load(DocumentSource(path=str(file)), allowed=None, max_bytes=MOST_BYTES)
    except LeanRAGError as problem:
        remarks.add("notes that cannot be read", f"{file.relative_to(vault)}: {problem.message}")
        return
    metadata = {**document.metadata, "imported_from": ORIGIN}
    aliases = [document.title, *metadata.get("aliases", "").strip("[]").split(",")]
    cleaned = (clean_line(each).strip("\"' ") for each in aliases)
    name = clean_line(file.stem)
    others = dict.fromkeys(each for each in cleaned if each and name_key(each) != name_key(name))
    yield _Note(name, tuple(others), replace(document, metadata=metadata))


def _collect_names(notes: Sequence[_Note], remarks: Remarks) -> Mapping[str, str]:
    """Return the names of the notes by the keys of their names and aliases; a name goes before an alias."""
    names: dict[str, str] = {}
    for note in notes:
        if name_key(note.name) in names:
            remarks.add("notes of the same name as another, one entity with it", note.name)
        names.setdefault(name_key(note.name), note.name)
    for note in notes:
        for alias in note.aliases:
            names.setdefault(name_key(alias), note.name)
    return names


@dataclass(slots=True)
class _Links:
    """Finds the links of notes, and counts them."""

    names: Mapping[str, str]
    remarks: Remarks
    found: int = 0
    taken: int = 0

    def extract(self, note: _Note, part: Chunk) -> Extract:
        """Return the note as an entity, and what it links to within this chunk."""
        part = without_notices(part)
        spans = [*sentences(part.text)]
        opening = next((_show(part.text[start:end]) for start, end in spans), "")
        entities = {
            name_key(note.name): ExtractedEntity(
                note.name, "note", opening if part.number == 1 else "", note.aliases
            )
        }
        relations: list[ExtractedRelation] = []
        for link in _LINK.finditer(part.text):
            target = self._resolve(note, link)
            if not target:
                continue
            said = next(
                (part.text[start:end] for start, end in spans if start <= link.start() < end), link[0]
            )
            entities.setdefault(name_key(target), ExtractedEntity(target, "note"))
            relations.append(ExtractedRelation(note.name, target, _show(said)))
            self.taken += 1
        return Extract(part.id, Method.IMPORTED, tuple(entities.values()), tuple(relations))

    def _resolve(self, note: _Note, link: re.Match[str]) -> str:
        """Return the name of what is linked to; "" for a file that is shown, and for the note itself."""
        written = clean_line(link["target"]).rpartition("/")[2].removesuffix(".md")
        self.found += 1
        if Path(written).suffix and link["embedded"] and name_key(written) not in self.names:
            self.remarks.add("embedded files that are no notes", written)
            return ""
        target = self.names.get(name_key(written), written)
        if not name_key(target) or name_key(target) == name_key(note.name):
            self.remarks.add("links of a note to itself", note.name)
            return ""
        if name_key(target) not in self.names:
            self.remarks.add(
                "links to notes that are not there, taken as entities", f"{note.name} → {target}"
            )
        return target


def _show(text: str) -> str:
    """Return a sentence as a reader of the note sees it."""
    return clean_line(
        _MARKS.sub("", _LINK.sub(lambda link: link["shown"] or link["target"].rpartition("/")[2], text))
    )
