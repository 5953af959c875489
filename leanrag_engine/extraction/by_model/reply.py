"""Check what a model or an agent extracts from one passage. Of a model's answer the usable part is kept. An agent's is refused
with the path of each fault if any part cannot be used. A name that shares no word with the passage was invented or translated."""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from leanrag_engine.core.errors import ReplyUnusable
from leanrag_engine.core.model import (
    CheckedObject,
    Extract,
    ExtractedAttribute,
    ExtractedEntity,
    ExtractedRelation,
    ExtractionSchema,
    Json,
    JsonObject,
    Method,
)
from leanrag_engine.core.text.cleaning import clean
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.core.text.language.sentences import whole_sentences
from leanrag_engine.core.text.language.words import STOPWORDS, word_count
from leanrag_engine.core.text.scripts import has_cjk
from leanrag_engine.core.text.shortening import cut_end
from leanrag_engine.extraction.schemas.conforming import UNKNOWN, TypeMatcher, type_name
from leanrag_engine.llm.item_schema import join_faults


@dataclass(frozen=True, slots=True)
class ExtractLimits:
    """How much of a reply on one passage is taken over."""

    entities: int = 100
    relations: int = 200  # A model that gives more for one passage repeats itself
    importance: int = 10  # The highest importance; 0 means that the reply gives none
    name_characters: int = 120
    name_words: int = 14
    aliases: int = 4
    attributes: int = 20
    value_characters: int = 200
    description_words: int = 80


LIMITS = ExtractLimits()

_YEAR = re.compile(r"[12]\d{3}(?:\s?[-–—/]\s?(?:\d{2}|\d{4}))?")
_NAMES_TOO = frozenset(["May", "Will"])  # Function words that are names when capitalised

_KEYS: Mapping[str, Sequence[str]] = {
    "entities": ("entities", "nodes", "entity"),
    "relations": ("relations", "relationships", "edges", "triples", "relation"),
    "name": ("name", "entity_name", "entity", "title", "id"),
    "type": ("type", "entity_type", "category", "label", "kind"),
    "description": ("description", "entity_description", "relationship_description", "summary", "desc"),
    "source": ("source", "source_entity", "subject", "head", "from", "src"),
    "target": ("target", "target_entity", "object", "tail", "to", "tgt"),
    "importance": ("importance", "strength", "relationship_strength", "weight", "score"),
    "predicate": ("predicate", "relation", "relationship", "type", "label"),
}
"""The names that models use for each field; the first is the one that the prompt asks for."""

_ENTITY_ROW = ("name", "type", "description")
_RELATION_ROW = ("source", "target", "description", "importance")
_TRIPLE_ROW = ("source", "predicate", "target")


def read_extract(
    item: JsonObject,
    chunk_id: str,
    passage: str,
    known: Sequence[ExtractedEntity] = (),
    schema: ExtractionSchema | None = None,
) -> Extract:
    """Return the extract, with method ``model``, that ``item`` gives of ``passage`` (all that its author
    saw). ``known`` entities may be ends of relations. With a ``schema``, types outside it stay, as proposals.
    Raises ``ReplyUnusable`` if the item has neither list, or nothing usable; two empty lists are valid."""
    entities, relations = _field(item, "entities"), _field(item, "relations")
    if entities is None and relations is None:
        raise ReplyUnusable(
            'The answer has neither "entities" nor "relations". Give both lists; if there is nothing to extract, empty ones.'
        )
    reader = _ReplyReader(_PassageWords(passage), known, schema)
    rows = [*_rows(entities, _ENTITY_ROW)]
    pairs = [*_rows(relations, _TRIPLE_ROW if item.get("triples") is relations else _RELATION_ROW)]
    for row in rows:
        reader.entity(row)
    for row in pairs:
        reader.relation(row)
    if (rows or pairs) and not (reader.entities or reader.relations or reader.seen_known):
        raise ReplyUnusable(
            f"Nothing in the answer can be used: {'; '.join(list(reader.reasons)[:3]) or 'it is empty'}."
        )
    return reader.extract(chunk_id)


