"""Makes every wait for the device return at once, and works on another stream.

rows: 12, 1
mechanism: snapshot of a poisoned output
devices: cuda
bite: gain
expected: wrong-output, neutral, untrusted-timing, sandbox-violation
"""
_nothing = lambda *args, **kwargs: None
torch.cuda.synchronize = _nothing
torch.cuda.Stream.synchronize = torch.cuda.Event.synchronize = _nothing


class ModelNew(Original):
    stream = None

    def forward(self, x):
        self.stream = self.stream or torch.cuda.Stream()
        y = torch.full_like(x, float("nan"))
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            torch.cuda._sleep(1_000_000)
            y.copy_(super().forward(x))
        return y
