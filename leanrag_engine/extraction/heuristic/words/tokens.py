"""Tokenise a sentence for heuristic extraction: words, numbers, identifiers, and marked or quoted phrases as units; and
keep statistics of a document's own words, which decide where no list and no capital letter does."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from leanrag_engine.core.text.language.parts_of_speech import parts_of_speech
from leanrag_engine.core.text.language.sentences import PieceKind, Turn
from leanrag_engine.core.text.language.words import POSSESSIVE, STOPWORDS, is_contraction

from . import vocabulary as known


class Token(NamedTuple):
    """A part of a sentence. ``kind`` is (c)apitalised or lower-case (w)ord, (n)umber, (i)dentifier, (t)itle in quotes,
    (s)oftly marked phrase, CJ(k) run, or (p)unctuation. ``lower`` is the text in lower case; "" for punctuation."""

    text: str
    kind: str
    start: int
    end: int
    lower: str


NOTHING = Token("", "p", 0, 0, "")  # Stands for the missing neighbour of the first and the last token


@dataclass(slots=True)
class Sentence:
    """A sentence, heading, line of code, or short turn (labelled ``turn``) of a chunk, unwrapped;
    ``position`` is its offset in the document."""

    text: str
    kind: PieceKind
    position: int
    tokens: Sequence[Token] = ()
    turn: Turn | None = None


_CJK = "々〇\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd\u3041-\u309f\u30a0-\u30ff\u31f0-\u31ff\uff66-\uff9f"
_L = f"(?:(?![{_CJK}])[^\\W\\d_])"
_LN = f"(?:(?![{_CJK}])[^\\W_])"
_TOKEN = re.compile(
    r"(?P<skip>https?://\S+|www\.\S+|[\w.+-]{1,64}@\w[\w-]*\.\w+|<[^<>\s][^<>]{0,200}>"
    r"|\((?:see )?(?:e\.g\.,? )?[A-Z][^()]{0,120}?(?:et al\.?|,|\w)\s\(?(?:1[6-9]|20)\d\d[a-z]?\)?(?:[;,][^()]{0,200})?\)"
    r"|\[\d{1,3}(?:[,–-]\s?\d{1,3})*\])"
    r"|:[A-Za-z:+-]{1,20}:`(?P<role>[^`\n]+)`"
    r"|``(?P<latex>[^`'\n]{1,80}?)\s?''|``(?P<literal>[^`\n]{1,60}?)``|(?<![\w`])`(?P<tick>[^`\n]{1,60})`(?!\w)"
    r"|(?<![\w\"])\"(?P<straight>[^\s\"“”]{1,60}|(?=\S)[^\"“”\n.!?;]{1,70}(?<![\s,]))\"(?![\w\"])"
    r"|“(?P<curly>[^“”\n.!?;]{1,70}(?<![\s,]))”"
    r"|(?<![\w*])\*{1,2}(?P<star>[^\s*][^*\n]{0,60}?)(?<=\S)\*{1,2}(?![\w*])"
    r"|(?<![\w_])_(?P<under>[^\s_][^_\n]{0,300}?)(?<=\S)_(?![\w_])"
    r"|(?P<ident>[A-Za-z_][\w.]{0,80}\(\)|(?<!\w)_{1,2}[a-z]\w*|(?<!\w)__\w+__|\b[A-Za-z]\w{0,80}_\w+"
    r"|\b[a-z_]\w+(?:\.(?!(?:It|The|This|That|These|Those|If|In|An|For|When|But|And|As|On|There|They|We|You)\b)[A-Za-z_]\w+){1,6})"
    rf"|(?P<cjk>[{_CJK}]+)"
    r"|(?P<elision>(?:[dlnsjmtc]|qu)['’](?=[A-ZÀ-Þ]))"
    rf"|(?P<word>Ph\.\s?D\b\.?|(?:{_L}\.){{2,}}|(?:Mr|Mrs|Ms|Mx|Dr|St|Prof|Gen|Col|Capt|Lt|Sgt|Rev|Hon|Gov|Sen|Rep|Pres|Mt|Ft|Jr|Sr)\.(?=\s)"
    rf"|[^\W\d_a-z{_CJK}]\.(?=\s?[^\W\d_a-z{_CJK}])|{_L}{_LN}*(?:['’&+–-]{_LN}+|(?<=\d)\.\d+)*['’]?(?:\+\+|\#)?)"
    r"|(?P<number>\d+(?:[.,:/–-]\d+)*\w*)"
    r"|(?P<punct>[^\s])"
)

ROMAN = re.compile(r"(?=[IVXLC])C?(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})")
"""A Roman numeral below 200, in capitals."""

_PLAIN = {"punct": "p", "skip": "p", "number": "n", "cjk": "k", "ident": "i", "elision": "w"}
_CODE_SHAPE = re.compile(r"@?[A-Za-z_]\w*(?:\.\w+)*(?:\(.*\))?|\.\w{1,5}|--?[a-z][\w-]*")
CERTAIN_CODE = re.compile(r"_|\(|\w\.\w|^[@-]|[a-z][A-Z]|\d")
_MARKS_OF_CODE = re.compile(r"\w\(\)|\b[a-z]\w*_\w+|__\w+__|``|\b\w+\.\w+\(|::|=>|\breturn\b.*;|\bdef ")

_CAMEL = re.compile(r"^[^\W\d_]{1,2}[A-Z][a-z]{2}")
"""Matches iPhone and eBay, which are names although they begin with a lower-case letter."""

LONGEST_PHRASE = 4  # Words of the longest term


def lower_shouted(name: str) -> str:
    """Convert a name in capitals to title case, but for numerals: THE END OF IT → The End of it."""
    words = name.split()
    if len(words) == 1 or not (name.isascii() and name.isupper()):
        return name
    first, *others = words
    written = (
        word if ROMAN.fullmatch(word) else word.lower() if word.lower() in STOPWORDS else word.capitalize()
        for word in others
    )
    return " ".join([first.capitalize(), *written])


def is_technical(text: str, code_characters: int) -> bool:
    """Return whether ``text`` is about code, so that a single lower-case word in quotes is an identifier."""
    return 600 * len(_MARKS_OF_CODE.findall(text)) > len(text) or 10 * code_characters > len(text)


def tokenize(text: str, *, technical: bool, offset: int = 0) -> list[Token]:
    """Return the tokens of one unwrapped sentence. A quoted or marked phrase is one token if it is a unit."""
    tokens: list[Token] = []
    for match in _TOKEN.finditer(text):
        group = match.lastgroup or ""
        start, end = match.start() + offset, match.end() + offset
        if group == "word":
            word = match[0]
            shaped = word[0].isupper() or _CAMEL.search(word) is not None
            capital = shaped and not is_contraction(word.rstrip("'’"))
            tokens.append(Token(word, "c" if capital else "w", start, end, word.lower()))
        elif group in _PLAIN:
            kind = _PLAIN[group]
            text_ = "" if group == "skip" else match[0]
            tokens.append(Token(text_, kind, start, end, "" if kind == "p" else text_.lower()))
        else:
            tokens += _tokenize_marked(match, group, technical=technical, offset=offset)
    return tokens


def _tokenize_marked(match: re.Match[str], group: str, *, technical: bool, offset: int) -> list[Token]:
    inner = match[group].strip()
    if group in _CODE_MARKS and _COMMAND.search(inner):
        # The name of a command and its options are identifiers: *uv run --isolated app.py*.
        found = [*filter(None, [_COMMAND_NAME.match(match[group])]), *_OPTION.finditer(match[group])]
        at = match.start(group) + offset
        return [Token(each[0], "i", each.start() + at, each.end() + at, each[0].lower()) for each in found]
    kind = _kind_of_marked(inner, group, technical=technical)
    start, end = match.start() + offset, match.end() + offset
    if kind:
        return [Token(inner, kind, start, end, inner.lower())]
    if group in _CODE_MARKS or not inner:
        return [Token("", "p", start, end, "")]
    return [
        Token('"', "p", start, match.start(group) + offset, ""),
        *tokenize(match[group], technical=technical, offset=match.start(group) + offset),
        Token('"', "p", match.end(group) + offset, end, ""),
    ]


_COMMAND = re.compile(r"(?=[^\"'(){}\[\]]+$)[a-z][\w.-]*(?= ).* (?:--?[A-Za-z]|\S+\.[a-z]{1,5}(?![^ ]))")
_COMMAND_NAME = re.compile(r"[a-z][\w-]+(?: [a-z][a-z-]+(?= |$)){0,2}")
_OPTION = re.compile(r"(?<!\S)--[a-z][\w-]+")


_CODE_MARKS = frozenset(["literal", "tick", "role"])
_EMPHASIS = frozenset(["star", "under"])


def _kind_of_marked(inner: str, group: str, *, technical: bool) -> str:
    """Return the kind of a marked phrase as one token; "" if its words are tokens of their own."""
    if " " not in inner:
        return _kind_of_marked_word(inner, group, technical=technical)
    words = inner.split()
    if any(map(is_contraction, words)):
        return ""
    if group in _CODE_MARKS or (technical and group == "straight"):
        plain = all(len(word) > 1 and word.isalpha() and word.islower() for word in words)
        return "i" if plain and len(words) < LONGEST_PHRASE else "s" * _is_term(words)
    if group not in _EMPHASIS and len(words) <= 2 * LONGEST_PHRASE and _is_title(words):
        return "t"
    return "s" * _is_term(words)


def _kind_of_marked_word(word: str, group: str, *, technical: bool) -> str:
    shaped = len(word) > 1 and _CODE_SHAPE.fullmatch(word) is not None
    if group in _EMPHASIS:
        plain = technical and shaped and word.isalpha() and word[0].islower()
        return "s" if plain and _may_be_noun(word) else ""
    if shaped and (group in _CODE_MARKS or CERTAIN_CODE.search(word)):
        return "i"
    if shaped and technical and group in {"straight", "latex"} and word.isascii():
        return "i"
    sign = 2  # letters of a word that is a mere sign when quoted, such as the category "Lu"
    if not (shaped and word.isalpha()) or (len(word) <= sign and not word.isupper()):
        return ""
    if word[0].isupper():
        return "t"
    return "s" if _may_be_noun(word) else ""


def _may_be_noun(word: str) -> bool:
    """Return whether a word in lower case is a noun more often than not, or unknown."""
    letters = parts_of_speech(word) or parts_of_speech(word.removesuffix("s"))
    return letters[0] == "n" if letters else not word.endswith(("ed", "ing", "ly"))


def _is_title(words: Sequence[str]) -> bool:
    return (
        words[0][:1].isupper()
        and any(word[:1].isupper() and word.lower() not in STOPWORDS for word in words)
        and all(word[:1].isupper() or word.lower() in STOPWORDS or not word[:1].isalpha() for word in words)
    )


def _is_term(words: Sequence[str]) -> bool:
    return (
        len(words) <= LONGEST_PHRASE
        and all(word.replace("-", "").isalpha() for word in words)
        and words[0].lower() not in STOPWORDS
        and words[-1].lower() not in STOPWORDS
        and ("n" in (parts_of_speech(words[-1].lower()) or "n"))
        and not any(word.lower() in known.VERBS or word.lower() in known.BE for word in words)
    )


@dataclass(slots=True)
class WordUsage:
    """How often a document uses each word in lower case, capitalised within a sentence, as a noun and as a verb,
    and how often it uses each phrase (by :func:`name_key`)."""

    small: Counter[str] = field(default_factory=Counter)
    capital: Counter[str] = field(default_factory=Counter)
    nouns: Counter[str] = field(default_factory=Counter)
    verbs: Counter[str] = field(default_factory=Counter)
    phrases: Counter[str] = field(default_factory=Counter)
    joints: Counter[str] = field(default_factory=Counter)  # *Yet to Come* is a name if it is repeated
    parameters: set[str] = field(default_factory=set)
    often: int = 2  # How often a phrase must occur to be a term: one more per 15,000 words
    narrative: bool = False  # Long and with hardly an identifier: a participle before a noun describes
    _words: int = 0
    _functional: int = 0
    _identifiers: int = 0
    english: bool = True  # Whether the rules of English grammar may be used to find terms
    uncased: bool = False  # Whether the script has no capitals (Arabic, Hebrew, Hindi, …)
    capital_nouns: bool = False  # Whether every noun has a capital (German)

    @classmethod
    def of(cls, sentences: Sequence[Sentence]) -> Self:
        usage = cls()
        for sentence in sentences:
            if sentence.kind is PieceKind.PROSE:
                usage._read(sentence.tokens)
            elif sentence.kind is PieceKind.CODE:
                usage.parameters.update(re.findall(r"[(,]\s*\*{0,2}(\w+)", sentence.text))
        usage._judge_language()
        return usage

    def _read(self, tokens: Sequence[Token]) -> None:
        before = ""
        initial = True
        for position, token in enumerate(tokens[(first := count_marker(tokens)) :], first):
            self._words += token.kind in "cw"
            self._functional += token.lower in _FUNCTION_WORDS
            self._identifiers += token.kind == "i"
            if token.kind == "w":
                self.small[token.lower] += 1
                self._read_word_class(tokens, position, before)
            elif token.kind == "c" and not initial:
                self.capital[bare(token)] += 1
                if before in _JOINTS and position > 1 and tokens[position - 2].kind == "c":
                    self.joints[f"{bare(tokens[position - 2])} {before} {bare(token)}"] += 1
            initial = (initial and token.kind in "pn") or token.text in OPENING
            before = token.lower

    def _read_word_class(self, tokens: Sequence[Token], position: int, before: str) -> None:
        word = tokens[position].lower
        after = tokens[position + 1].lower if position + 1 < len(tokens) else ""
        if before in known.DETERMINERS and (after in STOPWORDS or not after):
            self.nouns[word] += 1
        elif before in known.VERB_LEFT or (after in known.VERB_RIGHT and before not in known.DETERMINERS):
            self.verbs[word] += 1

    def _judge_language(self) -> None:
        for joint, count in list(self.joints.items()):
            first, _, last = joint.split(" ", 2)
            if 2 * count < min(self.capital[first], self.capital[last]):
                del self.joints[joint]
        words = self._words
        self.english = 10 * self._functional >= words
        self.uncased = 2 * sum(count for word, count in self.small.items() if word == word.upper()) > words
        german = sum(self.small[word] for word in _GERMAN_WORDS)
        self.capital_nouns = not self.english and 20 * german >= words and 6 * self.capital.total() >= words
        long = 15_000  # words; in a long text chance repeats phrases (not tuned)
        self.often += words // long
        self.narrative = words >= long and 100 * self._identifiers < words


_FUNCTION_WORDS = frozenset(["the", "of", "and", "to", "in", "is", "was", "a", "for", "that"])
_GERMAN_WORDS = ("der", "die", "das", "und", "ist", "nicht", "ein", "eine", "den", "von", "mit")
_JOINTS = frozenset(["to", "in", "on", "the", "with", "at", "a", "into", "without"])
OPENING = frozenset([*'"“‘’«:•*|.!?…—–', "'"])
"""After one of these, as at the beginning of a sentence, a capital letter is no evidence of a name."""


def count_marker(tokens: Sequence[Token]) -> int:
    """Return how many tokens the mark of a list item takes: *a)*, *(iv)*, *B.*; 0 if there is none."""
    opened = int(bool(tokens) and tokens[0].text == "(")
    if len(tokens) < opened + 2:
        return 0
    mark, sign = tokens[opened], tokens[opened + 1]
    letter = mark.text.isalpha() and (len(mark.text) == 1 or ROMAN.fullmatch(mark.text.upper()) is not None)
    return opened + 2 if letter and sign.text == ")" else 0


def bare(token: Token) -> str:
    """Return the word without a possessive ending."""
    return POSSESSIVE.sub("", token.text) if "'" in token.text or "’" in token.text else token.text
