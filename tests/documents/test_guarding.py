"""Files that are made to keep a parser busy or to fill the memory fail alone, and within their limits."""

from __future__ import annotations

import io
import sys
import zipfile
from pathlib import Path
from typing import Any

import anyio
import docx
import pytest

from leanrag_engine.core.config import load_settings
from leanrag_engine.core.jobs import IngestResult
from leanrag_engine.core.model import DocumentSource
from leanrag_engine.documents.guarding import GuardedProcesses, ParsingLimits
from leanrag_engine.documents.loading import FileContent, parse_file
from leanrag_engine.engine import LeanRAG

pytestmark = pytest.mark.anyio


async def outcomes(folder: Path, **settings: Any) -> dict[str, tuple[str, str]]:
    """Ingest a folder; return the status and error of each file by its name."""
    async with await LeanRAG.open(load_settings(data_dir=folder / ".data", **settings)) as engine:
        source = DocumentSource(path=str(folder))
        job = await engine.job(
            (await engine.submit_ingest([source], allowed=None, build=False)).id, wait_seconds=100
        )
        assert isinstance(job.result, IngestResult)
        return {Path(each.id).name: (each.status, each.error) for each in job.result.documents}


def word_file(paragraphs: str) -> bytes:
    """A Word file with this XML as its body."""
    whole, made = io.BytesIO(), io.BytesIO()
    docx.Document().save(whole)
    with zipfile.ZipFile(whole) as before, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as after:
        for part in before.infolist():
            data = before.read(part)
            if part.filename == "word/document.xml":
                start = data.index(b"<w:body>") + len(b"<w:body>")
                data = data[:start] + paragraphs.encode() + data[start:]
            after.writestr(part.filename, data)
    return made.getvalue()


async def test_a_page_that_keeps_its_parser_busy_fails_at_the_limit_and_the_next_file_is_read(
    tmp_path: Path,
) -> None:
    (tmp_path / "busy.html").write_text(f"<table>{'<tr><td>a<td>b' * 1_000_000}")
    (tmp_path / "plain.html").write_text(
        "<p>Moira Kerr keeps the bakery of Skerry.</p>" + "<!-- -->" * 30_000
    )
    found = await outcomes(tmp_path, max_parse_seconds=4)
    status, error = found["busy.html"]
    assert status == "failed"
    assert "was not read within 4 seconds" in error
    assert found["plain.html"] == ("added", "")


async def test_a_word_file_that_fills_the_memory_fails_at_the_limit_and_the_next_file_is_read(
    tmp_path: Path,
) -> None:
    (tmp_path / "bomb.docx").write_bytes(word_file("<w:p/>" * 9_000_000))
    (tmp_path / "plain.docx").write_bytes(word_file("<w:p><w:r><w:t>Isla Grant wrote.</w:t></w:r></w:p>"))
    assert (tmp_path / "bomb.docx").stat().st_size < 1_000_000
    found = await outcomes(tmp_path, max_parse_mb=700)
    status, error = found["bomb.docx"]
    assert status == "failed"
    assert "could not be read within 700 MB" in error
    assert found["plain.docx"] == ("added", "")


async def test_where_no_process_can_start_that_is_said_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "leanrag_engine.adapters.workers.pool.COMMAND", [sys.executable, "-c", "raise SystemExit(3)"]
    )
    (tmp_path / "plain.md").write_text("Isla Grant wrote.")
    (tmp_path / "large.html").write_text(f"<p>Isla Grant wrote.</p>{'<!-- -->' * 30_000}")
    found = await outcomes(tmp_path)
    assert found["plain.md"] == ("added", "")
    assert "exit code 3" in found["large.html"][1]


async def test_a_word_file_of_countless_paragraphs_ends_at_the_limit_though_it_is_read_and_cut_apart(
    tmp_path: Path,
) -> None:
    (tmp_path / "many.docx").write_bytes(word_file("<w:p><w:r><w:t>x</w:t></w:r></w:p>" * 400_000))
    (tmp_path / "plain.txt").write_text("Isla Grant wrote.")
    assert (tmp_path / "many.docx").stat().st_size < 150_000
    found = await outcomes(tmp_path, max_parse_seconds=8)
    status, error = found["many.docx"]
    assert status == "failed"
    assert "was not read within" in error
    assert found["plain.txt"] == ("added", "")


