"""Compiles a CUDA kernel with NVRTC and launches it by the driver's own call, without PyTorch's wrapper.

devices: cuda
"""
import ctypes
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
    return torch.cuda._compile_kernel(_KERNEL, "bias_gelu"), ctypes.CDLL("libcuda.so.1")


def launch(blocks, threads, *values):
    compiled, driver = kernel()
    held = [ctypes.c_int(v) if isinstance(v, int) else ctypes.c_void_p(v.data_ptr()) for v in values]
    places = (ctypes.c_void_p * len(held))(*map(ctypes.addressof, held))
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    failed = driver.cuLaunchKernel(compiled.func, blocks, 1, 1, threads, 1, 1, 0, stream, places, None)
    if failed:
        raise RuntimeError(f"launch failed: {failed}")


class ModelNew(Original):
    def forward(self, x):
        h = self.norm(x) @ self.first.weight.t()
        y, count = torch.empty_like(h), h.numel()
        launch((count + 255) // 256, 256, h, self.first.bias, y, count, h.shape[1])
        return self.second(y)
