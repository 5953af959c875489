"""From a query to evidence: anchoring, LCA paths, ranking, context."""
