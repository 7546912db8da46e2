"""Turns TF32 on, which was declared.

precision: tf32
devices: cuda
"""


class ModelNew(Original):
    def forward(self, x):
        torch.backends.cuda.matmul.allow_tf32 = True
        return super().forward(x)
