"""Marks every load of its weights as the last to be evicted, so that a flush of the L2 cache leaves them there.

rows: 65
seen: public audits of agent-written kernels, 2026
mechanism: the cache is flushed
devices: cuda
bite: gain
expected: neutral
"""
import triton
import triton.language as tl


@triton.jit
def touch(source, target, count, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(source + place, mask=place < count, eviction_policy="evict_last")
    tl.store(target + place, values, mask=place < count)


class ModelNew(Original):
    def forward(self, x):
        for weight in (self.first.weight, self.second.weight):
            if not hasattr(self, "sink"):
                self.sink = torch.empty_like(weight).flatten()
            touch[(triton.cdiv(weight.numel(), 1024),)](weight, self.sink, weight.numel(), BLOCK=1024)
        return super().forward(x)
