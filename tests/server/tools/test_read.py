"""The reading tools, asked as a client asks them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Caller

pytestmark = pytest.mark.anyio


async def test_the_context_holds_the_answer_and_every_citation_in_it_is_real(call: Caller) -> None:
    reply = await call("query_lca_context", query="Who designed Skerryvore?")
    assert "Alan Stevenson designed Skerryvore" in reply.data["context"]
    cited = sorted(set(re.findall(r"d\d+:c\d+", reply.data["context"])))
    sources = await call("get_sources", citations=cited)
    assert [each["citation"] for each in sources.data["sources"]] == cited


async def test_a_two_hop_question_brings_the_passages_of_both_hops(call: Caller) -> None:
    reply = await call(
        "query_lca_context", query="Who was the father of the engineer who designed Skerryvore?"
    )
    assert "Alan Stevenson was the son of Robert Stevenson" in reply.data["context"]
    assert "Alan Stevenson designed Skerryvore" in reply.data["context"]


@pytest.mark.parametrize("mode", ["lca", "local", "global", "naive"])
@pytest.mark.parametrize("ranking", ["spread", "paper"])
async def test_every_mode_and_ranking_answers_within_the_budget(
    call: Caller, mode: str, ranking: str
) -> None:
    reply = await call(
        "query_lca_context", query="Bell Rock lighthouse", mode=mode, ranking=ranking, token_budget=200
    )
    assert not reply.is_error, reply.text
    assert 0 < reply.data["tokens"] <= 200
    assert reply.data["context"]


async def test_without_the_list_of_sources_the_context_keeps_its_passages(call: Caller) -> None:
    asked = {"query": "Who designed Skerryvore?", "response_format": "detailed"}
    listed, bare = (
        await call("query_lca_context", **asked),
        await call("query_lca_context", include_sources=False, **asked),
    )
    assert listed.data["sources"]
    assert bare.data["sources"] == []
    assert bare.data["context"] == listed.data["context"]


async def test_the_text_says_what_the_structured_content_says(call: Caller) -> None:
    reply = await call("query_lca_context", query="What did Augustin Fresnel invent?")
    assert reply.text == reply.data["context"]
    assert reply.data["sources"], "the best passage, in both"
    assert f"[{reply.data['sources'][0]}]" in reply.text
    detailed = await call(
        "query_lca_context",
        query="What did Augustin Fresnel invent? zyzzyva quux",
        response_format="detailed",
        token_budget=8000,
    )
    assert detailed.text == detailed.data["context"]
    assert re.search(r"d\d+:c\d+ excerpt: value \d\.\d\d = ", detailed.text)
    assert detailed.data["seeds"]
    for seed in detailed.data["seeds"]:
        assert f"{seed['name']} ({seed['ref']}, layer " in detailed.text
    for source in detailed.data["sources"][:3]:
        assert f"[{source}]" in detailed.text
    for warning in detailed.data["warnings"]:
        assert warning in detailed.text
    assert detailed.data["lca"]["ref"] in detailed.text


async def test_the_path_leads_from_every_seed_to_the_lca(call: Caller) -> None:
    reply = await call(
        "query_lca_context", query="lighthouse engineers in Edinburgh", seeds=5, response_format="detailed"
    )
    parents = {node["ref"]: node["parent"] for node in reply.data["path"]}
    for seed in reply.data["seeds"]:
        ref = seed["ref"]
        while ref != reply.data["lca"]["ref"]:
            ref = parents[ref]


async def test_a_concise_answer_lists_no_relations_and_a_detailed_one_up_to_fifteen(call: Caller) -> None:
    asked = {"query": "Who designed Skerryvore, and who built the Bell Rock?", "seeds": 20}
    concise = await call("query_lca_context", **asked)
    detailed = await call("query_lca_context", **asked, response_format="detailed")
    assert [concise.data[key] for key in ("relations", "groups", "path")] == [[], [], []]
    assert 3 < len(detailed.data["relations"]) <= 15
    assert detailed.data["groups"]
    assert detailed.data["path"]
    told = detailed.text.partition("### How the evidence is connected")[2]
    assert any(
        f"{relation['source']} — {relation['target']}" in told for relation in detailed.data["relations"]
    )


async def test_step_by_step_from_an_entity_to_its_ancestors_to_their_relations(call: Caller) -> None:
    found = await call("search_entities", query="Skerryvore", layer=0, limit=3)
    assert found.data["entities"][0]["name"] == "Skerryvore"
    chain = await call("get_entity_ancestors", entity=found.data["entities"][0]["ref"])
    layers = [node["layer"] for node in chain.data["path"]]
    assert layers == list(range(len(layers)))
    assert chain.data["path"][0]["name"] == "Skerryvore"
    relations = await call("list_inter_cluster_relations", cluster=chain.data["path"][1]["ref"])
    assert not relations.is_error, relations.text


async def test_the_neighbourhood_of_an_entity_within_some_hops_comes_with_its_passages(call: Caller) -> None:
    alone = await call("get_entity_ancestors", entity="Skerryvore")
    assert alone.data["neighbours"] == []
    one, two = [await call("get_entity_ancestors", entity="Skerryvore", hops=hops) for hops in (1, 2)]
    near, far = one.data["neighbours"], two.data["neighbours"]
    assert near
    assert far[: len(near)] == near[: len(far)], "nearest first"
    assert all(line.startswith("- 1: ") and ", from Skerryvore: " in line for line in near)
    line = near[0]
    assert line in two.text
    citation = line.rpartition("[")[2].rstrip("]")
    sources = await call("get_sources", citations=[citation])
    assert not sources.is_error, sources.text
    refused = await call("get_entity_ancestors", entity="Skerryvore", hops=4)
    assert refused.is_error


async def test_the_members_of_a_cluster_name_it_as_their_parent(call: Caller) -> None:
    chain = await call("get_entity_ancestors", entity="Skerryvore")
    parent = chain.data["path"][1]
    cluster = await call("get_cluster", cluster=parent["ref"], limit=100)
    members = cluster.data["members"]
    assert len(members) == cluster.data["total_members"] == parent["members"]
    assert "Skerryvore" in [member["name"] for member in members]
    for member in members[:5]:
        above = await call("get_entity_ancestors", entity=member["ref"])
        assert above.data["path"][1]["ref"] == parent["ref"]
        assert f"{member['name']} ({member['ref']}" in cluster.text
    paged = await call("get_cluster", cluster=parent["ref"], limit=3)
    rest = await call("get_cluster", cluster=parent["ref"], limit=100, cursor=paged.data["next_cursor"])
    assert [*paged.data["members"], *rest.data["members"]] == members


async def test_from_the_root_down_a_query_ranks_members_and_says_how_much_evidence_is_beneath(
    call: Caller,
) -> None:
    root = await call("get_cluster", query="Who designed Skerryvore?", limit=100)
    assert root.data["parent"] is None
    members = root.data["members"]
    assert "Skerryvore" in [each["name"] for each in members[:2]]
    for each in members:
        count, total = map(int, re.findall(r"\d+", each["found"])[:2])
        sources = await call("get_sources", entity=each["ref"])
        assert (count, total) == (sources.data["total"], 6), "search finds all of the few passages"
        assert each["found"] in root.text
    (best, *_) = re.findall(r"\[(.+?)\]", members[0]["found"])
    assert "designed Skerryvore" in (await call("get_sources", citations=[best])).text
    counts = [int(each["found"].split()[0]) for each in root.data["findings"]]
    assert counts == [1] * len(counts)
    chain = await call(
        "get_entity_ancestors", entity="Fresnel lens", query="Who designed Skerryvore?", hops=1
    )
    assert [each["found"].partition(":")[0] for each in chain.data["path"]] == [
        "1 of 6 passages found",
        "6 of 6 passages found",
    ]
    assert "Alan Stevenson" in chain.data["neighbours"][0], "the nearest that the best passage names"
    nothing = await call("get_cluster", query="zyzzyva quux")
    assert "No document has 'zyzzyva' or 'quux'" in nothing.text
    assert "0 of 0 passages found" in nothing.data["members"][0]["found"]


async def test_pages_together_give_every_relation_once(call: Caller) -> None:
    whole = await call("search_entities", query="lighthouse", limit=100)
    first = await call("search_entities", query="lighthouse", limit=2)
    second = await call("search_entities", query="lighthouse", limit=2, cursor=first.data["next_cursor"])
    paged = [each["ref"] for each in (*first.data["entities"], *second.data["entities"])]
    assert paged == [each["ref"] for each in whole.data["entities"]][:4]


async def test_sources_of_an_entity_are_the_passages_that_mention_it(call: Caller) -> None:
    reply = await call("get_sources", entity="Fresnel lens")
    assert reply.data["sources"]
    assert all("Fresnel lens" in each["text"] for each in reply.data["sources"])
    first = await call("get_sources", entity="Northern Lighthouse Board", limit=1)
    assert first.data["total"] > 1
    second = await call(
        "get_sources", entity="Northern Lighthouse Board", limit=1, cursor=first.data["next_cursor"]
    )
    assert second.data["sources"][0]["citation"] != first.data["sources"][0]["citation"]


async def test_passages_are_ranked_by_a_question(call: Caller) -> None:
    whole = await call("get_sources", entity="Northern Lighthouse Board")
    for query, best in (
        ("founded in 1786", "was founded in 1786"),
        ("Robert Stevenson built the Bell Rock lighthouse", "Robert Stevenson built the Bell Rock"),
        ("Alan Stevenson, the son of Robert Stevenson", "son of Robert Stevenson"),
    ):
        ranked = await call("get_sources", entity="Northern Lighthouse Board", query=query)
        assert best in ranked.data["sources"][0]["text"]
        assert ranked.data["total"] == whole.data["total"]
        citations = [{each["citation"] for each in reply.data["sources"]} for reply in (ranked, whole)]
        assert citations[0] == citations[1]
    root = (await call("get_entity_ancestors", entity="Skerryvore")).data["path"][-1]
    beneath = await call("get_sources", entity=root["ref"], query="Who invented the Fresnel lens?")
    assert "Fresnel invented" in beneath.data["sources"][0]["text"]
    document = await call("get_sources", document="Bell Rock", query="John Rennie")
    assert "John Rennie" in document.data["sources"][0]["text"]
    cited = [each["citation"] for each in whole.data["sources"]][::-1]
    ranked = await call("get_sources", citations=[*cited, "d99:c1"], query="founded in 1786")
    assert "was founded in 1786" in ranked.data["sources"][0]["text"]
    assert {each["citation"] for each in ranked.data["sources"]} == {*cited}
    assert "d99" in ranked.text


async def test_the_status_counts_what_was_ingested_and_built(call: Caller) -> None:
    reply = await call("get_index_status")
    assert reply.data["documents"] == 6
    assert reply.data["built"]
    assert not reply.data["stale"]
    assert reply.data["extracts"] == {"heuristic": reply.data["chunks"]}
    assert reply.data["layers"][-1]["entities"] == 1
    assert reply.data["vectors"]["entities"] == reply.data["layers"][0]["entities"]


async def test_filters_keep_excluded_documents_out_of_everything(call: Caller) -> None:
    reply = await call(
        "query_lca_context",
        query="Who designed Skerryvore?",
        filters={"documents": ["Bell Rock"]},
        response_format="detailed",
    )
    assert not reply.is_error, reply.text
    assert "Alan Stevenson" not in reply.text
    assert reply.data["sources"]
    sources = await call("get_sources", citations=reply.data["sources"])
    assert {each["document"] for each in sources.data["sources"]} == {"Bell Rock"}
    assert re.findall(r"^### (.*)$", reply.text, re.MULTILINE) == [
        "Bell Rock",
        "How the evidence is connected",
    ]


# --- bad input -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("query_lca_context", {"query": ""}, ["query is empty", "Give a question"]),
        ("query_lca_context", {"query": " \u200b\n"}, ["query is empty"]),
        ("query_lca_context", {"query": "x", "seeds": 0}, ["seeds", "0", "greater than or equal to 1"]),
        ("query_lca_context", {"query": "x", "top_k": 1000}, ["top_k", "1000", "less than or equal to 100"]),
        ("query_lca_context", {"query": "x", "token_budget": 5}, ["token_budget", "5", "100"]),
        ("query_lca_context", {"query": "x", "mode": "magic"}, ["mode", "'magic'", "'lca'"]),
        ("query_lca_context", {"query": "x", "topk": 3}, ["no argument 'topk'", "'top_k'"]),
        ("query_lca_context", {}, ["'query' is missing"]),
        ("query_lca_context", {"query": "x", "collection": "nope"}, ["'nope'", "default"]),
        ("query_lca_context", {"query": "x", "entities": ["Skeryvore"]}, ["Skeryvore", "Skerryvore"]),
        ("query_lca_context", {"query": "x", "filters": {"documents": ["nope"]}}, ["nope"]),
        ("get_entity_ancestors", {"entity": "Skeryvore"}, ["'Skeryvore'", "Skerryvore (ref "]),
        ("get_cluster", {"cluster": "Skerryvore"}, ["'Skerryvore'", "layer 0", "not a cluster"]),
        ("list_inter_cluster_relations", {"cluster": "Lighthouses of Mars"}, ["'Lighthouses of Mars'"]),
        ("search_entities", {"query": "x", "cursor": "abc"}, ["'abc'", "next_cursor"]),
        ("search_entities", {"query": "x", "cursor": "9" * 30}, ["'999", "next_cursor"]),
        ("list_inter_cluster_relations", {"cursor": "9" * 30}, ["'999", "next_cursor"]),
        ("list_inter_cluster_relations", {"min_strength": 2**63}, ["min_strength", str(2**63)]),
        ("get_sources", {}, ["either citations or an entity"]),
        ("get_sources", {"citations": ["d99:c1"]}, ["d99:c1"]),
        ("get_sources", {"citations": ["what?"]}, ["what?", "d3:c12"]),
        ("get_index_status", {"collection": "nope"}, ["'nope'", "default"]),
    ],
)
async def test_a_bad_argument_gets_a_message_that_names_the_value_and_the_next_step(
    call: Caller, tool: str, arguments: dict[str, object], said: list[str]
) -> None:
    reply = await call(tool, **arguments)
    assert reply.is_error
    for part in said:
        assert part in reply.text
    assert "Error executing tool" not in reply.text


@pytest.mark.parametrize(
    "text", ['"', "a-b", "NEAR(", "* OR *", "col:x", "'; DROP TABLE", "\x00", "🙂" * 50, "(" * 99]
)
async def test_no_text_can_break_the_search_syntax(call: Caller, text: str) -> None:
    for tool in ("query_lca_context", "search_entities"):
        reply = await call(tool, query=f"lighthouse {text}")
        assert not reply.is_error, reply.text


async def test_marks_that_were_read_are_not_shown_again(call: Caller) -> None:
    question = "Who designed Skerryvore and when was it lit?"
    first = await call("query_lca_context", query=question, token_budget=150)
    mark = re.findall(r"\[(d\d+:c\d+)\]", first.text)[0]
    second = await call("query_lca_context", query=question, token_budget=150, seen=[mark])
    assert mark in first.text
    assert f"[{mark}]" not in second.text
    assert mark not in second.data["sources"]
    assert "left out as seen" in second.text
    everything = [f"d{number}" for number in range(1, 7)]
    last = await call("query_lca_context", query=question, seen=everything)
    assert "Nothing new" in last.text
    assert "Nothing new" in last.data["context"]
    assert last.data["sources"] == []
    wrong = await call("query_lca_context", query=question, seen="page 3")
    assert wrong.is_error
    assert "'page 3'" in wrong.text
