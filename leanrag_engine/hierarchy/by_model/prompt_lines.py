"""Format entities and relations as prompt lines: short, the best first, within a budget, fenced."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from leanrag_engine.core.grouping import group
from leanrag_engine.core.model import Entity, Relation
from leanrag_engine.core.text.cleaning import clean_line
from leanrag_engine.core.text.language.sentences import sentences
from leanrag_engine.core.text.language.words import word_count
from leanrag_engine.core.text.shortening import cut_end
from leanrag_engine.hierarchy.texts.attribution import best_first


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """Say what a task shows, asks for and accepts (by reading, not tuned). The id of a task depends on what it shows."""

    description_words: int = 110  # Words of a cluster's description; one of more than twice as many is cut
    findings: int = 5  # Findings that the prompt asks for (paper, appendix D.1)
    cluster_tokens: int = 2600  # Tokens, about, that a task shows of one cluster
    member_share: float = 0.7  # Share of these tokens that members take before relations
    member_words: tuple[int, int] = (25, 110)  # Least and most words of a member's description
    relation_words: int = 45  # Words of one relation in the task of a cluster
    named_members: int = 3  # Members of proper names that a sentence on two clusters may name
    sentence_words: int = 40  # Words of a sentence on two clusters that the prompt asks for
    longest_sentence: int = 60  # Longer ones are rejected; a few words are no reason for a second call
    pair_tokens: int = 700  # Tokens, about, of the relations that a task shows of two clusters
    call_tokens: int = 3000  # Clusters share a call only while their tasks show about so many tokens


DEFAULT = TaskOptions()


class PromptSheet:
    """Prompt lines within a token budget. No sentence occurs twice: one often describes several items, and every word costs."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.tokens = 0
        self._sentences: set[str] = set()

    def title(self, line: str) -> None:
        """Add a line regardless of the budget."""
        self.lines.append(line)
        self.tokens += approximate_tokens(line)

    def add(self, head: str, text: str, *, words: int, room: int) -> bool:
        """Add ``- head: text`` without sentences of earlier lines, cut to about ``words`` words; False if ``room`` is full."""
        fresh = self._fresh(text)
        part = _limit_words(fresh, words)
        line = f"- {head}: {part}" if part else f"- {head}"
        size = approximate_tokens(line)
        if self.tokens + size > room:
            return False
        self.lines.append(line)
        self.tokens += size
        self._sentences.update(sentence.casefold() for sentence in fresh if sentence in part)
        return True

    def add_relations(
        self, relations: Iterable[Relation], known: Mapping[str, Entity], *, words: int, room: int
    ) -> int:
        """Add lines ``- name — name: text``, the best first, one for all relations of equal text; return how many had room."""
        groups = group((each.description or each.id, each) for each in best_first(relations))
        shown = 0
        for alike in groups.values():
            ends = [(known[each.source_id], known[each.target_id]) for each in alike]
            head = "; ".join(f"{short_name(source)} — {short_name(target)}" for source, target in ends)
            if not self.add(head, alike[0].description, words=words, room=room):
                break
            shown += len(alike)
        return shown

    def _fresh(self, text: str) -> list[str]:
        line = clean_line(text)
        found = (line[start:end] for start, end in sentences(line))
        return [each for each in found if each.casefold() not in self._sentences]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def approximate_tokens(text: str) -> int:
    """Estimate the tokens of a text and its line break; a budget needs no tokenizer."""
    # About four bytes of UTF-8 per token: close for Latin letters, on the safe side for Han characters.
    return len(text.encode("utf-8", "surrogatepass")) // 4 + 1


def kind_of(entity: Entity) -> str:
    """Return `` (type)``; empty for concepts and clusters."""
    return f" ({entity.type})" if not entity.layer and entity.type not in ("", "concept") else ""


def short_name(entity: Entity) -> str:
    """Return the name on one line, cut after 80 characters."""
    return cut_end(clean_line(entity.name), 80)


def shorten_text(text: str, words: int) -> str:
    """Return on one line the first sentences of about ``words`` words, or the beginning of the first."""
    line = clean_line(text)
    return _limit_words([line[start:end] for start, end in sentences(line)], words)


def _limit_words(parts: Sequence[str], words: int) -> str:
    """Return the first sentences of at most ``words`` words; the first is cut if it alone has more."""
    chosen: list[str] = []
    left = words
    for part in parts:
        left -= word_count(part)
        if left < 0:
            break
        chosen.append(part)
    if chosen or not parts:
        return " ".join(chosen)
    pieces = parts[0].split()
    # Chinese and Japanese have no spaces: two of their characters count as a word.
    spaced = word_count(parts[0]) <= 2 * len(pieces)
    return f"{' '.join(pieces[:words]) if spaced else parts[0][: 2 * words]}…"
