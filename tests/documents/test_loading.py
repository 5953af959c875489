"""Loading: every format, every error, and the files that a folder expands to."""

from __future__ import annotations

import base64
import io
import logging
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import docx
import pytest
from docx.oxml import parse_xml
from openpyxl import Workbook
from pypdf import PdfWriter
from pypdf.generic import (
    ArrayObject,
    DecodedStreamObject,
    DictionaryObject,
    NameObject,
    NumberObject,
    TextStringObject,
)

from leanrag_engine.core.errors import DocumentUnreadable, FormatUnsupported, InvalidInput, PathRefused
from leanrag_engine.core.model import DocumentSource, LoadedDocument, Page
from leanrag_engine.documents import loading
from leanrag_engine.documents.loading import Expansion, expand, identify, load

LIMIT = 10_000_000


def read(path: Path | str, **source: Any) -> LoadedDocument:
    return load(DocumentSource(path=str(path), **source), allowed=None, max_bytes=LIMIT)


def inline(text: str, **source: Any) -> LoadedDocument:
    return load(DocumentSource(text=text, **source), allowed=(), max_bytes=LIMIT)


def write_file(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return path


def refusal(path: Path | str, error: type[InvalidInput] = DocumentUnreadable, **options: Any) -> InvalidInput:
    """The error of loading ``path``, which names it and says what to do."""
    options = {"allowed": None, "max_bytes": LIMIT} | options
    with pytest.raises(error) as caught:
        load(DocumentSource(path=str(path)), **options)
    assert str(path) in caught.value.message
    assert caught.value.next_step
    return caught.value


# --- sources ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (DocumentSource(), "neither"),
        (DocumentSource(path="a.txt", text="b"), "both"),
        (DocumentSource(title="x"), "neither"),
    ],
)
def test_a_source_needs_exactly_one_of_path_and_text(source: DocumentSource, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        load(source, allowed=None, max_bytes=LIMIT)


@pytest.mark.parametrize(("text", "problem"), [("", "empty"), (" \n\t\u200b ", "white space")])
def test_an_inline_text_without_a_word_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem) as caught:
        inline(text, id="note-7")
    assert "note-7" in caught.value.message


def test_inline_text_is_cleaned_and_named_by_its_content() -> None:
    one = inline("\ufeffMarley was dead:\r\nto begin with.")
    assert one.text == "Marley was dead:\nto begin with."
    assert one.title == "Marley was dead:"
    assert one.id == inline("Marley was dead:\nto begin with.").id
    assert one.id.startswith("text-")
    assert one.id != inline("Marley was alive.").id
    assert (one.source, one.media_type) == ("", "text/plain")


def test_a_given_id_and_title_take_precedence() -> None:
    document = inline("Some text.", id=" note ", title=" A  note\n")
    assert (document.id, document.title) == ("note", "A note")


def test_a_long_first_line_gives_a_bounded_title_cut_at_a_word() -> None:
    title = inline("word " * 500).title
    assert len(title) <= 201
    assert title.endswith("word…")


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("***\n# Deep Sea #\ntext", "Deep Sea"),
        ("Tuples\n======\n\nText.", "Tuples"),
        ("!!!", "!!!"),
        ("=====\nTop\n=====", "Top"),
    ],
)
def test_an_inline_title_is_its_first_line_with_a_word(text: str, title: str) -> None:
    assert inline(text).title == title


def test_metadata_become_strings() -> None:
    document = inline("x", metadata={"year": 2026, "score": 0.5, "draft": True, " tag ": "a\r\nb"})
    assert document.metadata == {"year": "2026", "score": "0.5", "draft": "true", "tag": "a\nb"}


@pytest.mark.parametrize("metadata", [{"tags": ["a"]}, {"nothing": None}, {"": "x"}, {3: "x"}])
def test_other_metadata_are_refused_by_name(metadata: dict[Any, Any]) -> None:
    with pytest.raises(InvalidInput, match="Metadata") as caught:
        inline("x", metadata=metadata)
    assert repr(next(iter(metadata))) in caught.value.message


@pytest.mark.parametrize("bad", ["x" * 2_001, "a\nb", "a\x00b"])
def test_an_id_that_cannot_be_kept_is_refused(bad: str) -> None:
    with pytest.raises(InvalidInput, match="Document id"):
        inline("x", id=bad)


def test_inline_text_is_bounded_in_bytes() -> None:
    with pytest.raises(InvalidInput, match="12 bytes; at most 10"):
        load(DocumentSource(text="中文字符"), allowed=None, max_bytes=10)


