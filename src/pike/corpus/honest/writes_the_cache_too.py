"""Writes the cache that the reference writes, in another way.

task: cache
"""


class ModelNew(Original):
    def forward(self, x, cache):
        torch.addmm(self.linear.bias, x, self.linear.weight.T, out=(y := torch.empty_like(x)))
        cache.select(1, 2).copy_(y)
        return cache.sum(1) / 4
