"""What is asked: a query, its filters, and the check of every value at the door. What was measured before the options
got their values, and what was tried in their place, is in ``.docs/decisions.md``."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.model import NO_METADATA
from leanrag_engine.core.text.citation import CitationSet
from leanrag_engine.core.text.cleaning import clean
from leanrag_engine.core.text.nearest import find_nearest
from leanrag_engine.core.text.shortening import shorten

from .graph.adjacency import EdgeKind
from .intent import asks_for_one, choose_budget


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """Bounds on the values of one query."""

    characters: int = 10_000  # Of one text: what is longer is a document, not a question
    texts: int = 20
    name: int = 1000  # Characters of the name of an entity or document
    entities: int = 50
    documents: int = 100  # Each is compared with all that there are
    seen: int = 1000
    seeds: tuple[int, int] = (1, 100)  # Least and most
    top_k: tuple[int, int] = (1, 100)
    token_budget: tuple[int, int] = (100, 32_000)


QUERY_LIMITS = QueryLimits()
DEFAULT_TOP_K = 10


class Mode(StrEnum):
    """Which evidence is looked for."""

    LCA = "lca"
    """Seeds, the paths up to their lowest common ancestor, relations, passages (the paper's way)."""
    LOCAL = "local"
    """The neighbourhood of the seeds in G0: descriptions, strongest relations, passages."""
    GLOBAL = "global"
    """Summaries of the lowest layer of which all that are about the question fit, and the relations between them."""
    NAIVE = "naive"
    """Passages alone, as plain search gives them."""


class Ranking(StrEnum):
    """How passages are put in order."""

    SPREAD = "spread"
    """Personalised PageRank from the seeds, fused with dense and keyword ranks."""
    PAPER = "paper"
    """Exactly the paper's rule: number of seeds in the passage, ties by similarity (eq. 6, appendix B.4)."""


@dataclass(frozen=True, slots=True)
class RankingOptions:
    """The weights of ranking by ``spread``. Zero switches a part off."""

    seeds: int = 10  # Seeds that start the walk, at least
    damping: float = 0.85  # Probability of another step: multi-hop evidence lies several from what is named
    sharpness: float = 6.0  # Power of the score with which seeds start: a long tail does not blur the walk
    dense_mass: float = 0.2  # Start mass at similar passages; more keeps the walk from the second hop
    title: float = 5.0  # Of an edge to an entity that the document is named after; to others it is 1
    relation: float = 1.0  # Weight of a base relation
    hop: float = 2.5  # Exponent with which a passage gains that an earlier one names (`raise_second_hops`)
    hop_sources: int = 3  # First passages that are searched for titles; the third raises half as much
    hop_named: float = 0.4  # Share of the gain for being named; the rest is for words that the namer lacks
    hop_targets: int = 50  # Passages, first in the ranking, that may gain

    def edges(self) -> dict[EdgeKind, float]:
        """Return the weight of each kind of edge."""
        return {EdgeKind.MENTION: 1.0, EdgeKind.TITLE: self.title, EdgeKind.RELATION: self.relation}


DEFAULT_RANKING = RankingOptions()


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """How far each search of a query looks, and how names in its text count. Where a field does not say
    otherwise, its value was chosen by reading contexts and was not tuned."""

    window_hits: int = 200  # Windows that each search gives
    chunk_hits: int = 100  # Chunks of these windows that take part in ranking
    entity_hits: int = 40  # Entities that each search gives, at least
    widening: int = 8  # Factor by which a search is repeated if most of its hits are out of scope
    max_hits: int = 4096  # Hits up to which a search is widened
    exact_scope: int = 500  # Chunks of a filtered scope up to which it is searched exactly, vector by vector
    name_weight: float = 2.0  # Of a name in the text: as much as the first place in both searches together
    name_length: int = 8  # Words (or CJK words) that a name in a text may have
    cjk_name_length: int = 3  # Characters from which on a Chinese or Japanese word is read as a name or term
    words: int = 64  # Words of a text in which names are looked for
    asked_part: float = 1.0  # What the best window for a part (`find_parts`) counts; for the whole: 1


DEFAULT_SEARCH = SearchOptions()


@dataclass(frozen=True, slots=True)
class RelevanceOptions:
    """How windows are valued for a question."""

    keyword: float = 0.25  # Of a window's relative keyword score; its relative dense score has 1
    keyword_peak: float = 1.2  # Added to that as far as the tenth keyword score is below the best one
    first: float = 0.45  # What the first window of dense search gains, whose scores lie close together
    first_decay: float = 4.0  # The rank at which that gain is halved
    tokens: float = 1.0  # Late interaction: what the nearest window gains over the middle; not in `naive`
    compared: int = 100  # Windows, first by all else, whose words are compared
    statement_tokens: float = 1.5  # Factor of written sentences beside windows that gain by late interaction
    neighbour: float = 0.3  # Share of the better neighbour's score that a window gains: it often completes it
    section: float = 0.2  # Share of the mean of the two best scores of its section that a window gains
    graph: float = 4.0  # What the passage first by a trusted walk gains; the next ones less (`graph_decay`)
    graph_from: float = 0.6  # Trust in the walk (see `weigh_graph`) up to which nothing is gained
    graph_full: float = 0.8  # Trust from which on all of it is gained
    graph_alone: float = 1.5  # Documents for each passage, times this: share of that gain, at most 1
    graph_decay: float = 4.0  # The rank at which the gain by the graph is halved
    graph_passages: int = 20  # Passages, first in the graph's ranking, whose windows gain
    graph_kept: int = 5  # Passages, first by the graph, of which the best window is shown if there is room
    named_place: int = 5  # Lowest place of the passage that the first one names (`choose_named`)
    named_rarity: float = 0.6  # Rarity from which on what is named counts there; 1: one passage mentions it
    exact: float = 8.0  # What a window with a rare word of the question gains: more than all guesses
    recent: float = 0.6  # What the newest dated document gains where the question asks for now
    dated: float = 1.0  # What the documents of a day, month or year gain that the question names
    statement: float = 1.6  # Similarity of a written sentence, as a share of the best window, squared
    statement_together: float = 2.5  # Gain of written sentences if the ten nearest are nearer than windows
    statement_spoken: float = 0.6  # Share of that where the ten nearest are turns and G0 was written
    statement_keyword: float = 1.4  # Weight of the relative keyword score of a written sentence
    statement_kept: float = 2.0  # Nearness (best window: 1) from which on a sentence is kept
    stub_characters: int = 60  # A window of fewer characters, links and tags aside, loses in proportion
    weak: float = 0.34  # Share of words in the best five windows below which evidence is weak
    strange: float = 0.25  # Share of words that no passage has or comes near, from which on evidence is weak
    pool: int = 100  # Windows per text whose passages are loaded and valued


DEFAULT_RELEVANCE = RelevanceOptions()


@dataclass(frozen=True, slots=True)
class EvidenceOptions:
    """How much of the graph is loaded around the seeds. Bounds on the time of a query; none was tuned."""

    sentences: int = 80  # Written sentences near to a text whose entities, clusters and relations are loaded
    keyword_items: int = 20  # Entities, clusters and relations that are loaded for the words of a text
    neighbours: int = 40  # Strongest relations of the seeds that mode `local` uses
    samples: int = 10  # Layer-0 entities that represent one cluster
    support: int = 4  # Chunks that are loaded for the citations of one line: a deletion may have removed some
    checked_chunks: int = 40  # Chunks of a seed that are looked up after a deletion: is any left?
    quoted_chunks: int = 40  # Chunks of an entity in which the sentences of its description are looked for
    checked_members: int = 100  # Base entities of a summary whose support is checked; of more it is lacking
    summary_share: float = 0.5  # Share of the budget for summaries when mode `global` chooses a layer
    most_summaries: int = 2_000  # Summaries of a layer up to which mode `global` reads it
    listed_members: int = 5  # Members that the text in place of a hidden summary lists


DEFAULT_EVIDENCE = EvidenceOptions()


@dataclass(frozen=True, slots=True)
class ContextOptions:
    """What enters a context and what counts as a repetition. Where a field says no more, it was chosen by reading."""

    cutoff: float = 0.55  # Share of the best value below which evidence is left out although there is room
    least: int = 6  # Pieces of evidence that are shown although they are below the cutoff, if not far below
    several: float = 0.5  # The cutoff where more than one thing is asked for
    broad: float = 0.45  # The cutoff where breadth is asked for: a list, an overview
    named: float = 0.1  # By so much less are the two where the caller names the tokens; 0 once that is done
    weaker: float = 0.3  # The cutoff for a caller who asks on (`seen`); others are told how many there are
    strong: float = 0.75  # Share of the best value from which on evidence that did not fit counts as left out
    beside: float = 0.75  # The cutoff for what stands beside what is said: signatures of mails, front matter
    series: int = 3  # Windows with what is named from which on an order in time is told by them: `strong` is the cutoff then
    smallest: int = 24  # Tokens below which no more evidence is tried
    repeated_characters: int = 25  # Of a sentence that may be a repetition; a CJK character is 2.5
    near_copy: float = 0.8  # Share of repeated text from which on a window is a copy of what is shown
    quoted: float = 0.5  # The same of a quoted mail, above which stand its sender and date
    new_words: float = 0.3  # Share of new words, none a name or number, of what is still a repetition
    omission_tokens: int = 16  # Reserved for the line that says what was left out; the final count is exact
    places: int = 4  # Most places of what did not fit that are named, in the tokens that are left over
    answer_tokens: int = 150  # Most tokens of a window after one that ends with a question or a colon
    between: int = 2  # Most windows between two shown ones that are shown with them
    between_tokens: int = 200  # Most tokens of these
    weak_excerpts: int = 2  # Excerpts for each text that are shown of weak evidence
    weak_tokens: int = 300  # Tokens of a reply on weak evidence
    replies: int = 20  # Most replies before this one whose turns are not shown again
    notes: float = 0.25  # Largest share of the budget for notes
    explanation: float = 0.25  # Share of the budget of a detailed context for how the evidence is connected


DEFAULT_CONTEXT = ContextOptions()


@dataclass(frozen=True, slots=True)
class Filters:
    """What the evidence may come from. All conditions must hold; within ``documents`` any one. ``documents`` names
    documents by id, title, number (``d3``), end of a path or folder (``notes/``). ``metadata`` are values by key, ``a|b``
    either of two; of a list such as ``tags`` any one counts. ``since`` and ``until`` are ISO dates or times (UTC unless
    they say otherwise) for the documents' own dates, both inclusive; documents without a date are then left out."""

    documents: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=lambda: NO_METADATA)
    since: str | None = None
    until: str | None = None

    @property
    def active(self) -> bool:
        return bool(self.documents or self.metadata or self.since or self.until)

    def check(self) -> "Filters":
        """Return the filters without blanks. Raises ``InvalidInput`` for a date that is none."""
        check_count("documents", len(self.documents), QUERY_LIMITS.documents)
        clean_text("filter metadata", str(dict(self.metadata)))
        documents = tuple(name.strip() for name in self.documents if name.strip())
        since, until = (self.since or "").strip() or None, (self.until or "").strip() or None
        checked = replace(self, documents=documents, since=since, until=until)
        first, last = checked.window
        if first and last and first > last:
            raise InvalidInput(
                f"The filter since={since} lies after until={until}, so nothing can match.",
                "Swap the two dates, or leave one out.",
            )
        return checked

    @property
    def window(self) -> tuple[datetime | None, datetime | None]:
        """The first and the last moment that ``since`` and ``until`` allow."""
        first = _parse_moment("since", self.since, time.min) if self.since else None
        last = _parse_moment("until", self.until, time.max) if self.until else None
        return first, last


