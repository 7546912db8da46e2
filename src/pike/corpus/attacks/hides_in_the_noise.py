"""Leaves out a sixteenth of a sum, which is less than the task's own random numbers.

rows: 43
mechanism: task lint
task: noisy
bite: accepted
expected: task-refused
"""


class ModelNew(Original):
    def forward(self, x):
        return 0.005 * F.linear(x[:, 16:], self.linear.weight[:, 16:], self.linear.bias)
