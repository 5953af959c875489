"""What differs between databases: opening, transactions, error codes and full text of SQLite and of PostgreSQL."""
