"""The explorer's page and data over real HTTP: a token is required, nothing writes, documents stay text."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

import anyio
import httpx2
import pytest
from leanrag_tests_forks import Fork
from leanrag_tests_jobs import ingest, open_engine

from leanrag_engine import DocumentSource
from leanrag_engine.core.model import Entity

HOSTILE = "<script>document.title='taken'</script><img src=x onerror=alert(1)>"
NOTES = [
    DocumentSource(
        text=f"The Ada Engine was built by Mary Byron in London. {HOSTILE} The Ada Engine computes Bernoulli Numbers.",
        title=f"Engines {HOSTILE}",
        id="engines",
    ),
    DocumentSource(
        text="Mary Byron lived in London. Bernoulli Numbers were found by Jacob Bernoulli in Basel.",
        title="People",
        id="people",
    ),
]


@dataclass(frozen=True)
class ServedExplorer:
    """A running ``leanrag explore``, and what the engine says of the same collection."""

    address: str
    root: Entity
    heads: list[str]
    members: list[str]

    def get(self, path: str, **parameters: object) -> httpx2.Response:
        query = f"?{urlencode(parameters)}" if parameters else ""
        return httpx2.get(f"{self.address}{path}{query}", trust_env=False, timeout=60)


@pytest.fixture(scope="module")
def explorer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedExplorer]:
    folder = tmp_path_factory.mktemp("explored")

    async def prepare() -> tuple[Entity, list[str], list[str]]:
        async with open_engine(folder) as engine:
            await ingest(engine, NOTES)
            root = await engine.root()
            heads = await engine.entity_heads()
            view = await engine.cluster(root.id, limit=30)
            return root, [each.id for each in heads], [each.id for each in view.members]

    root, heads, members = anyio.run(prepare)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LEANRAG_")}
    command = ["explore", "--no-open", "--data-dir", folder]
    with Fork(command, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://\S+", line)
        assert found, line + process.stderr.read()
        yield ServedExplorer(found.group(), root, heads, members)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) in (0, -signal.SIGINT)


def test_the_page_and_its_data_need_the_token_and_an_address_of_this_machine(
    explorer: ServedExplorer,
) -> None:
    start, _, rest = explorer.address.partition("/explore/")
    for address in (
        f"{start}/",
        f"{start}/explore/",
        f"{start}/explore/{rest[:-3]}/data/tree",
        f"{start}/data/tree",
    ):
        refused = httpx2.get(address, trust_env=False, timeout=60)
        assert refused.status_code == HTTPStatus.FORBIDDEN
        assert explorer.root.id not in refused.text
    elsewhere = httpx2.get(explorer.address, headers={"host": "rebound.example"}, trust_env=False, timeout=60)
    assert elsewhere.status_code == HTTPStatus.BAD_REQUEST
    assert explorer.get("").status_code == HTTPStatus.OK


def test_every_response_forbids_scripts_that_are_not_ours(explorer: ServedExplorer) -> None:
    for path in ("", "main.js", "data/tree", "data/entity", "missing.js"):
        policy = explorer.get(path).headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
    page = explorer.get("").text
    assert not re.search(r"<script(?![^>]* src=)|\son\w+=|https?://", page)


def test_nothing_but_reading_is_offered(explorer: ServedExplorer) -> None:
    for path in ("", "data/tree", "data/entity"):
        for method in ("POST", "PUT", "DELETE"):
            refused = httpx2.request(method, f"{explorer.address}{path}", trust_env=False, timeout=60)
            assert refused.status_code == HTTPStatus.METHOD_NOT_ALLOWED


def test_the_tree_holds_every_entity_below_its_parent(explorer: ServedExplorer) -> None:
    tree = explorer.get("data/tree").json()
    assert tree["refs"] == explorer.heads
    assert tree["parents"][0] == -1
    assert tree["names"][0] == explorer.root.name
    beneath = [ref for ref, parent in zip(tree["refs"], tree["parents"], strict=True) if parent == 0]
    assert beneath == explorer.members
    assert all(parent < place for place, parent in enumerate(tree["parents"]))


def test_an_entity_s_sentences_name_the_characters_of_the_passage_that_support_them(
    explorer: ServedExplorer,
) -> None:
    found = explorer.get("data/search", text="Ada Engine").json()
    details = explorer.get("data/entity", ref=found["refs"][0]).json()
    (sentence, *_) = details["sentences"]
    place = sentence["places"][0]
    (passage,) = explorer.get("data/passages", citation=place["citation"]).json()["passages"]
    quoted = passage["text"][place["start"] - passage["start"] : place["end"] - passage["start"]]
    assert quoted == sentence["text"]
    assert "Ada Engine" in quoted


def test_a_search_tells_entities_that_are_called_so_from_similar_ones(explorer: ServedExplorer) -> None:
    tree = explorer.get("data/tree").json()
    names = dict(zip(tree["refs"], tree["names"], strict=True))
    found = explorer.get("data/search", text="ada eng").json()
    assert {names[each] for each in found["named"]} >= {"Ada Engine"}
    assert all("ada eng" in names[each].casefold() for each in found["named"])
    assert explorer.get("data/search", text="Xyzzy").json()["named"] == []


def test_an_answer_is_found_again_by_going_back_and_by_loading_the_page_again(
    explorer: ServedExplorer, browse: Callable[..., Any]
) -> None:
    question = "Who built the Ada Engine? #1 & 100 %"
    seen = browse("ask.mjs", explorer.address, question)
    assert seen["problems"] == []
    assert seen["asked"][0] == question
    assert "Mary Byron" in seen["asked"][1]
    assert seen["focused"] == "question"
    assert seen["asked"] == seen["back"] == seen["again"]
    assert "No document has 'Xyzzy'." in seen["warned"]
    assert not any("search_" in each for each in seen["warned"])


def test_hostile_text_travels_as_json_that_no_browser_runs(explorer: ServedExplorer) -> None:
    for path, parameters in (("data/documents", {}), ("data/passages", {"document": "d1"})):
        reply = explorer.get(path, **parameters)
        assert reply.headers["content-type"] == "application/json"
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert HOSTILE in str(reply.json())


def test_a_question_is_answered_with_its_seeds_and_path(explorer: ServedExplorer) -> None:
    answer = explorer.get("data/answer", question="Who built the Ada Engine?").json()
    assert {each["ref"] for each in answer["seeds"]} <= set(explorer.heads)
    assert answer["seeds"]
    assert set(answer["path"]) <= set(explorer.heads)
    assert any("Mary Byron" in line["text"] and line["citations"] for line in answer["lines"])
    assert {line["subject"] for line in answer["lines"]} <= {each.title for each in NOTES}
    used = {
        part.rpartition(" ")[0]
        for line in answer["lines"]
        for part in line["why"].partition(";")[0].partition(" = ")[2].split(" + ")
    }
    assert set(answer["meanings"]) == used
    assert sum(tokens for _, tokens in answer["parts"]) == answer["tokens"]


def test_suggested_questions_are_answered_from_the_documents(explorer: ServedExplorer) -> None:
    suggested = explorer.get("data/suggestions").json()
    assert suggested
    for question in suggested:
        assert explorer.get("data/answer", question=question).json()["lines"]


def test_faulty_requests_are_explained(explorer: ServedExplorer) -> None:
    unknown = explorer.get("data/entity", ref="Ada Enigne")
    assert unknown.status_code == HTTPStatus.NOT_FOUND
    assert "Ada Engine" in unknown.json()["error"]
    large = explorer.get("data/links", layer=1, limit=10**9)
    assert large.status_code == HTTPStatus.BAD_REQUEST
    assert "limit='1000000000'" in large.json()["error"]
    longer = explorer.get("data/passages", offset="9" * 5_000)
    assert longer.status_code == HTTPStatus.BAD_REQUEST
    assert "is no number up to 1000000000000000." in longer.json()["error"]
