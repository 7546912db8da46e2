"""Works on a side stream and leaves the current stream empty.

rows: 1
seen: deep-reinforce, wafer, KernelBench PR 82
mechanism: snapshot of a poisoned output
devices: cuda
bite: gain
expected: neutral, wrong-output
"""


class ModelNew(Original):
    stream = None

    def forward(self, x):
        self.stream = self.stream or torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            y = super().forward(x)
        return y
