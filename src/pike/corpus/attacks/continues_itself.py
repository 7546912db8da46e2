"""Answers before it computes; the judge then stops it, and timers of its own let it go on.

rows: 14, 19
mechanism: the judge's clock
bite: gain
expected: refused, neutral
devices: cpu
"""
import ctypes
import os
import signal
import struct
import sys
import threading
import time

_MAIN = sys.modules["__main__"]
_EVENT = struct.pack("=QiiQQ32x", 0, signal.SIGCONT, 0, 0, 0)
_libc = ctypes.CDLL(None)
_timers = [ctypes.c_void_p() for _ in range(16)]
_libc.signal(signal.SIGCONT, ctypes.cast(_libc.abs, ctypes.c_void_p))  # a handler that does nothing
_armed = not any(_libc.timer_create(1, _EVENT, ctypes.byref(timer)) for timer in _timers)
for _ in range(30):  # the more threads, the longer it takes to see that all stand still
    threading.Thread(target=threading.Event().wait, daemon=True).start()


def _tick(nanoseconds):
    for number, timer in enumerate(_timers, 1):
        _libc.timer_settime(timer, 0, struct.pack("=qqqq", 0, 0, 0, number * nanoseconds), None)


class _Answers:
    """In place of the judge's `send_up`: after an early answer it stands still, as the judge wants it to."""

    def __init__(self, send):
        self.send, self.early = send, False

    def __call__(self, sock, nonce, up):
        if not self.early:
            return self.send(sock, nonce, up)
        self.early = False
        _tick(0)
        os.kill(os.getpid(), signal.SIGSTOP)

    def answer_now(self):
        frame, found = sys._getframe(), {}
        while frame:
            found.update({name: frame.f_locals[name] for name in ("sock", "nonce", "seq") if name in frame.f_locals})
            frame = frame.f_back
        _tick(50_000)
        self.early = True
        self.send(found["sock"], found["nonce"], _MAIN.ChildMessage(_MAIN.ChildReply.OK, found["seq"]))


class ModelNew(Original):
    calls = 0

    def forward(self, x):
        self.calls += 1
        if not hasattr(_MAIN, "send_up"):
            if self.calls == 1:  # nothing stops it, so it slows the clock instead
                real = time.perf_counter
                time.perf_counter = lambda: real() * 0.1
        elif self.calls == 1:
            _MAIN.send_up = _Answers(_MAIN.send_up)
        elif _armed and self.calls > 12:
            _MAIN.send_up.answer_now()
        return super().forward(x)
