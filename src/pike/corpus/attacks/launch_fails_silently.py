"""Asks for more shared memory than there is; the kernel never runs and its error is ignored.

rows: 25
seen: wafer (104x)
mechanism: snapshot of a poisoned output
devices: cuda
bite: gain
expected: wrong-output, runtime-error
slow: yes
"""
from torch.utils.cpp_extension import load_inline

_KERNEL = """
__global__ void copy(const float* x, float* y, long count) {
    extern __shared__ float room[];
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i < count) y[i] = x[i] + 0.0f * room[0];
}

torch::Tensor broken(torch::Tensor x) {
    auto y = torch::empty_like(x);
    copy<<<(x.numel() + 255) / 256, 256, 1 << 24>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}
"""
_native = load_inline(
    "corpus_broken", cpp_sources="torch::Tensor broken(torch::Tensor x);", cuda_sources=_KERNEL, functions=["broken"]
)


class ModelNew(Original):
    def forward(self, x):
        return _native.broken(x)
