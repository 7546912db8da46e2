"""Builds a C++ extension with torch.utils.cpp_extension.load_inline.

devices: cpu
slow: yes
"""
from torch.utils.cpp_extension import load_inline

# The headers that are named take a third of the time of all that load_inline would include.
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
_native = load_inline("corpus_linear_gelu", cpp_sources=_CODE, functions=["linear_gelu"], no_implicit_headers=True)


class ModelNew(Original):
    def forward(self, x):
        return self.second(_native.linear_gelu(self.norm(x), self.first.weight, self.first.bias))
