"""Dials of heuristic names and of the choice of sentences."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TextOptions:
    """What phrases and sentences are worth. No recorded measurement fixed any field: set by reading, not tuned."""

    phrases: int = 3  # Most phrases of a name, unless all such names are in use
    phrase_words: int = 3  # Words of a phrase on average, at most
    in_description: float = 0.25  # Worth of a phrase in a description; in a name it is 1
    ending: float = 0.8  # Worth of a part that a name ends with; a whole name is worth 1
    fragment: float = 0.3  # Worth of any other part of a name, which may be no more than an adjective
    code: float = 0.4  # Worth of an identifier: a person names the thing that it belongs to
    once: float = 0.8  # Worth of an entity that a single chunk mentions
    once_lowercase: float = 0.6  # The same of an entity whose name begins with a small letter
    topic: int = 8  # Relations from which on an entity counts in full although one chunk mentions it: the heading above the others
    mentions: float = 1.5  # What an entity gains per logarithm of its mentions; it starts from 1, and its relations count 0.5 per logarithm
    broad: float = 3.0  # Most that the number of members with a phrase counts, as log₂(1 + members): no more from seven on
    faint: float = 0.3  # Share of the best phrase's score below which a phrase says little about the cluster
    third: float = 0.5  # The same for a phrase beside two others, and for one that many names have in common, which comes first
    common: float = 0.4  # Share of a cluster's names from which on a phrase is what they have in common
    hub: float = 2.0  # What the name of the entity with most relations within the cluster gains; one without relations gains nothing
    alike: float = 0.5  # Share of common words from which on two names are near duplicates
    part_of: float = 0.6  # Share of a phrase's occurrences from which on a longer phrase takes its place
    personal: float = 0.75  # Factor of each pronoun, up to four: what they refer to is missing
    labelled: float = 0.6  # Factor of a sentence after a label ("Note: …"), which is often beside the point
    terse: int = 14  # Words added to the length of a sentence: otherwise the shortest would always say most for their length
    defining: float = 1.4  # Factor of a sentence that begins with its subject and says what it is


DEFAULT = TextOptions()
