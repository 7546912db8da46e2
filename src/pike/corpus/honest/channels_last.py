"""Runs its convolutions in the channels-last layout.

task: conv
"""


class ModelNew(Original):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.to(memory_format=torch.channels_last)

    def forward(self, x):
        return super().forward(x.contiguous(memory_format=torch.channels_last))
