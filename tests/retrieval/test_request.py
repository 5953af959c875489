"""The check at the door."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.retrieval.request import Filters, Mode, Query, Ranking


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"text": ""}, ["query is empty", "Give a question"]),
        ({"text": " \u200b\n\x00"}, ["query is empty"]),
        ({"text": "?! …"}, ["query has no word", "Give a question"]),
        ({"text": "x" * 10_001}, ["10,001 characters", "10,000", "ingest"]),
        (
            {"text": "x", "sub_queries": ("y" * 5_000, "z" * 5_000)},
            ["sub-queries", "10,003", "at most 10,000"],
        ),
        ({"sub_queries": ("x" * 10_001,)}, ["sub-query", "10,001"]),
        ({"sub_queries": ("What?", " \u200b")}, ["Sub-query 2 of 2 is empty", "leave it out"]),
        ({"mode": "lcaa"}, ["'lcaa'", "Did you mean 'lca'", "lca, local, global, naive"]),
        ({"ranking": "magic"}, ["'magic'", "spread, paper"]),
        ({"seeds": 0}, ["seeds", "0", "1 to 100"]),
        ({"seeds": True}, ["seeds", "True", "1 to 100"]),
        ({"top_k": 101}, ["top_k", "101", "1 to 100"]),
        ({"token_budget": 99}, ["token_budget", "99", "100 to 32,000"]),
        ({"token_budget": 40_000}, ["40000", "100 to 32,000"]),
        ({"sub_queries": tuple("abcdefghijklmnopqrstu")}, ["21 sub-queries", "20"]),
        ({"entities": tuple(map(str, range(51)))}, ["51 entities", "50"]),
        ({"seen": ("d1:c2", "page 3")}, ["'page 3'", "seen", "d3:c12"]),
        ({"seen": ("d1",) * 1001}, ["1001 seen citations", "1000"]),
        ({"filters": Filters(("d1",) * 101)}, ["101 documents", "100"]),
        ({"filters": Filters(metadata={"tags": "a|" * 5_000})}, ["filter metadata", "at most 10,000"]),
        ({"filters": Filters(since="yesterday")}, ["since", "'yesterday'", "ISO date"]),
        ({"filters": Filters(until="2026-13-01")}, ["until", "'2026-13-01'"]),
        ({"filters": Filters(since="2026-02-01", until="2026-01-01")}, ["2026-02-01", "after", "Swap"]),
    ],
)
def test_a_wrong_value_is_named_with_what_was_expected(wrong: dict[str, Any], said: list[str]) -> None:
    with pytest.raises(InvalidInput) as caught:
        Query(**{"text": "a question", **wrong}).check()
    for part in said:
        assert part in str(caught.value)


def test_blanks_and_what_nobody_sees_are_dropped() -> None:
    checked = Query(
        " Who\u200b? ",
        sub_queries=(" What?\u200b",),
        entities=(" Ada ", "", "Ada"),
        filters=Filters((" ", "d1")),
    ).check()
    assert checked.text == "Who?"
    assert checked.texts == ("Who?", "What?")
    assert checked.entities == ("Ada",)
    assert checked.filters.documents == ("d1",)
    assert (checked.mode, checked.ranking) == (Mode.LCA, Ranking.SPREAD)


def test_a_checked_query_checks_to_itself() -> None:
    checked = Query("Who?", mode="global", ranking="paper").check()
    assert checked.check() == checked


def test_a_day_as_until_includes_its_last_moment_and_as_since_its_first() -> None:
    first, last = Filters(since="2026-01-03", until="2026-01-03").window
    assert first == datetime(2026, 1, 3, tzinfo=UTC)
    assert last == datetime(2026, 1, 3, 23, 59, 59, 999999, tzinfo=UTC)


def test_a_time_without_a_zone_is_utc_and_another_zone_counts() -> None:
    first, last = Filters(since="2026-01-03T10:00:00", until="2026-01-03T12:00:00+02:00").window
    assert first == datetime(2026, 1, 3, 10, tzinfo=UTC)
    assert last == datetime(2026, 1, 3, 10, 0, 0, 999999, tzinfo=UTC)


def test_no_condition_is_no_filter() -> None:
    assert not Filters().active
    assert not Filters(since=" ", documents=(" ",)).check().active
    assert Filters(metadata={"a": "b"}).active