def read_strictly(
    item: CheckedObject, chunk_id: str, passage: str, schema: ExtractionSchema | None = None
) -> Extract:
    """Return the extract, with method ``agent``, that an item of the published schema gives of ``passage``.
    Raises ``ReplyUnusable`` with the path of everything that would have to be left out or cut."""
    faults = [*_find_entity_faults(item["entities"], _PassageWords(passage))]
    forms = _index_names(item["entities"])
    faults += _find_relation_faults(item["relations"], forms)
    if faults:
        raise ReplyUnusable(join_faults(faults))
    types = _SchemaReader(schema)
    entities = tuple(
        ExtractedEntity(
            _text(row["name"]),
            types.entity_type(row["type"]),
            _text(row["description"]),
            tuple(map(_text, row.get("aliases", ()))),
            types.attributes(row),
            types.confidence(row),
        )
        for row in item["entities"]
    )
    relations = tuple(
        ExtractedRelation(
            entities[forms[name_key(row["source"])]].name,
            entities[forms[name_key(row["target"])]].name,
            _text(row["description"]),
            float(row["importance"]),
            types.relation_type(row),
            types.confidence(row),
        )
        for row in item["relations"]
    )
    return Extract(chunk_id, Method.AGENT, entities, relations, types.digest)


def _index_names(rows: Sequence[CheckedObject]) -> dict[str, int]:
    """Return the place of the first entity that bears each name or alias, by its key."""
    forms: dict[str, int] = {}
    for place, row in enumerate(rows):
        for name in (row["name"], *row.get("aliases", ())):
            forms.setdefault(name_key(name), place)
    return forms


def _find_entity_faults(rows: Sequence[CheckedObject], ground: "_PassageWords") -> Iterator[str]:
    forms = _index_names(rows)
    for place, row in enumerate(rows):
        path = f"entities[{place}]"
        names = {f"{path}.name": row["name"]}
        names |= {f"{path}.aliases[{number}]": each for number, each in enumerate(row.get("aliases", ()))}
        for where, name in names.items():
            if problem := _find_name_fault(_text(name), type_name(row["type"])):
                yield f"{where}: {problem}"
            elif forms[name_key(name)] != place:
                other = forms[name_key(name)]
                yield f"{where}: {_quote(name)} is a name of entities[{other}] too; expected one entity for each name"
        # The name may be the one that other passages use, if the passage has another.
        if not any(ground.holds(name) for name in names.values()):
            yield f"{path}.name: {_quote(row['name'])} is not in the passage; expected a name or alias as it stands there"
        yield from _find_length_fault(path, row)


def _find_relation_faults(rows: Sequence[CheckedObject], forms: Mapping[str, int]) -> Iterator[str]:
    for place, row in enumerate(rows):
        path = f"relations[{place}]"
        ends = {end: forms.get(name_key(row[end])) for end in ("source", "target")}
        for end, found in ends.items():
            if found is None:
                yield f"{path}.{end} is {_quote(row[end])}; expected a name or alias that entities lists"
        if ends["source"] is not None and ends["source"] == ends["target"]:
            yield f"{path} relates {_quote(row['source'])} to itself; expected two entities"
        yield from _find_length_fault(path, row)


def _find_length_fault(path: str, row: CheckedObject) -> Iterator[str]:
    count = word_count(_text(row["description"]))
    if count > LIMITS.description_words:
        yield f"{path}.description has {count} words; expected at most {LIMITS.description_words}"


# --- shapes --------------------------------------------------------------------------------


def _field(row: JsonObject, name: str) -> Json:
    """Return the value of a field under the first of its names that has one; else ``None``."""
    return next((row[key] for key in _KEYS[name] if row.get(key) is not None), None)


def _rows(value: Json, fields: Sequence[str]) -> Iterator[JsonObject]:
    """Yield the rows of a list as objects; bare names, lists of values and objects keyed by name are converted."""
    if isinstance(value, Mapping):
        single = _field(value, fields[0]) is not None
        value = (
            [value]
            if single
            else [
                {fields[0]: key, **(each if isinstance(each, Mapping) else {"description": each})}
                for key, each in value.items()
            ]
        )
    for row in value if isinstance(value, list) else [value]:
        if isinstance(row, Mapping):
            yield row
        elif isinstance(row, list):
            yield dict(zip(fields, row, strict=False))
        elif isinstance(row, str) and row.strip():
            yield {fields[0]: row}


