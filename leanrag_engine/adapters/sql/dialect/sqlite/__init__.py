"""What is SQLite's alone: opening the file, and the meaning of its errors."""