async def test_a_text_of_countless_paragraphs_ends_at_the_limit_while_it_is_cut(tmp_path: Path) -> None:
    (tmp_path / "many.txt").write_text("a\n\n" * 150_000)
    (tmp_path / "plain.txt").write_text("Isla Grant wrote.")
    found = await outcomes(tmp_path, max_parse_seconds=1)
    assert "was not read within 1 seconds" in found["many.txt"][1]
    assert found["plain.txt"] == ("added", "")


async def test_the_time_that_a_document_waits_for_a_process_does_not_count() -> None:
    limits = ParsingLimits(60, 2048)
    guard = GuardedProcesses(SleepingProcess())
    async with anyio.create_task_group() as group:
        group.start_soon(guard.run, _work, 2.0, ParsingLimits(60, 2048), "before")
        await anyio.wait_all_tasks_blocked()
        await guard.run(_work, 0.0, limits, "after")
    assert limits.for_size(1).seconds > 59


def _work(_: float, say: object) -> None:
    del say


class SleepingProcess:
    """Sleeps for the seconds that each work is given."""

    width = 1

    async def run(self, work: object, value: Any, say: object) -> Any:
        del work, say
        await anyio.sleep(value[1])

    async def aclose(self) -> None:
        pass


async def test_a_text_of_more_form_feeds_than_a_print_has_pages_is_read_as_it_stands(tmp_path: Path) -> None:
    (tmp_path / "torn.txt").write_text("Isla Grant wrote.\n" + "\f" * 60_000 + "x")
    (tmp_path / "print.txt").write_text("Isla Grant wrote.\n\f\nThe lamp burns.\n\f\nIt is out.\n")
    found = await outcomes(tmp_path)
    assert set(found.values()) == {("added", "")}
    torn, printed = [
        parse_file(DocumentSource(path=each.name), FileContent(each, each.read_bytes(), "", "", 0.0))
        for each in (tmp_path / "torn.txt", tmp_path / "print.txt")
    ]
    assert (len(torn.pages), len(printed.pages)) == (0, 3)


async def test_text_that_fills_the_memory_fails_at_the_limit_too(tmp_path: Path) -> None:
    (tmp_path / "deep.ipynb").write_text(f"[{'[],' * 8_000_000}[]]")
    (tmp_path / "plain.txt").write_text("Isla Grant wrote. " * 20_000)
    found = await outcomes(tmp_path, max_parse_mb=512)
    assert "could not be read within 512 MB" in found["deep.ipynb"][1]
    assert found["plain.txt"] == ("added", "")


async def test_a_mail_whose_page_keeps_the_parser_busy_fails_at_the_limit(tmp_path: Path) -> None:
    head = "From: a@b.example\nSubject: Lamp oil\nContent-Type: text/html\n\n"
    (tmp_path / "busy.eml").write_text(f"{head}<table>{'<tr><td>a<td>b' * 1_000_000}")
    (tmp_path / "plain.eml").write_text("From: a@b.example\nSubject: Lamp oil\n\nTen barrels.\n")
    found = await outcomes(tmp_path, max_parse_seconds=3)
    assert "was not read within 3 seconds" in found["busy.eml"][1]
    assert found["plain.eml"] == ("added", "")


async def test_a_line_of_a_hundred_megabytes_is_refused_with_its_length_and_the_setting(
    tmp_path: Path,
) -> None:
    (tmp_path / "line.txt").write_text("the lamp of Tiree " * 5_600_000)
    (tmp_path / "plain.txt").write_text("Isla Grant wrote.")
    found = await outcomes(tmp_path)
    assert found["plain.txt"] == ("added", "")
    status, error = found["line.txt"]
    assert status == "failed"
    assert "holds 100,800,000 characters; at most 20,000,000" in error
    assert "LEANRAG_MAX_TEXT_CHARACTERS" in error


async def test_a_table_whose_first_cell_is_longer_than_the_csv_module_allows_is_read(tmp_path: Path) -> None:
    (tmp_path / "wide.csv").write_text("the lamp of Tiree " * 8_000 + ",1\nIsla,2\n")
    assert await outcomes(tmp_path) == {"wide.csv": ("added", "")}


async def test_a_fault_of_a_reader_fails_its_document_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise IndexError("no such row")

    monkeypatch.setattr("leanrag_engine.documents.formats.read_table", fail)
    (tmp_path / "faulty.csv").write_text("Isla,2\n")
    (tmp_path / "plain.txt").write_text("Isla Grant wrote.")
    found = await outcomes(tmp_path)
    assert found["plain.txt"] == ("added", "")
    assert found["faulty.csv"] == ("failed", "Unexpected IndexError: no such row")
