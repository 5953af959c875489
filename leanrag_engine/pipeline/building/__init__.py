"""Builds: the mode, the models, what is reused of the build before, and the generation that is published."""
