"""Read the graphs that other programs have made, with their passages, without calling a model."""
