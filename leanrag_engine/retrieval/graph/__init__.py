"""The published graph in memory: adjacency, PageRank, LCA paths, the retrieved subgraph."""
