"""Decide whether two names are one: the normalised form of a name."""

import re
import unicodedata
from functools import lru_cache

from leanrag_engine.core.text.language.words import IRREGULAR, plain_apostrophes
from leanrag_engine.core.text.scripts import read_marks
from leanrag_engine.core.text.word_lists import read_words

_QUOTES = "\"'`“”‘’«» "
_CALL = re.compile(r"(?<=[\w\]])\([^()]*\)$")
"""Call brackets follow a name directly; a remark in brackets follows a space."""
_NAME_TOKEN = read_marks(
    re.compile(
        r"(?:(?<![\w.])\.(?=[^\W\d_]))?[^\W_](?:[^\W_]|(?<=\d)\.(?=\d)|&(?=[^\W_]))*"  # words, figures, .NET, R&B
        r"(?:\+\+|#|\+(?!\w)|(?<=\b\w)\*(?!\w))?"  # C++, C#, Disney+, A*
    )
)
_CODE_NAME = re.compile(r"(?:[$@]|--?)?(?:[^\W\d]\w*)(?:(?:\.|::|->)\w+)*")
_STRICT_CODE = re.compile(r"^(?:\$|--)|(?:^|[.:>])_|_(?:$|\.)|\w(?:::|->)\w|[a-z_]\w\.[a-z_]\w")
_HUMPS = re.compile(r"(?:[A-Z][a-zà-ÿ]+){2,4}")
_HUMP = re.compile(r"(?<=[a-zà-ÿ])(?=[A-Z])")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_INITIALS = re.compile(
    r"(?<![^\W_])(?:[^\W\d_]\.){2,}(?![^\W_]{2})|(?<![^\W_])(?:[^\W\d_]\.)+[^\W\d_](?![\w.])"
)
_ARTICLE = re.compile(r"^(?:(?:the|an?)\s+)+(?=\S)")
_TRADE_MARK = re.compile("(?<=\\S)[™®©℠]")
_ACCENT = re.compile(
    "(?<=[a-z])[\u0300-\u036f]+|(?<=е)\u0308|[\u0591-\u05bd\u05bf\u05c1-\u05c7\u064b-\u065f\u0670]+"
)
"""Accents on Latin letters, and the vowels that Hebrew and Arabic may leave out."""
_OWNER = re.compile("['’`´]s(?![^\\W_])|(?<=s)['’](?=\\s|$)")
_APOSTROPHE = re.compile("(?<=\\w)['’`´](?=\\w)")

_CYRILLIC = re.compile("[а-яёіїєґў]")
_CASE_ENDING = re.compile(
    "(?:(?<=[а-яёіїєґў]{4})(?:иями|ями|ами|ого|его|ому|ему|ыми|ими|ией|ием|иях|иям|ах|ях|ам|ям|ой|ей|ою|ею|ый|ий|ая|яя|ое|ее|ые|ие"
    "|ом|ем|ём|ым|им|ых|их|ую|юю|ию|ия|ии|ью)|(?<=[а-яёіїєґў]{4})е[аяуюй]|(?<=[а-яёіїєґў]{4})еем|(?<=[а-яёіїєґў]{3})[аяыиоеуюьй])$"
)
_KEEPS_ITS_S = read_words("language", "singular_in_s")
_PLURALS_IN_ES = ("sses", "shes", "ches", "xes", "zzes", "oes")
_ACRONYM_PLURAL = re.compile("[b-df-hj-np-tv-xz]{2}s")
"""TVs, CDs, KGs; harmless for GPS, which has no singular."""


def fold_case(text: str) -> str:
    """Return ``text`` without differences of case and white space, for comparing passages."""
    return " ".join(text.casefold().split())


@lru_cache(maxsize=1 << 16)
def name_key(name: str) -> str:
    """Return the normalised form of a name: two names are the same iff their keys are equal. Case, accents on Latin
    letters, punctuation, leading articles, possessive endings, call brackets and a simple English plural of the last
    word are ignored. Signs with a meaning are kept: ``__init__``, ``os.path``, ``C++``, ``C#``, ``.NET``, ``+=``. A
    key is for comparison, not for display. It is empty only if the name is blank."""
    folded = plain_apostrophes(_normalize(name))
    bare = _CALL.sub("", folded.strip(_QUOTES)).strip(_QUOTES) or folded
    if _CODE_NAME.fullmatch(bare) and _STRICT_CODE.search(bare):
        return bare
    bare = _INITIALS.sub(lambda initials: initials[0].replace(".", "") + " ", _ARTICLE.sub("", bare, count=1))
    tokens = _NAME_TOKEN(bare).findall(
        _APOSTROPHE.sub("", _OWNER.sub("", _THOUSANDS.sub("", bare.replace(" & ", " and "))))
    )
    if not tokens:
        return folded
    if not bare.isascii() and _CYRILLIC.search(bare):
        # Every case of a name is one name. Approximate: masculine and feminine forms of one share a stem as well.
        return " ".join(_CASE_ENDING.sub("", token) for token in tokens)
    return " ".join(_join_initials([*tokens[:-1], _singular(tokens[-1])]))


def split_humps(name: str) -> str:
    """Return a name of joined capitalised words with spaces: *MeiLin* → *Mei Lin*; "" for any other."""
    return _HUMP.sub(" ", name) if _HUMPS.fullmatch(name) else ""


def _normalize(name: str) -> str:
    """Return case-folded NFKC with single spaces, Latin letters without accents, without a trade mark sign at the end.
    A NUL becomes a space: databases cannot compare it."""
    if "\x00" in name:
        name = name.replace("\x00", " ")
    if name.isascii():
        return " ".join(name.lower().split())
    bare = _TRADE_MARK.sub("", name) or name
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", bare).casefold())
    return " ".join(unicodedata.normalize("NFC", _ACCENT.sub("", decomposed)).split())


def _join_initials(tokens: list[str]) -> list[str]:
    """Join initials into one word, however they are written: ``j k rowling`` → ``jk rowling``."""
    joined: list[str] = []
    initials = False
    for token in tokens:
        letter = len(token) == 1 and "a" <= token <= "z"
        if letter and initials:
            joined[-1] += token
        else:
            joined.append(token)
        initials = letter
    return joined


def _singular(word: str) -> str:
    if _ACRONYM_PLURAL.fullmatch(word):
        return word[:-1]
    if word in IRREGULAR:
        return IRREGULAR[word]
    shortest_plural = 4
    if len(word) < shortest_plural or not word.isascii() or word in _KEEPS_ITS_S:
        return word
    if not word.endswith("s") or word.endswith(("ss", "us", "is")) or not word[-2].isalpha():
        return word
    if word.endswith("ies") and len(word) > shortest_plural:
        return word[:-3] + "y"
    return word[:-2] if word.endswith(_PLURALS_IN_ES) else word[:-1]


_REMARK = re.compile(r"\s*[(（][^()（）]*[)）]$")


def without_remark(name: str) -> str:
    """Remove a bracketed remark at the end: *Alice (1999 film)* → *Alice*."""
    return _REMARK.sub("", name).strip() or name
