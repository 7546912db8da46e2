"""The elementwise tail in one inline CUDA kernel, four floats a thread."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

__device__ float tail(float h, float s, float x) { return h / (1.f + __expf(-h)) * s + x; }

__global__ void kernel(const float4* h, const float4* s, const float4* x, float4* y, int count, int width) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float4 a = h[i], b = s[i % width], c = x[i];
  y[i] = make_float4(tail(a.x, b.x, c.x), tail(a.y, b.y, c.y), tail(a.z, b.z, c.z), tail(a.w, b.w, c.w));
}

torch::Tensor gated(torch::Tensor h, torch::Tensor s, torch::Tensor x) {
  auto y = torch::empty_like(x);
  int count = x.numel() / 4, width = s.numel() / 4;
  kernel<<<(count + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
      (const float4*)h.data_ptr<float>(), (const float4*)s.data_ptr<float>(), (const float4*)x.data_ptr<float>(),
      (float4*)y.data_ptr<float>(), count, width);
  return y;
}
"""

extension = load_inline(
    "gated",
    cpp_sources="torch::Tensor gated(torch::Tensor h, torch::Tensor s, torch::Tensor x);",
    cuda_sources=CUDA,
    functions=["gated"],
)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.scale = nn.Parameter(torch.randn(width))

    def forward(self, x):
        return extension.gated(self.linear(x), self.scale, x)
