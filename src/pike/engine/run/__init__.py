"""One run: wire the rooms together, search, measure the finalists again."""
