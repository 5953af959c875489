"""Questions that a collection can answer, made from its entities and relations, each tried before it is suggested."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import PurePath

from leanrag_engine.core.grouping import group
from leanrag_engine.core.model import Chunk, Entity, Relation
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.core.text.language.sentences import sentences
from leanrag_engine.core.text.language.words import content_words
from leanrag_engine.core.text.scripts import is_mostly_english
from leanrag_engine.documents.chunking import is_prose

from .index import IndexSnapshot
from .query import answer_query
from .request import Query

PLAIN_NAME = re.compile(r"[^\W\d][\w.' -]{2,48}")
LICENCE = re.compile(r"(?:licen[cs]e|copying|notice|authors)\b", re.IGNORECASE)
"""The beginning of the name of a file that says nothing of a folder's subject."""
MOST_WORDS = 5  # Words of a name or heading that stands in a question
QUOTES = str.maketrans("", "", '"“”„«»`*')


@dataclass(frozen=True, slots=True)
class QuestionCandidate:
    """A question, the names in it, the chunks of which one must be among its evidence, and what they ``answer``."""

    text: str
    names: frozenset[str]
    chunk_ids: frozenset[str]
    answer: str

    def repeats_titles(self, chunks: Mapping[str, Chunk]) -> bool:
        """Return whether the question and the titles and headings above its ``chunks``, by id, say all that its answer says."""
        above = [f"{chunks[id_].title} {chunks[id_].heading}" for id_ in self.chunk_ids if id_ in chunks]
        return content_words(self.answer) <= content_words(" ".join([self.text, *above]))


async def suggest_questions(index: IndexSnapshot, limit: int) -> list[str]:
    """Return up to ``limit`` questions about different things, each from another folder as long as there is one,
    whose own passage comes first in their context. They are drawn from prose; without any, from code. In turn: one
    about a thing that a passage defines, one about a section of a document, one about two things that are related."""
    number = index.generation.number
    titles = {name_key(each.title) for each in await index.documents.find_all(index.collection.name)}
    chunks = await index.documents.all_chunks(index.collection.name)
    chunks = [each for each in chunks if not LICENCE.match(PurePath(each.source).name)]
    held = {each.id: each for each in chunks}
    english = is_mostly_english([each.text for each in chunks])
    headings = {name_key(heading) for each in chunks for heading in each.heading.split(" > ")}
    folders = {each.id: str(PurePath(each.source).parent) for each in chunks if is_prose(each.media_type)}
    folders = folders or {each.id: str(PurePath(each.source).parent) for each in chunks}
    entities = {
        each.id: each
        for each in await index.generations.layer(number, 0)
        if is_plain(each) and name_key(each.name) not in titles
    }
    things = {
        id_: each for id_, each in entities.items() if is_thing(each) and name_key(each.name) not in headings
    }
    relations = [
        each
        for each in await index.generations.relations(number, 0)
        if each.source_id in things and each.target_id in things and each.description
    ]
    found: list[str] = []
    used: set[str] = set()
    for once in (True, False):
        seen: set[str] = set()
        sections = ask_for_sections([each for each in chunks if is_prose(each.media_type)], english=english)
        kinds = [define(entities.values()), sections, relate(things, relations)] if english else [sections]
        # Four candidates are tried for each question, with a query each.
        for _ in range(limit * 4):
            if len(found) == limit or not kinds:
                break
            candidate = next(
                (
                    each
                    for each in kinds[0]
                    if not each.names & used
                    and not each.repeats_titles(held)
                    and (own := each.chunk_ids & folders.keys())
                    and not (once and {folders[chunk] for chunk in own} & seen)
                ),
                None,
            )
            if candidate is None:
                kinds.pop(0)
            elif await holds_up(index, candidate, folders.keys()):
                found.append(candidate.text)
                used |= candidate.names
                seen |= {folders[chunk] for chunk in candidate.chunk_ids & folders.keys()}
                kinds = [*kinds[1:], kinds[0]]
    return found


def is_plain(entity: Entity) -> bool:
    """Return whether a person could write this name in a question."""
    return bool(PLAIN_NAME.fullmatch(entity.name)) and len(entity.name.split()) <= MOST_WORDS


def is_thing(entity: Entity) -> bool:
    """Return whether the name says by itself what is meant: a name, or several words, not an ordinary word."""
    return " " in entity.name or not entity.name.islower()


