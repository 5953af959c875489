"""Tables of published builds: entities, relations, publishing."""
