"""Changes of a corpus: what stays of a hierarchy when documents go, and what a build takes from the one before."""
