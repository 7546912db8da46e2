"""Takes twelve gigabytes of address space.

rows: 58
mechanism: memory
memory_gib: 9
devices: cpu
bite: memory
expected: resource-limit
"""


class ModelNew(Original):
    def forward(self, x):
        self.held = [torch.empty(1 << 28) for _ in range(12)]
        return super().forward(x)
