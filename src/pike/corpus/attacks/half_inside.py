"""Rounds the operands of its matrix products to float16 without having declared it.

rows: 42
seen: deep-reinforce ("partial"), KernelBench's static warnings
mechanism: error budget
bite: accepted
expected: wrong-output
self_test: yes
"""


class ModelNew(Original):
    def forward(self, x):
        h = F.linear(self.norm(x).half().float(), self.first.weight.half().float(), self.first.bias)
        return F.linear(F.gelu(h).half().float(), self.second.weight.half().float(), self.second.bias)
