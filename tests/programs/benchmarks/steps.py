"""Processor time of the steps of an update, by function: ``python tests/programs/benchmarks/steps.py FOLDER [--repeats 3]``.

The folder holds a build that ``build.py --folder`` made. It is copied; a small document is added to the copy and built, which
is an update; the median of the repeats is printed as one JSON line. A time includes what the function calls and only the
thread that it runs in, so that other work on the machine hardly counts.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import shutil
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
from build import Stages, added_to, built

from leanrag_engine.core.config import Settings
from leanrag_engine.engine import LeanRAG

STEPS = (
    "adapters.sql.documents:read_chunks chunk_heads read_extracts pending_chunks",
    "core.text.scripts:is_mostly_latin",
    "pipeline.index:texts_of_windows texts_by_kind",
    "adapters.sql.generations.entities:in_layer relations_in_layer",
    "pipeline.building.windows:_index_read _index_known",
    "pipeline.building.embedding_reuse:SpaceIndex.find SpaceIndex.locate _copy_held",
    "adapters.chroma.client:ChromaFolder.fetch ChromaFolder.list_ids",
    "extraction.merging:merge_source _Merge._find_meanings _Merge._draft _Merge._build",
    "extraction.mentions:MentionTable.of MentionIndex.from_arrays MentionIndex.arrays",
    "extraction.namesakes:find_namesakes",
    "hierarchy.changes.carrying:Lineage.of_base carry_summaries carry_sentences",
    "hierarchy.clustering.placement:place reduce_dimensions measure_clusters join_related split_until_enough",
    "hierarchy.build:_mix_with_members _lift_touched find_phrases _draft_layer _assign_parents _keep_memberships",
    "hierarchy.relations:count_pairs inter_cluster_relations",
    "hierarchy.health:check_hierarchy",
    "hierarchy.health:measure_hierarchy _layer _measure_meetings",
    "hierarchy.changes.comparing:compare",
    "adapters.sql.generations.publish:prepare_build find_misfit _find_changes find_positions publish prune",
    "retrieval.graph.adjacency_cache:make_adjacency _collect_mentions",
)
"""Modules of the engine and functions in them; one that this version lacks is left out."""


def watch(times: dict[str, float]) -> None:
    """Add the processor time of each call of the steps to ``times``."""
    modules = [importlib.import_module(f"leanrag_engine.{each.partition(':')[0]}") for each in STEPS]
    for module, listed in zip(modules, STEPS, strict=True):
        for name in listed.partition(":")[2].split():
            owner: Any = module
            *path, last = name.split(".")
            for part in path:
                owner = getattr(owner, part, None)
            if owner is None or last not in vars(owner):
                continue
            held = vars(owner)[last]
            label = f"{module.__name__.rpartition('.')[2]}.{name}"
            if isinstance(held, classmethod):
                setattr(owner, last, classmethod(_timed(held.__func__, label, times)))
                continue
            timed = _timed(held, label, times)
            setattr(owner, last, timed)
            if not path:
                _replace_imported(held, timed)


def _replace_imported(held: object, timed: object) -> None:
    """Replace a function in the modules that have imported it by name."""
    import sys  # noqa: PLC0415 - beside its only use

    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("leanrag_engine"):
            for name, value in list(vars(module).items()):
                if value is held:
                    setattr(module, name, timed)


def _timed(work: Callable[..., Any], label: str, times: dict[str, float]) -> Callable[..., Any]:
    @functools.wraps(work)
    def call(*args: Any, **kwargs: Any) -> Any:
        started = time.thread_time()
        try:
            return work(*args, **kwargs)
        finally:
            times[label] += time.thread_time() - started

    return call


async def update(folder: Path, times: dict[str, float]) -> dict[str, float]:
    """Add a document to the build in ``folder`` and update it; return processor seconds by stage of the report and by
    function."""
    async with await LeanRAG.open(Settings(data_dir=folder, embedder="fitted")) as engine:
        stages = Stages(0.0)
        figures = await built(await added_to(engine, stages), stages, 0.0)
    assert figures["mode"] == "update"
    stage_times: Any = figures["cpu_stages"]
    return {
        "total": figures["cpu_seconds"],
        **{f"stage {key}": each for key, each in stage_times.items()},
        **times,
    }  # type: ignore[dict-item]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--repeats", type=int, default=1)
    asked = parser.parse_args()
    times: dict[str, float] = defaultdict(float)
    watch(times)
    found: dict[str, list[float]] = defaultdict(list)
    for _ in range(asked.repeats):
        times.clear()
        with tempfile.TemporaryDirectory() as scratch:
            copy = shutil.copytree(asked.folder, Path(scratch) / "data")
            for name, seconds in anyio.run(update, copy, times).items():
                found[name].append(seconds)
    print(json.dumps({name: round(statistics.median(each), 3) for name, each in found.items()}))


if __name__ == "__main__":
    main()
