"""Call a Chroma server over its HTTP interface (version 2; tried with chromadb 1.5.9), in a Chroma database
of our own. Chroma's own client imports for a second what we do not use."""

import base64
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from time import monotonic
from typing import Any, TypeVar
from urllib.parse import quote

import httpx2
import numpy as np

from leanrag_engine.core.errors import StoreUnreachable, StoreUnusable
from leanrag_engine.core.model import Vectors

from .index import CONFIGURATION, Index, Space, is_full

T = TypeVar("T")

TENANT = "/api/v2/tenants/default_tenant/databases"
CONNECT_SECONDS, ANSWER_SECONDS = 3, 20
"""A tool call must end within 45 s, also when the server takes a query and says nothing."""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """How much one request to a Chroma server may ask, and how long a silent server is left alone."""

    silent_seconds: int = 30  # How long a server that did not answer is not asked again
    request_bytes: int = 8_000_000  # Most bytes of vectors in one request: Chroma refuses requests of more than 40 MB, proxies often less
    listed: int = 10_000  # Ids in one reply


LIMITS = ServerLimits()


_UNAVAILABLE = {429, 502, 503, 504}


class _SpaceGone(Exception):
    """Chroma has no collection of the id that we remembered: another process dropped it."""


class ChromaServer:
    """A :class:`.index.ChromaClient` of our own database ``name`` on the server at ``url``. Threads may share it."""

    def __init__(self, url: str, token: str, name: str) -> None:
        address = httpx2.URL(url)
        self._shown = str(address.copy_with(userinfo=b"")).rstrip("/")
        self._name = name
        headers = {"Authorization": f"Bearer {token}", "X-Chroma-Token": token} if token else {}
        self._session = httpx2.Client(
            base_url=address, headers=headers, timeout=httpx2.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS)
        )
        self._spaces: dict[str, Space] = {}
        self._spaces_lock = threading.Lock()
        self._silent_until = 0.0

    # --- the connection of a store --------------------------------------------------------

    def run(self, work: Callable[[Index], T]) -> T:
        """Run ``work``, perhaps twice. Raises ``StoreUnreachable`` without answer or access, ``StoreUnusable`` for an error."""
        try:
            return work(Index(self))
        except _SpaceGone:
            self.refresh()
        try:
            return work(Index(self))
        except _SpaceGone as problem:
            raise self._unusable(str(problem)) from problem

    def start_over(self) -> None:
        """Delete all our spaces with their database; the next write makes it again."""
        with self._reporting_errors():
            answer = self._send("DELETE", f"{TENANT}/{self._name}")
            if answer.status_code != httpx2.codes.NOT_FOUND:
                self._check(answer)
        self.refresh()

    def refresh(self) -> None:
        with self._spaces_lock:
            self._spaces.clear()

    def close(self) -> None:
        self._session.close()

    # --- spaces ---------------------------------------------------------------------------

    def list_names(self) -> set[str]:
        names: set[str] = set()
        start = 0
        while page := self._call("GET", f"collections?limit={LIMITS.listed}&offset={start}"):
            names.update(each["name"] for each in page)
            start += len(page)
        return names

    def find(self, space: str) -> Space | None:
        with self._spaces_lock:
            held = self._spaces.get(space)
        try:
            return held or self._remember(space, self._call("GET", f"collections/{quote(space)}"))
        except _SpaceGone:
            return None

    def recall(self, space: str) -> Space | None:  # noqa: ARG002 - of a folder only: another machine may write to a server
        return None

    def create(self, space: str, dimension: int) -> Space:
        with self._reporting_errors():
            answer = self._send("POST", TENANT, {"name": self._name})
            if answer.status_code != httpx2.codes.CONFLICT:  # it exists
                self._check(answer)
        wanted = {
            "name": space,
            "metadata": {"dimension": dimension},
            "configuration": CONFIGURATION,
            "get_or_create": True,
        }
        return self._remember(space, self._call("POST", "collections", wanted))

    def drop(self, space: str) -> None:
        self._call("DELETE", f"collections/{quote(space)}")
        with self._spaces_lock:
            self._spaces.pop(space, None)

    def is_broken(self, _: str) -> bool:
        return False  # the server writes its files, not the process that was killed

    def reading(self, _: str) -> AbstractContextManager[None]:
        return nullcontext()

    writing = reading

    def _remember(self, space: str, found: Any) -> Space:
        made = Space(found["id"], found["metadata"]["dimension"])
        with self._spaces_lock:
            self._spaces[space] = made
        return made

    # --- rows -----------------------------------------------------------------------------

    def upsert(self, space: Space, ids: Sequence[str], rows: Vectors) -> None:
        # Each part has two rows or more, see `Index.upsert`.
        parts = max(1, min(len(ids) // 2, -(-rows.nbytes // LIMITS.request_bytes)))
        for part in np.array_split(np.arange(len(ids)), parts):
            encoded = [
                base64.b64encode(row).decode("ascii")
                for row in np.asarray(rows[part], dtype="<f4", order="C")
            ]
            sent = {"ids": [ids[place] for place in part], "embeddings": encoded}
            self._call("POST", f"collections/{space.id}/upsert", sent)

    def find_nearest(self, space: Space, query: Vectors, limit: int) -> list[tuple[str, float]]:
        sent = {"query_embeddings": query.tolist(), "n_results": limit, "include": ["distances"]}
        found = self._call("POST", f"collections/{space.id}/query", sent)
        # Chroma writes as few digits as tell one float32 from the next.
        distances = np.asarray(found["distances"][0], dtype=np.float32).tolist()
        return list(zip(found["ids"][0], distances, strict=True))

    def fetch(self, space: Space, ids: Sequence[str]) -> tuple[list[str], Vectors]:
        sent = {"ids": list(ids), "include": ["embeddings"]}
        found = self._call("POST", f"collections/{space.id}/get", sent)
        return found["ids"], np.asarray(found["embeddings"], dtype=np.float32)

    def list_ids(self, space: Space, ids: Sequence[str] | None = None) -> list[str]:
        sent: dict[str, Any] = {"include": []}
        if ids is not None:
            return list(self._call("POST", f"collections/{space.id}/get", sent | {"ids": list(ids)})["ids"])
        held: list[str] = []
        while True:
            page = sent | {"limit": LIMITS.listed, "offset": len(held)}
            found = self._call("POST", f"collections/{space.id}/get", page)["ids"]
            held += found
            if len(found) < LIMITS.listed:
                return held

    def delete(self, space: Space, ids: Sequence[str]) -> None:
        self._call("POST", f"collections/{space.id}/delete", {"ids": list(ids)})

    def count(self, space: Space) -> int:
        return int(self._call("GET", f"collections/{space.id}/count"))

    # --- requests -------------------------------------------------------------------------

    def _call(self, method: str, path: str, content: Any = None) -> Any:
        """Return the answer to a request within our database. Raises ``_SpaceGone`` if it is not there."""
        with self._reporting_errors():
            answer = self._send(method, f"{TENANT}/{self._name}/{path}", content)
            self._check(answer)
            return answer.json()

    def _send(self, method: str, path: str, content: Any = None) -> httpx2.Response:
        if monotonic() < self._silent_until:
            raise self._unreachable(
                f"it did not answer in time, and is not asked for {LIMITS.silent_seconds} s"
            )
        body = None if content is None else json.dumps(content).encode()
        headers = {"Content-Type": "application/json"}
        try:
            return self._session.request(method, path, content=body, headers=headers)
        except httpx2.TimeoutException:
            self._silent_until = monotonic() + LIMITS.silent_seconds
            raise
        except httpx2.ConnectError:
            raise
        except httpx2.TransportError:
            # A restart of the server closes the connections that we kept. Each request may be made twice.
            return self._session.request(method, path, content=body, headers=headers)

    def _check(self, answer: httpx2.Response) -> None:
        """Raise what an error answer means."""
        if answer.is_success:
            return
        try:
            told = answer.json()
            kind, message = told["error"], str(told.get("message", ""))
        except (ValueError, KeyError, TypeError, AttributeError):
            kind, message = "", ""
        status = f"it answers {answer.status_code} {answer.reason_phrase}".strip()
        if answer.status_code in {httpx2.codes.UNAUTHORIZED, httpx2.codes.FORBIDDEN}:
            raise StoreUnreachable(
                f"The Chroma server at {self._shown} refuses access ({status}).",
                "Set LEANRAG_CHROMA_TOKEN to its token.",
            )
        if answer.status_code in _UNAVAILABLE:
            raise self._unreachable(status)
        if not kind:
            raise self._unreachable(f"{status}, which is not how a Chroma server answers")
        if answer.status_code == httpx2.codes.NOT_FOUND:
            raise _SpaceGone(message)
        if is_full(message):
            raise self._unreachable("its disk is full")
        raise self._unusable(message or status)

    @contextmanager
    def _reporting_errors(self) -> Iterator[None]:
        try:
            yield
        except httpx2.TransportError as problem:
            reason = "no answer in time" if isinstance(problem, httpx2.TimeoutException) else str(problem)
            raise self._unreachable(reason or type(problem).__name__) from problem
        except ValueError as problem:  # an answer that is no JSON
            raise self._unreachable("its answer is not that of a Chroma server") from problem

    def _unreachable(self, reason: str) -> StoreUnreachable:
        return StoreUnreachable(
            f"The Chroma server at {self._shown} cannot be reached ({reason}).",
            "Start it, or correct LEANRAG_CHROMA_URL; no data is lost.",
        )

    def _unusable(self, reason: str) -> StoreUnusable:
        return StoreUnusable(
            f"The vector index on the Chroma server at {self._shown} cannot be used ({reason}).",
            "If it is damaged, rebuild the vector index from the graph store; no data is lost.",
        )
