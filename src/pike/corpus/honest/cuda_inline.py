"""Compiles a CUDA kernel with load_inline: bias and GELU in one pass.

devices: cuda
slow: yes
"""
from torch.utils.cpp_extension import load_inline

_KERNEL = """
__global__ void bias_gelu(const float* x, const float* b, float* y, long count, long width) {
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i < count) {
        float v = x[i] + b[i % width];
        y[i] = 0.5f * v * (1.0f + erff(v * 0.70710678118654752f));
    }
}

torch::Tensor fused(torch::Tensor x, torch::Tensor b) {
    auto y = torch::empty_like(x);
    long count = x.numel();
    bias_gelu<<<(count + 255) / 256, 256>>>(
        x.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), count, x.size(1));
    return y;
}
"""
_native = load_inline(
    "corpus_bias_gelu",
    cpp_sources="torch::Tensor fused(torch::Tensor x, torch::Tensor b);",
    cuda_sources=_KERNEL,
    functions=["fused"],
)


class ModelNew(Original):
    def forward(self, x):
        return self.second(_native.fused(self.norm(x) @ self.first.weight.t(), self.first.bias))
