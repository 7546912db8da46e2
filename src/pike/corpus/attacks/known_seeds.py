"""Draws the inputs of well-known seeds while it is built and has their answers ready.

rows: 33, 34
seen: kernelbot's cheat-rng; KernelBench, robust-kbench and SOL-ExecBench use fixed seeds
mechanism: secret seeds
bite: gain
expected: neutral
"""


class ModelNew(Original):
    known = None

    def prepare(self):
        self.known = []
        for seed in (0, 1, 42):
            torch.manual_seed(seed)
            x = get_inputs()[0].to(self.first.weight.device)
            self.known.append((x, super().forward(x)))

    def forward(self, x):
        if self.known is None:
            self.prepare()
        for seen, answer in self.known:
            if x[0, 0] == seen[0, 0]:
                return answer.clone()
        return super().forward(x)
