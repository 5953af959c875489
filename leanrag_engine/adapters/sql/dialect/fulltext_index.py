"""What a full-text index of any database is asked: its tables, the bounds of a search, and the port of the two indexes."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection


@dataclass(frozen=True, slots=True)
class FullTextOptions:
    """Bounds that keep the time of a keyword search from growing with the corpus. Without them one word that
    most rows contain makes every search rank most rows."""

    large_table: int = 5_000
    """Up to this number of rows, all rows that match are ranked: counting first would cost more than it saves there."""
    ranked_rows: int = 2_500
    """The most rows that a search of a larger table ranks, unless every word of the query is in more rows than this.
    Ranking takes about a microsecond per row, so this bounds a search to a few milliseconds."""
    scored_rows: int = 10_000
    """The most rows that contain the words by which rows are ranked. Reading a row takes a twentieth of ranking it."""


DEFAULT = FullTextOptions()


class RowCounts:
    """How many rows of large tables there are, and contain a term, kept from search to search of one
    database. Counting a common word takes a millisecond, and every question has some. At ``most`` so many
    numbers are kept, a few megabytes. Safe to share between threads."""

    def __init__(self, most: int = 10_000) -> None:
        self._most = most
        self._held: dict[tuple[object, ...], int] = {}

    def get(self, key: tuple[object, ...], count: Callable[[], int]) -> int:
        """Return the number that ``key`` stands for, which ``count`` finds if it is not known."""
        held = self._held.get(key)
        if held is None:
            held = count()
            if len(self._held) >= self._most:
                self._held.clear()
            self._held[key] = held
        return held


WORDS = "porter unicode61 remove_diacritics 2"
TRIGRAMS = "trigram"


@dataclass(frozen=True, slots=True)
class FullTextTable:
    """A table of texts by number: one text for each of ``columns``, whose words weigh as ``weights`` say.
    ``tokenizer`` is FTS5's, which cuts texts and queries for both databases."""

    name: str
    columns: tuple[str, ...]
    weights: tuple[float, ...]
    tokenizer: str = WORDS


@dataclass(frozen=True, slots=True)
class RowRange:
    """The numbers ``first`` to ``last``, and the ``count`` of the rows that have one of them."""

    first: int
    last: int
    count: int


@dataclass(frozen=True, slots=True)
class SearchedRows:
    """The rows of a table that a search is about: all, or those ``within``. ``state`` is the collection's
    revision or the generation that is searched, so that ``counts`` are those of the table as it is."""

    counts: RowCounts
    state: int = 0
    within: RowRange | None = None
    options: FullTextOptions = DEFAULT


@dataclass(frozen=True, slots=True)
class FullTextIndex(ABC):
    """Keyword search in one table. A term is matched as a phrase of the tokens that the tokenizer makes of it;
    scores are BM25 with k1 = 1.2 and b = 0.75 over all columns."""

    connection: Connection
    table: FullTextTable

    @abstractmethod
    def create(self) -> None: ...

    @abstractmethod
    def add(self, rows: Sequence[tuple[int | str, ...]]) -> None:
        """Insert rows: a number, and the text of each column."""

    @abstractmethod
    def fill_from(self, source: FullTextTable) -> None:
        """Insert the rows of another table into this one, which is empty."""

    @abstractmethod
    def remove(self, numbers: range) -> None: ...

    @abstractmethod
    def remove_rows(self, numbers: Sequence[int]) -> None: ...

    @abstractmethod
    def purge(self) -> None:
        """Remove what the index still holds of removed rows."""

    @abstractmethod
    def drop(self) -> None:
        """Remove the table if it exists."""

    @abstractmethod
    def count(self, rows: SearchedRows) -> int:
        """Return the number of rows of the whole table."""

    @abstractmethod
    def count_terms(self, rows: SearchedRows, terms: Sequence[str]) -> dict[str, int]:
        """Return the number of rows that contain each term, at least up to ``options.scored_rows`` and one; if all
        terms are in more, the whole number."""

    @abstractmethod
    def find(self, forms: Sequence[Sequence[str]], limit: int) -> list[int]:
        """Return the numbers of at most ``limit`` rows that contain all terms of any of ``forms``."""

    @abstractmethod
    def find_begun(self, letters: str, limit: int) -> list[int]:
        """Return the numbers of at most ``limit`` rows that contain a word that begins with ``letters``."""

    @abstractmethod
    def rank(
        self, rows: SearchedRows, terms: Sequence[str], required: Sequence[str], limit: int
    ) -> list[tuple[int, float]]:
        """Return number and score of the best rows, best first, ties by number. A row has any of ``terms``
        and, unless it is empty, any of ``required``."""
