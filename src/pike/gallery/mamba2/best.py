"""A language model of 8 selective state-space layers: four kernels a layer, replayed as one CUDA graph.

What it does: the model of `level5/11` for any number of sequences and tokens: embedding, 8 layers of width
1024, each behind a norm, and logits over 16384 entries. The large products are Triton kernels on tensor
cores. The recurrence is a kernel in CUDA C++, compiled while the program runs.

What made it fast: a layer has four kernels: projection; convolution with the 96 narrow columns; step sizes,
recurrence and gate; output projection with the residual sum. The graph launches all layers at once. Three of
the four kernels start early (programmatic dependent launch): the two large products ask for their weights
in L2 and the convolution loads its narrow weights, while the kernel before still runs. The states stay in
registers, two in a thread, and eight lanes add up the outputs of eight tokens with seven shuffles.

Accuracy: the residual stream, sums of products, convolution sums, softplus, decays, states and logits have 32
bits. Weights and inputs of all matrix products are rounded to 16 bits, as is what passes between two kernels,
but for the stream, its squares and the narrow sums. Sums by atomic additions have no fixed order: the last
bits may differ between calls.

Limits: states of 16, rank 64, a width that is a power of two from 128 on, a vocabulary that 128 divides, a
convolution over 4 tokens, inference only, one call at a time, one GPU, and that one current. The first call
of each shape compiles and records. Do not move the module after a call. Compute capability 9.0 (Hopper).

Author: a coding agent, in a search by the strategy pike-x (result.json says which).
Licence: Apache-2.0.
"""

import functools
import math

import torch
import triton
import triton.language as tl

STATE = 16
RANK = 64
COLUMNS = 2 * STATE + RANK  # write, read, step_down
BM = 64
BN_PROJECT = 64
BN_OUT = 32
BK = 128
CONV_ROWS = 16
CONV_K = 128
PAD = 128
MOST_GRAPHS = 32

