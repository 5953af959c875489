"""Cut text into words, for counting, comparing and full-text search."""

import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import groupby, pairwise

from leanrag_engine.core.text.language.parts_of_speech import is_english_word
from leanrag_engine.core.text.language.segmentation import segment
from leanrag_engine.core.text.scripts import (
    CJK_RUN,
    FREQUENT_FOREIGN,
    HAN,
    HANGUL,
    KANA,
    KANA_CHARACTER,
    has_cjk,
    has_hangul,
    has_kana,
    is_japanese,
    is_mostly_english,
    read_marks,
)
from leanrag_engine.core.text.word_lists import read_pattern, read_words

_SIGNS = "’‘ʼʹ′＇´ʻ｀"
_TYPOGRAPHIC = re.compile(f"(?<=[^\\W_])[{_SIGNS}](?=[^\\W_])|(?<=s)’(?=\\s)")
_CONTRACTION = re.compile(r"[^\W\d_]+(?:'?n't|'(?:ll|ve|re|m|d))(?:'[a-z]+)?", re.IGNORECASE)
_WITH_IS = read_words("language", "before_is")
_OTHERS = read_words("language", "contractions")


def plain_apostrophes(text: str) -> str:
    """Return ``text`` of the same length in which every apostrophe within a word is ``'``. Word files,
    e-books and web pages write ``’``. For analysis only: quotations keep what the document has."""
    return text if text.isascii() else _TYPOGRAPHIC.sub("'", text)


def is_contraction(word: str) -> bool:
    """Return whether a word with plain apostrophes is a contraction: *I'll*, *can't*, *it's*; not the owner in *Tim's*."""
    if "'" not in word:
        return False
    small = word.lower()
    return (
        _CONTRACTION.fullmatch(small) is not None
        or small in _OTHERS
        or (small.endswith("'s") and small[:-2] in _WITH_IS)
    )


STOPWORDS = read_words("language", "stopwords")
"""Words without content of their own: English, Chinese and Japanese, in lower case."""

