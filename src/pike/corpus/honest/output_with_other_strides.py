"""Returns its output transposed in memory, which the contract allows.
"""


class ModelNew(Original):
    def forward(self, x):
        h = activation(self.first(self.norm(x)))
        return torch.addmm(self.second.bias[:, None], self.second.weight, h.t()).t()