SCAN_SOURCE = r"""
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

// a block: one sequence, 16 channels; chunks of 128 tokens
extern "C" __global__ void __launch_bounds__(256) scan_kernel(
    const float* acc, const __half* a, const __half* p, const __half* up, const float* D, const float* u,
    __half* yg, int T, int width) {
  __shared__ __align__(128) unsigned char raw[128 * 72 * 2];
  __shared__ __align__(128) float4 wr[128 * 8];
  __shared__ __align__(128) float res[128 * 20];
  __shared__ __align__(128) __half up_s[16 * 72];
  __half* sd = reinterpret_cast<__half*>(raw);
  float2* ss = reinterpret_cast<float2*>(raw);

  asm volatile("griddepcontrol.launch_dependents;");

  const int tid = threadIdx.x;
  const int c0 = blockIdx.x * 16;
  const long long row0 = static_cast<long long>(blockIdx.y) * T;
  const int warp = tid >> 5;

  if (tid < 128) {
    const int r = tid >> 3, q = tid & 7;
    *reinterpret_cast<uint4*>(&up_s[r * 72 + q * 8]) =
        *reinterpret_cast<const uint4*>(up + static_cast<long long>(c0 + r) * 64 + q * 8);
  }
  const int er = tid >> 1, eh = tid & 1;
  float d8[8];
#pragma unroll
  for (int j = 0; j < 8; ++j) d8[j] = D[c0 + eh * 8 + j];

  const int ch = (tid & 127) >> 3, ln = tid & 7;
  const float u0 = u[(c0 + ch) * 16 + 2 * ln], u1 = u[(c0 + ch) * 16 + 2 * ln + 1];
  const float dch = D[c0 + ch];
  float h0 = 0.0f, h1 = 0.0f;

  for (int t0 = 0; t0 < T; t0 += 128) {
    const int n = T - t0 < 128 ? T - t0 : 128;
    const long long base = row0 + t0;
    uint4 av = make_uint4(0, 0, 0, 0), gv = make_uint4(0, 0, 0, 0);
    if (er < n) {
      av = *reinterpret_cast<const uint4*>(a + (base + er) * width + c0 + eh * 8);
      gv = *reinterpret_cast<const uint4*>(p + (base + er) * 2 * width + width + c0 + eh * 8);
    }
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const int i = tid + k * 256;
      const int r = i >> 4, q = i & 15;
      float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      if (r < n) v = *reinterpret_cast<const float4*>(acc + (base + r) * 96 + 32 + q * 4);
      *reinterpret_cast<__half2*>(&sd[r * 72 + q * 4]) = __floats2half2_rn(v.x, v.y);
      *reinterpret_cast<__half2*>(&sd[r * 72 + q * 4 + 2]) = __floats2half2_rn(v.z, v.w);
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int i = tid + k * 256;
      const int r = i >> 3, l = i & 7;
      float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      if (r < n) {
        const float2 w = *reinterpret_cast<const float2*>(acc + (base + r) * 96 + 2 * l);
        const float2 g = *reinterpret_cast<const float2*>(acc + (base + r) * 96 + 16 + 2 * l);
        v = make_float4(w.x, w.y, g.x, g.y);
      }
      wr[i] = v;
    }
    __syncthreads();
    {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> fb;
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
      wmma::fill_fragment(fc, 0.0f);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        wmma::load_matrix_sync(fa, sd + warp * 16 * 72 + k * 16, 72);
        wmma::load_matrix_sync(fb, up_s + k * 16, 72);
        wmma::mma_sync(fc, fa, fb, fc);
      }
      wmma::store_matrix_sync(res + warp * 16 * 20, fc, 20, wmma::mem_row_major);
    }
    __syncthreads();
    {
      const __half* ah = reinterpret_cast<const __half*>(&av);
      const __half* gh = reinterpret_cast<const __half*>(&gv);
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const int c = eh * 8 + j;
        const float pre = res[er * 20 + c] + d8[j];
        const float step = er < n ? (pre > 20.0f ? pre : log1pf(expf(pre))) : 0.0f;
        ss[er * 16 + c] = make_float2(step, step * __half2float(ah[j]));
        *reinterpret_cast<__half2*>(&res[er * 20 + c]) = __halves2half2(ah[j], gh[j]);
      }
    }
    __syncthreads();
    if (tid < 128) {
      for (int tb = 0; tb < n; tb += 8) {
        float y[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          const float2 s = ss[(tb + i) * 16 + ch];
          const float4 v = wr[(tb + i) * 8 + ln];
          h0 = (u0 * s.x) * h0 + v.x * s.y;
          h1 = (u1 * s.x) * h1 + v.y * s.y;
          y[i] = h0 * v.z + h1 * v.w;
        }
        // eight lanes sum eight tokens; lane l ends up with token l
        const bool b4 = ln & 4, b2 = ln & 2, b1 = ln & 1;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float send = b4 ? y[i] : y[i + 4], keep = b4 ? y[i + 4] : y[i];
          y[i] = keep + __shfl_xor_sync(0xffffffffu, send, 4);
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const float send = b2 ? y[i] : y[i + 2], keep = b2 ? y[i + 2] : y[i];
          y[i] = keep + __shfl_xor_sync(0xffffffffu, send, 2);
        }
        const float send = b1 ? y[0] : y[1], keep = b1 ? y[1] : y[0];
        const float total = keep + __shfl_xor_sync(0xffffffffu, send, 1);
        __half2* slot = reinterpret_cast<__half2*>(&res[(tb + ln) * 20 + ch]);
        const float2 ag = __half22float2(*slot);
        *slot = __floats2half2_rn((total + dch * ag.x) * ag.y, 0.0f);
      }
    }
    __syncthreads();
    if (er < n) {
      uint4 ov;
      __half* oh = reinterpret_cast<__half*>(&ov);
#pragma unroll
      for (int j = 0; j < 8; ++j)
        oh[j] = __low2half(*reinterpret_cast<const __half2*>(&res[er * 20 + eh * 8 + j]));
      *reinterpret_cast<uint4*>(yg + (base + er) * width + c0 + eh * 8) = ov;
    }
  }
}
"""


@functools.cache
def scan_kernel():
    """Compile the recurrence kernel from SCAN_SOURCE at the first call, and return it."""
    return torch.cuda._compile_kernel(SCAN_SOURCE, "scan_kernel")


