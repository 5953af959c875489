"""Deleting documents: nothing that only they said is left anywhere, the rest answers on, and a crash loses nothing."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, closing
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import pytest
from leanrag_tests_forks import run

from leanrag_engine.core.config import load_settings
from leanrag_engine.core.model import DocumentSource
from leanrag_engine.engine import LeanRAG
from leanrag_engine.retrieval.request import Query

pytestmark = pytest.mark.anyio

Serve = Callable[..., AbstractAsyncContextManager[Any]]

SECRET = {
    "id": "secret-file",
    "title": "Quibblewick",
    "text": "The zyzzyvaq beetle lives on Skerryvore. Professor Brobdingnag discovered the zyzzyvaq beetle. "
    "Skerryvore is also known as Flannelrock. Brobdingnag wrote to Alan Stevenson about the zyzzyvaq beetle.",
}
OTHERS = [
    {"id": "a", "text": "Skerryvore is a lighthouse off Tiree. Alan Stevenson designed Skerryvore."},
    {
        "id": "b",
        "text": "Alan Stevenson was the son of Robert Stevenson. Robert Stevenson built the Bell Rock.",
    },
    {"id": "c", "text": "The Bell Rock lies off Arbroath. The Bell Rock was lit in 1811."},
]
WORDS = re.compile("zyzzyva|brobding|flannelr|quibblew|secret-file", re.IGNORECASE)


def traces(folder: Path) -> list[str]:
    """Files in which any of the words stands, in the clear. Not among them: the files of vectors, into which Chroma's
    index writes memory that it never filled, with whatever this process had there before."""
    return [
        path.name
        for path in folder.rglob("*")
        if path.is_file()
        and path.name not in {"data_level0.bin", "length.bin", "link_lists.bin"}
        and WORDS.search(path.read_bytes().decode("latin-1"))
    ]


async def everything(call: Any) -> str:
    """Return what every reading tool says, as one text."""
    replies = [
        await call(
            "query_lca_context", query=f"zyzzyvaq Brobdingnag {more}", mode=mode, response_format="detailed"
        )
        for mode in ("lca", "local", "global", "naive")
        for more in ("Skerryvore", "lighthouse")
    ]
    replies += [await call("search_entities", query="Skerryvore beetle", limit=100)]
    found = [each["ref"] for each in replies[-1].data["entities"]]
    for ref in found:
        replies.append(await call("get_entity_ancestors", entity=ref))
        replies.append(await call("get_cluster", cluster=ref, response_format="detailed", limit=100))
        replies.append(await call("get_sources", entity=ref))
    replies += [
        await call(tool) for tool in ("list_inter_cluster_relations", "get_index_status", "list_collections")
    ]
    shown = "\n".join(reply.text + json.dumps(reply.data) for reply in replies)
    # What was asked is repeated in the reply.
    return re.sub("No document has [^\n.]*", "", shown.replace("zyzzyvaq Brobdingnag ", ""))


async def test_after_a_deletion_no_table_no_file_and_no_reply_holds_a_word_that_only_that_document_had(
    serve_in_process: Serve, tmp_path: Path
) -> None:
    async with serve_in_process(tmp_path) as call:
        await call.finish(await call("ingest_documents", documents=[*OTHERS, SECRET], wait_seconds=40))
        # An older generation, and a version of the document that was replaced since, must go too.
        changed = {**SECRET, "text": SECRET["text"] + " It is green."}
        await call.finish(await call("ingest_documents", documents=[changed], wait_seconds=40))
        # So must the failure of a job that names it.
        await call.finish(
            await call("ingest_documents", documents=[OTHERS[0], {**SECRET, "text": " "}], wait_seconds=40)
        )
        assert WORDS.search(await everything(call))
        assert traces(tmp_path)
        reply = await call.finish(await call("delete_documents", ids=["secret-file"], wait_seconds=40))
        assert [each["status"] for each in reply.data["documents"]] == ["deleted"], reply.text
        assert not WORDS.search(await everything(call))
        status = (await call("get_index_status")).data
        assert status["documents"] == 3
        assert status["stale"]
        assert not any("incomplete" in warning for warning in status["warnings"])
        for tool, name in (("get_entity_ancestors", "Flannelrock"), ("get_cluster", "zyzzyvaq beetle")):
            refused = await call(tool, **{"entity" if "ancestors" in tool else "cluster": name})
            assert refused.is_error
            assert not WORDS.search(refused.text.replace(name, ""))
        answer = await call("query_lca_context", query="Who designed Skerryvore?")
        assert "Alan Stevenson designed Skerryvore" in answer.data["context"]
        assert "Build the hierarchy" in answer.text.partition("\n\n")[0]
        assert "hidden" in (await call("get_entity_ancestors", entity="Skerryvore")).text.lower()
        job = await call("get_job", job_id=reply.data["job_id"])
        assert job.data["result"] == {"documents": 1, "chunks": 1}
    assert traces(tmp_path) == []
    async with serve_in_process(tmp_path) as call:
        built = await call.finish(await call("build_hierarchy", wait_seconds=40))
        assert built.data["status"] == "done"
        assert "hidden" not in (await everything(call)).lower()
    assert traces(tmp_path) == []


PLACES = ("Tiree", "Arbroath", "Unst", "Lewis", "Islay", "Barra", "Fair Isle", "Cape Wrath", "Oban", "Wick")
MANY = [
    {
        "id": f"tower-{number}",
        "text": f"Keeper Number{chr(65 + number)} served at {PLACES[number % 10]}. "
        f"The Lamp of {PLACES[(number + 3) % 10]} was made by Engineer Number{chr(65 + (number + 1) % 26)}.",
    }
    for number in range(24)
]


@pytest.mark.parametrize(("embedder", "rewritten"), [("fitted", False), ("litellm/openai/away", True)])
async def test_a_deletion_from_many_documents_leaves_no_word_whether_it_rewrites_their_rows_or_not(
    serve_in_process: Serve, tmp_path: Path, embedder: str, rewritten: bool
) -> None:
    """Without the embedder its state is dropped, which a build whose rows are kept would keep."""
    async with serve_in_process(tmp_path, embedder="fitted") as call:
        for documents in ([*OTHERS, *MANY], [SECRET]):
            await call.finish(await call("ingest_documents", documents=documents, wait_seconds=40))
        built = (await call("get_index_status")).data["generation"]
    assert traces(tmp_path)
    async with serve_in_process(tmp_path, embedder=embedder) as call:
        reply = await call.finish(await call("delete_documents", ids=["secret-file"], wait_seconds=40))
        assert reply.data["status"] == "done", reply.text
    assert traces(tmp_path) == []
    with closing(sqlite3.connect(tmp_path / "graph.sqlite3")) as database:
        since = [number for (number,) in database.execute("SELECT since FROM entities")]
        states = [state for (state,) in database.execute("SELECT state FROM embedders")]
    assert (sum(number > built for number in since) > len(since) / 2) is rewritten
    assert [bool(each) for each in states] == [not rewritten]


def gossip(request: Any) -> str:
    """The scribe's answers, which pass on the planted words: so they reach every layer."""
    scribe = import_module("leanrag_tests_scribe")
    shown = scribe.tasks_of(request)
    items = json.loads(scribe.write(request))["items"]
    for item in items:
        if planted := sorted(
            set(re.findall(rf"\w*(?:{WORDS.pattern})\w*", shown[item["task"]], re.IGNORECASE))
        ):
            field = "sentence" if "sentence" in item else "description"
            if field in item:
                item[field] += f" They speak of {' and '.join(planted)}."
    return json.dumps({"items": items})


