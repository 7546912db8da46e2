"""One call of a child: what travels to it, what comes back, and in which order."""