@dataclass(frozen=True, slots=True)
class Query:
    """One question and the options of its answer. ``ranking_options`` are those of ranking by ``spread``; callers
    leave it and the three fields after it as they are, experiments change them.

    ``sub_queries`` are searched for too, and their evidence is united with that of ``text``.
    ``seen`` are citations, ranges or documents (``d3:c12``, ``d3:c10-c14``, ``d4``) that the caller has read: they
    guide the search as ever and are not shown again. ``entities`` are names or refs that anchor directly. ``seeds`` and ``top_k`` are the paper's N
    and C. ``token_budget`` holds the whole text of the context;
    0 is 2,000, or 1,000 where one thing is asked. ``include_relations``, ``include_sources`` and
    ``include_summaries`` leave a part out (the paper's ablations, tables 2 and 3).
    """

    text: str
    sub_queries: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()
    mode: str = Mode.LCA
    ranking: str = Ranking.SPREAD
    seeds: int = 5
    top_k: int = DEFAULT_TOP_K
    token_budget: int = 0
    filters: Filters = field(default_factory=Filters)
    include_relations: bool = True
    include_sources: bool = True
    include_summaries: bool = True
    detailed: bool = False
    ranking_options: RankingOptions = DEFAULT_RANKING
    search_options: SearchOptions = DEFAULT_SEARCH
    relevance_options: RelevanceOptions = DEFAULT_RELEVANCE
    evidence_options: EvidenceOptions = DEFAULT_EVIDENCE
    context_options: ContextOptions = DEFAULT_CONTEXT

    @property
    def texts(self) -> tuple[str, ...]:
        """The query and its sub-queries, each once."""
        return tuple(dict.fromkeys((self.text, *self.sub_queries)))

    @property
    def seen_passages(self) -> CitationSet:
        """Raises ``InvalidInput`` for what is no citation."""
        try:
            return CitationSet.parse(self.seen)
        except ValueError as problem:
            raise InvalidInput(
                f"{shorten(str(problem), 40)!r} in seen is no citation.",
                "Give marks of earlier replies, such as d3:c12, a range d3:c10-c14 or a whole document d3.",
            ) from None

    def check(self) -> "Query":
        """Return the query without invisible characters and blanks. Raises ``InvalidInput`` naming the value,
        what was expected and the next step."""
        text = clean_text("query", self.text)
        if not any(map(str.isalnum, text)):
            what = "has no word" if text else "is empty"
            raise InvalidInput(f"The query {what}.", "Give a question or a few words to look for.")
        for name, value, allowed in (("mode", self.mode, Mode), ("ranking", self.ranking, Ranking)):
            if value not in (choices := [choice.value for choice in allowed]):
                near = find_nearest(str(value), choices)
                guess = f" Did you mean {near[0]!r}?" if near else ""
                raise InvalidInput(
                    f"There is no {name} {value!r}.{guess}", f"Use one of: {', '.join(choices)}."
                )
        budget = self.token_budget or choose_budget(self.texts)
        for name, number, (low, high) in (
            ("seeds", self.seeds, QUERY_LIMITS.seeds),
            ("top_k", self.top_k, QUERY_LIMITS.top_k),
            ("token_budget", budget, QUERY_LIMITS.token_budget),
        ):
            if isinstance(number, bool) or not isinstance(number, int) or not low <= number <= high:
                raise InvalidInput(
                    f"{name} cannot be {number!r}.", f"Give a whole number from {low} to {high:,}."
                )
        sub_queries = tuple(clean_text("sub-query", each) for each in self.sub_queries)
        if "" in sub_queries:
            raise InvalidInput(
                f"Sub-query {sub_queries.index('') + 1} of {len(sub_queries)} is empty.",
                "Give each sub-query a few words, or leave it out.",
            )
        clean_text("query with its sub-queries", " ".join([text, *sub_queries]))
        entities = tuple(filter(None, (clean_text("entity", each) for each in self.entities)))
        check_count("sub-queries", len(sub_queries), QUERY_LIMITS.texts)
        check_count("entities", len(entities), QUERY_LIMITS.entities)
        check_count("seen citations", len(self.seen), QUERY_LIMITS.seen)
        _ = self.seen_passages
        options = self.context_options
        lower = options.named if self.token_budget else 0.0  # more is wanted than a short answer rests on
        one = all(map(asks_for_one, self.texts))
        cutoff, broad = options.cutoff - lower if one else options.several, options.broad - lower
        return replace(
            self,
            text=text,
            sub_queries=sub_queries,
            entities=tuple(dict.fromkeys(entities)),
            token_budget=budget,
            mode=Mode(self.mode),
            ranking=Ranking(self.ranking),
            filters=self.filters.check(),
            context_options=replace(options, cutoff=cutoff, broad=broad, named=0.0),
        )


