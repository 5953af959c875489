"""What the heuristic extractor must not take for a sentence, a title or a name."""

from __future__ import annotations

from leanrag_engine.core.model import Chunk, ExtractedEntity
from leanrag_engine.extraction.heuristic.extract import extract


def entities(text: str, title: str = "") -> dict[str, ExtractedEntity]:
    chunk = Chunk("c1", "d", 1, text, 0, len(text), len(text) // 4)
    return {entity.name: entity for found in extract([chunk], title) for entity in found.entities}


LISTS = """List of Illustrations

  The bell tower of Skerryvore by night                              12
  Alan Stevenson at his desk                                      28-29
  On the wings of the wind ................................... xi

Alan Stevenson designed the bell tower of Skerryvore in the year 1838.
"""


def test_a_line_of_a_table_of_contents_is_no_sentence_and_no_name() -> None:
    found = entities(LISTS)
    assert found["Alan Stevenson"].description == (
        "Alan Stevenson designed the bell tower of Skerryvore in the year 1838."
    )
    assert not [name for name in found if "wings" in name.lower() or name.endswith(("12", "29"))]


def test_figures_at_the_end_of_a_line_of_prose_make_no_table_of_contents() -> None:
    found = entities("Alan Stevenson built the lighthouse of Skerryvore\nin 1844. Skerryvore is in Scotland.")
    assert "Skerryvore" in found["Alan Stevenson"].description


def test_a_second_sentence_follows_only_one_that_has_ended() -> None:
    text = "- Skerryvore, the work of Alan Stevenson\n- Skerryvore is the tallest lighthouse in Scotland.\n"
    description = entities(text)["Skerryvore"].description
    assert description == "Skerryvore is the tallest lighthouse in Scotland."


def test_two_complete_sentences_are_both_kept() -> None:
    text = "Skerryvore is the tallest lighthouse in Scotland. Alan Stevenson built Skerryvore in six years."
    assert entities(text)["Skerryvore"].description == text


def test_the_number_of_a_clause_is_no_part_of_what_it_says() -> None:
    text = "1.E.8. “Skerryvore” is a registered trademark of the Northern Lighthouse Board.\n"
    description = entities(text)["Skerryvore"].description
    assert description.startswith("“Skerryvore” is a registered trademark")


def test_a_figure_that_begins_a_sentence_is_kept() -> None:
    text = "3.11 is the version of Python that Guido van Rossum praised at the conference in Berlin.\n"
    assert entities(text)["Guido van Rossum"].description.startswith("3.11 is the version")


TABLE = """The functions are listed below.

+----------+------------------------------+
| Name     | What the function does.      |
|          | which the function defined.  |
+----------+------------------------------+
"""


def test_a_line_of_a_table_is_no_title() -> None:
    assert not [name for name in entities(TABLE) if "|" in name]


def test_a_line_of_direct_speech_is_no_title() -> None:
    text = "Scrooge seemed uneasy, and answered briefly, 'Yes.'\n\nAlthough they left the school, Scrooge stayed.\n"
    assert not [name for name in entities(text) if "answered" in name]


def test_a_full_stop_without_a_space_makes_no_identifier() -> None:
    text = (
        "`dict` follows the naming convention.It is used by `list`, too, says the naming convention.It ends."
    )
    assert not [name for name in entities(text) if "convention.It" in name]