_WORD = read_marks(
    re.compile(
        f"[{HAN}{KANA}]+"
        r"|[^\W\d_]+[+#]{1,2}(?![\w+#])"  # C++, C#
        r"|_*[^\W_]+(?:[_'’][^\W_]+|__[^\W_]+|(?<=\d)[.,](?=\d)[^\W_]+)*_*"
    )
)
_FIGURE_BEFORE_CJK = re.compile(rf"\d+(?=[{HAN}{KANA}])")  # 24小时
POSSESSIVE = re.compile(r"['’]s?$")
_ELIDED = read_pattern("phrases", "elided")
"""What French and Italian join to a word: *l'eau*, *qu'Apache*."""
_CAMEL_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_CAMEL = re.compile(r"\b(?=\w*[a-z][A-Z]|\w*[A-Z]{2}[a-z]{2})[A-Za-z][A-Za-z\d]+\b")
_HUMP = re.compile("[A-Z](?:(?<=[a-z][A-Z])|[A-Z][a-z]{2})")
"""It looks from the capitals, of which there are few: four times as fast as from the small letters."""
_SIGN = re.compile(r"#|\+\+|\.[nN][eE][tT]")
_SIGNED = re.compile(r"(?<!\w)(?:[A-Za-z]\w{0,9}?(?:\+\+|#)(?![\w+#])|\.[nN][eE][tT]\b)")
_QUOTED = re.compile(r'["“”„«]([^"“”„«»]{2,200})["“”»]|`([^`]{2,200})`')
_EDGES = read_marks(re.compile(r"^(?!\.[nN][eE][tT]$)[\W_]+|(?:(?![+#])[\W_])+$"))
_QUOTED_ARGUMENT = re.compile(r"(?<=\w)\([\"'].*")
_OUTER = read_marks(re.compile(r"^(?!\.[nN][eE][tT]$)\W+|(?:(?![+#])\W)+$"))
"""As ``_EDGES``, except underscores, which tell ``id_`` and ``_id`` from ``id``."""
_ACCENT = re.compile("[\u0300-\u036f]")
_PART = re.compile(r"[^\W_]+")
_COMPOUND = re.compile(r"[^\W_]++(?:[-_./@:\\>]++[^\W_]++)+")
_JOINED = re.compile(r"[^\W_]++(?:(?:-|_++)[^\W_]++)+")
_BEGUN, _LONGEST = re.compile(r"\w+\Z"), 300
_SEPARATOR = re.compile(r"[-_,'’]|^[vV](?=\d+\.)|\.$")
_COMMA = re.compile("[0-9][,'’][0-9]{3}")
_VERSION = re.compile(r"[vV][0-9]+\.")
_GROUPED = re.compile(r"(?<![\w.,])\d{1,3}(?:[,'’]\d{3})+(?![\w,])|\b[vV](?=\d+\.\d)[\d.]+")
_SPELLED = "ßss ẞSS æae ÆAE œoe ŒOE øo ØO łl ŁL đd ĐD ðd ÐD þth ÞTH ıi ёе ЁЕ ﬀff ﬁfi ﬂfl ﬃffi ﬄffl ﬅst ﬆst"
_LETTERS = {each[0]: each[1:] for each in _SPELLED.split()}
_LETTERS |= {chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}  # full width
_LETTERS |= {
    chr(code): "" for code in (*range(0x591, 0x5BE), 0x5BF, *range(0x5C1, 0x5C8), *range(0x64B, 0x660), 0x670)
}  # vowels
_LETTER = re.compile(f"[{''.join(map(re.escape, _LETTERS))}]")
_KOREAN_PARTICLE = re.compile(
    "(?<=[가-힣]{2})(?:은|는|이|가|을|를|의|에|에서|에게|으로|로|와|과|도|만|까지|부터|처럼|보다|이다|입니다|한다|하는)$"
)


def words(text: str) -> list[str]:
    """Return the words of ``text``, lower-cased and in order; Chinese and Japanese is cut into words. An identifier is followed
    by its parts (``read_file`` → ``read_file read file``); possessive endings are dropped; C++ and C# keep their signs."""
    japanese = is_japanese(text)
    found: list[str] = []
    for match in _WORD(text).finditer(text):
        token = match[0]
        if token.isascii():
            found += _latin_words(token)
        elif CJK_RUN.match(token):
            found += segment(token, japanese=japanese or has_kana(token), search=False)
        else:
            found.append(POSSESSIVE.sub("", token.replace("’", "'")).lower())
    return found


def content_words(text: str) -> frozenset[str]:
    """Return the distinct words of ``text`` that have content of their own."""
    return frozenset(words(text)) - STOPWORDS


def word_count(text: str) -> int:
    """Estimate the number of words of ``text`` without cutting it: two CJK characters count as one word."""
    if text.isascii():
        return len(text.split())
    return len(CJK_RUN.sub(" ", text).split()) + (sum(map(len, CJK_RUN.findall(text))) + 1) // 2


def search_text(text: str) -> str:
    """Return the form of ``text`` for a full-text index whose tokenizer splits at punctuation. CJK is segmented,
    camel-case names are followed by their parts and names of several parts by themselves as one word (``max_size`` →
    ``maxsize``), and names such as C++ become words that such a tokenizer keeps. Plain text is returned unchanged.
    After a change of what this returns, a migration has to index the windows anew."""
    if not text.isascii():
        text = _segment_text(fold_letters(text))
    # Searching for these names takes ten times as long as checking that a text can contain none.
    camels = _CAMEL.findall(text) if _HUMP.search(text) else []
    signs = _SIGNED.findall(text) if _SIGN.search(text) else []
    extra = [part for name in camels for part in _CAMEL_PART.findall(name)]
    extra += [_spell_signs(sign) for sign in signs]
    extra += _join_parts(text)
    return f"{text}\n{' '.join(extra)}" if extra else text


