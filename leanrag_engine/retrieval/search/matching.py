"""How much texts share with a query, found in the texts as they stand. Cutting hundreds of texts into words would
cost more than all the rest of a query; one compiled pattern of the query's words is searched for instead."""

import math
import re
from collections import Counter
from collections.abc import Sequence

from leanrag_engine.core.text.language.words import search_terms
from leanrag_engine.core.text.scripts import has_cjk

_NOTHING = re.compile("(?!)")


class QueryWords:
    """The words of a query, ready to be found. Stopwords do not count unless there is nothing else."""

    def __init__(self, texts: Sequence[str]) -> None:
        terms = dict.fromkeys(term for text in texts for term in search_terms(text))
        # Longest first: a pattern takes the first alternative that fits.
        self._pattern = _any_of(sorted(terms, key=len, reverse=True))
        self.count = len(terms)

    def score(self, texts: Sequence[str]) -> list[float]:
        """Return for each text the sum over the query's words in it, a word counting more the fewer of ``texts`` hold it."""
        found = list(map(self.find, texts))
        holders = Counter(word for words in found for word in words)
        weight = {word: math.log1p(len(texts) / count) for word, count in holders.items()}
        return [sum(weight[word] for word in sorted(words)) for words in found]

    def share(self, texts: Sequence[str]) -> float:
        """Return the share of the query's words that ``texts`` hold."""
        return len(set().union(*map(self.find, texts))) / self.count if self.count else 0.0

    def find(self, text: str) -> set[str]:
        """Return the query's words that ``text`` holds."""
        return set(self._pattern.findall(text.casefold()))


def _any_of(terms: Sequence[str]) -> re.Pattern[str]:
    """Find whole words (an English plural counts as its singular), and CJK words wherever they stand."""
    whole = [re.escape(term) for term in terms if not has_cjk(term)]
    within = [re.escape(term) for term in terms if has_cjk(term)]
    words = f"(?<![^\\W_])(?:{'|'.join(whole)})(?=(?:e?s)?(?![^\\W_]))" if whole else ""
    pattern = "|".join(filter(None, [words, *within]))
    return re.compile(pattern) if pattern else _NOTHING
