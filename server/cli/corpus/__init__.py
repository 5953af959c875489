"""Commands that change a collection: documents, builds, corrections."""
