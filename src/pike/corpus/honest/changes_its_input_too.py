"""Changes its input in place where the reference does.

task: in_place
effort: final
"""


class ModelNew(Original):
    def forward(self, x):
        x.clamp_(min=0)
        return torch.addmm(self.linear.bias, x, self.linear.weight.T)
