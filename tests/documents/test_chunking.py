"""Chunking: offsets, limits, borders and overlap, on odd and on real text."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from pydoc_data.topics import topics
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leanrag_engine.adapters.tokenizer import TiktokenTokenizer
from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.model import Chunk, DocumentSource, LoadedDocument, Page
from leanrag_engine.documents.chunking import chunk
from leanrag_engine.documents.headings import headings
from leanrag_engine.documents.loading import load

TOKENIZER = TiktokenTokenizer()


def document(
    text: str, media_type: str = "text/plain", *, title: str = "", pages: tuple[Page, ...] = ()
) -> LoadedDocument:
    return LoadedDocument(id="doc", title=title, text=text, media_type=media_type, pages=pages)


def cut(text: str, limit: int = 32, overlap: int = 8, media_type: str = "text/plain") -> list[Chunk]:
    return chunk(document(text, media_type), tokenizer=TOKENIZER, max_tokens=limit, overlap=overlap)


GLUED = "ー・「」『』（）。、！？：；，．ｧｨｩｪｫｬｭｮｯｰぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮ"
"""Signs that stay with the word before or after them."""


def is_cjk(character: str) -> bool:
    kinds = ("CJK", "HIRAGANA", "KATAKANA", "FULLWIDTH", "HALFWIDTH", "IDEOGRAPHIC", "VERTICAL KANA")
    name = unicodedata.name(character, "")
    signs = "\u3000" <= character <= "\u303f" and not unicodedata.combining(
        character
    )  # postal marks, numerals …
    # Korean is written with spaces, also in half width.
    return character in GLUED or signs or (name.startswith(kinds) and not name.startswith("HALFWIDTH HANGUL"))


def cuts_a_word(text: str, at: int, limit: int) -> bool:
    """Whether ``at`` lies within a word that a chunk could have held whole, with the signs that stay with it."""
    if at in (0, len(text)) or text[at - 1].isspace() or text[at].isspace():
        return False
    if is_cjk(text[at - 1]) or is_cjk(text[at]):
        return False
    start = end = at
    while (
        start and not text[start - 1].isspace() and (text[start - 1] in GLUED or not is_cjk(text[start - 1]))
    ):
        start -= 1
    while end < len(text) and not text[end].isspace() and (text[end] in GLUED or not is_cjk(text[end])):
        end += 1
    return TOKENIZER.count(text[start:end]) <= limit


def check_promises(loaded: LoadedDocument, limit: int, overlap: int) -> list[Chunk]:
    """The chunks of a document, once every promise has been checked."""
    chunks = chunk(loaded, tokenizer=TOKENIZER, max_tokens=limit, overlap=overlap)
    text = loaded.text
    covered = bytearray(len(text))
    for number, each in enumerate(chunks, 1):
        assert each.number == number
        assert each.text == text[each.start : each.end]
        assert each.text.strip()
        assert each.text == each.text.rstrip()
        assert each.tokens == TOKENIZER.count(each.text) <= limit
        assert not cuts_a_word(text, each.start, limit)
        assert not cuts_a_word(text, each.end, limit)
        covered[each.start : each.end] = b"\1" * (each.end - each.start)
    assert all(covered[at] or text[at].isspace() for at in range(len(text)))
    for one, other in pairwise(chunks):
        assert one.start < other.start
        assert one.end < other.end
    assert len({each.id for each in chunks}) == len(chunks)
    return chunks


WORDS = st.sampled_from(
    [
        "the",
        "Ghost",
        "don't",
        "naïve",
        "x",
        "Marley's",
        "3.14",
        "a.b_c()",
        "https://example.org/a?b=c",
        "supercalifragilistic",
        "—",
        "e\u0301e\u0301",
    ]
)
CJK = st.sampled_from(["语义聚合", "吾輩は猫である", "。", "、", "「名前」", "ー", "很多。", "한국어", "漢"])
ODD = st.sampled_from(
    [
        "😀",
        "👩‍👩‍👧",
        "e\u0301" * 30,
        "a" * 400,
        "=" * 90,
        "中" * 120,
        "𠮷野家",
        "\u0e20\u0e32\u0e29\u0e32" * 20,
    ]
)
GAPS = st.sampled_from(
    [
        " ",
        " ",
        " ",
        "",
        ". ",
        "! ",
        "? ",
        "\n",
        "\n\n",
        "\n   \n",
        "  ",
        "\t",
        " " * 300,
        "\n" * 40,
        "\u3000",
        ":\n",
    ]
)
MARKS = st.sampled_from(
    [
        "\n\n# Head\n\n",
        "\n\n## Sub\n",
        "\n\nTitle\n=====\n\n",
        "\n```\n# code\n```\n",
        "\n- item ",
        "\n1. item ",
        "\n| a | b |\n",
        "\n\nCHAPTER II\n\n",
        "\n\n1.1 One\n2.1 Two\n",
    ]
)
TEXTS = st.lists(st.one_of(WORDS, WORDS, GAPS, GAPS, CJK, ODD, MARKS), max_size=120).map("".join)
TYPES = st.sampled_from(
    ["text/plain", "text/markdown", "text/x-python", "application/pdf", "text/x-rst", "text/csv"]
)


@given(TEXTS, TYPES, st.sampled_from([(8, 0), (8, 7), (16, 4), (33, 10), (64, 63), (200, 20)]))
@settings(max_examples=250, deadline=None)
def test_every_promise_holds_on_odd_text(text: str, media_type: str, sizes: tuple[int, int]) -> None:
    limit, overlap = sizes
    chunks = check_promises(document(text, media_type), limit, overlap)
    assert chunks == chunk(document(text, media_type), tokenizer=TOKENIZER, max_tokens=limit, overlap=overlap)
    assert bool(chunks) == bool(text.strip())


@given(st.text(max_size=600))
@settings(max_examples=100, deadline=None)
def test_any_unicode_text_is_covered_within_the_limit(text: str) -> None:
    chunks = cut(text, 16, 4)
    assert all(each.tokens <= 16 and each.text == text[each.start : each.end] for each in chunks)
    covered = {at for each in chunks for at in range(each.start, each.end)}
    assert all(at in covered for at, character in enumerate(text) if not character.isspace())


@pytest.mark.parametrize("mark", ["\uff9e", "\uff9f", "\u302e", "\u302a"])  # voiced sound marks, tone marks
@pytest.mark.parametrize("base", ["ｶ", "漢"])
def test_a_mark_stays_with_the_sign_before_it(base: str, mark: str) -> None:
    for chunk_ in cut((base + mark) * 60, 16, 4):
        assert (chunk_.text[0], chunk_.text[-1]) == (base, mark)


@pytest.mark.parametrize("limit", [64, 512])
def test_every_promise_holds_on_the_language_reference(limit: int) -> None:
    for title, text in sorted(topics.items())[::4]:
        loaded = load(DocumentSource(text=text, title=title), allowed=None, max_bytes=1 << 20)
        chunks = check_promises(loaded, limit, limit // 8)
        overlaps = (loaded.text[other.start : one.end] for one, other in pairwise(chunks))
        assert all(TOKENIZER.count(shared) <= limit // 8 for shared in overlaps)


LINE = "The keeper of Skerryvore counts the ships that pass at night."


def test_every_promise_holds_on_a_book(tmp_path: Path) -> None:
    """Its chapters are told by lines in capitals alone."""
    prose = "\n\n".join(f"{LINE} {number} times he wrote it down. {LINE}" for number in range(200))
    staves = [f"STAVE {number}" for number in ("ONE", "TWO", "THREE", "FOUR", "FIVE")]
    (tmp_path / "book.txt").write_text("\n\n\n".join(f"{stave}\n\n{prose}" for stave in staves))
    book = load(DocumentSource(path=str(tmp_path / "book.txt")), allowed=None, max_bytes=1 << 20)
    chunks = check_promises(book, 512, 64)
    assert {each.heading for each in chunks} >= {*staves}
    assert sum(each.tokens for each in chunks) / len(chunks) > 400


def test_a_pdf_gives_each_character_of_a_chunk_its_page(
    tmp_path: Path, make_pdf: Callable[..., bytes]
) -> None:
    pages = [[f"{LINE} It is line {line} of page {page}." for line in range(30)] for page in range(6)]
    (tmp_path / "x.pdf").write_bytes(make_pdf(pages))
    loaded = load(DocumentSource(path=str(tmp_path / "x.pdf")), allowed=None, max_bytes=1 << 20)
    assert len(loaded.pages) == 6
    for each in check_promises(loaded, 128, 16):
        for offset in range(each.start, each.end):
            page = max(page.number for page in loaded.pages if page.start <= offset)
            assert each.page_at(offset) == page


# --- an edited document --------------------------------------------------------------------

ADDED = "One more line was written here by hand on Tuesday.\n"


def share_kept(loaded: LoadedDocument, edited: str) -> float:
    """The share of the chunks of the edited document that the document had before."""
    before, after = (
        {each.id for each in chunk(version, tokenizer=TOKENIZER, max_tokens=64, overlap=8)}
        for version in (loaded, replace(loaded, text=edited))
    )
    return len(before & after) / len(after)


def test_a_line_added_anywhere_in_the_language_reference_leaves_most_chunks_as_they_were() -> None:
    """Borders fall into step again after an edit, because headings and blank lines attract them."""
    long = [text for _, text in sorted(topics.items()) if len(text) > 8_000]
    assert len(long) > 8
    shares = []
    for text in long:
        loaded = load(DocumentSource(text=text, title="Topic", id="topic"), allowed=None, max_bytes=1 << 20)
        for place in (0.05, 0.5, 0.8):
            line = loaded.text.find("\n", int(place * len(loaded.text))) + 1
            shares.append(share_kept(loaded, loaded.text[:line] + ADDED + loaded.text[line:]))
    assert sum(shares) / len(shares) > 0.93
    assert min(shares) > 0.6


def test_a_line_added_to_the_end_leaves_all_chunks_but_the_last_as_they_were() -> None:
    for text in topics.values():
        loaded = load(DocumentSource(text=text, title="Topic", id="topic"), allowed=None, max_bytes=1 << 20)
        before, after = (
            [each.id for each in chunk(version, tokenizer=TOKENIZER, max_tokens=64, overlap=8)]
            for version in (loaded, replace(loaded, text=f"{loaded.text.rstrip()}\n{ADDED}"))
        )
        assert after[: len(before) - 1] == before[:-1]


# --- settings ------------------------------------------------------------------------------


@pytest.mark.parametrize(("limit", "overlap"), [(7, 0), (0, 0), (32, 32), (32, 40), (32, -1)])
def test_impossible_sizes_are_rejected(limit: int, overlap: int) -> None:
    with pytest.raises(InvalidInput) as caught:
        cut("text", limit, overlap)
    assert str(limit) in caught.value.message
    assert "setting" in caught.value.next_step


def test_white_space_alone_gives_no_chunk() -> None:
    assert cut("") == cut(" \n\n ") == []


def test_a_short_text_is_one_chunk() -> None:
    [only] = cut("\n\n  Marley was dead.\n")
    assert (only.text, only.start, only.number, only.heading, only.pages) == (
        "  Marley was dead.",
        2,
        1,
        "",
        (),
    )


def test_ids_depend_on_document_headings_and_text_and_not_on_the_place() -> None:
    one = cut("Marley was dead.")[0]
    assert one.id == cut("Marley was dead.")[0].id
    text = "The ghost came in. " * 5
    headed = cut(f"# A\n\n{text}\n\n# B\n\n{text}", media_type="text/markdown")
    assert len({each.id for each in headed}) == len(headed)
    later = cut(f"# C\n\n{text}\n\n# A\n\n{text}\n\n# B\n\n{text}", media_type="text/markdown")
    assert [each.id for each in later[-len(headed) :]] == [each.id for each in headed]
    assert later[-1].number > headed[-1].number
    assert one.id != cut("Marley was alive.")[0].id
    other = LoadedDocument(id="other", title="", text="Marley was dead.", media_type="text/plain")
    assert one.id != chunk(other, tokenizer=TOKENIZER, max_tokens=32, overlap=0)[0].id


# --- borders -------------------------------------------------------------------------------

SENTENCE = "The ghost of Marley walked through the door and sat down. "


def ends(chunks: list[Chunk]) -> list[str]:
    return [each.text[-14:] for each in chunks]


def test_a_heading_is_worth_a_shorter_chunk() -> None:
    text = f"# One\n\n{SENTENCE * 3}\n\n# Two\n\n{SENTENCE * 4}"
    first, second = cut(text, 64, 0)
    assert first.text.startswith("# One")
    assert second.text.startswith("# Two")
    assert [first.heading, second.heading] == ["One", "Two"]


def test_a_blank_line_is_preferred_to_a_sentence_end() -> None:
    text = f"{SENTENCE * 4}\n\n{SENTENCE}{SENTENCE}"
    assert cut(text, 64, 0)[1].text == (SENTENCE * 2).strip()


def test_a_sentence_end_is_preferred_to_a_line_end() -> None:
    text = "The ghost of Marley walked through\nthe door and sat down. It said nothing\nto Scrooge at all that night. He was\nafraid of it all the same."
    assert [each.text for each in cut(text, 16, 0)] == [
        "The ghost of Marley walked through\nthe door and sat down.",
        "It said nothing\nto Scrooge at all that night.",
        "He was\nafraid of it all the same.",
    ]


def test_a_line_end_is_preferred_to_the_middle_of_a_line() -> None:
    lines = ["one two three four five six seven" for _ in range(6)]
    chunks = cut("\n".join(lines), 20, 0, "text/x-log")
    assert all(line in lines for each in chunks for line in each.text.split("\n"))


def test_a_long_sentence_is_cut_between_words() -> None:
    text = " ".join(f"word{number}" for number in range(200))
    chunks = check_promises(document(text), 32, 8)
    assert " ".join(each.text for each in chunks) == text


def test_a_huge_word_is_cut_into_full_parts() -> None:
    chunks = check_promises(document("x" + "qz" * 2_000), 64, 8)
    assert "".join(each.text for each in chunks) == "x" + "qz" * 2_000
    assert all(each.tokens > 24 for each in chunks)


def test_chinese_is_cut_at_sentences_and_else_between_characters() -> None:
    sentence = "语义聚合与层次检索技术能够显式建模不同实体之间的关系。"
    assert all(each.text.endswith("。") for each in cut(sentence * 6, 48, 0))
    endless = "语义聚合与层次检索技术" * 30
    chunks = check_promises(document(endless), 32, 8)
    assert "".join(each.text for each in chunks) == endless


def test_closing_signs_do_not_begin_a_chunk() -> None:
    for each in cut("「語彙」、" * 60, 16, 0):
        assert each.text[0] not in "」、"


def test_a_heading_is_not_left_alone_at_the_end() -> None:
    text = f"{SENTENCE * 4}\n\n# Two\n\n## Two and a half\n\n{SENTENCE * 5}"
    for limit in range(48, 80, 4):
        for each in cut(text, limit, 0, "text/markdown"):
            assert not each.text.endswith(("# Two", "half"))


def test_a_line_that_announces_what_follows_stays_with_it() -> None:
    text = f"{SENTENCE * 4}\n\nThese are the ghosts:\n\n{SENTENCE * 3}"
    for limit in range(56, 72, 4):
        assert not any(each.text.endswith("ghosts:") for each in cut(text, limit, 0))


def test_indentation_of_a_first_line_is_kept() -> None:
    text = "".join(f"def f{number}(x):\n    return x + {number}\n\n\n" for number in range(9))
    for each in cut(text, 32, 0, "text/x-python"):
        assert each.text.startswith(("def", "    "))


def test_a_tiny_tail_joins_the_chunk_before() -> None:
    text = f"# One\n\n{SENTENCE * 4}\n\n# Two\n\nEnd."
    assert len(cut(text, 64, 0)) == 1
    paragraphs = "\n\n".join([SENTENCE * 2] * 5) + "\n\nEnd."
    assert not any(each.text == "End." for each in cut(paragraphs, 64, 16))


# --- overlap -------------------------------------------------------------------------------


def test_overlap_is_the_last_whole_sentences_that_fit() -> None:
    text = " ".join(f"Sentence number {number} says something." for number in range(40))
    chunks = check_promises(document(text), 64, 20)
    for one, other in pairwise(chunks):
        shared = text[other.start : one.end]
        assert shared.startswith("Sentence number")
        assert shared.endswith("something.")
        assert 12 <= TOKENIZER.count(shared) <= 20


def test_an_overlap_of_zero_gives_none() -> None:
    chunks = cut(SENTENCE * 40, 64, 0)
    assert all(one.end <= other.start for one, other in pairwise(chunks))


def test_overlap_does_not_cross_a_heading() -> None:
    text = "\n\n".join(f"# Part {number}\n\n{SENTENCE * 4}" for number in range(5))
    chunks = cut(text, 64, 32, "text/markdown")
    assert [each.text.split("\n")[0] for each in chunks] == [f"# Part {number}" for number in range(5)]


# --- headings and pages --------------------------------------------------------------------


def test_the_heading_is_the_path_above_without_the_title() -> None:
    text = (
        f"# Book\n\n## Method\n\n{SENTENCE * 3}\n\n### Step\n\n{SENTENCE * 3}\n\n## Results\n\n{SENTENCE * 3}"
    )
    chunks = chunk(
        document(text, "text/markdown", title="Book"), tokenizer=TOKENIZER, max_tokens=48, overlap=0
    )
    assert [each.heading for each in chunks] == ["", "Method > Step", "Results"]
    assert chunks[1].indexed_text.startswith("Book\nMethod > Step\n### Step")


def test_a_path_of_headings_is_bounded() -> None:
    text = "".join(f"{'#' * level} {'word ' * 30}{level}\n\n" for level in range(1, 7)) + SENTENCE * 9
    assert all(len(each.heading) <= 200 for each in cut(text, 128, 0, "text/markdown"))


def test_pages_are_those_where_chunks_begin() -> None:
    text = f"{SENTENCE * 4}\n\n{SENTENCE * 4}"
    second = text.rindex("\n") + 1
    loaded = document(text, "application/pdf", pages=(Page(1, 0), Page(3, second)))
    assert [each.pages for each in check_promises(loaded, 56, 0)] == [(Page(1, 0),), (Page(3, second),)]


MARKDOWN = """# Top #

