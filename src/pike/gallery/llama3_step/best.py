"""A decoding step of Llama 3 as a chain of kernels that ask for their weights before the kernel before is done.

What it does: the step of `zoo/llama3_step` at precision half. One new token for each of 4 prompts of 1024
cached positions goes through 12 layers of width 1024, with 16 query heads and 4 key heads, to logits over
32000 entries. 62 kernels in CUDA C++, replayed as one CUDA graph: embedding, five for each layer, and the head.

What made it fast: weights and cache are 16 bits wide, and a step reads each of them once. With programmatic
dependent launch a kernel may start while the one before it runs. Before `griddepcontrol.wait` each thread of a
layer's kernels asks for its whole share of weights or cache, into registers (in the head for a quarter of it).
Weights lie in memory in the order in which tensor cores take them, and go from there to registers directly. Each
attention block serves the 4 heads that share a key head; 8 blocks split the positions, and the last one merges.

Accuracy: weights, cached keys and values, and the vectors that meet weights are rounded to 16 bits. Sums,
residual stream, norms, rotation, scores, softmax, the new key and value, and logits have 32 bits, as has the
embedding table. Norm weights are folded into the matrices in 32 bits before rounding. Sums have a fixed order.

Limits: these shapes only, position 1024 only, no check of shapes or types: an input of shape (1, 1) is repeated
for all prompts, and an id out of range reads beyond the table. Compute capability 9.0 (Hopper), and a CUDA that
captures programmatic launch into graphs. The cache is a copy, only read, never extended. Calls share buffers:
one stream, one call at a time, on the current GPU. The first call records the graph; later only a moved `wqkv`
makes it record again, so write other buffers in place. Do not cast the module (`half()`, `float()`): the kernels
read raw pointers. No kernel spins on a barrier, but a launch that is cut short may leave a counter of attention
wrong. Inference only, without biases or masks.

Author: a coding agent, in a search by the strategy pike-b (result.json says which).
Licence: Apache-2.0.
"""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

BATCH = 4
PROMPT = 1024
WIDTH = 1024
LAYERS = 12
HEADS = 16
KEY_HEADS = 4
HIDDEN = 2816
VOCABULARY = 32000
HEAD_DIM = WIDTH // HEADS
QKV = WIDTH + 2 * KEY_HEADS * HEAD_DIM

CPP_SOURCE = r"""
#include <vector>
void decode_step(std::vector<torch::Tensor> t, double eps);
"""

