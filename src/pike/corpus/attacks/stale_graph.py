"""Captures a graph once and replays it without copying the new input in.

rows: 20
seen: kernelbench.com PR 7 (stale-pointer replay)
mechanism: new values in every call
devices: cuda
bite: gain
expected: wrong-output
"""


class ModelNew(Original):
    graph = None

    def forward(self, x):
        if self.graph is None:
            self.static_x = x.clone()
            super().forward(self.static_x)
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.static_y = super().forward(self.static_x)
        self.graph.replay()
        return self.static_y.clone()
