"""Computes once for each shape.

rows: 15, 17
mechanism: new values in every call
bite: gain
expected: wrong-output
"""


class ModelNew(Original):
    known = {}

    def forward(self, x):
        if x.shape not in self.known:
            self.known[x.shape] = super().forward(x)
        return self.known[x.shape].clone()