async def test_after_a_deletion_no_reply_of_a_model_is_kept_that_the_document_fed(
    serve_in_process: Serve, tmp_path: Path, scribe: Any
) -> None:
    """At once, not at the next build: replies of all layers, and of versions of the document that were replaced."""
    scribe.follows(gossip)
    settings = {"llm_model": "openai/tiny", "llm_api_base": scribe.url, "cluster_size": 5, "tau": 0}
    old = {**SECRET, "text": "Quibblewick told of a zyzzyva once. Skerryvore was dark."}
    async with serve_in_process(tmp_path, **settings) as call:
        for documents in ([*OTHERS, *MANY, old], [SECRET]):
            reply = await call.finish(await call("ingest_documents", documents=documents, wait_seconds=40))
            assert reply.data["status"] == "done", reply.text
        layers = (await call("get_index_status")).data["layers"]
        assert len(layers) >= 3
        kinds = {import_module("leanrag_tests_scribe").work_of(each) for each in scribe.requests}
        assert kinds >= {"extract", "aggregate", "relate"}
        assert WORDS.search(await everything(call))
        reply = await call.finish(await call("delete_documents", ids=["secret-file"], wait_seconds=40))
        assert reply.data["status"] == "done", reply.text
    assert traces(tmp_path) == []
    before = scribe.calls
    async with serve_in_process(tmp_path, **settings) as call:
        assert (await call.finish(await call("build_hierarchy", wait_seconds=40))).data["status"] == "done"
    assert traces(tmp_path) == []
    asked = scribe.requests[before:]
    # What the document did not feed was kept: no other document is read again.
    assert not [each for each in asked if "passages of documents into a graph" in each.prompt]


async def test_after_a_rollback_a_deletion_forgets_also_what_only_an_earlier_version_of_the_document_said(
    tmp_path: Path, scribe: Any
) -> None:
    """Its chunks are gone, so what they said is not known any more, but the summaries of the earlier build tell it."""
    scribe.follows(gossip)
    model = {"llm_model": "openai/tiny", "llm_api_base": scribe.url, "cluster_size": 5, "tau": 0}
    settings = load_settings(data_dir=tmp_path, **model)
    old = {**SECRET, "text": "Quibblewick told of a zyzzyva once. Skerryvore was dark."}
    plain = {**SECRET, "title": "Notes", "text": "Nothing was said. Skerryvore was dark."}
    async with await LeanRAG.open(settings) as engine:

        async def finish(job: Any) -> None:
            ended = await engine.job(job.id, 60)
            assert ended.status == "done", ended.message

        for documents in ([*OTHERS, *MANY, old], [plain]):
            sources = [DocumentSource(**each) for each in documents]  # type: ignore[arg-type]
            await finish(await engine.submit_ingest(sources))
        await finish(await engine.submit_rollback(1))
        chain = await engine.ancestors("Skerryvore")
        assert any(WORDS.search(each.description) for each in chain if each.layer)
        assert WORDS.search(str(await engine.history()))
        job, _ = await engine.submit_delete(["secret-file"])
        await finish(job)
        assert not WORDS.search(str(await engine.history()) + str(await engine.changes("1")))
    assert traces(tmp_path) == []


