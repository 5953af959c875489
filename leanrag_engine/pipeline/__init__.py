"""Jobs and what they run: ingest, build, index, delete; status and agent work."""
