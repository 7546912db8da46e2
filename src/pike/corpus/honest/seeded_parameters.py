"""Names its parameters differently, so that the same random seed has to give it the weights.

task: ragged
"""


class ModelNew(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))
