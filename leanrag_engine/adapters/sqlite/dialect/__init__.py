"""What is SQLite's alone: files, pragmas, transactions, error codes, FTS5, lists of ids as JSON.

Another database needs a folder like this one; ``schema`` and the statements beside it stay as they are.
"""
