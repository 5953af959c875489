"""How the process works: threads, files that are replaced whole, and telemetry."""
