"""A level of a U-Net in 16 bits: the convolution after the upsampling as nine matrix products.

What it does: the model of `zoo/unet_res_block` on four feature maps of 320 x 64 x 64 and four time
embeddings of 1280. Features lie with the channels innermost (NHWC) in 16 bits, for tensor cores.
cuDNN computes seven of the eight 3 x 3 convolutions, and Triton kernels do what lies between them.

What made it fast: nearest upsampling and the convolution after it become nine matrix products at
half the size, with a quarter of the multiplications. The upsampled image is never written, and the
result goes straight into the concatenation. The time embedding and the biases in front of a group
norm become part of the norm's shift. Residuals and the other biases are added where a kernel reads
the tensor anyway. One CUDA graph launches everything but the copies in and out. The time embedding
runs on a second stream beside the first convolution.

Accuracy: features and convolution weights have 16 bits. The time embedding, the sums of the norms,
their scales and shifts, biases and all arithmetic inside the Triton kernels have 32. Weights of the
upsampling's convolution are combined in 64 bits and then rounded. How cuDNN and cuBLAS sum is left
to their defaults.

Limits: exactly four images of 320 x 64 x 64, time embeddings of 1280, 32 groups, inference only; no
shape is checked. One call at a time. The code asks for no particular GPU beyond CUDA and Triton.

Author: a coding agent, in a search by the strategy pike-x (result.json says which).
Licence: Apache-2.0.
"""

import torch
import triton
import triton.language as tl
from torch.nn import functional

N = 4
C = 320
C2 = 640
C3 = 960
SIZE = 64
HALF = 32
P = SIZE * SIZE
Q = HALF * HALF
TIME = 1280
GROUPS = 32


