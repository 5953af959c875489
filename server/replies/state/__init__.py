"""Replies that say what there is: collections and documents, their state, the health of the installation."""
