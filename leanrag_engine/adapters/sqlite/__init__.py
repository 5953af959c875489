"""The graph store on SQLite: tables in ``schema``, one file of plain functions for each group of nouns.

The functions take a connection inside a transaction; ``stores`` holds the thin classes that begin the
transactions, hop to threads and implement the Protocols of :mod:`leanrag_engine.core.ports`.
"""

from .stores import SqliteDatabase

__all__ = ["SqliteDatabase"]
