"""What a question asks for, told from its words."""

import re
from collections.abc import Callable, Sequence

from leanrag_engine.core.text.language.words import content_words
from leanrag_engine.core.text.word_lists import read_words

TextSearch = Callable[[str], re.Match[str] | None]

OVERVIEW = re.compile(
    r"\b(?:(?:main|major|central|overall|key|common|recurring|general) (?:\w+ ){0,2}(?:themes?|topics?|ideas?|points?|subjects?|motifs?)"
    r"|worum geht(?: es)?(?: hier)?|(?:gib mir )?(?:eine |einen )?(?:zusammenfassung|überblick)|de quoi (?:s'agit-il|parle-t-on)|résumé"
    r"|de qué (?:se )?trata|resumen|overview|summar(?:y|i[sz]e)|gist|what (?:is|are) (?P<subject>(?:[\w'’.-]+ ){1,8}?)(?:all )?about(?=\W*$)"
    r"|what(?: is|'s|’s) in (?=(?:this|the|my|these) (?:folder|collection|library|notes|files|documents|vault|repo\w*|project)\b|here\b)|(?:what|which) (?:topics|subjects|areas) (?:do|does|are) (?=.{0,40}\bcover(?:ed)?\b))\b",
    re.IGNORECASE,
)
asks_for_overview: TextSearch = OVERVIEW.search
"""Says whether an English text asks what all is about."""
EVERYTHING = read_words("language", "everything")
"""Words that say of what an overview is wanted, where it is of all there is."""

asks_for_order: TextSearch = re.compile(
    r"\b(?:timeline|chronolog\w+|in (?:what|which) order|in order(?= *(?:[,.?!]|$))|over time|history of|histories|trace|step by step|"
    r"sequence of|stages|with (?:the|their|its|all) dates|"
    r"how (?:did|has|have|does) .{0,80}\b(?:chang|develop|evolv|progress|grow|unfold)\w*|what happened(?! (?:at|if|on|to|when|with)\b))\b",
    re.IGNORECASE,
).search
"""Says whether an English text asks how things came one after another."""

_UNITS = (
    r"(?:square |cubic )?(?:(?:kilo|centi|milli)?met(?:er|re)|mile|feet|foot|inche|yard|acre|hectare|second|minute|hour|day|night|week|month|year|decade"
    r"|degree|percent|point|gram|kilo|pound|ton|tonne|lit(?:er|re)|volt|watt|amp|bit|byte|[kmgt]b|token|character|word|line|page|euro|dollar|franc|cent|vote|seat)s?"
)
"""What an amount is told in: "how many" of them asks for one number."""
asks_for_list: TextSearch = re.compile(
    r"\b(?:(?:full|complete|whole) list|list (?:of|all|every|the|them)|(?:name|give|tell|show)(?: me)? (?:all|every|each)\b|enumerate|"
    rf"(?:all|every|each) (?:of )?(?!(?:day|night|week|month|quarter|year|time|my|his|her|its|their|our|your|it)\b)(?:the |kind |kinds )?\w+|(?:the|these|our|my) (?:various|different|several|individual) \w+s\b|how many(?! {_UNITS}\b|.{{0,80}}\b(?:by default|at (?:most|least))\b|(?: \w+){{1,4}} (?:must|may|can|should)\b)|everything|what else"
    r"|(?:which|what) (?:are )?(?:the )?(?:(?!(?:is|was|does|did)\b)\w+ |(?:\w+, )*\w+,? (?:and|or) )?(?!(?:does|was|this|has|is|its)\b)\w{3,}(?<!s)s (?:did|do|does|can|could|will|are|were|has|have|had|may|with|of|to|in)\b"
    r"|(?:liste|nenne) (?:mir )?(?:alle|die|sämtliche)\b|welche \w+ gibt es|wie viele|quel(?:le)?s sont|(?:tous|toutes) les|combien de|cuáles son|tod[oa]s l[oa]s|quais são)",
    re.IGNORECASE,
).search
"""Says whether a text asks for all of something."""

