"""The worker of ``pool``: read work from standard input, write results to standard output, end when the input ends."""

import os
import pickle
import signal
import sys
import threading
from queue import SimpleQueue
from struct import Struct
from typing import IO

LENGTH = Struct(">Q")  # Before each message: its length in bytes


def main() -> None:
    # Where there are no sessions (Windows), Ctrl-C reaches this process too; the parent decides what ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests, results = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # What the work prints must not get between the results.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    received: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_receive, args=(requests, received), daemon=True).start()
    while True:
        answer = _answer(received)
        # Nothing that may be large is held twice: memory can be limited.
        results.write(LENGTH.pack(len(answer)))
        results.write(answer)
        results.flush()
        del answer


def _receive(requests: IO[bytes], received: SimpleQueue[bytes]) -> None:
    """Pass requests on. End the process, whatever it does, when there are no more, as the parent has gone, or no memory for one."""
    try:
        while len(header := requests.read(LENGTH.size)) == LENGTH.size:
            (length,) = LENGTH.unpack(header)
            received.put(requests.read(length))
    finally:
        os._exit(0)


def _answer(received: SimpleQueue[bytes]) -> bytes:
    try:
        work, value = pickle.loads(received.get())  # noqa: S301 - from the process that started this one
        return pickle.dumps((False, work(value, ignore_message)), pickle.HIGHEST_PROTOCOL)
    except Exception as problem:  # noqa: BLE001 - whatever it is, the parent raises it
        return pickle.dumps((True, problem), pickle.HIGHEST_PROTOCOL)


def ignore_message(_: str) -> None:
    """Discard messages of the work: only work in the calling process shows them."""


if __name__ == "__main__":
    main()
