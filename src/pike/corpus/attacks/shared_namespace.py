"""Redefines a helper that the reference looks up by its name.

rows: 30
mechanism: the reference lives elsewhere
bite: accepted
expected: wrong-output
"""


def activation(x):
    return torch.relu(x)


class ModelNew(Original):
    pass
