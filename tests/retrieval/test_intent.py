import pytest

from leanrag_engine.retrieval.intent import asks_for_list, asks_for_one, asks_for_order
from leanrag_engine.retrieval.request import Query


@pytest.mark.parametrize(
    ("question", "list_"),
    [
        ("I want the full list of what she made for her dogs.", True),
        ("Name all the ships that sailed.", True),
        ("Which settings can be changed without a restart?", True),
        ("How many people signed?", True),
        ("What does the keeper do at night?", False),
        ("Which is older, the tower or the bridge?", False),
        ("When was the list lost?", False),
    ],
)
def test_a_question_for_all_of_something_is_told_from_one_for_a_fact(question: str, list_: bool) -> None:
    assert bool(asks_for_list(question)) == list_


@pytest.mark.parametrize(
    ("question", "order"),
    [
        ("How did he come to own three boats? Tell me the stages with their dates.", True),
        ("What did they do in July and August, in order?", True),
        ("How has the budget changed?", True),
        ("What must be done in order to sail?", False),
        ("When was the list lost?", False),
    ],
)
def test_a_question_for_an_order_in_time_is_told_from_others(question: str, order: bool) -> None:
    assert bool(asks_for_order(question)) == order


@pytest.mark.parametrize(
    ("question", "one"),
    [
        ("Who approves business trips now?", True),
        ("We lost the key on Monday. Which door does it open?", True),
        ("For how long does a session last?", True),
        ("Does the ferry run in winter?", True),
        ("Who built the tower and why did it fall?", False),
        ("Which settings can be changed without a restart?", False),
        ("How did the budget change?", False),
        ("How do we keep the lamp dry?", False),
        ("the keeper of the lamp", False),
    ],
)
def test_a_question_for_one_thing_gets_a_shorter_reply_if_no_budget_is_named(
    question: str, one: bool
) -> None:
    assert asks_for_one(question) == one
    assert Query(question).check().token_budget == (1000 if one else 2000)
    assert Query(question, sub_queries=("How do we keep it dry?",)).check().token_budget == 2000
    assert Query(question, token_budget=3000).check().token_budget == 3000
