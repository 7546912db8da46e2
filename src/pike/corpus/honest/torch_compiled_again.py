"""Compiles itself with torch.compile once more whenever a number that follows from the input is new.

slow: yes
"""


class ModelNew(Original):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.quick = torch.compile(self.parts, dynamic=False, options={"cpp.vec_isa_ok": True})

    def parts(self, x, cut):
        rows = [self.second(F.gelu(self.first(self.norm(part)))) for part in (x[:cut], x[cut:])]
        return torch.cat(rows)

    def forward(self, x):
        return self.quick(x, 16 + int(float(x[0, 0]) > 0))
