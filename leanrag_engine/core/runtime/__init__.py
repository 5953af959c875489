"""How the process works: threads, files that are replaced whole, telemetry, and what dependencies may not send."""
