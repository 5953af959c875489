"""What a build with a chat model takes and asks for: time against the ideal, calls against the forecast, after a
kill, for each setting. Prints one JSON line for each part.

Run it as ``python tests/programs/benchmarks/models.py [--chunks 400] [--seconds 0.5] [--concurrency 8] [--parts time,...]``.
The corpus is Python's language reference (``pydoc_data.topics``) and its library's, as far as it takes. The model is
the tests' chat server in a process of its own, reached through litellm. It extracts what the heuristic way finds, which
is about as much as a model does, and writes the rest as ``tests/doubles/scribe.py`` does: right in form, and shorter than
a model would.
"""

from __future__ import annotations

import argparse
import json
import pydoc
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import anyio

from leanrag_engine.adapters.tokenizer import TiktokenTokenizer
from leanrag_engine.core.config import load_settings
from leanrag_engine.core.jobs import BuildRequest, Job, JobStatus
from leanrag_engine.core.model import DocumentSource, LoadedDocument
from leanrag_engine.documents.chunking import chunk
from leanrag_engine.engine import LeanRAG

SERVERS = Path(__file__).parents[2] / "doubles"
MODULES = (
    "argparse",
    "logging",
    "datetime",
    "unittest.mock",
    "subprocess",
    "email.message",
    "turtle",
    "decimal",
)
PARTS = ("time", "forecast", "kill", "settings")
SETTLED = 0.5
"""Seconds within which a reply must be kept, on a machine with much else to do."""

WAIT = 3600
"""Seconds for one build."""

VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "gleaning 1": {"gleaning": 1},
    "llm_batch 1": {"llm_batch": 1},
    "llm_batch 2": {"llm_batch": 2},
    "llm_batch 8": {"llm_batch": 8},
    "tau 0": {"tau": 0},
    "tau 1": {"tau": 1},
    "tau 10": {"tau": 10},
    "tau auto, 20 calls a layer": {"tau": "auto", "relation_calls": 20},
}


# --- the model -----------------------------------------------------------------------------

SERVICE = """
import json, sys, time
from functools import lru_cache
sys.path.insert(0, sys.argv[1])
from chat_server import Answer, ChatServer
from scribe import tasks_of, work_of, write
from leanrag_engine.adapters.tokenizer import TiktokenTokenizer
from leanrag_engine.extraction.heuristic.extract import extract
from leanrag_engine.core.model import Chunk

tokenizer, seconds, served, spans = TiktokenTokenizer(), float(sys.argv[2]), ChatServer(), []

@lru_cache(None)
def extracted(shown):
    # Without its fence: the heuristics take fenced text for code.
    shown = "\\n".join(line for line in shown.splitlines() if not line.startswith("```"))
    (found,) = extract([Chunk("c", "d", 1, shown, 0, len(shown), 1)], "")
    return {
        "entities": [{"name": e.name, "type": e.type, "description": e.description} for e in found.entities],
        "relations": [
            {"source": r.source, "target": r.target, "description": r.description, "importance": 5}
            for r in found.relations
        ],
    }

@lru_cache(None)
def answered(prompt, work, tasks, otherwise):
    text = otherwise
    if work == "extract":
        text = json.dumps({"items": [{"task": number, **extracted(shown)} for number, shown in tasks]})
    return text, tuple(tokenizer.count_many([prompt, text]))

def script(request):
    began = time.monotonic()
    text, tokens = answered(request.prompt, work_of(request), tuple(tasks_of(request).items()), write(request))
    left = max(0.0, seconds - (time.monotonic() - began))
    spans.append((began, began + max(seconds, time.monotonic() - began), hash(request.prompt)))
    return Answer(text, tokens=tokens, seconds=left)

served.follows(script)
print(served.url, flush=True)
for _ in sys.stdin:
    seen = [[work_of(each), hash(each.prompt)] for each in served.requests]
    found = {"seen": seen, "spans": spans, "most_at_once": served.most_at_once, "now": time.monotonic()}
    print(json.dumps(found), flush=True)
"""


class Service:
    """The chat server in its own process: it must not share an interpreter with what is measured."""

    def __init__(self, seconds: float) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", SERVICE, str(SERVERS), str(seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.url = self._line()

    def seen(self) -> list[tuple[str, int]]:
        """The work and a hash of the prompt of each request so far."""
        return [(work, prompt) for work, prompt in self._asked()["seen"]]

    def most_at_once(self) -> int:
        return int(self._asked()["most_at_once"])

    def answered(self) -> set[int]:
        """Hashes of the prompts that were answered ``SETTLED`` seconds ago or earlier."""
        told = self._asked()
        return {prompt for _, ended, prompt in told["spans"] if ended < told["now"] - SETTLED}

    def asked_seconds(self) -> float:
        """How long at least one request was under way."""
        total, end = 0.0, 0.0
        for began, ended, _ in sorted(self._asked()["spans"]):
            total += max(0.0, ended - max(began, end))
            end = max(end, ended)
        return total

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _asked(self) -> dict[str, Any]:
        assert self._process.stdin
        self._process.stdin.write("?\n")
        self._process.stdin.flush()
        found: dict[str, Any] = json.loads(self._line())
        return found

    def _line(self) -> str:
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, "the service ended without a word"
        return line.strip()


