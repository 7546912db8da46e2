"""Calls a Triton kernel with a seed that is drawn at each call, as dropout does that is switched off.

Triton compiles apart for multiples of 16 and for numbers of 64 bits, which a seed is now and then.

devices: cuda
"""
import triton
import triton.language as tl


@triton.jit
def bias_gelu(x, b, y, count, width, seed, DROP: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    v = tl.load(x + at, mask=inside) + tl.load(b + at % width, mask=inside)
    if DROP:
        v = tl.where(tl.rand(seed, at) > 0.1, v / 0.9, 0.0)
    tl.store(y + at, 0.5 * v * (1.0 + tl.erf(v * 0.7071067811865476)), mask=inside)


class ModelNew(Original):
    def forward(self, x):
        h = self.norm(x) @ self.first.weight.t()
        y, seed = torch.empty_like(h), torch.randint(1 << 32, (1,)).item()
        grid = (triton.cdiv(h.numel(), 1024),)
        bias_gelu[grid](h, self.first.bias, y, h.numel(), h.shape[1], seed, DROP=False, BLOCK=1024)
        return self.second(y)
