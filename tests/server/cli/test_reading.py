"""The commands that look into a collection: ``leanrag ls | show | tree``."""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from openpyxl import Workbook
from rich.cells import cell_len
from typer.testing import CliRunner

from leanrag_engine.retrieval.request import QUERY_LIMITS
from leanrag_mcp.cli.main import app
from leanrag_mcp.cli.running import print_rows


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data folder with a built document of several passages, and one that came after the build."""
    folder = tmp_path_factory.mktemp("reading")
    (folder / "tea").mkdir()
    parts = [
        f"## Garden {place}\n\nThe garden Makaibari{place} lies near Kurseong. {'Tea is picked by hand. ' * 40}"
        for place in range(6)
    ]
    (folder / "tea" / "gardens.md").write_text("# Tea\n\n" + "\n\n".join(parts))
    (folder / "late.txt").write_text("Assam tea grows along the Brahmaputra.")
    options = ("--data-dir", str(folder / "data"))
    for arguments in (["ingest", str(folder / "tea")], ["ingest", "--no-build", str(folder / "late.txt")]):
        assert CliRunner().invoke(app, [*arguments, *options]).exit_code == 0
    return folder / "data"


def leanrag(data: Path, *arguments: str) -> str:
    ran = CliRunner().invoke(app, [*arguments, "--data-dir", str(data)])
    assert ran.exit_code == 0, ran.stderr
    return ran.stdout


def test_ls_says_of_each_document_whether_the_build_knows_it(data: Path) -> None:
    listed = json.loads(leanrag(data, "ls", "--json"))["documents"]
    assert [(Path(each["path"]).name, each["pending"]) for each in listed] == [
        ("gardens.md", False),
        ("late.txt", True),
    ]
    lines = leanrag(data, "ls").splitlines()
    assert lines[0].split()[:2] == ["d1", "indexed"]
    assert lines[1].split()[:2] == ["d2", "pending"]
    assert "1 of them pending: run `leanrag build`" in lines[2]
    assert "gardens.md" not in leanrag(data, "ls", "LATE")
    assert "No path or title of a document contains 'mate'." in leanrag(data, "ls", "mate")


def test_show_gives_a_passage_whole_with_its_place_and_neighbours(data: Path) -> None:
    first = json.loads(leanrag(data, "show", "d1:c1", "--json"))
    assert first["path"].endswith("tea/gardens.md")
    assert (first["before"], first["after"]) == ("", "d1:c2")
    second = json.loads(leanrag(data, "show", "[d1:c2]", "--json"))
    assert second["before"] == "d1:c1"
    assert second["heading"]
    text = Path(first["path"]).read_text()
    assert second["text"] == text[second["start"] : second["end"]]
    place = f"{second['path']}:{text.count(chr(10), 0, second['start']) + 1} (characters"
    assert place in leanrag(data, "show", "d1:c2")


def test_show_finds_documents_by_path_entities_by_name_and_clusters_by_ref(data: Path) -> None:
    assert json.loads(leanrag(data, "show", "gardens.md", "--json"))["number"] == "d1"
    entity = json.loads(leanrag(data, "show", "Kurseong", "--json"))
    chain = entity["ancestors"]["path"]
    assert chain[0]["name"] == "Kurseong"
    assert "d1:c1" in entity["sources"]
    assert entity["relations"]
    cluster = json.loads(leanrag(data, "show", chain[-1]["ref"], "--json"))
    assert cluster["members"]
    assert cluster["parent"] is None


def test_a_query_leaves_out_what_was_seen(data: Path) -> None:
    first = json.loads(leanrag(data, "query", "Where is Makaibari3?", "--json"))
    cited = list(dict.fromkeys(re.findall(r"\[(d\d+:c\d+)\]", first["context"])))
    assert cited
    seen = [part for citation in cited for part in ("--seen", citation)]
    again = json.loads(leanrag(data, "query", "Where is Makaibari3?", *seen, "--json"))
    blocks = "\n".join(re.findall(r"```\n(.*?)\n```", first["context"], re.DOTALL))
    said = [
        line
        for line in re.sub(r"\[d\d+:c\d+\] ?", "", blocks).split("\n")
        if len(line) > 30 and line[0] != "§"
    ]
    assert said
    # Of a passage that was shown in part the rest may come.
    assert not [each for each in said if each in again["context"]]
    refused = CliRunner().invoke(app, ["query", "Where?", "--seen", "nowhere", "--data-dir", str(data)])
    assert (refused.exit_code, "in seen is no citation" in refused.stderr) == (1, True)


def test_show_with_hops_lists_what_lies_around_an_entity(data: Path) -> None:
    near = json.loads(leanrag(data, "show", "Kurseong", "--hops", "2", "--json"))["ancestors"]["neighbours"]
    assert near
    assert near[0].startswith("- 1: ")
    assert near[0] in leanrag(data, "show", "Kurseong", "--hops", "2")
    assert near[0] not in leanrag(data, "show", "Kurseong")


def test_show_of_something_unknown_names_the_nearest_entities_and_documents(data: Path) -> None:
    ran = CliRunner().invoke(app, ["show", "gardns.md", "--data-dir", str(data)])
    assert ran.exit_code == 1
    assert "gardens.md" in ran.stderr


def test_a_relation_without_a_sentence_ends_with_its_figures(tmp_path: Path) -> None:
    (tmp_path / "rooms.csv").write_text(
        "room,area,responsible\nAtrium,120,Duarte Pires\nCanteen,84,Duarte Pires\n"
    )
    CliRunner().invoke(app, ["ingest", str(tmp_path / "rooms.csv"), "--data-dir", str(tmp_path / "data")])
    relations = [
        line for line in leanrag(tmp_path / "data", "show", "Duarte Pires").splitlines() if " — " in line
    ]
    assert relations
    assert all(line.endswith("]") for line in relations)
    around = leanrag(tmp_path / "data", "show", "Duarte Pires", "--hops", "1")
    assert re.search(r"^- 1: .*, from Duarte Pires \[d1:c1\]$", around, re.MULTILINE)


@pytest.mark.parametrize("command", [["status"], ["ingest", "-"]])
def test_a_data_folder_that_is_a_file_is_refused_as_one(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "a.txt").write_text("Assam tea grows in India.")
    ran = CliRunner().invoke(app, [*command, "--data-dir", str(tmp_path / "a.txt")], input="Tea")
    assert ran.exit_code == 1
    assert f"{tmp_path / 'a.txt'} is a file, not a folder. Choose another data folder." in ran.stderr


def test_tree_draws_the_root_and_as_much_below_it_as_asked(data: Path) -> None:
    root = json.loads(leanrag(data, "tree", "--width", "2", "--json"))["root"]
    assert len(root["children"]) == 2
    lines = leanrag(data, "tree", "--width", "2").splitlines()
    assert lines[0].startswith(root["name"])
    assert lines[-1] == f"└─ … {root['members'] - 2} more"
    assert len(leanrag(data, "tree").splitlines()) < 27


def test_collections_are_listed_with_what_changed_since_their_build(data: Path) -> None:
    (collection,) = json.loads(leanrag(data, "collections", "--json"))["collections"]
    assert (collection["name"], collection["documents"], collection["stale"]) == ("default", 2, True)
    assert leanrag(data, "collections").startswith("- default: 2 documents")


def test_a_person_copies_renames_and_deletes_collections(tmp_path: Path) -> None:
    def run(*command: str, answer: str = "") -> Any:
        return CliRunner().invoke(app, [*command, "--data-dir", str(tmp_path / "data")], input=answer)

    assert run("ingest", "-", "--title", "tea", answer="Assam tea grows in India.").exit_code == 0
    copied = run("collections", "copy", "default", "trial")
    assert (
        "Copied collection default, with its published build, to trial: 1 document, 1 passage."
        in copied.stdout
    )
    assert run("collections", "rename", "trial", "probe").stdout == "Collection trial is called probe now.\n"
    kept = run("collections", "delete", "probe", answer="n\n")
    assert kept.exit_code == 1
    assert "Delete collection probe permanently?" in kept.stderr
    assert "- probe: 1 document" in run("collections").stdout
    gone = run("collections", "delete", "probe", "--yes")
    assert "Deleted collection probe with 1 document, 1 passage and everything made from them." in gone.stdout
    assert "probe" not in run("collections", "list").stdout
    line = run("collections").stdout  # times as people read them; --json has them with their zone
    assert len(re.findall(rf"(?:made|built) {datetime.now().astimezone():%Y-%m-%d} \d\d:\d\d[, ]", line)) == 2
    zone = json.loads(run("collections", "--json").stdout)["collections"][0]["built_at"]
    assert datetime.fromisoformat(zone).tzinfo is not None
    # An option before the command would be ignored, and another folder changed.
    elsewhere = CliRunner().invoke(
        app, ["collections", "--data-dir", str(tmp_path), "rename", "default", "x"]
    )
    assert elsewhere.exit_code == 2
    assert "after" in elsewhere.stderr
    assert "- default: 1 document" in run("collections").stdout


@pytest.mark.parametrize(("editor", "expected"), [("vim", "+3 {}"), ("code", "--goto {}:3"), ("hx", "{}:3")])
def test_a_citation_is_opened_in_the_editor_at_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, editor: str, expected: str
) -> None:
    note, log, program = tmp_path / "note.md", tmp_path / "log", tmp_path / editor
    note.write_text("\n\nAssam tea grows in India.\n")
    program.write_text(f'#!/bin/sh\necho "$@" > {log}\n')
    program.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(program))
    data = tmp_path / "data"
    leanrag(data, "ingest", str(note), "--no-build")
    leanrag(data, "show", "d1:c1", "--open")
    assert log.read_text().strip() == expected.format(note)
    monkeypatch.setenv("VISUAL", str(tmp_path / "missing"))
    refused = CliRunner().invoke(app, ["show", "d1:c1", "--open", "--data-dir", str(data)])
    assert refused.exit_code == 1
    assert "cannot be started" in refused.stderr
    note.unlink()
    gone = CliRunner().invoke(app, ["show", "d1:c1", "--open", "--data-dir", str(data)])
    assert "is gone" in gone.stderr


@pytest.mark.parametrize("opener", ["", "exit 3"])
def test_a_file_that_no_program_opens_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opener: str
) -> None:
    book = Workbook()
    book.active.append(["Garden", "Assam"])  # type: ignore[union-attr]
    book.save(tmp_path / "tea.xlsx")
    data = tmp_path / "data"
    leanrag(data, "ingest", str(tmp_path / "tea.xlsx"), "--no-build")
    if opener:
        (tmp_path / "xdg-open").write_text(f"#!/bin/sh\n{opener}\n")
        (tmp_path / "xdg-open").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    ran = CliRunner().invoke(app, ["show", "d1:c1", "--open", "--data-dir", str(data)])
    assert ran.exit_code == 1
    assert f"No program on this machine opens {tmp_path / 'tea.xlsx'}." in ran.stderr


def test_show_answers_an_unknown_name_with_three_similar_ones_at_most(data: Path) -> None:
    similar = CliRunner().invoke(app, ["show", "Kurseongg", "--data-dir", str(data)])
    assert "Give one of these:\n- Kurseong (ref " in similar.stderr
    assert similar.stderr.count("\n- ") <= 3
    other = CliRunner().invoke(app, ["show", "Xyzzy Plugh", "--data-dir", str(data)])
    assert other.stderr.endswith("See `leanrag ls` and `leanrag tree`.\n")


def test_at_a_terminal_rows_are_cut_at_its_width(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr("leanrag_mcp.cli.running.sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("leanrag_mcp.cli.options.typer.echo", lambda text, **_: shown.append(text))
    monkeypatch.setenv("COLUMNS", "24")
    print_rows("short\n" + "long " * 20)
    assert shown == ["short\nlong long long long lon…"]


def test_at_a_narrow_terminal_ls_shows_paths_beneath_the_folder_that_all_share(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = leanrag(data, "ls")
    monkeypatch.setattr("leanrag_mcp.cli.reading.overview.find_width", lambda: 300)
    assert leanrag(data, "ls") == whole
    monkeypatch.setattr("leanrag_mcp.cli.reading.overview.find_width", lambda: 70)
    first, second, *_, last = leanrag(data, "ls").splitlines()
    assert "  tea/gardens.md  Tea" in first
    assert "  late.txt        late" in second
    assert last == f"Paths are beneath {data.parent.resolve()}."


def test_ls_leaves_room_for_titles_beside_long_and_wide_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes, width = tmp_path / "notes", 80
    notes.mkdir()
    (notes / f"{'a very long name of a file ' * 4}last words.md").write_text("# The ceiling\n\nIt is high.")
    (notes / f"{'展示計画' * 8}.md").write_text("# The plan of the halls\n\nIt is wide.")
    leanrag(tmp_path / "data", "sync", str(notes), "--no-build")
    monkeypatch.setattr("leanrag_mcp.cli.reading.overview.find_width", lambda: width)
    long, wide, *_ = leanrag(tmp_path / "data", "ls").splitlines()
    assert re.search("  ….*last words.md +The ceiling$", long)
    assert re.search("  ….*展示計画.md +The plan of the halls$", wide)
    assert max(map(cell_len, (long, wide))) <= width
    assert cell_len(long.partition("The c")[0]) == cell_len(wide.partition("The p")[0])


@pytest.mark.parametrize("command", [["show", "d1"], ["ls"], ["tree"], ["collections", "delete"]])
def test_a_collection_that_does_not_exist_is_named_with_those_that_do(data: Path, command: list[str]) -> None:
    named = ["teas"] if command[0] == "collections" else ["--collection", "teas"]
    ran = CliRunner().invoke(app, [*command, *named, "--data-dir", str(data)])
    assert ran.exit_code == 1
    assert "There is no collection 'teas'. These are there:" in ran.stderr
    assert ran.stderr.count("- default") == 1


def test_the_status_of_a_collection_that_does_not_exist_names_those_that_do(data: Path) -> None:
    ran = CliRunner().invoke(app, ["status", "--collection", "tee", "--data-dir", str(data)])
    assert ran.exit_code == 1
    assert "There is no collection 'tee'" in ran.stderr
    assert "- default" in ran.stderr


def test_a_question_needs_no_quotation_marks_and_errors_name_options(data: Path) -> None:
    assert leanrag(data, "query", "Kurseong", "tea") == leanrag(data, "query", "Kurseong tea")
    for command, said in (
        (["grep", "-E", "("], "Correct it, or leave out -E to search"),
        (
            ["query", "tea", "--token-budget", "20"],
            "The token budget cannot be 20. Give a whole number from 100 ",
        ),
        (["query", "?"], "The query has no word. Give a question"),
    ):
        ran = CliRunner().invoke(app, [*command, "--data-dir", str(data)])
        assert (ran.exit_code, said in ran.stderr) == (1, True), ran.stderr
    least = QUERY_LIMITS.token_budget[0]
    assert f"at least {least}" in " ".join(CliRunner().invoke(app, ["query", "--help"]).stdout.split())


def test_grep_prints_each_passage_with_its_place_and_ends_with_1_where_nothing_matches(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = leanrag(data, "grep", "makaibari").splitlines()
    assert len(lines) == 6
    assert re.fullmatch(
        r"\[d1:c\d+\] Tea \(.*gardens\.md:17\): Garden 3: The garden Makaibari3 lies near Kurseong\.",
        lines[3],
    )
    assert len(leanrag(data, "grep", "-E", "Makaibari[12]", "--document", "gardens.md").splitlines()) == 2
    (match,) = json.loads(leanrag(data, "grep", "Brahmaputra", "--json"))["matches"]
    assert match["path"].endswith("late.txt")
    first = CliRunner().invoke(app, ["grep", "makaibari", "-m", "2", "--data-dir", str(data)])
    assert len(first.stdout.splitlines()) == 2
    assert "6 matches in 6 passages of 1 document. Here 1–2 of 6. --limit gives more." in first.stderr
    nothing = CliRunner().invoke(app, ["grep", "Skerryvore", "--data-dir", str(data)])
    assert (nothing.exit_code, nothing.stdout) == (1, "")
    assert "No match." in nothing.stderr
    for typed in ("Brahmaputre", "Bráhmaputra"):
        near = CliRunner().invoke(app, ["grep", typed, "--data-dir", str(data)])
        assert "No match. Did you mean 'Brahmaputra'?" in near.stderr
    weak = CliRunner().invoke(app, ["query", "asdkjh qwlekj zzz", "--data-dir", str(data)])
    assert "Weak evidence: the best passages may not be about the question." in weak.stdout
    assert "Weak evidence" not in weak.stderr  # once is enough
    options = ["--token-budget", "100", "--data-dir", str(data)]
    weak = CliRunner().invoke(app, ["query", "asdkjh qwlekj zzz", *options])
    assert "Warning: Weak evidence: the best passages may not be about the question." in weak.stderr
    assert "search_text" not in weak.stdout
    listed = leanrag(data, "grep", "--topic", "--by-document", "gardens near Kurseong").splitlines()
    assert len(listed) == 1
    assert listed[0].endswith("passages)")
    option = CliRunner().invoke(app, ["grep", "--data-dir", str(data), "--", "--ws-max-size"])
    assert "No match." in option.stderr
    monkeypatch.setattr("leanrag_mcp.cli.reading.ask.find_width", lambda: 80)
    coloured = CliRunner().invoke(app, ["grep", "brahmaputra", "--data-dir", str(data)], color=True)
    assert "\x1b[31m\x1b[1mBrahmaputra\x1b[0m" in coloured.stdout