@contextmanager
def service(seconds: float) -> Iterator[Service]:
    opened = Service(seconds)
    try:
        yield opened
    finally:
        opened.close()


# --- the corpus ----------------------------------------------------------------------------


def texts() -> Iterator[tuple[str, str]]:
    """Names and texts: the language reference, then modules of the library."""
    yield from sorted(topics.items())
    for name in MODULES:
        yield name, pydoc.plain(pydoc.plaintext.document(import_module(name)))


def documents(chunks: int) -> tuple[list[DocumentSource], int]:
    """As many texts as hold about so many chunks, and how many these are."""
    tokenizer, taken, count = TiktokenTokenizer(), [], 0
    settings = load_settings()
    for name, text in texts():
        loaded = LoadedDocument(name, name, text, "text/plain")
        parts = chunk(
            loaded, tokenizer=tokenizer, max_tokens=settings.chunk_tokens, overlap=settings.chunk_overlap
        )
        if count >= chunks:
            break
        taken.append(DocumentSource(text=text, title=name, id=name))
        count += len(parts)
    return taken, count


async def ended(engine: LeanRAG, job: Job) -> Job:
    job = await engine.job(job.id, wait_seconds=WAIT)
    assert job.status is JobStatus.DONE, job.message
    return job


async def ingest(folder: Path, sources: Sequence[DocumentSource]) -> None:
    async with await LeanRAG.open(load_settings(data_dir=folder)) as engine:
        await ended(engine, await engine.submit_ingest(sources, build=False))


@contextmanager
def copied(folder: Path) -> Iterator[Path]:
    """The ingested corpus anew: what a part builds is no other part's."""
    with tempfile.TemporaryDirectory() as scratch:
        yield Path(shutil.copytree(folder, Path(scratch) / "data"))


def opening(folder: Path, model: Service, **settings: Any) -> Any:
    """The engine with the service as its chat model."""
    given = {"embedder": "fitted", "llm_model": "openai/tiny", "llm_api_base": model.url, **settings}
    return LeanRAG.open(load_settings(data_dir=folder, **given))


async def build(engine: LeanRAG, *, dry_run: bool = False, **order: Any) -> tuple[dict[str, Any], float]:
    """The job's result, and its seconds."""
    started = time.perf_counter()
    job = await ended(engine, await engine.submit_build(order=BuildRequest(**order), dry_run=dry_run))
    return job.result.figures() if job.result else {}, time.perf_counter() - started


async def spent(engine: LeanRAG) -> dict[str, tuple[int, int, int]]:
    """Calls, input and output tokens by step."""
    rows = (await engine.status()).spent
    return {each.step: (each.calls, each.prompt_tokens, each.completion_tokens) for each in rows}


def summed(rows: dict[str, tuple[int, int, int]]) -> list[int]:
    return [sum(each[place] for each in rows.values()) for place in range(3)]


# --- the parts -----------------------------------------------------------------------------


async def timed(folder: Path, chunks: int, options: argparse.Namespace) -> dict[str, Any]:
    """A whole build against its calls' own time, and a second one. Without a model it takes ``own_seconds``."""
    with copied(folder) as plain:
        async with await LeanRAG.open(load_settings(data_dir=plain, embedder="fitted")) as engine:
            _, own = await build(engine)
    with copied(folder) as data, service(options.seconds) as model:
        async with await opening(data, model, llm_concurrency=options.concurrency) as engine:
            foreseen, _ = await build(engine, dry_run=True)
            worked = time.process_time()
            _, seconds = await build(engine)
            worked = time.process_time() - worked
            first = Counter(work for work, _ in model.seen())
            _, again = await build(engine)
            second = len(model.seen()) - first.total()
            used = await spent(engine)
        ideal = first.total() * options.seconds / options.concurrency
        asked = model.asked_seconds()
        return {
            "part": "time",
            "chunks": chunks,
            "calls": dict(first),
            "calls_at_once": model.most_at_once(),
            "seconds": round(seconds, 1),
            "ideal_seconds": round(ideal, 1),
            "share_of_ideal": round(ideal / seconds, 3),
            "share_while_asking": round(ideal / asked, 3),
            "own_seconds": round(own, 1),
            "processor_seconds": round(worked, 1),
            "share_of_ideal_and_own": round((ideal + own) / seconds, 3),
            "forecast_calls": foreseen["calls"],
            "calls_made": first.total(),
            "calls_of_a_second_build": second,
            "seconds_of_a_second_build": round(again, 1),
            "spent": used,
        }


