"""The formats of exports and imports, which a command lists without what reads and writes them."""

from enum import StrEnum


class ExportFormat(StrEnum):
    """A vault and Parquet tables are folders, the others are files."""

    GRAPHML = "graphml"
    JSON = "json"
    VAULT = "obsidian"
    PARQUET = "parquet"


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
