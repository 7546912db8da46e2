"""Works on a side stream that waits for a long time before it begins.

rows: 1, 3
seen: backendbench 52
mechanism: snapshot of a poisoned output
devices: cuda
bite: gain
expected: neutral, wrong-output, untrusted-timing
"""


class ModelNew(Original):
    stream = None

    def forward(self, x):
        self.stream = self.stream or torch.cuda.Stream()
        y = torch.full_like(x, float("nan"))
        with torch.cuda.stream(self.stream):
            torch.cuda._sleep(2_000_000)
            y.copy_(super().forward(x))
        return y
