"""From documents to G0: loading, chunking, extraction, merging."""