# --- paths ---------------------------------------------------------------------------


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A folder that may be read, with a secret beside it."""
    write_file(tmp_path, "library/a.txt", "Readable.")
    write_file(tmp_path, "library/deep/b.md", "# Deep\n\nText.")
    write_file(tmp_path, "secret/key.txt", "Secret.")
    return tmp_path / "library"


def test_a_file_beneath_an_allowed_folder_is_read(library: Path) -> None:
    document = load(DocumentSource(path=str(library / "a.txt")), allowed=[library], max_bytes=LIMIT)
    assert document.text == "Readable."
    assert document.id == document.source == (library / "a.txt").resolve().as_posix()
    assert (document.title, document.media_type) == ("a", "text/plain")


def test_no_allowed_folder_refuses_every_path_and_says_how_to_allow_one(library: Path) -> None:
    error = refusal(library / "a.txt", PathRefused, allowed=())
    assert "no folder is allowed" in error.message
    assert "LEANRAG_ALLOW_DIRS" in error.next_step


def test_a_path_outside_gets_the_same_error_whether_it_exists_or_not(library: Path) -> None:
    secret = library.parent / "secret"
    outside = [
        secret / "key.txt",
        secret / "none.txt",
        secret,
        secret / "key.txt" / "x",
        library / ".." / "secret" / "key.txt",
        library / ".." / "secret" / "none.txt",
        "/",
    ]
    errors = [refusal(path, PathRefused, allowed=[library]) for path in outside]
    assert len({error.message.partition(" is refused: ")[2] for error in errors}) == 1
    assert str(library) in errors[0].message


def test_a_link_that_leads_out_is_refused_wherever_it_points(library: Path) -> None:
    (library / "file.txt").symlink_to(library.parent / "secret" / "key.txt")
    (library / "dangling.txt").symlink_to(library.parent / "secret" / "none.txt")
    (library / "folder").symlink_to(library.parent / "secret")
    for path in (library / "file.txt", library / "dangling.txt", library / "folder" / "key.txt"):
        error = refusal(path, PathRefused, allowed=[library])
        assert "secret" not in str(error)


@pytest.mark.parametrize("swapped", ["in/a.txt", "in"], ids=["the file", "its folder"])
def test_a_link_that_takes_the_place_of_a_file_after_it_was_checked_is_not_followed(
    library: Path, monkeypatch: pytest.MonkeyPatch, swapped: str
) -> None:
    """A program that swaps a file for a link wins the race against every check of the path alone."""
    path = write_file(library, "in/a.txt", "Readable.")
    secret = write_file(library.parent / "secret", "a.txt", "The secret.")
    resolve = loading._resolve

    def swap_after_the_check(given: str, allowed: Sequence[Path] | None) -> Path:
        found = resolve(given, allowed)
        (library / swapped).rename(library / "aside")
        (library / swapped).symlink_to(secret if swapped.endswith("txt") else secret.parent)
        return found

    monkeypatch.setattr(loading, "_resolve", swap_after_the_check)
    assert "secret" not in str(refusal(path, PathRefused, allowed=[library]))


def test_a_path_through_a_link_outside_reveals_nothing(library: Path) -> None:
    (library.parent / "secret" / "link").symlink_to("/")
    for name in ("link", "none"):
        path = f"{library}/../secret/{name}/../../library/a.txt"
        assert load(DocumentSource(path=path), allowed=[library], max_bytes=LIMIT).text == "Readable."


def test_a_link_into_an_allowed_folder_is_followed(library: Path) -> None:
    (library / "again.txt").symlink_to(library / "a.txt")
    document = load(DocumentSource(path=str(library / "again.txt")), allowed=[library], max_bytes=LIMIT)
    assert document.id == (library / "a.txt").resolve().as_posix()


def test_an_allowed_folder_may_itself_be_a_link(library: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(library)
    allowed = [tmp_path / "alias"]
    assert (
        load(DocumentSource(path=str(library / "a.txt")), allowed=allowed, max_bytes=LIMIT).text
        == "Readable."
    )


def test_a_relative_path_is_looked_up_where_the_process_stands_then_in_the_allowed_folders(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    document = load(
        DocumentSource(path="deep/b.md"), allowed=[library.parent / "none", library], max_bytes=LIMIT
    )
    assert document.title == "Deep"
    monkeypatch.chdir(library / "deep")
    assert read("b.md").id == document.id
    assert refusal("../../secret/key.txt", PathRefused, allowed=[library])


def test_a_file_address_is_a_path_and_a_web_address_is_not(library: Path) -> None:
    assert read(f"file://{library}/a.txt").text == "Readable."
    assert "network" in refusal("https://example.org/a.txt", InvalidInput).message


def test_a_missing_file_is_named_with_those_that_look_like_it(library: Path) -> None:
    error = refusal(library / "aa.txt", allowed=[library])
    assert "There is no file" in error.message
    assert "'a.txt'" in error.message
    assert "There is no file" in refusal(library / "a.txt" / "x").message


def test_similar_names_are_not_looked_for_outside(tmp_path: Path) -> None:
    write_file(tmp_path, "lib2.txt", "x")
    assert "lib2" not in refusal(tmp_path / "lib", allowed=[tmp_path / "lib"]).message


def test_a_folder_a_pipe_and_a_nul_are_no_files(library: Path) -> None:
    assert "is a folder" in refusal(library, InvalidInput).message
    os.mkfifo(library / "pipe.txt")
    assert "regular file" in refusal(library / "pipe.txt").message
    with pytest.raises(InvalidInput, match="NUL"):
        read("a\0b.txt")


def test_a_loop_of_links_is_an_error_not_a_crash(library: Path) -> None:
    (library / "loop.txt").symlink_to(library / "pool.txt")
    (library / "pool.txt").symlink_to(library / "loop.txt")
    refusal(library / "loop.txt", allowed=[library])
    refusal(library / "loop.txt")


def test_a_file_that_this_user_may_not_read_says_so(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(loading, "open_beneath", closed)  # as root every file is open
    assert "no permission" in refusal(library / "a.txt").message


def test_a_file_beyond_the_limit_is_refused_unread(library: Path) -> None:
    path = write_file(library, "big.txt", "x" * 5_000)
    assert "5,000 bytes; at most 4,999" in refusal(path, max_bytes=4_999).message
    assert load(DocumentSource(path=str(path)), allowed=None, max_bytes=5_000).text == "x" * 5_000


def test_a_name_that_is_not_utf8_gives_an_id_that_any_store_can_keep(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/caf\xe9.txt"
    try:
        Path(os.fsdecode(path)).write_text("x", encoding="utf-8")
    except OSError:
        pytest.skip("this file system takes UTF-8 names alone")
    document = read(os.fsdecode(path))
    assert document.title == r"caf\xe9"
    assert document.id.encode("utf-8").endswith(rb"caf\xe9.txt")


def test_a_name_that_reads_as_another_one_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DocumentUnreadable, match=r"caf\\xe9.txt' cannot be read"):
        identify(DocumentSource(path=str(tmp_path / r"caf\xe9.txt")), allowed=None)
    plain = tmp_path / r"caf\x2d\n.txt"
    assert identify(DocumentSource(path=str(plain)), allowed=None) == (str(plain), plain)


@pytest.mark.parametrize("id_", ["d1", "D12", " d7 "])
def test_an_id_that_reads_as_the_number_of_a_document_is_refused(id_: str) -> None:
    with pytest.raises(InvalidInput, match="no number of a document such as d3"):
        load(DocumentSource(text="x", id=id_), allowed=None, max_bytes=100)


# --- text ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "problem"), [(b"", "0 bytes"), (b" \n\t\n", "no text"), (b"\xef\xbb\xbf", "no text")]
)
def test_a_file_without_text_is_refused(tmp_path: Path, content: bytes, problem: str) -> None:
    assert problem in refusal(write_file(tmp_path, "a.txt", content)).message


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.py", "a.log", "README", "LICENSE", "Makefile", "A.TXT"])
def test_text_is_read_whatever_it_is_called(tmp_path: Path, name: str) -> None:
    assert read(write_file(tmp_path, name, "Some text.\r\nMore.")).text == "Some text.\nMore."


@pytest.mark.parametrize("name", ["a.ppt", "a.xls", "a.png", "a.doc", "a.zip", "a", "a.2024", ".env"])
def test_other_kinds_are_not_supported_yet(tmp_path: Path, name: str) -> None:
    error = refusal(write_file(tmp_path, name, "text"), FormatUnsupported)
    assert "not supported yet" in error.message
    assert ".pdf" in error.message


PROSE = "The lighthouse keeper wrote down every ship that passed the rock.\nHe did so for eleven years.\n"


@pytest.mark.parametrize(
    "name", ["README.Debian", "notes", "guide.adoc", "todo.org", "faq.2024", "mail.letter"]
)
@pytest.mark.parametrize(
    "text", [PROSE, PROSE.replace("\n", "\r\n"), "灯塔看守人记下了每一艘经过的船。" * 9, "# " + PROSE * 500]
)
def test_prose_is_read_under_any_name(tmp_path: Path, name: str, text: str) -> None:
    path = write_file(tmp_path, name, text)
    assert "rock" in read(path).text or "灯塔" in read(path).text
    assert [each.name for each in expand(str(tmp_path), allowed=[tmp_path]).files] == [name]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("id_key", b"-----BEGIN OPENSSH PRIVATE KEY-----\n" + b"b3BlbnNzaC1rZXktdjEAAAAA\n" * 20),
        ("icon.svg", b'<svg xmlns="http://www.w3.org/2000/svg"><path d="M10 10h4v4z M3 3l9 9"/></svg>'),
        ("table.dat", b"1.0 2.5 3.25\n" * 100),
        ("image.bin", PROSE.encode() + b"\x00\x01"),
        ("old.doc", PROSE.encode("utf-16")),
        ("latin", "Żółta łódź stoi w porcie, a latarnik śpi.".encode("cp1250")),
    ],
)
def test_under_an_unknown_name_nothing_but_prose_is_read(tmp_path: Path, name: str, content: bytes) -> None:
    assert "not supported yet" in refusal(write_file(tmp_path, name, content), FormatUnsupported).message
    assert expand(str(tmp_path), allowed=[tmp_path]).files == ()


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"%PDF-1.7\n...", "a PDF"),
        (b"PK\x03\x04abc", "ZIP"),
        (b"\x89PNG\r\n", "PNG"),
        (b"ab\x00cd", "binary"),
        (b"\x01\x02\x03abc", "binary"),
    ],
)
def test_a_binary_file_called_text_is_refused_and_named(tmp_path: Path, content: bytes, kind: str) -> None:
    assert kind in refusal(write_file(tmp_path, "a.txt", content)).message


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_byte_order_marks_are_obeyed_and_dropped(tmp_path: Path, encoding: str) -> None:
    text = "Grüße, 世界"
    mark = "\ufeff" if encoding == "utf-16-le" else ""
    document = read(write_file(tmp_path, "a.txt", (mark + text).encode(encoding)))
    assert document.text == text


@pytest.mark.parametrize(
    "text",
    [
        "Grüße aus Köln. Der Kaffee kostet drei Euro.",
        "The café opens at nine – “sharp”.",
        "Le prix est de 30 € à l'entrée.",
        "¿Dónde está el año?",
    ],
)
def test_a_short_note_in_a_western_encoding_is_read_and_one_of_another_is_refused(
    tmp_path: Path, text: str
) -> None:
    document = read(write_file(tmp_path, "a.txt", text.encode("cp1252")))
    assert document.text == text
    assert document.metadata["encoding"] == "windows-1252"
    for other, encoding in (
        ("Żółta łódź z Gdańska.", "cp1250"),
        ("Příliš žluťoučký kůň.", "cp1250"),
        ("Да, the end.", "cp1251"),
        ("Ναι, the end.", "cp1253"),
    ):
        refusal(write_file(tmp_path, "b.txt", other.encode(encoding)))


def test_invalid_utf8_names_the_offset_of_the_first_wrong_byte(tmp_path: Path) -> None:
    error = refusal(write_file(tmp_path, "a.txt", b"hello \xff\xfe\xfa world"))
    assert "byte 6 is 0xff" in error.message
    assert "UTF-8" in error.next_step


def test_a_broken_byte_order_mark_is_an_error(tmp_path: Path) -> None:
    assert "utf-16-le" in refusal(write_file(tmp_path, "a.txt", b"\xff\xfea\x00b")).message


FRENCH = "Où sont passés les élèves ? Ils étaient à l'école près de la forêt, où le maître leur répétait la leçon. "
RUSSIAN = "Все счастливые семьи похожи друг на друга, каждая несчастливая семья несчастлива по-своему. "
JAPANESE = "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。"
CHINESE = "传统方法将知识视为线性序列或简单的文本树,未能显式建模文档内不同实体和概念之间复杂的关系。"
KOREAN = "모든 국민은 인간으로서의 존엄과 가치를 가지며, 행복을 추구할 권리를 가진다. "
CZECH = "Vážení kolegové, připomínáme, že termín odevzdání zprávy vyprší v pátek. "
TURKISH = "Sayın meslektaşlarım, rapor teslim süresinin cuma günü sona erdiğini hatırlatırız. "
LITHUANIAN = (
    "Gerbiami kolegos, primename, kad ataskaitos pateikimo terminas baigiasi penktadienį čia šiandien. "
)
ENGLISH = "The naïve café owner said “hello” — it’s a résumé. Nobody else in the village had said so much. "


@pytest.mark.parametrize(
    ("text", "encoding"),
    [(FRENCH, "windows-1252"), (RUSSIAN, "windows-1251"), (RUSSIAN, "koi8-r"), (JAPANESE, "cp932"), (JAPANESE, "euc-jp"),
     (JAPANESE, "iso-2022-jp"), (CHINESE, "gb18030"), (KOREAN, "cp949"), (ENGLISH, "windows-1252"),
     (CZECH, "iso-8859-2"), (TURKISH, "windows-1254"), (LITHUANIAN * 3, "windows-1257"), (RUSSIAN[:62], "windows-1251")],
)  # fmt: skip
def test_a_legacy_encoding_is_detected_from_the_text_and_recorded(
    tmp_path: Path, text: str, encoding: str
) -> None:
    document = read(write_file(tmp_path, "a.txt", text.encode(encoding)))
    assert document.text == text
    assert document.metadata == {"encoding": encoding}


def test_damaged_utf8_keeps_what_is_readable_and_says_where_it_was_not(tmp_path: Path) -> None:
    content = (FRENCH * 3).encode().replace("é".encode(), b"\xc3", 1)
    document = read(write_file(tmp_path, "a.txt", content), metadata={"by": "me"})
    assert document.text.count("\ufffd") == 1
    assert "école" in document.text
    at = content.index(b"\xc3s")
    assert document.metadata["encoding"].endswith(f"the first at byte {at}")
    assert document.metadata["by"] == "me"


def test_one_wrong_byte_in_a_long_log_does_not_refuse_it(tmp_path: Path) -> None:
    document = read(write_file(tmp_path, "a.log", b"a line of a log\n" * 2_000 + b"\xff" + b"more\n"))
    assert document.text.count("\ufffd") == 1
    assert "1 places" in document.metadata["encoding"]


# --- Markdown and reStructuredText ---------------------------------------------------------


def test_markdown_stays_as_it_is_and_is_called_by_its_first_heading(tmp_path: Path) -> None:
    text = "```\n# no heading\n```\n\n# Deep *Sea*\n\n| a | b |\n|---|---|\n"
    document = read(write_file(tmp_path, "x.md", text))
    assert (document.text, document.title, document.media_type) == (text, "Deep *Sea*", "text/markdown")


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("## 9.10. Backup\n\nText.\n\n### Tools\n\nMore.\n", "9.10. Backup"),
        ("## Monday\n\nText.\n\n## Tuesday\n\nMore.\n", "a"),
        ("Text before.\n\n## Usage\n\nMore.\n", "a"),
    ],
)
def test_a_heading_that_stands_above_all_others_is_the_title(tmp_path: Path, text: str, title: str) -> None:
    assert read(write_file(tmp_path, "a.md", text)).title == title


def test_front_matter_gives_title_and_metadata_and_stays_to_be_found(tmp_path: Path) -> None:
    fields = 'title: "On: Ghosts"\nauthor: Dickens\nabout: >\n  A long night.\ntags:\n  - a\n'
    document = read(
        write_file(tmp_path, "x.md", f"---\n{fields}---\n# Other\n\nText."), metadata={"author": "given"}
    )
    assert (document.title, document.text) == ("On: Ghosts", f"\n{fields}\n# Other\n\nText.")
    assert document.metadata == {"author": "given", "tags": "a"}
    again = read(write_file(tmp_path, "y.md", "---\ntitle: Ghosts\nby: me\n---\n# Ghosts\n\nText."))
    assert (again.title, again.text, again.first_line) == ("Ghosts", "\n\nby: me\n\n# Ghosts\n\nText.", 1)
    dull = read(
        write_file(tmp_path, "z.md", "---\ncreated: 2024-01-02\nweight: 81\ntags: []\n---\n# Ghosts\n\nText.")
    )
    assert dull.text == "\n\nweight: 81\n\n\n# Ghosts\n\nText."
    assert dull.metadata["created"] == "2024-01-02"


@pytest.mark.parametrize(
    ("text", "title", "date"),
    [
        (
            '{"id": 7, "subject": "Certificate expired", "created": "2025-06-30T05:50:00Z"}',
            "Certificate expired",
            "2025-06-30",
        ),
        ('{"Name": "The lamp", "updated": "3 May 2024", "date": "no day"}', "The lamp", "2024-05-03"),
        ('{"title": "Oil\\nlamps", "created_at": 3}', "Oil lamps", ""),
        ('{"name": "lamp-ui", "version": "1.0"}', "x", ""),
        ('[{"title": "Oil", "date": "2024-05-03"}]', "x", ""),
        ('{"title": ["Oil"], "date": {"day": 3}}', "x", ""),
        ('{"title": "Oil", "date": ', "x", ""),
        ('{"a":' * 9_000, "x", ""),
    ],
)
def test_an_object_of_json_names_and_dates_its_document(
    tmp_path: Path, text: str, title: str, date: str
) -> None:
    document = read(write_file(tmp_path, "x.json", text))
    assert (document.title, document.date if document.date_origin == "metadata" else "") == (title, date)


def test_letters_that_json_writes_as_numbers_are_read_as_letters(tmp_path: Path) -> None:
    text = '{"street": "Stra\\u00dfe", "sign": "\\ud83d\\ude00", "break": "a\\u000ab", "path": "C:\\\\u0041"}'
    document = read(write_file(tmp_path, "x.json", text))
    assert document.text == '{"street": "Straße", "sign": "😀", "break": "a\\u000ab", "path": "C:\\\\u0041"}'


def test_front_matter_of_a_given_text_is_read_as_that_of_a_file() -> None:
    text = "---\ntitle: Real Title\ndate: 2011-02-03\nkind: minutes\n---\n# Head\n\nText."
    found = load(DocumentSource(text=text, id="fm.md"), allowed=(), max_bytes=10_000)
    assert (found.title, found.metadata["kind"], found.date) == ("Real Title", "minutes", "2011-02-03")


def test_a_rule_at_the_top_is_no_front_matter(tmp_path: Path) -> None:
    text = "---\n\nA text.\n\n---\n"
    assert read(write_file(tmp_path, "x.md", text)).text == text


@pytest.mark.parametrize(
    ("name", "text", "title"),
    [("x.rst", "Title\n=====\n\nText", "Title"), ("x.rst", "====\n Ü\n====\n", "Ü"), ("x.md", "Title\n===\n\nText", "Title"),
     ("x.rst", ".. _guide:\n\n==========\n   Tasks\n==========\n\nBasics\n======\n\nText", "Tasks"),
     ("x.rst", ":mod:`celery` and ``a.b`` --- `x`\n=================================\n\nText", "celery and a.b --- `x`"),
     ("x.rst", "S3\n--\n\nText", "S3"), ("x.rst", "Ada\n--\n\nText", "x"),
     ("x.md", "## Second\n", "x"), ("x.md", "## Second\n\na\n\n### Third\n", "Second"), ("x.txt", "# First\n", "x")],
)  # fmt: skip
def test_titles_of_marked_text(tmp_path: Path, name: str, text: str, title: str) -> None:
    assert read(write_file(tmp_path, name, text)).title == title


# --- HTML ----------------------------------------------------------------------------------

PAGE = """<?xml version="1.0"?><!DOCTYPE html>
<html><head><title> The
 Page &amp; more</title><style>p {}</style><script>var x = "no";</script></head>
