"""Write a collection's graph, with its layers and passages, in the formats of other programs."""
