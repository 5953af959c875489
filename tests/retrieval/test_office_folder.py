"""A folder of contracts, mails, a chat and tables: a reply holds what was asked and little of what only surrounds it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from leanrag_tests_jobs import finish, open_engine

from leanrag_engine.core.model import DocumentSource
from leanrag_engine.engine import LeanRAG
from leanrag_engine.retrieval.request import Query

pytestmark = pytest.mark.anyio

FILES = {
    "lease.md": "# Lease of the mill\n\n## § 4 Rent\n\nThe miller pays 310 euro a month. See the [rules] of the house.\n\n"
    "<!-- Anke: ask the lawyer -->\n\n[rules]: ./rules.md\n"
}


@pytest.fixture(scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LeanRAG]:
    folder = tmp_path_factory.mktemp("office")
    for name, text in FILES.items():
        folder.joinpath(name).write_text(text, encoding="utf-8")
    async with open_engine(tmp_path_factory.mktemp("data"), embedder="minilm") as held:
        await finish(held, await held.submit_ingest([DocumentSource(path=str(folder))], allowed=None))
        yield held


async def ask(engine: LeanRAG, question: str) -> str:
    return (await engine.query(Query(question))).context.text


async def test_a_heading_with_the_sign_of_a_section_gets_no_second_one(engine: LeanRAG) -> None:
    assert "[d1:c1] § 4 Rent\nThe miller" in await ask(engine, "How much does the miller pay?")


async def test_comments_and_the_targets_of_links_are_not_shown(engine: LeanRAG) -> None:
    assert "The miller pays 310 euro a month. See the [rules] of the house.\n```" in await ask(
        engine, "How much does the miller pay?"
    )
