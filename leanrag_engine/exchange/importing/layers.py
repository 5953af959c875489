"""Lay the clusters of another program over G0, so that the first build keeps them as it would those of a build before."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count

from leanrag_engine.core.graphs.graph import Graph, Hierarchy
from leanrag_engine.core.model import Entity, Method, content_id
from leanrag_engine.core.text.language.names import name_key

from .graph import ForeignCluster


def lay_clusters(clusters: Sequence[ForeignCluster], base: Graph, unwritten: str) -> Hierarchy | None:
    """Return a hierarchy over those entities of ``base`` that the clusters hold, None for none. A root that
    they lack is called ``unwritten``, for a build to replace."""
    homes = {name_key(name): each.id for each in clusters if each.layer == 1 for name in each.members}
    parents = {each.id: home for each in base.entities if (home := _find_home(each, homes))}
    layers = [
        Graph(
            tuple(
                replace(each, parent_id=_id(parents[each.id])) for each in base.entities if each.id in parents
            ),
            base.relations,
        )
    ]
    for number in count(1):
        sizes = Counter(each.parent_id for each in layers[-1].entities)
        held = [each for each in clusters if each.layer == number and sizes[_id(each.id)]]
        if not held:
            break
        layers.append(Graph(tuple(_make_entity(each, sizes[_id(each.id)]) for each in held), ()))
    if len(layers) == 1:
        return None
    top = layers[-1]
    if len(top.entities) > 1:
        root = Entity(
            _id("root of an import"), "", layer=len(layers), description=unwritten, members=len(top.entities)
        )
        layers[-1] = Graph(tuple(replace(each, parent_id=root.id) for each in top.entities), ())
        layers.append(Graph((root,), ()))
    return Hierarchy(tuple(layers))


def _find_home(entity: Entity, homes: Mapping[str, str]) -> str:
    found = (homes.get(name_key(name)) for name in (entity.name, *entity.aliases))
    return next(filter(None, found), "")


def _make_entity(cluster: ForeignCluster, members: int) -> Entity:
    return Entity(
        _id(cluster.id),
        cluster.name,
        layer=cluster.layer,
        description=cluster.description,
        method=cluster.method if cluster.description else Method.HEURISTIC,
        members=members,
        parent_id=_id(cluster.parent) if cluster.parent else None,
        findings=cluster.findings,
    )


def _id(foreign: str) -> str:
    return content_id("c", "import", foreign)