asks_for_relation: TextSearch = re.compile(
    r"\b(?:related|relate to|(?:relation(?:ship)?s?|connections?|links?) (?:between|of)|in common|know each other|to do with)\b",
    re.IGNORECASE,
).search
"""Says whether an English text asks what things have to do with each other."""

NOW = re.compile(
    r"\b(?:now|current(?:ly)?|this (?:term|semester|season|school year|year)|still valid|valid today|latest|newest|most recent|today|recently|what(?:'s| is) new(?! in\b)|nowadays|these days|at (?:the moment|present)|presently|as of|in (?:force|effect)|as amended|up[- ]to[- ]date"
    r"|jetzt|heute|aktuell(?:e[mnrs]?)?|derzeit|zurzeit|momentan|neueste[nrs]?|gültig(?:e[mnrs]?)?|geltende[mnrs]?|actuel(?:le)?(?:s|ment)?|maintenant|aujourd'hui|en vigueur"
    r"|dernière version|actualmente|ahora|hoy|vigentes?|atual(?:mente)?|hoje)\b",
    re.IGNORECASE,
)
asks_for_now: TextSearch = NOW.search
"""Says whether a text asks for what holds now."""
find_newest_of: TextSearch = re.compile(
    r"\b(?:last|latest|newest|most recent|letzte[nrs]?|neueste[nrs]?|dernier|dernière|últim[ao])"
    r"(?P<what>(?:\s(?!(?:years?|weeks?|months?|days?|nights?|times?|names?|few)\b)[^\W\d_]{3,}){1,3})(?!.*\bbefore\b)",
    re.IGNORECASE,
).search
"""Finds of what a text asks for the newest: *the last council meeting*."""
asks_for_uses: TextSearch = re.compile(
    r"\b(?:(?:what|who|which(?: \w+)?|that|where) calls|\w+s (?:that )?call(?! stack| cent)|callers?|calling|call(?:ed by|s to|s of)|uses|(?:is|are) \S+ (?:used(?! for| to)|raised|thrown|returned|imported|overridden)|invokes?"
    r"|raises|throws|implements|(?:that|which) (?:implement|derive|inherit|extend|override)s?|implementations of|derives? from"
    r"|inherits? from|extends|subclass(?:es)?|overrides|imports)\b",
    re.IGNORECASE,
).search
"""Says whether a text asks what uses a thing, rather than what it is."""
_ONE = re.compile(
    r"(?:[^?]*[.!,;] )?(?:(?:at|by|for|from|in|of|on|over|since|to|until|with|after) )?(?:who|whom|whose|when|where"
    r"|how (?:many|much|old|long|late|often|far|large|big|high|tall|fast|small|deep|wide|soon)"
    r"|(?:what|which) (?:(?:is|was|does|did)\b|(?:\w+ ){0,2}\w*(?:[^\Ws]|ss) (?:is|was|does|did|do|has|had|can|may|must|should)\b"
    r"|(?!(?:people|men|women|children|data)\b)(?:\w+ ){0,2}\w*(?:[^\Ws]|ss) \w+(?:s|ed)(?= (?:(?:the|an?|this|that|its?|his|her|our|their|my|us|no)\b|(?-i:[A-Z0-9`]))))"
    r"|does|is|was|has|did|can|may(?! \d)|must|should|are|do|will)\b(?:[^?,;:]|(?<=\d)[,:](?=\d)){,150}\??$",
    re.IGNORECASE,
)
_ONE_FOREIGN = re.compile(
    r"¿?(?:(?:ab|an|auf|aus|bei|bis|für|in|mit|seit|um|von|vor|zu|à|de|depuis|en|jusqu'à|par|pour|sur|a|con|desde|hasta|para|por|até|com) )?"
    r"(?:we[rnm]|wessen|wann|wo(?:hin|her|mit|für|von)?|wie (?:alt|lange?|spät|oft|weit|groß|hoch|tief|breit|schnell|heißt)|was (?:ist|war|kostet)|welche[rsmn]? \w+ (?:ist|war|hat|wird)"
    r"|qui|quand|où|combien|quel(?:le)? (?:\w+ ){0,2}\w+|quién|cuándo|dónde|cuánt[oa]s?|cuál|quem|quando|onde|quant[oa]s?|qual)\b[^?,;:]{,150}\??$",
    re.IGNORECASE,
)
_MORE_FOREIGN = re.compile(
    r"\b(?:und|oder|et|ou|y|e|vergl\w+|unterschied\w*|différen\w*|diferen\w*|compar\w+|zwischen|entre|alle|tou(?:s|tes)|tod[oa]s)\b",
    re.IGNORECASE,
)
_MORE = re.compile(
    r"\b(?:and|or|versus|vs|between|compar\w+|differ\w*|offer|belongs?|discuss\w*|talk\w*|covered|topics|members|pages|docs|guides|documents)\b",
    re.IGNORECASE,
)
_DEFINED = re.compile(
    r"\s*(?:what(?:['’]s| is| are| was| were)|who(?:['’]s| is| was)|define|explain) (?:(?:known|said|told) (?:of|about) |meant by )?(?:an? |the (?=(?-i:[A-Z])))?(?P<what>(?!the )[^\s?,;:]+(?: [^\s?,;:]+){0,3}?)[?.!\s]*",
    re.IGNORECASE,
)


