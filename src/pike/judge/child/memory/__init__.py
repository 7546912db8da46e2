"""Memory that judge and child share, and what is laid out in it."""
