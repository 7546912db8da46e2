"""The `pike` command line.

Knows terminals. Does not know how anything is done (`api`).
"""
