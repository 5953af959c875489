"""Damage each file of a data folder in each way, and see whether ``leanrag doctor`` names it with a mend that works.

    python tests/programs/damage.py [--only TEXT]

The ways: emptied, cut to ten bytes and to half, missing, swapped with its neighbour, replaced by what it was before the last build or,
in a folder of that time, by what it became, and unreadable. After each one doctor examines a copy of the folder. What it calls sound
must answer as before and let a build go on; what it names must be sound after the command that it names (or, where it asks for a
backup, with the file of one).
Prints one JSON line: trials, how they ended, and the failures. Exit code 1 if there was one.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from forks import run

PEOPLE = ("Ewan Reid", "Moira Kerr", "Calum Boyd", "Isla Grant", "Rory Shaw", "Ailsa Munro", "Fergus Hay")
QUESTION = "Which lighthouse did Moira Kerr build?"
ENVIRONMENT = {**os.environ, "LEANRAG_EMBEDDER": "fitted", "LEANRAG_CONFIG": os.devnull, "COLUMNS": "200"}
PLAIN_ROOT = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"]
"""Before a command: without these rights the superuser reads no file of mode 0 either."""


def leanrag(folder: Path, *words: str) -> CompletedProcess[str]:
    return run(*words, "--data-dir", folder, env=ENVIRONMENT)


def text_of(number: int) -> str:
    person, other = PEOPLE[number % 7], PEOPLE[(3 * number + 1) % 7]
    return f"{person} built the lighthouse of Skerry {number}. {other} wrote to {person} about lamp {number}."


def examine(folder: Path) -> list[tuple[str, str]]:
    """Return what doctor finds amiss, each with its mend."""
    ran = leanrag(folder, "doctor", "--json")
    if not ran.stdout:
        return [(f"doctor ended with {ran.returncode}: {ran.stderr[-300:]}", "")]
    findings: list[dict[str, Any]] = json.loads(ran.stdout)["findings"]
    return [
        (f"{each['subject']}: {each['message']}", each["mend"]) for each in findings if each["state"] != "ok"
    ]


def ask(folder: Path) -> str:
    ran = leanrag(folder, "query", QUESTION, "--json")
    reply = (
        json.loads(ran.stdout)["context"] if ran.returncode == 0 else f"exit {ran.returncode}: {ran.stderr}"
    )
    return str(reply)


def ways(
    file: Path, other: Path | None, beside: Path | None
) -> Iterator[tuple[str, Callable[[Path], object]]]:
    """Yield the ways to damage a file, given as a path in a copy of its folder; ``other`` is what it was or became."""
    content = file.read_bytes()
    if content:
        yield "emptied", lambda path: path.write_bytes(b"")
        yield "ten bytes", lambda path: path.write_bytes(content[:10])
        yield "half", lambda path: path.write_bytes(content[: len(content) // 2])
        yield "missing", lambda path: path.unlink()
        chance = random.Random(str(file.name))  # noqa: S311 - no secret
        noise = chance.randbytes(len(content))
        middle = slice(len(content) // 2, len(content) // 2 + max(1, len(content) // 20))
        yield "random bytes", lambda path: path.write_bytes(noise)
        yield (
            "random bytes within",
            lambda path: path.write_bytes(content[: middle.start] + noise[middle] + content[middle.stop :]),
        )
    yield "unreadable", lambda path: path.chmod(0)
    if other is not None and other.read_bytes() != content:
        yield "of another time", lambda path: path.write_bytes(other.read_bytes())
    if beside is not None and beside.read_bytes() != content:
        swapped = beside.read_bytes()
        yield (
            "swapped",
            lambda path: (path.write_bytes(swapped), path.with_name(beside.name).write_bytes(content)),
        )


@dataclass(frozen=True, slots=True)
class Trial:
    """A folder, the place of one of its files, and what happens to that."""

    folder: Path
    place: Path
    way: str
    damage: Callable[[Path], object]

    def run(self, sound: str) -> tuple[str, str]:
        """Damage a copy of the folder; return how it ended, and what was said."""
        with tempfile.TemporaryDirectory(dir=self.folder.parent) as scratch:
            copy = Path(scratch) / "data"
            shutil.copytree(self.folder, copy)
            self.damage(copy / self.place)
            found = examine(copy)
            if not found:
                return self._use(copy, sound)
            for _, mend in found:
                if mend.startswith("leanrag "):
                    leanrag(copy, *mend.removesuffix(".").split()[1:])
                elif "ermission" in mend:
                    (copy / self.place).chmod(0o644)
                elif "backup" in mend.casefold():
                    shutil.copyfile(self.folder / self.place, copy / self.place)
            if left := examine(copy):
                return "not mended", f"{found} then {left}"
            if (said := ask(copy)) != sound:
                return "answers differently after the mend", f"{found} {said[:300]}"
            return "named and mended", found[0][0]

    def state(self, before: Path, after: Path) -> Path:
        """Return the folder whose documents the damaged one has: the database says which those are."""
        is_other = self.place.name == "graph.sqlite3" and self.way == "of another time"
        return ({before, after} - {self.folder}).pop() if is_other else self.folder

    def _use(self, copy: Path, sound: str) -> tuple[str, str]:
        if (said := ask(copy)) != sound:
            return "not named", said[:300]
        built = leanrag(copy, "build")
        if built.returncode:
            return "not named, and no build", built.stderr[-300:]
        return ("harmless", "") if not (left := examine(copy)) else ("not named before a build", str(left))


def list_trials(before: Path, after: Path, most: int = 3) -> Iterator[Trial]:
    """Yield all trials; of a folder of arrays, which differ in their content alone, so many files."""
    for folder, another in ((after, before), (before, after)):
        files = sorted(each for each in folder.rglob("*") if each.is_file() and "locks" not in each.parts)
        seen = Counter[Path]()
        for number, file in enumerate(files):
            place, is_array = file.relative_to(folder), "arrays" in file.parts
            seen[file.parent] += 1
            if is_array and seen[file.parent] > most:
                continue
            # The name of a folder of arrays begins with that of its build.
            key = file.parent.name.partition("-")[2].partition("-")[2].partition("-")[2]
            pattern = f"arrays/*{'-' + key if key else '[0-9a-z]'}/{file.name}" if is_array else str(place)
            other = next(
                (
                    each
                    for each in sorted(another.glob(pattern))
                    if each.parent.name != file.parent.name or not is_array
                ),
                None,
            )
            beside = next((each for each in files[number + 1 :] if each.parent == file.parent), None)
            for way, damage in ways(file, other, beside):
                if folder is after or way == "of another time":
                    yield Trial(folder, place, way, damage)


def main(only: str, work: Path) -> dict[str, Any]:
    before, after = work / "before", work / "after"
    for number in range(8):
        (work / f"n{number}.md").write_text(text_of(number))
    assert leanrag(before, "ingest", *(str(work / f"n{number}.md") for number in range(6))).returncode == 0
    shutil.copytree(before, after)
    assert leanrag(after, "ingest", str(work / "n6.md"), str(work / "n7.md")).returncode == 0
    sound = {folder: ask(folder) for folder in (before, after)}
    assert not examine(after)
    trials = [each for each in list_trials(before, after) if only in f"{each.place} {each.way}"]
    ends = Counter[str]()
    failures = []
    for each in trials:
        end, said = each.run(sound[each.state(before, after)])
        ends[end] += 1
        line = f"{each.folder.name}/{each.place} {each.way}: {end}: {said}"
        print(line[:300].replace("\n", " "), file=sys.stderr, flush=True)
        failures += [line] * (end not in ("harmless", "named and mended"))
    return {"trials": len(trials), **ends, "failures": failures}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="files and ways with this text")
    given = parser.parse_args()
    if os.name == "posix" and os.geteuid() == 0 and "PLAIN_ROOT_AGAIN" not in os.environ:
        os.execvpe(  # noqa: S606 - the same program again
            PLAIN_ROOT[0], [*PLAIN_ROOT, sys.executable, *sys.argv], os.environ | {"PLAIN_ROOT_AGAIN": "1"}
        )
    with tempfile.TemporaryDirectory() as folder:
        figures = main(given.only, Path(folder))
    print(json.dumps(figures))
    sys.exit(bool(figures["failures"]))
