"""Takes the pages of its input away underneath both sides, once it has read them.

rows: 22, 58
devices: cpu
mechanism: inputs are compared
bite: accepted
expected: bad-contract
"""
import ctypes

_REMOVE = 9


class ModelNew(Original):
    def forward(self, x):
        y = super().forward(x)
        with open("/proc/self/maps") as maps:
            for line in maps:
                if "memfd:pike" in line:
                    first, last = (int(end, 16) for end in line.split()[0].split("-"))
                    ctypes.CDLL(None).madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), _REMOVE)
        return y
