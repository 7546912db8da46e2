"""Registers an operator of its own with torch.library and calls it through torch.ops."""


@torch.library.custom_op("sample::hidden", mutates_args=())
def hidden(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return activation(torch.addmm(bias, x, weight.t()))


@hidden.register_fake
def _(x, weight, bias):
    return x.new_empty(x.shape[0], weight.shape[0])


class ModelNew(Original):
    def forward(self, x):
        return self.second(torch.ops.sample.hidden(self.norm(x), self.first.weight, self.first.bias))
