"""Chooses by scores in bfloat16, which was declared: some of the closest choices differ.

task: choice
precision: half
"""


class ModelNew(Original):
    def forward(self, x):
        weight, bias = self.linear.weight.bfloat16(), self.linear.bias.bfloat16()
        return (x.bfloat16() @ weight.T + bias).argmax(-1)
