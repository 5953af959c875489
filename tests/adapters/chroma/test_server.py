"""A Chroma server: what its failures are told as, and what another process or a lost connection changes."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import numpy as np
import pytest

from leanrag_engine.adapters.chroma import server as chroma_server_module
from leanrag_engine.adapters.chroma.server import ChromaServer
from leanrag_engine.adapters.chroma.store import ChromaVectorStore
from leanrag_engine.core.errors import StoreUnreachable, StoreUnusable

pytestmark = pytest.mark.anyio

BASIS = np.eye(8, dtype=np.float32)


@pytest.fixture
async def store(chroma_gate: Any) -> AsyncIterator[ChromaVectorStore]:
    opened = ChromaVectorStore(ChromaServer(chroma_gate.address, "", f"tests-{uuid.uuid4().hex}"))
    yield opened
    if await opened.spaces():
        await opened.start_over()
    await opened.close()


async def test_a_server_that_is_down_is_named_in_the_error_and_used_again_when_it_is_up(
    store: ChromaVectorStore, chroma_gate: Any
) -> None:
    chroma_gate.shut()
    for call in (
        store.upsert("space", ["a"], BASIS[:1]),
        store.search("space", BASIS[0], 3),
        store.fetch("space", ["a"]),
        store.count("space"),
        store.spaces(),
        store.drop("space"),
        store.start_over(),
    ):
        with pytest.raises(StoreUnreachable, match=rf"{chroma_gate.address} cannot.*LEANRAG_CHROMA_URL"):
            await call
    chroma_gate.open()
    await store.upsert("space", ["a", "b"], BASIS[:2])
    assert [hit.id for hit in await store.search("space", BASIS[1], 1)] == ["b"]


async def test_connections_that_ended_meanwhile_are_made_anew(
    store: ChromaVectorStore, chroma_gate: Any
) -> None:
    await store.upsert("space", ["a", "b"], BASIS[:2])
    for _ in range(3):
        chroma_gate.cut()
        assert [hit.id for hit in await store.search("space", BASIS[1], 1)] == ["b"]


async def test_a_space_that_another_process_wrote_anew_is_found(chroma_server: str) -> None:
    name = f"tests-{uuid.uuid4().hex}"
    ours, theirs = (ChromaVectorStore(ChromaServer(chroma_server, "", name)) for _ in range(2))
    await ours.upsert("space", ["old"], BASIS[:1])
    await theirs.drop("space")
    assert await ours.search("space", BASIS[0], 3) == []
    await theirs.upsert("space", ["new"], BASIS[:1])
    assert [hit.id for hit in await ours.search("space", BASIS[0], 3)] == ["new"]
    await theirs.start_over()
    assert await ours.count("space") == 0
    for each in (ours, theirs):
        await each.close()


async def test_a_search_makes_one_request(chroma_server: str) -> None:
    server = ChromaServer(chroma_server, "", f"tests-{uuid.uuid4().hex}")
    store = ChromaVectorStore(server)
    await store.upsert("space", ["a", "b"], BASIS[:2])
    requests: list[str] = []
    server._session.event_hooks = {"request": [lambda each: requests.append(each.url.path)]}
    for _ in range(2):
        await store.search("space", BASIS[0], 5)
    assert [path.endswith("/query") for path in requests] == [True, True]
    await store.start_over()
    await store.close()


async def test_large_rows_are_sent_in_parts(
    store: ChromaVectorStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = chroma_server_module.ServerLimits(request_bytes=100, listed=3)
    monkeypatch.setattr(chroma_server_module, "LIMITS", limits)
    rows = np.random.default_rng(0).standard_normal((41, 8)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    ids = [f"e{number}" for number in range(41)]
    await store.upsert("space", ids, rows)
    assert sorted(await store.ids("space")) == sorted(ids)
    found = await store.fetch("space", ids)
    assert all(np.array_equal(found[id_], row) for id_, row in zip(ids, rows, strict=True))
    for number in range(5):
        await store.upsert(f"space-{number}", ["a"], BASIS[:1])
    assert len(await store.spaces()) == 6


# --- what is no Chroma server, or one that refuses --------------------------------------------


@contextmanager
def web_server(status: int, body: bytes, seen: list[tuple[str, str]]) -> Iterator[str]:
    """A server on loopback that answers everything alike, and notes the tokens that it got."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append((self.headers["Authorization"], self.headers["X-Chroma-Token"]))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("status", "body", "kind", "told"),
    [
        (401, b"", StoreUnreachable, r"refuses access \(it answers 401.*LEANRAG_CHROMA_TOKEN"),
        (403, b'{"error": "AuthError"}', StoreUnreachable, "LEANRAG_CHROMA_TOKEN"),
        (503, b"", StoreUnreachable, "answers 503 Service Unavailable"),
        (404, b"<html>", StoreUnreachable, "not how a Chroma server answers"),
        (200, b"<html>", StoreUnreachable, "not that of a Chroma server"),
        (
            500,
            b'{"error": "InternalError", "message": "disk I/O"}',
            StoreUnusable,
            r"disk I/O.*no data is lost",
        ),
    ],
)
async def test_what_answers_otherwise_is_told(
    status: int, body: bytes, kind: type[StoreUnusable], told: str
) -> None:
    seen: list[tuple[str, str]] = []
    with web_server(status, body, seen) as address:
        store = ChromaVectorStore(ChromaServer(address.replace("//", "//user:word@"), "", "leanrag-x"))
        with pytest.raises(StoreUnusable, match=told) as caught:
            await store.count("space")
        assert type(caught.value) is kind
        assert address in str(caught.value)
        assert "word" not in str(caught.value)
        await store.close()


async def test_the_token_is_sent_both_ways() -> None:
    seen: list[tuple[str, str]] = []
    with web_server(503, b"", seen) as address:
        store = ChromaVectorStore(ChromaServer(address, "s3cret", "leanrag-x"))
        with pytest.raises(StoreUnreachable) as caught:
            await store.spaces()
        assert "s3cret" not in str(caught.value)
        await store.close()
    assert seen == [("Bearer s3cret", "s3cret")]
