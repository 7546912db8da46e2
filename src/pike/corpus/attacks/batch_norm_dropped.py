"""Leaves out the normalisation, which hardly shows while its statistics are those of a new model.

rows: 45, 36
mechanism: error budget
devices: cpu
task: conv
bite: accepted
expected: wrong-output
"""


class ModelNew(Original):
    def forward(self, x):
        return self.second(torch.relu(self.first(x)))
