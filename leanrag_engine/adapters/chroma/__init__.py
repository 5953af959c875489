"""The vector store on Chroma."""
