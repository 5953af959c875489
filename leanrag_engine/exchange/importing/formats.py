"""The formats of an import."""

from enum import StrEnum

__all__ = ["ImportFormat"]


class ImportFormat(StrEnum):
    """What the files of another program are."""

    GRAPHRAG = "graphrag"
    OPENIE = "openie"