def search_terms(text: str, limit: int = 32) -> list[str]:
    """Return the distinct words of a query and the parts of its identifiers in order, at most ``limit``.
    Stopwords are dropped unless nothing else remains. A term never contains a quote sign or white space."""
    found = dict.fromkeys(_query_words(text))
    content = [term for term in found if term not in STOPWORDS]
    return (content or list(found))[:limit]


def index_terms(text: str, limit: int = 32) -> list[str]:
    """Return what a search in texts made by :func:`search_text` looks for: :func:`search_terms`, after the names of
    several parts as a whole. A name whose parts are joined by hyphens or underscores is one word, whichever of the
    ways of writing it a text has; any other (``pkg.func``, a path, an address) is a phrase of its parts."""
    text = fold_letters(text)
    names = (name.lower() for name in _COMPOUND.findall(text) if not has_cjk(name))
    phrases = [name for name in names if len(name) <= _LONGEST and not _JOINED.fullmatch(name)]
    parts = [term.replace("_", "") for term in search_terms(text, limit)]
    others = (_OTHER_NUMBER[part] for part in parts if part in _OTHER_NUMBER)
    return list(dict.fromkeys([*phrases, *_join_parts(text), *parts, *others]))[:limit]


def whole_forms(word: str) -> list[list[str]]:
    """Return the ways in which a text made by :func:`search_text` may hold a word, an identifier or a phrase
    as a whole. A text that holds it has all terms of one of them; of a long one, those of its beginning."""
    word = _EDGES(word).sub("", POSSESSIVE.sub("", fold_letters(word).replace('"', " ")))
    if len(word) > _LONGEST:  # an index looks up each of its words, as often as it stands there
        word = _BEGUN.sub("", word[:_LONGEST]) or word
    if has_cjk(word) and (" " in word or not has_hangul(word)):
        return [
            [word],
            *([_han_pairs(word)] if CJK_RUN.fullmatch(word) and word[1:] else []),
            index_terms(word),
        ]
    if has_hangul(word):
        return [[form] for form in _korean_forms(word)]
    if _SIGNED.fullmatch(word):
        return [[_spell_signs(word)]]
    if _JOINED.fullmatch(word) or _GROUPED.fullmatch(word):
        return [[word], _join_parts(word)]
    forms = [[each] for each in dict.fromkeys((word, _OTHER_NUMBER.get(word.lower(), word)))]
    if word.isascii() and word.isalpha() and word.islower() and not is_english_word(word):
        cuts = ((word[:at], word[at:]) for at in range(3, min(len(word), _LONGEST) - 2))  # chatbot, chat bot
        forms += [[" ".join(each)] for each in cuts if all(map(is_english_word, each))]
    return forms


IRREGULAR = dict(each.split("/") for each in read_words("language", "irregular_plurals"))
# Full-text search finds what differs in its ending alone; *men* and *man* are everywhere, and twice the weight of one.
_OTHER_NUMBER = {many: one for many, one in IRREGULAR.items() if not many.endswith(("s", "men"))}
_OTHER_NUMBER |= {one: many for many, one in _OTHER_NUMBER.items()}
_REQUESTS = read_words("language", "requests")
_FOREIGN_QUESTIONS = read_words("language", "foreign_questions")


