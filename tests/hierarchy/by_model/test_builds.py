"""Whole builds with a model, with agents and with both: what is asked, what becomes of it, and what is not asked."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import anyio
import anyio.lowlevel
import numpy as np
import pytest

from leanrag_engine.adapters.chat.model import LiteLLMChatModel
from leanrag_engine.core.errors import Cancelled, CapReached, InvalidInput, LeanRAGError, ModelUnavailable
from leanrag_engine.core.graphs.graph import Graph, Hierarchy
from leanrag_engine.core.model import Method, content_id
from leanrag_engine.core.ports import ChatRequest, Embedder, FinishReason, Progress, Reply
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.hierarchy.build import BuiltHierarchy, HierarchyOptions, build
from leanrag_engine.hierarchy.by_model import write as writing
from leanrag_engine.hierarchy.by_model.prompt_lines import DEFAULT
from leanrag_engine.hierarchy.by_model.summaries import aggregation_task
from leanrag_engine.hierarchy.by_model.write import TextSources
from leanrag_engine.hierarchy.health import count_methods
from leanrag_engine.llm.batching import ModelWork

Maker = Callable[..., tuple[Graph, Embedder]]
Item = Mapping[str, Any] | None
CALL_TOKENS = DEFAULT.call_tokens
PLAN = HierarchyOptions(cluster_size=5, cap=8, tau=1)


def silent(_: Progress) -> None:
    pass


def parts(text: str) -> list[str]:
    """What is shown of each task of a request, without what was wrong with the last answer."""
    shown = text.partition("\nYour last answer")[0]
    return [part.strip() for part in re.split(r"^## Task \d+$", shown, flags=re.MULTILINE)[1:]]


def summary_of(part: str) -> dict[str, Any]:
    """A good summary that depends on nothing but what was shown."""
    mark = content_id("", part)
    return {
        "name": f"Group {mark}",
        "description": f"This group is marked {mark} and holds what was shown of it.",
        "findings": [{"summary": f"Point {n}.", "explanation": f"So says {mark} at {n}."} for n in range(5)],
    }


def sentence_of(part: str) -> dict[str, Any]:
    return {"sentence": f"the one depends on the other as is shown by {content_id('', part)}."}


def good(step: str, part: str) -> Item:
    return summary_of(part) if step == "summary" else sentence_of(part)


class Scribe:
    """A chat model in memory: ``answer`` writes each task, ``delay`` says how often others get their turn before."""

    name = "scribe"
    price = None

    def __init__(
        self,
        answer: Callable[[str, str], Item] = good,
        *,
        delay: Callable[[], int] = lambda: 0,
        concurrency: int = 4,
    ) -> None:
        self.answer, self.delay, self.concurrency = answer, delay, concurrency
        self.asked: list[ChatRequest] = []
        self.most_at_once = self._now = 0

    async def complete(self, request: ChatRequest) -> Reply:
        self.asked.append(request)
        self._now += 1
        self.most_at_once = max(self._now, self.most_at_once)
        for _ in range(self.delay()):
            await anyio.lowlevel.checkpoint()
        await self.wait(request)
        self._now -= 1
        shown = parts(request.messages[1].text)
        answers = [(number, self.answer(request.step, part)) for number, part in enumerate(shown, 1)]
        items = [{"task": number, **item} for number, item in answers if item is not None]
        return Reply(json.dumps({"items": items}), FinishReason.STOP, 10, 5)

    async def wait(self, request: ChatRequest) -> None:
        """Nothing to wait for."""

    async def close(self) -> None:
        """Nothing is open."""

    @property
    def prompts(self) -> Counter[str]:
        return Counter(request.messages[1].text for request in self.asked)

    def shown(self, step: str) -> list[str]:
        return [part for each in self.asked if each.step == step for part in parts(each.messages[1].text)]


def build_case(
    case: tuple[Graph, Embedder],
    model: Any = None,
    *,
    plan: HierarchyOptions = PLAN,
    batch: int = 3,
    summaries: Mapping[str, Mapping[str, Any]] | None = None,
) -> tuple[BuiltHierarchy, ModelWork | None]:
    work = None if model is None else ModelWork(model, batch)

    async def run() -> BuiltHierarchy:
        with anyio.fail_after(60):  # a dead end is an error, not an endless test
            return await build(*case, plan, progress=silent, sources=TextSources(work, summaries or {}))

    return anyio.run(run), work


def same(one: BuiltHierarchy, other: BuiltHierarchy) -> bool:
    rows = zip(one.vectors, other.vectors, strict=True)
    return one.hierarchy == other.hierarchy and all(a.tobytes() == b.tobytes() for a, b in rows)


def aggregates(built: BuiltHierarchy) -> list[Any]:
    return [entity for layer in built.hierarchy.layers[1:] for entity in layer.entities]


def aggregated_relations(built: BuiltHierarchy) -> list[Any]:
    return [relation for layer in built.hierarchy.layers[1:] for relation in layer.relations]


@pytest.fixture
def case(random_case: Maker) -> tuple[Graph, Embedder]:
    return random_case(130, kind="clustered", density=3.0, seed=1)


# --- a model -------------------------------------------------------------------------------


def test_a_model_writes_every_aggregate_and_every_relation_above_the_threshold(
    case: tuple[Graph, Embedder],
) -> None:
    model = Scribe()
    built, work = build_case(case, model)
    assert work
    assert len(built.hierarchy.layers) > 3
    for entity in aggregates(built):
        assert entity.method is Method.MODEL
        assert entity.name.startswith("Group ")
        assert len(entity.findings) == 5
    for one in aggregated_relations(built):
        assert one.method is (Method.MODEL if one.strength > 1 else Method.JOINED)
        assert one.description.startswith("the one depends") == (one.strength > 1)
    assert len(model.shown("summary")) == len(aggregates(built))
    assert len(model.shown("relation")) == sum(one.strength > 1 for one in aggregated_relations(built))
    assert work.meter.calls == len(model.asked)
    assert not work.fallbacks


def test_written_summaries_replace_only_texts(case: tuple[Graph, Embedder]) -> None:
    """The layers above may differ, for they are clustered by what was written; the first may not."""
    plain, _ = build_case(case)
    built, _ = build_case(case, Scribe())
    for before, after in zip(
        plain.hierarchy.layers[1].relations, built.hierarchy.layers[1].relations, strict=True
    ):
        assert (before.id, before.source_id, before.strength, before.weight, before.support) == (
            *(after.id, after.source_id, after.strength, after.weight, after.support),
        )
        if after.method is Method.MODEL:
            assert [(part.start, part.end) for part in after.evidence] == [(0, len(after.description))] * len(
                before.evidence[:1]
            )
    pairs = zip(plain.hierarchy.layers[1].entities, built.hierarchy.layers[1].entities, strict=True)
    assert all(
        (one.id, one.mentions, one.members) == (new.id, new.mentions, new.members) for one, new in pairs
    )


def test_tasks_of_a_layer_show_the_written_texts_of_the_layer_below(case: tuple[Graph, Embedder]) -> None:
    model = Scribe()
    built, _ = build_case(case, model)
    summaries = {content_id("", part): part for part in model.shown("summary")}
    sentences = {one.description for one in aggregated_relations(built)}
    for lower, upper in pairwise(built.hierarchy.layers[1:]):
        for cluster in upper.entities:
            part = summaries[cluster.name.removeprefix("Group ")]
            members = {each.id: each for each in lower.entities if each.parent_id == cluster.id}
            assert all(f"- {each.name}: {each.description}" in part for each in members.values())
            inner = [each for each in lower.relations if {each.source_id, each.target_id} <= members.keys()]
            assert all(
                each.description in part and each.description in sentences
                for each in inner
                if each.method is Method.MODEL
            )


def test_joined_texts_quote_the_written_sentences_beneath_even_late_ones(random_case: Maker) -> None:
    """At τ = 1 a joined relation has one relation beneath, so that its text must hold that one's."""
    late = Scribe(delay=lambda: 40)
    built, _ = build_case(random_case(800, kind="clustered", density=1.0, seed=1), late)
    lower, upper = built.hierarchy.layers[1:3]
    parent = {each.id: each.parent_id for each in lower.entities}
    beneath = {frozenset((parent[one.source_id], parent[one.target_id])): one for one in lower.relations}
    joined = [one for one in upper.relations if one.method is Method.JOINED]
    written = [
        (one, found)
        for one in joined
        if (found := beneath[frozenset((one.source_id, one.target_id))]).method is Method.MODEL
    ]
    assert len(written) > 3
    assert all(found.description in one.description for one, found in written)


