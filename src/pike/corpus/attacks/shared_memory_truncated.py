"""Truncates the memory that it shares with the judge, whose next access to it would be fatal.

rows: 57, 58
mechanism: shared memory is sealed
devices: cpu
bite: dies
expected: refused
"""
import mmap
import os
import sys


class ModelNew(Original):
    calls = 0

    def forward(self, x):
        self.calls += 1
        y = super().forward(x)
        if self.calls < 2:
            return y
        delivery = sys.modules.get("pike.judge.child.delivery")
        if delivery is not None:
            delivery.HostDelivery.deliver = lambda *args, **named: None
        for fd in self.shared() or [self.own()]:
            try:
                os.ftruncate(fd, 0)
            except OSError:
                pass
        return y if delivery is not None else y + self.room[0] * 0

    def shared(self):
        found = [fd for fd in range(3, 64) if os.path.lexists(f"/proc/self/fd/{fd}")]
        return [fd for fd in found if "memfd:" in os.readlink(f"/proc/self/fd/{fd}")]

    def own(self):
        fd = os.memfd_create("own")
        os.ftruncate(fd, 4096)
        self.room = mmap.mmap(fd, 4096)
        return fd
