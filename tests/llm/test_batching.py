"""One request, one second chance, and what it all used; answers with checked citations."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from leanrag_engine.core.errors import (
    Cancelled,
    CapReached,
    InvalidInput,
    LeanRAGError,
    ModelUnavailable,
    ReplyUnusable,
    StoreUnusable,
)
from leanrag_engine.core.model import Context
from leanrag_engine.core.ports import ChatRequest, FinishReason, Message, Reply
from leanrag_engine.llm.answering import Answer, Answerer, answer
from leanrag_engine.llm.batching import (
    Meter,
    Task,
    TaskKind,
    ask,
    ask_each,
    batch_request,
    for_each,
    read_object,
)

pytestmark = pytest.mark.anyio

REQUEST = ChatRequest((Message("user", "How many?"),), max_tokens=100, temperature=0.3, seed=4)


class Parrot:
    """A chat model that says what it is given, and keeps what it was asked."""

    name = "parrot"
    concurrency = 1
    price = None

    def __init__(self, *replies: Reply | str) -> None:
        self.replies = [
            each if isinstance(each, Reply) else Reply(each, FinishReason.STOP, 10, 2, cost=0.5)
            for each in replies
        ]
        self.asked: list[ChatRequest] = []

    async def complete(self, request: ChatRequest) -> Reply:
        self.asked.append(request)
        return self.replies[len(self.asked) - 1]

    async def close(self) -> None:
        """Nothing is open."""


def number(text: str) -> int:
    if not text.isdigit():
        raise ReplyUnusable(f"{text} is no number.")
    return int(text)


async def test_a_good_reply_is_asked_for_once() -> None:
    model, meter = Parrot("42"), Meter()
    assert await ask(model, REQUEST, number, meter) == 42
    assert model.asked == [REQUEST]
    assert meter == Meter(calls=1, prompt_tokens=10, completion_tokens=2, cost=0.5)


async def test_a_bad_reply_is_quoted_back_with_its_fault() -> None:
    model, meter = Parrot("many", "42"), Meter()
    assert await ask(model, REQUEST, number, meter) == 42
    first, said, note = model.asked[1].messages
    assert first == REQUEST.messages[0]
    assert said == Message("assistant", "many")
    assert note.role == "user"
    assert "many is no number." in note.text
    assert (model.asked[1].max_tokens, model.asked[1].seed) == (100, 4)
    assert meter.calls == 2


async def test_two_bad_replies_are_the_caller_s_affair_and_are_counted() -> None:
    meter = Meter()
    with pytest.raises(ReplyUnusable, match="a lot is no number"):
        await ask(Parrot("many", "a lot"), REQUEST, number, meter)
    assert (meter.calls, meter.cost) == (2, 1.0)


async def test_a_reply_that_was_cut_off_gets_more_room() -> None:
    model = Parrot(Reply("4", FinishReason.LENGTH, 10, 100), "42")
    assert await ask(model, REQUEST, number, Meter()) == 42
    assert model.asked[1].max_tokens == 200


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply("4", FinishReason.LENGTH, 1, 100), "cut off after 100 tokens"),
        (Reply("Not that.", FinishReason.REFUSAL, 1, 1), 'refused: "Not that."'),
        (Reply("", FinishReason.REFUSAL, 1, 1), "refused"),
        (Reply(" ", FinishReason.EMPTY, 1, 1), "empty"),
        (Reply("<think>hm</think> ", FinishReason.STOP, 1, 1), "empty"),
    ],
)
async def test_what_is_not_whole_is_never_read(reply: Reply, said: str) -> None:
    model = Parrot(reply, reply)
    with pytest.raises(ReplyUnusable, match=said):
        await ask(model, REQUEST, str, Meter())
    # No service takes a turn that says nothing.
    assert all(message.text.strip() for message in model.asked[1].messages)


async def test_unpriced_replies_are_counted_apart() -> None:
    meter = Meter()
    await ask(Parrot(Reply("1", FinishReason.STOP, 1, 1, cost=None)), REQUEST, number, meter)
    assert (meter.cost, meter.unpriced) == (0.0, 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1}', 1),
        ('Sure:\n```json\n{"a": 1,}\n```', 1),
        ("{'a': True, }", True),
        ('{"a": "he said "no" to it"}', 'he said "no" to it'),
        ('{"a": 1} then {"a": 2}', 2),
    ],
)
def test_an_object_is_read_tolerantly(text: str, expected: Any) -> None:
    assert read_object(text) == {"a": expected}


@pytest.mark.parametrize("text", ["none at all", '["a", "b"]', "42", ""])
def test_what_holds_no_object_is_refused_and_shown(text: str) -> None:
    with pytest.raises(ReplyUnusable) as caught:
        read_object(text)
    assert f'it is "{text}"' in caught.value.message


async def test_an_answer_s_citations_are_sorted_by_whether_its_context_has_them() -> None:
    context = Context("[d1:c1] One.\n[d1:c12] Two.", 9, truncated=False, cited=("d1:c1", "d1:c12"))
    text = "One [d1:c12][d1:c1, d7:c1]. Two [d1:c12]. Section d2 says no, (d9:c3) too."
    found = await answer(Answerer(Parrot(text)), "Which?", context)
    assert found == Answer(text, cited=("d1:c12", "d1:c1"), unfounded=("d7:c1", "d9:c3"))


@pytest.mark.parametrize(
    ("text", "shown", "sufficient"),
    [
        ("It is one [d1:c1].", "It is one [d1:c1].", True),
        ("INSUFFICIENT. The evidence does not say when.", "The evidence does not say when.", False),
        ("**Insufficient**\n\nNobody says when [d1:c1].", "Nobody says when [d1:c1].", False),
        ("It is one.", "It is one.", False),
        ("It is one [d7:c1].", "It is one [d7:c1].", False),
        ("Insufficiently known is what [d1:c1] says.", "Insufficiently known is what [d1:c1] says.", True),
    ],
)
async def test_an_answer_is_sufficient_if_it_says_so_and_its_citations_bear_it_out(
    text: str, shown: str, sufficient: bool
) -> None:
    context = Context("[d1:c1] One.", 9, truncated=False, cited=("d1:c1",))
    found = await answer(Answerer(Parrot(text)), "Which one?", context)
    assert (found.text, found.sufficient) == (shown, sufficient)


async def test_an_answer_that_is_nothing_but_the_word_is_asked_for_again() -> None:
    context = Context("[d1:c1] One.", 9, truncated=False, cited=("d1:c1",))
    model = Parrot("INSUFFICIENT", "INSUFFICIENT: the year is missing.")
    assert (await answer(Answerer(model), "When?", context)).text == "the year is missing."


# --- many tasks ----------------------------------------------------------------------------

DUTY = TaskKind(
    "spelling",
    "Say yes.",
    {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
    room=40,
)


def task(name: str, *chunk_ids: str) -> Task[str]:
    def read(item: Any) -> str:
        if item.get("word") != "yes":
            raise ReplyUnusable(f"{item.get('word')} is not yes.")
        return f"{name}: yes"

    return Task(name, f"Say yes to {name}.", read, chunk_ids)


PAIR = [task("a"), task("b")]


@pytest.mark.parametrize(
    "reply",
    [
        '{"items": [{"task": 1, "word": "yes"}, {"task": 2, "word": "yes"}]}',
        '{"items": [{"task": 2, "word": "yes"}, {"task": 1, "word": "yes"}]}',
        '{"items": [{"task": "1", "word": "yes"}, {"task": "2", "word": "yes"}]}',
        '{"items": [{"word": "yes"}, {"word": "yes"}]}',
        '{"items": [{"task": 0, "word": "yes"}, {"task": null, "word": "yes"}]}',
        '{"items": [{"task": Infinity, "word": "yes"}, {"task": NaN, "word": "yes"}]}',
        '{"items": [{"task": 1e999, "word": "yes"}, {"task": true, "word": "yes"}]}',
        '[{"task": 1, "word": "yes"}, {"task": 2, "word": "yes"}]',
        '{"items": [{"task": 1, "word": "yes"}, {"task": 2, "word": "yes"}, {"task": 3, "word": "no"}]}',
        '{"items": [{"task": 1, "word": "yes"}, "and", {"task": 2, "word": "yes"}]}',
    ],
)
async def test_each_task_gets_its_own_answer(reply: str) -> None:
    model = Parrot(reply)
    assert await ask_each(model, DUTY, PAIR, Meter()) == ["a: yes", "b: yes"]
    assert len(model.asked) == 1


async def test_of_two_answers_to_one_task_the_first_counts() -> None:
    reply = '{"items": [{"task": 1, "word": "yes"}, {"task": 1, "word": "no"}, {"task": 2, "word": "yes"}]}'
    assert await ask_each(Parrot(reply), DUTY, PAIR, Meter()) == ["a: yes", "b: yes"]


async def test_only_those_without_an_answer_are_asked_once_more_with_the_reason() -> None:
    model = Parrot(
        '{"items": [{"task": 1, "word": "yes"}, {"task": 2, "word": "maybe"}]}',
        '{"items": [{"task": 1, "word": "yes"}]}',
    )
    tasks = [task("a", "c1"), task("b", "c2"), task("c", "c3")]
    found = await ask_each(model, DUTY, tasks, Meter())
    assert found[:2] == ["a: yes", "b: yes"]
    assert isinstance(found[2], ReplyUnusable)
    again = model.asked[1]
    assert "Task 1: maybe is not yes." in again.messages[-1].text
    assert "Task 2: The reply has no answer for this task." in again.messages[-1].text
    assert "Say yes to a." not in again.messages[-1].text
    assert (again.max_tokens, again.chunk_ids, again.step) == (80, ("c2", "c3"), "spelling")


async def test_of_a_reply_that_was_cut_off_all_but_the_last_answer_is_used_and_the_rest_gets_more_room() -> (
    None
):
    cut = '{"items": [{"task": 1, "word": "yes"}, {"task": 2, "word": "ye'
    model = Parrot(Reply(cut, FinishReason.LENGTH, 10, 80), '{"items": [{"task": 1, "word": "yes"}]}')
    assert await ask_each(model, DUTY, PAIR, Meter()) == ["a: yes", "b: yes"]
    assert [each.max_tokens for each in model.asked] == [80, 80]  # two tasks, then one with twice the room


def test_a_request_names_all_its_chunks_or_none() -> None:
    known = [task("a", "c1", "c2"), task("b", "c2", "c3")]
    assert batch_request(DUTY, known).chunk_ids == ("c1", "c2", "c3")
    assert batch_request(DUTY, [*known, task("c")]).chunk_ids == ()


class Failing(Parrot):
    """Raises what it is given."""

    def __init__(self, problem: LeanRAGError) -> None:
        super().__init__()
        self.problem = problem

    async def complete(self, request: ChatRequest) -> Reply:
        self.asked.append(request)
        raise self.problem


@pytest.mark.parametrize("problem", [ModelUnavailable("Gone."), CapReached("Enough.")])
async def test_a_call_without_a_reply_is_each_task_s_reason_and_not_asked_again(
    problem: LeanRAGError,
) -> None:
    model = Failing(problem)
    assert await ask_each(model, DUTY, PAIR, Meter()) == [problem, problem]
    assert len(model.asked) == 1


@pytest.mark.parametrize("problem", [InvalidInput("No key."), StoreUnusable("Full."), Cancelled("Stop.")])
async def test_what_every_call_would_meet_ends_the_work(problem: LeanRAGError) -> None:
    with pytest.raises(type(problem)):
        await ask_each(Failing(problem), DUTY, PAIR, Meter())


async def test_all_places_stay_busy_while_one_item_is_slow() -> None:
    slow, done = anyio.Event(), []

    async def work(item: int) -> None:
        if item == 0:
            await slow.wait()
        done.append(item)
        if len(done) == 9:
            slow.set()

    with anyio.fail_after(10):
        await for_each(range(10), work, places=2)
    assert done == [*range(1, 10), 0]


async def test_the_first_error_ends_the_rest_and_comes_as_it_is() -> None:
    begun: list[int] = []

    async def work(item: int) -> None:
        begun.append(item)
        await anyio.lowlevel.checkpoint()
        if item == 1:
            raise StoreUnusable("Full.")

    with pytest.raises(StoreUnusable, match="Full"):
        await for_each(range(100), work, places=2)
    assert len(begun) < 6
