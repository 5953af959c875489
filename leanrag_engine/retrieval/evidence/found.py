"""Find the passages for a question, to rank by them what a caller browses."""

from leanrag_engine.retrieval.filters import EVERYTHING
from leanrag_engine.retrieval.index import IndexSnapshot
from leanrag_engine.retrieval.request import Query
from leanrag_engine.retrieval.search.crediting import FoundPassages, credit_passages
from leanrag_engine.retrieval.search.hits import adjacency_of, embed_with_parts, search_windows

from .pool import value_windows
from .run import QueryRun


async def find_passages(index: IndexSnapshot, question: str) -> FoundPassages:
    """Return the passages that plain search finds for a question, and what they are credited to. Needs an adjacency. Raises
    ``InvalidInput`` for an empty question."""
    query = Query(question).check()
    run = QueryRun(await embed_with_parts(index, query.texts), query, EVERYTHING)
    found = await search_windows(run.index, run.scope, query.texts, query.search_options)
    windows = await value_windows(run, found[0], ())
    run.warn_of_dense(found)
    run.warn_of_weakness(found, [windows])
    run.warn_of_absent()
    return credit_passages(adjacency_of(index), windows, run.warnings)
