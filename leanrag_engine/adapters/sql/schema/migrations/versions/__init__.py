"""The steps of the schema, oldest first, each named by its revision."""
