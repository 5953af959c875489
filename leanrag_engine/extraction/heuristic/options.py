"""The options of heuristic extraction."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HeuristicOptions:
    """How much heuristic extraction takes from a chunk: by reading extracts of MuSiQue, a novel and manuals,
    not tuned."""

    tokens_per_entity: int = 20
    """A chunk gets one entity per so many tokens, within the next two bounds."""

    fewest_entities: int = 12
    most_entities: int = 26

    tokens_per_name: int = 8
    """Names may exceed the bounds up to one per so many tokens: no name of a list is lost. Prose does not reach it."""

    related_in_full: int = 4
    """In a sentence with at most so many entities, every two of them are related."""

    pairs_per_sentence: int = 6
    """Pairs in a sentence with more entities, unless its pairs of neighbours are more."""

    title_relations: int = 12
    heading_relations: int = 5
    """Entities of a chunk that are related to the title and to each heading."""

    short_document: int = 6
    """In a document of at most so many chunks, the title is an entity of each chunk."""

    most_rows: int = 500
    """Of tables with more rows in all, the names in their cells are no entities: search finds the rows."""

    description_words: int = 60

    salient_words: int = 6
    """Lone nouns of a short document that become entities, and one more per ``words_per_salient`` words."""
    words_per_salient: int = 300
    most_singles: int = 40
    fewest_of_single: int = 3
    """How often such a noun must occur, and once more per ``words_per_single`` words."""
    words_per_single: int = 3_000
    gathering: float = 0.3
    """Least residual IDF of such a noun in a book (no text below ``parts_of_book`` is measured by it): *attention* and *family* are everywhere in a novel."""
    parts_of_book: int = 200
    """Parts of 250 words from which on a text is a book. In a shorter one every frequent noun helps to find passages: on
    *A Christmas Carol* (145 parts) replies of 1,000 tokens held 52.0 % of the facts with them and 47.4 % without."""
    gathered: float = 0.7
    """Residual IDF from which on a quarter of those occurrences suffices: a scene is about it."""
    fewest_of_headed: int = 2
    """How often a noun must occur that is in a heading too."""

    uncased_terms: int = 40
    """Words that become entities in a document whose script has no capitals."""


DEFAULT_OPTIONS = HeuristicOptions()
