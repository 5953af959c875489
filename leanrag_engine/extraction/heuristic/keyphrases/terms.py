"""Find the terms of a document without capitals: lower-case noun phrases, and Chinese, Japanese or Korean compounds."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log2

from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.core.text.language.parts_of_speech import parts_of_speech
from leanrag_engine.core.text.language.sentences import PieceKind
from leanrag_engine.core.text.scripts import has_cjk
from leanrag_engine.extraction.heuristic.names.lexicon import Lexicon
from leanrag_engine.extraction.heuristic.names.mentions import Kind, Mention, keep_longest
from leanrag_engine.extraction.heuristic.passages import ParsedChunk
from leanrag_engine.extraction.heuristic.words import vocabulary as known
from leanrag_engine.extraction.heuristic.words.tokens import Sentence, WordUsage

from . import cjk
from .phrases import Phrase, count_phrases, find_phrases, is_compound, phrase_key


@dataclass(frozen=True, slots=True)
class HeuristicOptions:
    """How much heuristic extraction takes from a chunk: by reading extracts of MuSiQue, a novel and manuals, not tuned."""

    tokens_per_entity: int = 20  # A chunk gets one entity per so many tokens, within the next two bounds

    fewest_entities: int = 12
    most_entities: int = 26

    tokens_per_name: int = 8  # Names may exceed the bounds up to one per so many tokens

    related_in_full: int = 4  # In a sentence with at most so many entities, every two of them are related

    pairs_per_sentence: int = 6  # Pairs in a sentence with more entities, unless it has more neighbours

    title_relations: int = 12
    heading_relations: int = 5  # Entities of a chunk that are related to the title and to each heading

    short_document: int = 6  # In a document of at most so many chunks, the title is an entity of each chunk

    most_rows: int = 500  # Of tables with more rows in all, the names in cells are no entities

    description_words: int = 60

    salient_words: int = 6  # Lone nouns of a short document, and one per `words_per_salient` words
    words_per_salient: int = 300
    most_singles: int = 40
    fewest_of_single: int = 3  # How often such a noun must occur, and once more per `words_per_single` words
    words_per_single: int = 3_000
    gathering: float = 0.3  # Least residual IDF of such a noun in a book: *family* is everywhere in a novel
    parts_of_book: int = 200  # Parts of 250 words from which on a text is a book (`.docs/decisions.md`)
    gathered: float = 0.7  # Residual IDF from which on a quarter of those occurrences is enough: a scene
    fewest_of_headed: int = 2  # How often a noun must occur that is in a heading too

    uncased_terms: int = 40  # Words that become entities in a document whose script has no capitals


OPTIONS = HeuristicOptions()


class Spread:
    """Counts phrases, and the parts of about ``words`` words of a text that have each of them."""

    def __init__(self, words: int = 250) -> None:
        self._size = words
        self._words = 0
        self._counts: Counter[str] = Counter()
        self._parts: Counter[str] = Counter()
        self._last: dict[str, int] = {}

    def add(self, found: Counter[str], words: int) -> None:
        """Add the next sentence: its phrases and the number of its words."""
        part = self.parts
        self._words += words
        self._counts.update(found)
        for key in found:
            if self._last.get(key) != part:
                self._last[key] = part
                self._parts[key] += 1

    @property
    def parts(self) -> int:
        return 1 + self._words // self._size

    def residual(self, key: str, *, fewest: int = 40) -> float:
        """Return the residual IDF of a phrase that occurs; 0 in a text of less than ``fewest`` parts, which tell too little."""
        if self.parts < fewest:
            return 0.0
        by_chance = self.parts * (1 - exp(-self._counts[key] / self.parts))
        return log2(by_chance / self._parts[key])


def find_terms(
    passages: Sequence[ParsedChunk], fresh: Sequence[Sentence], usage: WordUsage, lexicon: Lexicon
) -> None:
    """Add the mentions of terms to the passages; ``fresh`` are the sentences to count, each once."""
    _find_cjk(passages, fresh, lexicon)
    if usage.english:
        _find_small(passages, fresh, usage, lexicon)
    elif usage.uncased:
        _find_uncased(passages, usage, lexicon)


def _add(passage: ParsedChunk, position: int, terms: Sequence[Mention], lexicon: Lexicon) -> None:
    """Add mentions to a sentence; of two that overlap, keep the longer."""
    if terms:
        keys = {mention: key for key, mention in passage.mentions[position]}
        passage.mentions[position] = [
            (keys.get(mention) or lexicon.add(mention), mention) for mention in keep_longest([*keys, *terms])
        ]


def _find_small(
    passages: Sequence[ParsedChunk], fresh: Sequence[Sentence], usage: WordUsage, lexicon: Lexicon
) -> None:
    shaped = [
        [
            find_phrases(sentence.tokens, usage) if sentence.kind is PieceKind.PROSE else []
            for sentence in passage.sentences
        ]
        for passage in passages
    ]
    counted = {id(sentence) for sentence in fresh}
    spread = Spread()
    for passage, found in zip(passages, shaped, strict=True):
        for sentence, phrases_ in zip(passage.sentences, found, strict=True):
            if id(sentence) in counted:
                here = count_phrases(sentence.tokens, phrases_)
                usage.phrases.update(here)
                spread.add(here, len(sentence.tokens))
    named = frozenset(lexicon.surfaces)
    marked = frozenset(key for key in named if " " not in key and key not in known.GENERIC_NOUNS)
    singles = _salient_singles(usage, spread, fresh) | marked
    for passage, found in zip(passages, shaped, strict=True):
        for position, sentence in enumerate(passage.sentences):
            terms = [_term(sentence, phrase, usage, named, singles) for phrase in found[position]]
            _add(passage, position, [term for term in terms if term], lexicon)


def _salient_singles(usage: WordUsage, spread: Spread, fresh: Sequence[Sentence]) -> frozenset[str]:
    """Return the keys of the lone nouns that the document is about: frequent ones that gather, and those of its headings."""
    letters = 3
    counts = {
        key: count
        for key, count in usage.phrases.items()
        if " " not in key and len(key) >= letters and key.isalpha() and _is_noun(key, usage)
    }
    headed = {
        name_key(token.text)
        for sentence in fresh
        if sentence.kind is PieceKind.HEADING
        for token in sentence.tokens
        if token.kind in "cw"
    }
    words = usage.small.total()
    least = max(OPTIONS.fewest_of_single, words // OPTIONS.words_per_single)
    found = [
        key
        for key, count in counts.items()
        if key not in known.GENERIC_NOUNS
        and key not in known.CALENDAR
        and (count >= OPTIONS.fewest_of_headed if key in headed else _gathers(key, count, least, spread))
    ]
    most = min(OPTIONS.most_singles, OPTIONS.salient_words + words // OPTIONS.words_per_salient)
    return frozenset(sorted(found, key=lambda key: (-counts[key] * (1 + (key in headed)), key))[:most])


def _gathers(key: str, count: int, least: int, spread: Spread) -> bool:
    """Return whether a noun is frequent enough for how much its mentions gather in places."""
    residual = spread.residual(key)
    if count >= least:
        return spread.parts < OPTIONS.parts_of_book or residual >= OPTIONS.gathering
    return count >= max(OPTIONS.fewest_of_single + 1, least // 4) and residual >= OPTIONS.gathered


def _is_noun(word: str, usage: WordUsage) -> bool:
    """Return whether a word is a noun by the lexicon; if that leaves it open, by how the document uses it."""
    if word in known.VERBS or word in known.ADVERBS or word in known.GENERIC_ADJECTIVES or word in known.BE:
        return False
    found = parts_of_speech(word)
    if found in {"n", "nv", "na"}:
        return True
    if found and "n" not in found:
        return False
    nouns, verbs = usage.nouns[word] + usage.nouns[word + "s"], usage.verbs[word]
    return nouns > 1 + 2 * verbs if found else nouns > verbs


def _term(
    sentence: Sentence, phrase: Phrase, usage: WordUsage, named: frozenset[str], singles: frozenset[str]
) -> Mention | None:
    """Return the longest part of a phrase that the document repeats or has as a name (keys ``named``); else the phrase as a weak term."""
    tokens, (first, last) = sentence.tokens, phrase
    for start in range(first, last - 1):
        key = phrase_key(tokens, start, last)
        often = usage.often + (not is_compound(tokens, start, last, narrative=usage.narrative))
        again = usage.phrases[key] >= often or key in named
        if again and tokens[start].lower not in known.GENERIC_ADJECTIVES:
            return _mention(sentence, start, last, Kind.CONCEPT)
    if tokens[last - 1].kind == "w" and phrase_key(tokens, last - 1, last) in singles:
        return _mention(sentence, last - 1, last, Kind.CONCEPT)
    if last - first == 1:
        return None
    longest_weak = 3
    weak = (
        last - first <= longest_weak
        and tokens[first].kind == "w"
        and is_compound(tokens, first, last, narrative=usage.narrative)
    )
    return _mention(sentence, first, last, Kind.TERM) if weak else None


def _mention(sentence: Sentence, first: int, last: int, kind: Kind) -> Mention:
    tokens = sentence.tokens
    name = " ".join(token.text for token in tokens[first:last])
    if first == 0 and name[1:].islower():
        name = name[0].lower() + name[1:]
    return Mention(name, kind, tokens[first].start, tokens[last - 1].end, weak=kind is Kind.TERM)


def _find_uncased(passages: Sequence[ParsedChunk], usage: WordUsage, lexicon: Lexicon) -> None:
    """Take the most frequent words of 5 to 19 letters, in a script without capitals and without a segmenter."""
    often = [word for word, count in usage.small.items() if count > 1 and len(word) in range(5, 20)]
    chosen = frozenset(sorted(often, key=lambda word: (-usage.small[word], word))[: OPTIONS.uncased_terms])
    for passage in passages:
        for position, sentence in enumerate(passage.sentences):
            terms = [
                Mention(t.text, Kind.CONCEPT, t.start, t.end) for t in sentence.tokens if t.lower in chosen
            ]
            _add(passage, position, terms, lexicon)


_DEFINED = re.compile(r"\s*[(（]\s*([A-Za-z][^()（）]{1,80})[)）]")
_SEPARATOR = re.compile(r"\s*[,，;；、]\s*")
_WORK_TITLE = re.compile(r"[《『]([^《》『』\n]{2,30})[》』]")


def _find_cjk(passages: Sequence[ParsedChunk], fresh: Sequence[Sentence], lexicon: Lexicon) -> None:
    lines = [s.text for s in fresh if s.kind is not PieceKind.CODE and has_cjk(s.text)]
    if not lines:
        return
    language = cjk.language_of("".join(lines))
    runs = {text: cjk.runs(text, language) for text in dict.fromkeys(lines)}
    compounds = cjk.Compounds((run for text in lines for run in runs[text]), language)
    for text, found in runs.items():
        _define(text, found, compounds, lexicon)
    for passage in passages:
        for position, sentence in enumerate(passage.sentences):
            if sentence.text in runs and sentence.kind is PieceKind.PROSE:
                terms = [compound for run in runs[sentence.text] for compound in compounds.of(run)]
                _add(passage, position, _cjk_mentions(sentence.text, terms, lexicon), lexicon)


def _cjk_mentions(text: str, compounds: Sequence[cjk.Compound], lexicon: Lexicon) -> list[Mention]:
    found = [Mention(work[1], Kind.WORK, work.start(1), work.end(1)) for work in _WORK_TITLE.finditer(text)]
    for compound in compounds:
        kind = Kind.TERM if compound.weak else Kind.NAME if compound.proper else Kind.CONCEPT
        found.append(Mention(compound.name, kind, compound.start, compound.end, compound.weak))
        if compound.type:
            lexicon.kinds[name_key(compound.name)][compound.type] += 1
    return found


def _define(text: str, runs: Sequence[cjk.Run], compounds: cjk.Compounds, lexicon: Lexicon) -> None:
    """Define the compounds that a remark in Latin letters follows: 最低公共祖先(Lowest Common Ancestor, LCA)."""
    for run in runs:
        remark = _DEFINED.match(text, run[-1].end)
        name = compounds.define(run) if remark else ""
        if remark and name:
            for other in _SEPARATOR.split(remark[1].strip()):
                lexicon.define(other, name)
