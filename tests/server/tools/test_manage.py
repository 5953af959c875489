"""The writing tools, and what reading says before, between and after them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.anyio

Serve = Callable[..., AbstractAsyncContextManager[Any]]

MOON = {
    "text": "Mare Tranquillitatis is a plain on the Moon. Apollo 11 landed in Mare Tranquillitatis.",
    "id": "moon",
}
MARS = {
    "text": "Olympus Mons is a volcano on Mars. Olympus Mons rises 22 km above Amazonis Planitia.",
    "id": "mars",
}


async def test_the_same_content_again_is_unchanged_and_other_content_replaces_it(
    serve_in_process: Serve, tmp_path: Path
) -> None:
    async with serve_in_process(tmp_path) as call:
        first = await call("ingest_documents", documents=[MOON, MARS])
        assert [each["status"] for each in first.data["documents"]] == ["added", "added"]
        again = await call("ingest_documents", documents=[MOON])
        assert [each["status"] for each in again.data["documents"]] == ["unchanged"]
        other = await call(
            "ingest_documents", documents=[{**MOON, "text": "Tycho is a crater on the Moon."}], build=False
        )
        assert [each["status"] for each in other.data["documents"]] == ["replaced"]
        status = await call("get_index_status")
        assert status.data["documents"] == 2
        assert status.data["stale"]
        assert status.data["pending_documents"] == 1
        assert "build_hierarchy" in status.data["next_step"]


async def test_a_document_that_is_not_built_yet_is_found_and_reported_as_pending(
    serve_in_process: Serve, tmp_path: Path
) -> None:
    async with serve_in_process(tmp_path) as call:
        await call("ingest_documents", documents=[MOON])
        await call("ingest_documents", documents=[MARS], build=False)
        reply = await call("query_lca_context", query="How high is Olympus Mons?")
        assert "22 km" in reply.data["context"]
        note = reply.text.partition("\n\n")[0]
        assert "last build (pending)" in note
        assert "Build the hierarchy" in note


async def test_an_old_citation_never_shows_the_text_that_replaced_its_document(
    serve_in_process: Serve, tmp_path: Path
) -> None:
    async with serve_in_process(tmp_path) as call:
        await call("ingest_documents", documents=[MOON], build=False)
        assert "Apollo 11" in (await call("get_sources", citations=["d1:c1"])).text
        other = {**MOON, "text": "Tycho is a crater on the Moon."}
        await call("ingest_documents", documents=[other], build=False)
        gone = await call("get_sources", citations=["d1:c1"])
        assert gone.is_error
        assert "changed" in gone.text
        assert "Tycho" in (await call("get_sources", citations=["d1:c2"])).text


async def test_before_any_build_the_passages_answer_and_the_reply_says_so(
    serve_in_process: Serve, tmp_path: Path
) -> None:
    async with serve_in_process(tmp_path) as call:
        await call("ingest_documents", documents=[MOON, MARS], build=False)
        for mode in ("naive", "lca"):
            reply = await call("query_lca_context", query="Olympus Mons", mode=mode)
            assert "volcano on Mars" in reply.data["context"]
            note = reply.text.partition("\n\n")[0]
            assert "never built" in note
            assert "Build the hierarchy" in note
        refused = await call("search_entities", query="Olympus Mons")
        assert refused.is_error
        assert "build_hierarchy" in refused.text


async def test_before_any_document_every_read_says_to_ingest_first(
    serve_in_process: Serve, tmp_path: Path
) -> None:
    async with serve_in_process(tmp_path) as call:
        for tool, arguments in (
            ("query_lca_context", {"query": "x"}),
            ("search_entities", {"query": "x"}),
            ("get_entity_ancestors", {"entity": "x"}),
            ("list_inter_cluster_relations", {}),
            ("get_sources", {"entity": "x"}),
            ("build_hierarchy", {}),
        ):
            reply = await call(tool, **arguments)
            assert reply.is_error
            assert "ingest_documents" in reply.text
        status = await call("get_index_status")
        assert status.data["documents"] == 0
        assert "ingest_documents" in status.data["next_step"]


async def test_a_bad_document_fails_alone_with_its_reason(serve_in_process: Serve, tmp_path: Path) -> None:
    docs, outside = tmp_path / "docs", tmp_path / "outside.txt"
    docs.mkdir()
    outside.write_text("A secret about Phobos.")
    (docs / "good.md").write_text("# Phobos\n\nPhobos is a moon of Mars. Phobos orbits Mars in eight hours.")
    (docs / "empty.txt").write_text("  \n")
    (docs / "binary.txt").write_bytes(bytes(range(256)) * 40)
    (docs / "slides.key").write_bytes(b"PK\x03\x04")
    (docs / "link.txt").symlink_to(outside)
    expected = {
        "good.md": ("added", ""),
        "empty.txt": ("failed", "empty"),
        "binary.txt": ("failed", "binary.txt"),
        "slides.key": ("failed", "not supported yet"),
        "link.txt": ("failed", "allowed"),
        "missing.txt": ("failed", "missing.txt"),
    }
    paths = [docs / name for name in expected] + [outside]
    async with serve_in_process(tmp_path / "data", allow_dirs=(docs,)) as call:
        reply = await call("ingest_documents", documents=[{"path": str(path)} for path in paths])
    outcomes = {Path(each["id"]).name: each for each in reply.data["documents"]}
    for name, (status, said) in {**expected, "outside.txt": ("failed", "allowed")}.items():
        assert outcomes[name]["status"] == status, outcomes[name]
        assert said in outcomes[name]["error"]
        if said:
            assert outcomes[name]["error"] in reply.text


async def test_without_an_allowed_folder_every_path_is_refused_with_the_way_to_allow_it(
    serve_in_process: Serve, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("Deimos is a moon of Mars.")
    async with serve_in_process(tmp_path / "data") as call:
        reply = await call("ingest_documents", documents=[{"path": str(tmp_path / "a.txt")}])
    assert reply.is_error
    assert "--allow-dir" in reply.text


async def test_a_folder_becomes_its_files(serve_in_process: Serve, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    (docs / "deeper").mkdir(parents=True)
    (docs / "moons.txt").write_text("Phobos and Deimos are moons of Mars.")
    (docs / "deeper" / "rings.md").write_text("# Rings\n\nSaturn has rings of ice.")
    async with serve_in_process(tmp_path / "data", allow_dirs=(docs,)) as call:
        reply = await call("ingest_documents", documents=[{"path": str(docs)}])
    assert {Path(each["id"]).name for each in reply.data["documents"]} == {"moons.txt", "rings.md"}


@pytest.mark.parametrize(
    ("documents", "said"),
    [
        ([], "documents"),
        ([{}], "exactly one of path and text"),
        ([{"path": "a", "text": "b"}], "exactly one of path and text"),
        ([{"text": "a", "tittle": "b"}], "tittle"),
        ("nonsense", "documents"),
    ],
)
async def test_a_wrong_list_of_documents_is_refused_by_name(
    serve_in_process: Serve, tmp_path: Path, documents: object, said: str
) -> None:
    async with serve_in_process(tmp_path) as call:
        reply = await call("ingest_documents", documents=documents)
    assert reply.is_error
    assert said in reply.text


async def test_an_invalid_collection_name_is_refused(serve_in_process: Serve, tmp_path: Path) -> None:
    async with serve_in_process(tmp_path) as call:
        reply = await call("ingest_documents", documents=[MOON], collection="../up")
    assert reply.is_error
    assert "'../up'" in reply.text
    assert "letters" in reply.text


async def test_collections_keep_apart(serve_in_process: Serve, tmp_path: Path) -> None:
    async with serve_in_process(tmp_path) as call:
        await call("ingest_documents", documents=[MOON], collection="moon")
        await call("ingest_documents", documents=[MARS], collection="mars")
        reply = await call("query_lca_context", query="Olympus Mons", collection="moon")
        assert "volcano" not in reply.text
        status = await call("get_index_status", collection="mars")
        assert sorted(status.data["collections"]) == ["mars", "moon"]


async def test_an_unknown_job_is_an_error_that_names_the_latest(
    serve_in_process: Serve, tmp_path: Path
) -> None:
    async with serve_in_process(tmp_path) as call:
        done = await call("ingest_documents", documents=[MOON])
        for tool in ("get_job", "cancel_job"):
            reply = await call(tool, job_id="job-nope")
            assert reply.is_error
            assert "job-nope" in reply.text
            assert done.data["job_id"] in reply.text
        job = await call("get_job", job_id=done.data["job_id"])
        assert job.data["status"] == "done"


async def test_a_read_only_server_offers_no_tool_that_writes(
    serve_in_process: Serve, lighthouses: Path
) -> None:
    async with serve_in_process(lighthouses, read_only=True) as call:
        tools = (await call.client.list_tools()).tools
        assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools)
        reply = await call("query_lca_context", query="Who designed Skerryvore?")
        assert "Alan Stevenson" in reply.data["context"]


async def test_a_read_only_server_recommends_no_tool_that_it_does_not_offer(
    serve_in_process: Serve, tmp_path: Path
) -> None:
    async with serve_in_process(tmp_path) as call:
        await call("ingest_documents", documents=[MOON], build=False)
    async with serve_in_process(tmp_path, read_only=True) as call:
        for tool, arguments in (
            ("get_index_status", {}),
            ("query_lca_context", {"query": "Moon"}),
            ("search_entities", {"query": "Moon"}),
        ):
            reply = await call(tool, **arguments)
            assert "build_hierarchy" not in reply.text
            assert "ingest_documents" not in reply.text


async def test_a_dry_run_says_what_a_build_would_take_and_builds_nothing(
    serve_in_process: Serve, tmp_path: Path
) -> None:
    async with serve_in_process(tmp_path) as call:
        await call("ingest_documents", documents=[MOON, MARS], build=False)
        forecast = await call("build_hierarchy", dry_run=True)
        found = forecast.data["result"]
        assert (found["documents"], found["chunks"], found["calls"], found["steps"]) == (2, 2, [0, 0], [])
        assert not (await call("get_index_status")).data["built"]


async def test_the_published_build_is_the_same_after_a_rebuild(
    serve_in_process: Serve, tmp_path: Path
) -> None:
    async with serve_in_process(tmp_path) as call:
        await call("ingest_documents", documents=[MOON, MARS])
        before = await call("query_lca_context", query="Mars")
        built = await call("build_hierarchy", wait_seconds=40)
        assert built.data["status"] == "done"
        after = await call("query_lca_context", query="Mars")
    assert after.data == before.data


async def test_a_data_folder_that_is_a_file_is_named_in_the_error(
    serve_in_process: Serve, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("not a folder")
    async with serve_in_process(tmp_path / "file") as call:
        reply = await call("get_index_status")
    assert reply.is_error
    assert str(tmp_path / "file") in reply.text


async def test_a_damaged_store_is_named_and_left_as_it_is(serve_in_process: Serve, tmp_path: Path) -> None:
    async with serve_in_process(tmp_path) as call:
        await call("ingest_documents", documents=[MOON])
    (store,) = [path for path in tmp_path.iterdir() if path.suffix in {".db", ".sqlite", ".sqlite3"}]
    damaged = b"this is no database" * 100
    store.write_bytes(damaged)
    for extra in tmp_path.glob(f"{store.name}-*"):
        extra.unlink()
    async with serve_in_process(tmp_path) as call:
        reply = await call("get_index_status")
    assert reply.is_error
    assert str(tmp_path) in reply.text
    assert store.read_bytes() == damaged


async def test_many_documents_give_a_reply_of_bounded_length_with_the_failures_first(
    serve_in_process: Serve, tmp_path: Path
) -> None:
    documents = [{"text": f"Asteroid {n} orbits the Sun.", "id": f"a{n}"} for n in range(120)]
    documents.append({"text": " ", "id": "blank"})
    async with serve_in_process(tmp_path) as call:
        reply = await call("ingest_documents", documents=documents, build=False, wait_seconds=40)
        assert 90 <= len(reply.data["documents"]) <= 100
        assert reply.data["documents"][0]["id"] == "blank"
        assert "120 added, 1 failed" in reply.text
        job = await call("get_job", job_id=reply.data["job_id"])
        assert job.data["result"]["documents"] == "120 added, 1 failed"
        assert [failure["document"] for failure in job.data["failures"]] == ["blank"]


async def test_a_file_of_50_megabytes_above_the_limit_is_refused_with_both_sizes_and_the_others_go_in(
    serve_in_process: Serve, tmp_path: Path
) -> None:
    (tmp_path / "docs").mkdir()
    with (tmp_path / "docs" / "huge.txt").open("w") as huge:
        huge.writelines("Ceres is a dwarf planet in the asteroid belt.\n" * 1000 for _ in range(1100))
    (tmp_path / "docs" / "small.txt").write_text("Ceres was found by Giuseppe Piazzi in Palermo.")
    settings = {"allow_dirs": (tmp_path / "docs",), "max_document_mb": 20}
    async with serve_in_process(tmp_path / "data", **settings) as call:
        reply = await call("ingest_documents", documents=[{"path": str(tmp_path / "docs")}], wait_seconds=40)
    outcomes = {Path(each["id"]).name: each for each in reply.data["documents"]}
    assert outcomes["small.txt"]["status"] == "added"
    assert outcomes["huge.txt"]["status"] == "failed"
    assert "huge.txt" in outcomes["huge.txt"]["error"]
    assert "20" in outcomes["huge.txt"]["error"]
    assert "50" in outcomes["huge.txt"]["error"]


async def test_a_sync_over_mcp_removes_vanished_files_and_lists_changes_first(
    serve_in_process: Serve, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    for name in ("a", "b", "c"):
        (notes / f"{name}.md").write_text(f"Station {name.upper()} stands on a hill.")
    (notes / "x.png").write_bytes(b"x")
    async with serve_in_process(tmp_path / "data", allow_dirs=(notes,)) as call:
        request = {"documents": [{"path": str(notes)}], "sync": True, "build": False}
        await call("ingest_documents", **request)
        (notes / "b.md").unlink()
        (notes / "c.md").write_text("Station C stands in a valley.")
        reply = await call("ingest_documents", **request)
        assert [each["status"] for each in reply.data["documents"]] == ["removed", "replaced", "unchanged"]
        assert reply.data["counts"] == {"unchanged": 1, "replaced": 1, "removed": 1}
        assert "its file is gone" in reply.text
        assert reply.data["skipped"] == [
            {"reason": "not supported yet: .png files", "count": 1, "examples": ["x.png"]}
        ]
        assert "left out: 1 not supported yet: .png files (x.png)" in reply.text
        job = await call("get_job", job_id=reply.data["job_id"])
        assert job.data["result"]["skipped"][0]["count"] == 1
        refused = await call("ingest_documents", documents=[{"text": "words"}], sync=True, build=False)
        assert refused.is_error
        assert "Only folders" in refused.text
