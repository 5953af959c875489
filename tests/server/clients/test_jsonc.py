"""Editing JSON where it stands: what is edited changes, and nothing else does, not even by a byte."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leanrag_mcp.clients import jsonc

ENTRY = {"command": "leanrag-mcp", "args": ["--allow-dir", "/home/ada/notes"]}

WITH_COMMENTS = """\
// my servers
{
\t"inputs": [], /* none */
\t"servers": {
\t\t// the first
\t\t"files": {"command": "npx", "args": ["-y", "x"]}, // keep me here
\t\t"search": { "url": "http://127.0.0.1:1/mcp" } // and me
\t},
}
"""


def test_a_member_is_added_on_its_own_line_and_every_comment_stays_where_it_was() -> None:
    document = jsonc.parse(WITH_COMMENTS, comments=True)
    after = document.put(["servers", "leanrag"], {"command": "x"}).text
    expected = WITH_COMMENTS.replace(
        '"http://127.0.0.1:1/mcp" } // and me\n',
        '"http://127.0.0.1:1/mcp" }, // and me\n\t\t"leanrag": {\n\t\t\t"command": "x"\n\t\t}\n',
    )
    assert after == expected


def test_removing_an_added_member_restores_the_same_bytes() -> None:
    document = jsonc.parse(WITH_COMMENTS, comments=True)
    added = document.put(["servers", "leanrag"], ENTRY)
    assert added.remove(["servers", "leanrag"]).text == WITH_COMMENTS


@pytest.mark.parametrize("name", ["files", "search"])
def test_a_member_goes_with_the_comment_on_its_line_and_no_other(name: str) -> None:
    document = jsonc.parse(WITH_COMMENTS, comments=True)
    after = document.remove(["servers", name]).text
    assert "// my servers" in after
    assert "// the first" in after
    assert ("keep me here" in after) == (name != "files")
    assert ("and me" in after) == (name != "search")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{}", '{\n  "a": {\n    "b": 1\n  }\n}'),
        ("{ }\n", '{\n  "a": {\n    "b": 1\n  }\n}\n'),
        ('{"x":1}', '{"x":1,\n  "a": {\n    "b": 1\n  }\n}'),
        ('{\r\n    "a": {}\r\n}', '{\r\n    "a": {\r\n        "b": 1\r\n    }\r\n}'),
        ('{\n "a": {\n  "b": [0,  0]\n }\n}', '{\n "a": {\n  "b": 1\n }\n}'),
        ('\ufeff{"a": {"z": 1e400}}', '\ufeff{"a": {"z": 1e400,\n    "b": 1\n  }}'),
    ],
)
def test_indentation_line_ends_and_odd_numbers_stay_the_users_own(before: str, after: str) -> None:
    edited = jsonc.parse(before).put(["a", "b"], 1).text
    assert edited.replace(" ", "") == after.replace(" ", "")
    assert edited.count("\r\n") == after.count("\r\n")


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ('{\n  "a": 1,\n}', 3, "an extra comma before '}'"),
        ('{\n  "a": [1,\n]}', 3, "an extra comma before ']'"),
        ('{\n  "a": 1\n  "b": 2\n}', 3, "expected a comma or a closing bracket, found '\"'"),
        ('{\n  "a" 1\n}', 2, "expected a colon"),
        ("{\n  a: 1\n}", 2, "expected a name in quotes, found 'a'"),
        ('{\n  "a": "x\n}', 2, "a broken string"),
        ('{\n  "a": 01\n}', 2, "expected a comma or a closing bracket, found '1'"),
        ('{\n  "a": NaN\n}', 2, "expected a value, found 'N'"),
        ('{\n  "a": {', 2, "found the end of the file"),
        ("", 1, "found the end of the file"),
        ('{}\n{"a": 1}', 2, "expected the end"),
        ('{\n// note\n"a": 1}', 2, "there is a comment"),
        ("[,]", 1, "expected a value, found ','"),
        ('{"a": 1,,}', 1, "expected a name in quotes, found ','"),
        ("[-Infinity]", 1, "expected a value, found '-'"),
        ('{"a": "http://x\n', 1, "a broken string"),
        ("[" * 200_000 + "]" * 200_000, 1, "nested too deeply"),
    ],
)
def test_a_mistake_is_reported_with_its_line(text: str, line: int, said: str) -> None:
    with pytest.raises(jsonc.Malformed, match=r"line \d+") as caught:
        jsonc.parse(text)
    assert caught.value.line == line
    assert said in caught.value.problem


def test_an_unterminated_comment_is_reported_too() -> None:
    with pytest.raises(jsonc.Malformed, match="line 2: this comment is not closed"):
        jsonc.parse('{\n/* "a": 1}', comments=True)


def test_a_repeated_key_or_a_value_that_is_no_object_is_refused_rather_than_guessed() -> None:
    twice = jsonc.parse('{"a": {},\n"a": {}}')
    with pytest.raises(jsonc.Malformed, match="line 2: 'a' appears a second time"):
        twice.put(["a", "b"], 1)
    with pytest.raises(jsonc.Malformed, match="expected an object that holds 'b'"):
        jsonc.parse('{"a": null}').put(["a", "b"], 1)


def test_what_stands_between_two_comments_of_a_line_stays() -> None:
    document = jsonc.parse('{\n"a": 1,/* one */"b": 2/* two */\n}', comments=True)
    assert document.remove(["a"]).value == {"b": 2}


KEYS = st.text(min_size=1, max_size=6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)


@given(OBJECTS, st.sampled_from([None, 1, 2, "\t"]), st.booleans())
def test_any_object_reads_as_the_standard_library_reads_it(
    value: dict[str, object], indent: int | str | None, plain: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=plain)
    assert jsonc.parse(text).value == json.loads(text)


@given(OBJECTS, KEYS, KEYS, VALUES, st.sampled_from([None, 2, "\t"]))
def test_an_edit_gives_what_the_same_edit_of_a_dict_gives(
    value: dict[str, object], outer: str, inner: str, new: object, indent: int | str | None
) -> None:
    value[outer] = {**held} if isinstance(held := value.get(outer), dict) else {}
    document = jsonc.parse(json.dumps(value, indent=indent))
    edited = document.put([outer, inner], new)
    wanted = json.loads(json.dumps(value))
    wanted[outer][inner] = new
    assert json.loads(edited.text) == wanted
    del wanted[outer][inner]
    assert json.loads(edited.remove([outer, inner]).text) == wanted


GAPS = st.sampled_from(["", " ", "\n", "\r\n\t", " // a, }\n", "/* { */", "\n  // x\n  "])


@given(
    st.lists(st.tuples(GAPS, KEYS, GAPS, GAPS, GAPS), max_size=4, unique_by=lambda row: row[1]),
    GAPS,
    st.data(),
)
def test_comments_and_commas_anywhere_survive_an_edit(
    rows: list[tuple[str, str, str, str, str]], end: str, data: st.DataObject
) -> None:
    body = ",".join(f"{a}{json.dumps(key)}{b}:{c}1{d}" for a, key, b, c, d in rows)
    comma = data.draw(st.sampled_from(["", ","])) if rows else ""
    text = f"{{{body}{comma}{end}}}"
    document = jsonc.parse(text, comments=True)
    edited = document.put(["leanrag-new"], {"x": 1})
    assert edited.value == {**document.value, "leanrag-new": {"x": 1}}
    for sign in ("//", "/*"):
        assert edited.text.count(sign) == text.count(sign)
    again = edited.remove(["leanrag-new"])
    assert again.value == document.value
    for key in document.value:
        assert key not in document.remove([key]).value
