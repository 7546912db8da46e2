"""Compiles a CUDA kernel with NVRTC, inside the process, in the first call: bias and GELU in one pass.

devices: cuda
"""
import functools

_KERNEL = """
extern "C" __global__ void bias_gelu(const float* x, const float* b, float* y, int count, int width) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        float v = x[i] + b[i % width];
        y[i] = 0.5f * v * (1.0f + erff(v * 0.70710678118654752f));
    }
}
"""


@functools.cache
def kernel():
    return torch.cuda._compile_kernel(_KERNEL, "bias_gelu")


class ModelNew(Original):
    def forward(self, x):
        h = self.norm(x) @ self.first.weight.t()
        y, count = torch.empty_like(h), h.numel()
        kernel()(((count + 255) // 256, 1, 1), (256, 1, 1), (h, self.first.bias, y, count, h.shape[1]))
        return self.second(y)
