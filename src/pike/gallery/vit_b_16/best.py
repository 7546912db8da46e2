"""ViT-B/16 whose last block works for the class token alone, in 16 bits and one CUDA graph.

What it does: the network of `zoo/vit_b_16` on images of 224 x 224. Blocks 1 to 11 run for all 197 tokens.
After its first layer norm, block 12 runs for the class token alone, because the head reads no other.

What made it fast: the last block has one query an image. So the keys' weights are applied to the query, and
the values' weights to a weighted mean of the tokens; the block computes no keys or values. Products have
16-bit factors. Before it records its CUDA graph, the model measures cuBLAS against Triton kernels for each
kind of product. Biases of the residual stream are summed beforehand and added inside the layer norms.

Accuracy: weights, images, activations and the residual stream of blocks 1 to 11 have 16 bits. The sums of
the Triton kernels, layer norms, softmax, the residual stream of block 12 and the logits have 32 bits. The
folded query of block 12 is split into a high and a low part of 16 bits each.

Limits: ViT-B/16 with images of 3 x 224 x 224, inference only. Written for compute capability 9.0 (Hopper).

Author: a coding agent, in a search by the strategy pike-x (result.json says which).
Licence: Apache-2.0.
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

LAYERS = 12
HEADS = 12
WIDTH = 768
HIDDEN = 3072
HEAD_DIM = 64
PATCH = 16
LOG2E = 1.4426950408889634
# rows, columns, depth, stages, warps
CONFIGS = ((128, 256, 64, 3, 8), (128, 128, 64, 3, 4), (128, 128, 64, 4, 8), (64, 256, 64, 4, 4))
ATTENTION_CONFIGS = ((64, 4), (128, 8))


@triton.jit
def gemm_kernel(
    a_desc,
    b_desc,
    r_desc,
    c_desc,
    bias,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
    BIAS: tl.constexpr,
    RES: tl.constexpr,
    GELU: tl.constexpr,
):
    """Compute one tile of a @ b.T, then bias, GELU and residual in registers; tiles move by descriptor."""
    pid = tl.program_id(0)
    rows = tl.cdiv(M, BM)
    columns = tl.cdiv(N, BN)
    per = GROUP * columns
    first = (pid // per) * GROUP
    size = min(rows - first, GROUP)
    m0 = (first + (pid % per) % size) * BM
    n0 = ((pid % per) // size) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = a_desc.load([m0, k])
        b = b_desc.load([n0, k])
        acc = tl.dot(a, b.T, acc)
    if BIAS:
        shift = tl.load(bias + n0 + tl.arange(0, BN)).to(tl.float32)
        acc = acc + shift[None, :]
    if GELU:
        acc = 0.5 * acc * (1.0 + tl.erf(acc * 0.7071067811865476))
    if RES:
        acc = acc + r_desc.load([m0, n0]).to(tl.float32)
    c_desc.store([m0, n0], acc.to(tl.float16))


@triton.jit
def norm_kernel(x, x_stride, shift, weight, bias, out, eps, D: tl.constexpr, BLOCK: tl.constexpr):
    """Add the summed biases `shift` to one row and write its layer norm in 16 bits."""
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    inside = i < D
    value = tl.load(x + row * x_stride + i, mask=inside, other=0.0).to(tl.float32)
    value = value + tl.load(shift + i, mask=inside, other=0.0)
    mean = tl.sum(value, axis=0) / D
    centred = tl.where(inside, value - mean, 0.0)
    var = tl.sum(centred * centred, axis=0) / D
    factor = 1.0 / tl.sqrt(var + eps)
    w = tl.load(weight + i, mask=inside, other=0.0)
    b = tl.load(bias + i, mask=inside, other=0.0)
    tl.store(out + row * D + i, (centred * factor * w + b).to(tl.float16), mask=inside)


@triton.jit
def attention_kernel(qkv, out, T, scale, H: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """Attend from BM queries of one head to all keys at once; BN must be at least T."""
    start = tl.program_id(0) * BM
    bh = tl.program_id(1)
    b = bh // H
    h = bh % H
    base = qkv + b * T * (3 * H * D) + h * D
    rows = start + tl.arange(0, BM)
    cols = tl.arange(0, BN)
    d = tl.arange(0, D)
    q = tl.load(base + rows[:, None] * (3 * H * D) + d[None, :], mask=rows[:, None] < T, other=0.0)
    k = tl.load(base + H * D + cols[:, None] * (3 * H * D) + d[None, :], mask=cols[:, None] < T, other=0.0)
    v = tl.load(base + 2 * H * D + cols[:, None] * (3 * H * D) + d[None, :], mask=cols[:, None] < T, other=0.0)
    s = tl.dot(q, tl.trans(k)) * scale
    s = tl.where(cols[None, :] < T, s, float("-inf"))
    top = tl.max(s, axis=1)
    p = tl.exp2(s - top[:, None])
    total = tl.sum(p, axis=1)
    o = tl.dot(p.to(tl.float16), v) / total[:, None]
    to = out + (b * T + rows[:, None]) * (H * D) + h * D + d[None, :]
    tl.store(to, o.to(tl.float16), mask=rows[:, None] < T)


@triton.jit
def skinny_kernel(
    a,
    a_stride,
    a_head,
    w,
    bias,
    res,
    res_stride,
    out,
    out_stride,
    ROWS,
    N,
    K,
    HEAD: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    RES: tl.constexpr,
    GELU: tl.constexpr,
):
    """Compute out = act(a @ w.T + bias) + res for 16 rows; HEAD output columns share one source in `a`."""
    n0 = tl.program_id(0) * BN
    n = n0 + tl.arange(0, BN)
    r = tl.program_id(1) * 16 + tl.arange(0, 16)
    kk = tl.arange(0, BK)
    source = a + (n0 // HEAD) * a_head
    acc = tl.zeros((16, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        av = tl.load(source + r[:, None] * a_stride + (k + kk)[None, :], mask=r[:, None] < ROWS, other=0.0)
        wv = tl.load(w + n[:, None] * K + (k + kk)[None, :], mask=n[:, None] < N, other=0.0)
        acc = tl.dot(av, tl.trans(wv), acc)
    acc = acc + tl.load(bias + n, mask=n < N, other=0.0)[None, :]
    if GELU:
        acc = 0.5 * acc * (1.0 + tl.erf(acc * 0.7071067811865476))
    inside = (r[:, None] < ROWS) & (n[None, :] < N)
    if RES:
        acc = acc + tl.load(res + r[:, None] * res_stride + n[None, :], mask=inside, other=0.0).to(tl.float32)
    tl.store(out + r[:, None] * out_stride + n[None, :], acc.to(out.dtype.element_ty), mask=inside)


@triton.jit
def query_key_kernel(q, wk, u, ROWS, W: tl.constexpr, D: tl.constexpr, BN: tl.constexpr):
    """Compute u[b, h, :] = q[b, h] @ Wk[h], with 16 slots for the heads."""
    h = tl.program_id(0)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    r = tl.program_id(2) * 16 + tl.arange(0, 16)
    d = tl.arange(0, D)
    qv = tl.load(q + r[:, None] * W + h * D + d[None, :], mask=r[:, None] < ROWS, other=0.0)
    wv = tl.load(wk + (h * D + d)[:, None] * W + n[None, :])
    acc = tl.dot(qv, wv)
    tl.store(u + r[:, None] * (16 * W) + h * W + n[None, :], acc, mask=r[:, None] < ROWS)


@triton.jit
def score_kernel(u, x, scores, T, scale, W: tl.constexpr, BK: tl.constexpr):
    """Compute the scores of 16 tokens for all heads, from the folded queries in two parts of 16 bits."""
    t = tl.program_id(0) * 16 + tl.arange(0, 16)
    b = tl.program_id(1)
    h = tl.arange(0, 16)
    kk = tl.arange(0, BK)
    acc = tl.zeros((16, 16), dtype=tl.float32)
    for k in range(0, W, BK):
        uv = tl.load(u + b * (16 * W) + h[:, None] * W + (k + kk)[None, :])
        high = uv.to(tl.float16)
        low = (uv - high.to(tl.float32)).to(tl.float16)
        xv = tl.load(x + (b * T + t[:, None]) * W + (k + kk)[None, :], mask=t[:, None] < T, other=0.0)
        xt = tl.trans(xv)
        acc = tl.dot(high, xt, acc)
        acc = tl.dot(low, xt, acc)
    tl.store(scores + b * (16 * 256) + h[:, None] * 256 + t[None, :], acc * scale, mask=t[None, :] < T)


@triton.jit
def mean_kernel(scores, x, out, T, W: tl.constexpr, BN: tl.constexpr):
    """Write the mean of the tokens by softmax weight, for each head."""
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    b = tl.program_id(1)
    h = tl.arange(0, 16)
    t = tl.arange(0, 256)
    s = tl.load(scores + b * (16 * 256) + h[:, None] * 256 + t[None, :])
    s = tl.where(t[None, :] < T, s, float("-inf"))
    top = tl.max(s, axis=1)
    p = tl.exp2(s - top[:, None])
    total = tl.sum(p, axis=1)
    xv = tl.load(x + (b * T + t[:, None]) * W + n[None, :], mask=t[:, None] < T, other=0.0)
    o = tl.dot(p.to(tl.float16), xv) / total[:, None]
    tl.store(out + b * (16 * W) + h[:, None] * W + n[None, :], o.to(tl.float16))


def product(config, a, w, out, bias=None, residual=None, gelu=False):
    """out = act(a @ w.T + bias) + residual, float16 with float32 sums."""
    if config is None:
        if residual is not None:
            if residual is out:
                out.addmm_(a, w.t())
            else:
                torch.addmm(residual, a, w.t(), out=out)
        else:
            torch.addmm(bias, a, w.t(), out=out)
            if gelu:
                torch.ops.aten.gelu_(out)
        return
    bm, bn, bk, stages, warps = config
    m, k = a.shape
    n = w.shape[0]
    a_desc = TensorDescriptor.from_tensor(a, [bm, bk])
    b_desc = TensorDescriptor.from_tensor(w, [bn, bk])
    c_desc = TensorDescriptor.from_tensor(out, [bm, bn])
    r_desc = c_desc if residual is None else TensorDescriptor.from_tensor(residual, [bm, bn])
    gemm_kernel[(triton.cdiv(m, bm) * triton.cdiv(n, bn),)](
        a_desc,
        b_desc,
        r_desc,
        c_desc,
        a if bias is None else bias,
        m,
        n,
        k,
        BM=bm,
        BN=bn,
        BK=bk,
        GROUP=8,
        BIAS=bias is not None,
        RES=residual is not None,
        GELU=gelu,
        num_stages=stages,
        num_warps=warps,
    )


def measure(work):
    """Milliseconds of ten runs, recorded so that launches do not count."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        work()
        work()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(10):
            work()
    graph.replay()
    torch.cuda.synchronize()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(4):
        graph.replay()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / 4


