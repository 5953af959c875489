"""Find the type of a schema that a model, an agent or a heuristic means by a word."""

from __future__ import annotations

from collections import Counter

from leanrag_engine.core.model import TYPE_KINDS, ExtractionSchema, TypeKind
from leanrag_engine.core.text.cleaning import clean
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.core.text.shortening import cut_end

from .type_names import UNKNOWN, type_name


class TypeMatcher:
    """The types of a schema by the words for them. A kind without any type in the schema is open: every type fits."""

    def __init__(self, schema: ExtractionSchema) -> None:
        self._names = {kind: {name_key(name): name for name in schema.types(kind)} for kind in TYPE_KINDS}
        common = {name: type_name(name) for name in schema.types("entity")}
        count = Counter(common.values())
        # A synonym of two types decides nothing between them.
        self._synonyms = {same: name for name, same in common.items() if same != UNKNOWN and count[same] == 1}

    def find(self, kind: TypeKind, given: str) -> str:
        """Return the name of the type in the schema; "" if it has none for ``given``."""
        names = self._names[kind]
        plain = simplify_type(kind, given)
        if not names:
            return plain
        if found := names.get(name_key(_unify_spaces(given))) or names.get(name_key(plain)):
            return found
        return self._synonyms.get(plain, "") if kind == "entity" else ""

    def read(self, kind: TypeKind, given: str) -> str:
        """Return the name of the type in the schema, else ``given`` in the form in which it is proposed."""
        return self.find(kind, given) or simplify_type(kind, given)


def simplify_type(kind: TypeKind, given: str) -> str:
    """Return one form for equal types: ``Works_for`` and ``works for`` are the same relation."""
    if kind == "entity":
        return type_name(given)
    return cut_end(_unify_spaces(given).lower(), 40)


def _unify_spaces(given: str) -> str:
    return " ".join(clean(given).replace("_", " ").split())
