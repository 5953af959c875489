"""The calling agent as the model: pending work, submissions, corrections of the graph."""
