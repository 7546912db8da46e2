"""Turns on autocast for the whole process, so that the reference agrees with its bfloat16.

rows: 44, 43
mechanism: the reference lives elsewhere
bite: accepted
expected: wrong-output
"""


class ModelNew(Original):
    def forward(self, x):
        device = x.device.type
        torch.set_autocast_enabled(device, True)
        torch.set_autocast_dtype(device, torch.bfloat16)
        return super().forward(x).float()
