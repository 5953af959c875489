"""LeanRAG: documents become a layered knowledge graph, questions get a small, cited context."""
