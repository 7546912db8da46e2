"""ViT-B/16 in 16 bits and one CUDA graph, with attention in registers and a last block for the class token.

What it does: the network of `zoo/vit_b_16` on 16 images of 224 x 224. Blocks 1 to 11 run for all 197 tokens.
Block 12 computes keys and values for all tokens. The rest of it runs for the class token alone, because the
head reads no other.

What made it fast: attention is a CUDA kernel that pads 197 keys to 208 and keeps scores, softmax and weights
in registers. Products have 16-bit factors and run on tensor cores. Before it records its CUDA graph, the
model measures cuBLAS against five tilings of a Triton kernel for each kind of product, and three ways to
split the queries in attention. The Triton kernel applies bias, GELU or residual in registers. Biases of the
residual stream are summed beforehand and added inside the layer norms, where each row has one warp.

Accuracy: weights, images, activations, the residual stream and the logits are rounded to 16 bits. Sums of
products, layer norms and softmax have 32 bits. The weights of attention are rounded to 16 bits before they
meet the values; their sum is not.

Limits: ViT-B/16 with 16 images of 3 x 224 x 224, inference only, on one GPU a process. Written for compute
capability 9.0 (Hopper). The Triton kernel needs 9.0, because its tiles move by tensor descriptor.

Author: a coding agent, in a search by the strategy pike-x (result.json says which).
Licence: Apache-2.0.
"""

import functools

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

BATCH, TOKENS, LAYERS, HEADS, WIDTH, HIDDEN = 16, 197, 12, 12, 768, 3072
ROWS = BATCH * TOKENS
ATTENTION_BYTES = 2 * 208 * 128

