"""Remembers the answer for a few elements of the input, wherever it lies.

rows: 17
seen: flashinfer-bench-starter-kit 21
mechanism: new values in every call
bite: gain
expected: neutral, wrong-output
"""


class ModelNew(Original):
    known = {}

    def forward(self, x):
        key = tuple(x.flatten()[:: x.numel() // 4][:4].tolist())
        if key not in self.known:
            self.known.clear()
            self.known[key] = super().forward(x)
        return self.known[key].clone()
