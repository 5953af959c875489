"""The lists of words and the patterns in the data folder, against the code that reads them."""

from __future__ import annotations

import re
from pathlib import Path

import leanrag_engine
from leanrag_engine.core.text.word_lists import read_words

ENGINE = Path(leanrag_engine.__file__).parent
SECTION = re.compile(r"^\[([\w/+-]+)\]$", re.MULTILINE)
WHOLE = re.compile(r'read_sections\("(\w+)"\)')
READ = re.compile(r'read_(?:words|pattern)\("(\w+)", "(\w+)"\)')
PART = re.compile(r"\{([a-z_]+)\}")  # another section within a pattern


def test_every_list_is_read_and_every_list_that_is_read_has_words() -> None:
    texts = {path.stem: path.read_text("utf-8") for path in (ENGINE / "core/text/data").glob("*.txt")}
    kept = {(file, name) for file, text in texts.items() for name in SECTION.findall(text)}
    parts = {(file, name) for file, text in texts.items() for name in PART.findall(text)}
    read = {
        place for path in ENGINE.rglob("*.py") for place in READ.findall(path.read_text(encoding="utf-8"))
    }
    whole = {
        file for path in ENGINE.rglob("*.py") for file in WHOLE.findall(path.read_text(encoding="utf-8"))
    }
    assert {place for place in kept if place[0] not in whole} == read | (parts & kept)
    assert whole <= {file for file, _ in kept}
    assert all(read_words(*place) for place in read)


def test_comments_are_no_words() -> None:
    stopwords = read_words("language", "stopwords")
    assert {"the", "的", "です"} <= stopwords
    assert not {"#", "English", "[stopwords]"} & stopwords