CUDA_SOURCE = r"""
#include <torch/types.h>
#include <vector>
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>

constexpr int WIDTH = 1024;
constexpr int QKVN = 1536;
constexpr int HIDDEN = 2816;
constexpr int VOCAB = 32000;
constexpr int LAYERS = 12;
constexpr int PROMPT = 1024;
constexpr int SPLITS = 8;
constexpr int XSTRIDE = 1056;

__device__ __forceinline__ void pdl_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ __forceinline__ void pdl_launch() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

__device__ __forceinline__ uint4 ldw(const uint4* p) {
    uint4 r;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "l"(p));
    return r;
}

// rows 0..7 of A hold activations (4 used), rows 8..15 are zero; B holds 8 weight rows
__device__ __forceinline__ void mma(float (&c)[4], unsigned a0, unsigned a2, unsigned b0, unsigned b1) {
    const unsigned z = 0u;
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(z), "r"(a2), "r"(z), "r"(b0), "r"(b1));
}

__device__ __forceinline__ unsigned pack2(float a, float b) {
    __half2 v = __floats2half2_rn(a, b);
    return *reinterpret_cast<unsigned*>(&v);
}

__device__ __forceinline__ void unpack8(const uint4& u, float (&f)[8]) {
    const __half2* p = reinterpret_cast<const __half2*>(&u);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float2 v = __half22float2(p[i]);
        f[2 * i] = v.x;
        f[2 * i + 1] = v.y;
    }
}

// RMSNorm (weight folded into the matrix) of 4 rows of 1024 into shared float16
__device__ __forceinline__ void norm_to_smem(const float* h, __half* xs, float* ss, float eps) {
    const int tid = threadIdx.x, b = tid >> 6, j = tid & 63;
    const float4* p = reinterpret_cast<const float4*>(h + b * WIDTH);
    float4 v[4];
#pragma unroll
    for (int i = 0; i < 4; i++) v[i] = __ldcg(p + j + 64 * i);
    float s = 0.f;
#pragma unroll
    for (int i = 0; i < 4; i++) s += v[i].x * v[i].x + v[i].y * v[i].y + v[i].z * v[i].z + v[i].w * v[i].w;
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) s += __shfl_xor_sync(0xffffffffu, s, o);
    if ((tid & 31) == 0) ss[tid >> 5] = s;
    __syncthreads();
    const float r = rsqrtf((ss[2 * b] + ss[2 * b + 1]) * (1.0f / WIDTH) + eps);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint2 o;
        o.x = pack2(v[i].x * r, v[i].y * r);
        o.y = pack2(v[i].z * r, v[i].w * r);
        *reinterpret_cast<uint2*>(xs + b * XSTRIDE + (j + 64 * i) * 4) = o;
    }
    __syncthreads();
}

__global__ void __launch_bounds__(256) embed_kernel(const long long* ids, const float* emb, float* h) {
    pdl_launch();
    pdl_wait();
    const int b = blockIdx.x;
    const long long id = ids[b];
    const float4* src = reinterpret_cast<const float4*>(emb + id * WIDTH);
    reinterpret_cast<float4*>(h + b * WIDTH)[threadIdx.x] = src[threadIdx.x];
}

// MODE 0: out float (4, 1536). MODE 1: tiles are (gate, up) pairs, out half (4, 2816) = silu(gate) * up.
template <int NT, int MODE>
__global__ void __launch_bounds__(256) norm_gemv(const uint4* W, const float* h, void* out, float eps) {
    __shared__ __align__(16) __half xs[4 * XSTRIDE];
    __shared__ float ss[8];
    __shared__ float red[8][NT][4][8];
    const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31, g = lane >> 2, t = lane & 3;
    uint4 w[NT][4];
#pragma unroll
    for (int n = 0; n < NT; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            w[n][i] = ldw(W + ((size_t)(blockIdx.x * NT + n) * 32 + warp * 4 + i) * 32 + lane);
    pdl_launch();
    pdl_wait();
    norm_to_smem(h, xs, ss, eps);
    float c[NT][4];
#pragma unroll
    for (int n = 0; n < NT; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) c[n][i] = 0.f;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint4 x = make_uint4(0u, 0u, 0u, 0u);
        if (g < 4) x = *reinterpret_cast<const uint4*>(xs + g * XSTRIDE + (warp * 4 + i) * 32 + t * 8);
#pragma unroll
        for (int n = 0; n < NT; n++) {
            mma(c[n], x.x, x.y, w[n][i].x, w[n][i].y);
            mma(c[n], x.z, x.w, w[n][i].z, w[n][i].w);
        }
    }
    if (g < 4) {
#pragma unroll
        for (int n = 0; n < NT; n++) {
            red[warp][n][g][2 * t] = c[n][0];
            red[warp][n][g][2 * t + 1] = c[n][1];
        }
    }
    __syncthreads();
    if (tid < 32) {
        const int b = tid >> 3, col = tid & 7;
        float s[NT];
#pragma unroll
        for (int n = 0; n < NT; n++) {
            s[n] = 0.f;
#pragma unroll
            for (int k = 0; k < 8; k++) s[n] += red[k][n][b][col];
        }
        if (MODE == 0) {
            reinterpret_cast<float*>(out)[b * QKVN + blockIdx.x * 8 + col] = s[0];
        } else {
            const float gate = s[0], up = s[NT - 1];
            const float a = gate / (1.0f + __expf(-gate)) * up;
            reinterpret_cast<__half*>(out)[b * HIDDEN + blockIdx.x * 8 + col] = __float2half_rn(a);
        }
    }
}

// h (4, 1024) += X (4, KS*256) @ W^T
template <int KS>
__global__ void __launch_bounds__(256) proj_kernel(const uint4* W, const __half* X, float* h) {
    __shared__ float red[8][4][8];
    constexpr int K = KS * 256;
    const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31, g = lane >> 2, t = lane & 3;
    uint4 w[KS];
#pragma unroll
    for (int i = 0; i < KS; i++)
        w[i] = ldw(W + ((size_t)blockIdx.x * (KS * 8) + warp * KS + i) * 32 + lane);
    pdl_launch();
    pdl_wait();
    float res = 0.f;
    if (tid < 32) res = __ldcg(h + (tid >> 3) * WIDTH + blockIdx.x * 8 + (tid & 7));
    uint4 x[KS];
#pragma unroll
    for (int i = 0; i < KS; i++) {
        x[i] = make_uint4(0u, 0u, 0u, 0u);
        if (g < 4) x[i] = __ldcg(reinterpret_cast<const uint4*>(X + g * K + (warp * KS + i) * 32 + t * 8));
    }
    float c[4] = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
    for (int i = 0; i < KS; i++) {
        mma(c, x[i].x, x[i].y, w[i].x, w[i].y);
        mma(c, x[i].z, x[i].w, w[i].z, w[i].w);
    }
    if (g < 4) {
        red[warp][g][2 * t] = c[0];
        red[warp][g][2 * t + 1] = c[1];
    }
    __syncthreads();
    if (tid < 32) {
        const int b = tid >> 3, col = tid & 7;
        float s = 0.f;
#pragma unroll
        for (int k = 0; k < 8; k++) s += red[k][b][col];
        h[b * WIDTH + blockIdx.x * 8 + col] = res + s;
    }
}

// one warp per 8 vocabulary rows, whole K
__global__ void __launch_bounds__(256, 4) head_kernel(const uint4* W, const float* h, float* out, float eps) {
    __shared__ __align__(16) __half xs[4 * XSTRIDE];
    __shared__ float ss[8];
    const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31, g = lane >> 2, t = lane & 3;
    const int tile = blockIdx.x * 8 + warp;
    const uint4* p = W + (size_t)tile * 32 * 32 + lane;
    uint4 w[8];
#pragma unroll
    for (int i = 0; i < 8; i++) w[i] = ldw(p + i * 32);
    pdl_launch();
    pdl_wait();
    norm_to_smem(h, xs, ss, eps);
    float c[4] = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
    for (int k = 0; k < 32; k++) {
        const uint4 cur = w[k & 7];
        if (k + 8 < 32) w[k & 7] = ldw(p + (k + 8) * 32);
        uint4 x = make_uint4(0u, 0u, 0u, 0u);
        if (g < 4) x = *reinterpret_cast<const uint4*>(xs + g * XSTRIDE + k * 32 + t * 8);
        mma(c, x.x, x.y, cur.x, cur.y);
        mma(c, x.z, x.w, cur.z, cur.w);
    }
    if (g < 4) *reinterpret_cast<float2*>(out + (size_t)g * VOCAB + tile * 8 + 2 * t) = make_float2(c[0], c[1]);
}

// grid: 16 (batch, kv head) pairs x 8 splits of 128 positions; 4 query heads per block
__global__ void __launch_bounds__(256) attn_kernel(const uint4* Kc, const uint4* Vc, const float* qkv,
                                                   const float* cs, float* pacc, float2* pml,
                                                   unsigned int* ctr, __half* out) {
    __shared__ __align__(16) float qs[4][64];
    __shared__ float ks[64];
    __shared__ float sm_m[9][4];
    __shared__ float sm_l[9][4];
    __shared__ __align__(16) float sm_acc[9][4][64];
    __shared__ unsigned int last_flag;
    const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31;
    const int split = blockIdx.x & (SPLITS - 1), bk = blockIdx.x / SPLITS, b = bk >> 2, kvh = bk & 3;
    const size_t base = ((size_t)bk * PROMPT + split * (PROMPT / SPLITS) + warp * 16) * 8 + lane;
    uint4 kr[4], vr[4];
#pragma unroll
    for (int i = 0; i < 4; i++) kr[i] = ldw(Kc + base + i * 32);
#pragma unroll
    for (int i = 0; i < 4; i++) vr[i] = ldw(Vc + base + i * 32);
    const int hh = tid >> 6, d = tid & 63;
    const float co = cs[d & 31], si = cs[32 + (d & 31)];
    pdl_launch();
    pdl_wait();
    const bool has_new = (split == SPLITS - 1);
    {
        const float* q = qkv + b * QKVN + (kvh * 4 + hh) * 64;
        const float a = __ldcg(q + d), o = __ldcg(q + (d ^ 32));
        const float r = d < 32 ? a * co - o * si : a * co + o * si;
        qs[hh][d] = r * (0.125f * 1.4426950408889634f);
        if (has_new && tid < 64) {
            const float* k = qkv + b * QKVN + WIDTH + kvh * 64;
            const float ka = __ldcg(k + d), ko = __ldcg(k + (d ^ 32));
            ks[d] = d < 32 ? ka * co - ko * si : ka * co + ko * si;
        }
        if (has_new) sm_acc[8][hh][d] = __ldcg(qkv + b * QKVN + WIDTH + 256 + kvh * 64 + d);
    }
    __syncthreads();
    if (has_new && warp < 4) {
        float s = qs[warp][lane] * ks[lane] + qs[warp][lane + 32] * ks[lane + 32];
#pragma unroll
        for (int o = 16; o > 0; o >>= 1) s += __shfl_xor_sync(0xffffffffu, s, o);
        if (lane == 0) {
            sm_m[8][warp] = s;
            sm_l[8][warp] = 1.0f;
        }
    }
    const int sub = lane & 7, prow = lane >> 3;
    float s[4][4];
    {
        float q[4][8];
#pragma unroll
        for (int h = 0; h < 4; h++) {
            const float4 q0 = *reinterpret_cast<const float4*>(&qs[h][sub * 8]);
            const float4 q1 = *reinterpret_cast<const float4*>(&qs[h][sub * 8 + 4]);
            q[h][0] = q0.x; q[h][1] = q0.y; q[h][2] = q0.z; q[h][3] = q0.w;
            q[h][4] = q1.x; q[h][5] = q1.y; q[h][6] = q1.z; q[h][7] = q1.w;
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float f[8];
            unpack8(kr[i], f);
#pragma unroll
            for (int h = 0; h < 4; h++) {
                float a = 0.f;
#pragma unroll
                for (int e = 0; e < 8; e++) a = fmaf(q[h][e], f[e], a);
                s[i][h] = a;
            }
        }
    }
#pragma unroll
    for (int o = 1; o < 8; o <<= 1)
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int h = 0; h < 4; h++) s[i][h] += __shfl_xor_sync(0xffffffffu, s[i][h], o);
    float m[4], l[4];
#pragma unroll
    for (int h = 0; h < 4; h++) {
        float x = fmaxf(fmaxf(s[0][h], s[1][h]), fmaxf(s[2][h], s[3][h]));
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 8));
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 16));
        m[h] = x;
        float sum = 0.f;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            s[i][h] = exp2f(s[i][h] - x);
            sum += s[i][h];
        }
        sum += __shfl_xor_sync(0xffffffffu, sum, 8);
        sum += __shfl_xor_sync(0xffffffffu, sum, 16);
        l[h] = sum;
    }
    float acc[4][8];
#pragma unroll
    for (int h = 0; h < 4; h++)
#pragma unroll
        for (int e = 0; e < 8; e++) acc[h][e] = 0.f;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float f[8];
        unpack8(vr[i], f);
#pragma unroll
        for (int h = 0; h < 4; h++)
#pragma unroll
            for (int e = 0; e < 8; e++) acc[h][e] = fmaf(s[i][h], f[e], acc[h][e]);
    }
#pragma unroll
    for (int h = 0; h < 4; h++)
#pragma unroll
        for (int e = 0; e < 8; e++) {
            acc[h][e] += __shfl_xor_sync(0xffffffffu, acc[h][e], 8);
            acc[h][e] += __shfl_xor_sync(0xffffffffu, acc[h][e], 16);
        }
#pragma unroll
    for (int h = 0; h < 4; h++) {
        if (prow == h) {
            *reinterpret_cast<float4*>(&sm_acc[warp][h][sub * 8]) =
                make_float4(acc[h][0], acc[h][1], acc[h][2], acc[h][3]);
            *reinterpret_cast<float4*>(&sm_acc[warp][h][sub * 8 + 4]) =
                make_float4(acc[h][4], acc[h][5], acc[h][6], acc[h][7]);
            if (sub == 0) {
                sm_m[warp][h] = m[h];
                sm_l[warp][h] = l[h];
            }
        }
    }
    __syncthreads();
    {
        const int nw = has_new ? 9 : 8;
        float M = sm_m[0][hh];
        for (int k = 1; k < nw; k++) M = fmaxf(M, sm_m[k][hh]);
        float L = 0.f, A = 0.f;
        for (int k = 0; k < nw; k++) {
            const float e = exp2f(sm_m[k][hh] - M);
            L += e * sm_l[k][hh];
            A += e * sm_acc[k][hh][d];
        }
        const int slot = (bk * SPLITS + split) * 4 + hh;
        __stcg(pacc + (size_t)slot * 64 + d, A);
        if (d == 0) __stcg(pml + slot, make_float2(M, L));
    }
    __threadfence();
    __syncthreads();
    if (tid == 0) last_flag = (atomicInc(ctr + bk, SPLITS - 1) == SPLITS - 1) ? 1u : 0u;
    __syncthreads();
    if (last_flag) {
        __threadfence();
        float2 ml[SPLITS];
        float a[SPLITS];
#pragma unroll
        for (int k = 0; k < SPLITS; k++) {
            const int slot = (bk * SPLITS + k) * 4 + hh;
            ml[k] = __ldcg(pml + slot);
            a[k] = __ldcg(pacc + (size_t)slot * 64 + d);
        }
        float M = ml[0].x;
#pragma unroll
        for (int k = 1; k < SPLITS; k++) M = fmaxf(M, ml[k].x);
        float L = 0.f, A = 0.f;
#pragma unroll
        for (int k = 0; k < SPLITS; k++) {
            const float e = exp2f(ml[k].x - M);
            L += e * ml[k].y;
            A += e * a[k];
        }
        out[b * WIDTH + (kvh * 4 + hh) * 64 + d] = __float2half_rn(A / L);
    }
}

template <typename... KArgs, typename... Args>
static void launch(void (*kernel)(KArgs...), int grid, cudaStream_t stream, bool pdl, Args... args) {
    cudaLaunchConfig_t cfg = {};
    cfg.gridDim = dim3(grid, 1, 1);
    cfg.blockDim = dim3(256, 1, 1);
    cfg.dynamicSmemBytes = 0;
    cfg.stream = stream;
    cudaLaunchAttribute at[1];
    at[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    at[0].val.programmaticStreamSerializationAllowed = 1;
    cfg.attrs = at;
    cfg.numAttrs = pdl ? 1 : 0;
    C10_CUDA_CHECK(cudaLaunchKernelEx(&cfg, kernel, static_cast<KArgs>(args)...));
}

void decode_step(std::vector<torch::Tensor> t, double eps_) {
    cudaStream_t st = at::cuda::getCurrentCUDAStream();
    const float eps = (float)eps_;
    const long long* ids = reinterpret_cast<const long long*>(t[0].data_ptr());
    const float* emb = reinterpret_cast<const float*>(t[1].data_ptr());
    const uint4* wqkv = reinterpret_cast<const uint4*>(t[2].data_ptr());
    const uint4* wo = reinterpret_cast<const uint4*>(t[3].data_ptr());
    const uint4* wgu = reinterpret_cast<const uint4*>(t[4].data_ptr());
    const uint4* wd = reinterpret_cast<const uint4*>(t[5].data_ptr());
    const uint4* wlm = reinterpret_cast<const uint4*>(t[6].data_ptr());
    const uint4* keys = reinterpret_cast<const uint4*>(t[7].data_ptr());
    const uint4* values = reinterpret_cast<const uint4*>(t[8].data_ptr());
    const float* cs = reinterpret_cast<const float*>(t[9].data_ptr());
    float* h = reinterpret_cast<float*>(t[10].data_ptr());
    float* qkv = reinterpret_cast<float*>(t[11].data_ptr());
    __half* attn = reinterpret_cast<__half*>(t[12].data_ptr());
    __half* act = reinterpret_cast<__half*>(t[13].data_ptr());
    float* pacc = reinterpret_cast<float*>(t[14].data_ptr());
    float2* pml = reinterpret_cast<float2*>(t[15].data_ptr());
    unsigned int* ctr = reinterpret_cast<unsigned int*>(t[16].data_ptr());
    float* logits = reinterpret_cast<float*>(t[17].data_ptr());

    launch(embed_kernel, 4, st, false, ids, emb, h);
    for (int i = 0; i < LAYERS; i++) {
        const size_t kv = (size_t)i * 16 * PROMPT * 8;
        launch(norm_gemv<1, 0>, QKVN / 8, st, true, wqkv + (size_t)i * QKVN * WIDTH / 8, h, (void*)qkv, eps);
        launch(attn_kernel, 16 * SPLITS, st, true, keys + kv, values + kv, qkv, cs, pacc, pml, ctr, attn);
        launch(proj_kernel<4>, WIDTH / 8, st, true, wo + (size_t)i * WIDTH * WIDTH / 8, attn, h);
        launch(norm_gemv<2, 1>, HIDDEN / 8, st, true, wgu + (size_t)i * 2 * HIDDEN * WIDTH / 8, h, (void*)act, eps);
        launch(proj_kernel<11>, WIDTH / 8, st, true, wd + (size_t)i * HIDDEN * WIDTH / 8, act, h);
    }
    launch(head_kernel, VOCAB / 64, st, true, wlm, h, logits, eps);
}
"""

