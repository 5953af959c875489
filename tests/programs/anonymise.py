"""Replace the names in a question set by neutral tokens, one for one name, so that a model cannot answer from
what it has learnt (Youtu-GraphRAG's anonymity reversion).

    python tests/programs/anonymise.py questions.json --out anonymous.json [--names names.json] [--recover recover.json]

Measure with both sets: the difference is what the model knew.
"""

from __future__ import annotations

import json as json_
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import typer

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.model import Chunk
from leanrag_engine.core.text.language.names import name_key, without_remark
from leanrag_engine.core.text.language.words import STOPWORDS
from leanrag_engine.documents.dates import DATE_WORDS
from leanrag_engine.evaluation.datasets import CorpusPassage, Question, QuestionSet, read_set
from leanrag_engine.extraction.heuristic.extract import extract
from leanrag_engine.extraction.heuristic.words.vocabulary import PERSON_TITLES
from leanrag_mcp.cli.evaluate.commands import check_new, write_new
from leanrag_mcp.cli.evaluate.options import Json, RetrievalSet
from leanrag_mcp.cli.options import as_command

_WORD = re.compile(r"\w+")
_RECOVER = "Which real name does {} stand for?"
_TYPES = ("person", "place", "organisation", "event", "work")
"""The types that a token tells: Person3, Place4. All others are Entity5."""
_CAPITAL = re.compile(r"(?:(?<=[\w,;)] )|(?<=[\w,;)] [(\"“]))[^\W\d_]\w*")
"""A word that begins no sentence."""


@dataclass(frozen=True, slots=True)
class AnonymousSet:
    """A question set without its names, and the name behind each token, in the spelling found first."""

    questions: QuestionSet
    names: Mapping[str, str]
    changed: int
    """Questions in which, or in whose answers, a name was replaced."""

    def as_json(self) -> dict[str, object]:
        """Return the set in the format that ``read_set`` reads."""
        return self._as_set(self.questions.questions)

    def recovery_as_json(self) -> dict[str, object]:
        """Return the task to recover the names, in the same format: the same passages, and as many questions
        at most, which ask for the names behind tokens, those of several passages first."""
        places: dict[str, list[int]] = {}
        for place, passage in enumerate(self.questions.passages):
            for word in dict.fromkeys(_WORD.findall(f"{passage.title} {passage.text}")):
                if word in self.names:
                    places.setdefault(word, []).append(place)
        order = sorted(places, key=lambda token: -len(places[token]))[: len(self.questions.questions)]
        return self._as_set(
            [
                Question(token, _RECOVER.format(token), (self.names[token],), "recover", tuple(places[token]))
                for token in order
            ]
        )

    def _as_set(self, questions: Sequence[Question]) -> dict[str, object]:
        return {
            "name": self.questions.name,
            "passages": [{"title": each.title, "text": each.text} for each in self.questions.passages],
            "queries": [
                {
                    "id": each.id,
                    "question": each.text,
                    "answer": list(each.answers),
                    "type": each.type,
                    "gold": list(each.gold),
                }
                for each in questions
            ],
        }


def anonymise(questions: QuestionSet) -> AnonymousSet:
    """Return the set with a token in place of each name. Raises ``InvalidInput`` if no name is found."""
    text = "\n".join(f"{each.title}\n{each.text}" for each in questions.passages)
    kinds = "|".join(["entity", *_TYPES])
    if clash := re.search(rf"\b({kinds})\d+\b", text, re.IGNORECASE):
        raise InvalidInput(
            f"The set has {clash[0]} already, as tokens are.", "Give the set as it was before."
        )
    tokens = _Tokens()
    short_forms = [tokens.add_passage(each) for each in questions.passages]
    for question in questions.questions:
        tokens.add_passage(CorpusPassage("", question.text))
        tokens.add_answers(
            [each for each in question.answers if re.search(rf"(?<!\w){re.escape(each)}(?!\w)", text)]
        )
    _add_leftover(tokens, [text, *(each.text for each in questions.questions)])
    if not tokens.names:
        raise InvalidInput(f"The set {questions.name} has no name to replace.", "Give a set of prose.")
    everywhere = _Spellings(tokens.by_spelling | _find_unambiguous(short_forms))
    spell = everywhere.replace
    passages = []
    for passage, local in zip(questions.passages, short_forms, strict=True):
        spellings = _Spellings(local)
        replaced = (spell(part, spellings) for part in (passage.title, passage.text))
        passages.append(CorpusPassage(*replaced))
    asked = tuple(
        replace(each, text=spell(each.text), answers=tuple(dict.fromkeys(map(spell, each.answers))))
        for each in questions.questions
    )
    changed = sum(one != other for one, other in zip(asked, questions.questions, strict=True))
    found = QuestionSet(questions.name, tuple(passages), asked, questions.repeated)
    return AnonymousSet(found, {token: name for name, token in tokens.names.values()}, changed)


def _add_leftover(tokens: _Tokens, texts: Sequence[str]) -> None:
    """Give a token to each word that always has a capital within sentences and that no name covers: nationalities,
    names that extraction missed. Months and days of the week stay."""
    kept = {word for text in texts for word in _WORD.findall(text)} | DATE_WORDS | PERSON_TITLES
    given = {token for _, token in tokens.names.values()}
    known = _Spellings(tokens.by_spelling)
    for word in dict.fromkeys(word for text in texts for word in _CAPITAL.findall(known.replace(text))):
        if word[0].isupper() and word.lower() not in kept and word not in given:
            tokens.add(word)


