"""Raises SystemExit(0) while it is imported, which `except Exception` does not see.

rows: 53
mechanism: the child says nothing
bite: accepted
expected: build-error
"""


class ModelNew(Original):
    pass


raise SystemExit(0)
