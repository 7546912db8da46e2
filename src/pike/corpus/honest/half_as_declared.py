"""Computes in bfloat16, which was declared.

precision: half
"""


class ModelNew(Original):
    def forward(self, x):
        with torch.autocast(x.device.type, dtype=torch.bfloat16):
            return super().forward(x).float()
