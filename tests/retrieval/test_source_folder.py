"""A folder of source code and notes on it: names lead to what says something of them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from leanrag_tests_jobs import finish, open_engine

from leanrag_engine.core.model import DocumentSource
from leanrag_engine.engine import LeanRAG
from leanrag_engine.retrieval.query import QueryResult
from leanrag_engine.retrieval.request import Query

pytestmark = pytest.mark.anyio

FILES = {
    "exceptions.py": "class DelimiterNotFound(Exception):\n"
    '    """Told to a reader whose stream has no more room for what it was asked to read."""\n',
    "__init__.py": "from .exceptions import DelimiterNotFound\nfrom .streams import (\n    DelimiterNotFound,\n    receive,\n)\n\n"
    '__all__ = ["DelimiterNotFound", "receive"]\n',
    "streams.py": "def receive(stream, delimiter, most):\n"
    '    """Return what comes before the delimiter."""\n'
    "    while delimiter not in stream.buffer:\n"
    "        if len(stream.buffer) > most:\n"
    "            raise DelimiterNotFound(most)\n"
    "        stream.fill()\n",
    "buffers.py": "class Buffer:\n"
    "    def grow(self, most):\n"
    '        """Call fill_again until fill_again says that there is no more, then fill_again once more."""\n'
    "        while self.fill_again(most) or self.fill_again(most):\n"
    "            self.rounds += 1\n\n"
    "    def fill_again(self, most):\n"
    '        """Read on, and give back how much came."""\n'
    "        return self.source.read(most)\n",
    **{
        f"user{number}.py": f"def use{number}(buffer):\n    buffer.fill_again({number})\n    assert buffer.rounds < MOST_ROUNDS, MOST_ROUNDS\n    return buffer.fill_again()\n"
        for number in range(4)
    },
    "limits.py": "".join(
        f"def check{number}(rounds):\n    if rounds > MOST_ROUNDS:  # MOST_ROUNDS is not for {number}\n"
        f"        raise TooMany({number}, MOST_ROUNDS, 'more than MOST_ROUNDS')\n    return MOST_ROUNDS - rounds\n\n\n"
        for number in range(12)
    )
    + "def join(left, right):\n    return [*left, *right]\n\n\nMOST_ROUNDS: Final = 12\nFEWEST = 1\n",
    "states.py": 'EventTransitionType = dict[str, dict[str, str]]\n"""What follows each state, by the event that came."""\n',
    "layouts.md": "# Layouts\n\nrepr(C) keeps the order of the fields. repr(packed) leaves out the gaps between them, which makes "
    "borrowing a field undefined behaviour.\n",
    **{
        f"policy{number}.py": f"class Policy{number}(FilterPolicy):\n    def keep{number}(self, key):\n        return key > {number}\n"
        for number in range(6)
    },
    "engine.cc": "// Store::Write is called here and there.\nvoid Store::Open(int room) {\n  Store::Write(room);\n  Store::Write(room + 1);\n}\n\n"
    + "".join(f"int Store::Count{number}() {{\n  return {number} + size_;\n}}\n\n" for number in range(30))
    + "bool Store::Write(int room,\n                  const Key& key) {\n  return room > key.size();\n}\n",
    "options.h": "struct Options {\n  // How many bytes are kept before they are written.\n  // Default: 4MB\n  size_t room_limit;\n\n  bool paranoid;\n};\n",
    "tuning.cc": "".join(
        f"void Tune{number}(Options* options) {{\n  options->room_limit = {number} * default_room_limit();\n}}\n\n"
        for number in range(8)
    ),
    "rooms.py": "def take(room, guest):\n    if room.guest:\n        raise TakenError(f\"The room '{room}' is already taken by somebody.\")\n",
    "console/termui.py": "class Table:\n    def draw(self, rows):\n        return [row.ljust(20) for row in rows]\n\n\n"
    "class Tree:\n    def draw(self, nodes):\n        return nodes.walk()\n\n\n"
    "def confirm(text, default=False):\n"
    '    """Ask until yes or no comes back."""\n'
    "    while (said := input(text)) not in YES_OR_NO:\n        text = text.strip()\n    return said in YES or default\n",
    "orders.py": "class Order:\n    def confirm(self, by):\n        self.state = 'confirmed'\n        self.by = by\n",
    **{
        f"app{number}.py": f"def main{number}(rows):\n    if console.confirm('Do you confirm what console.confirm does?'):\n"
        f"        console.Table(rows, {number}).draw(rows)  # what a console.Table does beside a console.Tree\n        console.Tree(rows)\n"
        for number in range(3)
    },
    **{
        f"receiver{number}.py": f"def receive_pause{number}(source, pause=DEFAULT_PAUSE):\n"
        f'    """Receive from source {number}; the default pause of the receiver is the usual one, a pause between two signals."""\n'
        f"    return source.receive(pause, default={number})\n"
        for number in range(9)
    },
    "settings.py": "import os\n\nROOMS = os.environ['ROOMS']\nGUESTS = 4\nDEFAULT_PAUSE = 0.75\nOVENS = ('left', 'right')\nDOORS: int = 3\n",
    "net.md": "# Network\n\nThe NAT of the router hides the hosts behind it.\n",
    "scope.md": "# Safe and unsafe\n\nBoth interact. The difference is one of scope.\n",
}


@pytest.fixture(scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LeanRAG]:
    folder = tmp_path_factory.mktemp("source")
    for name, text in FILES.items():
        folder.joinpath(name).parent.mkdir(exist_ok=True)
        folder.joinpath(name).write_text(text, encoding="utf-8")
    async with open_engine(tmp_path_factory.mktemp("data"), embedder="minilm") as held:
        await finish(held, await held.submit_ingest([DocumentSource(path=str(folder))], allowed=None))
        yield held


async def ask(engine: LeanRAG, question: str) -> QueryResult:
    return await engine.query(Query(question, token_budget=1000))


async def test_a_definition_comes_before_the_code_that_calls_it(engine: LeanRAG) -> None:
    for question in ("fill_again", "Buffer.fill_again", "What does fill_again() give back?"):
        first = (await ask(engine, question)).context.lines[0]
        assert first.subject == "buffers", question
        assert "def fill_again(self, most):" in first.text, question
    assert not (await ask(engine, "streams.fill_again")).warnings
    constant = (await ask(engine, "MOST_ROUNDS")).context
    assert "MOST_ROUNDS: Final = 12" in constant.lines[0].text
    assert constant.tokens < 200


async def test_what_is_named_with_its_package_is_answered_by_its_definition_there(engine: LeanRAG) -> None:
    for question in (
        "What does console.confirm do?",
        "How does `console.confirm()` treat the default when it has asked for yes?",
    ):
        first = (await ask(engine, question)).context.lines[0]
        assert first.text.startswith("def confirm(text"), question
    both = (await ask(engine, "console.Table vs console.Tree")).context.text
    assert "class Table:" in both
    assert "class Tree:" in both
    assert "def main" in (await ask(engine, "Who calls console.confirm?")).context.lines[0].text


async def test_the_value_of_a_constant_that_the_best_passages_name_is_shown(engine: LeanRAG) -> None:
    for question in ("What is the default pause of a receiver?", "how long is the pause by default"):
        assert (
            "DEFAULT_PAUSE = 0.75" in (await engine.query(Query(question, token_budget=400))).context.text
        ), question


async def test_code_that_uses_a_name_comes_before_code_that_imports_it(engine: LeanRAG) -> None:
    first, second, *others = (await ask(engine, "Who raises DelimiterNotFound?")).context.lines
    assert {first.subject, second.subject} == {"exceptions", "streams"}
    assert not any(each.parts.exact for each in others)


async def test_an_identifier_that_is_the_beginning_of_another_is_answered_by_that(engine: LeanRAG) -> None:
    result = await ask(engine, "EventTransition")
    assert "No document has 'EventTransition'. Did you mean 'EventTransitionType'?" in result.warnings
    assert result.context.lines[0].text.startswith("EventTransitionType = ")


async def test_the_names_of_a_short_question_count_and_not_the_words_between_them(engine: LeanRAG) -> None:
    result = await ask(engine, "difference between repr(C) and repr(packed)")
    assert result.context.lines[0].subject == "Layouts"
    assert not any("No document has" in each for each in result.warnings)
    other = await ask(engine, "scope of repr(packed)")
    assert {each.subject for each in other.context.lines if each.parts.exact} == {"Layouts"}


async def test_who_calls_a_function_is_answered_by_the_calls(engine: LeanRAG) -> None:
    result = await engine.query(Query("Which code calls fill_again?", token_budget=1000))
    assert "user0.py" in result.context.text  # the others are copies but for a figure
    asked = await engine.query(Query("What is fill_again used for?", token_budget=1000))
    assert "buffers.py" in asked.context.text.split("```")[0]


async def test_what_derives_from_a_class_is_found_in_many_files(engine: LeanRAG) -> None:
    result = await engine.query(Query("Which classes derive from FilterPolicy?"))
    assert all(f"class Policy{number}(FilterPolicy)" in result.context.text for number in range(6))


async def test_a_function_that_braces_hold_is_found_by_its_definition(engine: LeanRAG) -> None:
    lines = (await ask(engine, "Where is Store::Write defined?")).context.lines
    (found,) = [each for each in lines if each.parts.exact]
    assert "bool Store::Write(int room,\n                  const Key& key) {" in found.text


async def test_a_member_is_told_where_it_is_declared(engine: LeanRAG) -> None:
    lines = (await ask(engine, "What is the default of room_limit?")).context.lines
    (found,) = [each for each in lines if each.parts.exact]
    assert "// Default: 4MB\n  size_t room_limit;" in found.text


@pytest.mark.parametrize("written", ["fill_aga", "fill_agin"])
async def test_what_a_common_name_may_be_misspelt_as_is_answered_by_its_definition(
    engine: LeanRAG, written: str
) -> None:
    result = await ask(engine, written)
    assert f"No document has {written!r}. Did you mean 'fill_again'?" in result.warnings
    assert "def fill_again" in result.context.lines[0].text


async def test_a_message_with_its_values_is_found_where_it_was_written_without_them(engine: LeanRAG) -> None:
    lines = (await ask(engine, "TakenError: The room 'blue 7' is already taken by somebody.")).context.lines
    assert [each.subject for each in lines if each.parts.exact] == ["rooms"]


async def test_a_name_in_capitals_is_no_other_form_of_another(engine: LeanRAG) -> None:
    assert any("'NATS'" in each for each in (await ask(engine, "How do the hosts talk to NATS?")).warnings)
    assert not (await ask(engine, "What does NAT do?")).warnings