async def test_unknown_ids_are_returned_with_the_nearest_and_the_others_are_deleted(
    serve_in_process: Serve, tmp_path: Path
) -> None:
    async with serve_in_process(tmp_path) as call:
        await call("ingest_documents", documents=[*OTHERS, SECRET], build=False)
        nothing = await call("delete_documents", ids=["secret-fiel"])
        assert nothing.is_error
        assert "secret-file" in nothing.text
        assert "d4" in nothing.text
        reply = await call("delete_documents", ids=["d4", "secret-fiel", "a", "a"], wait_seconds=40)
        statuses = {each["id"]: each["status"] for each in reply.data["documents"]}
        assert statuses == {"d4": "deleted", "a": "deleted", "secret-fiel": "unknown"}
        assert (await call("get_index_status")).data["documents"] == 2
        assert (await call("get_sources", citations=["d4:c1"])).is_error


async def test_when_all_documents_are_gone_the_collection_is_empty_and_can_be_filled_again(
    serve_in_process: Serve, tmp_path: Path
) -> None:
    async with serve_in_process(tmp_path) as call:
        await call.finish(await call("ingest_documents", documents=OTHERS, wait_seconds=40))
        await call.finish(await call("delete_documents", ids=["a", "b", "c"], wait_seconds=40))
        status = (await call("get_index_status")).data
        assert (status["documents"], status["built"]) == (0, False)
        assert "ingest_documents" in (await call("query_lca_context", query="Tiree")).text
        again = await call.finish(await call("ingest_documents", documents=OTHERS, wait_seconds=40))
        assert again.data["status"] == "done"
        assert "Tiree" in (await call("query_lca_context", query="Skerryvore")).data["context"]


async def test_a_query_during_a_deletion_gets_an_answer_without_the_document(tmp_path: Path) -> None:
    async with await LeanRAG.open(load_settings(data_dir=tmp_path)) as engine:
        sources = [DocumentSource(**each) for each in (*OTHERS, SECRET)]  # type: ignore[arg-type]
        await engine.job((await engine.submit_ingest(sources)).id, 60)
        deleted = anyio.Event()
        late: list[str] = []

        async def read() -> None:
            while not deleted.is_set():
                begun = deleted.is_set()
                result = await engine.query(Query("beetle on Skerryvore", mode="lca"))
                chain = await engine.ancestors("Skerryvore")
                assert chain[-1].parent_id is None
                if begun:
                    late.append(result.context.text)

        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(read)
            job, _ = await engine.submit_delete(["secret-file"])
            assert job
            assert (await engine.job(job.id, 60)).status.value == "done"
            after = await engine.query(Query("beetle on Skerryvore"))
            deleted.set()
        assert not WORDS.search(after.context.text)


DELETE = """
import anyio, os, signal, sys
from leanrag_engine.adapters.sql.stores import SqlDocumentStore
from leanrag_engine.core.config import load_settings
from leanrag_engine.engine import LeanRAG
place = sys.argv[2]
async def delete_and_die(*args, **kwargs):
    if place == "after":
        await delete(*args, **kwargs)
    os.kill(os.getpid(), signal.SIGKILL)
delete = SqlDocumentStore.delete
SqlDocumentStore.delete = delete_and_die
async def main():
    async with await LeanRAG.open(load_settings(data_dir=sys.argv[1])) as engine:
        job, _ = await engine.submit_delete(["secret-file"])
        await engine.job(job.id, 60)
anyio.run(main)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs a signal that cannot be caught")
@pytest.mark.parametrize("place", ["before", "after"])
async def test_a_killed_deletion_is_continued_by_the_next_process(
    serve_in_process: Serve, tmp_path: Path, place: str
) -> None:
    async with serve_in_process(tmp_path) as call:
        await call.finish(await call("ingest_documents", documents=[*OTHERS, SECRET], wait_seconds=40))
    ran = await anyio.to_thread.run_sync(run, "-c", DELETE, tmp_path, place)
    assert ran.returncode == -signal.SIGKILL
    async with serve_in_process(tmp_path) as call:
        job = (await call("get_index_status")).data["jobs"][0]
        done = await call.finish(await call("get_job", job_id=job["job_id"], wait_seconds=40))
        assert done.data["status"] == "done"
        assert not WORDS.search(await everything(call))
        status = (await call("get_index_status")).data
        assert status["documents"] == 3
        assert not any("incomplete" in warning for warning in status["warnings"])
    assert traces(tmp_path) == []
