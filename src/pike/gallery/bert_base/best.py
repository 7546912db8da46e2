"""BERT-base in 16 bits and one CUDA graph: fused projections, attention that skips padding, fused norms.

What it does: the encoder of `zoo/bert_base` at precision half: 8 sentences of 256 tokens, padded on the right,
through 12 layers of width 768. It returns the hidden states of all tokens and a pooled vector for each sentence,
both float32, in the `ModelOutput` class that the original uses.

What made it fast: matrix products have 16-bit factors and run on tensor cores. Query, key and value are one
product. For each input shape the first call measures cuBLAS against Triton tilings on each of the four kinds of
product in a layer, then records a CUDA graph. The Triton kernel adds the bias and applies GELU in registers. The
attention kernel reads its operands in place in that one product, keeps scores on chip, and stops behind a
sentence's last valid token. Residual sum and layer norm are one kernel. The last norm is outside the graph and
writes float32 to a fresh tensor, so no copy of the hidden states is needed.

Accuracy: weights and biases of the products and all activations between kernels are rounded to 16 bits, the
residual stream and the pooler's input included. Embedding tables, layer norm parameters, sums of products, norms
and softmax have 32 bits. Attention weights are rounded to 16 bits before they meet the values; their sum is not.
After cuBLAS, GELU and tanh get a rounded value; the pooler always uses cuBLAS. Kernels are chosen by timing, so the
last bits may vary between runs.

Limits: inference only, on a CUDA device that is the current one; written for compute capability 9.0 (Hopper),
where tiles move by tensor descriptor. Batch and tokens are free, but each shape has its own first call, graph and
buffers, which are never released. Exact GELU, learned positions from 0, token type 0. A head's width must be a
power of two, from 16. None of this is checked: ids out of range, or more tokens than positions (512), read beyond
a table. Any mask entry but 0 counts as valid, after a cast to integers. In a sentence without valid tokens
attention yields zeros. Activations must stay within float16's range. Calls share buffers: one stream, one call at
a time. Do not move or cast a model that has run; write weights in place only. If a shape's first call is in
`inference_mode`, its later calls must be too.

Author: a coding agent, in a search by the strategy pike-b (result.json says which).
Licence: Apache-2.0.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import nn
from transformers.modeling_outputs import BaseModelOutputWithPoolingAndCrossAttentions
from triton.runtime.errors import OutOfResources
from triton.tools.tensor_descriptor import TensorDescriptor

DEFAULT_HEADS = 12
DEFAULT_EPS = 1e-12

# rows, columns, depth, stages, warps of a tile
PLAIN_CONFIGS = [
    (128, 128, 64, 3, 8),
    (128, 128, 64, 4, 4),
    (128, 256, 64, 3, 8),
    (128, 64, 64, 4, 4),
    (64, 128, 64, 4, 4),
]
GELU_CONFIGS = [
    (128, 128, 64, 3, 8),
    (128, 128, 64, 4, 8),
    (128, 128, 64, 3, 4),
    (128, 256, 64, 3, 8),
]


@triton.jit
def _linear_kernel(
    a_desc,
    w_desc,
    c_desc,
    bias_ptr,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
    GELU: tl.constexpr,
):
    """One (BM, BN) tile of c (M, N): a (M, K) times w (N, K) transposed, plus bias; GELU if asked."""
    pid = tl.program_id(0)
    grid_m = tl.cdiv(M, BM)
    grid_n = tl.cdiv(N, BN)
    width = GROUP * grid_n
    group = pid // width
    first_m = group * GROUP
    group_size = min(grid_m - first_m, GROUP)
    pid_m = first_m + (pid % width) % group_size
    pid_n = (pid % width) // group_size
    m0 = pid_m * BM
    n0 = pid_n * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = a_desc.load([m0, k])
        w = w_desc.load([n0, k])
        acc = tl.dot(a, w.T, acc)
    offs_n = n0 + tl.arange(0, BN)
    bias = tl.load(bias_ptr + offs_n, mask=offs_n < N, other=0.0).to(tl.float32)
    acc = acc + bias[None, :]
    if GELU:
        acc = 0.5 * acc * (1.0 + tl.erf(acc * 0.7071067811865476))
    c_desc.store([m0, n0], acc.to(tl.float16))


@triton.jit
def _embed_kernel(
    ids_ptr,
    word_ptr,
    pos_ptr,
    g_ptr,
    b_ptr,
    out_ptr,
    T,
    eps,
    W: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Embed one token: the norm of its word plus its position, which includes token type 0."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    ok = cols < W
    token = tl.load(ids_ptr + row)
    x = tl.load(word_ptr + token * W + cols, mask=ok, other=0.0)
    x += tl.load(pos_ptr + (row % T) * W + cols, mask=ok, other=0.0)
    mean = tl.sum(x, 0) / W
    d = tl.where(ok, x - mean, 0.0)
    var = tl.sum(d * d, 0) / W
    rstd = 1.0 / tl.sqrt(var + eps)
    g = tl.load(g_ptr + cols, mask=ok, other=0.0)
    b = tl.load(b_ptr + cols, mask=ok, other=0.0)
    y = d * rstd * g + b
    tl.store(out_ptr + row * W + cols, y.to(out_ptr.dtype.element_ty), mask=ok)


@triton.jit
def _add_ln_kernel(
    y_ptr,
    r_ptr,
    g_ptr,
    b_ptr,
    out_ptr,
    in_stride,
    eps,
    W: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Norm one row of y + r; rows of both are in_stride apart, rows of out are W apart."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    ok = cols < W
    x = tl.load(y_ptr + row * in_stride + cols, mask=ok, other=0.0).to(tl.float32)
    x += tl.load(r_ptr + row * in_stride + cols, mask=ok, other=0.0).to(tl.float32)
    mean = tl.sum(x, 0) / W
    d = tl.where(ok, x - mean, 0.0)
    var = tl.sum(d * d, 0) / W
    rstd = 1.0 / tl.sqrt(var + eps)
    g = tl.load(g_ptr + cols, mask=ok, other=0.0)
    b = tl.load(b_ptr + cols, mask=ok, other=0.0)
    y = d * rstd * g + b
    tl.store(out_ptr + row * W + cols, y.to(out_ptr.dtype.element_ty), mask=ok)


@triton.jit
def _attention_kernel(
    qkv_ptr,
    mask_ptr,
    out_ptr,
    T,
    scale_log2,
    H: tl.constexpr,
    D: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BT: tl.constexpr,
):
    """Attend from BM queries of one head of one sentence; qkv is (batch * T, 3 * H * D), out (batch * T, H * D)."""
    W: tl.constexpr = H * D
    m0 = tl.program_id(0) * BM
    bh = tl.program_id(1)
    b = bh // H
    h = bh % H
    offs_m = m0 + tl.arange(0, BM)
    offs_d = tl.arange(0, D)
    base = qkv_ptr + b * T * (3 * W) + h * D
    q = tl.load(base + offs_m[:, None] * (3 * W) + offs_d[None, :], mask=offs_m[:, None] < T, other=0.0)

    # Keys behind the last valid one would have a weight of exactly zero: skip them.
    offs_t = tl.arange(0, BT)
    whole = tl.load(mask_ptr + b * T + offs_t, mask=offs_t < T, other=0)
    end = tl.max(tl.where(whole != 0, offs_t + 1, 0), 0)

    m_i = tl.full((BM,), float("-inf"), dtype=tl.float32)
    l_i = tl.zeros((BM,), dtype=tl.float32)
    acc = tl.zeros((BM, D), dtype=tl.float32)
    for n0 in range(0, end, BN):
        offs_n = n0 + tl.arange(0, BN)
        inside = offs_n < T
        valid = tl.load(mask_ptr + b * T + offs_n, mask=inside, other=0) != 0
        k = tl.load(base + W + offs_n[:, None] * (3 * W) + offs_d[None, :], mask=inside[:, None], other=0.0)
        v = tl.load(base + 2 * W + offs_n[:, None] * (3 * W) + offs_d[None, :], mask=inside[:, None], other=0.0)
        s = tl.dot(q, tl.trans(k)) * scale_log2
        s = tl.where(valid[None, :], s, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(s, 1))
        m_safe = tl.where(m_new == float("-inf"), 0.0, m_new)
        p = tl.exp2(s - m_safe[:, None])
        alpha = tl.exp2(m_i - m_safe)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        acc = tl.dot(p.to(tl.float16), v, acc)
        m_i = m_new
    acc = acc / tl.where(l_i == 0.0, 1.0, l_i)[:, None]
    tl.store(
        out_ptr + (b * T + offs_m[:, None]) * W + h * D + offs_d[None, :],
        acc.to(tl.float16),
        mask=offs_m[:, None] < T,
    )


def _cublas_linear(a, w, bias, out, gelu):
    """Write a (m, k) times w (n, k) transposed, plus bias, to out (m, n) by cuBLAS; then GELU if asked."""
    torch.addmm(bias, a, w.t(), out=out)
    if gelu:
        torch.ops.aten.gelu_(out)


def _triton_linear(a, w, bias, out, gelu, config):
    """Write a (m, k) times w (n, k) transposed, plus bias, or its GELU, to out (m, n) by one Triton kernel."""
    bm, bn, bk, stages, warps = config
    m, k = a.shape
    n = w.shape[0]
    grid = (triton.cdiv(m, bm) * triton.cdiv(n, bn),)
    _linear_kernel[grid](
        TensorDescriptor.from_tensor(a, [bm, bk]),
        TensorDescriptor.from_tensor(w, [bn, bk]),
        TensorDescriptor.from_tensor(out, [bm, bn]),
        bias,
        m,
        n,
        k,
        BM=bm,
        BN=bn,
        BK=bk,
        GROUP=8,
        GELU=gelu,
        num_stages=stages,
        num_warps=warps,
    )


def _linear(a, w, bias, out, gelu, config):
    """Run a linear layer by cuBLAS if config is None, else by Triton with that tiling."""
    if config is None:
        _cublas_linear(a, w, bias, out, gelu)
    else:
        _triton_linear(a, w, bias, out, gelu, config)


class _State:
    """Buffers, chosen kernels and recorded graph of one input shape."""


class ModelNew(nn.Module):
    """BERT encoder and pooler in 16 bits; each input shape is recorded as a CUDA graph at its first call."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = 0
        self.heads = DEFAULT_HEADS
        self.eps = DEFAULT_EPS
        self._states: dict = {}

    @classmethod
    def from_reference(cls, model: nn.Module) -> "ModelNew":
        """Copy the reference's weights, those of products in 16 bits, and add token type 0 to the positions."""
        new = cls()
        sd = {name: value.detach() for name, value in model.state_dict().items()}
        config = getattr(model.net, "config", None)
        new.heads = int(getattr(config, "num_attention_heads", DEFAULT_HEADS))
        new.eps = float(getattr(config, "layer_norm_eps", DEFAULT_EPS))

        def half(value):
            return value.to(torch.float16).contiguous().clone()

        def full(value):
            return value.to(torch.float32).contiguous().clone()

        e = "net.embeddings."
        new.register_buffer("word", full(sd[e + "word_embeddings.weight"]))
        new.register_buffer(
            "position",
            full(sd[e + "position_embeddings.weight"] + sd[e + "token_type_embeddings.weight"][0]),
        )
        new.register_buffer("emb_g", full(sd[e + "LayerNorm.weight"]))
        new.register_buffer("emb_b", full(sd[e + "LayerNorm.bias"]))
        count = 0
        while f"net.encoder.layer.{count}.output.dense.weight" in sd:
            p = f"net.encoder.layer.{count}."
            s = p + "attention.self."
            for kind, short in (("weight", "w"), ("bias", "b")):
                new.register_buffer(
                    f"qkv_{short}{count}",
                    half(torch.cat([sd[s + f"{x}.{kind}"] for x in ("query", "key", "value")], 0)),
                )
                new.register_buffer(f"out_{short}{count}", half(sd[p + f"attention.output.dense.{kind}"]))
                new.register_buffer(f"up_{short}{count}", half(sd[p + f"intermediate.dense.{kind}"]))
                new.register_buffer(f"down_{short}{count}", half(sd[p + f"output.dense.{kind}"]))
            new.register_buffer(f"ln1_g{count}", full(sd[p + "attention.output.LayerNorm.weight"]))
            new.register_buffer(f"ln1_b{count}", full(sd[p + "attention.output.LayerNorm.bias"]))
            new.register_buffer(f"ln2_g{count}", full(sd[p + "output.LayerNorm.weight"]))
            new.register_buffer(f"ln2_b{count}", full(sd[p + "output.LayerNorm.bias"]))
            count += 1
        new.layers = count
        new.register_buffer("pool_w", half(sd["net.pooler.dense.weight"]))
        new.register_buffer("pool_b", half(sd["net.pooler.dense.bias"]))
        return new

    def _add_ln(self, y, r, g, b, out, rows, in_stride):
        """Write the norm of y + r to out (rows, width); rows of y and r are in_stride elements apart."""
        width = self.word.shape[1]
        _add_ln_kernel[(rows,)](
            y,
            r,
            g,
            b,
            out,
            in_stride,
            self.eps,
            W=width,
            BLOCK=triton.next_power_of_2(width),
            num_warps=4,
        )

    def _run(self, s) -> None:
        """Launch everything except the last layer norm over all rows; the pooled vectors end in s.pooled."""
        width = self.word.shape[1]
        rows = s.batch * s.tokens
        dim = width // self.heads
        _embed_kernel[(rows,)](
            s.ids,
            self.word,
            self.position,
            self.emb_g,
            self.emb_b,
            s.x,
            s.tokens,
            self.eps,
            W=width,
            BLOCK=triton.next_power_of_2(width),
            num_warps=4,
        )
        scale = dim**-0.5 * 1.4426950408889634
        block_m = 64
        for i in range(self.layers):
            lw = s.weights[i]
            _linear(s.x, lw["qkv_w"], lw["qkv_b"], s.qkv, False, s.choice["qkv"])
            _attention_kernel[(triton.cdiv(s.tokens, block_m), s.batch * self.heads)](
                s.qkv,
                s.mask,
                s.ctx,
                s.tokens,
                scale,
                H=self.heads,
                D=dim,
                BM=block_m,
                BN=64,
                BT=triton.next_power_of_2(s.tokens),
                num_warps=4,
                num_stages=2,
            )
            _linear(s.ctx, lw["out_w"], lw["out_b"], s.y, False, s.choice["out"])
            self._add_ln(s.y, s.x, lw["ln1_g"], lw["ln1_b"], s.x2, rows, width)
            _linear(s.x2, lw["up_w"], lw["up_b"], s.h, True, s.choice["up"])
            _linear(s.h, lw["down_w"], lw["down_b"], s.y, False, s.choice["down"])
            if i + 1 < self.layers:
                self._add_ln(s.y, s.x2, lw["ln2_g"], lw["ln2_b"], s.x, rows, width)
            else:
                # The pooler reads only the first token of a sentence.
                self._add_ln(s.y, s.x2, lw["ln2_g"], lw["ln2_b"], s.cls, s.batch, s.tokens * width)
        torch.addmm(self.pool_b, s.cls, self.pool_w.t(), out=s.pool_pre)
        s.pooled.copy_(s.pool_pre)
        s.pooled.tanh_()

    def _tune(self, s) -> None:
        """Choose the fastest kernel for each of the four linear layers, on the weights of the first layer."""
        lw = s.weights[0]
        for name, a, out, gelu in (
            ("qkv", s.x, s.qkv, False),
            ("out", s.ctx, s.y, False),
            ("up", s.x2, s.h, True),
            ("down", s.h, s.y, False),
        ):
            w, b = lw[name + "_w"], lw[name + "_b"]
            best = None
            for config in [None] + (GELU_CONFIGS if gelu else PLAIN_CONFIGS):

                def call(config=config):
                    _linear(a, w, b, out, gelu, config)  # noqa: B023

                try:
                    call()
                    torch.cuda.synchronize()
                    time = triton.testing.do_bench_cudagraph(call, rep=10)
                    torch.cuda.synchronize()
                except OutOfResources:
                    continue
                if best is None or time < best:
                    best = time
                    s.choice[name] = config

    def _build(self, input_ids, attention_mask):
        """Allocate the buffers of this input shape, choose kernels, and record the graph."""
        device = input_ids.device
        s = _State()
        s.batch, s.tokens = input_ids.shape
        width = self.word.shape[1]
        rows = s.batch * s.tokens
        names = (
            "qkv_w",
            "qkv_b",
            "out_w",
            "out_b",
            "up_w",
            "up_b",
            "down_w",
            "down_b",
            "ln1_g",
            "ln1_b",
            "ln2_g",
            "ln2_b",
        )
        s.weights = [{n: getattr(self, f"{n}{i}") for n in names} for i in range(self.layers)]
        inner = s.weights[0]["up_w"].shape[0]

        def empty(*shape, dtype=torch.float16):
            return torch.zeros(shape, dtype=dtype, device=device)

        s.ids = empty(s.batch, s.tokens, dtype=torch.int64)
        s.mask = empty(s.batch, s.tokens, dtype=torch.int64)
        s.x = empty(rows, width)
        s.x2 = empty(rows, width)
        s.y = empty(rows, width)
        s.ctx = empty(rows, width)
        s.qkv = empty(rows, 3 * width)
        s.h = empty(rows, inner)
        s.cls = empty(s.batch, width)
        s.pool_pre = empty(s.batch, width)
        s.pooled = empty(s.batch, width, dtype=torch.float32)
        s.choice = {"qkv": None, "out": None, "up": None, "down": None}
        s.ids.copy_(input_ids)
        s.mask.copy_(attention_mask)

        flags = torch.backends.cuda.matmul
        before = flags.allow_fp16_reduced_precision_reduction
        flags.allow_fp16_reduced_precision_reduction = False
        try:
            self._run(s)
            torch.cuda.synchronize()
            self._tune(s)
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                self._run(s)
                self._run(s)
            torch.cuda.current_stream().wait_stream(side)
            torch.cuda.synchronize()
            s.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(s.graph):
                self._run(s)
            torch.cuda.synchronize()
        finally:
            flags.allow_fp16_reduced_precision_reduction = before
        return s

    @torch.no_grad()
    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> Any:
        """Ids and mask (batch, tokens) to hidden states and a pooled vector, both float32."""
        key = (tuple(input_ids.shape), input_ids.device, self.word.data_ptr())
        s = self._states.get(key)
        if s is None:
            s = self._build(input_ids, attention_mask)
            self._states[key] = s
        torch._foreach_copy_([s.ids, s.mask], [input_ids, attention_mask])
        s.graph.replay()
        width = self.word.shape[1]
        last = torch.empty((s.batch, s.tokens, width), dtype=torch.float32, device=input_ids.device)
        lw = s.weights[-1]
        self._add_ln(s.y, s.x2, lw["ln2_g"], lw["ln2_b"], last, s.batch * s.tokens, width)
        return BaseModelOutputWithPoolingAndCrossAttentions(
            last_hidden_state=last,
            pooler_output=s.pooled.clone(),
        )
