"""Texts of a few signs over and over, as nobody writes them, are read and cut in time in proportion to their length."""

import json
import time
from pathlib import Path

import pytest

from leanrag_engine.adapters.tokenizer import TiktokenTokenizer
from leanrag_engine.core.model import DocumentSource
from leanrag_engine.documents.chunking import chunk
from leanrag_engine.documents.loading import FileContent, parse_file
from leanrag_engine.extraction.heuristic.extract import extract

TALK = "Ann: Hi.\nBo: Where is it?\nAnn: There.\nBo: Ah.\nAnn: Yes.\nBo: Good.\n"
MESSAGE = {"ts": "1.0", "type": "message", "user": "Ann"}
DEEP = json.loads("[" * 900 + "]" * 900)
SHORT_OF_GUARDED = 190_000  # Characters: longer ones are read in a process with limits


def repeat(sign: str, before: str = "", after: str = "") -> str:
    return before + sign * (SHORT_OF_GUARDED // len(sign)) + after


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.md", "|".join(["a"] * 20_000) + "\n" + "|".join(["-"] * 20_000) + "\n" + "a|\n" * 40_000),
        ("a.csv", ",".join(f"n{number}" for number in range(20_000)) + "\na,b" * 40_000),
        ("a.adoc", repeat("{long}", f":long: {'x' * 30_000}\n")),
        ("a.adoc", repeat("a", "[source,")),
        ("a.1", repeat(".Nm\n", f".TH a 1\n.Nm {'n' * 30_000}\n")),
        ("a.vtt", repeat("<v a", "WEBVTT\n\n")),
        ("a.tex", "\\begin{tabular}{l} a & " + "\\\\[" * 150_000 + "\n\\end{tabular}"),
        ("a.py", repeat('\\"""\n')),
        ("a.js", repeat("\\`")),
        ("a.js", repeat("-")),
        ("a.c", repeat('\\"')),
        ("a.txt", f"{TALK}date{' ' * 3_000}x\n"),
        ("a.txt", repeat("!", TALK, "x\n")),
        (
            "a.txt",
            repeat(".", "They said that the oil of the lamp was short again and again", "x, as they do.\n"),
        ),
        ("a.txt", repeat("a", "<")),
        ("a.txt", repeat("=", after="x\n")),
        ("a.txt", repeat(".", f"{TALK}date")),
        ("a.md", repeat("_", "a-\n")),
        ("a.txt", repeat("\f", "a", "x")),
        ("a.txt", "{0}\nA line\n\f{0}\nA line\n\f{0}".format(repeat("1 ")[:60_000])),
        ("a.txt", repeat("\u0316\u0301", "a")),
        ("a.rst", "".join(f"{chr(0xF0000 + number) * 3}\nAB\n===\n\nx\n\n" for number in range(12_000))),
        ("a.c", repeat("*\n" * 500 + "f(){}\n" * 150)),
        ("a.json", json.dumps([{"a": DEEP}] * 6)),
        ("a.json", json.dumps([{**MESSAGE, "files": [{"title": f"{number}"} for number in range(9_000)]}])),
        ("a.mbox", repeat("Mon ", "From a Mon 10:00\nSubject: x\n\nhi\nFrom ")),
        ("a.eml", repeat("=?utf-8?q?a?= ", "From: a@b.c\nSubject: ", "\n\nLamp\n")),
        ("a.eml", repeat("Ann <a@b.c>, ", "Subject: a\nTo: ", "\n\nLamp\n")),
        ("a.eml", repeat("; a=b", "Subject: a\nContent-Type: text/plain", "\n\nLamp\n")),
        ("a.txt", "".join(f"Changes in 1.{n}.1\n\n- lamp\n\n" for n in range(7_000))),
        ("a.html", repeat("<b>a</b>", "<a href=p><span>" * 900)),
        ("a.html", repeat("<li>a", "<ul><li>" * 1_000)),
        ("a.html", f"<p {' '.join(f'a{number}=1' for number in range(60_000))}>lamp"),
        ("a.html", repeat("<p class=comment>a", f"<main>{'a' * 90_000}</main>{'<div>' * 1_500}")),
        ("a.html", repeat("<td colspan=100 rowspan=100>", "<table><tr>", "<tr><td>a" * 99)),
    ],
)
def test_a_few_signs_over_and_over_cost_no_time(name: str, text: str) -> None:
    started = time.process_time()
    found = parse_file(DocumentSource(path=name), FileContent(Path(name), text.encode(), "", "", 0.0))
    assert len(found.text) < 20_000_000
    chunks = chunk(found, tokenizer=TiktokenTokenizer(), max_tokens=512, overlap=64)
    assert len(extract(chunks[:50], found.title)) == len(chunks[:50])
    assert time.process_time() - started < 4
