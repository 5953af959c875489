"""Times spawn -> ``tools/list`` of this server against a bare SDK server with one tool, in pairs.

Prints one JSON line: medians in seconds and their ratio (asked: at most 1.3).
Run: ``python tests/programs/benchmarks/startup.py [pairs]``.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time

BARE = """
from mcp.server.mcpserver import MCPServer
server = MCPServer("bare")
@server.tool()
def add(a: int, b: int) -> int:
    return a + b
server.run("stdio")
"""

HANDSHAKE = [
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "benchmark", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
]


def seconds_to_tools(command: list[str]) -> float:
    """From spawn to the reply that lists at least one tool."""
    started = time.perf_counter()
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert child.stdin is not None
    assert child.stdout is not None
    for message in HANDSHAKE:
        child.stdin.write(json.dumps(message) + "\n")
    child.stdin.flush()
    for line in child.stdout:
        reply = json.loads(line)
        if reply.get("id") == 2:
            assert reply["result"]["tools"]
            break
    elapsed = time.perf_counter() - started
    child.stdin.close()
    child.kill()
    child.wait()
    return elapsed


def main(pairs: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ours = [sys.executable, "-P", "-m", "leanrag_mcp", "serve", "--data-dir", folder]
        bare = [sys.executable, "-P", "-c", BARE]
        seconds_to_tools(ours), seconds_to_tools(bare)  # the first run fills the disk cache
        timed = [(seconds_to_tools(ours), seconds_to_tools(bare)) for _ in range(pairs)]
    ours_median = statistics.median(ours for ours, _ in timed)
    bare_median = statistics.median(bare for _, bare in timed)
    ratio = statistics.median(ours / bare for ours, bare in timed)
    print(
        json.dumps(
            {
                "ours_s": round(ours_median, 3),
                "bare_s": round(bare_median, 3),
                "ratio": round(ratio, 3),
                "pairs": pairs,
            }
        )
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
