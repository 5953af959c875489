"""The formats of an export."""

from enum import StrEnum

__all__ = ["ExportFormat"]


class ExportFormat(StrEnum):
    """A vault is a folder, the others are files."""

    GRAPHML = "graphml"
    JSON = "json"
    CYPHER = "cypher"
    TRIPLES = "ntriples"
    VAULT = "obsidian"
