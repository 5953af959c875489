"""Ids in arrays against lists and dictionaries of strings."""

from __future__ import annotations

import numpy as np
import pytest

from leanrag_engine.core.graphs.rows import SortedIds, find_ids, has_twins, make_ids, sort_ids


def some_ids(count: int, length: int, letters: str = "ab7") -> list[str]:
    """Short alphabets: many begin with the same eight letters, and many are the beginnings of others."""
    draw = np.random.default_rng(length)
    return ["".join(draw.choice([*letters], size)) for size in draw.integers(1, length + 1, count)]


@pytest.mark.parametrize("length", [3, 8, 12, 30])
def test_ids_are_sorted_as_strings_are(length: int) -> None:
    ids = some_ids(500, length)
    assert sort_ids(make_ids(ids)).tolist() == sorted(range(len(ids)), key=lambda place: ids[place])
    assert has_twins(make_ids(ids)) == (len(set(ids)) < len(ids))
    assert not has_twins(make_ids(dict.fromkeys(ids)))


@pytest.mark.parametrize("length", [3, 8, 12, 30])
def test_the_place_of_each_id_is_found_among_those_with_the_same_beginning(length: int) -> None:
    ids = list(dict.fromkeys(some_ids(500, length)))
    wanted = [
        *ids[::3],
        "",
        "missing",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        *some_ids(99, length, "ab"),
    ]
    expected = [ids.index(each) if each in ids else -1 for each in wanted]
    assert SortedIds(make_ids(ids)).find(make_ids(wanted)).tolist() == expected
    ids.sort()
    expected = [ids.index(each) if each in ids else -1 for each in wanted]
    assert find_ids(make_ids(wanted), make_ids(ids)).tolist() == expected


def test_of_nothing_nothing_is_found() -> None:
    nothing = make_ids(())
    assert sort_ids(nothing).tolist() == find_ids(nothing, nothing).tolist() == []
    assert find_ids(make_ids(["a"]), nothing).tolist() == [-1]
    assert find_ids(nothing, make_ids(["a"])).tolist() == []
    assert not has_twins(nothing)
    assert np.array_equal(sort_ids(make_ids(["b", "a"])), [1, 0])
