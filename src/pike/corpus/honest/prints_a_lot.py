"""Prints in every call, as candidates under development do.
"""


class ModelNew(Original):
    def forward(self, x):
        y = super().forward(x)
        print("max", float(y.max()), flush=True)
        return y
