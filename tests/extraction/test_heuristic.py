"""The extractor that needs no model: gold tables for what a person would call the names and terms of a text."""

import json
import pydoc_data.topics
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leanrag_engine.adapters.tokenizer import TiktokenTokenizer
from leanrag_engine.core.model import Chunk, Extract, ExtractedEntity, LoadedDocument, Method
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.core.text.language.words import word_count
from leanrag_engine.documents.chunking import chunk
from leanrag_engine.extraction.heuristic.extract import extract
from leanrag_engine.extraction.heuristic.passages import parse_chunks
from leanrag_engine.extraction.heuristic.topics import Topics

SHARED = Path(__file__).parents[3] / "shared"


def document(*passages: str, heading: str = "") -> list[Chunk]:
    """Chunks that follow each other without overlap."""
    chunks: list[Chunk] = []
    start = 0
    for number, text in enumerate(passages, 1):
        end = start + len(text)
        chunks.append(Chunk(f"c{number}", "d", number, text, start, end, len(text) // 4, heading=heading))
        start = end
    return chunks


def cut(text: str, size: int = 2_000) -> list[Chunk]:
    """Chunks of about ``size`` characters that end with a paragraph."""
    passages = [""]
    for paragraph in re.split(r"(?<=\n)\n", text):
        if len(passages[-1]) + len(paragraph) > size:
            passages.append("")
        passages[-1] += paragraph + "\n"
    return document(*passages)


def entities(text: str, title: str = "") -> dict[str, ExtractedEntity]:
    return {
        entity.name: entity for extract_ in extract(document(text), title) for entity in extract_.entities
    }


def keys(text: str, title: str = "") -> set[str]:
    return {name_key(name) for name in entities(text, title)}


def counted(extracts: list[Extract]) -> Counter[str]:
    return Counter(name_key(entity.name) for extract_ in extracts for entity in extract_.entities)


# --- names ---------------------------------------------------------------------------------

NAMES = [
    (
        "The Journal of Mathematical Physics is published by the American Institute of Physics; Jan Philip Solovej from the University of Copenhagen edits it.",
        {
            "Journal of Mathematical Physics",
            "American Institute of Physics",
            "Jan Philip Solovej",
            "University of Copenhagen",
        },
    ),
    (
        'It is a sister of "Adweek", "Billboard" and "The Hollywood Reporter", owned by J. B. Lippincott Company.',
        {"Adweek", "Billboard", "Hollywood Reporter", "J. B. Lippincott Company"},
    ),
    (
        "In 1963 Kennedy spoke. The 2012 Summer Olympics were held in London, and Apollo 11 flew under PEP 3107.",
        {"Kennedy", "2012 Summer Olympics", "London", "Apollo 11", "PEP 3107"},
    ),
    (
        "He wrote for Men's Studies Press and the International Council for Small Business in St. Mary's Church.",
        {"Men's Studies Press", "International Council for Small Business", "St. Mary's Church"},
    ),
    (
        "They met Mr. Topper, Ludwig van Beethoven, Charles de Gaulle and Alexander the Great near Lake Como.",
        {"Topper", "Ludwig van Beethoven", "Charles de Gaulle", "Alexander the Great", "Lake Como"},
    ),
    ("The iPhone and GraphRAG beat AT&T in the US.", {"iPhone", "GraphRAG", "AT&T", "US"}),
    ("Later Scrooge went home. When Scrooge slept, Scrooge dreamt.", {"Scrooge"}),
]


@pytest.mark.parametrize(("text", "expected"), NAMES)
def test_capitalised_phrases_are_names(text: str, expected: set[str]) -> None:
    assert {name_key(name) for name in expected} <= keys(text)


@pytest.mark.parametrize(
    "text",
    [
        "However, it rained. Therefore we stayed. Many left. See below. Note that it stopped.",
        "It rose by 3.5 % in 1999, on 12 March 2004, to 1,200 in Chapter 3, see Figure 2 and Table 1.",
        "Clearly this works. Using it helps. Based on that, nothing changed.",
        "Changed in version 3.1: Support for more. Example: none. Warning: none. Return: none.",
        "On Monday and in January, at 5 pm, I said so.",
    ],
)
def test_sentence_starts_numbers_dates_and_labels_are_no_names(text: str) -> None:
    assert keys(text) <= {"version"}


@pytest.mark.parametrize("sign", ["'", "’", "ʼ", "＇"])
def test_contractions_are_no_names_whatever_their_apostrophe(sign: str) -> None:
    text = (
        "I’ll go with Ann Lee. Can’t you stay? I’m late, and I’ve lost Bob Ray. “Don’t,” said Ann Lee. They said It’s over, "
        "and That’s it. We’d wait; You’re right. Bob Ray’s boat is Ann Lee’s. Let’s go, Who’s there? He said I’ll and I’m. "
        "“I’ll Be” and “I’m Ann” are songs. ‘I’m here’."
    ).replace("’", sign)
    assert keys(text) <= {"ann lee", "bob ray", "boat", "song"}


def test_an_owner_is_a_name_whatever_the_apostrophe() -> None:
    found = entities(
        "We saw Scrooge’s clerk, and Scrooge was there. Scrooge's door and St. Mary’s Church are near."
    )
    assert {"Scrooge", "St. Mary's Church"} <= found.keys()
    assert (
        "Scrooge’s door" in found["Scrooge"].description or "Scrooge’s clerk" in found["Scrooge"].description
    )


@pytest.mark.parametrize(
    "text",
    [
        "Hi Mei Lin, are you there?",
        "Hello Mei Lin! Thanks Mei Lin.",
        "Dear Mei Lin,",
        "Good morning Mei Lin, the bus is late.",
        "Good Evening Mei Lin.",
        "Yes Mei Lin. No Mei Lin. Okay Mei Lin.",
        "Sorry Mei Lin, Please Mei Lin, Bye Mei Lin.",
        "Ciao Mei Lin, the burner has gone off by post.",
    ],
)
def test_greetings_are_no_part_of_a_name(text: str) -> None:
    assert keys(f"{text} We met Mei Lin in the hall.") == {"mei lin"}


def test_the_fields_of_an_e_mails_head_are_no_names() -> None:
    mails = [
        f"From: {name} <{name[:4]}@post.example>\nTo: choir@post.example\nDate: Mon, {day} Feb 2026 20:14:00 +0100\n"
        f"Subject: Re: Rehearsal\n\n> Who can lend us a harp?\n\nWe sing in the Silver Hall on the {day}th."
        for day, name in enumerate(["Mei Lin", "Olaf Berg", "Mei Lin", "Olaf Berg", "Mei Lin"], start=9)
    ]
    found = keys("\n\n---\n".join(mails))
    assert {"mei lin", "olaf berg", "silver hall"} <= found
    assert not {"subject", "date", "from", "to"} & found


@pytest.mark.parametrize(
    "label", ["Chapter II", "CHAPTER III.", "Chapter 4:", "STAVE ONE.", "Part the Second", "Book XII -"]
)
def test_the_number_of_a_chapter_is_no_name_and_what_follows_is(label: str) -> None:
    found = keys(
        f"{label} The Silver Lake\n\nIn {label} we saw the Silver Lake by night. Chapter is a word, and XIV a number."
    )
    assert "silver lake" in found
    assert not {word for name in found for word in name.split()} & {
        "chapter",
        "stave",
        "part",
        "book",
        "ii",
        "iii",
        "xii",
        "xiv",
    }
    assert not keys(f"# {label}\n\nIt rained.")


@pytest.mark.parametrize(
    "text",
    [
        "Whereat Ann Lee blushed. “Nonsense!” Here Ann Lee left. Using Ann Lee helps. O Ann Lee!",
        "It is I. Your friend Ann Lee. Then decide A. See Ann Lee.",
        "“Bah!” said Ann Lee. “Eh?” said Ann Lee. Mr. and the other came on Saturdays with Ann Lee.",
        "It is the end, and the Activate is of Ann Lee. They were the Baleful and the Boiled to Ann Lee.",
        "Smiling faces met Ann Lee. Smiling is free. Withdrawing is Ann Lee’s way.",
    ],
)
def test_ordinary_words_are_no_names_whatever_their_capital(text: str) -> None:
    assert keys(text) - {"friend", "face"} == {"ann lee"}


def test_a_compound_adjective_mentions_what_it_is_made_of() -> None:
    assert {"debian", "cuda"} == keys(
        "We use Debian-based hosts and CUDA-enabled cards, on Debian and CUDA."
    ) - {"host", "card"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("We train on Thursdays 17 to 18, and on Sunday I can't.", set()),
        ("But on Wednesdays Theo has the cello.", {"theo"}),
        ("And Nadia wrote AAAAAH and Nooooo and Scro-o-o-oge.", {"nadia"}),
        ("The sea of Trieste has SIXTEEN degrees.", {"trieste"}),
        ("And then ENKHUIZEN TOOK ME. It was A'n't I, she said.", set()),
        ("An AAAA record of the IIIF server is in Lyon.", {"aaaa", "iiif", "lyon"}),
    ],
)
def test_hours_cries_and_shouted_words_are_no_names(text: str, expected: set[str]) -> None:
    assert {name_key(name) for name in entities(text) if name[0].isupper()} == expected


def test_the_plural_of_a_surname_is_the_family() -> None:
    text = "Fanny Harville died. The Harvilles wept. Ann saw the Harvilles. Ann met the Harvilles in Lyme."
    found = entities(text)
    assert {"Fanny Harville", "Harvilles"} <= found.keys()


def test_degrees_are_no_part_of_a_name_and_none_by_themselves() -> None:
    found = keys(
        "Anna Bell, Ph.D., met Frank Mulhern Ph.D at the Medill School. Both hold B.S. and M.S. degrees."
    )
    assert {"anna bell", "frank mulhern", "medill school"} <= found
    assert not {key for key in found if "ph" in key.split() or key in {"bs", "ms", "frank mulhern phd"}}


def test_a_date_after_a_name_is_no_part_of_it() -> None:
    found = entities(
        "It opened at the Toronto Film Festival on September 7, 2017, and closed in July-August 2018."
    )
    assert list(found) == ["Toronto Film Festival"]


def test_the_name_of_a_language_before_a_foreign_name_is_a_label() -> None:
    found = keys(
        "Winner (Hangul: 위너), often stylized as WINNER, is a boy group formed by Yang Entertainment."
    )
    assert "hangul" not in found
    assert "yang entertainment" in found


def test_a_definition_in_source_code_is_called_by_its_name() -> None:
    code = """class Ferry:
    \"\"\"A ferry sails between two harbours.\"\"\"

    def __init__(self, harbour: str) -> None:
        self.harbour = harbour

    async def sail_home(self) -> None:
        \"\"\"Sail to the harbour that the ferry came from.\"\"\"


def test_a_ferry_sails() -> None:
    assert Ferry("Oban")
"""
    loaded = LoadedDocument("ferry.py", "", code, "text/x-python")
    chunks = chunk(loaded, tokenizer=TiktokenTokenizer(), max_tokens=60, overlap=0)
    found = {each.name for extracted in extract(chunks, "") for each in extracted.entities}
    assert {"Ferry", "sail_home"} <= found
    assert not {name for name in found if name.startswith(("class ", "def ", "async "))}
    # What every program has, and tests, are no topics.
    assert Topics.of("", parse_chunks(chunks)).headings == {"class Ferry": "Ferry"}


def test_a_nickname_in_quotes_is_a_part_of_the_name() -> None:
    found = entities('Nickolas Gene "Nick" Carter is a singer. Carter was born in Jamestown.')
    assert found["Nick Carter"].aliases[0] == 'Nickolas Gene "Nick" Carter'
    assert not {"Carter", "Nick", "Nickolas Gene"} & found.keys()


def test_the_entry_of_a_bibliography_gives_its_authors_alone() -> None:
    entry = (
        "S. Aeberhard and D. Coomans, Comparison of Classifiers in High Dimensional Settings, Tech. Rep. no. 92-02, (1992),"
        " Dept. of Computer Science, Cook University of North Queensland.\n\nOperations Research, 43(4), pages 570-577, July 1995."
    )
    assert entities(entry).keys() == {"S. Aeberhard", "D. Coomans"}


def test_the_directives_and_comments_of_a_markup_name_nothing() -> None:
    text = ".. image:: https://x.org/a.svg\n   :target: https://x.org/a\n   :alt: Build Status\n\n.. copied because it has to be\n\nFoobar is fast."
    assert entities(text).keys() == {"Foobar"}


def test_a_noun_that_opens_a_sentence_belongs_to_the_name_after_it() -> None:
    assert {"loch shiel", "lake como"} <= keys(
        "Loch Shiel is a loch. Every loch is deep. Lake Como is a lake in a lake district."
    )


def test_a_title_in_a_bibliography_is_not_cut_into_names() -> None:
    entry = 'Dasarathy, B.V. (1980) "Nosing Around the Neighborhood: A New System Structure and Classification Rule".'
    assert not {"neighborhood", "system structure", "classification rule"} & keys(entry)


def test_a_share_is_no_number_of_a_name() -> None:
    assert "LDA" in entities("The method LDA 98.9 % beats QDA 99.4% by far.")


def test_numbers_and_signs_are_no_names() -> None:
    text = 'Pytest 7.0.0 is what pytest needs. See Sections 1 and 2. Characters of the category "Lu" are letters to pytest.'
    assert not {"700", "7.0.0", "lu", "section 1", "sections 1"} & keys(text)


def test_the_mark_of_a_list_item_makes_no_name_of_the_word_after_it() -> None:
    text = "You may copy the Program:\n\na) Accompany it with the code.\n\nb) Accompany it with an offer.\n\n(iv) Accompany it with a note."
    assert "accompany" not in keys(text)


def test_verbs_do_not_open_or_close_a_term() -> None:
    text = "Tools isolate packages. Tools isolate packages. The gentlemen withdrew. The gentlemen withdrew. Users running it."
    assert not keys(text) & {"isolate package", "gentlemen withdrew", "gentleman withdrew", "user running"}


def test_a_noun_of_a_heading_is_an_entity_and_a_wide_one_is_not() -> None:
    text = "# Cleaning the cache\n\nThe tool keeps a cache on disk. Clear the cache when a thing goes wrong. The thing is gone then.\n"
    found = keys(text)
    assert "cache" in found
    assert not found & {"thing", "tool", "wrong"}


def test_what_is_said_of_a_link_counts_and_its_address_does_not() -> None:
    found = entities(
        "We read [the report of Ann Lee](./ann-lee.md#top) and ![badge](https://a.org/Blue_Badge.svg) it helps."
    )
    assert found.keys() == {"Ann Lee"}
    assert found["Ann Lee"].description == "We read the report of Ann Lee and it helps."


MIT = """MIT License

Copyright (c) 2014 Big Corp Labs

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation
files (the "Software"), to deal in the Software without restriction. THE SOFTWARE IS PROVIDED "AS IS".
"""


@pytest.mark.parametrize(
    ("text", "is_licence"),
    [
        (MIT, True),
        ("# Licence\n\nCopyright 2014 Pallets. IN NO EVENT SHALL THE COPYRIGHT HOLDER BE LIABLE IN TORT.\n", True),
        ("Copyright 2014 Big Corp Labs\n\nRedistribution and use in source and binary forms are permitted.\n", True),
        (f"The Tide Table of Big Corp Labs tells when boats may sail.\n\n{'It has columns. ' * 60}\n\n{MIT}", False),
        ("# Licences of Big Corp Labs\n\nThe Tide Table has a licence that costs 40 euros a year.\n", False),
    ],
)  # fmt: skip
def test_the_text_of_a_licence_names_nothing(text: str, is_licence: bool) -> None:
    assert (not entities(text)) is is_licence


@pytest.mark.parametrize(("title", "names"), [("License Agreement", True), ("LICENSE.md", False)])
def test_a_contract_on_a_licence_has_parties_and_the_file_of_a_licence_none(title: str, names: bool) -> None:
    text = "This License Agreement is made between Acme Corp and Harbor Trading under the terms of this Agreement."
    chunks = [replace(each, title=title) for each in document(text)]
    assert any(each.entities for each in extract(chunks, title)) is names


@pytest.mark.parametrize(
    ("media_type", "head"),
    [
        (
            "text/x-python",
            "#!/usr/bin/env python\n# -*- coding: utf-8 -*-\n# Copyright (c) 2014 Big Corp Labs\n#\n# The Tide Table.\n",
        ),
        ("text/x-c", "/*\n * Copyright (C) 2001 Big Corp Labs\n *\n * The Tide Table.\n */\n"),
        ("text/x-java", "/*\n * Licensed to Big Corp Labs.\n */\n\n/* The Tide Table. */\n"),
    ],
)
def test_the_notices_at_the_head_of_source_code_name_nothing(media_type: str, head: str) -> None:
    (chunk,) = document(f"{head}class TideTable: pass  // Fresnel wrote the Licence to Print\n")
    found = {each.name for each in extract([replace(chunk, media_type=media_type)], "")[0].entities}
    assert "Tide Table" in found
    assert not [name for name in found if "Corp" in name or "Copyright" in name or "License" in name]
    prose = {each.name for each in extract([replace(chunk, media_type="text/plain")], "")[0].entities}
    assert any("Corp" in name for name in prose)


def test_front_matter_names_nothing() -> None:
    (chunk,) = document(
        "status: open\naliases: [Golden Gate]\nowner: Cape Horn\n\n# Bells\n\nAnn Lee rang the Tower Bell.\n"
    )
    found = extract([replace(chunk, media_type="text/markdown", start=1, end=chunk.end + 1)], "")[0].entities
    assert {"Ann Lee", "Tower Bell"} <= {each.name for each in found}
    assert not {"Golden Gate", "Cape Horn"} & {each.name for each in found}


def test_code_that_a_chunk_only_continues_is_code() -> None:
    chunks = document(
        "Run this:\n\n```console\n$ tool venv\nUsing Silver Python\n",
        "Activate with Golden Gate\n```\n\nThen Ann Lee was happy.\n",
    )
    names = {entity.name for found in extract(chunks, "") for entity in found.entities}
    assert names == {"Ann Lee"}


def test_a_command_in_code_marks_is_its_name_and_its_options() -> None:
    found = keys("Call `tool run --isolated main.py` first. It is short for `tool sync --all other.toml`.")
    assert {"tool run", "--isolated", "tool sync", "--all"} <= found


@pytest.mark.parametrize(
    "line",
    [
        "!!! info",
        "Printed in Great Britain",
        "Illustrated by Ann Lee",
        "To remove all packages",
        "The old package is built",
    ],
)
def test_lines_that_lead_on_or_give_credit_are_no_topics(line: str) -> None:
    assert name_key(line) not in keys(f"{line}\n\nWe met Bob Ray in the garden of the inn.\n")


def test_marks_and_numbers_of_a_heading_are_no_part_of_its_topic() -> None:
    assert {"silver samovar", "golden gate"} <= keys(
        "# *05.1* The silver samovar\n\nIt rained.\n\n# **2.3** Golden Gate\n\nIt snowed.\n"
    )


def test_the_code_marks_around_an_identifier_are_no_part_of_a_topic() -> None:
    names = entities("# `wheel_tags` enforcement\n\nIt rained.\n").keys()
    assert names == {"wheel_tags enforcement"}


def test_an_adjective_in_code_marks_is_a_weak_term_until_it_returns() -> None:
    found = entities("The index requires a username (`public`) and a key of `dotenv` in Oslo.")
    assert {name: found[name].type for name in ("public", "dotenv")} == {"public": "term", "dotenv": "code"}


@pytest.mark.parametrize("heading", ["More Information", "Synopsis", "Next steps", "Use Cases"])
def test_a_heading_that_any_manual_has_is_no_topic(heading: str) -> None:
    assert keys(f"# {heading}\n\nAnn Lee lives in Oslo.\n") == {"ann lee", "oslo"}


def test_the_head_of_a_table_is_no_name() -> None:
    assert keys("It was in the Year Winner Country Venue Score of the race.") <= {"race"}


def test_a_very_wide_word_is_no_name_for_one_capital() -> None:
    assert keys("See the Documentation of the thing, and the Example.") == set()


def test_relations_without_a_statement_have_no_text() -> None:
    text = "# Silver Lake\n\nAnn Lee, Bob Ray!\n\nWhere is Ann Lee with Carl Gauss? Ann Lee met Carl Gauss in Rome.\n"
    (found,) = extract(document(text), "")
    told = {frozenset((each.source, each.target)): each.description for each in found.relations}
    assert told.get(frozenset(("Ann Lee", "Bob Ray")), "") == ""
    assert told[frozenset(("Silver Lake", "Bob Ray"))] == ""
    assert "Ann Lee met Carl Gauss in Rome." in told.values()
    assert not [each for each in told.values() if each.endswith(("?", "Ray!"))]


def test_emphasis_makes_no_term_of_an_ordinary_word() -> None:
    assert keys("It was _very_ dark, and _I_ saw “poison” and *all* of it. Bob Ray said *so*.") == {
        "bob ray",
        "poison",
    }


def test_a_numeral_of_a_king_or_a_war_belongs_to_the_name() -> None:
    assert {"louis xiv", "world war ii"} <= keys("We read of Louis XIV and World War II at school.")


def test_numbers_and_dates_do_not_appear_whatever_surrounds_them() -> None:
    text = (
        "On 4 July 1776 some 56 men signed. In 1787, 39 of them met again; 12 states sent 70 delegates. " * 4
    )
    assert not [name for name in entities(text) if re.fullmatch(r"[\d\W]+|.*\b(?:July|\d{4})\b.*", name)]


def test_a_surname_means_the_person_who_was_introduced_by_the_full_name() -> None:
    found = entities(
        "Carl Rogers was born in Oak Park. Rogers studied theology. Later Rogers taught in Ohio."
    )
    assert "Rogers" in found["Carl Rogers"].aliases
    assert "Rogers" not in found
    assert found["Carl Rogers"].type == "person"


def test_a_surname_that_several_persons_share_stays_by_itself() -> None:
    found = entities("Bob Cratchit met Peter Cratchit. Cratchit laughed. Then Cratchit left with Cratchit.")
    assert {"Bob Cratchit", "Peter Cratchit", "Cratchit"} <= found.keys()


def test_a_full_name_that_comes_late_does_not_claim_the_surname() -> None:
    found = entities("Freud wrote of dreams. Freud saw more. Freud was right. Anna Freud agreed.")
    assert {"Freud", "Anna Freud"} <= found.keys()


def test_an_acronym_in_brackets_means_its_long_form_in_every_chunk() -> None:
    first = "We fit a Gaussian mixture model (GMM) to the vectors.\n\n"
    second = "A GMM has components. The GMM is fitted once."
    one, other = extract(document(first, second), "")
    assert {entity.name: entity.aliases for entity in one.entities}["Gaussian mixture model"] == ("GMM",)
    assert "Gaussian mixture model" in {entity.name for entity in other.entities}
    assert "GMM" not in {entity.name for entity in other.entities}


def test_the_title_is_an_entity_and_its_remark_is_not_needed_to_mean_it() -> None:
    found = entities("Alice is a film by Woody Allen. Mia Farrow stars in Alice.", "Alice (1990 film)")
    assert "Alice" in found["Alice (1990 film)"].aliases
    assert "Alice" not in found


@pytest.mark.parametrize("title", ["", "with", "notes.txt", "Introduction", "12", "   "])
def test_a_title_that_names_nothing_is_no_entity(title: str) -> None:
    assert (
        name_key(title) not in keys("Nothing here but Bob Cratchit at his desk.", title) or not title.strip()
    )


# --- terms and code ------------------------------------------------------------------------

PROSE_ON_CODE = """Context managers
================

A context manager is an object that defines the runtime context of a block. The "with" statement calls the method
"__enter__()" of the context manager; "__exit__()" runs when the block ends, even if a "TypeError" is raised.

A *generator function* uses the yield expression. Calling a generator function returns a generator iterator. The generator
iterator runs until the next yield expression. See ``contextlib.closing`` and :keyword:`async with` or `read_file`.

   with open(path) as stream:
       stream.read()

An augmented assignment evaluates the target once. Each augmented assignment performs a binary operation.
"""


def test_technical_prose_gives_terms_and_identifiers() -> None:
    expected = {
        "context manager", "with statement", "__enter__", "__exit__", "TypeError", "generator function", "yield expression",
        "generator iterator", "contextlib.closing", "read_file", "augmented assignment", "async with",
    }  # fmt: skip
    assert {name_key(name) for name in expected} <= keys(PROSE_ON_CODE)


def test_ordinary_words_and_code_lines_are_no_terms() -> None:
    found = keys(PROSE_ON_CODE)
    assert not found & {
        "object",
        "example",
        "block",
        "path",
        "stream",
        "next",
        "end",
        "see",
        "with",
        "none",
        "open",
        "calling",
    }


def test_a_document_of_code_gives_what_it_defines() -> None:
    code = """// A person with a name
class Person {
  constructor(name) {
    this.name = name;
  }
}

// A student is a person with a grade
class Student extends Person {
  describe() {
    return `${this.name}`;
  }
}

function enrollStudent(name) {
  const student = new Student(name);
  return student;
}
"""
    found = entities(code)
    assert {"Person", "Student", "enrollStudent"} <= found.keys()
    assert {entity.type for entity in found.values()} == {"code"}
    assert (
        found["Student"].description == "// A student is a person with a grade class Student extends Person {"
    )


def test_other_european_languages_give_their_names_without_their_articles() -> None:
    german = "Die Universität Leipzig wurde gegründet. Gottfried Wilhelm Leibniz studierte hier, und Angela Merkel ist bekannt."
    french = "La tour est à Paris. Elle est l'œuvre de Gustave Eiffel, né en Côte d'Or."
    assert {"universitat leipzig", "gottfried wilhelm leibniz", "angela merkel"} <= keys(german)
    assert {"paris", "gustave eiffel", name_key("Côte d'Or")} <= keys(french)


# --- Chinese, Japanese, Korean -------------------------------------------------------------

JAPANESE = """知識グラフと検索拡張生成

大規模言語モデルは高い性能を示すが、事実と異なる文章を生成することがある。検索拡張生成（Retrieval-Augmented Generation, RAG）は、
外部の文書を検索して回答の根拠とする手法である。東京大学の山田太郎教授は、知識グラフを用いた質問応答システムを提案した。
この質問応答システムは、知識グラフの実体をたどる。RAGの利用者は京都にもいる。
"""


def test_the_cases_of_a_russian_name_are_one_and_its_noun_belongs_to_it() -> None:
    text = (
        "Адмиралтейство построено в Москве. В Адмиралтействе находится штаб Военно-морского флота. Невский проспект"
        " начинается у Адмиралтейства, и на Невском проспекте стоит Казанский собор."
    )
    names = ("Адмиралтейство", "Москва", "Военно-морской флот", "Невский проспект", "Казанский собор")
    assert keys(text) == {name_key(name) for name in names}


def test_japanese_text_gives_compounds_and_names() -> None:
    found = entities(JAPANESE)
    assert {"知識グラフ", "検索拡張生成", "質問応答システム", "東京大学", "山田太郎", "京都"} <= found.keys()
    assert found["山田太郎"].type == "person"
    assert found["京都"].type == "place"
    assert set(found["検索拡張生成"].aliases) == {"Retrieval-Augmented Generation", "RAG"}
    assert not found.keys() & {"こと", "もの", "手法", "RAG"}


def test_chinese_names_that_occur_once_are_found() -> None:
    found = entities("张伟在北京大学教数学。他的妻子李娜是医生，司马懿住在上海。")
    assert {"张伟", "李娜", "司马懿", "北京大学", "上海"} <= found.keys()
    assert {found["张伟"].type, found["司马懿"].type} == {"person"}


def test_korean_text_gives_compounds_without_particles() -> None:
    text = "지식 그래프는 개체와 관계로 이루어진다. 김 교수는 지식 그래프를 이용한다. 지식 그래프의 개체를 군집으로 묶는다."
    assert {"지식 그래프", "개체"} <= entities(text).keys()


def test_text_in_a_script_without_capitals_gives_its_frequent_words() -> None:
    text = "القاهرة هي عاصمة مصر. يمر نهر النيل بمدينة القاهرة. نهر النيل طويل."
    assert {"القاهرة", "النيل"} <= entities(text).keys()


def test_chinese_institutions_and_prefixes_are_read_whole_and_abstract_nouns_are_no_places() -> None:
    found = entities(
        "该框架由上海人工智能实验室提出。多模态信息很有用，多模态信息也很大，更多信息在后面。"
        "其开源代码已经发布。法律条文适用于国际化应用。帮助用户理解系统，理解系统很难。"
    )
    assert found["上海人工智能实验室"].type == "organisation"
    assert "多模态信息" in found
    assert not {"上海", "模态信息", "多信息", "理解系统"} & found.keys()
    assert not any(name.startswith("其") for name in found)
    assert not {found[name].type for name in ("法律条文", "国际化") if name in found} & {
        "place",
        "organisation",
    }


@pytest.mark.skipif(not (SHARED / "seeds").is_dir(), reason="the folder ../shared/seeds is not here")
def test_a_real_chinese_text_gives_what_it_is_about() -> None:
    text = (SHARED / "seeds/002_f45c5ba4fee97da5.txt").read_text(encoding="utf-8")
    extracts = extract(
        document(*(text[start : start + 800] for start in range(0, len(text), 800))), "LeanRAG"
    )
    counts = counted(extracts)
    for expected in (
        "leanrag",
        "知识图谱",
        "大型语言模型",
        "检索增强生成",
        "最低公共祖先",
        "语义孤岛",
        "高斯混合模型",
    ):
        assert counts[expected] >= 1, expected
    assert {key for key, _ in counts.most_common(6)} & {"leanrag", "知识图谱"} == {"leanrag", "知识图谱"}
    assert not counts.keys() & {"问题", "方法", "进行", "通过", "我们", "一个", "的"}
    aliases = {alias for found in extracts for entity in found.entities for alias in entity.aliases}
    assert {"LCA", "GMM", "RAG"} <= aliases


# --- descriptions and relations ------------------------------------------------------------


def test_the_sentence_that_defines_an_entity_describes_it() -> None:
    text = (
        "People like Billboard. Billboard is an American music magazine published weekly in New York. "
        "Some buy Billboard at the airport on Fridays."
    )
    assert entities(text)["Billboard"].description.startswith("Billboard is an American music magazine")


def test_a_relation_is_the_sentence_that_joins_two_entities() -> None:
    sentence = "Gustave Eiffel worked with Maurice Koechlin on the tower."
    (found,) = extract(document(f"Something else happened in Rome. {sentence}"), "")
    joined = {frozenset((r.source, r.target)): r.description for r in found.relations}
    assert joined[frozenset(("Gustave Eiffel", "Maurice Koechlin"))] == sentence
    assert frozenset(("Rome", "Gustave Eiffel")) not in joined


def test_the_title_is_related_to_what_its_chunk_names() -> None:
    (found,) = extract(document("It stands in Paris. It was built by Gustave Eiffel."), "Eiffel Tower")
    assert {r.target for r in found.relations if r.source == "Eiffel Tower"} == {"Paris", "Gustave Eiffel"}


def test_a_heading_is_related_to_the_entities_beneath_it() -> None:
    text = "# Semantic clustering\n\nWe use a method by Carl Gauss.\n\n# Later work\n\nIt was done by Ada Lovelace.\n"
    (found,) = extract(document(text), "")
    joined = {frozenset((r.source, r.target)) for r in found.relations}
    assert frozenset(("Semantic clustering", "Carl Gauss")) in joined
    assert frozenset(("Later work", "Carl Gauss")) not in joined


def test_a_heading_is_related_by_what_stands_beneath_it() -> None:
    text = (
        "# Alembic\n\nAlembic is part of the SQLAlchemy Project.\n\n## Rules of Conduct\n\nEveryone who writes for Alembic"
        " reads the Guide of Behaviour."
    )
    (found,) = extract(document(text), "Alembic")
    texts = {frozenset((r.source, r.target)): r.description for r in found.relations}
    assert "Guide of Behaviour" in texts[frozenset(("Rules of Conduct", "Guide of Behaviour"))]
    assert "SQLAlchemy" not in texts.get(frozenset(("Rules of Conduct", "Alembic")), "")


def test_a_list_that_states_nothing_relates_each_entry_once() -> None:
    text = "# Housing\n\n- MedInc, HouseAge, AveRooms, AveBedrms\n- Latitude, Longitude of AveOccup"
    (found,) = extract(document(text), "Housing")
    assert not any(r.description for r in found.relations)
    assert len(found.relations) <= len(found.entities) - 1


def test_a_sentence_of_many_names_gives_a_bounded_number_of_relations() -> None:
    people = ["Ada", "Bob", "Carl", "Dora", "Emil", "Fred", "Gina", "Hugo", "Ivan", "Jane"]
    text = "We met " + ", ".join(f"{name} Smith{name.lower()}" for name in people) + " there."
    (found,) = extract(document(text), "")
    assert len(found.entities) == len(people)
    assert len(people) - 1 <= len(found.relations) <= 2 * len(people)


def test_descriptions_keep_within_their_bound_and_never_cut_a_clause() -> None:
    clause = (
        "the committee of Oslo heard what the people of the valley had to say about the river and the bridge"
    )
    text = f"In Bergen, {'; '.join([clause] * 9)}; and at last Ibsen came home to Norway."
    (found,) = extract(document(text), "")
    texts = [item.description for item in (*found.entities, *found.relations)]
    assert all(word_count(text) <= 60 for text in texts)
    described = {entity.name: entity.description for entity in found.entities}
    assert described["Ibsen"] == "and at last Ibsen came home to Norway."


def test_a_word_broken_at_the_end_of_a_line_is_whole_again() -> None:
    text = "The knowl-\nedge base of Hi-\nRAG helps. We like the knowledge base of HiRAG, a left-\nhand tool, left and right."
    found = entities(text)
    assert "knowledge base" in found
    assert "HiRAG" in found
    assert "left-hand tool" in found["HiRAG"].description + found["knowledge base"].description


# --- whatever the text ---------------------------------------------------------------------


def well_formed(found: list[Extract], chunks: list[Chunk]) -> None:
    assert [extract_.chunk_id for extract_ in found] == [chunk.id for chunk in chunks]
    for extract_ in found:
        names = [entity.name for entity in extract_.entities]
        assert extract_.method is Method.HEURISTIC
        assert len({name_key(name) for name in names}) == len(names)
        assert all(name.strip() and not name.isdigit() for name in names)
        for relation in extract_.relations:
            assert {relation.source, relation.target} <= set(names)
            assert relation.source != relation.target


PIECES = (
    'Scrooge Marley of the The Bob Cratchit\'s (GMM) "with" __init__ statement generator function is was , . ! ? # * 1843 12.5 '
    "知识图谱 を 検索 서울은 é’s - — ( ) [ ] ``x`` `y` && http://a.b :: U.S. J. > |"
)
texts = st.lists(st.sampled_from([*PIECES.split(), "\n", "\n\n", "-\n", "\n\n# "]), max_size=80).map(" ".join)


@settings(max_examples=150, deadline=None)
@given(st.lists(texts | st.text(max_size=120), max_size=3), texts)
def test_any_text_gives_well_formed_extracts_and_always_the_same(passages: list[str], title: str) -> None:
    chunks = document(*passages)
    found = extract(chunks, title)
    well_formed(found, chunks)
    assert extract(chunks, title) == found


def test_what_two_chunks_share_counts_once() -> None:
    shared = "The silver samovar stood in the hall of the house."
    passages = [f"Bob Cratchit came. {shared}", f"{shared} Ada Lovelace came."]
    chunks = document(*passages)
    overlap = Chunk("c2", "d", 2, passages[1], chunks[0].end - len(shared), chunks[0].end + 20, 12)
    once = extract([chunks[0], overlap], "")
    apart = extract(chunks, "")
    assert {e.type for x in once for e in x.entities if e.name == "silver samovar"} == {"term"}
    assert {e.type for x in apart for e in x.entities if e.name == "silver samovar"} == {"concept"}


def test_no_chunks_give_no_extracts() -> None:
    assert extract([], "Nothing") == []


# --- real corpora --------------------------------------------------------------------------


def test_the_python_reference_gives_its_terms_and_none_of_its_furniture() -> None:
    found: list[Extract] = []
    for text in pydoc_data.topics.topics.values():
        chunks = cut(text)
        extracts = extract(chunks, text.strip().split("\n", 1)[0])
        well_formed(extracts, chunks)
        found += extracts
    counts = counted(found)
    expected = (
        "generator function", "context manager", "with statement", "__init__", "typeerror", "augmented assignment", "keyword argument",
        "lambda expression", "slice object", "global namespace", "coroutine function", "floating point number",
    )  # fmt: skip
    for term in expected:
        assert counts[term] >= 2, term
    frequent = {key for key, _ in counts.most_common(200)}
    assert not frequent & {
        "example",
        "changed",
        "note",
        "see",
        "case",
        "way",
        "version",
        "none",
        "suite expression",
        "thing",
    }
    per_chunk = sum(counts.values()) / len(found)
    assert 8 <= per_chunk <= 25


@pytest.mark.skipif(not (SHARED / "data").is_dir(), reason="the folder ../shared/data is not here")
def test_a_novel_gives_its_characters() -> None:
    text = (SHARED / "data/christmas_carol/book.txt").read_text(encoding="utf-8-sig")
    counts = counted(extract(cut(text), "A Christmas Carol"))
    top = [key for key, _ in counts.most_common(15)]
    assert top[0] == "ebenezer scrooge"
    assert {name_key(name) for name in ("Bob Cratchit", "Tiny Tim", "Ghost", "Christmas")} <= set(top)
    for name in (
        "ghost of christmas past",
        "ghost of christmas yet to come",
        "fezziwig",
        "jacob marley",
        "mrs cratchit",
    ):
        assert counts[name] >= 2, name


@pytest.mark.skipif(not (SHARED / "data").is_dir(), reason="the folder ../shared/data is not here")
def test_the_names_that_a_model_found_on_musique_are_found_without_one() -> None:
    """Oracle: the named entities (capitalised, no dates) that gpt-3.5-turbo extracted from 600 passages."""
    passages = json.loads((SHARED / "data/musique_train100.json").read_text())["passages"][:600]
    by_model = json.loads((SHARED / "data/openie_musique_train100.json").read_text())["docs"][:600]
    date = re.compile(
        r"\W*(?:\d|(?:jan|febr)uary|march|april|may|june|july|august|(?:septem|octo|novem|decem)ber)",
        re.IGNORECASE,
    )
    wanted = hit = 0
    for passage, model in zip(passages, by_model, strict=True):
        (found,) = extract(document(passage["text"]), passage["title"])
        ours = {name_key(form) for entity in found.entities for form in (entity.name, *entity.aliases)}
        names = [
            name for name in model["extracted_entities"] if re.search("[A-Z]", name) and not date.match(name)
        ]
        wanted += len(names)
        hit += sum(name_key(name) in ours for name in names)
    assert hit / wanted > 0.8
