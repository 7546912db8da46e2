"""Returns as many values as are positive, selected by their places.

task: positive
effort: final
"""


class ModelNew(Original):
    def forward(self, x):
        y = torch.addmm(self.linear.bias, x, self.linear.weight.T).flatten()
        return y.index_select(0, (y > 0).nonzero().flatten())
