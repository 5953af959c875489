"""Break single lines of what a user relies on, and see whether the tests that should notice do.

    python tests/programs/mutants.py [--only TEXT] [--list]

In ``mutants.txt``, under ``@ FILE | TESTS`` each line is ``TEXT ==> REPLACEMENT``, a text that occurs once in that file.
Each is replaced alone in a temporary copy of the packages, against which those tests then run until the first one fails; they run
once against the unchanged copy before. Prints one JSON line: mutations, how many were noticed, and those that
survived. Exit code 1 if one survived, 2 if a text is not found once, or if tests end without a verdict.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).parents[2]
PACKAGES = {"leanrag_engine": "leanrag_engine", "server": "leanrag_mcp", "prompts": "leanrag_prompts"}
"""The folders of the packages, and the names by which they are imported."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A replacement of a text in a file, and the arguments of pytest for the tests that should notice."""

    file: str
    text: str
    replacement: str
    tests: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.file}: {self.text} ==> {self.replacement}"

    def find_fault(self) -> str:
        """Return what is wrong with the mutation itself, "" if it can be made."""
        found = (ROOT / self.file).read_text(encoding="utf-8").count(self.text)
        missing = [each for each in self.tests if each.startswith("tests/") and not (ROOT / each).exists()]
        return f"{self}: the text is there {found} times" * (found != 1) or f"{self}: no {missing}" * bool(
            missing
        )


def read_table() -> Iterator[Mutant]:
    """Yield the mutations of the table beside this file."""
    table = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
    file, tests = "", ()
    for line in filter(None, map(str.strip, table.splitlines())):
        if line.startswith("@ "):
            file, _, words = line[2:].partition(" | ")
            paths, _, expression = words.partition(" -k ")
            tests = (*paths.split(), *(["-k", expression.strip('"')] if expression else []))
        else:
            text, _, replacement = line.partition(" ==>")
            yield Mutant(file, text, replacement.strip(), tests)


def run_tests(copy: Path, tests: Iterable[str]) -> subprocess.CompletedProcess[str]:
    """Run tests of the checkout against the packages in ``copy``."""
    command = [sys.executable, "-P", "-m", "pytest", *tests, "-x", "-q", "-n", "0", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    return subprocess.run(command, cwd=ROOT, env=environment, text=True, capture_output=True, check=False)


def is_noticed(copy: Path, mutant: Mutant) -> bool:
    """Return whether a test fails with the mutation. Exits if the tests end in another way than by a failure or success."""
    folder, _, rest = mutant.file.partition("/")
    file = copy / PACKAGES[folder] / rest
    before = file.read_text(encoding="utf-8")
    write_source(file, before.replace(mutant.text, mutant.replacement))
    ran = run_tests(copy, mutant.tests)
    write_source(file, before)
    if ran.returncode not in (0, 1):
        fail(f"{mutant}\npytest ended with {ran.returncode}", ran)
    return ran.returncode == 1


def write_source(file: Path, text: str) -> None:
    """Write a module and delete what was compiled of it, which Python would take for it if time and size were the same."""
    file.write_text(text, encoding="utf-8")
    for compiled in file.parent.glob(f"__pycache__/{file.stem}.*"):
        compiled.unlink()


def fail(what: str, ran: subprocess.CompletedProcess[str]) -> NoReturn:
    """Say why there is no verdict, and exit."""
    print(f"{what}:\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}", file=sys.stderr)
    raise SystemExit(2)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="only mutations that contain this text")
    parser.add_argument(
        "--list", action="store_true", help="list them and check that each text is there once"
    )
    options = parser.parse_args()
    mutants = [each for each in read_table() if options.only in str(each)]
    faults = list(filter(None, (each.find_fault() for each in mutants)))
    if options.list or faults:
        print("\n".join(faults or map(str, mutants)))
        raise SystemExit(2 if faults else 0)
    started, survivors = time.monotonic(), list[str]()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for source, name in PACKAGES.items():
            shutil.copytree(ROOT / source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        passed = set[tuple[str, ...]]()
        for each in mutants:
            if each.tests not in passed and (ran := run_tests(copy, each.tests)).returncode:
                fail(f"Without a mutation {' '.join(each.tests)} fails", ran)
            passed.add(each.tests)
            noticed = is_noticed(copy, each)
            print(f"{'noticed' if noticed else 'SURVIVED'}  {each}", file=sys.stderr, flush=True)
            if not noticed:
                survivors.append(str(each))
    seconds = round(time.monotonic() - started)
    print(
        json.dumps(
            {
                "mutations": len(mutants),
                "noticed": len(mutants) - len(survivors),
                "seconds": seconds,
                "survivors": survivors,
            },
            ensure_ascii=False,
        )
    )
    raise SystemExit(1 if survivors else 0)


if __name__ == "__main__":
    main()
