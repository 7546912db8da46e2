"""The memory of every run: an append-only journal and content-addressed blobs."""
