"""A real Chroma server on loopback, and a gate before it that can be shut: then nothing answers at its address."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

# What the command `chroma` runs, without what it imports first for a second.
RUN = "import sys; from chromadb_rust_bindings import cli; cli(['chroma', 'run', *sys.argv[1:]])"


@contextmanager
def chroma_server(folder: Path) -> Iterator[str]:
    """Yield the address of the server that LEANRAG_TESTS_CHROMA names, else of one of our own in ``folder``."""
    if given := os.environ.get("LEANRAG_TESTS_CHROMA"):
        yield given
        return
    port = free_port()
    command = [
        sys.executable,
        "-P",
        "-c",
        RUN,
        "--path",
        str(folder),
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}"
    try:
        while not answers(address):
            assert process.poll() is None, (folder / "log").read_text()
            time.sleep(0.05)
        yield address
    finally:
        process.kill()
        process.wait()


def answers(address: str) -> bool:
    try:
        with urlopen(f"{address}/api/v2/heartbeat") as answer:  # noqa: S310 - our own address
            return bool(answer.status == 200)
    except URLError:
        return False


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class Gate:
    """Passes connections on to a server until it is shut; then those that are open end, and new ones are refused."""

    def __init__(self, server: str) -> None:
        parts = urlsplit(server)
        self._server = (parts.hostname or "", parts.port or 80)
        self._port = free_port()
        self.address = f"http://127.0.0.1:{self._port}"
        self._listening: socket.socket | None = None
        self._connections: list[socket.socket] = []

    def open(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", self._port))
        threading.Thread(target=self._accept, args=(self._listening,), daemon=True).start()

    def shut(self) -> None:
        if self._listening is not None:
            end(self._listening)
            self._listening = None
        self.cut()

    def cut(self) -> None:
        """End the connections that are open."""
        while self._connections:
            end(self._connections.pop())

    def _accept(self, listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                server = socket.create_connection(self._server)
                self._connections += [client, server]
                for source, target in ((client, server), (server, client)):
                    threading.Thread(target=pass_on, args=(source, target), daemon=True).start()


def pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    end(target)


def end(connection: socket.socket) -> None:
    # Closing alone does not wake a thread that waits for it.
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


@contextmanager
def gate(server: str) -> Iterator[Gate]:
    made = Gate(server)
    made.open()
    try:
        yield made
    finally:
        made.shut()
