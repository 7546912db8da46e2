"""Takes nearly all memory of the GPU, which the reference needs as well.

rows: 58
mechanism: memory
devices: cuda
bite: dies
expected: neutral, resource-limit
"""


class ModelNew(Original):
    held = None

    def forward(self, x):
        if self.held is None:
            free, _ = torch.cuda.mem_get_info()
            self.held = torch.empty(max(free - (256 << 20), 1), dtype=torch.uint8, device=x.device)
        return super().forward(x)