@triton.jit
def prefetch_rows(start, COUNT: tl.constexpr):
    """Ask for COUNT contiguous float16 values to be brought into L2, one request for every line of 128 bytes."""
    lines = tl.arange(0, COUNT // 64)
    addresses = (start + lines * 64).to(tl.int64)
    tl.inline_asm_elementwise(
        "prefetch.global.L2 [$1]; mov.u32 $0, 0;",
        "=r,l",
        [addresses],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


@triton.jit
def embed_kernel(tokens, table, x, xh, squares, WIDTH: tl.constexpr, PARTS: tl.constexpr):
    """One token's row of the table, as float32 to x and float16 to xh, and its sum of squares to squares."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, WIDTH)
    token = tl.load(tokens + row)
    value = tl.load(table + token * WIDTH + columns)
    tl.store(x + row * WIDTH + columns, value)
    tl.store(xh + row * WIDTH + columns, value.to(tl.float16))
    total = tl.sum(value * value, axis=0)
    parts = tl.arange(0, PARTS)
    tl.store(squares + row * PARTS + parts, tl.where(parts == 0, total, 0.0))


@triton.jit
def project_kernel(
    xh,
    squares,
    weight,
    p,
    sums,
    root,
    K: tl.constexpr,
    N: tl.constexpr,
    PARTS: tl.constexpr,
    COLS: tl.constexpr,
    ZERO: tl.constexpr,
    ZERO_BLOCK: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Product of xh (rows, K) and weight (N, K), scaled by row norms, SiLU on the upper half, to p (rows, N)."""
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    # weights depend on no kernel: fetch them while the one before still runs
    prefetch_rows(weight + pid_n * (BLOCK_N * K), BLOCK_N * K)
    tl.extra.cuda.gdc_wait()
    tl.extra.cuda.gdc_launch_dependents()
    # clear this layer's sums for the split product that follows
    z = tl.arange(0, ZERO_BLOCK)
    tl.store(sums + pid_m * (BLOCK_M * COLS) + pid_n * ZERO + z, tl.zeros((ZERO_BLOCK,), tl.float32), mask=z < ZERO)
    rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    ks = tl.arange(0, BLOCK_K)
    left = xh + rows[:, None] * K + ks[None, :]
    right = weight + columns[None, :] * K + ks[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, K, BLOCK_K):
        acc = tl.dot(tl.load(left + k), tl.load(right + k), acc)
    parts = tl.arange(0, PARTS)
    total = tl.sum(tl.load(squares + rows[:, None] * PARTS + parts[None, :]), axis=1)
    scale = root / (tl.sqrt(total) + 1e-5)
    acc = acc * scale[:, None]
    if pid_n * BLOCK_N >= N // 2:
        acc = acc * tl.sigmoid(acc)
    tl.store(p + rows[:, None] * N + columns[None, :], acc.to(tl.float16))


@triton.jit
def conv_kernel(
    p,
    filters,
    bias,
    weight,
    a,
    sums,
    tokens,
    WIDTH: tl.constexpr,
    COLS: tl.constexpr,
    COLS_PAD: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Causal convolution over 4 tokens of p's first half and SiLU, to a; add a's product with weight to sums."""
    pid_m = tl.program_id(0)
    pid_k = tl.program_id(1)
    rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = pid_k * BLOCK_K + tl.arange(0, BLOCK_K)
    outs = tl.arange(0, COLS_PAD)
    w = tl.load(weight + outs[None, :] * WIDTH + columns[:, None])
    b = tl.load(bias + columns)
    place = rows % tokens
    tl.extra.cuda.gdc_wait()
    tl.extra.cuda.gdc_launch_dependents()
    value = tl.zeros((BLOCK_M, BLOCK_K), tl.float32) + b[None, :]
    for j in tl.static_range(4):
        f = tl.load(filters + j * WIDTH + columns)
        before = tl.load(
            p + (rows - (3 - j))[:, None] * (2 * WIDTH) + columns[None, :],
            mask=(place >= 3 - j)[:, None] & (columns >= 0)[None, :],
            other=0.0,
        )
        value += before.to(tl.float32) * f[None, :]
    value = value * tl.sigmoid(value)
    half = value.to(tl.float16)
    tl.store(a + rows[:, None] * WIDTH + columns[None, :], half)
    part = tl.dot(half, w)
    tl.atomic_add(
        sums + rows[:, None] * COLS + outs[None, :],
        part,
        mask=(rows >= 0)[:, None] & (outs < COLS)[None, :],
        sem="relaxed",
    )


@triton.jit
def out_kernel(
    yg,
    weight,
    x,
    xh,
    squares,
    K: tl.constexpr,
    N: tl.constexpr,
    PARTS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Add the product of yg (rows, K) and weight (N, K) to x (rows, N); write xh and each block's squares."""
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    # weights depend on no kernel: fetch them while the scan still runs
    prefetch_rows(weight + pid_n * (BLOCK_N * K), BLOCK_N * K)
    tl.extra.cuda.gdc_wait()
    tl.extra.cuda.gdc_launch_dependents()
    rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    ks = tl.arange(0, BLOCK_K)
    left = yg + rows[:, None] * K + ks[None, :]
    right = weight + columns[None, :] * K + ks[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, K, BLOCK_K):
        acc = tl.dot(tl.load(left + k), tl.load(right + k), acc)
    where = rows[:, None] * N + columns[None, :]
    acc = acc + tl.load(x + where)
    tl.store(x + where, acc)
    tl.store(xh + where, acc.to(tl.float16))
    tl.store(squares + rows * PARTS + pid_n, tl.sum(acc * acc, axis=1))


@triton.jit
def head_kernel(
    xh,
    weight,
    logits,
    count,
    K: tl.constexpr,
    N: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Product of xh (rows, K) and weight (N, K), to the first count rows of logits (count, N) in float32."""
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    ks = tl.arange(0, BLOCK_K)
    left = xh + rows[:, None] * K + ks[None, :]
    right = weight + columns[None, :] * K + ks[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, K, BLOCK_K):
        acc = tl.dot(tl.load(left + k), tl.load(right + k), acc)
    where = rows.to(tl.int64)[:, None] * N + columns[None, :]
    tl.store(logits + where, acc, mask=(rows < count)[:, None] & (columns < N)[None, :])


class Plan:
    """Static buffers and the recorded layers of one input shape."""

    def __init__(self, batch, tokens, width, device):
        self.batch, self.length = batch, tokens
        self.rows = batch * tokens
        padded = -(-self.rows // PAD) * PAD
        half = {"dtype": torch.float16, "device": device}
        single = {"dtype": torch.float32, "device": device}
        self.tokens = torch.zeros(self.rows, dtype=torch.int64, device=device)
        self.x = torch.zeros(padded, width, **single)
        self.xh = torch.zeros(padded, width, **half)
        self.squares = torch.zeros(padded, width // BN_OUT, **single)
        self.p = torch.zeros(padded, 2 * width, **half)
        self.a = torch.zeros(padded, width, **half)
        self.sums = torch.zeros(padded, COLUMNS, **single)
        self.yg = torch.zeros(padded, width, **half)
        self.graph = None


class ModelNew(torch.nn.Module):
    """The language model: (batch, tokens) indices to (batch, tokens, vocabulary) logits."""

    def __init__(self, vocabulary, width, layers, state, rank):
        super().__init__()
        assert state == STATE and rank == RANK and width % 128 == 0 and vocabulary % 128 == 0
        assert width & (width - 1) == 0
        self.vocabulary, self.width, self.count = vocabulary, width, layers
        half, single = torch.float16, torch.float32
        self.register_buffer("table", torch.zeros(vocabulary, width, dtype=single))
        self.register_buffer("project", torch.zeros(layers, 2 * width, width, dtype=half))
        self.register_buffer("filters", torch.zeros(layers, 4, width, dtype=single))
        self.register_buffer("bias", torch.zeros(layers, width, dtype=single))
        self.register_buffer("small", torch.zeros(layers, 128, width, dtype=half))
        self.register_buffer("up", torch.zeros(layers, width, rank, dtype=half))
        self.register_buffer("skip", torch.zeros(layers, width, dtype=single))
        self.register_buffer("keep", torch.zeros(layers, width, state, dtype=single))
        self.register_buffer("out", torch.zeros(layers, width, width, dtype=half))
        self.register_buffer("head", torch.zeros(vocabulary, width, dtype=half))
        self.plans = {}

    @classmethod
    def from_reference(cls, model):
        """Copy the reference's weights, norms folded into the projections and A turned into exp(-A)."""
        table = model.embedding.weight.detach()
        vocabulary, width = table.shape
        layers = len(model.layers)
        first = model.layers[0]
        new = cls(vocabulary, width, layers, first.A.shape[1], first.step_down.weight.shape[0])
        new = new.to(table.device)
        with torch.no_grad():
            new.table.copy_(table)
            new.head.copy_(model.output.weight)
            for i in range(layers):
                layer, norm = model.layers[i], model.norms[i]
                new.project[i].copy_(layer.project.weight * norm.weight[None, :])
                new.filters[i].copy_(layer.convolution.weight[:, 0, :].t())
                new.bias[i].copy_(layer.convolution.bias)
                new.small[i, :STATE].copy_(layer.write.weight)
                new.small[i, STATE : 2 * STATE].copy_(layer.read.weight)
                new.small[i, 2 * STATE : COLUMNS].copy_(layer.step_down.weight)
                new.up[i].copy_(layer.step_up.weight)
                new.skip[i].copy_(layer.D)
                new.keep[i].copy_(torch.exp(-layer.A))
                new.out[i].copy_(layer.out.weight)
        return new

    def run_layers(self, plan):
        """Launch the embedding of plan.tokens and all layers; the last stream is left in plan.x and plan.xh."""
        width, rows = self.width, plan.rows
        parts = width // BN_OUT
        blocks_m = triton.cdiv(rows, BM)
        blocks_n = 2 * width // BN_PROJECT
        zero = triton.cdiv(BM * COLUMNS, blocks_n)
        while BM * COLUMNS % zero:
            zero += 1
        scan = scan_kernel()
        embed_kernel[(rows,)](
            plan.tokens, self.table, plan.x, plan.xh, plan.squares, WIDTH=width, PARTS=parts, num_warps=4
        )
        for i in range(self.count):
            project_kernel[(blocks_m, blocks_n)](
                plan.xh,
                plan.squares,
                self.project[i],
                plan.p,
                plan.sums,
                math.sqrt(width),
                K=width,
                N=2 * width,
                PARTS=parts,
                COLS=COLUMNS,
                ZERO=zero,
                ZERO_BLOCK=triton.next_power_of_2(zero),
                BLOCK_M=BM,
                BLOCK_N=BN_PROJECT,
                BLOCK_K=BK,
                num_warps=4,
                num_stages=4,
                launch_pdl=True,
            )
            conv_kernel[(triton.cdiv(rows, CONV_ROWS), width // CONV_K)](
                plan.p,
                self.filters[i],
                self.bias[i],
                self.small[i],
                plan.a,
                plan.sums,
                plan.length,
                WIDTH=width,
                COLS=COLUMNS,
                COLS_PAD=128,
                BLOCK_M=CONV_ROWS,
                BLOCK_K=CONV_K,
                num_warps=8,
                launch_pdl=True,
            )
            scan(
                (width // 16, plan.batch, 1),
                (256, 1, 1),
                (plan.sums, plan.a, plan.p, self.up[i], self.skip[i], self.keep[i], plan.yg, plan.length, width),
            )
            out_kernel[(blocks_m, width // BN_OUT)](
                plan.yg,
                self.out[i],
                plan.x,
                plan.xh,
                plan.squares,
                K=width,
                N=width,
                PARTS=parts,
                BLOCK_M=BM,
                BLOCK_N=BN_OUT,
                BLOCK_K=BK,
                num_warps=4,
                num_stages=4,
                launch_pdl=True,
            )

    def record(self, batch, tokens, device):
        """Make a plan for (batch, tokens), run its layers twice, then record them as a CUDA graph."""
        plan = Plan(batch, tokens, self.width, device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.run_layers(plan)
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.run_layers(plan)
        plan.graph = graph
        return plan

    def forward(self, tokens):
        """(batch, tokens) indices to (batch, tokens, vocabulary) logits in float32."""
        batch, length = tokens.shape
        if batch * length == 0:
            return torch.empty(batch, length, self.vocabulary, dtype=torch.float32, device=tokens.device)
        key = (batch, length, tokens.device)
        plan = self.plans.get(key)
        if plan is None:
            if len(self.plans) >= MOST_GRAPHS:
                torch.cuda.synchronize()
                self.plans.pop(next(iter(self.plans)))
            plan = self.record(batch, length, tokens.device)
            self.plans[key] = plan
        plan.tokens.copy_(tokens.reshape(-1))
        plan.graph.replay()
        logits = torch.empty(batch, length, self.vocabulary, dtype=torch.float32, device=tokens.device)
        head_kernel[(triton.cdiv(plan.rows, 128), self.vocabulary // 128)](
            plan.xh,
            self.head,
            logits,
            plan.rows,
            K=self.width,
            N=self.vocabulary,
            BLOCK_M=128,
            BLOCK_N=128,
            BLOCK_K=64,
            num_warps=4,
            num_stages=3,
        )
        return logits
