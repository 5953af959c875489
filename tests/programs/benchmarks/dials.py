"""Find dials that change no measured figure: each numeric option doubled and halved, on one question set.

    python tests/programs/benchmarks/dials.py QUESTIONS.json [--limit N] [--embedder NAME] [--only NAME ...] [--json]

A dial is a numeric field of a frozen dataclass of the engine whose name ends in ``Options``. The
figures are recall, MRR, coverage and tokens of the contexts, and after a new build the health record, counts of each
layer and counts of chunks. Options of the package ``retrieval`` act on queries alone, so that one build serves them
all; every other dial costs a build for each of its two values. Times are not compared. A dial is reported as dead if
neither value changes any figure; a set that does not exercise a dial (no CJK text, no model) makes it look dead.
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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import anyio

import leanrag_engine
from leanrag_engine.core.ports import Progress
from leanrag_engine.evaluation.datasets import QuestionSet, read_set
from leanrag_engine.evaluation.retrieval.run import Strategy, ask_all, figures_of
from leanrag_engine.evaluation.scratch import open_scratch, scratch_settings
from leanrag_engine.retrieval.query import Query

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
    def builds(self) -> bool:
        """Whether a build may read it."""
        return not self.owner.__module__.startswith("leanrag_engine.retrieval")

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


async def measure(folder: Path, questions: QuestionSet, embedder: str | None) -> Figures:
    """Figures of every mode on the collection in ``folder``, which is built unless it is there."""
    found: Figures = {}
    async with open_scratch(scratch_settings(folder, embedder), questions, None, report) as built:
        generation = (await built.engine.status(built.collection)).collection.generation
        assert generation is not None
        found |= {f"layers{path}": number for path, number in numbers_in(generation.layers)}
        found |= {f"build.{path}": number for path, number in numbers_in(generation.record)}
        found["split passages"] = built.split
        for mode in MODES:
            way = Strategy(mode, Query("?", mode=mode))
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
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="leanrag-dials-") as scratch_folder:
        shared = Path(scratch_folder) / "default"
        base = await measure(shared, questions, asked.embedder)
        for dial in dials:
            found[dial.name] = {"default": dial.default, "values": {}}
            for number, value in enumerate(dial.values()):
                folder = Path(scratch_folder) / f"{dial.name}-{number}" if dial.builds else shared
                started = time.perf_counter()
                try:
                    with turn_dial(dial, value):
                        changed: Any = changes(base, await measure(folder, questions, asked.embedder))
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
    # Figures of answers say more than those of the build: they come first.
    order = sorted(changed, key=lambda key: (key.startswith(("build", "layers")), key))
    for key in order[:5]:
        before, after = changed[key]
        print(f"    {key}: {before:g} -> {after:g}")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("questions", type=Path, help="question set, as for `leanrag eval retrieval`")
    parser.add_argument("--limit", type=int, help="number of questions")
    parser.add_argument("--embedder", help="as the setting of that name")
    parser.add_argument("--only", nargs="+", default=(), help="classes or dials by the start of their names")
    parser.add_argument("--json", action="store_true", help="print one JSON object alone")
    asked = parser.parse_args()
    dials = [each for each in find_dials() if not asked.only or each.name.startswith(tuple(asked.only))]
    found = anyio.run(run, asked, dials)
    dead = [name for name, each in found.items() if not any(each["values"].values())]
    if asked.json:
        print(json.dumps({"dials": found, "dead": dead}))
    else:
        print(f"{len(found)} dials; no figure depends on: {', '.join(dead) or 'none of them is dead'}")


if __name__ == "__main__":
    main()
