"""Uses only half of the hidden units.

rows: 45
seen: kernelbench.com audits (truncated history)
mechanism: error budget
task: tiny
bite: accepted
expected: wrong-output
"""


class ModelNew(Original):
    def forward(self, x):
        h = F.gelu(F.linear(self.norm(x), self.first.weight[:256], self.first.bias[:256]))
        return 1e-3 * F.linear(h, self.second.weight[:, :256], self.second.bias)
