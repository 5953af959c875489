"""What a folder holds: the walk through it, its ignore files, and files that are no prose."""