_SENT = re.compile(
    r"\b(?i:(?:e-?)?mails?|messages?|letters?|posts?|notes?|news) (?i:(?:that )?(?:(?:sent |written )?(?:from|by)|of)) (?P<who>[A-Z][\w'-]*(?: [A-Z][\w'-]*){0,2})"
)


_COLLECTION = (
    r"(?:(?:all|any|some|most) (?:of )?)?(?:the|these|those|this|my|our|your) (?:(?:various|different|other) )?"
    r"(?:pages?|docs?|documents?|documentation|files?|notes|guides?|manuals?|book|texts?|sources|folder|collection)"
)
_FRAME = re.compile(
    rf"\b(?:(?:where|what|how) )?(?:do|does|did) {_COLLECTION} (?:say|mention|tell|discuss|describe|state|explain|cover|talk|speak|warn|give|name|list"
    rf"|recommend|point out)\b(?: (?:about|of|on|us|me)\b)*|,? ?\b(?:according to|(?:(?:any|some)where )?in|across|throughout) {_COLLECTION}\b,?"
    r"|^(?:(?:please|(?:can|could) you|i want to know|tell me|show me|explain)\b ?)+",
    re.IGNORECASE,
)


def leave_out_frame(text: str) -> str:
    """Return a question without the words that stand for the documents at hand, which none of them holds: *Where do these pages mention
    …*; as it is where hardly anything else is left."""
    rest = " ".join(_FRAME.sub(" ", text).split())
    return rest if len(content_words(rest)) > 1 else text


def find_defined(text: str) -> str:
    """Return the thing of which an English text asks what it is, and nothing else; "" for none. *The budget* is not asked for as such."""
    asked = _DEFINED.fullmatch(text)
    return asked["what"] if asked else ""


def find_sender(text: str) -> str:
    """Return who wrote the mails or messages that a text asks for; "" for nobody."""
    asked = _SENT.search(text)
    return asked["who"] if asked else ""


def asks_about_all(text: str) -> bool:
    """Return whether an English text asks what all is about and names no subject of its own."""
    rest, count = OVERVIEW.subn(r" \g<subject>", text)
    return count > 0 and not content_words(re.sub(r"\b[Tt]hese \w+s\b", " ", rest)) - EVERYTHING


def asks_for_several(text: str) -> bool:
    """Return whether an English text asks for a list, timeline or overview."""
    return any(asks(text) for asks in (asks_for_list, asks_for_order, asks_for_overview))


def asks_for_one(text: str) -> bool:
    """Return whether a question asks for one thing: a person, place, time, amount, kind or, in English, yes or no."""
    text = text.strip()
    if asks_for_uses(text) or asks_for_several(text):
        return False
    pairs = ((_ONE, _MORE), (_ONE_FOREIGN, _MORE_FOREIGN))
    return any(one.match(text) and not more.search(text) for one, more in pairs)


def choose_budget(texts: Sequence[str]) -> int:
    """Return the most tokens of a reply where the caller names none: what one thing needs, or more."""
    return 1200 if all(map(asks_for_one, texts)) else 2000
