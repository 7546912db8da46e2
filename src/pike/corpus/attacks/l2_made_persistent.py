"""Sets aside most of the L2 cache for itself, which a flush does not empty.

rows: 65
seen: llm.c PR 851, pygpubench PR 49, nvbench 458
mechanism: the cache is flushed
devices: cuda
bite: gain
expected: neutral
"""
import ctypes


class ModelNew(Original):
    def forward(self, x):
        if not hasattr(self, "done"):
            self.done = True
            cuda = ctypes.CDLL("libcuda.so.1")
            cuda.cuCtxSetLimit(6, ctypes.c_size_t(32 << 20))  # CU_LIMIT_PERSISTING_L2_CACHE_SIZE
        return super().forward(x)
