"""Calls a Triton kernel with numbers that follow from the input, so that it is compiled again when one is new.

Triton compiles apart for 1, for multiples of 16 and for others.

devices: cuda
"""
import triton
import triton.language as tl


@triton.jit
def bias_gelu(x, b, y, first, count, width, BLOCK: tl.constexpr):
    at = first * width + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    v = tl.load(x + at, mask=inside) + tl.load(b + at % width, mask=inside)
    tl.store(y + at, 0.5 * v * (1.0 + tl.erf(v * 0.7071067811865476)), mask=inside)


class ModelNew(Original):
    def forward(self, x):
        h = self.norm(x) @ self.first.weight.t()
        y, (rows, width) = torch.empty_like(h), h.shape
        cut = (1, 16, 17)[int(x[0, 0] * 8) % 3]
        for first, last in ((0, cut), (cut, rows)):
            grid = (triton.cdiv((last - first) * width, 1024),)
            bias_gelu[grid](h, self.first.bias, y, first, last * width, width, BLOCK=1024)
        return self.second(y)