ATTENTION = r"""
#include <cuda_fp16.h>
constexpr int T = 197, TP = 208, NT = 26, HEADS = 12;

__device__ __forceinline__ void copy16(unsigned dst, const __half* src, int size) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(dst), "l"(src), "r"(size) : "memory");
}
__device__ __forceinline__ void mma(float* c, const unsigned* a, unsigned b0, unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ float power2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ unsigned pack(float a, float b) {
  __half2 h = __floats2half2_rn(a, b);
  return *reinterpret_cast<unsigned*>(&h);
}

extern "C" __global__ void __launch_bounds__(@WARPS@ * 32, @BLOCKS@)
attention(const __half* q, int q_token, int q_image, const __half* kv, int kv_token, int k_off, int v_off,
          __half* out, int queries) {
  extern __shared__ __align__(128) unsigned char shared[];
  const unsigned ks = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  const unsigned vs = ks + TP * 128;
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
  const int image = blockIdx.x / HEADS, head = blockIdx.x % HEADS;
  const __half* base = kv + static_cast<long long>(image) * T * kv_token + head * 64;

  for (int i = tid; i < TP * 8; i += @WARPS@ * 32) {
    const int row = i >> 3, ch = i & 7;
    copy16(ks + row * 128 + ((ch ^ (row & 7)) << 4), base + k_off + min(row, T - 1) * kv_token + ch * 8,
           row < T ? 16 : 0);
  }
  asm volatile("cp.async.commit_group;\n" ::: "memory");
  for (int i = tid; i < TP * 8; i += @WARPS@ * 32) {
    const int row = i >> 3, ch = i & 7;
    copy16(vs + row * 128 + ((ch ^ (row & 7)) << 4), base + v_off + min(row, T - 1) * kv_token + ch * 8,
           row < T ? 16 : 0);
  }
  asm volatile("cp.async.commit_group;\n" ::: "memory");

  const int tile = blockIdx.y + warp * gridDim.y;
  const bool active = tile * 16 < queries;
  const int g = lane >> 2, t = lane & 3;
  const int row0 = tile * 16 + g, row1 = row0 + 8;
  unsigned qa[4][4];
  const __half* qb = q + static_cast<long long>(image) * q_image + head * 64 + 2 * t;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    qa[k][0] = row0 < queries ? *reinterpret_cast<const unsigned*>(qb + row0 * q_token + k * 16) : 0u;
    qa[k][1] = row1 < queries ? *reinterpret_cast<const unsigned*>(qb + row1 * q_token + k * 16) : 0u;
    qa[k][2] = row0 < queries ? *reinterpret_cast<const unsigned*>(qb + row0 * q_token + k * 16 + 8) : 0u;
    qa[k][3] = row1 < queries ? *reinterpret_cast<const unsigned*>(qb + row1 * q_token + k * 16 + 8) : 0u;
  }
  asm volatile("cp.async.wait_group 1;\n" ::: "memory");
  __syncthreads();
  if (!active) {
    asm volatile("cp.async.wait_group 0;\n" ::: "memory");
    __syncthreads();
    return;
  }

  float s[NT][4];
  const int r8 = lane & 7, m = lane >> 3;
  const unsigned k0 = ks + r8 * 128 + ((m ^ r8) << 4), k1 = ks + r8 * 128 + (((m + 4) ^ r8) << 4);
#pragma unroll
  for (int j = 0; j < NT; ++j) {
    s[j][0] = s[j][1] = s[j][2] = s[j][3] = 0.0f;
    unsigned b0, b1, b2, b3;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(b0), "=r"(b1), "=r"(b2), "=r"(b3) : "r"(k0 + j * 1024) : "memory");
    mma(s[j], qa[0], b0, b1);
    mma(s[j], qa[1], b2, b3);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(b0), "=r"(b1), "=r"(b2), "=r"(b3) : "r"(k1 + j * 1024) : "memory");
    mma(s[j], qa[2], b0, b1);
    mma(s[j], qa[3], b2, b3);
  }

  const float lowest = __int_as_float(0xff800000);
#pragma unroll
  for (int j = T / 8; j < NT; ++j) {
    const int col = j * 8 + 2 * t;
    if (col >= T) s[j][0] = s[j][2] = lowest;
    if (col + 1 >= T) s[j][1] = s[j][3] = lowest;
  }
  float m0 = lowest, m1 = lowest;
#pragma unroll
  for (int j = 0; j < NT; ++j) {
    m0 = fmaxf(m0, fmaxf(s[j][0], s[j][1]));
    m1 = fmaxf(m1, fmaxf(s[j][2], s[j][3]));
  }
  m0 = fmaxf(m0, __shfl_xor_sync(0xffffffffu, m0, 1));
  m1 = fmaxf(m1, __shfl_xor_sync(0xffffffffu, m1, 1));
  m0 = fmaxf(m0, __shfl_xor_sync(0xffffffffu, m0, 2));
  m1 = fmaxf(m1, __shfl_xor_sync(0xffffffffu, m1, 2));
  const float c = 0.125f * 1.4426950408889634f;
  const float c0 = m0 * c, c1 = m1 * c;
  float sum0 = 0.0f, sum1 = 0.0f;
  unsigned p[NT][2];
#pragma unroll
  for (int j = 0; j < NT; ++j) {
    const float e0 = power2(fmaf(s[j][0], c, -c0)), e1 = power2(fmaf(s[j][1], c, -c0));
    const float e2 = power2(fmaf(s[j][2], c, -c1)), e3 = power2(fmaf(s[j][3], c, -c1));
    sum0 += e0 + e1;
    sum1 += e2 + e3;
    p[j][0] = pack(e0, e1);
    p[j][1] = pack(e2, e3);
  }
  sum0 += __shfl_xor_sync(0xffffffffu, sum0, 1);
  sum1 += __shfl_xor_sync(0xffffffffu, sum1, 1);
  sum0 += __shfl_xor_sync(0xffffffffu, sum0, 2);
  sum1 += __shfl_xor_sync(0xffffffffu, sum1, 2);

  asm volatile("cp.async.wait_group 0;\n" ::: "memory");
  __syncthreads();

  float o[8][4];
#pragma unroll
  for (int d = 0; d < 8; ++d) o[d][0] = o[d][1] = o[d][2] = o[d][3] = 0.0f;
  const unsigned vrow = vs + ((m & 1) * 8 + r8) * 128;
#pragma unroll
  for (int k = 0; k < NT / 2; ++k) {
    const unsigned a[4] = {p[2 * k][0], p[2 * k][1], p[2 * k + 1][0], p[2 * k + 1][1]};
#pragma unroll
    for (int d = 0; d < 4; ++d) {
      unsigned b0, b1, b2, b3;
      const unsigned address = vrow + k * 2048 + (((d * 2 + (m >> 1)) ^ r8) << 4);
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                   : "=r"(b0), "=r"(b1), "=r"(b2), "=r"(b3) : "r"(address) : "memory");
      mma(o[2 * d], a, b0, b1);
      mma(o[2 * d + 1], a, b2, b3);
    }
  }
  const float i0 = 1.0f / sum0, i1 = 1.0f / sum1;
  __half* ob = out + static_cast<long long>(image) * queries * 768 + head * 64 + 2 * t;
#pragma unroll
  for (int d = 0; d < 8; ++d) {
    if (row0 < queries) *reinterpret_cast<unsigned*>(ob + row0 * 768 + d * 8) = pack(o[d][0] * i0, o[d][1] * i0);
    if (row1 < queries) *reinterpret_cast<unsigned*>(ob + row1 * 768 + d * 8) = pack(o[d][2] * i1, o[d][3] * i1);
  }
}
"""

