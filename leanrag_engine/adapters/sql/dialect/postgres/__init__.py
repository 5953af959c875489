"""What is PostgreSQL's alone: the server, the meaning of its errors, full-text tables, the lock of the writer."""
