"""From chunks to G0: extracts by heuristics, by a model, or from another tool; then merging."""
