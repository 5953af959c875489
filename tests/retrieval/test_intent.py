import pytest

from leanrag_engine.retrieval.intent import (
    asks_about_all,
    asks_for_list,
    asks_for_now,
    asks_for_one,
    asks_for_order,
    asks_for_overview,
    find_defined,
    leave_out_frame,
)
from leanrag_engine.retrieval.request import DEFAULT_CONTEXT, Query


@pytest.mark.parametrize(
    ("question", "list_"),
    [
        ("I want the full list of what she made for her dogs.", True),
        ("Name all the ships that sailed.", True),
        ("Which settings can be changed without a restart?", True),
        ("How many people signed?", True),
        ("How many people may one boat carry at most?", False),
        ("How many shares must a new member take", False),
        ("How many keepers can the tower hold?", False),
        ("What is MAX_SIZE_BYTES in PushTask?", False),
        ("Which process was killed by the keeper?", False),
        ("How many square kilometres does the island have?", False),
        ("What does the keeper do at night?", False),
        ("Which is older, the tower or the bridge?", False),
        ("When was the list lost?", False),
        ("How long do they have to get all their money back?", False),
        ("Is the gate open all day?", False),
        ("What do all members pay?", True),
        ("What advice do the various guides give for seals?", True),
        ("Welche Werkzeuge gibt es?", True),
        ("Quels sont les dépôts du projet ?", True),
        ("¿Cuáles son los puertos?", True),
        ("Wo gibt es Werkzeuge?", False),
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
        ("What happened in the winter of the fire?", True),
        ("What happened to the keeper?", False),
        ("What happened on 6 February 2025?", False),
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
        ("How many kilometres is it to the port?", True),
        ("Which loss makes SGD a support vector machine?", True),
        ("What value marks the end of the list?", True),
        ("Which process was killed by the keeper?", True),
        ("What is MAX_SIZE_BYTES in PushTask?", True),
        ("Who approves 12,000 pounds?", True),
        ("Who is on duty at 10:30?", True),
        ("What error codes exist?", False),
        ("Which people wanted the tower?", False),
        ("Who was on the call?", True),
        ("What is the maximum call stack size?", True),
        ("What calls the parser?", False),
        ("Which functions call the parser?", False),
        ("What did the committee talk about in 2018?", False),
        ("Who built the tower and why did it fall?", False),
        ("Which settings can be changed without a restart?", False),
        ("How did the budget change?", False),
        ("How do we keep the lamp dry?", False),
        ("the keeper of the lamp", False),
        ("who approves business trips now", True),
        ("where is the lamp kept", True),
        ("Are dogs allowed on the ferry?", True),
        ("Do keepers pay for the boat?", True),
        ("will the ferry run in winter", True),
        ("How many shares must a new member take?", True),
        ("which settings can be changed without a restart", False),
        ("Who built the tower? Tell me all about it.", False),
        ("wann erschien die Karte der Insel", True),
        ("May 2025 minutes of the harbour", False),
        ("Do the work at night. Which tools are needed?", False),
        ("Wann erschien die Karte der Insel?", True),
        ("Mit wem fuhr sie zur See?", True),
        ("Qui a construit le phare ?", True),
        ("¿Cuándo se fundó el puerto?", True),
        ("Quem construiu o farol?", True),
        ("Wer hat den Turm und die Brücke gebaut?", False),
        ("Wann und warum fiel der Turm?", False),
        ("Quelle différence entre le phare et la tour ?", False),
    ],
)
def test_a_question_for_one_thing_gets_a_shorter_reply_if_no_budget_is_named(
    question: str, one: bool
) -> None:
    assert asks_for_one(question) == one
    assert Query(question).check().token_budget == (1200 if one else 2000)
    assert Query(question, sub_queries=("How do we keep it dry?",)).check().token_budget == 2000
    assert Query(question, token_budget=3000).check().token_budget == 3000


@pytest.mark.parametrize(
    ("question", "now"),
    [
        ("Which rule is in force?", True),
        ("What is the most recent price?", True),
        ("Welche Regel ist heute gültig?", True),
        ("Quelle règle est en vigueur ?", True),
        ("Qual é o preço atual?", True),
        ("Which force acts on the mast?", False),
        ("Wie war die Regel damals?", False),
    ],
)
def test_a_question_for_what_holds_now_is_told_from_others(question: str, now: bool) -> None:
    assert bool(asks_for_now(question)) == now


@pytest.mark.parametrize(
    ("question", "overview", "everything"),
    [
        ("What is this all about?", True, True),
        ("What are the documents about?", True, True),
        ("What is this project about?", True, True),
        ("Give me an overview of the codebase", True, True),
        ("What are these reports about?", True, True),
        ("What topics do these contracts cover?", True, True),
        ("What's in this folder?", True, True),
        ("Worum geht es in diesem Projekt?", True, True),
        ("What is the kiln project about?", True, False),
        ("What is in the box?", False, False),
        ("What is the lease contract about?", True, False),
        ("What is Persuasion about?", True, False),
        ("What is the rule about dogs?", False, False),
    ],
)
def test_what_a_thing_is_about_asks_for_an_overview_of_it_or_of_everything(
    question: str, overview: bool, everything: bool
) -> None:
    assert (bool(asks_for_overview(question)), asks_about_all(question)) == (overview, everything)


def test_a_caller_who_names_the_tokens_gets_weaker_evidence_too() -> None:
    plain, named = (Query("When did the pump fail?", token_budget=tokens) for tokens in (0, 2000))
    for _ in range(2):  # a checked query may be checked again
        plain, named = plain.check(), named.check()
        short, more = plain.context_options, named.context_options
        assert (short.cutoff, short.broad) == (DEFAULT_CONTEXT.cutoff, DEFAULT_CONTEXT.broad)
        assert more.cutoff == pytest.approx(short.cutoff - DEFAULT_CONTEXT.named)
        assert more.broad == pytest.approx(short.broad - DEFAULT_CONTEXT.named)


def test_weaker_evidence_counts_where_several_things_are_asked() -> None:
    one, several = (
        Query(text).check().context_options.cutoff
        for text in ("When did the pump fail?", "Compare the pumps.")
    )
    assert (one, several) == (DEFAULT_CONTEXT.cutoff, DEFAULT_CONTEXT.several)


@pytest.mark.parametrize(
    ("question", "thing"),
    [
        ("What is zod?", "zod"),
        ("What's a lamp room?", "lamp room"),
        ("What is the Debian Policy?", "Debian Policy"),
        ("What is the budget?", ""),
        ("What is zod for, and who wrote it?", ""),
        ("What does zod do?", ""),
    ],
)
def test_what_is_asked_for_as_such_is_told_from_what_is_asked_of_it(question: str, thing: str) -> None:
    assert find_defined(question) == thing


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("Where do the pages mention costs of speed?", "costs of speed?"),
        ("What do these docs say about lamps and masts?", "lamps and masts?"),
        ("According to the manual, who turns the lamp off?", "who turns the lamp off?"),
        ("What do the keepers say about lamps?", "What do the keepers say about lamps?"),
        ("What is in the annual report on lamps?", "What is in the annual report on lamps?"),
        ("What does the file say?", "What does the file say?"),
    ],
)
def test_what_stands_for_the_documents_at_hand_is_told_from_what_is_asked_of_them(
    question: str, asked: str
) -> None:
    assert leave_out_frame(question) == asked
