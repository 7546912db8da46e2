"""Folds the normalisation's scale into the linear layer behind it, by from_reference.

self_test: yes
"""


class ModelNew(nn.Module):
    @classmethod
    def from_reference(cls, model):
        made = cls()
        weight = model.first.weight * model.norm.weight
        bias = model.first.bias + model.first.weight @ model.norm.bias
        made.eps, made.width = model.norm.eps, model.norm.normalized_shape
        made.first = nn.Parameter(weight.detach().clone(), requires_grad=False)
        made.bias = nn.Parameter(bias.detach().clone(), requires_grad=False)
        made.second = model.second
        return made

    def forward(self, x):
        normal = F.layer_norm(x, self.width, None, None, self.eps)
        return self.second(F.gelu(F.linear(normal, self.first, self.bias)))
