"""Packs a weight on first use and again when its address or version changes.
"""


class ModelNew(Original):
    packed, key = None, None

    def forward(self, x):
        key = self.first.weight.data_ptr(), self.first.weight._version
        if key != self.key:
            self.packed, self.key = self.first.weight.t().contiguous(), key
        h = torch.addmm(self.first.bias, self.norm(x), self.packed)
        return self.second(activation(h))
