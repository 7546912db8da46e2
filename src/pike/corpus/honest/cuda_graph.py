"""Captures itself in a CUDA graph, copies each input in and the output out.

devices: cuda
"""


class ModelNew(Original):
    graph = None

    def forward(self, x):
        if self.graph is None:
            self.static_x = x.clone()
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(3):
                    super().forward(self.static_x)
            torch.cuda.current_stream().wait_stream(side)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.static_y = super().forward(self.static_x)
        self.static_x.copy_(x)
        self.graph.replay()
        return self.static_y.clone()
