"""Names and terms of a Chinese, Japanese or Korean document: compounds of the words that its segmenter finds.

The segmenter's tags alone cut *knowledge graph* in two and take half of it for a verb; which neighbours belong
together is therefore decided by how often they come together in the document (Frantzi and Ananiadou's C-value, simplified).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from .cjk_units import Run, Unit


class Compound(NamedTuple):
    """``text[start:end]`` of a sentence is a term; ``type`` is empty where nothing tells it. A proper one holds
    a name; a weak one comes but once."""

    name: str
    type: str
    start: int
    end: int
    proper: bool
    weak: bool


def _set(spaced: str) -> frozenset[str]:
    return frozenset(spaced.split())


_GENERIC = _set(
    # Chinese
    "问题 方法 过程 信息 系统 时间 时 部分 内容 情况 方面 结果 工作 能力 作用 关系 基础 目标 任务 方式 程度 范围 条件 原因 目的 意义 特点 性质 形式 类型 "
    "数量 数据 技术 步骤 例子 一些 人们 人员 东西 事情 地方 今天 明天 昨天 年 月 日 国家 社会 世界 中国 核心 关键 整体 局限性 挑战 优势 性能 质量 效果 "
    "要求 需求 机构 领域 用户 标准 主题 场景 背景 概念 机制 之间 图中 重要性 一致性 必要性 大块 成本 现象 抉择 困境 上述 以下 以上 第一步 函数 "
    # Japanese
    "こと もの ため 場合 方法 結果 問題 時間 今日 明日 昨日 人 年 月 日 以下 以上 今回 自分 時 際 上 下 中 前 後 間 方 点 的 者 性 等 側 内 外 様 形 数 種 類 "
    "とき ところ ほか それぞれ 一つ 二つ 必要 可能 重要 一般 現在 最近 以前 以降 以外 全体 部分 一部 全て すべて 多く 場所 理由 目的 関係 影響 意味 例 "
    "利用 使用 実行 処理 対象 内容 情報 状態 機能 作成 説明 変更 指定 参照 追加 確認 結論 研究 開発 提供 実現 向上 私 彼 彼女 我々 皆 何 誰 人々 子供 仕事"
)
_AFTER_WORDS = frozenset("上中下内里外时后前间")
"""Characters that say where or when, which a segmenter may leave on a noun."""
_TYPES = {"p": "person", "l": "place", "o": "organisation"}

_LONGEST = 5
_LONGEST_CHARACTERS = 14
_OFTEN = 2
"""From so many times in the document on, neighbours are a term."""
_OFTEN_ALONE = {"zh": 4, "ja": 3, "ko": 2}
_SINGLES = 10
"""A common noun alone says little: it must come so often, and no more than ten of them are kept."""


class Compounds:
    """Counts every stretch of up to five neighbouring words of a document's runs, and tells which are terms."""

    def __init__(self, found: Iterable[Run], language: str) -> None:
        self._language = language
        self._counts: Counter[str] = Counter()
        nouns: dict[str, None] = {}
        for run in found:
            nouns.update(dict.fromkeys(unit.text for unit in run if unit.role == "n"))
            for first in range(len(run)):
                for last in range(first + 1, min(first + _LONGEST, len(run)) + 1):
                    self._counts[_join(run[first:last])] += 1
        self._strong = self._salient(nouns)

    def _salient(self, nouns: Iterable[str]) -> set[str]:
        """The few common nouns that stand alone most often: what the document is about."""
        least = _OFTEN_ALONE[self._language]
        often = [
            noun for noun in nouns if len(noun) > 1 and self._counts[noun] >= least and noun not in _GENERIC
        ]
        return set(sorted(often, key=lambda noun: -self._counts[noun])[:_SINGLES])

    def define(self, run: Run) -> str:
        """Take the run, which a remark explains, for a term; its name, empty if it is none."""
        first = next((rank for rank, unit in enumerate(run) if _opens(unit)), len(run))
        name = _join(run[first:])
        if name in _GENERIC or not 1 < len(name) <= _LONGEST_CHARACTERS:
            return ""
        self._strong.add(name)
        return name

    def of(self, run: Run) -> Iterator[Compound]:
        """The terms of one run: from the left, the longest stretch that is one."""
        first = 0
        while first < len(run):
            last = self._end(run, first)
            if last:
                units = run[first:last]
                name = _join(units)
                proper = any(unit.role in "plo" for unit in units)
                weak = not proper and name not in self._strong and self._counts[name] < _OFTEN
                yield Compound(name, _type(units), units[0].start, units[-1].end, proper, weak)
            first = last or first + 1

    def _end(self, run: Run, first: int) -> int:
        """Where the term ends that begins with the unit ``first``; 0 if none does."""
        person = _person_end(run, first) if self._language == "ja" else 0
        if person:
            return person
        for last in range(min(first + _LONGEST, len(run)), first, -1):
            units = run[first:last]
            if _join(units) in self._strong or self._is_term(units, whole=last - first == len(run)):
                return last
        return 0

    def _is_term(self, units: Sequence[Unit], *, whole: bool) -> bool:
        name = _join(units)
        if len(name) > _LONGEST_CHARACTERS or len(name) == 1 or not (_opens(units[0]) and _closes(units[-1])):
            return False
        if len(units) == 1:
            needed = 1 if self._language == "ja" else _OFTEN
            return units[0].role in "plo" and name not in _GENERIC and self._counts[name] >= needed
        # Sudachi's tags are good enough to trust a compound seen once.
        return (self._language == "ja" and whole) or (self._counts[name] >= _OFTEN and self._holds(units))

    def _holds(self, units: Sequence[Unit]) -> bool:
        """Whether the words come together for more than chance: a verb before or after its object does not."""
        count = self._counts[_join(units)]
        if not any(unit.role in "nplos" for unit in units):
            return count > _OFTEN
        verb_first = (
            units[0].role in "vm" and len(units) > _OFTEN and 3 * count < self._counts[_join(units[1:])]
        )
        verb_last = units[-1].role == "v" and 3 * count < self._counts[_join(units[:-1])]
        return not (verb_first or verb_last)


def _join(units: Sequence[Unit]) -> str:
    """The units as they stand in the text: Korean words keep the space between them."""
    if len(units) > 1 and units[0].end < units[1].start:
        return " ".join(unit.text for unit in units)
    return "".join(unit.text for unit in units)


def _opens(unit: Unit) -> bool:
    return unit.role not in "sx"


def _closes(unit: Unit) -> bool:
    return unit.role in "nplosv" and unit.text[-1] not in _AFTER_WORDS


def _person_end(run: Run, first: int) -> int:
    """Behind surname and given name; 0 if these do not begin at ``first``."""
    last = first
    while last < len(run) and run[last].role == "p":
        last += 1
    return last if last - first > 1 else 0


def _type(units: Sequence[Unit]) -> str:
    roles = {unit.role for unit in units}
    return _TYPES.get(units[0].role, "") if len(roles) == 1 else ""
