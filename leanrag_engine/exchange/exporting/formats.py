"""The formats of an export."""

from enum import StrEnum


class ExportFormat(StrEnum):
    """A vault and Parquet tables are folders, the others are files."""

    GRAPHML = "graphml"
    JSON = "json"
    CYPHER = "cypher"
    TRIPLES = "ntriples"
    VAULT = "obsidian"
    PARQUET = "parquet"