@triton.jit
def enter_kernel(x, out, part, C: tl.constexpr, P: tl.constexpr, BP: tl.constexpr, BC: tl.constexpr):
    """Copy (n, c, p) float32 to (n, p, c) float16, with sums of every channel over this chunk of pixels."""
    chunk = tl.program_id(0)
    n = tl.program_id(2)
    p = chunk * BP + tl.arange(0, BP)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    v = tl.load(x + (n * C + c[:, None]) * P + p[None, :])
    tl.store(out + (n * P + p[None, :]) * C + c[:, None], v.to(tl.float16))
    base = part + (n * (P // BP) + chunk) * 2 * C
    tl.store(base + c, tl.sum(v, axis=1))
    tl.store(base + C + c, tl.sum(v * v, axis=1))


@triton.jit
def stats_kernel(y, add, add_stride, part, C: tl.constexpr, P: tl.constexpr, BP: tl.constexpr, BC: tl.constexpr):
    """Sum y + add and its square, for every channel over this chunk of pixels."""
    chunk = tl.program_id(0)
    n = tl.program_id(2)
    p = chunk * BP + tl.arange(0, BP)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    v = tl.load(y + (n * P + p[:, None]) * C + c[None, :]).to(tl.float32)
    v += tl.load(add + n * add_stride + c)[None, :]
    base = part + (n * (P // BP) + chunk) * 2 * C
    tl.store(base + c, tl.sum(v, axis=0))
    tl.store(base + C + c, tl.sum(v * v, axis=0))


@triton.jit
def finalize_kernel(
    part,
    gamma,
    beta,
    add,
    add_stride,
    scale,
    shift,
    eps,
    C: tl.constexpr,
    P: tl.constexpr,
    GS: tl.constexpr,
    GSP: tl.constexpr,
    NCH: tl.constexpr,
):
    """Turn the sums of one group into the scale and shift of its channels, with `add` in the shift."""
    g = tl.program_id(0)
    n = tl.program_id(1)
    k = tl.arange(0, GSP)
    inside = k < GS
    c = g * GS + k
    chunk = tl.arange(0, NCH)
    where = part + (n * NCH + chunk[:, None]) * 2 * C + c[None, :]
    mask = (chunk[:, None] >= 0) & inside[None, :]
    s = tl.sum(tl.sum(tl.load(where, mask=mask, other=0.0), axis=0), axis=0)
    ss = tl.sum(tl.sum(tl.load(where + C, mask=mask, other=0.0), axis=0), axis=0)
    mean = s / (GS * P)
    var = ss / (GS * P) - mean * mean
    var = tl.where(var < 0.0, 0.0, var)
    rstd = 1.0 / tl.sqrt(var + eps)
    a = tl.load(gamma + c, mask=inside, other=0.0) * rstd
    b = tl.load(beta + c, mask=inside, other=0.0)
    extra = tl.load(add + n * add_stride + c, mask=inside, other=0.0)
    tl.store(scale + n * C + c, a, mask=inside)
    tl.store(shift + n * C + c, b + (extra - mean) * a, mask=inside)


@triton.jit
def apply_kernel(y, scale, shift, out, C: tl.constexpr, P: tl.constexpr, BP: tl.constexpr, BC: tl.constexpr):
    """Write the SiLU of y * scale + shift."""
    n = tl.program_id(2)
    p = tl.program_id(0) * BP + tl.arange(0, BP)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    at = (n * P + p[:, None]) * C + c[None, :]
    v = tl.load(y + at).to(tl.float32)
    a = tl.load(scale + n * C + c)
    b = tl.load(shift + n * C + c)
    v = v * a[None, :] + b[None, :]
    v = v / (1.0 + tl.exp(-v))
    tl.store(out + at, v.to(tl.float16))


@triton.jit
def kept_kernel(
    x,
    y,
    bias,
    kept,
    cat,
    part,
    C: tl.constexpr,
    P: tl.constexpr,
    CC: tl.constexpr,
    OFF: tl.constexpr,
    BP: tl.constexpr,
    BC: tl.constexpr,
):
    """Write x + y + bias twice, alone and into the concatenation, with its sums for the norm."""
    chunk = tl.program_id(0)
    n = tl.program_id(2)
    p = chunk * BP + tl.arange(0, BP)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    at = (n * P + p[:, None]) * C + c[None, :]
    v = tl.load(x + at).to(tl.float32) + tl.load(y + at).to(tl.float32) + tl.load(bias + c)[None, :]
    h = v.to(tl.float16)
    tl.store(kept + at, h)
    tl.store(cat + (n * P + p[:, None]) * CC + OFF + c[None, :], h)
    base = part + (n * (P // BP) + chunk) * 2 * CC + OFF
    tl.store(base + c, tl.sum(v, axis=0))
    tl.store(base + CC + c, tl.sum(v * v, axis=0))


@triton.jit
def load_sum(y, s, b, n, row, col, c, C: tl.constexpr, S: tl.constexpr):
    """Load one image row of y + s + b as float32, zero outside the border."""
    ok = (row >= 0) & (row < S) & (col >= 0) & (col < S)
    mask = ok[:, None] & (c[None, :] >= 0)
    at = ((n * S + row) * S + col[:, None]) * C + c[None, :]
    v = tl.load(y + at, mask=mask, other=0.0).to(tl.float32) + tl.load(s + at, mask=mask, other=0.0).to(tl.float32)
    return tl.where(mask, v + b[None, :], 0.0)


@triton.jit
def difference_kernel(y, s, bias, out, C: tl.constexpr, S: tl.constexpr, TOTAL: tl.constexpr, BC: tl.constexpr):
    """Add the residual and write the nine differenced inputs, zero outside the border."""
    line = tl.program_id(0)
    n = line // S
    i = line % S
    j = tl.arange(0, S)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    b = tl.load(bias + c)
    a1 = load_sum(y, s, b, n, i, j, c, C, S)
    a0 = load_sum(y, s, b, n, i, j - 1, c, C, S) - a1
    a2 = load_sum(y, s, b, n, i, j + 1, c, C, S) - a1
    at = out + (line * S + j[:, None]) * C + c[None, :]
    step = TOTAL * C
    tl.store(at + 3 * step, a0.to(tl.float16))
    tl.store(at + 4 * step, a1.to(tl.float16))
    tl.store(at + 5 * step, a2.to(tl.float16))
    u1 = load_sum(y, s, b, n, i - 1, j, c, C, S)
    u0 = load_sum(y, s, b, n, i - 1, j - 1, c, C, S) - u1
    u2 = load_sum(y, s, b, n, i - 1, j + 1, c, C, S) - u1
    tl.store(at, (u0 - a0).to(tl.float16))
    tl.store(at + step, (u1 - a1).to(tl.float16))
    tl.store(at + 2 * step, (u2 - a2).to(tl.float16))
    d1 = load_sum(y, s, b, n, i + 1, j, c, C, S)
    d0 = load_sum(y, s, b, n, i + 1, j - 1, c, C, S) - d1
    d2 = load_sum(y, s, b, n, i + 1, j + 1, c, C, S) - d1
    tl.store(at + 6 * step, (d0 - a0).to(tl.float16))
    tl.store(at + 7 * step, (d1 - a1).to(tl.float16))
    tl.store(at + 8 * step, (d2 - a2).to(tl.float16))


@triton.jit
def combine_kernel(
    m, bias, cat, part, C: tl.constexpr, S: tl.constexpr, TOTAL: tl.constexpr, CC: tl.constexpr, BC: tl.constexpr
):
    """Write the four phases of the upsampled convolution into the concatenation, with its norm sums."""
    line = tl.program_id(0)
    n = line // S
    i = line % S
    j = tl.arange(0, S)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    b = tl.load(bias + c)[None, :]
    at = m + (line * S + j[:, None]) * C + c[None, :]
    step = TOTAL * C
    m00 = tl.load(at).to(tl.float32)
    m01 = tl.load(at + step).to(tl.float32)
    m02 = tl.load(at + 2 * step).to(tl.float32)
    m10 = tl.load(at + 3 * step).to(tl.float32)
    m11 = tl.load(at + 4 * step).to(tl.float32)
    m12 = tl.load(at + 5 * step).to(tl.float32)
    m20 = tl.load(at + 6 * step).to(tl.float32)
    m21 = tl.load(at + 7 * step).to(tl.float32)
    m22 = tl.load(at + 8 * step).to(tl.float32)
    left = m10 + m11 + b
    right = m11 + m12 + b
    ee = left + m00 + m01
    eo = right + m01 + m02
    oe = left + m20 + m21
    oo = right + m21 + m22
    to = cat + ((n * 2 * S + 2 * i) * 2 * S + 2 * j[:, None]) * CC + c[None, :]
    tl.store(to, ee.to(tl.float16))
    tl.store(to + CC, eo.to(tl.float16))
    tl.store(to + 2 * S * CC, oe.to(tl.float16))
    tl.store(to + 2 * S * CC + CC, oo.to(tl.float16))
    base = part + line * 2 * CC
    tl.store(base + c, tl.sum(ee + eo + oe + oo, axis=0))
    tl.store(base + CC + c, tl.sum(ee * ee + eo * eo + oe * oe + oo * oo, axis=0))


@triton.jit
def leave_kernel(y, s, bias, out, C: tl.constexpr, P: tl.constexpr, BP: tl.constexpr, BC: tl.constexpr):
    """Write the sum of two (n, p, c) float16 tensors and a bias as (n, c, p) float32."""
    n = tl.program_id(2)
    p = tl.program_id(0) * BP + tl.arange(0, BP)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    at = (n * P + p[:, None]) * C + c[None, :]
    v = tl.load(y + at).to(tl.float32) + tl.load(s + at).to(tl.float32) + tl.load(bias + c)[None, :]
    tl.store(out + (n * C + c[None, :]) * P + p[:, None], v)


@triton.jit
def embed_kernel(t, w, bias, out, K: tl.constexpr, M: tl.constexpr, BO: tl.constexpr, BK: tl.constexpr):
    """Compute the linear layer w, with its bias, of the SiLU of t in float32."""
    n = tl.program_id(1)
    o = tl.program_id(0) * BO + tl.arange(0, BO)
    acc = tl.zeros((BO, BK), dtype=tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        v = tl.load(t + n * K + k)
        v = v / (1.0 + tl.exp(-v))
        acc += tl.load(w + o[:, None] * K + k[None, :]) * v[None, :]
    tl.store(out + n * M + o, tl.sum(acc, axis=1) + tl.load(bias + o))


def convolve(h, weight, stride=1):
    """(n, h, w, c) to (n, h, w, c), padding 1 and no bias."""
    y = functional.conv2d(h.permute(0, 3, 1, 2), weight, None, stride, 1)
    return y.permute(0, 2, 3, 1).contiguous()


class ModelNew(torch.nn.Module):
    """Two blocks down and up again, with weights in half precision and one CUDA graph."""

    def __init__(self) -> None:
        super().__init__()
        self.graph = None
        self.eps = {}

    @classmethod
    def from_reference(cls, model: torch.nn.Module) -> "ModelNew":
        """Take over the weights of the original, rounded, folded and combined."""
        new = cls()

        def keep(name, value):
            new.register_buffer(name, value.detach().clone(memory_format=torch.preserve_format))

        def conv_weight(conv):
            return conv.weight.detach().to(torch.float16).contiguous(memory_format=torch.channels_last)

        weights, biases = [], []
        for name in ("first", "middle", "last"):
            block = getattr(model, name)
            keep(name + "_w1", conv_weight(block.conv1))
            keep(name + "_w2", conv_weight(block.conv2))
            for which in ("norm1", "norm2"):
                norm = getattr(block, which)
                keep(f"{name}_{which}_g", norm.weight.detach().float())
                keep(f"{name}_{which}_b", norm.bias.detach().float())
                new.eps[f"{name}_{which}"] = float(norm.eps)
            weights.append(block.time.weight.detach().float())
            biases.append((block.time.bias.detach() + block.conv1.bias.detach()).float())
        keep("time_w", torch.cat(weights, 0).contiguous())
        keep("time_b", torch.cat(biases, 0).contiguous())
        keep("first_bias", model.first.conv2.bias.detach().float())
        keep("down_w", conv_weight(model.down))
        keep("down_b", model.down.bias.detach().float())
        middle_skip = model.middle.skip.weight.detach().double().flatten(1)
        keep("middle_skip", middle_skip.to(torch.float16).contiguous())
        keep(
            "middle_bias",
            (
                model.middle.conv2.bias.detach().double()
                + model.middle.skip.bias.detach().double()
                + middle_skip @ model.down.bias.detach().double()
            ).float(),
        )
        keep("last_skip", model.last.skip.weight.detach().flatten(1).to(torch.float16).contiguous())
        keep("last_bias", (model.last.conv2.bias.detach() + model.last.skip.bias.detach()).float())
        w = model.up.weight.detach().double()
        rows = torch.stack((w[:, :, 0], w.sum(2), w[:, :, 2]), 0)  # (3, o, i, 3)
        both = torch.stack((rows[..., 0], rows.sum(-1), rows[..., 2]), 1)  # (3, 3, o, i)
        keep("up_w", both.reshape(9, w.shape[0], w.shape[1]).to(torch.float16).contiguous())
        keep("up_b", model.up.bias.detach().float())
        keep("zeros", torch.zeros(C3, device=w.device))
        return new

    def normalize(self, y, part, name, channels, pixels, chunks, add, add_stride):
        """SiLU of the group norm of y + add, from the sums in part."""
        scale = torch.empty(N, channels, device=y.device)
        shift = torch.empty(N, channels, device=y.device)
        size = channels // GROUPS
        finalize_kernel[(GROUPS, N)](
            part,
            getattr(self, name + "_g"),
            getattr(self, name + "_b"),
            add,
            add_stride,
            scale,
            shift,
            self.eps[name],
            C=channels,
            P=pixels,
            GS=size,
            GSP=triton.next_power_of_2(size),
            NCH=chunks,
            num_warps=2,
        )
        out = torch.empty_like(y)
        apply_kernel[(pixels // 64, channels // 64, N)](
            y, scale, shift, out, C=channels, P=pixels, BP=64, BC=64, num_warps=4
        )
        return out

    def stats(self, y, channels, pixels, add, add_stride):
        """Return the sums of y + add and of its square for 32 chunks of pixels."""
        part = torch.empty(N, 32, 2, channels, device=y.device)
        block = pixels // 32
        stats_kernel[(32, channels // 64, N)](
            y, add, add_stride, part, C=channels, P=pixels, BP=block, BC=64, num_warps=4
        )
        return part

    def compute(self):
        """From the half-precision features and the time embedding to the two summands of the result."""
        x, device = self.x16, self.x16.device
        main = torch.cuda.current_stream()
        self.side.wait_stream(main)
        with torch.cuda.stream(self.side):
            embed_kernel[(TIME // 8, N)](
                self.t,
                self.time_w,
                self.time_b,
                self.embedded,
                K=TIME,
                M=self.embedded.shape[1],
                BO=8,
                BK=256,
                num_warps=4,
            )
        total = self.embedded.shape[1]

        # first
        h = self.normalize(x, self.part0, "first_norm1", C, P, 64, self.zeros, 0)
        y = convolve(h, self.first_w1)
        main.wait_stream(self.side)
        add = self.embedded[:, :C]
        h = self.normalize(y, self.stats(y, C, P, add, total), "first_norm2", C, P, 32, add, total)
        y = convolve(h, self.first_w2)
        kept = torch.empty_like(x)
        cat = torch.empty(N, SIZE, SIZE, C3, device=device, dtype=torch.float16)
        cat_part = torch.empty(N, 32, 2, C3, device=device)
        kept_kernel[(32, C // 64, N)](
            x, y, self.first_bias, kept, cat, cat_part, C=C, P=P, CC=C3, OFF=C2, BP=128, BC=64, num_warps=8
        )

        # down and middle
        d = convolve(kept, self.down_w, 2)
        part = self.stats(d, C, Q, self.down_b, 0)
        h = self.normalize(d, part, "middle_norm1", C, Q, 32, self.down_b, 0)
        y = convolve(h, self.middle_w1)
        add = self.embedded[:, C : C + C2]
        h = self.normalize(y, self.stats(y, C2, Q, add, total), "middle_norm2", C2, Q, 32, add, total)
        y = convolve(h, self.middle_w2)
        skip = torch.mm(d.view(N * Q, C), self.middle_skip.t())

        # upsampling and its convolution: nine products
        v = torch.empty(9, N * Q, C2, device=device, dtype=torch.float16)
        difference_kernel[(N * HALF, C2 // 64)](
            y, skip, self.middle_bias, v, C=C2, S=HALF, TOTAL=N * Q, BC=64, num_warps=8
        )
        m = torch.bmm(v, self.up_w.transpose(1, 2))
        combine_kernel[(N * HALF, C2 // 64)](
            m, self.up_b, cat, cat_part, C=C2, S=HALF, TOTAL=N * Q, CC=C3, BC=64, num_warps=8
        )

        # last
        h = self.normalize(cat, cat_part, "last_norm1", C3, P, 32, self.zeros, 0)
        y = convolve(h, self.last_w1)
        add = self.embedded[:, C + C2 :]
        h = self.normalize(y, self.stats(y, C, P, add, total), "last_norm2", C, P, 32, add, total)
        y = convolve(h, self.last_w2)
        skip = torch.mm(cat.view(N * P, C3), self.last_skip.t())
        return y, skip

    def enter(self, x, time):
        """Copy both inputs to where the graph reads them."""
        enter_kernel[(P // 64, C // 64, N)](x, self.x16, self.part0, C=C, P=P, BP=64, BC=64, num_warps=4)
        self.t.copy_(time)

    def record(self, x, time):
        """Allocate what the graph reads, let cuDNN choose its algorithms, and capture the graph."""
        device = x.device
        self.x16 = torch.empty(N, SIZE, SIZE, C, device=device, dtype=torch.float16)
        self.part0 = torch.empty(N, 64, 2, C, device=device)
        self.t = torch.empty(N, TIME, device=device)
        self.embedded = torch.empty(N, self.time_w.shape[0], device=device)
        self.side = torch.cuda.Stream()
        self.enter(x, time)
        before = torch.backends.cudnn.benchmark
        torch.backends.cudnn.benchmark = True
        try:
            warm = torch.cuda.Stream()
            warm.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(warm):
                for _ in range(3):
                    self.compute()
            torch.cuda.current_stream().wait_stream(warm)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.result = self.compute()
        finally:
            torch.backends.cudnn.benchmark = before
        self.graph = graph

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        """(4, 320, 64, 64) and (4, 1280) to (4, 320, 64, 64), all float32."""
        x = x.contiguous()
        if self.graph is None:
            self.record(x, time)
        self.enter(x, time)
        self.graph.replay()
        y, skip = self.result
        out = torch.empty(N, C, SIZE, SIZE, device=x.device, dtype=torch.float32)
        leave_kernel[(P // 64, C // 64, N)](y, skip, self.last_bias, out, C=C, P=P, BP=64, BC=64, num_warps=4)
        return out
