"""Makes its stream with cudaStreamCreateWithFlags, of which torch knows nothing.

rows: 2
seen: KernelBench PR 82
mechanism: snapshot of a poisoned output
devices: cuda
bite: gain
expected: neutral, wrong-output
"""
import ctypes


class ModelNew(Original):
    stream = None

    def forward(self, x):
        if self.stream is None:
            handle = ctypes.c_void_p()
            libraries = {line.split()[-1] for line in open("/proc/self/maps") if "libcudart" in line}
            ctypes.CDLL(libraries.pop()).cudaStreamCreateWithFlags(ctypes.byref(handle), 1)
            self.stream = torch.cuda.ExternalStream(handle.value)
        with torch.cuda.stream(self.stream):
            return super().forward(x)