def fastest(candidates, work):
    """Return the candidate whose work takes the least time; skip those that need too much of the GPU."""
    best, least = candidates[0], float("inf")
    for candidate in candidates:
        try:
            work(candidate)
        except triton.runtime.errors.OutOfResources:
            continue
        took = measure(lambda: work(candidate))  # noqa: B023
        if took < least:
            best, least = candidate, took
    return best


class ModelNew(torch.nn.Module):
    """ViT-B/16 in 16 bits, as a CUDA graph that is recorded anew when the shape of the images changes."""

    def __init__(self):
        super().__init__()
        self.graph = None
        self.shape = None
        self.eps = 1e-6

    @classmethod
    def from_reference(cls, model):
        """Take over the original's weights, rounded and with the residual biases summed."""
        self = cls()
        net = model.net
        encoder = net.encoder

        def half(name, tensor):
            self.register_buffer(name, tensor.detach().to(torch.float16).contiguous().clone())

        def full(name, tensor):
            self.register_buffer(name, tensor.detach().to(torch.float32).contiguous().clone())

        self.eps = float(encoder.ln.eps)
        half("patch_w", net.conv_proj.weight.reshape(WIDTH, -1))
        table = encoder.pos_embedding.detach().float()[0].clone()
        table[0] += net.class_token.detach().float()[0, 0]
        table[1:] += net.conv_proj.bias.detach().float()
        half("table", table)
        shift = torch.zeros_like(table[0])
        full("zero", shift)
        for i in range(LAYERS):
            layer = getattr(encoder.layers, f"encoder_layer_{i}")
            attention = layer.self_attention
            fc1, fc2 = getattr(layer.mlp, "0"), getattr(layer.mlp, "3")
            full(f"n1_w{i}", layer.ln_1.weight)
            full(f"n1_b{i}", layer.ln_1.bias)
            full(f"n2_w{i}", layer.ln_2.weight)
            full(f"n2_b{i}", layer.ln_2.bias)
            half(f"qkv_w{i}", attention.in_proj_weight)
            half(f"out_w{i}", attention.out_proj.weight)
            half(f"fc1_w{i}", fc1.weight)
            half(f"fc2_w{i}", fc2.weight)
            full(f"s1_{i}", shift)
            shift = shift + attention.out_proj.bias.detach().float()
            full(f"s2_{i}", shift)
            if i < LAYERS - 1:
                half(f"qkv_b{i}", attention.in_proj_bias)
                half(f"fc1_b{i}", fc1.bias)
                shift = shift + fc2.bias.detach().float()
            else:
                full("last_q_b", attention.in_proj_bias[:WIDTH])
                full("last_v_b", attention.in_proj_bias[2 * WIDTH :])
                full("last_fc1_b", fc1.bias)
                full("last_fc2_b", fc2.bias)
        full("norm_w", encoder.ln.weight)
        full("norm_b", encoder.ln.bias)
        half("head_w", net.heads.head.weight)
        full("head_b", net.heads.head.bias)
        return self

    def norm(self, x, stride, rows, shift, weight, bias, out):
        """Launch the layer norm of `rows` rows of `x`."""
        norm_kernel[(rows,)](x, stride, shift, weight, bias, out, self.eps, D=WIDTH, BLOCK=1024, num_warps=4)

    def attend(self, config):
        """Launch the attention of all tokens with one of ATTENTION_CONFIGS."""
        bm, warps = config
        attention_kernel[(triton.cdiv(self.tokens, bm), self.batch * HEADS)](
            self.qkv,
            self.mixed,
            self.tokens,
            LOG2E / HEAD_DIM**0.5,
            H=HEADS,
            D=HEAD_DIM,
            BM=bm,
            BN=256,
            num_warps=warps,
        )

    def skinny(self, a, a_stride, w, bias, out, a_head=0, head=1 << 20, res=None, res_stride=0, gelu=False):
        """Launch a product with one row an image."""
        n, k = w.shape
        bn = 32 if n > WIDTH else 16
        skinny_kernel[(triton.cdiv(n, bn), triton.cdiv(self.batch, 16))](
            a,
            a_stride,
            a_head,
            w,
            bias,
            out if res is None else res,
            res_stride,
            out,
            out.stride(0),
            self.batch,
            n,
            k,
            HEAD=head,
            BN=bn,
            BK=128,
            RES=res is not None,
            GELU=gelu,
            num_warps=4,
            num_stages=4,
        )

    def compute(self):
        """Launch the whole network, from `patches` to `result`."""
        batch, tokens, rows = self.batch, self.tokens, self.batch * self.tokens
        product(self.c_out, self.patches, self.patch_w, self.x, residual=self.start)
        for i in range(LAYERS - 1):
            own = lambda name: getattr(self, f"{name}{i}")  # noqa: B023, E731
            self.norm(self.x, WIDTH, rows, own("s1_"), own("n1_w"), own("n1_b"), self.h)
            product(self.c_qkv, self.h, own("qkv_w"), self.qkv, bias=own("qkv_b"))
            self.attend(self.c_attention)
            product(self.c_out, self.mixed, own("out_w"), self.x, residual=self.x)
            self.norm(self.x, WIDTH, rows, own("s2_"), own("n2_w"), own("n2_b"), self.h)
            product(self.c_fc1, self.h, own("fc1_w"), self.wide, bias=own("fc1_b"), gelu=True)
            product(self.c_fc2, self.wide, own("fc2_w"), self.x, residual=self.x)

        # the last block: one query an image
        i = LAYERS - 1
        own = lambda name: getattr(self, f"{name}{i}")  # noqa: E731
        long = tokens * WIDTH
        weights = own("qkv_w")
        self.norm(self.x, WIDTH, rows, own("s1_"), own("n1_w"), own("n1_b"), self.h)
        self.skinny(self.h, long, weights[:WIDTH], self.last_q_b, self.q)
        query_key_kernel[(HEADS, WIDTH // 64, triton.cdiv(batch, 16))](
            self.q, weights[WIDTH : 2 * WIDTH], self.u, batch, W=WIDTH, D=HEAD_DIM, BN=64, num_warps=4
        )
        score_kernel[(triton.cdiv(tokens, 16), batch)](
            self.u, self.h, self.scores, tokens, LOG2E / HEAD_DIM**0.5, W=WIDTH, BK=128, num_warps=4
        )
        mean_kernel[(WIDTH // 64, batch)](self.scores, self.h, self.means, tokens, W=WIDTH, BN=64, num_warps=4)
        self.skinny(
            self.means, 16 * WIDTH, weights[2 * WIDTH :], self.last_v_b, self.context, a_head=WIDTH, head=HEAD_DIM
        )
        # s2 holds all the residual biases so far, this out_proj's included
        self.skinny(self.context, WIDTH, own("out_w"), own("s2_"), self.y, res=self.x, res_stride=long)
        self.norm(self.y, WIDTH, batch, self.zero, own("n2_w"), own("n2_b"), self.small)
        self.skinny(self.small, WIDTH, own("fc1_w"), self.last_fc1_b, self.small_wide, gelu=True)
        self.skinny(self.small_wide, HIDDEN, own("fc2_w"), self.last_fc2_b, self.z, res=self.y, res_stride=WIDTH)
        self.norm(self.z, WIDTH, batch, self.zero, self.norm_w, self.norm_b, self.small)
        self.skinny(self.small, WIDTH, self.head_w, self.head_b, self.result)

    def record(self, images):
        """Make the buffers, choose a variant of each product, and record the graph."""
        device = images.device
        batch, channels, height, width = images.shape
        down, across = height // PATCH, width // PATCH
        tokens = down * across + 1
        rows = batch * tokens
        self.batch, self.tokens = batch, tokens

        def make(*shape, dtype=torch.float16):
            return torch.zeros(shape, dtype=dtype, device=device)

        self.patches = make(rows, WIDTH)  # the class token's rows stay zero
        self.patch_view = self.patches.view(batch, tokens, WIDTH)[:, 1:].view(
            batch, down, across, channels, PATCH, PATCH
        )
        self.start = self.table.repeat(batch, 1).contiguous()
        self.x, self.h, self.mixed = make(rows, WIDTH), make(rows, WIDTH), make(rows, WIDTH)
        self.qkv, self.wide = make(rows, 3 * WIDTH), make(rows, HIDDEN)
        self.q, self.context, self.small = make(batch, WIDTH), make(batch, WIDTH), make(batch, WIDTH)
        self.u = make(batch, 16, WIDTH, dtype=torch.float32)
        self.scores = make(batch, 16, 256, dtype=torch.float32)
        self.means = make(batch, 16, WIDTH)
        self.y, self.z = make(batch, WIDTH, dtype=torch.float32), make(batch, WIDTH, dtype=torch.float32)
        self.small_wide = make(batch, HIDDEN)
        self.result = make(batch, self.head_w.shape[0], dtype=torch.float32)

        # choose the fastest variant of each product, on plausible values that are overwritten later
        def noise(tensor):
            tensor.copy_(
                torch.linspace(-1.0, 1.0, 4099, device=device)
                .repeat(tensor.numel() // 4099 + 1)[: tensor.numel()]
                .view_as(tensor)
            )

        for tensor in (self.h, self.mixed, self.wide):
            noise(tensor)
        choices = (None, *CONFIGS)
        self.c_qkv = fastest(choices, lambda c: product(c, self.h, self.qkv_w0, self.qkv, bias=self.qkv_b0))
        self.c_attention = fastest(ATTENTION_CONFIGS, self.attend)
        noise(self.mixed)
        self.c_out = fastest(choices, lambda c: product(c, self.mixed, self.out_w0, self.x, residual=self.x))
        self.c_fc1 = fastest(choices, lambda c: product(c, self.h, self.fc1_w0, self.wide, bias=self.fc1_b0, gelu=True))
        noise(self.wide)
        self.c_fc2 = fastest(choices, lambda c: product(c, self.wide, self.fc2_w0, self.x, residual=self.x))

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.compute()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.compute()
        self.graph = graph
        self.shape = images.shape

    def forward(self, images):
        """Images (batch, 3, 224, 224) to logits (batch, 1000) in float32."""
        if self.graph is None or self.shape != images.shape:
            self.record(images)
        batch, channels, height, width = images.shape
        parts = images.reshape(batch, channels, height // PATCH, PATCH, width // PATCH, PATCH)
        self.patch_view.copy_(parts.permute(0, 2, 4, 1, 3, 5))
        self.graph.replay()
        return self.result.clone()
