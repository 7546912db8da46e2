"""Keeps tensors of its own beside the reference's weights.
"""


class ModelNew(Original):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.register_buffer("scale", torch.ones(1), persistent=False)

    def forward(self, x):
        return super().forward(x) * self.scale
