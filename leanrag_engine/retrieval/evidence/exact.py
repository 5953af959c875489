"""Find the rare words and phrases of a question, and the windows that hold them: what is named outright is no guess."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from leanrag_engine.core.grouping import group
from leanrag_engine.core.model import Chunk, RareWord, Window, is_code, parse_window_id, window_id
from leanrag_engine.core.text.language.parts_of_speech import NUMBER_WORDS, is_english_word
from leanrag_engine.core.text.language.sentences import sentences
from leanrag_engine.core.text.language.words import find_whole_words, is_name, search_terms, spell_as_one
from leanrag_engine.core.text.scripts import is_mostly_english
from leanrag_engine.core.text.word_lists import read_words
from leanrag_engine.documents.dates import DATE_WORDS, spell_day
from leanrag_engine.retrieval.intent import (
    EVERYTHING,
    asks_for_now,
    asks_for_order,
    asks_for_overview,
    asks_for_several,
    asks_for_uses,
    find_defined,
    find_sender,
)
from leanrag_engine.retrieval.search.dating import find_named_dates, nearness
from leanrag_engine.retrieval.search.releases import asks_for_newest_release
from leanrag_engine.retrieval.search.relevance import ExactMatch, QueryWords

from .run import SHORT, QueryRun

_PHRASES = (each.replace("/", " ") for each in sorted(read_words("language", "empty_phrases")))
_EMPTY = re.compile(rf"\b(?:{'|'.join(_PHRASES)})\b", re.IGNORECASE)

_VAGUE = read_words("language", "vague")
_COMPOUND = re.compile(r"-*[^\W\d_]+(?:[-/][^\W\d_]+)+|[^\W\d]\w*(?:\.[^\W\d]\w{3,})+")
"""Words joined by hyphens or slashes, or names by dots, if the last is no ending of a file or an address."""
_IDENTIFIER = re.compile(r"\w(?:[\W_]|::)\w|[a-z][A-Z]")
_CODE = re.compile(
    r"(?=.*[^\W\d])(?=.*\d)[\w-]{4,}|\w*[^\W_]_+[^\W_]\w*|_\w+|[a-z]+[A-Z]\w*|(?!(?:19|20)\d\d$)\d{4,}"
)
"""A word of code, or a number that names something: *max_size*, *NL-1310*."""
_FILE = re.compile(r"[\w.-]+\.[a-z]\w{1,4}", re.IGNORECASE)
_QUALIFIED = re.compile(r"::|\.")
_MEMBER = re.compile(r"[^\W\d]\w*(?:(?:\.|::)[^\W\d]\w+)+(?:\(\))?")
_CONSTANT = re.compile(r"(?<!\w)[A-Z][A-Z\d]*(?:_[A-Z\d]+)+(?!\w)")
_DEFINED_BY = "def|class|func|fn|fun|function|struct|enum|interface|trait|type|const"
_VERSION = re.compile(r"\bv?\d+(?:\.\d+){2,}\w*|\bv\d+(?:\.\d+)+\w*", re.IGNORECASE)
"""Not 3.5, which may be a number of sections, or any number."""
_OF_RELEASE = re.compile(r"chang(?:es?|ed)|new|add(?:ed|s)|releases?|version", re.IGNORECASE)
_VALUED = re.compile(
    r"(?:\btype\s+|^[ \t]*(?:[a-z]{1,9}[ \t]+){0,3}(?=[A-Z][A-Z\d_]+\b[^\n=(]{0,60}=(?!=))"
    r"|^[ \t]*(?:[a-z]{1,9}[ \t]+){0,2}(?:const|constexpr|final|static)[ \t]+(?:[\w:<>*&]{1,30}[ \t]+){0,2}(?=\w+[ \t]*=(?!=))"
    r"|^[ \t]+(?!(?:return|delete|throw|goto|using|else|new|case|yield|await|import)\b)(?:const[ \t]+)?[\w:<>]{1,40}[*&]*[ \t]+(?=\w+;))(\w+)",
    re.MULTILINE,
)
"""The name of a type, a constant or a member that is no heading of code."""

_ENTRY = re.compile(
    r"^[ \t]*(?:[-*+|•][ \t]+)?[`*\"]*(?:\w+\.)*(-{0,2}\w[\w-]*)(?:\([^\n]*\)|[ \t][A-Z_]+)?[`*\"]*(?:[ \t]*$|:[ \t]|[ \t]+[–—|-][ \t])",
    re.MULTILINE,
)
"""What an entry of a reference, a list or a table is about: *object.__getattr__(self, name)*, *- `max_size`: …*, *--size BYTES*."""

_NUMBERED = re.compile(r"\b([A-Z][a-z]{2,}) (\d{1,3}|[A-Z])(?![\w-]|\.\d)")
"""*Figure 2*, *Reviewer 2*, *Appendix B*: neither the word nor the number says it alone."""
_LABEL = re.compile(r"(?=.*\d)[^\W\d]+[-\w]*")
_DEFINING = (
    ("is a", "is an", "is the", "are", "was a", "was an", "was the"),
    ("means", "refers to", "provides", "represents", "describes"),
)
"""How a sentence goes on that says what a thing is, the surest first."""
_OF_DAY = 0.5  # Share of what a longer question says beside a date that a passage holds: the date alone answers little of it
_TIME = re.compile(r"\d{1,2}:\d\d(?::\d\d)?")  # It may stand there with its day and its seconds
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_QUOTED_WORDS = 5  # Words from which on a text that stands somewhere as a whole is a quotation
_VALUES = re.compile(
    r"^\w+(?:Error|Exception|Warning)\b:?|'[^'\n]{1,200}'|\"[^\"\n]{1,200}\"|`[^`\n]{1,200}`|(?<!\S)[\d.,:x-]+(?!\w)"
)
"""The kind of an error, and the values in its message."""

_WHOLE = 99  # The rank of what is defined by its whole name
_FEW_WINDOWS = 8  # Windows that are looked up for one word; one of a single document may stand in all of it
_MANY = 40  # Documents and windows that are looked up for an identifier whose uses are asked for, or that was misspelt
_GUESSED = 10  # Words of a question that stand nowhere for which alike ones are looked up
_FEW_DATES = 12  # Months or years of a time that are looked up
_FEW_DATED = 30  # Documents of one day, month or year up to which their date says what is asked for

_SMALL = 10  # Documents up to which a word of few may be a common one: then it must stand in few windows too


async def find_exact_words(run: QueryRun, text: str) -> list[ExactMatch]:
    """Return the names and phrases of ``text``, or all words of a short one without such, that at most three documents hold. One that
    stands nowhere is replaced by the nearest one where it is a name or the text is short; ``run.absent`` notes it."""
    documents, name = run.index.documents, run.index.collection.name
    if quoted := await _find_quotation(run, text):
        return [quoted]
    words = await _find_words(run, text)
    files = await _find_files(run, filter(_FILE.fullmatch, words))
    if files and len(words) <= len(files) + 1:  # what is in them is asked for
        return files
    short = len(words) <= SHORT
    openers = _find_openers(text)
    asked = [word for word in words if short or (is_name(word) and word not in openers)]
    sought = [word for word in asked if len(words) == 1 or word.casefold() not in DATE_WORDS]
    counted = list(await documents.find_rare_words(name, sought, most_windows=_FEW_WINDOWS)) if sought else []
    nearest, called = await _note_absent(run, text, words, counted, files)
    dates = find_named_dates(text)
    # and months of a year
    spelled = (spell_day(day) for day in dates[:_FEW_DATES] if len(day) >= len("-11-07"))
    days = [each for forms in spelled for each in forms]
    if days:  # neither the number of the day alone nor its month is asked for
        counted = [each for each in counted if not _is_of_date(each.word)]
        counted += await documents.find_rare_words(name, days, most_windows=_FEW_WINDOWS)
    if nearest:  # what was meant may be a common name
        counted += await documents.find_rare_words(name, nearest, _MANY, _FEW_WINDOWS)
    if uses := [*filter(_IDENTIFIER.search, words)] if asks_for_uses(text) else []:
        counted = [each for each in counted if each.word not in uses]
        counted += await documents.find_rare_words(name, uses, _MANY, _MANY)
    about = " ".join(word for word in words if not _is_of_date(word))
    only_dates = bool(dates) and not about
    bare = len(text.split()) <= SHORT and not text.rstrip().endswith(("?", "？"))
    alone = not run.query.entities and (bare or only_dates or _is_name_alone(words))
    plain = short and (bare or len(words) == 1)
    coded = [] if run.query.entities else _find_coded(text, words)
    dated = await _find_dated(run, dates, about, alone=alone) if days or only_dates else []
    common = {each.word for each in counted if len(each.windows) >= _FEW_WINDOWS and each.word not in uses}
    common = common if run.index.collection.documents <= _SMALL else set()
    rare = [each for each in counted if each.windows and each.word not in common]
    names = {each.word for each in counted if _is_named(each.word) and each.word not in openers}
    named = any(each.word in names for each in rare)
    gain = run.query.relevance_options.exact
    said = await _find_sent(run, find_sender(text))
    # How something with a label (B7) changed is told wherever it is named.
    labels = [word for word in words if _LABEL.fullmatch(word)] if asks_for_order(text) else []
    said += [*await _find_all(run, labels, gain / 2), *called]
    for each in counted:
        chosen = each in rare and (each.word in names.union(nearest) or (short and not named))
        # An identifier that many passages have may name a section.
        if not (chosen or _IDENTIFIER.search(each.word)):
            continue
        allowed = _allow(run, each.windows if each in rare else ())
        if each.word in days:
            allowed = await _keep_whole(run, about, allowed, least=_OF_DAY)
        elif not (plain or each.word in names):
            allowed = await _keep_whole(run, text, allowed)
        said.append(
            ExactMatch(
                each.word, allowed, gain, sought=short or each.word in days, alone=alone or each.word in coded
            )
        )
    own = [word for word in words if _is_named(word) and word not in openers and not _is_of_date(word)]
    said += await _find_together(run, own, days)
    return [*said, *dated, *await _find_definitions(run, text)]


def _is_name_alone(words: Sequence[str]) -> bool:
    """Return whether a text has no other word than a name, or the number of a version."""
    kept = [word for word in words if not _OF_RELEASE.fullmatch(word)]
    return (len(words) == 1 and is_name(words[0])) or (
        len(kept) == 1 and _VERSION.fullmatch(kept[0]) is not None
    )


def _find_coded(text: str, words: Sequence[str]) -> list[str]:
    """Return the only word of code in a short question for one thing: what little is said beside it is asked of it."""
    coded = [word for word in words if _CODE.fullmatch(word)]
    return coded if len(coded) == 1 and len(words) <= SHORT and not asks_for_several(text) else []


async def _find_together(run: QueryRun, names: Sequence[str], days: Sequence[str]) -> list[ExactMatch]:
    """Return the few windows that hold all names of a question and one of its days or months, though many may hold each of them."""
    if not (names and days):
        return []
    terms = [*((name,) for name in names), days]
    documents, spelled = run.index.documents, [word for term in terms for word in term]
    counted = await documents.find_rare_words(run.index.collection.name, spelled, _MANY, _MANY)
    held = {each.word: set(each.windows) for each in counted}
    shared = set.intersection(*(set[str]().union(*(held.get(word, ()) for word in term)) for term in terms))
    if not 0 < len(shared) <= _FEW_WINDOWS:
        return []
    gain = 2 * run.query.relevance_options.exact
    return [ExactMatch(" ".join(names), _allow(run, sorted(shared)), gain, sought=True)]


async def _find_sent(run: QueryRun, who: str) -> list[ExactMatch]:
    """Return the mails and the files of who is asked for: others quote and name who sent them."""
    if not who:
        return []
    files = [replace(each, alone=False) for each in await _find_files(run, [who])]
    return [*await _find_all(run, [f"From: {who}"], 2 * run.query.relevance_options.exact), *files]


async def find_definitions(run: QueryRun, text: str, best: Sequence[str]) -> list[ExactMatch]:
    """Return the windows that define what is named with what it belongs to (*click.prompt* is *prompt* where it is defined), and constants
    of two words of the question that the ``best`` windows name: *timeout=DEFAULT_TIMEOUT* does not tell the default timeout."""
    if asks_for_uses(text):
        return []
    await run.load(parse_window_id(id_)[0] for id_ in best)
    words, found = _correct(run, text), list[ExactMatch]()
    terms = " ".join(["", *search_terms(" ".join(words))])
    named = dict.fromkeys(_CONSTANT.findall("\n".join(read_window(id_, run.chunks) for id_ in best)))
    told = [each for each in named if sum(f" {part}" in terms for part in each.lower().split("_")) > 1]
    for word in dict.fromkeys([*filter(_MEMBER.fullmatch, words), *told[:3]]):
        gain = run.query.relevance_options.exact / (1 if word in words else 3)
        match = ExactMatch(word, (), gain, sought=word in told or len(words) <= SHORT)
        spelled = [word] if word in told else [f"{by} {_read_last(word)}" for by in _DEFINED_BY.split("|")]
        held = [id_ for each in await _find_all(run, spelled, gain) for id_ in each.windows]
        ids = [*dict.fromkeys(parse_window_id(id_)[0] for id_ in held)]
        await run.load(ids)
        defining = _find_defining([match], filter(None, map(run.chunks.get, ids)))
        found += [replace(match, windows=tuple(each)) for each in defining.values()]
    return found


async def _find_all(run: QueryRun, phrases: Sequence[str], gain: float) -> list[ExactMatch]:
    """Return the windows with phrases that not many have, all of which ``gain``."""
    if not phrases:  # as in most questions
        return []
    held = await run.index.documents.find_rare_words(run.index.collection.name, phrases, _MANY, _MANY)
    return [ExactMatch(each.word, _allow(run, each.windows), gain, sought=True) for each in held]


async def _find_definitions(run: QueryRun, text: str) -> list[ExactMatch]:
    """Return the windows that say what a thing is of which nothing else is asked: *Zod is a library …*. A frequent name finds none."""
    what = find_defined(text)
    gain = run.query.relevance_options.exact
    for verbs in _DEFINING if what else ():
        told = await _find_all(run, [f"{what} {each}" for each in verbs], gain)
        windows = dict.fromkeys(id_ for each in told for id_ in each.windows)
        await run.load(parse_window_id(id_)[0] for id_ in windows)
        begins = rf"(?im)(?:^|[.!?:]\s)[^\w\n]*(?:(?:an?|the) )?[^\w\n]*{re.escape(what)}\W{{1,4}}(?:{'|'.join(verbs)})\b"
        if said := [id_ for id_ in windows if re.search(begins, read_window(id_, run.chunks))]:
            return [ExactMatch(what, tuple(said[:_FEW_WINDOWS]), gain, sought=True)]
    return []


async def _find_files(run: QueryRun, words: Iterable[str]) -> list[ExactMatch]:
    """Return the windows with which the documents begin that words name by their files or folders: *What is in tools.csv?*"""
    found: list[ExactMatch] = []
    for word in words:
        held = await run.index.documents.find_called(run.index.collection.name, word)
        if windows := _allow(run, (window_id(each, 0) for each in held[:_FEW_WINDOWS])):
            gain = run.query.relevance_options.exact
            found.append(ExactMatch(word, windows, gain, sought=True, alone=True))
    return found


def _allow(run: QueryRun, windows: Iterable[str]) -> tuple[str, ...]:
    return tuple(id_ for id_ in windows if run.scope.allows(parse_window_id(id_)[0]))


async def _find_quotation(run: QueryRun, text: str) -> ExactMatch | None:
    """Return the few windows that hold the whole text, or what a message says around its values; none of a question."""
    if len(text.split()) < _QUOTED_WORDS or text.rstrip().endswith(("?", "？")):
        return None
    for parts in filter(None, ([text], _cut_message(text))):
        told = await run.index.documents.find_rare_words(run.index.collection.name, parts, _MANY, _MANY)
        shared = set.intersection(*(set(each.windows) for each in told))
        if len(shared) <= _FEW_WINDOWS and (held := _allow(run, sorted(shared))):
            return ExactMatch(text, held, run.query.relevance_options.exact, sought=True, alone=True)
    return None


def _cut_message(text: str) -> list[str]:
    """Return what a message says around its values, if it has some: *parser 'json' already present* was written without the name."""
    parts = [each.strip(" .:,;!()") for each in _VALUES.split(text)]
    parts = [each for each in parts if " " in each]
    enough = len(" ".join(parts).split()) >= _QUOTED_WORDS - 1
    return parts if enough and _VALUES.search(text) else []


async def _keep_whole(run: QueryRun, text: str, windows: Sequence[str], least: float = 1) -> tuple[str, ...]:
    """Return the windows that hold all words of a question (``least``: such a share), but those that stand nowhere: one plain word of several,
    such as a verb, says little. Of a misspelt word counts what is meant."""
    if least < 1 and len(text.split()) < SHORT:
        return tuple(windows)
    await run.load(parse_window_id(id_)[0] for id_ in windows)
    asked = QueryWords([" ".join(_correct(run, text))])
    return tuple(id_ for id_ in windows if asked.share([read_window(id_, run.chunks)]) >= least)


def _correct(run: QueryRun, text: str) -> list[str]:
    return [each for word in find_whole_words(text) for each in run.absent.get(word, (word,))[:1]]


def read_window(id_: str, chunks: Mapping[str, Chunk]) -> str:
    """Return title, heading and text of a window; "" of a passage that is not there, as it was deleted meanwhile."""
    chunk_id, number = parse_window_id(id_)
    if (chunk := chunks.get(chunk_id)) is None:
        return ""
    window = chunk.windows[number]
    return f"{chunk.title}\n{window.heading}\n{chunk.quote(window)}"


async def _find_words(run: QueryRun, text: str) -> list[str]:
    """Return the words and phrases of a question; compounds that stand nowhere, nor one like them, in their parts."""
    documents, name = run.index.documents, run.index.collection.name
    words = [word for word in find_whole_words(_EMPTY.sub(" ", text)) if not asks_for_now(word)]
    for label, number in _NUMBERED.findall(text):
        if {label, number}.issubset(words) and label.casefold() not in DATE_WORDS:
            words[words.index(label)] = f"{label} {number}"
            words.remove(number)
    if joined := [word for word in words if _COMPOUND.fullmatch(word)]:
        for word in await documents.find_absent(name, joined):
            if not await documents.nearest_words(name, word):
                # An option is meant as it is written.
                if re.search(rf"(?<!\w)-{re.escape(word)}(?!\w)", text):
                    run.absent[word] = ()
                place = words.index(word)
                words[place : place + 1] = filter(None, re.split("[-./]", word))
    return [*dict.fromkeys(words)][:_MANY]


async def _note_absent(
    run: QueryRun, text: str, words: Sequence[str], counted: Sequence[RareWord], files: Sequence[ExactMatch]
) -> tuple[list[str], list[ExactMatch]]:
    """Note in ``run.absent`` the words that stand nowhere, but for those that name a file or folder. Return what they may be misspelt
    from, and the documents so named. ``counted`` are those of the words that were looked up, ``files`` those that name one whole."""
    documents, name = run.index.documents, run.index.collection.name
    short = len(words) <= SHORT
    absent = {each.word for each in counted if not each.documents}
    if others := [word for word in words if not (short or is_name(word))]:
        absent.update(await documents.find_absent(name, others))
    if not short:
        absent -= _find_openers(text)
    # *Chat bot* stands there as *chatbot*.
    joined = {one + other: {one, other} for one, other in pairwise(words) if one in absent or other in absent}
    there = joined.keys() - (await documents.find_absent(name, [*joined]) if joined else ())
    absent = absent.difference(*map(joined.__getitem__, there))
    called = await _find_files(run, [word for word in words if word in absent])
    absent.difference_update(each.word for each in (*files, *called))
    english, newest = is_mostly_english([text]), asks_for_newest_release(text)
    nearest: list[str] = []
    for word in words:
        asks = asks_for_overview(word) or asks_for_order(word) or word.casefold() in EVERYTHING | _VAGUE
        asks = asks or (newest and bool(_OF_RELEASE.fullmatch(word))) or bool(_TIME.fullmatch(word))
        if word in absent and not (asks or word.casefold() in DATE_WORDS):
            misspelt = is_name(word) or (english and not is_english_word(word))
            # An amount is not misspelt.
            misspelt = misspelt and "," not in word and len(run.absent) < _GUESSED
            misspelt = misspelt and not NUMBER_WORDS.issuperset(word.casefold().split("-"))
            guesses = await documents.nearest_words(name, word) if misspelt else ()
            if _DAY.fullmatch(word) and (
                any(each.startswith(word) for each in guesses)
                or await documents.find_dated(name, word, _FEW_DATED)
            ):
                continue  # it stands there with a time, or documents are of it
            if english or not any(_is_form(word, each) for each in guesses):
                run.absent[word] = guesses
                nearest += guesses if len(guesses) == 1 else ()  # of several, none may be meant
    if len(called) < len(words):  # a folder is then where to look, not what is asked
        few = (each for each in called if len(each.windows) < _FEW_WINDOWS)  # a large one says nothing
        called = [replace(each, gain=each.gain / 8, alone=False) for each in few]
    compounds = await _find_all(run, sorted(there), run.query.relevance_options.exact / 2)
    return list(dict.fromkeys(nearest)), [*(called if short else ()), *compounds]


def _find_openers(text: str) -> set[str]:
    """Return the words that have a capital as they begin a sentence: plain English ones, and what asks for an order or an overview."""
    first = (text[start:end].partition(" ")[0] for start, end in sentences(text))
    asks = (is_english_word, asks_for_order, asks_for_overview)
    return {word for word in first if word.istitle() and any(each(word.lower()) for each in asks)}


def find_named_sections(exact: Sequence[ExactMatch], chunks: Sequence[Chunk]) -> list[ExactMatch]:
    """Return the matches, and of identifiers and numbers the windows of ``chunks`` that define them: what a section is named after is
    told there. Where these are all that is sought, what only mentions them is left out, if they are written as in the question."""
    found = _find_defining(exact, chunks)
    read = {each.id: each for each in chunks}
    kept: list[ExactMatch] = []
    named: list[ExactMatch] = []
    for each in exact:
        if not (windows := found.get(each.word)):
            kept.append(each)
            continue
        last = _read_last(each.word.casefold())
        as_written = any(last in read_window(id_, read).casefold() for id_ in windows)
        if not (each.sought and as_written):
            kept.append(replace(each, gain=each.gain / (1 + as_written)))
        gain, sought = each.gain * (1 if as_written else 0.9), each.sought or bool(_VERSION.match(each.word))
        # Title and heading, then the text
        begins = re.compile(rf".*\n.*\n(?s:.*)\b(?:{_DEFINED_BY})\s+{re.escape(last)}\b", re.IGNORECASE)
        begin = tuple(id_ for id_ in windows if begins.match(read_window(id_, read)))
        inside = tuple(id_ for id_ in windows if id_ not in begin)
        named.append(replace(each, windows=begin, sought=sought, gain=gain))
        named.append(replace(each, windows=inside, sought=sought, gain=0.9 * gain if begin else gain))
    return [*kept, *named]


def put_uses_first(exact: Sequence[ExactMatch], chunks: Sequence[Chunk]) -> list[ExactMatch]:
    """Return the matches, of identifiers the windows with them in their text; in documents that define these, they gain a little less."""
    read = {each.id: each for each in chunks}
    defining = _find_defining(exact, chunks)
    split: list[ExactMatch] = []
    for each in exact:
        own = {read[parse_window_id(id_)[0]].document_id for id_ in defining.get(each.word, ())}
        places = ((id_, *parse_window_id(id_)) for id_ in each.windows)
        known = ((id_, read[chunk], number) for id_, chunk, number in places if chunk in read)
        held = {id_: it.document_id in own for id_, it, at in known if each.word in it.quote(it.windows[at])}
        uses, inside = (tuple(id_ for id_ in held if held[id_] == own_) for own_ in (False, True))
        split.append(replace(each, windows=uses) if held else each)
        split.append(replace(each, windows=inside, gain=0.9 * each.gain))
    return split


def _find_defining(exact: Sequence[ExactMatch], chunks: Iterable[Chunk]) -> dict[str, list[str]]:
    """Return the windows that define an identifier or number of a match, of one with what it belongs to those that define it there, or
    else what bears its last name: in the file or folder that the name says, if there is one, and rather a function than a method."""
    wanted = dict.fromkeys(each.word for each in exact if _IDENTIFIER.search(each.word))
    ranked = [
        (rank, word, window_id(chunk.id, number))
        for chunk in (chunks if wanted else ())
        for number, window in enumerate(chunk.windows)
        for defined in ({*map(_as_one, _find_defined(chunk, window))},)
        for word in wanted
        if (rank := _rank_definition(_as_one(word), defined, chunk))
    ]
    best = {word: rank for rank, word, _ in sorted(ranked)}
    return group((word, id_) for rank, word, id_ in ranked if rank == best[word])


def _rank_definition(name: str, defined: set[str], chunk: Chunk) -> int:
    """Return how surely a window that defines names defines this one; 0: it does not."""
    *owners, last = _QUALIFIED.split(name)
    if name in defined or last not in defined or not is_code(chunk.media_type):
        return _WHOLE * (name in defined)
    owned = 2 * len(set(owners).intersection(re.split(r"[\W_]+", chunk.source.casefold())))
    is_method = any(each.endswith(f".{last}") for each in defined)
    return owned + 1 + (not is_method) if owned or last[3:] else 0  # *Node.js* names no member


def _read_last(word: str) -> str:
    return _QUALIFIED.split(word)[-1].rstrip("()")


def _as_one(word: str) -> str:
    """Return an identifier in one spelling, a version without its *v*."""
    return re.sub(r"^v(?=\d)", "", spell_as_one(word))


def _find_defined(chunk: Chunk, window: Window) -> list[str]:
    """Return what a window defines: its heading as one word, the last word of a short one, and versions in it; of code the innermost
    definition around it and those within, each also behind what it belongs to: *Task.retry*."""
    if not is_code(chunk.media_type):
        words = window.heading.rpartition(" > ")[2].split()
        last = words[-1:] if len(words) <= SHORT else []  # *What belongs in Node.js* does not define it
        return [
            *last,
            "_".join(words),
            *_VERSION.findall(window.heading),
            *_ENTRY.findall(chunk.quote(window)),
        ]
    from leanrag_engine.documents.headings import headings  # noqa: PLC0415 - only questions on code need it

    text = chunk.quote(window)
    around, within = (
        [each.title.split()[-1] for each in headings(some, chunk.media_type)]
        for some in (window.heading, text)
    )
    within += _VALUED.findall(text)
    inner = [".".join([*around[-1:], name]) for name in within]
    own = [_QUALIFIED.split(each)[-1] for each in (*around[-1:], *within)]
    return [*around[-1:], ".".join(around[-2:]), *within, *inner, *own]


def _is_named(word: str) -> bool:
    """Return whether a word is a name or identifier; a number of one or two figures may be any."""
    return is_name(word) and not (word.isdigit() and len(word) <= 2)  # noqa: PLR2004


def _is_form(word: str, other: str) -> bool:
    """Return whether two words differ in their last two letters alone, as the forms of one do: *messe*, *messen*."""
    stem = word.casefold()[:-2]
    return word.isalpha() and len(stem) > 2 and other.casefold().startswith(stem)  # noqa: PLR2004


def _is_of_date(word: str) -> bool:
    return word.isdigit() or word.casefold() in DATE_WORDS


async def _find_dated(run: QueryRun, dates: Sequence[str], about: str, *, alone: bool) -> list[ExactMatch]:
    """Return the windows of the documents of each date, if those are few: they are as good as passages that say it. Where a question says more
    (``about``), they hold half of that."""
    found = []
    for day in dates[:_FEW_DATES]:
        ids = await run.index.documents.find_dated(run.index.collection.name, day, _FEW_DATED)
        await run.load(ids)
        held = filter(None, map(run.chunks.get, ids))
        places = ((chunk, at) for chunk in held for at in range(len(chunk.windows)))
        # A journal is of the day it begins with, its sections are of their own.
        of_day = (each for each in places if all(nearness(own, [day]) == 1 for own in each[0].days(each[1])))
        windows = tuple(window_id(chunk.id, at) for chunk, at in of_day)
        windows = await _keep_whole(run, about, windows, least=_OF_DAY)
        found.append(ExactMatch(day, windows, run.query.relevance_options.exact, sought=True, alone=alone))
    return found