async def forecast(folder: Path, chunks: int, options: argparse.Namespace) -> dict[str, Any]:
    """What a dry run says before extraction and after it, against what the rest of the build then uses."""
    del options
    with copied(folder) as data, service(0) as model:
        async with await opening(data, model) as engine:
            before, _ = await build(engine, dry_run=True)
            reading = next(row for row in before["steps"] if row["step"] == "extract")["calls"][0]
            await build(engine, max_calls=reading)
            read = summed(await spent(engine))
            after, _ = await build(engine, dry_run=True)
            await build(engine)
            whole = summed(await spent(engine))
        rest = [now - then for now, then in zip(whole, read, strict=True)]
        figures = ("calls", "input_tokens", "output_tokens")
        return {
            "part": "forecast",
            "chunks": chunks,
            "before": {name: before[name] for name in figures},
            "whole_build": dict(zip(figures, whole, strict=True)),
            "after_extraction": {name: after[name] for name in figures},
            "rest_of_the_build": dict(zip(figures, rest, strict=True)),
            "deviation": {
                name: round(after[name][0] / used - 1, 3)
                for name, used in zip(figures, rest, strict=True)
                if used
            },
            "guessed": after["guessed"],
        }


KILLED = """
import anyio, sys
from pathlib import Path
from leanrag_engine.core.config import load_settings
from leanrag_engine.engine import LeanRAG

async def work():
    settings = load_settings(data_dir=Path(sys.argv[1]), embedder="fitted", llm_model="openai/tiny", llm_api_base=sys.argv[2])
    async with await LeanRAG.open(settings) as engine:
        job = await engine.submit_build()
        await engine.job(job.id, wait_seconds=3600)

anyio.run(work)
"""


async def killed(folder: Path, chunks: int, options: argparse.Namespace) -> dict[str, Any]:
    """A build that is killed three times on its way, each time at another step, and goes on."""
    with copied(folder) as data, service(options.seconds / 5) as model:
        kills: list[tuple[int, set[int]]] = []
        under_way = 0
        for share in (0.2, 0.5, 0.9):
            goal = share * chunks / 3
            child = subprocess.Popen([sys.executable, "-P", "-c", KILLED, str(data), model.url])
            while len(model.seen()) < goal and child.poll() is None:
                await anyio.sleep(0.05)
            answered, before = model.answered(), len(model.seen())
            child.kill()
            child.wait()
            under_way += before - len(answered)
            kills.append((before, answered))
        async with await opening(data, model) as engine:
            for job in await engine.resume_jobs():
                await ended(engine, job)
            recorded = summed(await spent(engine))[0]
        prompts = [prompt for _, prompt in model.seen()]
        repeated = sum(prompt in answered for before, answered in kills for prompt in prompts[before:])
        asked = Counter(prompts)
        return {
            "part": "kill",
            "chunks": chunks,
            "calls": asked.total(),
            "different_calls": len(asked),
            "replies_kept": recorded,
            "answered_and_asked_again": repeated,
            "asked_again": asked.total() - len(asked),
            "under_way_when_killed": under_way,
        }


async def settings(folder: Path, chunks: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Calls and tokens for 1,000 chunks of text."""
    del options
    found = []
    for name, variant in VARIANTS.items():
        with copied(folder) as data, service(0) as model:
            async with await opening(data, model, **variant) as engine:
                await build(engine)
                used = await spent(engine)
        scale = 1000 / chunks
        calls, asked, said = (round(scale * each) for each in summed(used))
        found.append(
            {
                "part": "settings",
                "variant": name,
                "calls": calls,
                "input_tokens": asked,
                "output_tokens": said,
                "by_step": {step: [round(scale * each) for each in row] for step, row in used.items()},
            }
        )
        print(json.dumps(found[-1]), flush=True)
    return []


async def main(options: argparse.Namespace) -> None:
    work = {"time": timed, "forecast": forecast, "kill": killed, "settings": settings}
    sources, chunks = documents(options.chunks)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "corpus"
        await ingest(folder, sources)
        for part in options.parts.split(","):
            found = await work[part](folder, chunks, options)
            for line in found if isinstance(found, list) else [found]:
                print(json.dumps(line), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=400)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--parts", default=",".join(PARTS))
    anyio.run(main, parser.parse_args())
