"""Dials of the texts that a model or an agent writes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """Say what a task shows, asks for and accepts (by reading, not tuned). The id of a task depends on what
    it shows."""

    description_words: int = 110
    """Words of a cluster's description that the prompt asks for. One of more than twice as many is cut at a sentence: a
    second call costs more than the words are worth."""
    findings: int = 5
    """Findings that the prompt asks for (paper, appendix D.1)."""
    least_findings: int = 3
    """Fewest findings of a usable summary. Fewer than ``findings`` are no reason to pay for a second call."""
    small_cluster: int = 3
    """A cluster of so many members may have a single finding, and so may one with a relation for three members at most."""
    cluster_tokens: int = 2600
    """Tokens, about, that a task shows of one cluster."""
    member_share: float = 0.7
    """Share of these tokens that members take before relations."""
    member_words: tuple[int, int] = (25, 110)
    """Least and most words of one member's description: few where there are many members."""
    relation_words: int = 45
    """Words of one relation in the task of a cluster."""
    named_members: int = 3
    """Members of proper names that a sentence on two clusters may name: it stands for the clusters, and is found by names."""
    sentence_words: int = 40
    """Words of a sentence on two clusters that the prompt asks for."""
    longest_sentence: int = 60
    """Longer sentences are rejected; a few words too many are no reason to pay for a second call."""
    pair_tokens: int = 700
    """Tokens, about, of the relations that a task shows of two clusters."""
    call_tokens: int = 3000
    """Clusters share a call only while their tasks show about this many tokens in all."""


DEFAULT = TaskOptions()