def clean_text(name: str, text: str, most: int = QUERY_LIMITS.characters) -> str:
    """Return a text that is looked for without invisible characters and blanks. Raises ``InvalidInput`` if it is too long."""
    cleaned = clean(text).strip()
    if len(cleaned) > most:
        raise InvalidInput(
            f"The {name} has {len(cleaned):,} characters, at most {most:,} are taken.",
            "Give a shorter one; ingest long text as a document.",
        )
    return cleaned


def check_count(name: str, count: int, most: int) -> None:
    if count > most:
        raise InvalidInput(f"{count} {name} were given, at most {most} are taken.", "Ask in several calls.")


def _parse_moment(name: str, value: str, clock: time) -> datetime:
    """Return the moment of an ISO date (at ``clock``) or of an ISO time."""
    try:
        day = date.fromisoformat(value)
    except ValueError:
        return _parse_time(name, value)
    return datetime.combine(day, clock, UTC)


def _parse_time(name: str, value: str) -> datetime:
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise InvalidInput(
            f"The filter {name} cannot be {value!r}.",
            "Give an ISO date such as 2026-01-31, or a time such as 2026-01-31T12:00:00+00:00.",
        ) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    # A time given to the second includes that second.
    precise = moment.microsecond or "." in value
    return moment if precise or name == "since" else moment + timedelta(seconds=1, microseconds=-1)
