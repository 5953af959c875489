"""Find dials that change nothing: each numeric option doubled and halved, on one question set.

    python tests/programs/benchmarks/dials.py QUESTIONS.json [--documents FOLDER] [--limit N] [--only NAME ...] [--json]

A dial is a numeric field of a frozen dataclass of the engine whose name ends in ``Options``. Options of the package
``retrieval`` act on queries: all of them share one build, and the figures are recall, MRR, coverage and tokens of the
contexts. Options of a build are compared by what their stage makes of the passages, or of the files in ``--documents``:
how many chunks, extracts, rows of the fitted embedder, entities and relations above G0 differ. Without a difference
there, no later figure can differ. Options that only a model's work, an update or a search by name reads are left out. Times are
not compared. A corpus that does not exercise a dial (no CJK text, no long word) makes it look dead.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import pkgutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import anyio

import leanrag_engine
from leanrag_engine.adapters.embedders.fitted import FittedEmbedderSource
from leanrag_engine.adapters.tokenizer import TiktokenTokenizer
from leanrag_engine.core.config import Settings
from leanrag_engine.core.graphs.graph import Graph
from leanrag_engine.core.model import Chunk, DocumentSource, Extract, LoadedDocument
from leanrag_engine.core.ports import Embedder, Progress
from leanrag_engine.documents.chunking import chunk
from leanrag_engine.documents.loading import expand, load
from leanrag_engine.evaluation.datasets import QuestionSet, read_set
from leanrag_engine.evaluation.retrieval.run import Strategy, ask_all, figures_of
from leanrag_engine.evaluation.scratch import open_scratch, scratch_settings
from leanrag_engine.extraction.heuristic.extract import extract
from leanrag_engine.extraction.merging import ExtractSource, merge_source
from leanrag_engine.hierarchy.build import HierarchyOptions, build
from leanrag_engine.retrieval.query import Query

STAGES = (
    ("leanrag_engine.retrieval.", "query"),
    ("leanrag_engine.documents.", "chunks"),
    ("leanrag_engine.extraction.heuristic.", "extracts"),
    ("leanrag_engine.adapters.embedders.fitted", "embedder"),
    ("leanrag_engine.hierarchy.by_model.", ""),
    ("leanrag_engine.hierarchy.changes.", ""),
    ("leanrag_engine.hierarchy.", "hierarchy"),
)
"""What reads the options of a module, by the beginning of its name; the first that fits."""

BUDGETS = (1000, 4000)
MODES = ("lca", "local", "global")
TIMES = ("latency_ms_p50", "latency_ms_p95", "build_s")
FACTOR = 2.0

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Dial:
    """One numeric field of an options class, and its default."""

    owner: type
    field: str
    default: float

    @property
    def name(self) -> str:
        return f"{self.owner.__name__}.{self.field}"

    @property
    def stage(self) -> str:
        """What reads it: ``query``, a stage of a build, or "" for what this program does not measure."""
        return next((stage for start, stage in STAGES if self.owner.__module__.startswith(start)), "")

    def values(self) -> tuple[float, ...]:
        """The default times and divided by two; a share stays below 1, a count at 1 or more."""
        if isinstance(self.default, int):
            return tuple(dict.fromkeys((self.default * 2, max(1, self.default // 2))))
        up = self.default * FACTOR
        if 0 < self.default < 1 <= up:
            up = 1 - (1 - self.default) / FACTOR
        return up, self.default / FACTOR


def find_dials() -> list[Dial]:
    """The dials of every options class of the engine, by name."""
    found: dict[str, Dial] = {}
    for module in pkgutil.walk_packages(leanrag_engine.__path__, "leanrag_engine."):
        if "migrations" in module.name:
            continue  # a migration can only be imported while it runs
        for each in vars(importlib.import_module(module.name)).values():
            if isinstance(each, type) and is_options(each):
                for field in fields(each):
                    if type(field.default) in (int, float) and field.default:
                        dial = Dial(each, field.name, field.default)
                        found[dial.name] = dial
    return [found[name] for name in sorted(found)]


def is_options(kind: type) -> bool:
    return is_dataclass(kind) and kind.__name__.endswith("Options")


@contextmanager
def turn_dial(dial: Dial, value: float) -> Iterator[None]:
    """Give the field another value in every instance that has the default, and in those that are made meanwhile.

    Default instances are bound to parameters when modules are imported: replacing a module's attribute would not
    reach them, so that the frozen instances themselves are changed.
    """
    init: Any = dial.owner.__init__  # type: ignore[misc] # of a class, not of an instance
    positional, keyword = init.__defaults__, init.__kwdefaults__
    names = [each.name for each in fields(dial.owner) if each.init and not each.kw_only]
    if positional:
        with_default = names[len(names) - len(positional) :]
        init.__defaults__ = tuple(
            value if name == dial.field else given
            for name, given in zip(with_default, positional, strict=True)
        )
    if keyword and dial.field in keyword:
        init.__kwdefaults__ = {**keyword, dial.field: value}
    instances = [
        each
        for each in gc.get_objects()
        if type(each) is dial.owner and getattr(each, dial.field) == dial.default
    ]
    for each in instances:
        object.__setattr__(each, dial.field, value)
    try:
        yield
    finally:
        init.__defaults__, init.__kwdefaults__ = positional, keyword
        for each in instances:
            object.__setattr__(each, dial.field, dial.default)


def numbers_in(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Every number in nested values, with its path."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from numbers_in(each, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for place, each in enumerate(value):
            yield from numbers_in(each, f"{path}[{place}]")
    elif isinstance(value, int | float):
        yield path, float(value)


# --- the stages of a build -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BuildStages:
    """What each stage of a build makes of some documents with the default options."""

    documents: Sequence[LoadedDocument]
    chunks: Sequence[Sequence[Chunk]]
    extracts: Sequence[Extract]
    base: Graph
    embedder: Embedder

    @classmethod
    async def of(cls, documents: Sequence[LoadedDocument]) -> BuildStages:
        chunks = cut(documents)
        extracts = read(documents, chunks)
        return cls(
            documents, chunks, extracts, merge_source(ExtractSource.of(extracts)).graph, await fit(chunks)
        )

    async def make(self, dial: Dial) -> dict[str, list[str]]:
        """What the dial's stage makes now, item by item, by kind."""
        match dial.stage:
            case "chunks":
                return {"chunks": [repr(each) for group in cut(self.documents) for each in group]}
            case "extracts":
                return {"extracts": [repr(each) for each in read(self.documents, self.chunks)]}
            case "embedder":
                texts = [each.name for each in self.base.entities]
                rows = await (await fit(self.chunks)).embed(texts, report)
                return {"vectors of names": [each.round(4).tobytes().hex() for each in rows]}
        built = await build(self.base, self.embedder, HierarchyOptions(), progress=report)
        layers = built.hierarchy.layers[1:]
        return {
            "entities": [repr(each) for layer in layers for each in layer.entities],
            "relations": [repr(each) for layer in layers for each in layer.relations],
        }