@pytest.mark.parametrize("batch", [1, 4])
def test_the_order_of_replies_changes_nothing(case: tuple[Graph, Embedder], batch: int) -> None:
    first_model = Scribe()
    first, _ = build_case(case, first_model, batch=batch)
    for seed in (1, 3):
        drawn = np.random.default_rng(seed)
        model = Scribe(delay=lambda drawn=drawn: drawn.integers(60), concurrency=1 + 3 * seed)
        built, _ = build_case(case, model, batch=batch)
        assert same(built, first)
        assert model.prompts == first_model.prompts
        assert model.most_at_once <= model.concurrency


@pytest.mark.parametrize("step", ["summary", "relation"])
def test_a_slow_call_holds_up_no_other_of_its_step_and_layer(case: tuple[Graph, Embedder], step: str) -> None:
    usual = Scribe()
    first, _ = build_case(case, usual, batch=1)
    slow = next(each for each in usual.asked if each.step == step)
    # The calls of G1 come first, and G1 is the largest layer.
    count = len(first.hierarchy.layers[1].entities)
    if step == "relation":
        count = sum(one.strength > 1 for one in first.hierarchy.layers[1].relations)
    others = {each.messages[1].text for each in [each for each in usual.asked if each.step == step][:count]}

    class Straggler(Scribe):
        async def wait(self, request: ChatRequest) -> None:
            if request == slow:
                while not others <= self.prompts.keys():
                    await anyio.sleep(0.002)

    assert len(others) == count > 5
    assert same(build_case(case, Straggler(), batch=1)[0], first)