text
```
# not one
```

Second
------

~~~~
# nor this
```
~~~~
| a |
-----

#hashtag
### Third
"""


@pytest.mark.parametrize(
    ("media_type", "text", "expected"),
    [
        ("text/markdown", MARKDOWN, [(1, "Top"), (2, "Second"), (3, "Third")]),
        ("text/x-rst", "====\nA\n====\n\nB\n----\n\nC\n~~~~\n\nD\n----\n", [(1, "A"), (2, "B"), (3, "C"), (2, "D")]),
        ("text/plain", "PART ONE\n\nCHAPTER I. Marley's Ghost\n\nPart of it.\n\nchapter two was\n\n第三章 検索\n\n", [(1, "PART ONE"), (2, "CHAPTER I. Marley's Ghost"), (2, "第三章 検索")]),
        ("application/pdf", "1 Method\nText.\n1.1 Retrieval\n2 Apples are sweet.\n3.4 Million\n1.1.2 Paths", [(1, "1 Method"), (2, "1.1 Retrieval"), (3, "1.1.2 Paths")]),
        ("application/pdf", "1 Method\nIt is old.\n1.1 Retrieval\n1. Wash Hands\nwith soap.\n2. Light the lamp\nAt night.\n2 Results\nGood.\n3 Summary\nEnd.\n4 Apples\nare sweet.", [(1, "1 Method"), (2, "1.1 Retrieval"), (1, "2 Results"), (1, "3 Summary")]),
        ("application/pdf", "1 Method\n1.1 Retrieval\nText.\n2 Summary 12\n2 int n; /**\nText.\n3 Apples\nEnd.", [(1, "1 Method"), (2, "1.1 Retrieval")]),
        ("application/pdf", "It says:\n1. Apples are good\nText.\n4. Pears\nText.\n1. Plums\nText.", []),
        ("text/plain", "1.1 Scope\n---------\n\ntext\n1.2 Terms\n", [(1, "1.1 Scope"), (1, "1.2 Terms")]),
        ("text/x-python", "@cached\n# why\ndef f(x):\n    class of objects\nclass A:\n    async def g(self): ...\n", [(1, "def f"), (1, "class A"), (2, "async def g")]),
        ("text/x-rust", "pub(crate) fn f<T>() {}\nimpl<T> Foo for Bar {\n", [(1, "pub(crate) fn f"), (1, "impl<T> Foo for Bar")]),
        ("text/x-go", "func (r *Reader) Read(p []byte) {\n", [(1, "func (r *Reader) Read")]),
        ("text/x-c++", "/* as in\n * class Example {\n */\nstatic struct tm *now(struct tm *t) {\n  if (t) { }\n}\nA::~A()\n{\n}\nTEST(A, b) {\n}\n", [(1, "now"), (1, "A::~A")]),
        ("text/x-javascript", "A.prototype.go = function () {\n}\nclass B {\n  // says it\n  run (a) {\n  }\n  get () {\n  }\n}\n", [(1, "A.prototype.go"), (1, "class B"), (2, "run")]),
        ("text/x-python", 'def f():\n    """A text:\n\n    class Example(A):\n    """\n', [(1, "def f")]),
        ("text/x-sql", "-- people\nCREATE TABLE person (\n", [(1, "CREATE TABLE person")]),
        ("text/x-tex", "\\section*{One}\n\\subsection[t]{Two}\n", [(3, "One"), (4, "Two")]),
        ("application/toml", "[a]\nx = [1]\n[[b.c]]\n", [(1, "a"), (1, "b.c")]),
        ("text/csv", "Table, 1 row: name | age\nRow 2: name: ann; age: 3\n", [(7, "Table, 1 row: name | age")]),
        ("text/markdown", "# A\nTable Ages, 2 rows: a. Columns: a: numbers\n\nRow 1: a: 1\n\nRow 2: a: 2\ntext\n## B\n", [(1, "A"), (7, "Table Ages, 2 rows: a"), (2, "B")]),
        ("text/plain", "Table Ages, 2 rows: a\nNo row follows.\n", []),
        ("application/json", "# no\n", []),
    ],
    ids=lambda value: value if isinstance(value, str) and "/" in value and len(value) < 40 else "",
)  # fmt: skip
def test_headings_by_the_conventions_of_each_kind(
    media_type: str, text: str, expected: list[tuple[int, str]]
) -> None:
    found = list(headings(text, media_type))
    assert [(heading.level, heading.title) for heading in found] == expected
    assert all(heading.title.split()[0] in text[heading.start : heading.end] for heading in found)


@pytest.mark.parametrize("media_type", ["text/csv", "text/markdown"])
def test_rows_of_a_table_carry_its_header_and_stay_whole(media_type: str) -> None:
    rows = "".join(f"Row {number}: name: Person. Number {number}; age: {number}\n" for number in range(60))
    head = "Table Crew, 60 rows: name | age"
    chunks = cut(f"{head}\n{rows}\nAfter the table.", 64, 0, media_type)
    windows = [(each.heading, chunk.quote(each)) for chunk in chunks for each in chunk.windows]
    assert {heading for heading, text in windows if text.startswith("Row")} == {head}
    quoted = [line for _, text in windows for line in text.splitlines() if line.startswith("Row")]
    assert quoted == rows.splitlines()
    assert ("", "After the table.") in windows


TEXT = "The board keeps the light and pays for the oil,\nas the town has agreed."
LAW = (
    "CHAPTER I. General\n\nArticle 1\n\n{0}\n\nArticle 2\nTerms\n1. {0}\n2. {0}\n\nCHAPTER II. Oil\n\nArticle 3. The light burns all\n"
    "night. {0}\n\nCHAPTER III.\n\nArticle 4\n\n{0}\n"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1. Scope\n\n{0}\n\n1.1. Powers\n\n    1. Buy oil.\n    2. Sell oil.\n\n2. Board\n\n{0}\n\nA.1. Votes\n\n{0}\n\nA.2. Oil\n{0}\n\nA.3. End\n\n{0}",
         ["1. Scope", "1. Scope > 1.1. Powers", "2. Board", "A.1. Votes", "A.2. Oil", "A.3. End"]),
        ("6.1 Powers of the board\n\n{0}\n\n6.2 Votes\n{0}\n\n6.3 Oil\n\n{0}", ["6.1 Powers of the board", "6.2 Votes", "6.3 Oil"]),
        ("§ 3 Wahl\n(1) {0}\n\n§ 4 Fristen\n\n{0}\n\n§ 4a Öl\n{0}\n\n§ 5 Ende\n\n{0}", ["§ 3 Wahl", "§ 4 Fristen", "§ 4a Öl", "§ 5 Ende"]),
        ("   1. Grant of Licence. {0}\n\n   2. Redistribution. {0}\n\n   3. Limits and\n   more. {0}\n\n   3. No Warranty. {0}",
         ["1. Grant of Licence.", "2. Redistribution.", "3. No Warranty."]),
        ("Section 4. Oil\n\n{0}\n\nSection 5. Penalties. {0}\n\nas said in\nSection 9. {0}\n\nSection 6.\n\n{0}", ["Section 4. Oil", "Section 5. Penalties.", "Section 6."]),
        ("1. Scope 3\n1.1 Powers 4\n1.2 Votes 5\n2. Board 6\n2.1 Oil 7\n\n{0}\n\n1. Scope\n\n{0}\n\n1.1 Powers\n{0}\n\n1.2 Votes\n{0}\n\n2. Board\n2.1 Oil\n{0}",
         ["", "1. Scope", "1. Scope > 1.1 Powers", "1. Scope > 1.2 Votes", "2. Board > 2.1 Oil"]),
        ("1. Scope\n2. Board\n3. Oil\n\n1. Scope\n\n{0}\n\n2. Board\n\n{0}\n\n3. Oil\n\n{0}", ["", "1. Scope", "2. Board", "3. Oil"]),
        ("1. Scope. {0}\n\n2. What is\nmeant. {0}\n\n3. U.S. Votes. {0}\n\n4. Oil. {0}", ["1. Scope.", "3. U.S. Votes.", "4. Oil."]),
        ("{0}\n1. Scope.\n\n1.1 Waiver of Oil. THE BOARD {0}\n\n1.2 The board {0}\n2. Votes.\n2.1 Powers. {0}\n3.1 End. {0}",
         ["", "1. Scope. > 1.1 Waiver of Oil.", "2. Votes. > 2.1 Powers.", "3.1 End."]),
        ("1  Power to levy\n (1) {0}\n (2) {0}\n\n2  Rate of dues\n{0}\n\n3  Votes\n(a) {0}", ["1 Power to levy", "2 Rate of dues", "3 Votes"]),
        (LAW, [f"CHAPTER {at}" for at in ("I. General > Article 1", "I. General > Article 2", "II. Oil > Article 3.", "III. > Article 4")]),
    ],
)  # fmt: skip
def test_numbers_that_count_up_at_the_beginning_of_paragraphs_are_those_of_sections(
    text: str, expected: list[str]
) -> None:
    chunks = cut(text.format(TEXT), 32, 0, "text/plain")
    found = dict.fromkeys(window.heading for each in chunks for window in each.windows)
    assert list(found) == expected


@pytest.mark.parametrize(
    "text",
    [
        "To do:\n\n1. Wash hands\n2. Light the lamp\n3. Go home\n\n{0}",
        "1. Wash hands\n\n2. Light the lamp\n\n3. Go home\n\n{0}",
        "1. Oil . . . . . 3\n\n{0}\n\n2. Light . . . . . 4\n\n{0}\n\n3. End . . . . . 5\n\n{0}",
        "1. Oil is bought by the board, and sold by\n{0}\n\n2. Light is made of oil, and also of what\n{0}\n\n3. All else is\n{0}",
        "12 High Street\n\n{0}\n\n13 High Street\n\n{0}\n\n14 High Street\n\n{0}",
        "10.30 Arrival\n\n{0}\n\n11.00 Lunch\n\n{0}\n\n13.30 Talk\n\n{0}",
        "1.50 Bread\n\n{0}\n\n2.20 Oil\n\n{0}\n\n3.10 Wicks\n\n{0}",
        "3. May\n\n{0}\n\n9. May\n\n{0}\n\n12. June\n\n{0}",
        "It is said in\nArticle 1 Oil\n{0} of\nArticle 2 Light\n{0} by\nArticle 3 Votes\n{0}",
        "Article 12 applies.\n\n{0}\n\nArticle 3 does not.\n\n{0}\n\nArticle 9 may.\n\n{0}",
        "1. Scope\n\n{0}\n\n2. Board\n\n{0}",
        "1. The Board. It meets.\n2. The Oil. It burns.\n3. The Light. It shines.\n\n{0}",
        "1  Bread and oil\n2  Wicks and wax\n3  Rope and tar\n\n{0}",
        "A. Smith\n\n{0}\n\nB. Jones\n\n{0}\n\nC. Brown\n\n{0}",
        "1. x = y;\n\n{0}\n\n2. call(x)\n\n{0}\n\n3. return x\n\n{0}",
    ],
)
def test_numbers_of_lists_contents_addresses_times_and_prices_make_no_sections(text: str) -> None:
    assert not list(headings(text.format(TEXT), "text/plain"))


@pytest.mark.parametrize(
    "line",
    [
        "1. A\n\nb\n\n",
        "Article 1. A ",
        "1. " + " " * 300,
        "§ 1\n",
        "1.1.1 " + "A " * 200,
        "A.1. B.\n",
        "I.\n\n",
    ],
)
def test_numbers_are_looked_at_in_linear_time(line: str) -> None:
    started = process_time()
    list(headings(line * (1_000_000 // len(line)), "text/plain"))
    assert process_time() - started < 8


# --- size ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["word\n" * 40_000, "a" * 200_000, "=====\n" * 30_000, "# H\n" * 30_000, " " * 300_000 + "end", "```\n" + "x y\n" * 60_000, "语义" * 60_000, "word " * 80_000, "\u0301" * 60_000],
    ids=["lines", "one word", "rules", "headings", "spaces", "open fence", "han", "one line", "accents"],
)  # fmt: skip
def test_uniform_text_is_chunked_too(text: str) -> None:
    chunks = cut(text, 512, 64)
    assert max(each.tokens for each in chunks) <= 512
    assert chunks[-1].end == len(text.rstrip())


