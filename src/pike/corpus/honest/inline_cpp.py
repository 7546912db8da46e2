"""Compiles a C++ function with g++ while it is imported and calls it on raw pointers.

devices: cpu
"""
import ctypes
import subprocess
import tempfile

_CODE = r"""
extern "C" void add_rows(float* y, const float* bias, long rows, long width) {
    for (long i = 0; i < rows; i++)
        for (long j = 0; j < width; j++) y[i * width + j] += bias[j];
}
"""
_folder = tempfile.mkdtemp()
open(_folder + "/add.cpp", "w").write(_CODE)
subprocess.run(["g++", "-O2", "-shared", "-fPIC", _folder + "/add.cpp", "-o", _folder + "/add.so"], check=True)
_add = ctypes.CDLL(_folder + "/add.so").add_rows


class ModelNew(Original):
    def forward(self, x):
        h = activation(self.first(self.norm(x)))
        y = h @ self.second.weight.t()
        rows, width = y.shape
        pointers = ctypes.c_void_p(y.data_ptr()), ctypes.c_void_p(self.second.bias.data_ptr())
        _add(*pointers, ctypes.c_long(rows), ctypes.c_long(width))
        return y
