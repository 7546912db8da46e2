"""Answers at once and goes on computing, always a little ahead of the judge that copies the output.

rows: 12, 51
mechanism: the child stands still
task: relu
devices: cpu
bite: accepted
expected: wrong-output, bad-contract
"""
import sys
import threading

CHUNKS = 64


class ModelNew(Original):
    patched = False

    def forward(self, x):
        delivery = sys.modules.get("pike.judge.child.delivery")
        if delivery is None:
            return torch.relu(x)
        if not self.patched:
            ModelNew.patched, delivery.HostDelivery.deliver = True, late(self)
        self.x = x
        return torch.empty_like(x)


def late(model):
    def deliver(self, leaves, slot, last):
        to, begun = self._slots[slot][0], threading.Event()
        if getattr(self, "_told", None) is not None:
            self._told[0] = to.data_ptr()
        threading.Thread(target=write, args=(model.x, to, begun)).start()
        begun.wait()

    return deliver


def write(x, to, begun):
    with torch.no_grad():
        for part, room in zip(x.chunk(CHUNKS), to.chunk(CHUNKS)):
            torch.clamp_min(part, 0.0, out=room)
            begun.set()