def cut(documents: Sequence[LoadedDocument]) -> list[Sequence[Chunk]]:
    tokenizer = TiktokenTokenizer()
    settings = Settings()
    return [
        chunk(each, tokenizer=tokenizer, max_tokens=settings.chunk_tokens, overlap=settings.chunk_overlap)
        for each in documents
    ]


def read(documents: Sequence[LoadedDocument], chunks: Sequence[Sequence[Chunk]]) -> list[Extract]:
    pairs = zip(documents, chunks, strict=True)
    return [found for document, group in pairs for found in extract(group, document.title)]


async def fit(chunks: Sequence[Sequence[Chunk]]) -> Embedder:
    embedder, _ = await FittedEmbedderSource().fit([each.indexed_text for group in chunks for each in group])
    return embedder


def load_documents(questions: QuestionSet, folder: Path | None) -> list[LoadedDocument]:
    """The files beneath ``folder``, or the passages."""
    sources = [
        DocumentSource(text=each.text, title=each.title, id=f"passage {place}")
        for place, each in enumerate(questions.passages)
    ]
    if folder is not None:
        sources = [DocumentSource(path=str(path)) for path in expand(str(folder), allowed=None).files]
    return [load(each, allowed=None, max_bytes=2**30) for each in sources]


def count_differences(
    base: Mapping[str, Sequence[str]], other: Mapping[str, Sequence[str]]
) -> dict[str, tuple[float, float]]:
    """The number of items that differ, by kind; kinds without a difference are left out."""
    found: dict[str, tuple[float, float]] = {}
    for kind, items in base.items():
        common = (Counter(items) & Counter(other[kind])).total()
        differing = max(len(items), len(other[kind])) - common
        if differing:
            found[f"differing {kind}, of {len(items)}"] = (0, differing)
    return found


