"""How good the answers are: question sets, measures, runs over a scratch collection."""
