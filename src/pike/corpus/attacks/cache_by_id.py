"""Remembers the answer for each input object.

rows: 15
seen: kernelbot PR 501, reference-kernels PR 102
mechanism: new values in every call
bite: gain
expected: wrong-output
"""


class ModelNew(Original):
    known = {}

    def forward(self, x):
        if id(x) not in self.known:
            self.known[id(x)] = super().forward(x)
        return self.known[id(x)].clone()
