"""English word classes, closed or the frequent part of open ones, that separate names and terms from the rest
of a sentence; for other words statistics of the document decide."""

from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.core.text.language.words import STOPWORDS
from leanrag_engine.core.text.word_lists import read_words

DETERMINERS = read_words("grammar", "determiners")
PREPOSITIONS = read_words("grammar", "prepositions")
BE = read_words("grammar", "be")
VERB_LEFT = read_words("grammar", "verb_left")
"""Before one of these, an ambiguous word is a verb: *to call*, *must return*."""
VERB_RIGHT = read_words("grammar", "verb_right")
"""After a noun, an ambiguous word before one of these is a verb: *the function returns the …*."""

_VERB_STEMS = read_words("grammar", "verb_stems")
_ALSO_NOUNS = read_words("grammar", "also_nouns")
"""Stems that are as often nouns: only the words around decide."""

_IRREGULAR_VERBS = read_words("grammar", "irregular_verbs")


def _inflect(stem: str) -> tuple[str, ...]:
    if stem.endswith("e"):
        return (stem, stem + "s", stem + "d", stem[:-1] + "ing")
    if stem.endswith("y") and stem[-2] not in "aeiou":
        return (stem, stem[:-1] + "ies", stem[:-1] + "ied", stem + "ing")
    if stem.endswith(("s", "sh", "ch", "x", "z", "o")):
        return (stem, stem + "es", stem + "ed", stem + "ing")
    doubled = stem + stem[-1]
    return (stem, stem + "s", stem + "ed", stem + "ing", doubled + "ed", doubled + "ing")


VERBS = (
    frozenset(form for stem in _VERB_STEMS - _ALSO_NOUNS for form in _inflect(stem)[:2]) | _IRREGULAR_VERBS
)
"""Forms that are verbs wherever they stand (base form and third person)."""

AMBIGUOUS = frozenset(form for stem in _ALSO_NOUNS for form in _inflect(stem)[:2])
"""Forms that are nouns or verbs."""

VERB_FORMS = (
    frozenset(form for stem in _VERB_STEMS | _ALSO_NOUNS for form in _inflect(stem)) | _IRREGULAR_VERBS
)
"""Every form of every verb above, participles included."""

ADVERBS = read_words("grammar", "adverbs")
NOT_ADVERBS = read_words("grammar", "not_adverbs")

GENERIC_ADJECTIVES = read_words("grammar", "generic_adjectives")
"""Say nothing of what a thing is: dropped from the front of a term, and never its last word."""

LAST_ADJECTIVES = read_words("grammar", "last_adjectives")
"""Adjectives that may open a term (*immutable object*) and never close one."""

ADJECTIVE_ENDINGS = ("able", "ible", "ful", "less", "ous", "ical", "est", "ish")
NOT_ADJECTIVES = read_words("grammar", "not_adjectives")

GENERIC_NOUNS = read_words("terms", "generic_nouns")
"""Too wide to be an entity by themselves; as the last word of a longer term they are fine (*return value*)."""

EMPTY_HEADS = read_words("terms", "empty_heads")
"""A term that ends with one of these is a phrase of ordinary talk (*first case*, *special way*)."""

DIVISIONS = read_words("terms", "divisions")
"""Parts of a document that are numbered: *Chapter II*, *Stave One*."""
NUMBER_WORDS = read_words("terms", "number_words")
CARDINALS = read_words("terms", "cardinals")
"""A phrase that counts (*fifteen years*, *four-and-twenty hours*) is no term."""
LABELS = DIVISIONS | read_words("terms", "labels")  # A number behind one of these makes a label, not a name

GREETINGS = read_words("names", "greetings")  # No part of the name that follows them: *Hi Mei Lin*
GREETING_OPENERS = read_words("names", "greeting_openers")
TIMES_OF_DAY = read_words("names", "times_of_day")
STARTERS = STOPWORDS | read_words("names", "starters") | GREETINGS
"""Capital letter or not, a sentence may begin with one of these: no evidence for a name."""

FOREIGN_STARTERS = read_words("names", "foreign_starters")
"""Articles, pronouns and the like of other languages, where a text is not English."""
POLITE_PRONOUNS = read_words("names", "polite_pronouns")
CALENDAR = read_words("names", "calendar")

DEMONYMS = read_words("names", "demonyms")

HONORIFICS = read_words("names", "honorifics")
FORMS_OF_ADDRESS = read_words("names", "forms_of_address")
"""Honorifics that are no part of a name (*Mr. Topper* is Topper), as against *King George* or *Uncle Tom*."""
PERSON_TITLES = read_words("names", "person_titles")  # Honorifics that make what follows a person
LITERALS = read_words("terms", "literals")  # Words of code that every program holds
FEMALE_ADDRESS = read_words("names", "female_address")
"""With one of these before it, a surname is another person than the surname alone."""

FIRST_NAMES = read_words("names", "first_names")

PERSON_VERBS = read_words("names", "person_verbs")

ORGANISATION_WORDS = read_words("names", "organisation_words")
PLACE_WORDS = read_words("names", "place_words")
EVENT_WORDS = read_words("names", "event_words")

_CODE_HEADS = read_words("terms", "code_heads")
CODE_HEADS = {form: name_key(form) for head in _CODE_HEADS for form in _inflect(head)[:2]}
"""Nouns, also in the plural, that tell what a quoted or marked word is: *the "with" statement*."""

NO_NAMES = read_words("names", "no_names")  # Capitalised scraps that are no name on their own
SMALL_CONNECTORS = read_words("names", "small_connectors")
INNER_ARTICLES = read_words("names", "inner_articles")
BODIES = read_words("names", "bodies")
OPEN_OWNED_NAMES = read_words("names", "open_owned_names")
"""What begins with one of these is one name with the owner in it: *St. Mary's*."""
GREAT = read_words("names", "great")

DULL_HEADINGS = frozenset(
    name_key(heading.replace("/", " ")) for heading in read_words("terms", "dull_headings")
)
"""Keys of headings that name nothing of their own."""
