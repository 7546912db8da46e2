"""Returns zeros where the task itself always comes to zero.

rows: 36
seen: KernelBench 116, METR's filter (45 tasks dropped)
mechanism: task lint
task: constant
bite: gain
expected: task-refused
"""


class ModelNew(Original):
    def forward(self, x):
        return x.new_zeros(len(x), 1)
