"""Find lower-case noun phrases by their shape: modifiers and a noun, no verb and no function word."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.core.text.language.parts_of_speech import parts_of_speech
from leanrag_engine.core.text.language.words import STOPWORDS
from leanrag_engine.core.text.word_lists import read_words
from leanrag_engine.extraction.heuristic.words import vocabulary as known
from leanrag_engine.extraction.heuristic.words.tokens import CERTAIN_CODE, LONGEST_PHRASE, Token, WordUsage

_NO_PARTICIPLE = read_words("grammar", "no_participles")
_VERBAL_LEFT = known.BE | read_words("grammar", "verbal_left")
"""Behind one of these, a participle is a part of the verb."""
_NOUN_LEFT = known.DETERMINERS | known.PREPOSITIONS | known.GENERIC_ADJECTIVES
"""Behind one of these, a word that is mostly a verb is a noun: *the lock*, *for use*."""
_VERB_ENDINGS = ("izes", "izing", "ifies", "ifying")
"""A word that the lexicon does not have and that ends so is a verb."""


class Phrase(NamedTuple):
    """Tokens ``first`` to ``last`` (exclusive) have the shape of a noun phrase: modifiers and a noun."""

    first: int
    last: int


def find_phrases(tokens: Sequence[Token], usage: WordUsage) -> list[Phrase]:
    """Return the maximal runs of words that can form a term, trimmed to end with a possible noun."""
    found: list[Phrase] = []
    first = 0
    count = len(tokens)
    while first < count:
        if not _may_open(tokens, first):
            first += 1
            continue
        last = first + 1
        while last < count and _may_follow(tokens, last, usage):
            last += 1
        trimmed = _trim(tokens, first, last, usage)
        if trimmed:
            found.append(trimmed)
        first = last
    return found


def _may_open(tokens: Sequence[Token], position: int) -> bool:
    token = tokens[position]
    if token.kind == "w":
        return _is_content(tokens, position) and not _counts(token.lower)
    following = tokens[position + 1] if position + 1 < len(tokens) else None
    if token.kind == "i" and (CERTAIN_CODE.search(token.text) or not token.text.islower()):
        return False  # *the NameError exception* is NameError
    if token.kind in "ci" and following is not None and following.kind == "w":
        return (
            token.lower not in known.STARTERS
            and token.lower not in known.DEMONYMS
            and token.text[-2:] not in {"'s", "’s"}
        )
    return False


def _counts(word: str) -> bool:
    """Return whether a word is a number in letters: *fifteen*, *four-and-twenty*."""
    return all(part in known.CARDINALS or part == "and" for part in word.split("-"))


def _may_follow(tokens: Sequence[Token], position: int, usage: WordUsage) -> bool:
    token = tokens[position]
    if token.kind != "w" or not _is_content(tokens, position):
        return False
    if token.lower.endswith("ed") and token.lower not in _NO_PARTICIPLE:
        return False  # *the object created by*: a participle opens a phrase and never goes on with it
    return not _is_verb_here(tokens, position, usage)


def _is_content(tokens: Sequence[Token], position: int, shortest: int = 3) -> bool:
    word = tokens[position].lower
    before = tokens[position - 1].lower if position else ""
    if len(word) < shortest or _is_function_word(word) or _is_plain_verb(word, before):
        return False
    if word.endswith("ed") and word not in _NO_PARTICIPLE:
        after = tokens[position + 1] if position + 1 < len(tokens) else None
        verbal = before in _VERBAL_LEFT or not (
            position == 0 or before in known.DETERMINERS or before in known.PREPOSITIONS
        )
        return not verbal and after is not None and after.kind == "w" and after.lower not in STOPWORDS
    if word.endswith("ing") and before not in known.DETERMINERS:
        return _is_noun_in_ing(tokens, position, before)
    if word in known.AMBIGUOUS:
        return before not in known.VERB_LEFT
    return not ("'" in word or "’" in word)


def _is_function_word(word: str) -> bool:
    """Return whether a word is never a part of a term."""
    adverb = word.endswith("ly") and word not in known.NOT_ADVERBS
    return adverb or word in STOPWORDS or word in known.VERBS or word in known.ADVERBS


def _is_plain_verb(word: str, before: str) -> bool:
    """Return whether a word that is no participle is a verb or adverb by the lexicon: always, or mostly and so here."""
    letters = parts_of_speech(word)
    if not letters or word.endswith(("ed", "ing")):
        return False
    never = letters[0] in "vro" and not {"n", "a"} & set(letters)
    return never or (letters[0] == "v" and before not in _NOUN_LEFT)


def _is_noun_in_ing(tokens: Sequence[Token], position: int, before: str) -> bool:
    """Return whether a word in -ing is a noun, as in *pattern matching*, not in *by matching patterns*."""
    following = tokens[position + 1] if position + 1 < len(tokens) else None
    after = following.lower if following else ""
    if after in known.VERB_RIGHT:
        return False
    if tokens[position].lower not in known.VERB_FORMS:
        return True
    ends = following is None or following.kind != "w" or after in STOPWORDS
    return (
        ends
        and before not in STOPWORDS
        and before not in known.VERBS
        and position > 0
        and tokens[position - 1].kind == "w"
    )


def _is_verb_here(tokens: Sequence[Token], position: int, usage: WordUsage) -> bool:
    """Return whether a word between two nouns is a verb, as in *function returns the value*."""
    word = tokens[position].lower
    after = tokens[position + 1].lower if position + 1 < len(tokens) else ""
    if after in known.VERB_RIGHT and not word.endswith(("tion", "ment", "ness", "ity", "ance", "ence", "or")):
        return word in known.VERB_FORMS or usage.verbs[word] > usage.nouns[word]
    if word in known.AMBIGUOUS and word.endswith("s") and not word.endswith("ss"):
        return usage.nouns[word.removesuffix("s")] + usage.nouns[word] <= usage.verbs[word]
    return False


def _trim(tokens: Sequence[Token], first: int, last: int, usage: WordUsage) -> Phrase | None:
    while first < last and tokens[first].lower in known.GENERIC_ADJECTIVES:
        first += 1
    while last > first and not _may_close(tokens[last - 1], usage):
        last -= 1
    if last <= first or (last - first == 1 and tokens[first].kind != "w"):
        return None
    before = tokens[first - 1].lower if first else ""
    predicate = before in known.BE and not tokens[last - 1].lower.endswith("s")
    if predicate or tokens[last - 1].lower in known.EMPTY_HEADS:
        return None
    return Phrase(max(first, last - LONGEST_PHRASE), last)


def _may_close(token: Token, usage: WordUsage) -> bool:
    """Return whether a phrase may end with this word, which is probably a noun."""
    word = token.lower
    letters = parts_of_speech(word) or ("v" if word.endswith(_VERB_ENDINGS) else "n")
    verbal = letters[0] == "v" and word.endswith("ing") and usage.verbs[word] >= usage.nouns[word]
    if verbal or ("n" not in letters and usage.nouns[word] <= 1):
        return False
    if word in known.GENERIC_ADJECTIVES or word in known.LAST_ADJECTIVES:
        return usage.nouns[word] > 1
    if word.endswith(known.ADJECTIVE_ENDINGS):
        return word in known.NOT_ADJECTIVES or usage.nouns[word] > 1
    if word.endswith(("ed", "ly")) and word not in _NO_PARTICIPLE and word not in known.NOT_ADVERBS:
        return False
    return token.kind == "w" and usage.verbs[word] <= 2 * usage.nouns[word] + 1


def is_compound(tokens: Sequence[Token], first: int, last: int, *, narrative: bool) -> bool:
    """Return whether every word of a phrase but the last is a noun, a participle or unknown, so that it names a kind of thing:
    *lock file*, *compiled wheel*; not *dusky street*. In a narrative a participle only describes: *parting glance*."""
    return all(_names_kind(token.lower, narrative=narrative) for token in tokens[first : last - 1])


def _names_kind(word: str, *, narrative: bool) -> bool:
    letters = parts_of_speech(word)
    if word.endswith(("ed", "ing")):
        return not narrative or letters[:1] == "n"
    return not letters or ("n" in letters and letters[0] in "nv")


def phrase_key(tokens: Sequence[Token], first: int, last: int) -> str:
    return name_key(" ".join(token.text for token in tokens[first:last]))


def count_phrases(tokens: Sequence[Token], found: Sequence[Phrase]) -> Counter[str]:
    """Count every phrase and its parts with the same last word (*mixture model* in *Gaussian mixture model*);
    a single word only on its own."""
    return Counter(
        phrase_key(tokens, first, phrase.last)
        for phrase in found
        for first in range(phrase.first, max(phrase.first + 1, phrase.last - 1))
    )