NORM = r"""
#include <cuda_fp16.h>
// one warp a row of 768: (x + shift) normalised; shift is the sum of the biases that the residual stream leaves out
// (not called "norm": CUDA's math header declares a function of that name with C linkage)
extern "C" __global__ void __launch_bounds__(256)
layer_norm_rows(const __half* x, const float* shift, const float* weight, const float* bias, __half* out, int rows,
                double eps) {
  const int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x & 31;
  if (row >= rows) return;
  const __half* in = x + static_cast<long long>(row) * 768;
  float v[24];
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < 3; ++k) {
    const int col = k * 256 + lane * 8;
    const uint4 raw = *reinterpret_cast<const uint4*>(in + col);
    const unsigned part[4] = {raw.x, raw.y, raw.z, raw.w};
    const float4 s0 = *reinterpret_cast<const float4*>(shift + col);
    const float4 s1 = *reinterpret_cast<const float4*>(shift + col + 4);
    const float add[8] = {s0.x, s0.y, s0.z, s0.w, s1.x, s1.y, s1.z, s1.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 f = __half22float2(*reinterpret_cast<const __half2*>(&part[i]));
      v[k * 8 + 2 * i] = f.x + add[2 * i];
      v[k * 8 + 2 * i + 1] = f.y + add[2 * i + 1];
      sum += v[k * 8 + 2 * i] + v[k * 8 + 2 * i + 1];
    }
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  const float mean = sum * (1.0f / 768.0f);
  float square = 0.0f;
#pragma unroll
  for (int i = 0; i < 24; ++i) {
    v[i] -= mean;
    square += v[i] * v[i];
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) square += __shfl_xor_sync(0xffffffffu, square, step);
  const float factor = rsqrtf(square * (1.0f / 768.0f) + static_cast<float>(eps));
  __half* to = out + static_cast<long long>(row) * 768;
#pragma unroll
  for (int k = 0; k < 3; ++k) {
    const int col = k * 256 + lane * 8;
    const float4 w0 = *reinterpret_cast<const float4*>(weight + col);
    const float4 w1 = *reinterpret_cast<const float4*>(weight + col + 4);
    const float4 b0 = *reinterpret_cast<const float4*>(bias + col);
    const float4 b1 = *reinterpret_cast<const float4*>(bias + col + 4);
    const float w[8] = {w0.x, w0.y, w0.z, w0.w, w1.x, w1.y, w1.z, w1.w};
    const float b[8] = {b0.x, b0.y, b0.z, b0.w, b1.x, b1.y, b1.z, b1.w};
    unsigned part[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const __half2 h = __floats2half2_rn(v[k * 8 + 2 * i] * factor * w[2 * i] + b[2 * i],
                                          v[k * 8 + 2 * i + 1] * factor * w[2 * i + 1] + b[2 * i + 1]);
      part[i] = *reinterpret_cast<const unsigned*>(&h);
    }
    *reinterpret_cast<uint4*>(to + col) = make_uint4(part[0], part[1], part[2], part[3]);
  }
}
"""

# warps of a block -> (blocks a multiprocessor should hold, blocks that share a head's queries)
SPLITS = {4: (3, 4), 7: (2, 2), 13: (1, 1)}


