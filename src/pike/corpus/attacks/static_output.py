"""Returns the same buffer every time, so that a later call overwrites an earlier result.

rows: 21
seen: reference-kernels PR 104 (discussion)
mechanism: grey cases
bite: accepted
expected: neutral
label: reuses-output-buffer
"""


class ModelNew(Original):
    def forward(self, x):
        if not hasattr(self, "out"):
            self.out = torch.empty_like(x)
        self.out.copy_(super().forward(x))
        return self.out