def test_several_small_clusters_and_several_pairs_share_a_call(case: tuple[Graph, Embedder]) -> None:
    counts = {}
    for batch in (1, 4):
        model = Scribe()
        build_case(case, model, batch=batch)
        counts[batch] = Counter(request.step for request in model.asked)
        assert all(len(parts(each.messages[1].text)) <= batch for each in model.asked)
        for each in model.asked:
            if each.step == "summary" and len(parts(each.messages[1].text)) > 1:
                assert len(each.messages[1].text) < 4.2 * CALL_TOKENS
    assert counts[4]["summary"] < 0.4 * counts[1]["summary"]
    assert counts[4]["relation"] < 0.4 * counts[1]["relation"]


def test_large_clusters_have_a_call_of_their_own(random_case: Maker) -> None:
    graph, embedder = random_case(130, kind="clustered", seed=1)
    words = [f"{'many ' * 80}words make number {number}." for number in range(130)]
    long = [replace(each, description=text) for each, text in zip(graph.entities, words, strict=True)]
    model = Scribe()
    built, _ = build_case((Graph(tuple(long), ()), embedder), model, batch=8)
    lowest = [parts(each.messages[1].text) for each in model.asked if "many" in each.messages[1].text]
    assert sum(map(len, lowest)) == len(built.hierarchy.layers[1].entities)
    for found in lowest:
        assert len(found) == 1 or sum(map(len, found)) < 4.2 * CALL_TOKENS
    assert len(lowest) > 5


# --- what goes wrong -----------------------------------------------------------------------


@pytest.mark.parametrize("problem", [ModelUnavailable("Nobody is there."), CapReached("That is all.")])
def test_a_model_that_fails_at_every_call_leaves_exactly_the_heuristic_hierarchy(
    case: tuple[Graph, Embedder], problem: LeanRAGError
) -> None:
    class Nobody(Scribe):
        async def wait(self, _: ChatRequest) -> None:
            raise problem

    model = Nobody()
    built, work = build_case(case, model)
    plain, _ = build_case(case)
    assert same(built, plain)
    assert built.health == plain.health
    assert work
    assert work.fallbacks["summary"].total() == len(aggregates(built))
    assert work.fallbacks["relation"].total() == sum(one.strength > 1 for one in aggregated_relations(built))
    assert work.fallbacks["summary"] == {problem.message: len(aggregates(built))}
    assert work.meter.calls == 0


def test_one_bad_answer_does_not_affect_the_others_of_its_call(case: tuple[Graph, Embedder]) -> None:
    bad: dict[str, Item] = {}

    def answer(step: str, part: str) -> Item:
        if content_id("", part)[-1] in "abcdef":
            return bad.setdefault(part, {"name": 5, "sentence": "No"} if len(bad) % 2 else None)
        return good(step, part)

    built, work = build_case(case, Scribe(answer), batch=4)
    assert work
    heuristic = [each for each in aggregates(built) if each.method is Method.HEURISTIC]
    assert 0 < len(heuristic) < len(aggregates(built)) / 2
    assert work.fallbacks["summary"].total() == len(heuristic)
    assert sum(each.total() for each in work.fallbacks.values()) == len(bad)
    texts = [one for one in aggregated_relations(built) if one.strength > 1]
    assert work.fallbacks["relation"].total() == sum(one.method is Method.HEURISTIC for one in texts)


