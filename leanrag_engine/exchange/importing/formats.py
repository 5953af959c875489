"""The formats of an import."""

from enum import StrEnum


class ImportFormat(StrEnum):
    """What the files of another program are. The folders of nano-graphrag are like LightRAG's."""

    GRAPHRAG = "graphrag"
    LIGHTRAG = "lightrag"
    OPENIE = "openie"
    LEANRAG = "leanrag"
    GRAPHML = "graphml"
    CSV = "csv"
    JSONL = "jsonl"
    VAULT = "obsidian"
