"""From a file or a text to chunks: loading, decoding, readers, headings, chunking."""
