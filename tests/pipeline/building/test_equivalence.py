"""Any sequence of changes ends where a build from nothing ends: G0 is the same, and every count above it is exact.

LEANRAG_TESTS_SEQUENCES sets the number of random sequences that are tried, with their vectors; without it, a few fixed ones are.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import count, pairwise, product
from typing import Any, TypeVar

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from leanrag_engine.core.config import load_settings
from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.graphs.graph import Graph, Hierarchy
from leanrag_engine.core.jobs import AskedMode, BuildRequest, BuildResult, Job, JobStatus
from leanrag_engine.core.model import Chunk, DocumentSource, Entity, Generation, Method, Relation, Staleness
from leanrag_engine.core.ports import ignore_progress
from leanrag_engine.core.text.language.sentences import sentences
from leanrag_engine.engine import LeanRAG
from leanrag_engine.hierarchy.health import check_hierarchy
from leanrag_engine.pipeline.agent.items import WorkKind
from leanrag_engine.pipeline.building.generation import BuildRun, base_graph
from leanrag_engine.pipeline.building.models import NO_MODELS
from leanrag_engine.pipeline.index import Stores, read_hierarchy

T = TypeVar("T")
ReadBuild = Callable[[Stores, Generation], Coroutine[Any, Any, Hierarchy]]

LONG = "LEANRAG_TESTS_SEQUENCES" in os.environ
SEQUENCES = int(os.environ.get("LEANRAG_TESTS_SEQUENCES", "6"))

NAMES = (
    "Ewan Reid",
    "E. Reid",
    "Moira Kerr",
    "John",
    "King",
    "Queen",
    "Northern Lighthouse Board (NLB)",
    "NLB",
    "MeiLin",
    "Mei Lin",
    "Skerry",
    "Tiree",
    "Oban",
    "whale oil",
)
"""Names that meet across documents: variants of one another, an acronym, and those that many may have."""
VERBS = ("wrote to", "was painted beside", "is older than", "sent seven letters about")

Statement = tuple[int, int, int]
Paragraph = tuple[Statement, ...]

statements = st.tuples(
    st.integers(0, len(NAMES) - 1), st.integers(0, len(VERBS) - 1), st.integers(0, len(NAMES) - 1)
)
paragraphs = st.lists(statements, min_size=1, max_size=3).map(tuple)
contents = st.lists(paragraphs, min_size=1, max_size=3)
places = st.integers(0, 9)
modes = st.sampled_from(("auto", "update", "rebuild"))


def write_text(content: list[Paragraph]) -> str:
    return "\n\n".join(" ".join(write_sentence(*each) for each in paragraph) for paragraph in content)


def write_sentence(first: int, verb: int, second: int) -> str:
    text = f"{NAMES[first]} {VERBS[verb]} {NAMES[second]}."
    return text[0].upper() + text[1:]


class Changes(RuleBasedStateMachine):
    """A collection that is changed, and what is known of it."""

    numbers = count()

    def __init__(self, portal: BlockingPortal, engine: LeanRAG, read_build: ReadBuild) -> None:
        super().__init__()
        self._read_build = read_build
        self._portal = portal
        self.engine = engine
        self.name = f"grown-{next(self.numbers)}"
        self.held: dict[str, DocumentSource] = {}
        self.contents: dict[str, list[Paragraph]] = {}
        self.read: dict[str, dict[str, Any]] = {}
        """What agents extracted, by chunk."""
        self.due: dict[str, str] = {}
        """Descriptions that agents wrote of clusters since the last build, by cluster."""
        self.written = 0
        self.builds = 0

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        async def wait() -> T:
            return await work

        return self._portal.call(wait)

    def finish(self, job: Job) -> Any:
        while not job.status.finished:
            job = self.run(self.engine.job(job.id, wait_seconds=0.02))
        assert job.status is JobStatus.DONE, job.message
        assert not job.failures
        return job.result

    # --- documents -------------------------------------------------------------------------

    def put(self, id_: str, content: list[Paragraph], title: str = "") -> None:
        title = title or (self.held[id_].title if id_ in self.held else f"Note {id_}")
        self.contents[id_] = content
        self.held[id_] = DocumentSource(text=write_text(content), title=title, id=id_)
        self.finish(self.run(self.engine.submit_ingest([self.held[id_]], collection=self.name, build=False)))
        self.forget_readings()

    def forget_readings(self) -> None:
        known = set(self.run(self.engine._stores.documents.chunk_ids(self.name, list(self.held))))
        self.read = {id_: item for id_, item in self.read.items() if id_ in known}

    def choose(self, number: int) -> str:
        return list(self.held)[number % len(self.held)]

    @rule(number=st.integers(0, 6), content=contents)
    def put_document(self, number: int, content: list[Paragraph]) -> None:
        self.put(f"n{number}", content)

    @rule(content=contents)
    def put_several(self, content: list[Paragraph]) -> None:
        for number, paragraph in enumerate(content):
            self.put(f"m{number}", [paragraph, paragraph[::-1]])

    @precondition(lambda self: self.held)
    @rule(number=places, place=places, paragraph=paragraphs)
    def insert_paragraph(self, number: int, place: int, paragraph: Paragraph) -> None:
        id_ = self.choose(number)
        content = list(self.contents[id_])
        content.insert(place % (len(content) + 1), paragraph)
        self.put(id_, content)

    @precondition(lambda self: self.held)
    @rule(number=places, place=places)
    def drop_paragraph(self, number: int, place: int) -> None:
        id_ = self.choose(number)
        content = list(self.contents[id_])
        if len(content) > 1:
            del content[place % len(content)]
            self.put(id_, content)

    @precondition(lambda self: self.held)
    @rule(number=places, name=st.sampled_from(NAMES))
    def change_title(self, number: int, name: str) -> None:
        id_ = self.choose(number)
        self.put(id_, self.contents[id_], f"Letters of {name}")

    @precondition(lambda self: len(self.held) > 1)
    @rule(number=places)
    def delete(self, number: int) -> None:
        id_ = self.choose(number)
        del self.held[id_]
        job, _ = self.run(self.engine.submit_delete([id_], collection=self.name))
        assert job
        self.finish(job)
        self.forget_readings()
        self.due.clear()  # a deletion may take with it what was handed in and not used yet
        if generation := self.published():
            check_counts(self.hierarchy(generation))

    # --- agents ----------------------------------------------------------------------------

    @precondition(lambda self: self.held)
    @rule(number=places, first=st.sampled_from(NAMES), second=st.sampled_from(NAMES))
    def extract(self, number: int, first: str, second: str) -> None:
        pending = self.run(self.engine.pending_work("extraction", 20, collection=self.name)).items
        if not pending or first == second:
            return
        work = pending[number % len(pending)].work_id
        item = {
            "work_id": work,
            "entities": [
                {"name": name, "type": "person", "description": f"{name} is named by an agent."}
                for name in (first, second)
            ],
            "relations": [
                {
                    "source": first,
                    "target": second,
                    "description": f"{first} is beside {second}.",
                    "importance": 5,
                }
            ],
        }
        done = self.run(self.engine.submit_extractions([item], collection=self.name))
        if done.accepted:
            self.read[work] = item

    @precondition(lambda self: self.published())
    @rule(kind=st.sampled_from(("summary", "summary", "relation", "description")), most=st.integers(1, 4))
    def write(self, kind: WorkKind, most: int) -> None:
        pending = self.run(self.engine.pending_work(kind, most, collection=self.name)).items
        items = [self.answer(kind, each.work_id) for each in pending]
        if items:
            done = self.run(self.engine.submit_summaries(items, replace=True, collection=self.name))
            assert len(done.accepted) == len(items), done.rejected

    def answer(self, kind: WorkKind, work_id: str) -> dict[str, Any]:
        self.written += 1
        label = f"number {self.written}"
        if kind == "description":
            return {"work_id": work_id, "description": f"It is described by an agent as {label}."}
        if kind == "relation":
            return {"work_id": work_id, "sentence": f"The circles trade letters of {label} with each other."}
        description = f"The circle {label} is held together by its letters."
        self.due[work_id] = description
        findings = [
            {"summary": f"They trade {what}.", "explanation": f"Circle {label} has {what}."}
            for what in ("salt", "bread", "iron", "apples", "maps")
        ]
        return {
            "work_id": work_id,
            "name": f"Circle {label}",
            "description": description,
            "findings": findings,
        }

    @precondition(lambda self: self.published())
    @rule(first=places, second=places)
    def merge(self, first: int, second: int) -> None:
        entities = self.base()
        one, other = (entities[each % len(entities)] for each in (first, second)) if entities else ("", "")
        if one != other:
            self.correct(self.engine.merge_entities([one.id, other.id], collection=self.name))

    @precondition(lambda self: self.published())
    @rule(entity=places, document=places)
    def split(self, entity: int, document: int) -> None:
        entities = self.base()
        if entities and self.held:
            one = entities[entity % len(entities)]
            self.correct(
                self.engine.split_entity(
                    one.id, f"{one.name} (other)", [self.choose(document)], collection=self.name
                )
            )

    @precondition(lambda self: self.published())
    @rule(number=places)
    def undo(self, number: int) -> None:
        made = self.run(self.engine.corrections(collection=self.name))
        if made:
            ref = made[number % len(made)].ref
            self.run(self.engine.undo_correction(ref, collection=self.name))

    def correct(self, work: Coroutine[Any, Any, object]) -> None:
        with suppress(InvalidInput):  # the entity is not mentioned there, or bears that name already
            self.run(work)

    def base(self) -> list[Entity]:
        generation = self.published()
        return list(self.hierarchy(generation).layers[0].entities) if generation else []

    # --- builds ----------------------------------------------------------------------------

    def published(self, name: str = "") -> Generation | None:
        held = self.run(self.engine._stores.documents.collection(name or self.name))
        return held.generation if held else None

    def hierarchy(self, generation: Generation) -> Hierarchy:
        return self.run(read_hierarchy(self.engine._stores, generation))

    @precondition(lambda self: self.held)
    @rule(mode=modes)
    def build(self, mode: AskedMode) -> None:
        last = self.published()
        before = self.hierarchy(last) if last else None
        order = BuildRequest(mode=mode)
        result = self.finish(self.run(self.engine.submit_build(collection=self.name, order=order)))
        assert isinstance(result, BuildResult)
        self.builds += 1
        generation = self.published()
        assert generation
        assert generation.record.health
        # Vectors as well in long runs only: see `read_build`. Before a build those of a changed title are old.
        read = self._read_build if LONG else read_hierarchy
        after = self.run(read(self.engine._stores, generation))
        check_hierarchy(after, generation.record.health.cluster_cap)
        check_counts(after)
        chunks = {each.id: each for each in self.chunks(self.name)}
        check_origins(after, chunks)
        if before:
            check_written(before, after, set(chunks), self.due)
        self.due.clear()
        base, anew = after.layers[0], self.merge_anew()
        assert [without_parents(each) for each in base.entities] == list(anew.entities)
        assert base.relations == anew.relations

    def chunks(self, name: str) -> list[Chunk]:
        return self.run(self.engine._stores.documents.all_chunks(name))

    def merge_anew(self) -> Graph:
        """Return G0 of a new collection with the same documents, readings, descriptions and corrections."""
        name = f"anew-{next(self.numbers)}"
        stores = self.engine._stores
        sources = list(self.held.values())
        self.finish(self.run(self.engine.submit_ingest(sources, collection=name, build=False)))
        if self.read:
            items = list(self.read.values())
            done = self.run(self.engine.submit_extractions(items, collection=name))
            assert len(done.accepted) == len(items), done.rejected
        for each in self.run(self.engine.corrections(collection=self.name)):
            self.run(stores.corrections.put(name, replace(each, number=0)))
        descriptions = self.run(stores.replies.texts(self.name, "description"))
        self.run(stores.replies.put_texts(name, "description", descriptions, replace=True))
        held = self.run(stores.documents.collection(name))
        assert held
        work = base_graph(BuildRun(stores, ignore_progress, NO_MODELS, "auto"), held, self.chunks(name))
        return self.run(work).graph

    def teardown(self) -> None:
        if self.held:
            self.build("update")


# --- what must hold ------------------------------------------------------------------------


def without_parents(entity: Entity) -> Entity:
    """The entity as it was merged: the clusters above it may differ."""
    return replace(
        entity, parent_id=None, second_parent_id=None, responsibility=1.0, second_responsibility=0.0
    )


def check_counts(hierarchy: Hierarchy) -> None:
    """Count members, λ, weight and support again, pair by pair."""
    below = {each.id: {each.id} for each in hierarchy.layers[0].entities}
    for lower, upper in pairwise(hierarchy.layers):
        homes = {each.id: each.parent_id for each in lower.entities}
        beneath: dict[str, set[str]] = defaultdict(set)
        for each in lower.entities:
            beneath[each.parent_id or ""] |= below[each.id]
        below = beneath
        assert beneath.keys() == {each.id for each in upper.entities}
        for cluster in upper.entities:
            assert cluster.members == list(homes.values()).count(cluster.id)
            assert cluster.mentions == len(beneath[cluster.id])
        pairs = {}
        for number, near in enumerate(upper.entities):
            for far in upper.entities[number + 1 :]:
                ends = {near.id, far.id}
                joining = [
                    each for each in lower.relations if {homes[each.source_id], homes[each.target_id]} == ends
                ]
                supporting = [
                    each
                    for each in hierarchy.layers[0].relations
                    if is_between(each, beneath[near.id], beneath[far.id])
                ]
                if joining:
                    weight = sum(each.weight for each in supporting)
                    pairs[frozenset(ends)] = (len(joining), weight, len(supporting))
        found = {
            frozenset((each.source_id, each.target_id)): (each.strength, each.weight, each.support)
            for each in upper.relations
        }
        assert found == pairs
        assert len(found) == len(upper.relations)


def is_between(relation: Relation, near: set[str], far: set[str]) -> bool:
    ends = relation.source_id, relation.target_id
    return (ends[0] in near and ends[1] in far) or (ends[0] in far and ends[1] in near)


def check_origins(hierarchy: Hierarchy, chunks: dict[str, Chunk]) -> None:
    """Every chunk that is named exists, and those of G0 say what rests on them."""
    for layer in hierarchy.layers:
        for each in (*layer.entities, *layer.relations):
            for origin in each.evidence:
                assert origin.chunk_id in chunks
                assert 0 <= origin.start < origin.end <= len(each.description)
            assert chunks.keys() >= set(each.chunk_ids)
        for cluster in layer.entities:
            for finding in cluster.findings:
                assert chunks.keys() >= set(finding.chunk_ids)
    for item in (*hierarchy.layers[0].entities, *hierarchy.layers[0].relations):
        assert item.chunk_ids
        assert {origin.chunk_id for origin in item.evidence} <= set(item.chunk_ids)
        for origin in item.evidence:
            said = re.sub(r"\s+", " ", chunks[origin.chunk_id].indexed_text)
            part = item.description[origin.start : origin.end]
            for start, end in sentences(part):
                sentence = part[start:end]
                assert sentence in said or "by an agent" in sentence or " is beside " in sentence


def base_beneath(hierarchy: Hierarchy, layer: int) -> dict[str, frozenset[str]]:
    below = {each.id: frozenset([each.id]) for each in hierarchy.layers[0].entities}
    for lower in hierarchy.layers[:layer]:
        above: dict[str, set[str]] = defaultdict(set)
        for each in lower.entities:
            above[each.parent_id or ""] |= below[each.id]
        below = {id_: frozenset(ids) for id_, ids in above.items()}
    return below


def check_written(before: Hierarchy, after: Hierarchy, chunk_ids: set[str], due: Mapping[str, str]) -> None:
    """What was written stays with the cluster that has most of the same base entities, or the newest text counts.

    ``due`` are descriptions that agents wrote meanwhile. Texts that rest on chunks that are gone may have been cut.
    """
    for number in range(1, min(len(before.layers), len(after.layers))):
        heirs = find_heirs(before, after, number)
        for cluster in before.layers[number].entities:
            heir = heirs.get(cluster.id)
            if heir is None or not is_whole(cluster, chunk_ids):
                continue
            if text := due.get(cluster.id):
                assert (heir.method, heir.description) == (Method.AGENT, text)
            elif cluster.method.written:
                assert heir.method.written, f"{cluster.name} was replaced by {heir.name}"
                if heir.description == cluster.description and number == 1:
                    check_staleness(before, after, cluster, heir)
        now = {frozenset((each.source_id, each.target_id)): each for each in after.layers[number].relations}
        for relation in before.layers[number].relations:
            if relation.method.written and is_whole(relation, chunk_ids):
                ends = [heirs.get(end) for end in (relation.source_id, relation.target_id)]
                left = now.get(frozenset(each.id for each in ends if each))
                assert left is None or left.method.written, relation.description


def find_heirs(before: Hierarchy, after: Hierarchy, layer: int) -> dict[str, Entity]:
    """Return for clusters of a layer the one that shares most base entities of all that either has."""
    old, new = base_beneath(before, layer), base_beneath(after, layer)
    now = {each.id: each for each in after.layers[layer].entities}
    pairs = product(old.items(), new.items())
    return {one: now[other] for (one, had), (other, has) in pairs if 2 * len(had & has) > len(had | has)}


def is_whole(item: Entity | Relation, chunk_ids: set[str]) -> bool:
    return all(each.chunk_id in chunk_ids for each in item.evidence)


def check_staleness(before: Hierarchy, after: Hierarchy, cluster: Entity, heir: Entity) -> None:
    """Count again what changed beneath a text; it may be stale no more where its members are those of an earlier day."""
    old, new = (members_of(*each) for each in ((before, cluster), (after, heir)))
    changed = sum(new[id_] != old[id_] for id_ in old.keys() & new.keys())
    change = Staleness(len(new.keys() - old.keys()), len(old.keys() - new.keys()), changed)
    assert heir.stale in (change.since(cluster.stale), None)
    if heir.stale is None:
        assert not change.total or cluster.stale


def members_of(
    hierarchy: Hierarchy, cluster: Entity
) -> dict[str, tuple[str, str, frozenset[tuple[str, str]]]]:
    """Return what is said of the members of a cluster of layer 1: names, descriptions, and their relations."""
    said: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for each in hierarchy.layers[0].relations:
        for end in (each.source_id, each.target_id):
            said[end].add((each.id, each.description))
    return {
        each.id: (each.name, each.description, frozenset(said[each.id]))
        for each in hierarchy.layers[0].entities
        if each.parent_id == cluster.id
    }


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BlockingPortal, LeanRAG]]:
    chosen = load_settings(
        data_dir=tmp_path_factory.mktemp("changes"),
        embedder="fitted",
        cluster_size=4,
        tau=0,
        chunk_tokens=32,
        chunk_overlap=8,
    )
    with start_blocking_portal() as portal:
        engine = portal.call(LeanRAG.open, chosen)
        yield portal, engine
        portal.call(engine.close)


def test_after_any_sequence_of_changes_g0_is_that_of_a_build_from_nothing(
    place: tuple[BlockingPortal, LeanRAG], read_build: ReadBuild
) -> None:
    run_state_machine_as_test(
        lambda: Changes(*place, read_build),
        settings=settings(
            max_examples=SEQUENCES,
            stateful_step_count=12,
            derandomize=not LONG,
            database=None,
            # Each step is a job: shrinking would take an hour. The printed steps are a test of their own.
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
