"""Adds bias and GELU in a Triton kernel that chooses its block size by measuring.

devices: cuda
"""
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK": size}) for size in (256, 512, 1024)], key=["count"])
@triton.jit
def bias_gelu(x, b, y, count, width, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    v = tl.load(x + at, mask=inside) + tl.load(b + at % width, mask=inside)
    tl.store(y + at, 0.5 * v * (1.0 + tl.erf(v * 0.7071067811865476)), mask=inside)


class ModelNew(Original):
    def forward(self, x):
        h = self.norm(x) @ self.first.weight.t()
        y, count = torch.empty_like(h), h.numel()
        bias_gelu[lambda meta: (triton.cdiv(count, meta["BLOCK"]),)](h, self.first.bias, y, count, h.shape[1])
        return self.second(y)
