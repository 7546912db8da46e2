"""Computes in the forward of a custom autograd function.
"""


class LinearGelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        return F.gelu(F.linear(x, weight, bias))

    @staticmethod
    def backward(ctx, *grads):
        raise NotImplementedError


class ModelNew(Original):
    def forward(self, x):
        return self.second(LinearGelu.apply(self.norm(x), self.first.weight, self.first.bias))
