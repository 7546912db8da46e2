"""Compiles itself with torch.compile on the first call.

slow: yes
"""


class ModelNew(Original):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        # Without trying programs that find out which vector instructions work here, which takes most of the time.
        self.quick = torch.compile(super().forward, options={"cpp.vec_isa_ok": True})

    def forward(self, x):
        return self.quick(x)
