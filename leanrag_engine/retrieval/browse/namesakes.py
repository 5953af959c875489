"""Tell entities of one name apart: by type if that differs, else by a document or passage that mentions each."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from leanrag_engine.core.model import Chunk, Entity, Group, Subgraph
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.core.text.shortening import shorten
from leanrag_engine.retrieval.index import IndexSnapshot


async def rename_namesakes(
    index: IndexSnapshot, entities: Iterable[Entity], allows: Callable[[str], bool] = lambda _: True
) -> dict[str, Entity]:
    """Return by id the ``entities`` of layer 0 that share a name, renamed as ``King (Alice in Wonderland)``.
    Only documents of which ``allows`` accepts a chunk are named."""
    alike: dict[str, dict[str, Entity]] = {}
    for each in entities:
        if each.layer == 0:
            alike.setdefault(name_key(each.name), {})[each.id] = each
    groups = [group for group in alike.values() if len(group) > 1]
    if not groups:
        return {}
    firsts = {
        id_: next(filter(allows, each.chunk_ids), "") for group in groups for id_, each in group.items()
    }  # an entity of an agent's extract may have no chunk
    chunks = await index.documents.chunks(index.collection.name, [id_ for id_ in firsts.values() if id_])
    known = {chunk.id: chunk for chunk in chunks}
    passages = {id_: known.get(first) for id_, first in firsts.items()}
    return {
        id_: replace(entity, name=f"{entity.name} ({mark})") if mark else entity
        for group in groups
        for (id_, entity), mark in zip(group.items(), _choose_marks(group, passages), strict=True)
    }


def _choose_marks(group: Mapping[str, Entity], passages: Mapping[str, Chunk | None]) -> list[str]:
    """Return what tells each of a group from the others: type, title of a document, or title and passage."""
    found = [passages[id_] for id_ in group]
    # 60 characters are enough to recognise a title.
    titles = [shorten(each.title, 60) if each else "" for each in found]
    cited = [f"{title}, {each.citation}" if each else "" for title, each in zip(titles, found, strict=True)]
    choices = ([each.type for each in group.values()], titles, cited)
    clear = [marks for marks in choices if all(marks) and len(set(marks)) == len(marks)]
    # Where all stand in one passage nothing but the ref tells them apart.
    return clear[0] if clear else cited if len(set(cited)) > 1 else [""] * len(found)


async def mark_namesakes(index: IndexSnapshot, graph: Subgraph, allows: Callable[[str], bool]) -> Subgraph:
    """Return ``graph`` with the entities that share a name renamed, wherever they occur in it."""
    known = [*(seed.entity for seed in graph.seeds), *graph.path]
    renamed = await rename_namesakes(index, known, allows)
    if not renamed:
        return graph

    def mark(entities: Iterable[Entity]) -> tuple[Entity, ...]:
        return tuple(renamed.get(each.id, each) for each in entities)

    return replace(
        graph,
        seeds=tuple(replace(seed, entity=renamed.get(seed.entity.id, seed.entity)) for seed in graph.seeds),
        groups=tuple(Group(group.lca, mark(group.seeds), mark(group.path)) for group in graph.groups),
        path=mark(graph.path),
    )
