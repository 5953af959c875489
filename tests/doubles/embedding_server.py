"""An embedding service for tests: a real OpenAI-compatible HTTP server on loopback whose vectors depend on the text alone."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any

import numpy as np


def vector_of(text: str, dimension: int, meanings: Mapping[str, str] = MappingProxyType({})) -> list[float]:
    """A vector that depends on the text alone: words add up, so that texts that share words are near.

    A word counts as what ``meanings`` has for it: so words of two languages can mean the same. "" counts nothing.
    """
    row = np.zeros(dimension)
    for word in re.findall(r"\w+", text.lower()):
        meaning = meanings.get(word, word)
        if not meaning:
            continue
        seed = int.from_bytes(hashlib.blake2b(meaning.encode(), digest_size=4).digest())
        row += np.random.default_rng(seed).standard_normal(dimension)
    return (3 * row).tolist()


@dataclass(frozen=True)
class Failure:
    """An answer that is none."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    message: str = "no"
    code: str = ""


class EmbeddingServer:
    """``requests`` keeps the bodies that came in; ``failures`` are answered first, one after another."""

    # The kind of answer, so that a test needs nothing but the fixture.
    Failure = Failure

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.failures: list[Failure] = []
        self.dimension = 8
        self.meanings: dict[str, str] = {}
        self.change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]] = lambda rows: rows
        self.slow = threading.Event()
        self.slow.set()
        self.at_once = self.most_at_once = 0
        self._lock = threading.Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    def vector_of(self, text: str) -> list[float]:
        return vector_of(text, self.dimension, self.meanings)

    @property
    def texts(self) -> list[str]:
        return [text for request in self.requests for text in request["input"]]

    def close(self) -> None:
        self.slow.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def answer(self, request: dict[str, Any], key: str) -> tuple[int, dict[str, str], Any]:
        with self._lock:
            self.requests.append(request)
            self.keys.append(key)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            failure = self.failures.pop(0) if self.failures else None
        self.slow.wait(30)
        with self._lock:
            self.at_once -= 1
        if failure:
            error = {"message": failure.message, "type": "x", "code": failure.code or None}
            return failure.status, failure.headers, {"error": error}
        rows = [
            {"object": "embedding", "index": number, "embedding": self.vector_of(text)}
            for number, text in enumerate(request["input"])
        ]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return 200, {}, {"object": "list", "model": "m", "usage": usage, "data": self.change(rows)}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                key = self.headers.get("Authorization", "").removeprefix("Bearer ")
                status, headers, answer = (
                    service.answer(body, key) if self.path == "/v1/embeddings" else (404, {}, {})
                )
                data = json.dumps(answer).encode()
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", **headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                """Tests read requests, not logs."""

        return Handler


@contextmanager
def embedding_server() -> Iterator[EmbeddingServer]:
    server = EmbeddingServer()
    try:
        yield server
    finally:
        server.close()
