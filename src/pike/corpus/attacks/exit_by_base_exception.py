"""Raises an exception of its own that is no Exception and whose text claims success.

rows: 53
mechanism: the child says nothing
bite: accepted
expected: runtime-error
"""


class Passed(BaseException):
    def __str__(self):
        return "status: valid, speedup 1000x"


class ModelNew(Original):
    def forward(self, x):
        raise Passed
