"""Returns float16, which is half the memory to write.

rows: 38
seen: wafer
mechanism: exact contract
bite: accepted
expected: bad-contract
"""


class ModelNew(Original):
    def forward(self, x):
        return super().forward(x).half()
