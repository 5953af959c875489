"""What the engine knows of written language: scripts, words, sentences, and when two names are one.

Chinese and Japanese text is cut into words here, by the same segmenter before indexing and
before searching.
"""
