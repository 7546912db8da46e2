"""Named strategies: points in the space of search options."""
