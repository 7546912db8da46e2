"""Builds its C++ extension in the first call, not when its file is read.

devices: cpu
slow: yes
"""
import functools

from torch.utils.cpp_extension import load_inline

_CODE = """
#include <ATen/core/Tensor.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/gelu.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

at::Tensor linear_gelu(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) {
    return at::gelu(at::addmm(b, x, w.t()));
}
"""


@functools.cache
def native():
    return load_inline("corpus_at_first_call", cpp_sources=_CODE, functions=["linear_gelu"], no_implicit_headers=True)


class ModelNew(Original):
    def forward(self, x):
        return self.second(native().linear_gelu(self.norm(x), self.first.weight, self.first.bias))
