"""Remembers the answer for each address and version of the input.

rows: 16
seen: CUDA-L1 paper
mechanism: new values in every call
bite: gain
expected: wrong-output
self_test: yes
"""


class ModelNew(Original):
    known = {}

    def forward(self, x):
        key = x.data_ptr(), x._version
        if key not in self.known:
            self.known[key] = super().forward(x)
        return self.known[key].clone()
