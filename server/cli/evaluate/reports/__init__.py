"""The printed reports of `leanrag eval`: remarks and tables."""
