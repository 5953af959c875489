"""What remains of entities, relations and summaries when only some of their chunks count: for one answer, by
a query's filters, or after a deletion. Every text goes that may rest on an excluded chunk."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from leanrag_engine.core.graphs.texts import evidence_at
from leanrag_engine.core.model import Attribute, Chunk, Entity, Evidence, Extract, Method, Relation
from leanrag_engine.core.text.language.names import fold_case
from leanrag_engine.core.text.language.sentences import sentences
from leanrag_engine.core.text.language.words import content_words
from leanrag_engine.core.text.scripts import has_cjk


def quote_entity(entity: Entity, chunk_ids: tuple[str, ...], chunks: Mapping[str, Chunk]) -> Entity:
    """Return a layer-0 entity with the sentences that the remaining ``chunk_ids`` hold, without aliases, whose source is unknown."""
    return replace(
        entity,
        description=_quote_sentences(entity.description, chunk_ids, chunks),
        chunk_ids=chunk_ids,
        mentions=len(chunk_ids),
        aliases=(),
        evidence=(),
        attributes=_select_attributes(entity, chunk_ids),
    )


def _select_attributes(entity: Entity, chunk_ids: Collection[str]) -> tuple[Attribute, ...]:
    """Return the attributes that any of the chunks gives, each with these chunks alone."""
    left = (
        replace(each, chunk_ids=tuple(id_ for id_ in each.chunk_ids if id_ in chunk_ids))
        for each in entity.attributes
    )
    return tuple(each for each in left if each.chunk_ids)


def quote_relation(relation: Relation, chunk_ids: tuple[str, ...], chunks: Mapping[str, Chunk]) -> Relation:
    """Return a layer-0 relation with those sentences of its description that the remaining ``chunk_ids`` hold."""
    return replace(
        relation,
        description=_quote_sentences(relation.description, chunk_ids, chunks),
        chunk_ids=chunk_ids,
        weight=len(chunk_ids),
        evidence=(),
    )


def _quote_sentences(description: str, chunk_ids: Sequence[str], chunks: Mapping[str, Chunk]) -> str:
    texts = [fold_case(chunks[id_].text) for id_ in chunk_ids if id_ in chunks]
    parts = (description[start:end] for start, end in sentences(description))
    return " ".join(part for part in parts if any(fold_case(part) in text for text in texts))


def reduce_entity(
    entity: Entity,
    chunk_ids: tuple[str, ...],
    chunks: Mapping[str, Chunk],
    extracts: Iterable[Extract],
    lost: Collection[str] = (),
) -> Entity | None:
    """Return a layer-0 entity as if only ``chunks`` existed, of which ``chunk_ids`` and ``extracts`` remain, without what has a
    word that is ``lost``; None without a mention."""
    texts = _index_texts(chunk_ids, chunks)
    stated = [each for extract in extracts for each in extract.entities]
    forms = {fold_case(form) for each in stated for form in (each.name, *each.aliases)}
    names = [
        name
        for name in (entity.name, *entity.aliases)
        if fold_case(name) in forms or _find_chunk(name, texts) is not None
    ]
    if not names:
        return None
    description, evidence = _select_parts(entity, chunks, texts, lost)
    return replace(
        entity,
        name=names[0],
        aliases=tuple(names[1:]),
        type=entity.type if entity.type in {each.type.strip().lower() for each in stated} else "concept",
        description=description,
        evidence=evidence,
        mentions=len(chunk_ids),
        chunk_ids=chunk_ids,
        statements="",
        attributes=_select_attributes(entity, chunk_ids),
    )


def reduce_relation(
    relation: Relation, chunk_ids: tuple[str, ...], chunks: Mapping[str, Chunk], lost: Collection[str] = ()
) -> Relation | None:
    """Return a layer-0 relation as if only ``chunks`` existed, without parts that have a ``lost`` word; None if no chunk of it remains."""
    if not chunk_ids:
        return None
    description, evidence = _select_parts(relation, chunks, _index_texts(chunk_ids, chunks), lost)
    weight = max(relation.weight - (len(relation.chunk_ids) - len(chunk_ids)), len(chunk_ids))
    return replace(
        relation,
        description=description,
        evidence=evidence,
        weight=weight,
        chunk_ids=chunk_ids,
        statements="",
    )


def _index_texts(chunk_ids: Sequence[str], chunks: Mapping[str, Chunk]) -> dict[str, str]:
    return {id_: fold_case(chunks[id_].indexed_text) for id_ in chunk_ids}


def _select_parts(
    item: Entity | Relation, chunks: Collection[str], texts: Mapping[str, str], lost: Collection[str]
) -> tuple[str, tuple[Evidence, ...]]:
    """Return the parts of a description that come from a remaining chunk or stand in one, with their new places."""
    return cut_parts(item.description, item.evidence, chunks, lost, lambda part: _find_chunk(part, texts))


def cut_parts(
    text: str,
    origins: Iterable[Evidence],
    chunks: Collection[str],
    lost: Collection[str],
    find: Callable[[str], str | None] = lambda _: None,
) -> tuple[str, tuple[Evidence, ...]]:
    """Return the parts of ``text`` that come from ``chunks``, or that ``find`` finds in one, without those that hold a word that is
    ``lost``, with their new places."""
    parts: list[str] = []
    evidence: list[Evidence] = []
    start = 0
    for (begin, end), cited in groupby(origins, key=lambda each: (each.start, each.end)):
        part = text[begin:end]
        ids = [each.chunk_id for each in cited if each.chunk_id in chunks]
        ids = ids or [found for found in (find(part),) if found]
        if part and ids and content_words(part).isdisjoint(lost):
            evidence += (Evidence(start, start + len(part), id_) for id_ in ids)
            parts.append(part)
            start += len(part) + 1
    return " ".join(parts), tuple(evidence)


def _find_chunk(part: str, texts: Mapping[str, str]) -> str | None:
    """Return the first of the chunks in which ``part`` stands, not as a piece of a longer word."""
    folded = fold_case(part)
    if not folded:
        return None
    # Chinese and Japanese words have no visible edges.
    exact = re.escape(folded)
    pattern = re.compile(exact if has_cjk(folded) else rf"(?<!\w){exact}(?!\w)")
    return next((id_ for id_, text in texts.items() if folded in text and pattern.search(text)), None)


def cut_summary(
    cluster: Entity, chunk_ids: Collection[str], lost: Collection[str] = frozenset()
) -> Entity | None:
    """Return a written summary without the sentences and findings all of whose chunks are missing in ``chunk_ids`` or that
    hold a word that is ``lost``; those that cite nothing stay. None if no sentence of the description is left."""
    parts: list[str] = []
    evidence: list[Evidence] = []
    place = 0
    for start, end in sentences(cluster.description):
        text = cluster.description[start:end]
        cited = evidence_at(cluster.evidence, start)
        left = [id_ for id_ in cited if id_ in chunk_ids]
        if (cited and not left) or not content_words(text).isdisjoint(lost):
            continue
        evidence += (Evidence(place, place + len(text), id_) for id_ in left)
        parts.append(text)
        place += len(text) + 1
    if not parts:
        return None
    findings = [
        replace(each, chunk_ids=tuple(id_ for id_ in each.chunk_ids if id_ in chunk_ids))
        for each in cluster.findings
        if content_words(f"{each.summary} {each.explanation}").isdisjoint(lost)
        and (not each.chunk_ids or any(id_ in chunk_ids for id_ in each.chunk_ids))
    ]
    return replace(cluster, description=" ".join(parts), findings=tuple(findings), evidence=tuple(evidence))


def cut_sentence(relation: Relation, chunk_ids: Collection[str]) -> Relation | None:
    """Return a relation of two clusters with the evidence that is left in ``chunk_ids``; None if it had some and none is left."""
    left = tuple(each for each in relation.evidence if each.chunk_id in chunk_ids)
    return replace(relation, evidence=left) if left or not relation.evidence else None


def find_lost_words(text: str, gone: Iterable[Chunk] | None, left: Iterable[Chunk]) -> frozenset[str]:
    """Return the words of ``text`` that chunks which are ``gone`` (None: of unknown texts) say and no chunk that is ``left``."""
    found = content_words(text)
    if gone is not None:
        found &= {word for each in gone for word in content_words(each.indexed_text)}
    for each in left:
        if not found:
            break
        found -= content_words(each.indexed_text)
    return found


def text_of_summary(cluster: Entity) -> str:
    """Return name, description and findings of an aggregated entity."""
    said = (f"{each.summary} {each.explanation}" for each in cluster.findings)
    return " ".join((cluster.name, cluster.description, *said))


def hide_summary(cluster: Entity, name: str, description: str) -> Entity:
    """Return an aggregated entity without its summary: a text that excluded chunks fed cannot be cut, only hidden."""
    return replace(
        cluster,
        name=name,
        description=description,
        method=Method.HEURISTIC,
        aliases=(),
        findings=(),
        evidence=(),
    )
