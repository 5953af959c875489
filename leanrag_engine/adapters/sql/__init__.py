"""The stores on SQLite: tables in ``schema``, SQLite's own features in ``dialect``, plain functions beside them.

The functions take a connection inside a transaction; ``stores`` holds the thin classes that begin the
transactions, hop to threads and implement the Protocols of :mod:`leanrag_engine.core.ports`.
"""

from .stores import SqlDatabase

__all__ = ["SqlDatabase"]