def test_a_large_file_is_loaded_and_chunked(tmp_path: Path) -> None:
    """1 MB here; 50 MB are the same, fifty times as long."""
    path = tmp_path / "large.txt"
    paragraph = f"{SENTENCE}{SENTENCE}\n{SENTENCE}Grüße aus dem Jenseits.\n\n"
    path.write_text(paragraph * (1_000_000 // len(paragraph)), encoding="utf-8")
    loaded = load(DocumentSource(path=str(path)), allowed=[tmp_path], max_bytes=10_000_000)
    chunks = chunk(loaded, tokenizer=TOKENIZER, max_tokens=512, overlap=64)
    assert chunks[-1].end == len(loaded.text.rstrip())
    assert all(one.end >= other.start - 2 for one, other in pairwise(chunks))
    assert max(each.tokens for each in chunks) <= 512


@pytest.mark.parametrize(
    ("releases", "found"),
    [
        (("4.8.1: 2018-03-09", "4.8.0: 2018-02-14"), 2),
        (("v1.2 (3 May 2019)", "v1.1 (March 2, 2019)"), 2),
        (("Version 2.0.1 - released on 2020/01/05:", "2.0"), 0),
        (("lamp (1.2-3) unstable; urgency=low", "lamp (1.2-2) unstable; urgency=medium"), 2),
        (("1.2.3", "1.2.2"), 0),
        (("10.0.0.5 2024-03-01", "1.79 2024-03-01", "23.5, 2024-01-01"), 0),
        (("Version 1.27 - Ann Lee, 2019-01-02", "version 1.26, 2018-05-01"), 2),
        (
            (
                "* Noteworthy changes in release 3.6 (2021-01-01) [stable]",
                "Changes in 2.40:",
                "Changes in version 2.39:",
            ),
            3,
        ),
        (
            (
                "What's new in lamp 3.1",
                "Changes from 2.35 to 2.36",
                "v0.8.1",
                "Overview of changes in Lamp 2.0.1",
            ),
            4,
        ),
        (("dbus 1.14.10 (2023-09-01)", "dbus 1.14.8 (2023-06-06)"), 2),
        (("Version 2.4", "Release 2.3"), 2),
        (("2022-04-10: v1.0.26", "2021.07.12, Version 1.44.2 (Stable)"), 2),
        (("This version 2.4 is older.", "We asked for changes in 2.40 and got none", "- version: 1.1"), 0),
        (("On 2018-03-09 it rained.", "3.5 kg of flour on 2018-03-09"), 0),
    ],
)
def test_the_releases_of_a_list_of_changes_are_headings(releases: tuple[str, ...], found: int) -> None:
    text = "\n\n".join(f"{each}\n\t* Fix the lamp" for each in releases)
    titles = [each.strip("* ") if each.startswith("*") else each for each in releases]
    assert [each.title for each in headings(text, "text/plain")] == [
        each.rstrip(":") for each in titles[:found]
    ]


@pytest.mark.parametrize(
    ("text", "titles"),
    [
        ("Run as root:\n# apt install lamp\n# lamp --on\n\nThen look.\n", []),
        ("The file says:\n\n# Set the limit\nlimit = 5\n\n# Set the oil\noil = 3\n", []),
        ("# Lamps\n## Oil\nIt burns.\n## Wick\nIt does, too.\n", ["Lamps", "Oil", "Wick"]),
        ("Lamps burn.\n\n# Oil\n\nIt burns.\n# Wick\nIt does, too.\n", ["Oil", "Wick"]),
    ],
)
def test_a_sharp_is_a_heading_of_plain_text_only_where_the_text_surely_has_one(
    text: str, titles: list[str]
) -> None:
    assert [each.title for each in headings(text, "text/plain")] == titles


def test_the_sections_of_a_printed_manual_page_are_headings() -> None:
    text = (
        "LAMP(1)        User Commands        LAMP(1)\n\nNAME\n       lamp - light a lamp\n\nSYNOPSIS\n       lamp [OPTION]\n\n"
        "EXAMPLES\n   At sea\n       lamp --sea\n\n   On land\n       lamp --land\n\nSEE ALSO\n       lantern(1)\n"
    )
    found = [(each.level, each.title) for each in headings(text, "text/plain")]
    assert found == [
        (1, "NAME"),
        (1, "SYNOPSIS"),
        (1, "EXAMPLES"),
        (2, "At sea"),
        (2, "On land"),
        (1, "SEE ALSO"),
    ]
    assert not [*headings("NAME\n       Ann Lee\n\nSHIP\n       Nellie\n", "text/plain")]


def test_a_word_ends_at_a_radical_as_at_any_sign_of_chinese() -> None:
    text = f"⺑{'⸮' * 10}書" * 3
    assert cut(text, 32, 8)[0].text.endswith(("⺑", "⸮書", "書"))
