"""A language model's service for tests: a real OpenAI-compatible HTTP server on loopback that answers from a script.

A script is a sequence of answers, given one after another (the last one for ever), or a function from
the request to its answer. The server keeps every request, so that a test can say what was asked.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKENS = (100, 20)
"""Prompt and completion tokens that every answer claims to have used, unless it says otherwise."""


@dataclass(frozen=True, eq=False)
class Request:
    """One call as it came in: the JSON body and the headers (names in lower case)."""

    body: Mapping[str, Any]
    headers: Mapping[str, str]

    @property
    def prompt(self) -> str:
        """The text of all messages."""
        return "\n".join(str(message["content"]) for message in self.body["messages"])

    @property
    def last(self) -> str:
        """The text of the last message."""
        return str(self.body["messages"][-1]["content"])


@dataclass(frozen=True)
class Answer:
    """What the server does with a request. ``body`` replaces the whole reply; ``seconds`` is how long it takes."""

    text: str | None = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    finish_reason: str = "stop"
    refusal: str | None = None
    body: str | None = None
    tokens: tuple[int, int] | None = TOKENS
    seconds: float = 0
    stalls: bool = False
    hangs_up: bool = False


Script = Callable[[Request], Answer]


class ChatServer:
    """The server as a test sees it: where it is, what it was asked, and what it answers."""

    # The kinds of answers, so that a test needs nothing but the fixture.
    Answer = Answer

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.most_at_once = 0
        self.released = threading.Event()
        self._now = 0
        self._lock = threading.Lock()
        self._script: Script = lambda _: Answer("Hello.")
        self._server = LoopbackServer(("127.0.0.1", 0), handler_for(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """What a client gives as the base URL."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def calls(self) -> int:
        return len(self.requests)

    def says(self, *answers: Answer | str) -> None:
        """Answer with these in turn, and with the last of them for ever."""
        given = [Answer(each) if isinstance(each, str) else each for each in answers]
        first = self.calls
        self._script = lambda request: given[min(self.requests.index(request) - first, len(given) - 1)]

    def follows(self, script: Callable[[Request], Answer | str]) -> None:
        """Answer as the function says; it may be called from several threads at once."""

        def answer(request: Request) -> Answer:
            given = script(request)
            return Answer(given) if isinstance(given, str) else given

        self._script = answer

    def answer(self, request: Request) -> Answer:
        with self._lock:
            self.requests.append(request)
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        try:
            answer = self._script(request)
            if answer.stalls:
                self.released.wait(60)
            time.sleep(answer.seconds)
            return answer
        finally:
            with self._lock:
                self._now -= 1

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    # --- kinds of answers -----------------------------------------------------------------

    @staticmethod
    def failed(status: int, message: str = "something broke", **headers: str) -> Answer:
        body = json.dumps({"error": {"message": message, "type": "server_error", "code": None}})
        return Answer(status=status, headers={k.replace("_", "-"): v for k, v in headers.items()}, body=body)

    @classmethod
    def rate_limited(cls, retry_after: str = "") -> Answer:
        return cls.failed(429, "Rate limit reached", **({"retry_after": retry_after} if retry_after else {}))

    @staticmethod
    def cut_off(text: str) -> Answer:
        return Answer(text, finish_reason="length")

    @staticmethod
    def refused(words: str = "I can't help with that.") -> Answer:
        return Answer(None, refusal=words)

    @staticmethod
    def stalled() -> Answer:
        """An answer that does not come while the test lasts."""
        return Answer(stalls=True)

    @staticmethod
    def hung_up() -> Answer:
        """The connection is closed without a word."""
        return Answer(hangs_up=True)


class LoopbackServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no error; one of a script is, and is printed."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def completion(request: Request, answer: Answer) -> str:
    """The JSON of a chat completion."""
    message = {"role": "assistant", "content": answer.text}
    if answer.refusal is not None:
        message["refusal"] = answer.refusal
    reply: dict[str, Any] = {
        "id": "chatcmpl-test",
        "object": "chat.completion",
        "created": 0,
        "model": request.body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": answer.finish_reason}],
    }
    if answer.tokens is not None:
        asked, said = answer.tokens
        reply["usage"] = {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}
    return json.dumps(reply)


def handler_for(server: ChatServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path != "/v1/chat/completions":
                self.reply(404, {}, json.dumps({"error": {"message": f"no such path: {self.path}"}}))
                return
            request = Request(json.loads(body), {k.lower(): v for k, v in self.headers.items()})
            answer = server.answer(request)
            if answer.hangs_up:
                self.close_connection = True
                return
            text = completion(request, answer) if answer.body is None else answer.body
            self.reply(answer.status, answer.headers, text)

        def reply(self, status: int, headers: Mapping[str, str], text: str) -> None:
            data = text.encode()
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            with suppress(BrokenPipeError, ConnectionResetError):  # the client had no more patience
                self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Tests read requests, not logs."""

    return Handler


@contextmanager
def chat_server() -> Iterator[ChatServer]:
    server = ChatServer()
    try:
        yield server
    finally:
        server.close()