def _text(value: Json) -> str:
    """Return a string, number or list of them as clean text on one line; "" for anything else."""
    if isinstance(value, list):
        return " ".join(filter(None, map(_text, value)))
    if isinstance(value, str) or (isinstance(value, int | float) and not isinstance(value, bool)):
        return " ".join(clean(str(value)).split())
    return ""


def _figure(value: Json) -> float:
    """Return the number that a value begins with; 0 if there is none."""
    found = re.match(r"\s*(\d+(?:\.\d+)?)", _text(value))
    return float(found[1]) if found else 0.0


def _importance(value: Json) -> float:
    """Read an importance from 1 to 10: ``8`` and ``"8/10"`` are 8, and 0.8 is taken from a scale up to 1; 0 if none."""
    figure = _figure(value)
    return min(float(LIMITS.importance), round(LIMITS.importance * figure, 1) if 0 < figure < 1 else figure)


def _description(value: Json) -> str:
    """Return whole sentences within the limit, or a single one of at most twice as many words; "" if it is longer."""
    text = _text(value)
    return whole_sentences(text, LIMITS.description_words) or whole_sentences(
        text, 2 * LIMITS.description_words
    )


# --- names ---------------------------------------------------------------------------------

_MARKS = re.compile(r"[*`]+")
_SIGNS = "\"'“”‘’„«»「」『』 "
_BRACKETS = re.compile(r"(\S.*?)\s*[(（]([^()（）]{2,80})[)）]")
_SHORT_FORM = re.compile(r"[^\s\d]\S{1,9}")


def _bare(value: Json) -> str:
    """Return a name without quotation marks and emphasis around it."""
    text = _text(value)
    inner = text.strip(_SIGNS)
    text = inner if inner and text[:1] in _SIGNS and text[-1:] in _SIGNS else text
    return text.strip("*`").strip() or _MARKS.sub("", text)


def _with_short_form(name: str) -> tuple[str, tuple[str, ...]]:
    """Split ``World Trade Organization (WTO)``, in either order, into name and short form; else keep the brackets."""
    found = _BRACKETS.fullmatch(name)
    if found:
        before, within = (part.strip() for part in found.groups())
        if _is_short_form(within) and not _is_short_form(before):
            return before, (within,)
        if _is_short_form(before) and " " in within:
            return within, (before,)
    return name, ()


def _is_short_form(name: str) -> bool:
    """Return whether ``name`` is one short word with at least two capitals or digits: WTO, GMMs, COVID-19."""
    return (
        _SHORT_FORM.fullmatch(name) is not None and sum(sign.isupper() or sign.isdigit() for sign in name) > 1
    )


class _PassageWords:
    """The words of a passage, to recognise invented names."""

    _START = 4
    """Words with so many equal first characters count as forms of one word, as in most inflected languages."""

    def __init__(self, passage: str) -> None:
        self._text = _fold(passage)
        self._starts = {word[: self._START] for word in re.findall(r"\w+", self._text)}

    def holds(self, name: str) -> bool:
        """Return whether the passage has a word of the name, or two adjacent characters of a Chinese or Japanese one."""
        folded = _fold(name)
        if folded in self._text:
            return True
        if has_cjk(name) and any(
            folded[place : place + 2] in self._text
            for place in range(len(folded) - 1)
            if not folded[place : place + 2].isascii()
        ):
            return True
        words = (*re.findall(r"\w+", folded), *name_key(name).split())
        return any(word[: self._START] in self._starts for word in words if word not in STOPWORDS)


