"""Pages of results as Markdown and charts, for the documentation of this repository. A user's own
results need none."""
