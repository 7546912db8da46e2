"""Maps a function of one row over the batch with torch.func.vmap.
"""


class ModelNew(Original):
    def row(self, x):
        return self.second(activation(self.first(self.norm(x))))

    def forward(self, x):
        return torch.func.vmap(self.row)(x)
