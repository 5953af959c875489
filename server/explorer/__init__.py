"""A page on which the layers of a collection are explored, served on this machine or as one file. It only reads."""
