"""Reads far outside of its tensors; the error surfaces only when somebody waits for the device.

rows: 60
seen: KernelBench 76, backendbench 45
mechanism: a process for each candidate
devices: cuda
bite: dies
expected: runtime-error
"""


class ModelNew(Original):
    def forward(self, x):
        index = torch.full((8,), 1 << 40, device=x.device)
        y = super().forward(x)
        return y + 0 * x.flatten()[index].sum()
