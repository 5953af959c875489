"""Chinese, Japanese and Korean sentences as runs of the words of which terms can be made, by what the segmenters say of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from leanrag_engine.core.text.language.segmentation import japanese_morphemes, tagged_chinese
from leanrag_engine.core.text.scripts import has_hangul, is_japanese


class Unit(NamedTuple):
    """One word of a run. ``role``: (n)oun, name of a (p)erson, a p(l)ace or an (o)rganisation, (s)uffix, (v)erb or (m)odifier
    that a term may open with, or a light word (x), which goes with any noun and stands only within a term."""

    text: str
    role: str
    start: int
    end: int


Run = list[Unit]


def _set(spaced: str) -> frozenset[str]:
    return frozenset(spaced.split())


_LIGHT = _set(
    # Chinese verbs and adjectives that go with any noun
    "进行 使用 提供 导致 存在 构建 生成 实现 处理 需要 包括 采用 利用 形成 引入 改进 提取 缺乏 缺少 具有 作为 成为 产生 面临 克服 开始 探索 组织 捕获 保留 "
    "取得 解决 提出 旨在 转换 识别 给定 描述 编码 应用 划分 提供 代表 定义 考虑 确认 包含 属于 超过 推断 防止 创建 验证 回答 评估 涉及 表现 进行 比较 选择 "
    "减少 增加 提高 降低 显著 充分 有效 相关 不同 复杂 简单 大量 新 主要 重要 关键 明确 丰富 完整 精确 紧凑 连贯 详细 具体 特定 多个 现有 传统 整体 初始 "
    "原始 相似 无法 难以 未能 有助于 保持 避免 支持 允许 依赖 基于 来自 位于 组成 构成 分为 表示 表明 显示 发现 认为 得到 获得 达到 完成 确保 保证 限制 "
    "影响 促进 推动 加强 开展 建立 发展 设计 开发 优化 实施 执行 引导 指导 结合 遵循 关联 连接 说明 指出 强调 总结 概括 介绍 讨论 分析 研究 看到 知道 成功 "
    "如下 常见 典型 广泛 更好 更大 更高 最大 最小 最佳 必须 应该 常常 往往 能够 想要 希望 要求 用于 适合 适用 有关 无关 相比 相应 所有 其他 各种 许多 "
    "利用 调用 返回 输入 输出 计算 精心 迫切 直接 间接 独立 自动 逐步 进一步 有意义 之间 直到 属于 增强 整合 精确定位 充分利用 运行 选取 删除 添加"
)
_BREAKS = _set(
    "成为 进行 提供 导致 存在 需要 包括 采用 具有 面临 缺乏 缺少 取得 旨在 使得 表明 显示 说明 指出 作为 用于 来自 位于 属于 包含 有助于 能够 必须 应该 往往 常常 "
    "结果表明 可能 之间 直到 如下 看到 知道 认为 发现 得到 获得 达到 完成 确保 保证 允许 依赖 避免 发生 出现 深度 维度 高度"
)
"""Verbs that never are part of a term."""
_CHINESE_ROLES = {
    "n": "n",
    "nz": "n",
    "nr": "p",
    "ns": "l",
    "nt": "o",
    "nrt": "p",
    "nrfg": "p",
    "vn": "n",
    "an": "n",
    "j": "n",
}
_CHINESE_MODIFIERS = frozenset(["v", "a", "b", "ad", "ag", "vg", "zg", "ng", "g"])
_SUFFIX_PARTS = _set(
    "性 化 式 型 率 度 者 学 器 法 论 层 集 库 树 图 簇 节 点 量 值 网 体 系 界 区 市 省 县 国 州 队 院 校 会 部 局 站 路 山 河 湖 海 岛"
)
_SURNAMES = frozenset(
    "王李张刘陈杨黄赵吴周徐孙马朱胡郭何林高罗郑梁谢宋唐许韩冯邓曹彭曾萧田董潘袁蔡蒋余于杜叶程苏魏吕丁任沈姚卢姜崔钟谭陆汪范廖贾夏韦付邹孟熊秦邱江尹薛闫段侯龙史陶黎贺顾毛郝龚邵钱严"
)
_TITLES = _set("教授 博士 先生 氏 社長 首相 大統領 監督 選手 議員 会長 部長 さん 様")
"""What follows a Japanese name and is no part of it."""


def language_of(text: str) -> str:
    """``ja``, ``ko`` or ``zh``, for a text that holds CJK characters."""
    if is_japanese(text):
        return "ja"
    return "ko" if has_hangul(text) else "zh"


def runs(text: str, language: str) -> list[Run]:
    """The stretches of one sentence that hold nothing but words of which terms are made."""
    if language == "ja":
        return _stretches(_japanese_units(text), gap=0)
    if language == "ko":
        return _stretches(_korean_units(text), gap=1)
    return _stretches(_chinese_units(text), gap=0)


def _stretches(units: Iterable[Unit], gap: int) -> list[Run]:
    """Units without a role, and more than ``gap`` characters between two, end a stretch."""
    found: list[Run] = [[]]
    for unit in units:
        if not unit.role or (found[-1] and unit.start > found[-1][-1].end + gap):
            found.append([])
        if unit.role:
            found[-1].append(unit)
    return [run for run in found if run]


# --- Chinese -------------------------------------------------------------------------------


def _chinese_units(text: str) -> Iterator[Unit]:
    position = 0
    for word, tag in tagged_chinese(text):
        start = text.index(word, position)
        position = start + len(word)
        yield Unit(word, _chinese_role(word, tag), start, position)


def _chinese_role(word: str, tag: str) -> str:
    if not ("\u3400" <= word[0] <= "\u9fff") or word in _BREAKS or word[-1] == "地":
        return ""
    if len(word) == 1:
        return "s" if word in _SUFFIX_PARTS and tag[0] in "nkgqz" else ""
    if word in _LIGHT:
        return "x"
    role = _CHINESE_ROLES.get(tag, "v" if tag in _CHINESE_MODIFIERS else "")
    mistaken = (role == "p" and word[0] not in _SURNAMES) or (role == "l" and word[-1] in "度性率")
    return "n" if mistaken else role


# --- Japanese ------------------------------------------------------------------------------


def _japanese_units(text: str) -> Iterator[Unit]:
    for morpheme in japanese_morphemes(text):
        word = morpheme.surface()
        yield Unit(word, _japanese_role(word, morpheme.part_of_speech()), morpheme.begin(), morpheme.end())


def _japanese_role(word: str, tags: Sequence[str]) -> str:
    major, minor, third = tags[:3]
    if word.isascii() or word.isspace() or word in _TITLES:
        return ""
    if major == "名詞" and minor == "固有名詞":
        return {"人名": "p", "地名": "l"}.get(third, "o")
    if major == "名詞":
        adverbial = third in {"副詞可能", "助数詞可能"} and len(word) == 1
        return "n" if minor == "普通名詞" and not adverbial else ""
    if major == "接尾辞":
        return "s" if minor == "名詞的" or word == "的" else ""
    return "m" if major in {"接頭辞", "形状詞"} and minor not in {"助動詞語幹", "タリ"} else ""


# --- Korean --------------------------------------------------------------------------------

_KOREAN_WORD = re.compile("[가-힣]+")
_KOREAN_NOMINAL = re.compile(
    "([가-힣]{2,}?)(?:은|는|이|가|을|를|의|에|에서|에게|으로|로|와|과|도|이다|입니다)"
)


def _korean_units(text: str) -> Iterator[Unit]:
    """Words between spaces: one with a noun's particle ends a run, without the particle; others may open one."""
    for match in _KOREAN_WORD.finditer(text):
        word, start = match[0], match.start()
        nominal = _KOREAN_NOMINAL.fullmatch(word)
        if nominal:
            yield Unit(nominal[1], "n", start, start + len(nominal[1]))
            yield Unit("", "", match.end(), match.end())
        else:
            yield Unit(word, "m" if len(word) > 1 else "", start, match.end())