<body><nav><ul><li>Menu</li></ul></nav>
<h1>Top <a class="headerlink" href="#x">¶</a></h1>
<p>First   <b>bold</b>&nbsp;text<br>second line<!-- no -->.</p>
<ul><li>one</li><li>two<ol><li>two a</li><li>two b</li></ol></li></ul>
<table><tr><th>Name</th><th>Age</th></tr><tr><td><p>Ann</p></td><td>3</td></tr></table>
<pre>if x:
    # no heading
    pass</pre>
<h2 hidden>Hidden</h2><div>A<div>B</div>C</div><script>tail</script>tail text
</body></html>"""


def test_a_page_becomes_lines_as_a_reader_sees_them(tmp_path: Path) -> None:
    document = read(write_file(tmp_path, "x.html", PAGE))
    assert document.title == "The Page & more"
    assert document.text == (
        "# Top\n\nFirst bold text\nsecond line.\n\n- one\n- two\n  1. two a\n  2. two b\n\n"
        "Table, 1 row: Name | Age\nRow 1: Name: Ann; Age: 3\n\n```\nif x:\n    # no heading\n    pass\n```\n\nA\n\nB\n\nC\n\ntail text"
    )


def test_a_table_of_names_and_values_has_no_header_and_lists_keep_their_numbers(tmp_path: Path) -> None:
    page = "<table><tr><th>Name<td>Ada</tr><tr><th>Born<td>1815</tr></table><ol start=5><li>e<li>f<li value=9>i<li>j</ol>"
    lines = read(write_file(tmp_path, "x.html", page)).text.split("\n")
    assert [line for line in lines if line] == [
        "| Name | Ada |",
        "| Born | 1815 |",
        "5. e",
        "6. f",
        "9. i",
        "10. j",
    ]


def test_a_table_that_lays_out_a_page_is_no_table(tmp_path: Path) -> None:
    page = "<table><tr><td><h1>Head</h1><ul><li>x</li></ul></td><td><table><tr><td>a</td><td>b</td></tr></table></td></tr></table>"
    assert read(write_file(tmp_path, "x.htm", page)).text == "# Head\n\n- x\n\n| a | b |"


@pytest.mark.parametrize(
    ("page", "note"),
    [('<meta charset="iso-8859-1"><p>caf\xe9 – x</p>'.replace("–", "\x96").encode("latin-1"), "windows-1252"),
     ("<meta http-equiv='Content-Type' content='text/html; charset=Shift_JIS'><p>猫である</p>".encode("cp932"), "shift_jis"),
     ("<meta charset='latin-1'><p>Größe</p>".encode(), None)],
)  # fmt: skip
def test_the_declared_encoding_of_a_page_is_used_unless_it_is_utf8(
    tmp_path: Path, page: bytes, note: str | None
) -> None:
    document = read(write_file(tmp_path, "x.html", page))
    assert document.metadata.get("encoding") == note
    assert document.text in ("café – x", "猫である", "Größe")


@pytest.mark.parametrize("name", ["undefined", "idna", "punycode", "unicode_escape", "rot13", "klingon"])
def test_a_page_that_declares_no_encoding_of_pages_is_read_as_if_it_declared_none(
    tmp_path: Path, name: str
) -> None:
    page = f"<meta charset={name}><p>caf\xe9</p>".encode("latin-1")
    assert "is not valid UTF-8" in refusal(write_file(tmp_path, "x.html", page)).message


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<h2>Keys</h2><main><p>The thing itself.</p></main>footer", "The thing itself."),
        ("<p>" + "A long text. " * 9 + "</p><main>x</main>", ("A long text. " * 9).strip() + "\n\nx"),
        ("<main>one</main><main>two</main>", "one\n\ntwo"),
        (
            "<nav>Menu</nav><main>The post.</main><div id='comments'><p class='comment'>It works.</p></div><footer>End</footer>",
            "The post.\n\nIt works.",
        ),
        ("<div class='comments'><main>One text.</main></div><p>rest</p>", "One text."),
    ],
    ids=["one", "too small", "two", "comments", "within comments"],
)
def test_the_main_part_of_a_page_is_read_alone(tmp_path: Path, page: str, text: str) -> None:
    assert read(write_file(tmp_path, "x.html", f"<body>{page}</body>")).text == text


def test_deep_nesting_loses_nothing(tmp_path: Path) -> None:
    page = "<div>" * 1_500 + "deep" + "</div>" * 1_500 + "<p>after</p>"
    assert read(write_file(tmp_path, "x.html", page)).text == "deep\n\nafter"


def test_a_page_whose_tags_are_never_closed_is_read_to_its_end(tmp_path: Path) -> None:
    page = "".join(f"<font color=red>Row {number}.<br>" for number in range(4000))
    document = read(write_file(tmp_path, "x.html", f"<body>{page}<p>The end.</p></body>"))
    assert "Row 3999." in document.text
    assert document.text.endswith("The end.")


def test_a_page_that_nests_too_deep_is_refused_and_not_cut(tmp_path: Path) -> None:
    page = f"<body>{'<div>' * 4000}deep{'</div>' * 4000}<p>after</p></body>"
    assert "nests more than 2,048 elements" in refusal(write_file(tmp_path, "x.html", page)).message


@pytest.mark.parametrize(
    "page", ["<html><head><title>x</title></head><body><script>1</script></body></html>", "<!-- -->"]
)
def test_a_page_without_visible_text_is_refused(tmp_path: Path, page: str) -> None:
    refusal(write_file(tmp_path, "x.html", page))


# --- PDF -----------------------------------------------------------------------------------


def pdf(
    pages: Sequence[Sequence[str]], title: str = "", password: str | None = None, cipher: str = "RC4-128"
) -> bytes:
    """A PDF with one line of Helvetica for each string."""
    writer = PdfWriter()
    font = DictionaryObject(
        {NameObject("/Type"): NameObject("/Font"), NameObject("/Subtype"): NameObject("/Type1"),
         NameObject("/BaseFont"): NameObject("/Helvetica"), NameObject("/Encoding"): NameObject("/WinAnsiEncoding")}
    )  # fmt: skip
    for lines in pages:
        page = writer.add_blank_page(595, 842)
        page[NameObject("/Resources")] = DictionaryObject(
            {NameObject("/Font"): DictionaryObject({NameObject("/F1"): font})}
        )
        shown = "".join(f"({line}) Tj 0 -14 Td\n" for line in lines)
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 10 Tf 50 800 Td\n{shown}ET".encode("cp1252"))
        page[NameObject("/Contents")] = writer._add_object(stream)
    if title:
        writer.add_metadata({"/Title": title})
    if password is not None:
        writer.encrypt(user_password=password, owner_password=password, algorithm=cipher)
    data = io.BytesIO()
    writer.write(data)
    return data.getvalue()


def test_pages_are_known_by_their_start(tmp_path: Path) -> None:
    data = pdf([["The first page ends."], [], ["The third page", "runs on"], ["over to the fourth."]])
    document = read(write_file(tmp_path, "x.pdf", data))
    assert document.text == "The first page ends.\n\nThe third page\nruns on\nover to the fourth."
    assert document.pages == (Page(1, 0), Page(3, 22), Page(4, 45))
    assert document.metadata == {"pages_without_text": "2"}
    assert (document.title, document.media_type) == ("x", "application/pdf")


@pytest.mark.parametrize("number", ["- {} -", "{}", "Page {} of 5", "The harbour report of 2024 | {}"])
def test_page_numbers_are_taken_out_and_running_heads_but_for_the_first(tmp_path: Path, number: str) -> None:
    bodies = ["Ghosts walk.", "Clocks strike.", "Snow falls.", "Bells ring.", "Doors open."]
    pages = [["Annual Report", body, "Confidential", number.format(at)] for at, body in enumerate(bodies, 1)]
    document = read(write_file(tmp_path, "x.pdf", pdf(pages)))
    lines = [line for line in document.text.split("\n") if line]
    assert [line for line in lines if line in bodies] == bodies
    assert (lines[0], lines.count("Annual Report")) == ("Annual Report", 1)
    assert lines.count("Confidential") == 1 + (
        "report" in number
    )  # the first one stands above a line that stays
    assert len(lines) == len(bodies) + 2 + 2 * ("report" in number)
    starts = [document.text[page.start :].split("\n")[0] for page in document.pages]
    assert starts == ["Annual Report", *bodies[1:]]


def test_a_running_head_that_begins_with_the_number_of_the_page_is_taken_out_everywhere(
    tmp_path: Path,
) -> None:
    bodies = ["Ghosts walk.", "Clocks strike.", "Snow falls.", "Bells ring.", "Doors open.", "Bats fly."]
    heads = [
        "On ghosts",
        *(f"{at} A report on ghosts" if at % 2 == 0 else f"Ada Lund {at}" for at in range(2, 7)),
    ]
    text = read(write_file(tmp_path, "x.pdf", pdf([*map(list, zip(heads, bodies, strict=True))]))).text
    assert not [line for line in text.split("\n") if "A report" in line]
    short = [[f"{at} ghost FAQ", body] for at, body in enumerate(bodies, 1)]
    text = read(write_file(tmp_path, "y.pdf", pdf(short))).text
    assert [line for line in text.split("\n") if line] == bodies
    bills = [[f"Invoice {at}", body] for at, body in enumerate(bodies, 1)]
    assert "Invoice 5" in read(write_file(tmp_path, "z.pdf", pdf(bills))).text


def test_a_wide_line_does_not_end_the_paragraphs_of_a_column(tmp_path: Path) -> None:
    column = [
        "The ghost walks at night",
        "and it sings as it goes.",
        "It is heard in the town",
        "by all who are awake.",
    ]
    title = "A long report on all of the ghosts that were seen in this house, and of what was done"
    text = read(write_file(tmp_path, "x.pdf", pdf([[title, *column, *column, "The end.", *column]]))).text
    assert "as it goes.\nIt is" in text
    assert "The end.\n\nThe ghost" in text


def test_what_a_browser_prints_around_a_page_and_the_heads_of_left_and_right_pages_stand_once(
    tmp_path: Path,
) -> None:
    printed = ["11/28/26, 4:32 AM Plan", "Ghosts walk.", "https://plan.example/a?b=1 1/2"]
    pages = [printed, ["11/28/26, 4:32 AM Plan", "Clocks strike.", "https://plan.example/a?b=1 2/2"]]
    lines = read(write_file(tmp_path, "x.pdf", pdf(pages))).text.split()
    assert lines.count("11/28/26,") == 1
    assert "2/2" not in lines
    heads = [f"Ghosts of {at}" for at in "ABCDEFG"]
    book = [["Left" if at % 2 else "Right", f"{line} walk."] for at, line in enumerate(heads)]
    lines = read(write_file(tmp_path, "y.pdf", pdf(book))).text.split()
    assert [lines.count("Left"), lines.count("Right")] == [1, 1]


def test_first_and_last_lines_that_say_what_differs_from_page_to_page_stay(tmp_path: Path) -> None:
    pages = [
        [f"Invoice 2024-00{at}", f"Invoice {at}", f"For lamp {at}", f"Total: {at}47 euros", "Paid: yes"]
        for at in range(1, 6)
    ]
    text = read(write_file(tmp_path, "x.pdf", pdf(pages))).text
    assert [line for line in text.split("\n") if line] == [line for lines in pages for line in lines]


def test_what_was_filled_into_a_form_is_read(tmp_path: Path) -> None:
    writer = PdfWriter(clone_from=io.BytesIO(pdf([["Name of the person:"]])))
    field = {
        "/Type": NameObject("/Annot"),
        "/Subtype": NameObject("/Widget"),
        "/FT": NameObject("/Tx"),
        "/F": NumberObject(4),
    }
    field |= {
        "/T": TextStringObject("name"),
        "/V": TextStringObject("Ilse Brandt"),
        "/DA": TextStringObject("/F1 10 Tf"),
    }
    field["/Rect"] = ArrayObject(map(NumberObject, (50, 700, 300, 720)))
    page = writer.pages[0]
    place = writer._add_object(DictionaryObject({NameObject(key): value for key, value in field.items()}))
    page[NameObject("/Annots")] = ArrayObject([place])
    form = {"/Fields": ArrayObject([place]), "/DR": page["/Resources"]}
    writer._root_object[NameObject("/AcroForm")] = DictionaryObject(
        {NameObject(key): value for key, value in form.items()}
    )
    data = io.BytesIO()
    writer.write(data)
    assert "Ilse Brandt" in read(write_file(tmp_path, "x.pdf", data.getvalue())).text


def test_words_cut_at_a_line_end_are_whole_again(tmp_path: Path) -> None:
    lines = [
        "Some infor-", "mation we gener-", "ate on long-", "term plans. We generate information on long-term comput-",
        "ers, needs of machine-", "learning, a machine for learning, and Anglo-", "Saxon comput-", "ing.",
    ]  # fmt: skip
    text = read(write_file(tmp_path, "x.pdf", pdf([lines]))).text
    assert text == (
        "Some information we generate on long-term plans. We generate information on long-term computers, needs of "
        "machine-learning, a machine for learning, and Anglo-Saxon computing."
    )


def test_a_remark_at_the_margin_and_the_line_that_it_stands_on_are_not_one_word(tmp_path: Path) -> None:
    # Manuals set "[Function]" at the right margin before what it stands beside.
    line = ") Tj 400 0 Td ([Function]) Tj -400 0 Td (int open"
    data = pdf([[line, "It opens the file."]])
    words = read(write_file(tmp_path, "x.pdf", data)).text.split()
    assert words.count("int") == words.count("[Function]") == 1


def lay_out(*cells: tuple[int, str]) -> str:
    """A line of cells, each so far from the margin."""
    return ") Tj ".join(f"{x} 0 Td ({text}) Tj {-x} 0 Td (" for x, text in cells).join([") Tj ", ""])


def test_rows_of_a_table_in_a_pdf_are_records_with_the_names_of_its_columns(tmp_path: Path) -> None:
    lines = [
        "Table 3. Depths by slot",
        lay_out((0, "Slot"), (120, "Depth at LW"), (230, "Bottom")),
        lay_out((0, "North wall"), (150, "1.8"), (230, "mud and a layer of")),
        lay_out((230, "broken shells")),
        lay_out((0, "Crane quay"), (150, "3.1"), (230, "rock")),
        lay_out((0, "Visitors"), (230, "sand")),
        "Boats that draw more than this touch the bottom at low water.",
    ]
    text = read(write_file(tmp_path, "x.pdf", pdf([lines]))).text
    assert [line for line in text.split("\n") if line] == [
        "Table 3. Depths by slot",
        "Table 3. Depths by slot, 3 rows: Slot | Depth at LW | Bottom",
        "Row 1: Slot: North wall; Depth at LW: 1.8; Bottom: mud and a layer of broken shells",
        "Row 2: Slot: Crane quay; Depth at LW: 3.1; Bottom: rock",
        "Row 3: Slot: Visitors; Bottom: sand",
        "Boats that draw more than this touch the bottom at low water.",
    ]


def test_two_columns_of_prose_in_a_pdf_are_no_table(tmp_path: Path) -> None:
    left = "The harbour was dredged and the spoil was taken"
    lines = [lay_out((0, left), (300, "out to sea by the same barge that had")) for _ in range(4)]
    assert "|" not in read(write_file(tmp_path, "x.pdf", pdf([lines]))).text


def test_the_date_of_a_pdf_is_that_in_its_properties(tmp_path: Path) -> None:
    writer = PdfWriter(io.BytesIO(pdf([["Text."]])))
    writer.add_metadata({"/CreationDate": "D:20240619092202+02'00'"})
    data = io.BytesIO()
    writer.write(data)
    document = read(write_file(tmp_path, "x.pdf", data.getvalue()))
    assert (document.date, document.date_origin) == ("2024-06-19", "file properties")


def test_a_document_that_cuts_no_words_keeps_its_hyphens(tmp_path: Path) -> None:
    lines = ["A long-", "term plan is a long-term plan of cross-", "selling."]
    text = read(write_file(tmp_path, "x.pdf", pdf([lines]))).text
    assert text == "A long-term plan is a long-term plan of cross-selling."


def test_a_word_cut_at_the_end_of_a_typed_line_is_whole_where_it_is_english(tmp_path: Path) -> None:
    lines = "It walks all di-\nrectories, and a long-\nterm plan is kept well-\nknown."
    text = read(write_file(tmp_path, "x.txt", lines.encode())).text
    assert text == "It walks all directories,\nand a long-term\nplan is kept well-\nknown."


@pytest.mark.parametrize(
    ("given", "title"),
    [
        ("Deep Sea", "Deep Sea"),
        ("untitled", "x"),
        ("Microsoft Word - a.doc", "x"),
        ("thesis_final.docx", "x"),
        ("12", "x"),
    ],
)
def test_a_pdf_title_is_taken_if_a_person_wrote_it(tmp_path: Path, given: str, title: str) -> None:
    assert read(write_file(tmp_path, "x.pdf", pdf([["Text."]], title=given))).title == title


def test_a_scanned_pdf_says_so(tmp_path: Path) -> None:
    error = refusal(write_file(tmp_path, "x.pdf", pdf([[], []])))
    assert "2 pages but no text layer" in error.message
    assert "OCR" in error.next_step


@pytest.mark.parametrize("cipher", ["RC4-128", "AES-256"])
def test_a_pdf_with_a_password_says_so_and_one_without_opens(tmp_path: Path, cipher: str) -> None:
    locked = pdf([["Text."]], password="user", cipher=cipher)  # noqa: S106 - of this test alone
    assert "password" in refusal(write_file(tmp_path, "x.pdf", locked)).message
    opened = write_file(tmp_path, "y.pdf", pdf([["Text."]], password="", cipher=cipher))
    assert read(opened).text == "Text."


@pytest.mark.parametrize(
    "damage",
    [lambda data: data[:200], lambda _: b"no PDF at all", lambda data: data[300:], lambda _: b"%PDF-1.4\n"],
)
def test_a_damaged_pdf_says_so_without_noise(
    tmp_path: Path, damage: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        refusal(write_file(tmp_path, "x.pdf", damage(pdf([["Text."]]))))
    assert not caplog.records


def test_a_real_pdf_reads_well(shared_data: Path) -> None:
    document = read(shared_data / "formats" / "artificial-intelligence.pdf")
    assert [page.number for page in document.pages] == [1, 2, 3, 4, 5]
    assert document.text.startswith(
        "Artificial intelligence, or AI, is technology that enables computers\nand machines"
    )
    assert "mission-critical situations" in document.text
    assert "Machine-learning techniques" in document.text
    assert "\n\nOn its own or combined" in document.text


# --- DOCX ----------------------------------------------------------------------------------

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def save_document(document: Any) -> bytes:
    data = io.BytesIO()
    document.save(data)
    return data.getvalue()


def test_a_word_document_is_read_in_its_order(tmp_path: Path) -> None:
    document = docx.Document()
    document.core_properties.title = "Word Document 1"
    document.add_heading("Report", level=0)
    document.add_heading("Methods", level=2)
    document.add_paragraph("First paragraph.")
    table = document.add_table(2, 2)
    for cell, text in zip([*table.rows[0].cells, *table.rows[1].cells], ["a", "b", "c", "d"], strict=True):
        cell.text = text
    document.add_paragraph("one", style="List Bullet")
    document.add_paragraph("two", style="List Number")
    document.add_paragraph("Last.")
    loaded = read(write_file(tmp_path, "x.docx", save_document(document)))
    assert (
        loaded.text
        == "# Report\n\n## Methods\n\nFirst paragraph.\n\n| a | b |\n| c | d |\n\n- one\n1. two\n\nLast."
    )
    assert loaded.title == "Report"


def test_what_stands_beside_the_text_of_a_word_document_is_read(tmp_path: Path) -> None:
    document = docx.Document()
    paragraph = document.add_paragraph("See the drawing.")
    document.add_comment(paragraph.runs, text="Ask Ines.", author="Tom")
    document.sections[0].header.paragraphs[0].text = "Contract 4711"
    document.sections[0].footer.paragraphs[0].text = "12"
    picture = document.add_paragraph().add_run().add_picture(io.BytesIO(PIXEL))
    picture._inline.docPr.set("descr", "A lamp")
    text = read(write_file(tmp_path, "x.docx", save_document(document))).text
    assert sorted(filter(None, text.split("\n"))) == [
        "Comment: Ask Ines.",
        "Header: Contract 4711",
        "See the drawing.",
        "[A lamp]",
    ]


def test_cells_that_a_row_of_a_word_table_begins_with_may_be_missing(tmp_path: Path) -> None:
    document = docx.Document()
    table = document.add_table(3, 3)
    for row, texts in zip(
        table.rows, (("Name", "Budget", "Spent"), ("Ines", "100", "50"), ("", "200", "70")), strict=True
    ):
        for cell, text in zip(row.cells, texts, strict=True):
            cell.text = text
    last = table.rows[2]._tr
    last.remove(last.tc_lst[0])
    last.insert(0, parse_xml(f'<w:trPr {W}><w:gridBefore w:val="1"/></w:trPr>'))
    assert (
        "Row 2: Budget: 200; Spent: 70" in read(write_file(tmp_path, "x.docx", save_document(document))).text
    )


def test_inserted_text_is_read_and_deleted_text_is_not(tmp_path: Path) -> None:
    document = docx.Document()
    body = document.element.body
    body.insert(0, parse_xml(
        f'<w:p {W}><w:r><w:t xml:space="preserve">Kept </w:t></w:r><w:ins w:id="1" w:author="a"><w:r><w:t>new</w:t></w:r></w:ins>'
        '<w:del w:id="2" w:author="a"><w:r><w:delText>old</w:delText></w:r></w:del><w:r><w:tab/><w:t>end</w:t></w:r></w:p>'
    ))  # fmt: skip
    body.insert(
        1,
        parse_xml(
            f"<w:sdt {W}><w:sdtContent><w:p><w:r><w:t>In a control.</w:t></w:r></w:p></w:sdtContent></w:sdt>"
        ),
    )
    assert (
        read(write_file(tmp_path, "x.docx", save_document(document))).text == "Kept new\tend\n\nIn a control."
    )


def test_a_style_based_on_a_heading_is_a_heading(tmp_path: Path) -> None:
    document = docx.Document()
    style = document.styles.add_style("Chapter Opening", docx.enum.style.WD_STYLE_TYPE.PARAGRAPH)
    style.base_style = document.styles["Heading 1"]
    document.add_paragraph("Ghosts", style="Chapter Opening")
    document.add_paragraph("Text.")
    assert read(write_file(tmp_path, "x.docx", save_document(document))).text == "# Ghosts\n\nText."


def test_text_boxes_of_a_real_document_are_read_once(shared_data: Path) -> None:
    text = read(shared_data / "formats" / "example.docx").text
    assert text.count("<inline-image1>") == text.count("<floating-shape>") == 1


def archive(**parts: str) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in parts.items():
            file.writestr(name, content)
    return data.getvalue()


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"no zip", "damaged"), (archive(a="b"), "damaged"), (b"\xd0\xcf\x11\xe0" + b"\0" * 600, "password"),
     (save_document(docx.Document())[:2_000], "damaged"), (archive(a="0" * 120_000_000), "unpacks"), (save_document(docx.Document()), "no text")],
    ids=["no zip", "other zip", "encrypted", "cut", "bomb", "empty"],
)  # fmt: skip
def test_a_word_document_that_cannot_be_read_says_why(tmp_path: Path, content: bytes, problem: str) -> None:
    assert problem in refusal(write_file(tmp_path, "x.docx", content)).message


def test_a_spreadsheet_under_another_name_is_refused(tmp_path: Path) -> None:
    book = Workbook()
    book.active.append(["Ewan Reid", 1811])
    book.save(tmp_path / "x.xlsx")
    refusal((tmp_path / "x.xlsx").rename(tmp_path / "x.docx"))


# --- folders -------------------------------------------------------------------------------


def names(expansion: Expansion, root: Path) -> list[str]:
    return [path.relative_to(root.resolve()).as_posix() for path in expansion.files]


def test_a_file_expands_to_itself_supported_or_not(library: Path) -> None:
    assert expand(str(library / "a.txt"), allowed=None) == Expansion(((library / "a.txt").resolve(),))
    image = write_file(library, "x.png", b"\x89PNG")
    assert expand(str(image), allowed=[library]).files == (image.resolve(),)


def test_a_folder_expands_to_its_supported_files_sorted(library: Path) -> None:
    for name in ("z.md", "deep/a/c.pdf", "B.TXT", "README", "x.png", "notes", "empty.txt"):
        write_file(library, name, "" if name.startswith("empty") else "x")
    for name in (
        ".git/config.txt",
        ".hidden.md",
        "node_modules/a.js",
        "__pycache__/a.py",
        "env/pyvenv.cfg",
        "env/lib/a.py",
        "~$a.docx",
        "a.md~",
    ):
        write_file(library, name, "x")
    found = expand(str(library), allowed=[library])
    assert names(found, library) == ["B.TXT", "README", "a.txt", "deep/a/c.pdf", "deep/b.md", "z.md"]
    assert [(each.path.name, each.reason) for each in found.skipped] == [
        ("empty.txt", "empty"),
        ("notes", "not supported yet: a file without a suffix"),
        ("x.png", "not supported yet: .png files"),
    ]
    assert expand(str(library), allowed=[library]) == found


def test_links_within_are_followed_once_and_loops_end(library: Path) -> None:
    (library / "deep" / "up").symlink_to(library)
    (library / "copy.txt").symlink_to(library / "a.txt")
    (library / "gone.txt").symlink_to(library / "none.txt")
    (library / "self").symlink_to(library / "self")
    found = expand(str(library), allowed=[library])
    assert names(found, library) == ["a.txt", "deep/b.md"]
    assert [skipped.path.name for skipped in found.skipped] == ["gone.txt", "self"]


@pytest.mark.parametrize("anywhere", [True, False])
def test_links_that_lead_out_of_the_folder_are_reported_not_followed(
    library: Path, *, anywhere: bool
) -> None:
    (library / "out").symlink_to(library.parent / "secret")
    (library / "key.txt").symlink_to(library.parent / "secret" / "key.txt")
    found = expand(str(library), allowed=None if anywhere else [library])
    assert names(found, library) == ["a.txt", "deep/b.md"]
    assert [skipped.path.name for skipped in found.skipped] == ["key.txt", "out"]
    assert all("leads out" in skipped.reason for skipped in found.skipped)


def test_a_link_between_two_allowed_folders_is_followed(library: Path) -> None:
    secret = library.parent / "secret"
    (library / "out").symlink_to(secret)
    found = expand(str(library), allowed=[library, secret])
    assert (secret / "key.txt").resolve() in found.files


def test_a_folder_outside_or_missing_is_an_error(library: Path) -> None:
    with pytest.raises(PathRefused):
        expand(str(library.parent / "secret"), allowed=[library])
    with pytest.raises(DocumentUnreadable, match="There is no file or folder"):
        expand(str(library / "none"), allowed=[library])


def test_a_hidden_folder_named_by_the_caller_is_read(tmp_path: Path) -> None:
    write_file(tmp_path, ".notes/a.md", "# A")
    assert names(expand(str(tmp_path / ".notes"), allowed=None), tmp_path) == [".notes/a.md"]


def test_the_formats_of_a_folder_are_recognised(tmp_path: Path) -> None:
    for name in ("a.pdf", "b.txt", "c.docx", "d.png", "e.pptx", "f.xlsx"):
        write_file(tmp_path, name, "anything")
    found = expand(str(tmp_path), allowed=None)
    assert [path.suffix for path in found.files] == [".pdf", ".txt", ".docx", ".pptx", ".xlsx"]
    assert [skipped.path.suffix for skipped in found.skipped] == [".png"]


def test_the_files_of_a_folder_count_up(tmp_path: Path) -> None:
    for name in ("v10.md", "v2.md", "a/9.md", "a/10.md"):
        write_file(tmp_path, name, "Text.")
    found = expand(str(tmp_path), allowed=[tmp_path])
    assert [str(path.relative_to(tmp_path)) for path in found.files] == [
        "a/9.md",
        "a/10.md",
        "v2.md",
        "v10.md",
    ]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("# v8.6.0\n\nNew.\n\n# v8.5.0\n\nOld.\n", "a"),
        ("# [1.2.0] - 2024-01-02\n\nNew.\n\n# [1.1.0]\n\nOld.\n", "a"),
        ("# Overview\n\nText.\n\n# Use\n\nText.\n", "a"),
        ("# Overview\n\nText.\n\n## Use\n\nText.\n", "Overview"),
        ("- [ ] " + "call the harbour about the lamp " * 5 + "\n\n# Archived\n\nText.\n", "a"),
        ("![logo](a.png) [docs](https://a.example/b)\n\n# Lamp\n\nText.\n", "Lamp"),
        ('<h1 align="center">\n  <img src="logo.png">\n  <b>Zod</b>\n</h1>\n\n## Use\n\nText.\n', "Zod"),
    ],
)
def test_the_first_of_several_parts_gives_no_title(tmp_path: Path, text: str, title: str) -> None:
    (tmp_path / "a.md").write_text(text)
    found = load(DocumentSource(path=str(tmp_path / "a.md")), allowed=None, max_bytes=10_000)
    assert found.title == title
