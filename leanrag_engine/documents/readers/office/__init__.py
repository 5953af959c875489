"""Word documents, spreadsheets and slides."""
