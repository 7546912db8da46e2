"""Computes all rows but the last, which it takes from its previous call.

rows: 18, 45
mechanism: new values in every call
bite: accepted
expected: wrong-output
"""


class ModelNew(Original):
    last = None

    def forward(self, x):
        if self.last is None:
            self.last = super().forward(x[-1:])
        y = torch.cat([super().forward(x[:-1]), self.last])
        self.last = super().forward(x[-1:])
        return y
