"""Takes the variance as the mean of squares less the squared mean, which cancels where the mean is large.

At the offset that finalists are tried with, its error lies at the edge of the budget: it may be refused or accepted.

rows: 47
mechanism: input distributions
effort: final
bite: accepted
expected: wrong-output, neutral
"""


class ModelNew(Original):
    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        variance = (x * x).mean(-1, keepdim=True) - mean * mean
        normal = (x - mean) * torch.rsqrt(variance + 1e-5) * self.norm.weight + self.norm.bias
        return self.second(F.gelu(self.first(normal)))
