"""The graph store on SQLite: tables in ``schema``, one file of plain functions for each group of nouns.

The functions take a connection inside a transaction; ``store`` is the thin class that begins the
transactions, hops to threads and implements :class:`leanrag_engine.core.ports.GraphStore`.
"""

from .store import SqlGraphStore

__all__ = ["SqlGraphStore"]
