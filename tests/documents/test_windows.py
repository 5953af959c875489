"""Windows: a few sentences of one section each, nothing torn, nothing lost."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from leanrag_engine.adapters.tokenizer import TiktokenTokenizer
from leanrag_engine.core.model import Chunk, DocumentSource, LoadedDocument
from leanrag_engine.documents.chunking import chunk
from leanrag_engine.documents.loading import load
from leanrag_engine.documents.windows import WindowOptions

TIKTOKEN = TiktokenTokenizer()
OPTIONS = WindowOptions()

SENTENCES = " ".join(f"Sentence number {n} says a little about ships and harbours." for n in range(60))
CODE = "```python\n" + "\n".join(f"value_{n} = compute({n})  # a step" for n in range(20)) + "\n```"
TABLE = "\n".join(["| a | b |", "|---|---|", *(f"| {n} | value {n} |" for n in range(8))])


def chunked(text: str, media_type: str = "text/markdown", tokens: int = 1200) -> list[Chunk]:
    document = LoadedDocument("doc", "A title", text, media_type)
    return chunk(document, tokenizer=TIKTOKEN, max_tokens=tokens, overlap=0)


def cut(text: str, media_type: str = "text/markdown") -> list[tuple[str, str]]:
    """Heading and text of each window."""
    return [
        (window.heading, each.quote(window)) for each in chunked(text, media_type) for window in each.windows
    ]


def texts(text: str, media_type: str = "text/markdown") -> list[str]:
    return [each for _, each in cut(text, media_type)]


blocks = st.sampled_from(
    [
        SENTENCES[:600],
        "Short.",
        CODE,
        TABLE,
        "- one item\n- another item\n- a third",
        "# Ships",
        "## Sails",
        "灯塔在那一年的冬天第一次点亮。" * 20,
        "word" * 400,
        "    indented = code()",
        "As follows:",
        "```\nnever closed",
    ]
)


@given(
    st.lists(blocks, min_size=1, max_size=10).map("\n\n".join),
    st.sampled_from(["text/markdown", "text/plain", "text/x-python"]),
    st.sampled_from([80, 400, 1200]),
)
@settings(max_examples=60, deadline=None)
def test_every_character_but_headings_and_white_space_lies_in_exactly_one_window(
    text: str, media_type: str, tokens: int
) -> None:
    document = LoadedDocument("doc", "A title", text, media_type)
    chunks = chunk(document, tokenizer=TIKTOKEN, max_tokens=tokens, overlap=tokens // 8)
    covered = [0] * len(document.text)
    for each in chunks:
        for window in each.windows:
            assert each.start <= window.start < window.end <= each.end
            assert each.quote(window) == document.text[window.start : window.end]
            for place in range(window.start, window.end):
                covered[place] += 1
    assert max(covered) == 1
    lost = "".join(char for char, count in zip(document.text, covered, strict=True) if not count).split()
    assert set(lost) <= {"#", "##", "Ships", "Sails"}


def test_windows_hold_whole_sentences_of_about_a_hundred_tokens() -> None:
    found = texts(SENTENCES)
    assert len(found) > 4
    assert all(each.startswith("Sentence number") and each.endswith("harbours.") for each in found)
    sizes = [TIKTOKEN.count(each) for each in found]
    assert max(sizes) <= OPTIONS.longest
    assert min(sizes[:-1]) > OPTIONS.target // 2


def test_each_window_has_the_path_of_its_own_headings() -> None:
    first, second = SENTENCES[:200], SENTENCES[200:400]
    found = {text[:20]: heading for heading, text in cut(f"# Ships\n\n{first}\n\n## Sails\n\n{second}")}
    assert found == {first[:20]: "Ships", second.strip()[:20]: "Ships > Sails"}


def test_fenced_code_and_a_table_are_whole_though_longer_than_a_window() -> None:
    assert TIKTOKEN.count(CODE) > OPTIONS.longest
    assert any(CODE in each for each in texts(f"{SENTENCES[:300]}\n\n{CODE}\n\n{SENTENCES[300:600]}"))
    assert any(TABLE in each for each in texts(f"{SENTENCES[:600]}\n\n{TABLE}\n\n{SENTENCES[600:1200]}"))


def test_a_list_item_is_not_cut_from_its_second_line() -> None:
    items = [f"- item {n} begins here\n  and goes on in a second line, {n}" for n in range(40)]
    for each in texts("\n".join(items)):
        assert re.match("- item", each)
        assert len(re.findall("begins here", each)) == len(re.findall("second line", each))


def test_a_list_item_of_several_sentences_is_not_cut_between_them() -> None:
    items = [
        f"- Release {number} mends the pump of boat {number}. It had leaked since the storm of {1900 + number}, as Ines wrote. Thanks to Tom."
        for number in range(12)
    ]
    windows = texts("# News\n\n" + "\n".join(items))
    assert len(windows) > 2
    assert all(line in items for window in windows for line in window.split("\n"))


def test_an_option_is_not_cut_from_what_stands_indented_beneath_it() -> None:
    said = "\n".join(["        It does a thing. It has no effect elsewhere. A warning is given."] * 3)
    options = [f"  --option-{n}=NUM, -{n}\n{said}\n        The end of {n}." for n in range(12)]
    for each in texts("\n\n".join(options), "text/plain"):
        assert re.match(" *--option", each)
        assert len(re.findall("--option", each)) == len(re.findall("The end of", each))


def test_announced_code_stays_with_the_sentence_that_announces_it() -> None:
    code = "```\nrun(this)\nthen(that)\n```"
    text = f"{SENTENCES[:540]} It is called like this:\n\n{code}\n\n{SENTENCES[600:1200]}"
    (window,) = [each for each in texts(text) if code in each]
    assert "It is called like this:" in window


def test_cjk_text_is_cut_at_sentences_and_a_text_without_any_at_characters() -> None:
    found = texts("灯塔在那一年的冬天第一次点亮。" * 40)
    assert len(found) > 1
    assert all(each.endswith("。") for each in found)
    endless = texts("灯塔" * 1500)
    assert all(TIKTOKEN.count(each) <= 2 * OPTIONS.longest for each in endless)


def test_a_line_that_is_far_too_long_is_cut_at_words() -> None:
    found = texts(" ".join(f"word{n}" for n in range(1500)), "text/plain")
    assert all(re.fullmatch(r"word\d+( word\d+)*", each) for each in found)
    assert max(map(TIKTOKEN.count, found)) <= 1.5 * OPTIONS.longest


def test_source_code_is_cut_between_lines_only() -> None:
    lines = [f"    value_{n} = compute({n}) if ready else None" for n in range(120)]
    source = "def main():\n" + "\n".join(lines)
    known = set(source.split("\n"))
    found = texts(source, "text/x-python")
    assert len(found) > 3
    assert {line for each in found for line in each.split("\n")} <= known


def test_a_section_of_a_heading_alone_is_one_window() -> None:
    (only,) = chunked("# Nothing but this")
    assert len(only.windows) == 1


def test_data_is_cut_between_items_so_that_a_key_stays_with_its_value() -> None:
    items = [
        f'- name: SETTING_{n}\n  value: "{n * 1000}"\n  about: what number {n} is for' for n in range(40)
    ]
    for each in texts("\n".join(items), "application/yaml"):
        assert each.startswith("- name:")
        assert each.count("name:") == each.count("value:") == each.count("about:")
    objects = ",\n".join(f'  {{\n    "id": {n},\n    "body": "text of {n}"\n  }}' for n in range(40))
    for each in texts(f"[\n{objects}\n]", "application/json")[1:]:
        assert each.startswith("  {")


def test_a_window_holds_a_whole_person_of_a_family_tree(tmp_path: Path) -> None:
    persons = "".join(
        f"0 @I{n}@ INDI\n1 NAME Ada{n} /Lovett/\n1 BIRT\n2 DATE 2 FEB 19{n}\n2 PLAC Whitby. Yorkshire. England.\n1 FAMS @F1@\n"
        for n in range(10, 40)
    )
    (tmp_path / "tree.ged").write_text(f"0 HEAD\n1 SOUR Test\n{persons}0 TRLR\n")
    document = load(DocumentSource(path=str(tmp_path / "tree.ged")), allowed=None, max_bytes=9_000_000)
    chunks = chunk(document, tokenizer=TIKTOKEN, max_tokens=256, overlap=0)
    found = [(window.heading, each.quote(window)) for each in chunks for window in each.windows]
    whole = [each for each in found if each[1].startswith("1 NAME") and each[1].endswith("1 FAMS @F1@")]
    assert len(whole) == 30
    assert whole[0][0].endswith("@I10@ INDI")
