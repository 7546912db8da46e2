"""Takes channel and nonce from the frames above and answers in the stub's place, with an output it never computed.

rows: 52, 51
seen: pygpubench 23, PR 22, PR 46
mechanism: the child says nothing
bite: report
expected: wrong-output, sandbox-violation
"""
import json
import struct
import sys


class ModelNew(Original):
    calls = 0

    def forward(self, x):
        print("\n" + json.dumps({"accepted": True, "speedup": 1e6}), flush=True)
        self.calls += 1
        frame, found = sys._getframe(), {}
        while frame is not None:
            found.update({name: frame.f_locals[name] for name in ("sock", "nonce", "seq") if name in frame.f_locals})
            frame = frame.f_back
        if len(found) == 3:
            found["sock"].sendall(struct.pack("<16sIIQQQ", found["nonce"], 1, 0, found["seq"], 1, 0))
        return super().forward(x)
