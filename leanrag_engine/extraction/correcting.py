"""Apply the corrections of persons and agents to names, in the order in which they were made, after acronyms
and names without spaces were resolved. They depend on names, documents and chunks alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from leanrag_engine.core.model import Correction, CorrectionEffects
from leanrag_engine.core.text.language.names import name_key


@dataclass(slots=True)
class _SplitRule:
    """``key`` means ``target`` in these documents and chunks."""

    ref: str
    key: str
    target: str
    documents: frozenset[str]
    chunks: frozenset[str]


@dataclass(slots=True)
class NameCorrections:
    """What corrections make of name keys: ``forms`` map other forms to a key, ``titles`` are the names of
    corrected entities, ``merged`` the keys that are one entity everywhere."""

    forms: dict[str, str]
    titles: dict[str, str] = field(default_factory=dict)
    merged: set[str] = field(default_factory=set)
    _documents: Mapping[str, str] = field(default_factory=dict)
    _splits: dict[str, list[_SplitRule]] = field(default_factory=dict)
    _groups: dict[str, frozenset[str]] = field(default_factory=dict)
    """All keys that were merged into a key so far."""
    _merges: dict[str, tuple[str, list[frozenset[str]]]] = field(default_factory=dict)
    """The target of each merge and the groups that it joins, by its ref."""
    _refs: list[str] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)
    _moved: set[str] = field(default_factory=set)

    @classmethod
    def of(
        cls, corrections: Sequence[Correction], forms: Mapping[str, str], documents: Mapping[str, str]
    ) -> Self:
        """Prepare ``corrections``; ``documents`` maps chunk ids to document ids."""
        made = cls(dict(forms), _documents=documents)
        for correction in corrections:
            made._refs.append(correction.ref)
            if correction.kind == "merge":
                made._merge(correction)
            else:
                made._split(correction)
        return made

    def _merge(self, correction: Correction) -> None:
        target = self._resolve(correction.name)
        keys = {self._resolve(name) for name in correction.names} | {target}
        groups = [self._groups.get(key, frozenset([key])) for key in sorted(keys)]
        self._merges[correction.ref] = target, groups
        self._groups[target] = frozenset().union(*groups)
        for form, key in self.forms.items():
            if key in keys:
                self.forms[form] = target
        for key in keys - {target}:
            self.forms[key] = target
            for rule in self._splits.pop(key, ()):
                rule.key = target
                self._splits.setdefault(target, []).append(rule)
            self.titles.pop(key, None)
        self.forms.pop(target, None)
        for rule in self._rules():
            if rule.target in keys:
                rule.target = target
        self.titles[target] = correction.name
        self.merged.add(target)

    def _split(self, correction: Correction) -> None:
        # The entity is called so although the name may be another form of it everywhere else, unless a merge gave this name
        # to one: two entities of one name could not be told apart.
        target = name_key(correction.name)
        bearer = self.forms.get(target, target)
        if name_key(self.titles.get(bearer, "")) == target:
            target = bearer
        key = self._resolve(correction.names[0])
        documents, chunks = frozenset(correction.documents), frozenset(correction.chunks)
        self._splits.setdefault(key, []).append(_SplitRule(correction.ref, key, target, documents, chunks))
        self.titles.setdefault(target, correction.name)

    def _resolve(self, name: str) -> str:
        """Return the key of the entity that bears a name when this correction is made."""
        key = name_key(name)
        return key if any(rule.target == key for rule in self._rules()) else self.forms.get(key, key)

    def _rules(self) -> list[_SplitRule]:
        return [rule for rules in self._splits.values() for rule in rules]

    @property
    def has_rules(self) -> bool:
        """Whether there are corrections: without any, ``forms`` tell all."""
        return bool(self._refs)

    def find(self, key: str, chunk_id: str) -> str:
        """Return the key of the entity that a mention of ``key`` in the chunk means."""
        if not self._refs:
            return self.forms.get(key, key)
        self._seen.add(key)
        found = self.forms.get(key, key)
        for rule in reversed(self._splits.get(found, ())):  # the latest counts
            if chunk_id in rule.chunks or self._documents.get(chunk_id) in rule.documents:
                self._moved.add(rule.ref)
                self._seen.add(rule.target)
                return rule.target
        return found

    def effects(self, acronyms: Mapping[str, str]) -> CorrectionEffects:
        """Return which corrections changed what a mention means or what it is called. ``acronyms`` are the forms without corrections."""
        seen = {acronyms.get(key, key) for key in self._seen}
        merged = set()
        for ref, (target, groups) in self._merges.items():
            found = sum(not group.isdisjoint(seen) for group in groups)
            if found >= min(2, len(groups)) or (found and target not in seen):
                merged.add(ref)
        applied = merged | self._moved
        return CorrectionEffects(
            tuple(ref for ref in self._refs if ref in applied),
            tuple(ref for ref in self._refs if ref not in applied),
        )