def test_a_name_that_is_a_member_s_is_asked_for_once_more(case: tuple[Graph, Embedder]) -> None:
    first_of = re.compile(r"^- (.+?)(?: \(.*?\))?(?:: .*)?$", re.MULTILINE)
    asked: Counter[str] = Counter()

    def answer(step: str, part: str) -> Item:
        if step != "summary":
            return good(step, part)
        asked[part] += 1
        found = first_of.search(part)
        assert found
        stubborn = content_id("", part)[-1] in "abcdef"
        return {**summary_of(part), "name": found[1]} if asked[part] == 1 or stubborn else summary_of(part)

    built, work = build_case(case, Scribe(answer))
    assert work
    methods = Counter(each.method for each in aggregates(built))
    assert set(asked.values()) == {2}
    assert methods[Method.MODEL]
    assert work.fallbacks["summary"].total() == methods[Method.HEURISTIC] > 0
    assert all("that of a member" in reason for reason in work.fallbacks["summary"])


def test_written_names_are_unique_among_siblings_and_layers(case: tuple[Graph, Embedder]) -> None:
    graph, _ = case
    below = graph.entities[0].name

    def answer(step: str, part: str) -> Item:
        name = "All the same" if content_id("", part)[-1] < "m" else below
        item = good(step, part)
        return {**item, "name": name} if item and step == "summary" and f"- {below}" not in part else item

    built, _ = build_case(case, Scribe(answer))
    base = {name_key(each.name) for each in graph.entities}
    keys = [name_key(each.name) for each in aggregates(built)]
    assert len(set(keys)) == len(keys)
    assert not base & set(keys)
    alike = [each.name for each in aggregates(built) if each.name.startswith(("All the same", below))]
    assert len(alike) > 10
    assert "All the same" in alike
    assert sum("(" in name for name in alike) == len(alike) - 1


def test_a_model_that_takes_no_request_at_all_ends_the_build_with_its_own_error(
    case: tuple[Graph, Embedder],
) -> None:
    class Locked(Scribe):
        async def wait(self, _: ChatRequest) -> None:
            raise InvalidInput("The key is wrong.", "Give another.")

    with pytest.raises(InvalidInput, match="key is wrong"):
        build_case(case, Locked())


