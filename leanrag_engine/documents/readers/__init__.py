"""One module for each file format: bytes to text with pages and headings."""
