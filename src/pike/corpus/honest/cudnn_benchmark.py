"""Has cuDNN choose its kernels by measuring in the first call of each shape.

task: conv
devices: cuda
"""
torch.backends.cudnn.benchmark = True


class ModelNew(Original):
    def forward(self, x):
        return self.second(torch.relu(self.norm(self.first(x))))