@functools.cache
def attention_kernel(warps):
    """Compile the attention kernel for blocks of so many warps; the result is cached."""
    source = ATTENTION.replace("@WARPS@", str(warps)).replace("@BLOCKS@", str(SPLITS[warps][0]))
    kernel = torch.cuda._compile_kernel(source, "attention")
    kernel.set_shared_memory_config(ATTENTION_BYTES)
    return kernel


@functools.cache
def norm_kernel():
    """Compile the layer norm kernel for rows of 768; the result is cached."""
    return torch.cuda._compile_kernel(NORM, "layer_norm_rows")


@triton.jit
def gemm_kernel(
    a,
    w,
    c,
    bias,
    M,
    N,  # noqa: ARG001
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GELU: tl.constexpr,
    ADD: tl.constexpr,
):
    """One (BM, BN) tile of c (M, N): a (M, K) times w (N, K) transposed, plus c if ADD, else bias; GELU if asked."""
    pid = tl.program_id(0)
    tiles = tl.cdiv(M, BM)
    row = (pid % tiles) * BM
    col = (pid // tiles) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        left = a.load([row, k])
        right = w.load([col, k])
        acc = tl.dot(left, right.T, acc)
    if ADD:
        acc += c.load([row, col]).to(tl.float32)
    else:
        acc += tl.load(bias + col + tl.arange(0, BN))[None, :]
    if GELU:
        acc = 0.5 * acc * (1.0 + tl.erf(acc * 0.7071067811865476))
    c.store([row, col], acc.to(tl.float16))


CONFIGS = [  # rows, columns, depth, warps, stages
    (128, 256, 64, 8, 3),
    (128, 256, 64, 8, 4),
    (128, 128, 64, 4, 3),
    (128, 128, 64, 8, 4),
    (64, 128, 64, 4, 4),
]


def triton_gemm(config, kind, a, w, bias, bias16, c):  # noqa: ARG001
    """Write a (m, k) times w (n, k) transposed to c (m, n) by Triton: plus bias, its GELU, or added to c."""
    bm, bn, bk, warps, stages = config
    (m, k), n = a.shape, w.shape[0]
    grid = (triton.cdiv(m, bm) * (n // bn),)
    gemm_kernel[grid](
        TensorDescriptor.from_tensor(a, [bm, bk]),
        TensorDescriptor.from_tensor(w, [bn, bk]),
        TensorDescriptor.from_tensor(c, [bm, bn]),
        bias,
        m,
        n,
        k,
        BM=bm,
        BN=bn,
        BK=bk,
        GELU=kind == "gelu",
        ADD=kind == "add",
        num_warps=warps,
        num_stages=stages,
    )


def library_gemm(kind, a, w, bias, bias16, c):  # noqa: ARG001
    """Write a (m, k) times w (n, k) transposed to c (m, n) by addmm: plus bias16, its GELU, or added to c."""
    if kind == "add":
        c.addmm_(a, w.t())
        return
    torch.addmm(bias16, a, w.t(), out=c)
    if kind == "gelu":
        torch.ops.aten.gelu_(c)


def timed(function):
    """Milliseconds of ten launches inside a graph."""
    function()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(10):
            function()
    graph.replay()
    torch.cuda.synchronize()
    best = float("inf")
    for _ in range(3):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        best = min(best, start.elapsed_time(end))
    return best


def path(root, name):
    """Look up the attribute of root that a dotted name leads to."""
    return functools.reduce(getattr, name.split("."), root)


class ModelNew(torch.nn.Module):
    """ViT-B/16 in 16 bits for 16 images, recorded as a CUDA graph at the first call."""

    def __init__(self):
        super().__init__()
        self.graph = None
        self.eps = [1e-6] * (2 * LAYERS + 1)

    @classmethod
    def from_reference(cls, model):
        """Copy the reference's weights, matrices in 16 bits, and sum the biases that the layer norms add."""
        self = cls()
        net = model.net
        half, single = torch.float16, torch.float32

        def keep(name, value, dtype):
            self.register_buffer(name, value.detach().to(dtype).clone().contiguous())

        layers = [getattr(net.encoder.layers, f"encoder_layer_{i}") for i in range(LAYERS)]

        def stack(name):
            return torch.stack([path(layer, name).detach() for layer in layers])

        keep("w_patch", net.conv_proj.weight.reshape(WIDTH, WIDTH), half)
        base = net.encoder.pos_embedding.detach()[0].clone()
        base[1:] += net.conv_proj.bias.detach()
        base[0] += net.class_token.detach().reshape(WIDTH)
        keep("base", base, half)
        keep("w_qkv", stack("self_attention.in_proj_weight"), half)
        keep("b_qkv", stack("self_attention.in_proj_bias"), single)
        keep("b_qkv16", stack("self_attention.in_proj_bias"), half)
        keep("w_out", stack("self_attention.out_proj.weight"), half)
        keep("w_fc1", stack("mlp.0.weight"), half)
        keep("b_fc1", stack("mlp.0.bias"), single)
        keep("b_fc116", stack("mlp.0.bias"), half)
        keep("w_fc2", stack("mlp.3.weight"), half)
        keep("w_head", net.heads.head.weight, half)
        keep("b_head16", net.heads.head.bias, half)
        norms, shifts = [], []
        shift = torch.zeros_like(layers[0].ln_1.bias.detach())
        for layer in layers:
            norms.append(layer.ln_1)
            shifts.append(shift)
            shift = shift + layer.self_attention.out_proj.bias.detach()
            norms.append(layer.ln_2)
            shifts.append(shift)
            shift = shift + path(layer, "mlp.3.bias").detach()
        norms.append(net.encoder.ln)
        shifts.append(shift)
        keep("ln_w", torch.stack([n.weight.detach() for n in norms]), single)
        keep("ln_b", torch.stack([n.bias.detach() for n in norms]), single)
        keep("shift", torch.stack(shifts), single)
        self.eps = [float(getattr(n, "eps", 1e-6)) for n in norms]
        return self

    def norm(self, x, index, out):
        """Write the layer norm of that index of x + shift to out, both (rows, 768)."""
        rows = x.shape[0]
        norm_kernel()(
            ((rows + 7) // 8, 1, 1),
            (256, 1, 1),
            (x, self.shift[index], self.ln_w[index], self.ln_b[index], out, rows, self.eps[index]),
        )

    def attend(self, warps, q, q_token, q_image, kv, kv_token, k_off, v_off, out, queries):
        """Attend from each image's first queries in q to 197 keys and values in kv; out is (16 * queries, 768)."""
        splits = SPLITS[warps][1] if queries > 16 else 1
        attention_kernel(warps)(
            (BATCH * HEADS, splits, 1),
            (warps * 32, 1, 1),
            (q, q_token, q_image, kv, kv_token, k_off, v_off, out, queries),
            shared_mem=ATTENTION_BYTES,
        )

    def attend_all(self, warps):
        """Attend from all tokens to all tokens: self.qkv, (3152, 2304), to self.mixed, (3152, 768)."""
        self.attend(
            warps, self.qkv, 3 * WIDTH, TOKENS * 3 * WIDTH, self.qkv, 3 * WIDTH, WIDTH, 2 * WIDTH, self.mixed, TOKENS
        )

    def choose(self):
        """The fastest way to run each product of this shape on this device."""
        for tensor in (self.normed, self.mixed, self.hidden, self.qkv):
            tensor.normal_()
        self.x.zero_()
        roles = {
            "qkv": ("bias", self.normed, self.w_qkv[0], self.b_qkv[0], self.b_qkv16[0], self.qkv),
            "fc1": ("gelu", self.normed, self.w_fc1[0], self.b_fc1[0], self.b_fc116[0], self.hidden),
            "out": ("add", self.mixed, self.w_out[0], self.ln_b[0], None, self.x),
            "fc2": ("add", self.hidden, self.w_fc2[0], self.ln_b[0], None, self.x),
        }
        self.products = {}
        for role, (kind, *tensors) in roles.items():
            self.hidden.normal_() if role == "fc2" else None
            candidates = [functools.partial(library_gemm, kind)]
            candidates += [functools.partial(triton_gemm, config, kind) for config in CONFIGS]
            best, chosen = float("inf"), candidates[0]
            for candidate in candidates:
                try:
                    spent = timed(lambda: candidate(*tensors))  # noqa: B023
                except triton.runtime.errors.OutOfResources:
                    continue
                if spent < best:
                    best, chosen = spent, candidate
            self.products[role] = chosen
        self.qkv.normal_()
        self.warps = min(SPLITS, key=lambda warps: timed(lambda: self.attend_all(warps)))

    def compute(self):
        """Patches in self.patches, (3152, 768), to (16, classes) scores in 16 bits."""
        x, normed, qkv, mixed, hidden, run = self.x, self.normed, self.qkv, self.mixed, self.hidden, self.products
        x.view(BATCH, TOKENS, WIDTH).copy_(self.base)
        run["out"](self.patches, self.w_patch, self.ln_b[0], None, x)
        for i in range(LAYERS - 1):
            self.norm(x, 2 * i, normed)
            run["qkv"](normed, self.w_qkv[i], self.b_qkv[i], self.b_qkv16[i], qkv)
            self.attend_all(self.warps)
            run["out"](mixed, self.w_out[i], self.ln_b[0], None, x)
            self.norm(x, 2 * i + 1, normed)
            run["fc1"](normed, self.w_fc1[i], self.b_fc1[i], self.b_fc116[i], hidden)
            run["fc2"](hidden, self.w_fc2[i], self.ln_b[0], None, x)
        # the last layer: only the class token goes on
        i = LAYERS - 1
        self.norm(x, 2 * i, normed)
        run["qkv"](normed, self.w_qkv[i, WIDTH:], self.b_qkv[i, WIDTH:], self.b_qkv16[i, WIDTH:], self.kv)
        first = normed.view(BATCH, TOKENS, WIDTH)[:, 0]
        q = torch.addmm(self.b_qkv16[i, :WIDTH], first, self.w_qkv[i, :WIDTH].t())
        self.attend(self.warps, q, WIDTH, WIDTH, self.kv, 2 * WIDTH, 0, WIDTH, self.few, 1)
        y = torch.addmm(x.view(BATCH, TOKENS, WIDTH)[:, 0], self.few, self.w_out[i].t())
        self.norm(y, 2 * i + 1, self.few_normed)
        wide = torch.nn.functional.gelu(torch.addmm(self.b_fc116[i], self.few_normed, self.w_fc1[i].t()))
        y = torch.addmm(y, wide, self.w_fc2[i].t())
        self.norm(y, 2 * LAYERS, self.few_normed)
        return torch.addmm(self.b_head16, self.few_normed, self.w_head.t())

    def record(self, device):
        """Allocate the buffers, choose the fastest kernels and record compute as a CUDA graph."""

        def empty(*shape):
            return torch.zeros(shape, dtype=torch.float16, device=device)

        self.patches = empty(ROWS, WIDTH)  # the class token's rows stay zero
        self.x, self.normed, self.mixed = empty(ROWS, WIDTH), empty(ROWS, WIDTH), empty(ROWS, WIDTH)
        self.qkv, self.kv, self.hidden = empty(ROWS, 3 * WIDTH), empty(ROWS, 2 * WIDTH), empty(ROWS, HIDDEN)
        self.few, self.few_normed = empty(BATCH, WIDTH), empty(BATCH, WIDTH)
        self.slots = self.patches.view(BATCH, TOKENS, WIDTH)[:, 1:].view(BATCH, 14, 14, 3, 16, 16)
        matmul = torch.backends.cuda.matmul
        before = matmul.allow_fp16_reduced_precision_reduction
        matmul.allow_fp16_reduced_precision_reduction = False
        try:
            self.choose()
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(2):
                    self.compute()
            torch.cuda.current_stream().wait_stream(side)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.result = self.compute()
            self.graph = graph
        finally:
            matmul.allow_fp16_reduced_precision_reduction = before

    @torch.no_grad()
    def forward(self, images):
        """(16, 3, 224, 224) images to (16, classes) scores in float32; the first call records the graph."""
        if self.graph is None:
            self.record(images.device)
        self.slots.copy_(images.view(BATCH, 3, 14, 16, 14, 16).permute(0, 2, 4, 1, 3, 5))
        self.graph.replay()
        return self.result.float()
