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


# --- terms of long texts -------------------------------------------------------------------

WALK = "They went on and on until it was dark, and then they came back again as slowly as before. "


def narrative(*scenes: str, words: int = 17_000) -> str:
    """A long text with ``scenes`` at equal distances."""
    filler = WALK * (words // len(WALK.split()) // len(scenes))
    return "\n\n".join(f"{filler}\n\n{scene}" for scene in scenes)


def terms(text: str) -> dict[str, str]:
    """Return the type of each entity of a text in chunks."""
    chunks = [
        Chunk(f"c{number}", "d", number, text[start : start + 4_000], start, start + 4_000, 900)
        for number, start in enumerate(range(0, len(text), 4_000), 1)
    ]
    return {entity.name: entity.type for found in extract(chunks, "") for entity in found.entities}


def test_a_noun_that_a_scene_is_about_is_an_entity_and_one_that_is_everywhere_in_a_book_is_not() -> None:
    drawn = "She opened the curtains. The curtains were red, and he liked the curtains. "
    scenes = ["He stood at the window and smiled."] * 30
    scenes[7] = scenes[8] = f"He stood at the window. {drawn * 3}"
    book = terms(narrative(*scenes, words=52_000))
    assert "curtains" in book
    assert "window" not in book
    assert {"curtains", "window"} <= terms(narrative(*scenes)).keys()


def test_a_participle_before_a_noun_only_describes_in_a_narrative() -> None:
    scenes = ["He heard a beating heart and saw an apple pie."] * 3
    found = terms(narrative(*scenes))
    assert found["apple pie"] == "concept"
    assert "beating heart" not in found


def test_a_phrase_that_a_long_text_seldom_has_stays_weak_when_it_comes_again() -> None:
    scenes = ("He ate an apple pie.", "She liked the apple pie.", "Then the apple pie was gone.")
    assert terms(narrative(*scenes, words=31_000))["apple pie"] == "term"


def test_a_phrase_that_counts_is_no_term() -> None:
    text = "It lasted fifteen years. After fifteen years the wine press broke, and the wine press stood for four-and-twenty hours. "
    found = entities(text * 3)
    assert "wine press" in found
    assert not [name for name in found if name.endswith(("years", "hours"))]


# --- lines that head nothing ---------------------------------------------------------------

LETTERS = """Subject: the organ

The bellows of the organ are torn, and the builder will come to Leiden in June.

Ann Lee and Bob

---

The concert in Leiden was a success, and Carl Gauss sang.

Here Ann Lee spoke--

"We have money for the organ of Leiden," she said.

Finis
"""


def test_a_signature_an_introduction_of_speech_and_the_last_line_head_nothing() -> None:
    chunk = Chunk("c1", "d", 1, LETTERS, 0, len(LETTERS), 120)
    (found,) = extract([chunk], "")
    names = {entity.name for entity in found.entities}
    assert names >= {"Ann Lee", "Leiden", "Carl Gauss"}
    assert not [name for name in names if "spoke" in name or " and " in name or name == "Finis"]


# --- relations -----------------------------------------------------------------------------


def test_a_clause_of_a_long_sentence_states_what_joins_two_entities() -> None:
    rest = "and the people of the valley had much to say about the river and the bridge and the mill and the road"
    text = f"Ann Lee was a friend of Carl Gauss in those years; {'; '.join([rest] * 3)}."
    chunk = Chunk("c1", "d", 1, text, 0, len(text), 120)
    (found,) = extract([chunk], "")
    (relation,) = [
        each for each in found.relations if {each.source, each.target} == {"Ann Lee", "Carl Gauss"}
    ]
    assert relation.description == "Ann Lee was a friend of Carl Gauss in those years"


def test_a_heading_is_related_by_a_sentence_that_states_something_if_there_is_one() -> None:
    text = "# Silver Lake\n\n- Bob Ray is the boatman of the lake\n- Others\n\nIn the end Bob Ray and others sailed home."
    chunk = Chunk("c1", "d", 1, text, 0, len(text), 120)
    (found,) = extract([chunk], "")
    told = {frozenset((each.source, each.target)): each.description for each in found.relations}
    assert told[frozenset(("Silver Lake", "Bob Ray"))] == "In the end Bob Ray and others sailed home."
