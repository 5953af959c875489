"""Everything specific to SQLite: files, pragmas, transactions, error codes, FTS5, lists of ids as JSON.

Another database would replace this folder; ``schema`` and the statements beside it would not change.
"""