# --- queries -------------------------------------------------------------------------------


async def measure(folder: Path, questions: QuestionSet, embedder: str | None) -> Figures:
    """Figures of every mode on the collection in ``folder``, which is built unless it is there."""
    found: Figures = {}
    async with open_scratch(scratch_settings(folder, embedder), questions, None, report) as built:
        for mode in MODES:
            way = Strategy(mode, Query("any", mode=mode))
            answered = await ask_all(built, questions, way, BUDGETS, report)
            figures = figures_of(answered, built.build_s).as_json()
            kept = {key: each for key, each in figures.items() if key not in TIMES}
            found |= {f"{mode}.{path}": number for path, number in numbers_in(kept)}
    return found


def changes(base: Figures, other: Figures) -> dict[str, tuple[float, float]]:
    """The figures that differ, before and after; a layer that one build lacks counts as 0."""
    return {
        key: (base.get(key, 0.0), other.get(key, 0.0))
        for key in sorted({*base, *other})
        if base.get(key, 0.0) != other.get(key, 0.0)
    }


def report(step: Progress) -> None:
    if step.done == step.total and sys.stderr.isatty():
        print(f"  … {step.stage}", file=sys.stderr)


async def run(asked: argparse.Namespace, dials: Sequence[Dial]) -> dict[str, Any]:
    """Each dial's values with what they change."""
    questions = read_set(asked.questions).first(asked.limit)
    stages = await BuildStages.of(load_documents(questions, asked.documents))
    usual: dict[str, Any] = {}
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="leanrag-dials-") as scratch_folder:

        async def make(dial: Dial) -> Any:
            if dial.stage == "query":
                return await measure(Path(scratch_folder), questions, asked.embedder)
            return await stages.make(dial)

        for dial in dials:
            found[dial.name] = {"default": dial.default, "values": {}}
            if dial.stage not in usual:
                usual[dial.stage] = await make(dial)
            compare: Any = changes if dial.stage == "query" else count_differences
            for value in dial.values():
                started = time.perf_counter()
                try:
                    with turn_dial(dial, value):
                        changed = compare(usual[dial.stage], await make(dial))
                except Exception as problem:  # noqa: BLE001 - a value that cannot be is an answer too
                    changed = {"error": repr(problem)}
                found[dial.name]["values"][str(value)] = changed
                if not asked.json:
                    show(dial, value, changed, time.perf_counter() - started)
    return found


def show(dial: Dial, value: float, changed: Mapping[str, Any], seconds: float) -> None:
    print(f"{dial.name} {dial.default:g} -> {value:g}: {len(changed)} figures change ({seconds:.0f} s)")
    if "error" in changed:
        print(f"    {changed['error']}")
        return
    for key in sorted(changed)[:5]:
        before, after = changed[key]
        print(f"    {key}: {before:g} -> {after:g}")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("questions", type=Path, help="question set, as for `leanrag eval retrieval`")
    parser.add_argument("--documents", type=Path, help="folder of files for the options of a build")
    parser.add_argument("--limit", type=int, help="number of questions")
    parser.add_argument("--embedder", help="as the setting of that name")
    parser.add_argument("--only", nargs="+", default=(), help="classes or dials by the start of their names")
    parser.add_argument("--json", action="store_true", help="print one JSON object alone")
    asked = parser.parse_args()
    dials = [
        each
        for each in find_dials()
        if each.stage and (not asked.only or each.name.startswith(tuple(asked.only)))
    ]
    found = anyio.run(run, asked, dials)
    dead = [name for name, each in found.items() if not any(each["values"].values())]
    if asked.json:
        print(json.dumps({"dials": found, "dead": dead}))
    else:
        print(f"{len(found)} dials; no figure depends on: {', '.join(dead) or 'none of them is dead'}")


if __name__ == "__main__":
    main()