def find_whole_words(text: str, limit: int = 32) -> list[str]:
    """Return the quoted phrases of a question, and its words and identifiers as they are written there, at most ``limit``. Stopwords are
    left out, unless one is all there is, and a verb that begins a request ("Compare A and B"). Chinese and Japanese is cut into words."""
    phrases = [phrase.strip() for found in _QUOTED.findall(text) for phrase in found if phrase.strip()]
    tokens = (_strip(POSSESSIVE.sub("", _ELIDED.sub("", token))) for token in _QUOTED.sub(" ", text).split())
    words_ = [word for token in tokens for word in (_written_words(token) if has_cjk(token) else [token])]
    said = [word for word in words_ if word.strip("_")]
    empty = STOPWORDS | _FOREIGN_QUESTIONS
    if not is_mostly_english([text]):
        empty |= FREQUENT_FOREIGN
    found = [word for word in said if word.casefold() not in empty]
    if len(said) == 1:
        found = said  # asked alone, a stopword is what is looked for
    if len(found) > 1 and found[0].casefold() in _REQUESTS and text.lstrip().startswith(found[0]):
        del found[0]
    return list(dict.fromkeys([*phrases, *found]))[:limit]


def _written_words(token: str) -> Iterator[str]:
    """Yield the words of a token with Chinese, Japanese or Korean as they are written, Japanese verbs in their base form. What
    the dictionary knows as single characters alone stays together: Han without kana may be Japanese."""
    for match in _WORD(token).finditer(token):
        if (figure := _FIGURE_BEFORE_CJK.match(match[0])) and not has_hangul(match[0]):
            yield figure[0]
            yield from _written_words(match[0][figure.end() :])
            continue
        if not CJK_RUN.match(match[0]):
            yield from search_terms(match[0]) if has_hangul(match[0]) else [match[0]]
            continue
        cut = segment(match[0], japanese=is_japanese(token), search=False)
        for single, some in groupby(cut, lambda word: len(word) == 1 and word not in STOPWORDS):
            run = list(some)
            yield from ["".join(run)] if single else run


def _strip(token: str) -> str:
    """Return a token without the signs around it, but with the bracket that ends a call: ``repr(C)``."""
    word = _OUTER(token).sub("", _QUOTED_ARGUMENT.sub("", token))
    return f"{word})" if word.count("(") > word.count(")") and f"{word})" in token else word


def is_name(word: str) -> bool:
    """Return whether a word is written as a name or identifier: with a capital, a figure, a sign or a space within."""
    return "__" in word or not _EDGES(word).sub("", word).isalpha() or not word.islower()


def spell_as_one(word: str) -> str:
    """Return a word or identifier in the one form that all its ways of writing have: ``--max-size`` → ``maxsize``."""
    return _SEPARATOR.sub("", plain_letters(_EDGES(word).sub("", word)))


def find_spellings(word: str, text: str) -> list[str]:
    """Return how ``word``, as :func:`spell_as_one` gives it, is written each time that it stands in ``text``."""
    if word not in _SEPARATOR.sub("", plain_letters(text)):
        return []
    # A word may be a part of what stands between spaces: pipe-line, height="3".
    names = (
        _EDGES(name).sub("", name)
        for token in text.split()
        for name in dict.fromkeys([token, *_JOINED.findall(token), *_PART.findall(token)])
    )
    return [name for name in names if spell_as_one(name) == word]


def match_whole_word(word: str) -> Callable[[str], bool]:
    """Return what finds ``word`` as written in a text of :func:`plain_letters`; one with underscores is not found within a longer name,
    and plain words that a hyphen joins are found apart too."""
    plain = plain_letters(_OUTER(word).sub("", word))
    joined = word == plain and word.replace("-", "").isalpha()
    parts = (plain.replace("-", " ") if joined else plain).split() or [""]
    spaced = (r"[-\s]+" if joined else r"\s+").join(map(re.escape, parts))
    letter = r"\w" if "_" in spaced.strip("_") else r"[^\W_]"
    pattern = spaced if has_cjk(word) else rf"(?<!{letter}){spaced}(?!{letter})"
    # Most texts do not have it, or between such signs: that is found ten times as fast, and without the pattern being compiled.
    usual = [f"{before}{' '.join(parts)}{after}" for before in " \n" for after in " ,."]
    return lambda text: (
        all(part in text for part in parts)
        and (any(each in text for each in usual) or re.search(pattern, text) is not None)
    )


