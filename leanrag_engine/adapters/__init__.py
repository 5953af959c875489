"""One file for each foreign library; each implements a port of :mod:`leanrag_engine.core.ports`."""
