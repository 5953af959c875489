"""Markup that only the publisher of a page can follow is left out; what its reader sees stays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leanrag_engine.core.text.wrapping import drop_targets


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Read [the cache](../concepts/cache.md#keys) first.", "Read the cache first."),
        ('A [title](a.md "On hover"), [`code`](#code), [one [of two]](x_(y).md).', "A title, `code`, one [of two]."),
        ("[![built](built.svg)](../ci.md) passes", "![built](built.svg) passes"),
        ("Set :setting:`RETRY_TIMES` or :ref:`the other <retries>`.", "Set RETRY_TIMES or the other."),
        ("It raises :exc:`~app.errors.Busy`, :py:class:`!Lamp`.", "It raises app.errors.Busy, Lamp."),
        ("First.\n\n.. _retries:\n\nRetries\n=======", "First.\n\nRetries\n======="),
    ],
)  # fmt: skip
def test_links_within_the_documents_roles_and_names_of_places_leave_their_words(text: str, said: str) -> None:
    assert drop_targets(text) == said


@pytest.mark.parametrize(
    "text",
    [
        "[The project](https://example.org/a), [mail](mailto:a@b.org), [host](//example.org)",
        "![a chart](chart.png) and `[a](b)` and ``:ref:`x` ``",
        "```md\n[the cache](cache.md)\n\n.. _retries:\n```",
        ".. _Skerryvore: https://example.org",
        "Fixed :cve:`2025-68480` and :issue:`12`.",
        "at 10:30:`x`, a::`b`, f(x)[0](y), [d1:c2] (see there), Note: `a`",
    ],
)
def test_links_to_elsewhere_code_images_and_other_text_stay(text: str) -> None:
    assert drop_targets(text) == text


@given(st.text(st.sampled_from("ab .\n`[]()<>:_~!h/"), max_size=200))
def test_nothing_is_added_or_reordered(text: str) -> None:
    left = iter(text)
    assert all(each in left for each in drop_targets(text))
