"""Builds a C++ extension with torch.utils.cpp_extension.load_inline.

devices: cpu
slow: yes
"""
from torch.utils.cpp_extension import load_inline

_CODE = """
torch::Tensor linear_gelu(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    return torch::gelu(torch::addmm(b, x, w.t()));
}
"""
_native = load_inline("corpus_linear_gelu", cpp_sources=_CODE, functions=["linear_gelu"])


class ModelNew(Original):
    def forward(self, x):
        return self.second(_native.linear_gelu(self.norm(x), self.first.weight, self.first.bias))
