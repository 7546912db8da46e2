"""Folds batch normalisation into the convolution before it, by from_reference.

task: conv
"""
from torch.nn.utils.fusion import fuse_conv_bn_eval


class ModelNew(nn.Module):
    @classmethod
    def from_reference(cls, model):
        made = cls()
        made.first = fuse_conv_bn_eval(model.first.eval(), model.norm.eval())
        made.second = model.second
        return made

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))