def plain_letters(text: str) -> str:
    """Return ``text`` in lower case and without accents, as the full-text index compares it."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFD", fold_letters(text).casefold())
    return unicodedata.normalize("NFC", _ACCENT.sub("", decomposed))


def fold_letters(text: str) -> str:
    """Return ``text`` with letters that have no accent to be dropped spelled as people type them: ß as ss, ø as o, ﬁ as fi, ё as е,
    Hebrew and Arabic without points."""
    return text if text.isascii() else _LETTER.sub(lambda letter: _LETTERS[letter[0]], text)


def _join_parts(text: str) -> list[str]:
    """Return names of parts as one word, numbers without the commas of their thousands, and versions without their v."""
    # Looking for names in the whole text takes five times as long.
    found = _JOINED.findall(" ".join([token for token in text.split() if "-" in token or "_" in token]))
    if _COMMA.search(text) or _VERSION.search(text):  # as two patterns, six times as fast
        found += _GROUPED.findall(text)
    return list(dict.fromkeys(_SEPARATOR.sub("", each).lower() for each in found))


def _query_words(text: str) -> Iterator[str]:
    japanese = is_japanese(text)
    for match in _WORD(text).finditer(text):
        token = match[0]
        if CJK_RUN.match(token):
            yield from _cjk_query_words(token, japanese=japanese or has_kana(token))
        elif _SIGNED.fullmatch(token):
            yield _spell_signs(token)
        elif has_hangul(token):
            yield from _korean_forms(token)
        else:
            yield from _latin_words(token)


def _cjk_query_words(run: str, *, japanese: bool) -> Iterator[str]:
    """Yield the words of a run in a query. Without kana it may be Chinese or Japanese: words of three characters and
    more are replaced by their pairs, which the index contains however its text was cut."""
    if japanese:
        yield from segment(run, japanese=True, search=True)
        return
    for word in segment(run, japanese=False, search=False):
        yield from [word] if len(word) <= 2 or word in STOPWORDS else _han_pairs(word)  # noqa: PLR2004


@lru_cache(maxsize=1 << 16)  # few words make most of any text
def _latin_words(token: str) -> tuple[str, ...]:
    word = POSSESSIVE.sub("", token.replace("’", "'"))
    if "_" in word:
        parts = tuple(part for part in word.lower().split("_") if part)
        return (word.lower(), *parts) if parts != (word.lower(),) else parts
    if not (word.islower() or word.isupper() or word[1:].islower()) and _CAMEL.fullmatch(word):
        return (word.lower(), *(part.lower() for part in _CAMEL_PART.findall(word)))
    return (word.lower(),)


def _spell_signs(name: str) -> str:
    return name.lower().replace("++", "plusplus").replace("#", "sharp").replace(".net", "dotnet")


def _segment_text(text: str) -> str:
    japanese = is_japanese(text)

    def cut(run: re.Match[str]) -> str:
        in_japanese = japanese or has_kana(run[0])
        found = segment(run[0], japanese=in_japanese, search=True)
        # Pairs of Han characters that are no words of the cut, too: a query may cut the same text differently.
        known = set(found)
        pairs = [pair for pair in dict.fromkeys(_han_pairs(run[0])) if pair not in known]
        return f" {' '.join([*found, *pairs])} "

    text = CJK_RUN.sub(cut, text)
    if has_hangul(text):
        return re.sub(f"[{HANGUL}]+", lambda word: " ".join(_korean_forms(word[0])), text)
    return text


def _han_pairs(run: str) -> list[str]:
    return [
        one + other
        for one, other in pairwise(run)
        if not KANA_CHARACTER.match(one) and not KANA_CHARACTER.match(other)
    ]


def _korean_forms(word: str) -> list[str]:
    """Return the word, and the word without its particle."""
    stem = _KOREAN_PARTICLE.sub("", word)
    return [word] if stem == word else [word, stem]