def define(entities: Iterable[Entity]) -> Iterator[QuestionCandidate]:
    """Yield questions for what something is, where a sentence says it; names of several words first."""
    for entity in sorted(entities, key=lambda each: (" " not in each.name, -each.mentions, each.name)):
        said = re.compile(
            rf"(?i)(?P<what>(?:(?:an?|the) )?{re.escape(entity.name)}s?) (?P<verb>is|are|was|were) (?:an?|the|one)\b"
        )
        text = entity.description.translate(QUOTES)
        for start, end in sentences(text):
            if match := said.match(text[start:end]):
                what = match["what"]
                # The first letter is a capital because the sentence begins with it, or as the name has it.
                what = what if what.startswith(entity.name) else what[0].lower() + what[1:]
                yield QuestionCandidate(
                    ask_for(entity, what, match["verb"].lower()),
                    frozenset({name_key(entity.name)}),
                    frozenset(each.chunk_id for each in entity.evidence) or frozenset(entity.chunk_ids),
                    text[start:end],
                )
                break


def ask_for(entity: Entity, what: str, verb: str) -> str:
    """Return the question for what ``entity``, written as ``what``, is or was."""
    if entity.type == "person":
        return f"Who {verb} {what}?"
    if " " not in what and not what.islower():
        return f"What is said about {what}?"  # "What was Ruben?" is odd if the name's type was not recognised
    return f"What {verb} {what}?"


def ask_for_sections(chunks: Sequence[Chunk], *, english: bool = True) -> Iterator[QuestionCandidate]:
    """Yield questions for what a section says, not in a sentence if the documents are not ``english``, the longest sections first;
    those of documents of one section are left out."""
    sections = group(
        ((each.title, heading), each)
        for each in chunks
        for heading in {window.heading.rpartition(" > ")[2] for window in each.windows}
    )
    several = Counter(title for title, _ in sections)
    for (title, heading), held in sorted(sections.items(), key=lambda each: (-len(each[1]), each[0])):
        plain = (
            all(PLAIN_NAME.fullmatch(each) and not each.isupper() for each in (title, heading))
            and "_" not in title
        )
        plain = plain and len(heading.split()) <= MOST_WORDS
        if plain and several[title] > 1 and content_words(heading).isdisjoint(content_words(title)):
            text = (
                f'What does "{title}" say about {write_within(heading, held)}?'
                if english
                else f"{title}: {heading}?"
            )
            said = " ".join(at.quote(each) for at in held for each in at.windows if heading in each.heading)
            ids = frozenset(each.id for each in held)
            yield QuestionCandidate(text, frozenset([name_key(heading)]), ids, said)


def write_within(heading: str, chunks: Iterable[Chunk]) -> str:
    """Return a heading as it stands within a sentence: with a small letter, unless it is a name or its first word has a
    capital within the sentences of the ``chunks``, too."""
    first, *others = heading.split()
    within = re.compile(rf"[\w,] {re.escape(first)}\b")
    named = not first[1:].islower() or any(each[0].isupper() for each in others)
    chunks = [*chunks]
    named = named or any(within.search(each.text) for each in chunks)
    # German nouns have capitals everywhere.
    named = named or not is_mostly_english([each.text for each in chunks])
    return heading if named else heading[0].lower() + heading[1:]


def relate(entities: dict[str, Entity], relations: Iterable[Relation]) -> Iterator[QuestionCandidate]:
    """Yield questions for how two things are related, those first that are mentioned more than in passing, are stated often and rare."""

    def weight(relation: Relation) -> float:
        source, target = entities[relation.source_id], entities[relation.target_id]
        particular = sum(" " in each.name or each.type != "concept" for each in (source, target))
        return 2.0**particular * relation.weight**3 / (source.mentions * target.mentions)

    def is_passing(relation: Relation) -> bool:
        fewest = 3  # mentions; below it a document names something in passing only
        return min(entities[each].mentions for each in (relation.source_id, relation.target_id)) < fewest

    for relation in sorted(relations, key=lambda each: (is_passing(each), -weight(each), each.id)):
        source, target = entities[relation.source_id], entities[relation.target_id]
        keys = name_key(source.name), name_key(target.name)
        if keys[0] not in keys[1] and keys[1] not in keys[0]:
            across = source.parent_id != target.parent_id
            text = "What connects {} and {}?" if across else "What do {} and {} have to do with each other?"
            text = text.format(source.name, target.name)
            ids = frozenset(relation.chunk_ids)
            yield QuestionCandidate(text, frozenset(keys), ids, relation.description)


async def holds_up(index: IndexSnapshot, candidate: QuestionCandidate, drawn: AbstractSet[str]) -> bool:
    """Return whether the first passage of a question's context is one of the ``drawn`` ones that it was made from, and nothing
    warns of weak evidence."""
    result = await answer_query(index, Query(text=candidate.text, token_budget=1500))
    cited = {each.chunk.citation: each.chunk.id for each in result.sources}
    first = {cited.get(each) for each in result.context.cited[:1]}
    return not result.warnings and bool(candidate.chunk_ids & drawn & first)
