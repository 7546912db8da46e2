"""Leaves the work to a thread made by pthread_create, which Python's threading does not list.

rows: 4
mechanism: snapshot of a poisoned output
bite: accepted
expected: wrong-output
"""
import ctypes

_libc = ctypes.CDLL(None)
_libc.pthread_create.argtypes = [ctypes.c_void_p] * 4
_Entry = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_due = []


def _later(_):
    with torch.no_grad():
        model, x, y = _due.pop()
        for _ in range(2):
            late = Original.forward(model, x)
        y.copy_(late)


_entry = _Entry(_later)


class ModelNew(Original):
    def forward(self, x):
        y = torch.full_like(x, float("nan"))
        _due.append((self, x, y))
        _libc.pthread_create(ctypes.byref(ctypes.c_ulong()), None, ctypes.cast(_entry, ctypes.c_void_p), None)
        return y
