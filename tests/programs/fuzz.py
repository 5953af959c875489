"""Fuzz the reader of one format, guided by the branches that its code takes, and keep each new kind of failure.

    pip install atheris
    python tests/programs/fuzz.py docx --seconds 600 [--work FOLDER]

The seeds are the files that the tests build. Parts of an archive are changed one by one, so that it can still be opened.
A file may be refused with an error of this project; what is read must keep the promises that the tests check: text
that any store can keep, pages in order, chunks and windows with exact offsets. Anything else, or more than ``SLOW`` seconds
of processor time, is a failure: its file goes to ``WORK/FORMAT/failures``, one for each place in the code.
Prints one JSON line: inputs tried, inputs kept as new, failures. Exit code 1 if there was a failure.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pkgutil
import random
import re
import subprocess
import sys
import tempfile
import time
import traceback
import zipfile
from collections.abc import Callable
from email.message import EmailMessage
from io import BytesIO
from pathlib import Path
from typing import Any

SLOW = 5.0
LONGEST = 60_000  # bytes of an input
LIMIT, OVERLAP = 32, 8  # tokens of a chunk
HERE = Path(__file__).resolve()
READ = re.compile(r"document|styles|numbering|core|slide\d|sheet|sharedStrings|workbook|container|opf|xhtml")
"""The parts of archives that the readers look at."""
ARCHIVES = ("docx", "xlsx", "pptx", "epub", "odt", "ods", "odp")
FORMATS = (
    *ARCHIVES,
    "pdf",
    "html",
    "eml",
    "mbox",
    "mhtml",
    "ipynb",
    "md",
    "txt",
    "rst",
    "py",
    "json",
    "csv",
    "tex",
    "rtf",
    "bib",
    "ged",
    "adoc",
    "org",
    "ics",
    "vtt",
)


def make_seeds(suffix: str) -> list[bytes]:
    """Build small files of a format by the functions of its tests."""
    import docx  # noqa: PLC0415
    import test_formats as formats  # noqa: PLC0415
    import test_loading as loading  # noqa: PLC0415
    import test_open_document as odf  # noqa: PLC0415

    mail = formats.message("Lamp oil", "We need ten barrels.", html="<p>ten</p>", attached="list.csv")
    if suffix == "docx":
        document = docx.Document()
        document.add_heading("Report", level=1)
        document.add_paragraph("one", style="List Bullet")
        document.add_table(2, 2).rows[0].cells[0].text = "a"
        return [loading.save_document(document)]
    if suffix == "mhtml":
        saved = EmailMessage()
        saved.set_content(loading.PAGE, subtype="html")
        saved.make_related()
        return [bytes(saved)]
    single: dict[str, Callable[[], bytes]] = {
        "xlsx": formats.workbook,
        "pptx": formats.slides,
        "epub": formats.book,
        "pdf": lambda: loading.pdf([["One line", "of hyphen-", "ated text"], ["Page two"]], title="A title"),
        "html": loading.PAGE.encode,
        "eml": mail.as_bytes,
        "mbox": lambda: b"From a@b.example Tue Mar 04 10:00:00 2025\n" + mail.as_bytes() + b"\n",
        "ipynb": lambda: formats.notebook(
            {"cell_type": "markdown", "source": ["# Tides\n", "Twice."]},
            {"cell_type": "code", "source": "print(1)", "outputs": [{"output_type": "stream", "text": "1"}]},
        ),
        "odt": lambda: odf.pack("text", odf.TEXT),
        "ods": lambda: odf.pack("spreadsheet", f'<table:table table:name="Crew">{odf.CREW}</table:table>'),
        "odp": lambda: odf.pack("presentation", "<draw:page><text:p>Storm</text:p></draw:page>"),
        "rtf": lambda: (
            rb"{\rtf1\ansi{\fonttbl{\f0 Arial;}}\b Tides\b0\par Tw\'e9ce\u8364? a day{\pict\bin3 abc}\cell 1\row}"
        ),
        "bib": lambda: b'@book{lamp, title = {The {Lamp}}, author = "Reid, E.", year = 1901}\n',
        "ged": lambda: b"0 HEAD\n0 @I1@ INDI\n1 NAME Ada /Reid/\n1 BIRT\n2 DATE 3 MAY 1840\n0 TRLR\n",
        "ics": lambda: (
            b"BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:Tides\nDTSTART:20250304T100000Z\nEND:VEVENT\nEND:VCALENDAR\n"
        ),
        "vtt": lambda: b"WEBVTT\n\n00:01.000 --> 00:02.000\n<v Ann>Twice a day.\n",
        "json": lambda: b'{"name": "Ines", "notes": ["one", "two"]}\n',
        "csv": lambda: b'name,"joined"\nInes,2021-05-01\n',
    }
    if suffix in single:
        return [single[suffix]()]
    return [
        b"---\ntitle: Tides\ndate: 2025-03-04\n---\n# Tides\n\nTwice a day.\n\n```py\n# no\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n",
        b"Title\n=====\n\n- one\n- two\n\n    code\n\n1.2 Section\n\\section{A}\ndef f():\n    pass\n",
        b"[2024-01-02 10:00] Ann: Hi\n[2024-01-02 10:01] Bo: Hello there.\n[2024-01-02 10:05] Ann: Bye\n",
        b"Ann: Hi\nBo: Where is it?\nAnn: There.\nBo: Ah.\nAnn: Yes.\nBo: Good.\n",
        loading.FRENCH.encode("cp1252"),
        "語彙と文。次の文「引用」です。\n".encode(),
    ]


def check(suffix: str, data: bytes) -> None:
    """Read an input as a file of a format, and check what is promised about the result."""
    from test_chunking import check_promises  # noqa: PLC0415

    from leanrag_engine.core.errors import LeanRAGError  # noqa: PLC0415
    from leanrag_engine.core.model import DocumentSource  # noqa: PLC0415
    from leanrag_engine.core.text.cleaning import clean  # noqa: PLC0415
    from leanrag_engine.documents.loading import FileContent, parse_file  # noqa: PLC0415

    name = f"given.{suffix}"
    try:
        found = parse_file(DocumentSource(path=name), FileContent(Path(name), data, "", "digest", 0.0))
    except LeanRAGError as refused:
        if clean(str(refused)) != str(refused):
            raise AssertionError("a message with control characters") from refused
        return
    assert clean(found.text) == found.text, "text that is not clean"
    for text in (found.text, found.title, *found.metadata, *found.metadata.values()):
        text.encode()
    assert found.title.strip()
    assert "\n" not in found.title
    starts = [page.start for page in found.pages]
    assert starts == sorted(set(starts)), "pages out of order"
    assert not starts or 0 <= starts[0] <= starts[-1] < len(found.text)
    for chunk in check_promises(found, LIMIT, OVERLAP):
        for window in chunk.windows:
            assert chunk.start <= window.start < window.end <= chunk.end, "a window outside its chunk"


def mutate_archive(data: bytes, longest: int, seed: int) -> bytes:
    """Change one part of an archive, or in one of twenty cases the bytes of the archive itself."""
    import atheris  # noqa: PLC0415

    chance = random.Random(seed)  # noqa: S311 - libFuzzer gives the seed
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            parts = {info.filename: archive.read(info) for info in archive.infolist()}
    except Exception:  # noqa: BLE001 - whatever the archive became
        parts = {}
    texts = [name for name in parts if name.endswith((".xml", ".rels", ".xhtml", ".opf"))]
    if not texts or chance.random() < 0.05:
        return bytes(atheris.Mutate(data, longest))
    chosen = chance.choice([name for name in texts if chance.random() < 0.1 or READ.search(name)] or texts)
    parts[chosen] = bytes(atheris.Mutate(parts[chosen] or b" ", max(len(parts[chosen]) * 2, 200)))
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    changed = buffer.getvalue()
    return changed if len(changed) <= longest else data


class Failures:
    """The failures found so far, one for each place in the code."""

    def __init__(self, suffix: str, folder: Path) -> None:
        self.suffix = suffix
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def try_input(self, data: bytes) -> None:
        """Check an input; keep it if it fails in a new way."""
        started = time.process_time()
        try:
            check(self.suffix, data)
        except Exception as problem:  # noqa: BLE001 - any error is a finding
            frames = traceback.extract_tb(problem.__traceback__)
            ours = [each for each in frames if "leanrag" in each.filename] or frames
            self._keep(
                f"{type(problem).__name__}-{Path(ours[-1].filename).stem}-{ours[-1].lineno}",
                data,
                traceback.format_exc(),
            )
        if (seconds := time.process_time() - started) > SLOW:
            self._keep("slow", data, f"{seconds:.1f} s for {len(data)} bytes")

    def _keep(self, kind: str, data: bytes, why: str) -> None:
        file = self.folder / f"{kind}.{self.suffix}"
        if not file.exists():
            file.write_bytes(data)
            file.with_suffix(".why").write_text(why, encoding="utf-8")


def fuzz(suffix: str, seconds: int, folder: Path) -> None:
    """Run libFuzzer in this process; it ends the process."""
    import atheris  # noqa: PLC0415

    sys.path[:0] = [str(HERE.parents[1] / "documents"), str(HERE.parents[1] / "documents" / "readers")]
    with atheris.instrument_imports(include=["leanrag_engine.documents", "leanrag_engine.core.text"]):
        documents = importlib.import_module("leanrag_engine.documents")
        for module in pkgutil.walk_packages(documents.__path__, "leanrag_engine.documents."):
            importlib.import_module(module.name)
    inputs = folder / "inputs"
    inputs.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(make_seeds(suffix)):
        (inputs / f"seed{number}").write_bytes(seed)
    failures = Failures(suffix, folder / "failures")
    options: dict[str, Any] = {"custom_mutator": mutate_archive} if suffix in ARCHIVES else {}
    arguments = (f"-max_total_time={seconds}", f"-max_len={LONGEST}", "-timeout=60", "-rss_limit_mb=3000",
        # Slow inputs are told by processor time (SLOW): by the clock every input is slow on a busy machine.
        "-report_slow_units=600", "-print_final_stats=1", f"-artifact_prefix={folder / 'failures'}{os.sep}", str(inputs))  # fmt: skip
    atheris.Setup([sys.argv[0], *arguments], failures.try_input, **options)
    atheris.Fuzz()


def main() -> int:
    parser = argparse.ArgumentParser(description="Fuzz the reader of one format.")
    parser.add_argument("format", choices=FORMATS)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--work", type=Path, help="inputs and failures (default: a new folder)")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    work = given.work or Path(tempfile.mkdtemp(prefix="leanrag-fuzz-"))
    folder = work.resolve() / given.format
    if given.inside:
        fuzz(given.format, given.seconds, folder)
    command = [
        sys.executable,
        str(HERE),
        given.format,
        "--seconds",
        str(given.seconds),
        "--work",
        str(work.resolve()),
        "--inside",
    ]
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "log.txt"
    with log.open("wb") as output:
        subprocess.run(command, check=False, stdout=output, stderr=subprocess.STDOUT)
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    stats = {line.split(":")[2]: int(line.split()[-1]) for line in lines if line.startswith("stat::")}
    if not stats:
        print("\n".join(lines[-20:]), file=sys.stderr)
    failures = sorted(each.name for each in (folder / "failures").glob("*") if each.suffix != ".why")
    print(json.dumps({
        "format": given.format, "inputs": stats.get("number_of_executed_units"),
        "kept": stats.get("new_units_added"), "failures": failures, "work": str(folder)}))  # fmt: skip
    return 1 if failures or not stats else 0


if __name__ == "__main__":
    sys.exit(main())