@dataclass(slots=True)
class _Tokens:
    """The tokens given so far: name and token by the key of the name, and the token of each spelling."""

    names: dict[str, tuple[str, str]] = field(default_factory=dict)
    by_spelling: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, type_: str = "") -> str:
        """Return the token of a name, a new one for a new name; "" if it is none."""
        if not _is_name(name):
            return ""
        kind = type_ if type_ in _TYPES else "entity"
        new = (name, f"{kind.capitalize()}{len(self.names) + 1}")
        _, token = self.names.setdefault(name_key(name), new)
        self.by_spelling.setdefault(name, token)
        return token

    def add_answers(self, answers: Sequence[str]) -> None:
        """Give the forms of one answer one token, that of the first which has one already."""
        names = [each for each in answers if _is_name(each)]
        if known := next((self.by_spelling[each] for each in names if each in self.by_spelling), ""):
            for each in names:
                self.by_spelling.setdefault(each, known)
        elif names:
            self.add(names[0])
            self.add_answers(names)

    def add_passage(self, passage: CorpusPassage) -> dict[str, str]:
        """Give each name in a passage its token; return the tokens of the short forms that it uses."""
        chunk = Chunk("p", "p", 1, passage.text, 0, len(passage.text), 0)
        entities = [entity for found in extract([chunk], passage.title) for entity in found.entities]
        title = without_remark(passage.title)
        self.add(title, next((each.type for each in entities if name_key(each.name) == name_key(title)), ""))
        short: dict[str, str] = {}
        for entity in entities:
            if token := self.add(entity.name, entity.type):
                short |= {alias: token for alias in entity.aliases if _is_name(alias)}
        return short


def _is_name(text: str) -> bool:
    """Return whether a text is written like a name: some word of it has a capital and is no function word."""
    return any(
        word != word.lower() and word.lower() not in STOPWORDS and len(word) > 1
        for word in _WORD.findall(text)
    )


def _find_unambiguous(short_forms: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return the short forms that stand for one name in the whole set."""
    meanings: defaultdict[str, set[str]] = defaultdict(set)
    for forms in short_forms:
        for spelling, token in forms.items():
            meanings[spelling].add(token)
    return {spelling: next(iter(tokens)) for spelling, tokens in meanings.items() if len(tokens) == 1}


class _Spellings:
    """Spellings and their tokens, looked up by first word, the longest first."""

    def __init__(self, tokens: Mapping[str, str]) -> None:
        self._by_word: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        for spelling, token in sorted(tokens.items(), key=lambda item: -len(item[0])):
            if first := _WORD.search(spelling):
                self._by_word[first[0]].append((spelling[first.start() :], token))

    def find(self, text: str, word: re.Match[str]) -> tuple[str, str]:
        """Return the longest spelling that begins with ``word`` in ``text``, and its token; empty if there is none."""
        for spelling, token in self._by_word.get(word[0], ()):
            end = word.start() + len(spelling)
            whole = not (spelling[-1:].isalnum() and text[end : end + 1].isalnum())
            if text.startswith(spelling, word.start()) and whole:
                return spelling, token
        return "", ""

    def replace(self, text: str, first: _Spellings | None = None) -> str:
        """Return the text with tokens in place of the names; those of ``first`` go before equally long ones."""
        return "".join(self._replace(text, first))

    def _replace(self, text: str, first: _Spellings | None) -> Iterator[str]:
        done = 0
        for word in _WORD.finditer(text):
            if word.start() < done:
                continue
            found = [each.find(text, word) for each in (first, self) if each]
            spelling, token = max(found, key=lambda each: len(each[0]))
            if spelling:
                yield text[done : word.start()] + token
                done = word.start() + len(spelling)
        yield text[done:]


app = typer.Typer(add_completion=False)


@app.command()
@as_command
async def write_anonymous(
    question_set: RetrievalSet,
    out: Annotated[Path, typer.Option(metavar="FILE.json", help="Where the new set is written.")],
    names: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="Where the name behind each token is written.")
    ] = None,
    recover: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.json", help="A set that asks for the names behind the tokens is written here."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Replace the names in a question set by neutral tokens, the same in passages, questions and answers.

    A model may know the answers of public sets by heart. With a token in place of a name, such as `Person12`, it can only find them in
    the passages: measure with both sets, and the difference is what it knew. No model and no key needed. Names are what reading
    without a model finds, titles, answers that stand in a passage, and words that always have a capital; dates and numbers stay.

    `--names` keeps which token stands for which name, to read answers by. `--recover` writes another set on the same
    passages, whose questions ask for the names behind the tokens: a model that finds them (`leanrag eval answers --open`) combines
    what it retrieves with what it knows. Existing files are not overwritten.

    Example: `python tests/programs/anonymise.py questions.json --out anonymous.json --names names.json`
    """
    for path in filter(None, (out, names, recover)):
        check_new(path)
    found = anonymise(read_set(question_set))
    write_new(out, found.as_json())
    if names:
        write_new(names, dict(found.names))
    if recover:
        write_new(recover, found.recovery_as_json())
    total = len(found.questions.questions)
    if json:
        counts = {"names": len(found.names), "questions": total, "changed": found.changed}
        typer.echo(json_.dumps(counts | {"out": str(out)}))
    else:
        typer.echo(
            f"{out}: {len(found.names):,} names replaced; {found.changed:,} of {total:,} questions have one."
        )


if __name__ == "__main__":
    app()