_ext = load_inline(
    name="llama_decode_step_pdl",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["decode_step"],
    extra_cuda_cflags=["-O3", "-gencode=arch=compute_90,code=sm_90"],
    verbose=False,
)


def _pack(weight: torch.Tensor) -> torch.Tensor:
    """(N, K) to float16 in the order of tensor-core fragments: (N/8, K/32, 8, 4, 8)."""
    n, k = weight.shape
    w = weight.to(torch.float16).view(n // 8, 8, k // 32, 4, 8)
    return w.permute(0, 2, 1, 3, 4).contiguous()


class ModelNew(nn.Module):
    """The same decoding step from packed float16 weights and a float16 copy of the cache."""

    def __init__(self) -> None:
        super().__init__()
        self.eps = 1e-6
        self._graph = None
        self._key = None

    @classmethod
    def from_reference(cls, model: nn.Module) -> "ModelNew":
        """Copy weights and cache in 16 bits, norm weights folded in; embedding and angles stay float32."""
        new = cls()
        with torch.no_grad():
            core = model.net.model
            new.eps = float(getattr(core.norm, "variance_epsilon", 1e-6))
            wqkv, wo, wgu, wd = [], [], [], []
            for layer in core.layers:
                att, mlp = layer.self_attn, layer.mlp
                ln1 = layer.input_layernorm.weight.detach().float()[None, :]
                ln2 = layer.post_attention_layernorm.weight.detach().float()[None, :]
                qkv = torch.cat(
                    [
                        att.q_proj.weight.detach().float(),
                        att.k_proj.weight.detach().float(),
                        att.v_proj.weight.detach().float(),
                    ],
                    0,
                )
                wqkv.append(_pack(qkv * ln1))
                wo.append(_pack(att.o_proj.weight.detach().float()))
                gate = _pack(mlp.gate_proj.weight.detach().float() * ln2)
                up = _pack(mlp.up_proj.weight.detach().float() * ln2)
                wgu.append(torch.stack([gate, up], 1))
                wd.append(_pack(mlp.down_proj.weight.detach().float()))
            new.register_buffer("wqkv", torch.stack(wqkv).contiguous())
            new.register_buffer("wo", torch.stack(wo).contiguous())
            new.register_buffer("wgu", torch.stack(wgu).contiguous())
            new.register_buffer("wd", torch.stack(wd).contiguous())
            lnf = core.norm.weight.detach().float()[None, :]
            new.register_buffer("wlm", _pack(model.net.lm_head.weight.detach().float() * lnf))
            new.register_buffer("emb", core.embed_tokens.weight.detach().float().clone().contiguous())
            new.register_buffer("keys16", model.keys.detach().to(torch.float16).contiguous())
            new.register_buffer("values16", model.values.detach().to(torch.float16).contiguous())
            rot = core.rotary_emb
            freq = rot.inv_freq.detach().float() * float(PROMPT)
            scale = float(getattr(rot, "attention_scaling", 1.0))
            new.register_buffer("cs", (torch.cat([freq.cos(), freq.sin()]) * scale).float().contiguous())
        return new

    def _build(self) -> None:
        """Allocate the buffers, run the step once, then record it as a CUDA graph."""
        dev = self.wqkv.device
        f32 = {"device": dev, "dtype": torch.float32}
        f16 = {"device": dev, "dtype": torch.float16}
        self._ids = torch.zeros(BATCH, 1, device=dev, dtype=torch.int64)
        self._logits = torch.empty(BATCH, 1, VOCABULARY, **f32)
        self._args = [
            self._ids,
            self.emb,
            self.wqkv,
            self.wo,
            self.wgu,
            self.wd,
            self.wlm,
            self.keys16,
            self.values16,
            self.cs,
            torch.zeros(BATCH, WIDTH, **f32),
            torch.zeros(BATCH, QKV, **f32),
            torch.zeros(BATCH, WIDTH, **f16),
            torch.zeros(BATCH, HIDDEN, **f16),
            torch.zeros(BATCH * KEY_HEADS * 8 * 4 * 64, **f32),
            torch.zeros(BATCH * KEY_HEADS * 8 * 4 * 2, **f32),
            torch.zeros(BATCH * KEY_HEADS, device=dev, dtype=torch.int32),
            self._logits,
        ]
        side = torch.cuda.Stream(device=dev)
        side.wait_stream(torch.cuda.current_stream(dev))
        with torch.cuda.stream(side):
            _ext.decode_step(self._args, self.eps)
        torch.cuda.current_stream(dev).wait_stream(side)
        torch.cuda.synchronize(dev)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            _ext.decode_step(self._args, self.eps)
        self._graph = graph
        self._key = self.wqkv.data_ptr()

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Ids (4, 1) to logits (4, 1, 32000) in float32, in a tensor of their own."""
        if self._graph is None or self._key != self.wqkv.data_ptr():
            self._build()
        self._ids.copy_(input_ids)
        self._graph.replay()
        return self._logits.clone()