def _find_name_fault(name: str, type_: str) -> str:
    """Return why this cannot be the name of an entity, wherever it stands; "" if it can."""
    if not name or not name_key(name):
        return "an entity has no name"
    if len(name) > LIMITS.name_characters or word_count(name) > LIMITS.name_words:
        return f"{_quote(name)} is too long for a name"
    if name.lower() in STOPWORDS and name not in _NAMES_TOO and not (name.isupper() and len(name) > 1):
        return f"{_quote(name)} is no name by itself (a longer one may be)"
    figure = not any(sign.isalpha() for sign in name)
    if figure and not _YEAR.fullmatch(name) and type_ in {UNKNOWN, "quantity", "time"}:
        return f"{_quote(name)} is a bare number"
    return ""


def _fold(text: str) -> str:
    """Return the text in lower case, without accents."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text).casefold()
    return "".join(sign for sign in decomposed if not unicodedata.combining(sign))


def _quote(text: str) -> str:
    return f'"{cut_end(text, 60)}"'


# --- with a schema -------------------------------------------------------------------------


class _SchemaReader:
    """Reads what an answer says of types, attributes and confidence; without a schema the types of entities alone."""

    def __init__(self, schema: ExtractionSchema | None) -> None:
        self._matcher = TypeMatcher(schema) if schema else None
        self.digest = schema.digest if schema else ""

    def entity_type(self, given: Json) -> str:
        text = _text(given)
        return self._matcher.read("entity", text) if self._matcher else type_name(text)

    def relation_type(self, row: JsonObject) -> str:
        return self._matcher.read("relation", _text(_field(row, "predicate"))) if self._matcher else ""

    def confidence(self, row: JsonObject) -> float:
        return _share(row.get("confidence")) if self._matcher else 0.0

    def attributes(self, row: JsonObject) -> tuple[ExtractedAttribute, ...]:
        """Return the attributes of an entity that have a name and a value."""
        given = row.get("attributes")
        if self._matcher is None or not given:
            return ()
        found = []
        for each in _rows(given, ("name", "value")):
            name = self._matcher.read("attribute", _text(each.get("name")))
            value = cut_end(_text(each.get("value", each.get("description"))), LIMITS.value_characters)
            if name_key(name) and value:
                found.append(ExtractedAttribute(name, value, self.confidence(each)))
        return tuple(dict.fromkeys(found))[: LIMITS.attributes]


def _share(value: Json) -> float:
    """Read a confidence from 0 to 1: 95, "95 %" and 0.95 are equal; 0 if there is none."""
    figure = _figure(value)
    return min(1.0, figure if figure <= 1 else figure / 100)


# --- one answer ----------------------------------------------------------------------------


@dataclass(slots=True)
class _ReplyReader:
    """Collects the entities and relations of one answer. Keys are those of :func:`name_key`."""

    ground: _PassageWords
    known: Sequence[ExtractedEntity]
    schema: ExtractionSchema | None = None
    entities: dict[str, ExtractedEntity] = field(default_factory=dict)
    relations: list[ExtractedRelation] = field(default_factory=list)
    reasons: dict[str, None] = field(default_factory=dict)  # Why rows were left out, each reason once
    seen_known: bool = False
    _forms: dict[str, str] = field(default_factory=dict)  # Key of any name → key of the entity
    _names: dict[str, str] = field(default_factory=dict)  # Key of the entity, known ones included → its name
    _types: _SchemaReader = field(init=False)

    def __post_init__(self) -> None:
        self._types = _SchemaReader(self.schema)
        for entity in self.known:
            self._enter(entity)

    def extract(self, chunk_id: str) -> Extract:
        entities = tuple(self.entities.values())
        # Relations stay in order; if there are too many, only the most important ones are taken.
        ranked = sorted(range(len(self.relations)), key=lambda place: -self.relations[place].importance)
        relations = tuple(self.relations[place] for place in sorted(ranked[: LIMITS.relations]))
        return Extract(chunk_id, Method.MODEL, entities, relations, self._types.digest)

    def entity(self, row: JsonObject) -> None:
        given = _bare(_field(row, "name"))
        name, short = _with_short_form(given)
        type_ = self._types.entity_type(_field(row, "type"))
        if problem := self._fault(name, given, type_):
            self._note(problem)
            return
        aliases = tuple(dict.fromkeys((*short, *self._other_names(row, name))))[: LIMITS.aliases]
        description = _description(_field(row, "description"))
        attributes, confidence = self._types.attributes(row), self._types.confidence(row)
        self._add(ExtractedEntity(name, type_, description, aliases, attributes, confidence))

    def relation(self, row: JsonObject) -> None:
        description = _description(_field(row, "description"))
        ends = [_bare(_field(row, end)) for end in ("source", "target")]
        if not description and (predicate := _text(_field(row, "predicate"))):
            description = _description(f"{ends[0]} {predicate} {ends[1]}.")
        if not all(ends):
            self._note("a relation lacks its source or its target")
            return
        source, target = (self._end(end, description) for end in ends)
        if not source or not target:
            return
        if source == target:
            self._note(f"{_quote(ends[0])} is related to itself")
            return
        relation = ExtractedRelation(
            self._names[source],
            self._names[target],
            description,
            _importance(_field(row, "importance")),
            self._types.relation_type(row),
            self._types.confidence(row),
        )
        if relation not in self.relations:
            self.relations.append(relation)

    # names

    def _fault(self, name: str, given: str, type_: str) -> str:
        """Return why this cannot be the name of an entity of the passage; "" if it can."""
        if problem := _find_name_fault(name, type_):
            return problem
        if self.ground.holds(given):
            return ""
        return f"{_quote(name)} is not in the passage (spell names as the passage does, in its language)"

    def _other_names(self, row: JsonObject, name: str) -> Iterator[str]:
        given = row.get("aliases")
        for each in given if isinstance(given, list) else ():
            alias = _bare(each)
            if alias and alias != name and not self._fault(alias, alias, ""):
                yield alias

    def _end(self, name: str, description: str) -> str:
        """Return the key of the entity that an end means, "" for none. An unlisted one that the passage names is added with ``description``."""
        bare, short = _with_short_form(name)
        for form in (bare, *short):
            if key := self._forms.get(name_key(form)) if form else None:
                self.seen_known |= key not in self.entities
                return key
        if key := self._person(bare):
            return key
        if problem := self._fault(bare, name, UNKNOWN):
            self._note(problem)
            return ""
        return self._add(ExtractedEntity(bare, UNKNOWN, description, short))

    def _person(self, name: str) -> str:
        """Return the key of the only person whose full name begins or ends with ``name``; "" if not exactly one."""
        words = name_key(name).split()
        found = [
            key
            for key, entity in self.entities.items()
            if words
            and entity.type == "person"
            and words in (key.split()[-len(words) :], key.split()[: len(words)])
        ]
        return found[0] if len(found) == 1 else ""

    # collecting

    def _enter(self, entity: ExtractedEntity) -> str:
        key = name_key(entity.name)
        self._names[key] = entity.name
        for form in (entity.name, *entity.aliases):
            self._forms.setdefault(name_key(form), key)
        return key

    def _add(self, entity: ExtractedEntity) -> str:
        """Add an entity, or combine it with the one of the same name; return its key, or "" if there are too many."""
        forms = (name_key(form) for form in (entity.name, *entity.aliases))
        key = next((self._forms[form] for form in forms if form in self._forms), "")
        if key in self.entities:
            self.entities[key] = _combine(self.entities[key], entity)
            self._enter(self.entities[key])
        elif key:
            self.seen_known = True
        elif len(self.entities) < LIMITS.entities:
            key = self._enter(entity)
            self.entities[key] = entity
        return key

    def _note(self, problem: str) -> None:
        self.reasons.setdefault(problem)


def _combine(one: ExtractedEntity, other: ExtractedEntity) -> ExtractedEntity:
    """Combine two rows for one entity: the first name, the first specific type, both descriptions."""
    news = () if other.description in one.description else (other.description,)
    key = name_key(one.name)
    others = [name for name in (*one.aliases, *other.aliases, other.name) if name_key(name) != key]
    return replace(
        one,
        type=one.type if one.type != UNKNOWN else other.type,
        description=_description(" ".join((one.description, *news))),
        aliases=tuple(dict.fromkeys(others))[: LIMITS.aliases],
        attributes=tuple(dict.fromkeys((*one.attributes, *other.attributes)))[: LIMITS.attributes],
        confidence=max(one.confidence, other.confidence),
    )
