"""Takes more CPUs than both sides were given, once everything is warm: in an old thread, in a new one and by torch.

rows: 64
mechanism: the same cores for both sides
devices: cpu
cpus: 2
bite: reached
expected: neutral
"""
import os
import sys
import threading

_given = torch.get_num_threads()
_go, _seen = threading.Event(), []


def _widen():
    os.sched_setaffinity(0, range(os.cpu_count()))
    _seen.append(len(os.sched_getaffinity(0)))


def _old():
    _go.wait()
    _widen()


_thread = threading.Thread(target=_old, daemon=True)
_thread.start()


class ModelNew(Original):
    calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls == 20:
            _go.set()
            _thread.join()
            new = threading.Thread(target=_widen)
            new.start()
            new.join()
            _widen()
            torch.set_num_threads(os.cpu_count())
            if max(_seen) > _given:
                sys.stderr.write("REACHED more CPUs than were given\n")
        return super().forward(x)
