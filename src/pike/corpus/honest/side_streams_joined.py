"""Runs halves of the batch on two streams and joins them.

devices: cuda
"""


class ModelNew(Original):
    streams = None

    def forward(self, x):
        if self.streams is None:
            self.streams = [torch.cuda.Stream(), torch.cuda.Stream()]
        main, parts = torch.cuda.current_stream(), []
        for stream, rows in zip(self.streams, x.chunk(2)):
            stream.wait_stream(main)
            with torch.cuda.stream(stream):
                parts.append(super().forward(rows))
        for stream in self.streams:
            main.wait_stream(stream)
        return torch.cat(parts)