def test_a_build_can_be_cancelled_while_the_model_does_not_answer(
    case: tuple[Graph, Embedder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "BEAT", 0.01)

    class Silent(Scribe):
        async def wait(self, _: ChatRequest) -> None:
            await anyio.sleep_forever()

    def progress(at: Progress) -> None:
        if at.stage == "summarise":
            raise Cancelled("Stopped by the test.")

    async def run() -> None:
        await build(*case, PLAN, progress=progress, sources=TextSources(ModelWork(Silent())))

    with pytest.raises(Cancelled):
        anyio.run(run)


# --- agents --------------------------------------------------------------------------------


def summaries_of(hierarchy: Hierarchy, layers: Iterable[int]) -> dict[str, dict[str, Any]]:
    """What an agent writes who is shown a published build, in whatever order its store gives things."""
    found = {}
    drawn = np.random.default_rng(5)
    for number in layers:
        lower, upper = hierarchy.layers[number - 1], hierarchy.layers[number]
        for cluster in upper.entities:
            members = [each for each in lower.entities if each.parent_id == cluster.id]
            ids = {each.id for each in members}
            inner = [each for each in lower.relations if {each.source_id, each.target_id} <= ids]
            task = aggregation_task(
                [members[place] for place in drawn.permutation(len(members))],
                [inner[place] for place in drawn.permutation(len(inner))],
            )
            found[task.id] = {**summary_of(task.text), "name": f"By hand {task.id}", "cluster": cluster.id}
    return found


def test_summaries_that_an_agent_wrote_are_in_the_next_build(case: tuple[Graph, Embedder]) -> None:
    built, _ = build_case(case)
    given: dict[str, dict[str, Any]] = {}
    for layer in range(1, len(built.hierarchy.layers)):
        given |= summaries_of(built.hierarchy, [layer])
        built, _ = build_case(case, summaries=given)
        assert {each.method for each in built.hierarchy.layers[layer].entities} == {Method.AGENT}
        assert {each.name for each in built.hierarchy.layers[layer].entities} <= {
            each["name"] for each in given.values()
        }
    assert {one.method for one in aggregated_relations(built)} == {Method.HEURISTIC, Method.JOINED}
    assert same(build_case(case, summaries=given)[0], built)


def test_summaries_that_an_agent_wrote_are_not_asked_of_the_model(case: tuple[Graph, Embedder]) -> None:
    plain, _ = build_case(case)
    written = summaries_of(plain.hierarchy, [1])
    given = dict(list(written.items())[::2])
    model = Scribe()
    built, _ = build_case(case, model, summaries=given)
    methods = Counter(each.method for each in built.hierarchy.layers[1].entities)
    assert methods == {Method.AGENT: len(given), Method.MODEL: len(written) - len(given)}
    assert len(model.shown("summary")) == len(aggregates(built)) - len(given)


def test_an_agents_summary_that_is_no_longer_valid_is_written_by_the_model(
    case: tuple[Graph, Embedder],
) -> None:
    plain, _ = build_case(case)
    spoilt = {id_: {**each, "name": ""} for id_, each in summaries_of(plain.hierarchy, [1]).items()}
    assert {each.method for each in aggregates(build_case(case, Scribe(), summaries=spoilt)[0])} == {
        Method.MODEL
    }
    assert same(build_case(case, summaries=spoilt)[0], plain)


# --- figures -------------------------------------------------------------------------------


def test_the_methods_of_each_layer_are_counted(case: tuple[Graph, Embedder]) -> None:
    built, _ = build_case(case, Scribe(lambda step, part: good(step, part) if step == "summary" else None))
    counted = count_methods(built.hierarchy)
    assert [each.layer for each in counted] == list(range(len(built.hierarchy.layers)))
    extracted = built.hierarchy.layers[0].entities
    assert counted[0].entities == Counter(each.method.value for each in extracted)
    for layer, each in zip(built.hierarchy.layers[1:], counted[1:], strict=True):
        assert each.entities == {"model": len(layer.entities)}
        strong = sum(one.strength > 1 for one in layer.relations)
        expected = {"heuristic": strong, "joined": len(layer.relations) - strong}
        assert each.relations == {method: count for method, count in expected.items() if count}


# --- over the wire -------------------------------------------------------------------------


def over_http(server: Any, case: tuple[Graph, Embedder]) -> tuple[BuiltHierarchy, ModelWork]:
    async def nap(_: float) -> None:
        await anyio.lowlevel.checkpoint()

    async def run() -> tuple[BuiltHierarchy, ModelWork]:
        model = await LiteLLMChatModel.open("openai/test", api_base=server.url, sleep=nap)
        work = ModelWork(model, 3)
        try:
            return await build(*case, PLAN, progress=silent, sources=TextSources(work)), work
        finally:
            await model.close()

    return anyio.run(run)


@pytest.fixture
def small(random_case: Maker) -> tuple[Graph, Embedder]:
    return random_case(40, kind="clustered", density=3.0, seed=2)


def by_step(request: Any, write: Callable[[str, str], Item] = good) -> str:
    step = "relation" if "First group:" in request.prompt else "summary"
    items = [
        {"task": n, **item}
        for n, part in enumerate(parts(request.body["messages"][1]["content"]), 1)
        if (item := write(step, part)) is not None
    ]
    return json.dumps({"items": items})


def test_a_real_service_writes_a_hierarchy(chat_server: Any, small: tuple[Graph, Embedder]) -> None:
    chat_server.follows(by_step)
    built, work = over_http(chat_server, small)
    assert {each.method for each in aggregates(built)} == {Method.MODEL}
    assert {one.method for one in aggregated_relations(built) if one.strength > 1} == {Method.MODEL}
    assert work.meter.calls == chat_server.calls
    assert same(built, build_case(small, Scribe())[0])
    systems = {request.body["messages"][0]["content"] for request in chat_server.requests}
    assert len(systems) == 2


@pytest.mark.parametrize("kind", ["cut off", "refused", "prose", "wrong types", "empty", "failing"])
def test_a_service_with_only_unusable_replies_leaves_the_heuristic_hierarchy(
    chat_server: Any, small: tuple[Graph, Embedder], kind: str
) -> None:
    answers = {
        "cut off": chat_server.cut_off('{"items": [{"task": 1, "name": "Half a'),
        "refused": chat_server.refused(),
        "prose": "I have read the groups with interest. They are about harbours.",
        "wrong types": '{"items": [{"task": 1, "name": ["a"], "description": 4, "findings": "x", "sentence": {}}]}',
        "empty": "",
        "failing": chat_server.failed(500),
    }
    chat_server.says(answers[kind])
    built, work = over_http(chat_server, small)
    assert same(built, build_case(small)[0])
    assert work.fallbacks["summary"].total() == len(aggregates(built))
