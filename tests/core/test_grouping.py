from leanrag_engine.core.grouping import group


def test_items_stand_under_their_keys_in_order() -> None:
    found = group([("b", 1), ("a", 2), ("b", 3)])
    assert found == {"b": [1, 3], "a": [2]}
    assert [*found] == ["b", "a"]
    assert found["c"] == []
