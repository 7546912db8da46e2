"""A language model of 8 selective state-space layers as one persistent kernel, from tokens to logits.

What it does: the model of `level5/11` for 2 sequences of 128 tokens: embedding, 8 layers of width
1024, each behind a norm, and logits over 16384 entries. Products have 16-bit factors and 32-bit
sums, on tensor cores (`wgmma`, and `mma` for the narrow ones). Other shapes take PyTorch's
operations, token by token.

What made it fast: one cooperative launch of 128 blocks. A layer has three phases, with a barrier of
the grid before each. Weights of later phases are on their way before a block waits at the barrier.
The recurrence is cut into chunks of 8 tokens, which start together, and its states stay in
registers, as does the residual stream from the embedding to the last layer.

Accuracy: the residual stream, norms, convolutions, step sizes, decays, states and logits have 32
bits. Weights and inputs of all matrix products are rounded to 16 bits, as are the activations and
gates between two phases. Sums by `atomicAdd` have no fixed order: the last bits may differ between
calls.

Limits: 2 sequences of 128 tokens (int64), vocabulary 16384, width 1024, 8 layers, states of 16,
rank 64, inference only, one call at a time, compute capability 9.0 (Hopper) with at least 128
multiprocessors.

Author: a coding agent, in a search by the strategy pike-x (result.json says which).
Licence: Apache-2.0.
"""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline


def _wgmma(n: int) -> str:
    """The C++ wrapper of one wgmma instruction, 64 x n x 16."""
    count = n // 2
    registers = ", ".join(f"%{i}" for i in range(count))
    operands = ", ".join(f'"+f"(d[{i}])' for i in range(count))
    return (
        f"__device__ __forceinline__ void wgmma_n{n}(float (&d)[{count}], unsigned long long a, "
        "unsigned long long b, int accumulate) {\n"
        '  asm volatile("{\\n.reg .pred p;\\n"\n'
        f'    "setp.ne.b32 p, %{count + 2}, 0;\\n"\n'
        f'    "wgmma.mma_async.sync.aligned.m64n{n}k16.f32.f16.f16 "\n'
        f'    "{{{registers}}}, "\n'
        f'    "%{count}, %{count + 1}, p, 1, 1, 0, 0;\\n}}\\n"\n'
        f'    : {operands} : "l"(a), "l"(b), "r"(accumulate) : "memory");\n'
        "}\n"
    )


DECLARATION = """
torch::Tensor run_network(torch::Tensor tokens, torch::Tensor emb, torch::Tensor embss, torch::Tensor wproj,
  torch::Tensor wout, torch::Tensor wvoc, torch::Tensor w96, torch::Tensor wup, torch::Tensor decay, torch::Tensor skip,
  torch::Tensor convw, torch::Tensor convb, torch::Tensor workspace);
"""

SOURCE = r"""
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>
#include <cuda_fp16.h>
#include <cstdint>

constexpr int GRID = 128, THREADS = 256, LAYERS = 8, WIDTH = 1024, VOCABULARY = 16384;
constexpr int ROWS = 264;             // 8 rows of padding, then 256 tokens
constexpr int SLAB = ROWS * 64;       // halves of one slab of 64 of k
constexpr int WORK = 131072, BARS = 229376, SCALES = 229632, SMEM = 230400;
constexpr int LD = 68;                // floats of a row of the epilogue's tile
constexpr int TOK_TILE = 72;

struct Args {
  const long long* tokens;
  const float* emb;
  const float* embss;
  const __half* wproj;
  const __half* wout;
  const __half* wvoc;
  const uint4* w96;
  const __half* wup;
  const float* decay;
  const float* skip;
  const float* convw;
  const float* convb;
  unsigned int* counter;
  float* ss;
  float* pbuf;
  __half* abuf;
  __half* gbuf;
  __half* xh;
  __half* yh;
  float* out;
};

@@WGMMA@@

template <int N>
__device__ __forceinline__ void fence_registers(float (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i]) :: "memory");
}
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory"); }
template <int N>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(N) : "memory");
}
__device__ __forceinline__ unsigned long long descriptor(uint32_t address) {
  return (unsigned long long)((address & 0x3FFFF) >> 4) | (1ull << 16) | (64ull << 32) | (1ull << 62);
}
__device__ __forceinline__ void proxy_fence() { asm volatile("fence.proxy.async;\n" ::: "memory"); }
__device__ __forceinline__ void mbar_init(uint32_t bar) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(bar), "r"(1) : "memory");
}
__device__ __forceinline__ void mbar_wait(uint32_t bar, uint32_t parity) {
  uint32_t ok;
  do {
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}\n"
        : "=r"(ok) : "r"(bar), "r"(parity) : "memory");
  } while (!ok);
}
__device__ __forceinline__ void bulk(uint32_t to, const void* from, uint32_t bytes, uint32_t bar) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(bar), "r"(bytes) : "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n" ::"r"(to),
      "l"((unsigned long long)__cvta_generic_to_global(from)), "r"(bytes), "r"(bar) : "memory");
}
__device__ __forceinline__ void load_weights(uint32_t to, const __half* from, uint32_t wbar) {
  for (int j = 0; j < 8; ++j) bulk(to + j * 16384, from + j * 8192, 16384, wbar + 8 * j);
}
__device__ __forceinline__ int act_index(int k, int row) {
  return (k >> 6) * SLAB + row * 64 + ((((k & 63) >> 3) ^ (row & 7)) << 3) + (k & 7);
}
__device__ __forceinline__ float silu(float v) { return __fdividef(v, 1.0f + __expf(-v)); }
__device__ __forceinline__ void mma16816(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                                         uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
__device__ __forceinline__ uint32_t pack2(float2 v) {
  __half2 h = __floats2half2_rn(v.x, v.y);
  return *reinterpret_cast<uint32_t*>(&h);
}
// The counter only grows; the number of blocks divides 2^32, so that it may wrap.
__device__ __forceinline__ void grid_sync(unsigned int* counter) {
  proxy_fence();
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    unsigned int old, now;
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;\n" : "=r"(old) : "l"(counter) : "memory");
    const unsigned int target = (old & ~(unsigned int)(GRID - 1)) + GRID;
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];\n" : "=r"(now) : "l"(counter) : "memory");
    } while ((int)(now - target) < 0);
    __threadfence();
  }
  __syncthreads();
  proxy_fence();
}

__global__ void __launch_bounds__(THREADS, 1) network_kernel(const Args p) {
  extern __shared__ __align__(1024) unsigned char smem[];
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5, wg = tid >> 7, wt = tid & 127;
  const int g = lane >> 2, q = lane & 3, bid = blockIdx.x;
  const uint32_t sb = (uint32_t)__cvta_generic_to_shared(smem);
  const uint32_t wbar = sb + BARS, abar = wbar + 64 + wg * 64, obar = wbar + 192;
  float* scales = reinterpret_cast<float*>(smem + SCALES);
  if (tid == 0) {
    for (int i = 0; i < 27; ++i) mbar_init(wbar + 8 * i);
    asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
    proxy_fence();
  }
  __syncthreads();
  const int ct1 = bid >> 2, tt1 = bid & 3;  // project: 32 tiles of channels, 4 of tokens
  const int ct3 = bid >> 3, tt3 = bid & 7;  // out: 16 tiles of channels, 8 of tokens
  uint32_t wph = 0, aph = 0;
  if (tid == 0) load_weights(sb, p.wproj + (size_t)ct1 * 65536, wbar);

  const int ch = tid & 63, part = tid >> 6;
  float x[8];  // this block's part of the stream stays here
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int token = tt3 * 32 + part * 8 + i;
    x[i] = p.emb[(size_t)p.tokens[token] * WIDTH + ct3 * 64 + ch];
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int token = tt3 * 32 + part * 8 + i;
    p.xh[act_index(ct3 * 64 + ch, token + 8)] = __float2half_rn(x[i]);
  }
  {
    float4* zero = reinterpret_cast<float4*>(p.pbuf) + bid * 384;
    zero[tid] = make_float4(0.f, 0.f, 0.f, 0.f);
    if (tid < 128) zero[256 + tid] = make_float4(0.f, 0.f, 0.f, 0.f);
    if (tid < 16) p.ss[bid * 16 + tid] = 0.f;
  }

#pragma unroll 1
  for (int l = 0; l < LAYERS; ++l) {
    // ---------------------------------------------------------------- project, convolution, 96 columns
    uint32_t wf[48];
    if (ct1 < 16) {
      const uint4* from = p.w96 + ((size_t)((l * 16 + ct1) * 2 + (warp >> 2)) * 12) * 32 + lane;
#pragma unroll
      for (int i = 0; i < 12; ++i) {
        const uint4 v = from[i * 32];
        wf[4 * i] = v.x;
        wf[4 * i + 1] = v.y;
        wf[4 * i + 2] = v.z;
        wf[4 * i + 3] = v.w;
      }
    } else {
#pragma unroll
      for (int i = 0; i < 48; ++i) wf[i] = 0;
    }
    grid_sync(p.counter);
    {
      const uint32_t ring = sb + WORK + wg * 46080;
      const __half* from = p.xh + (size_t)(wg * 8) * SLAB + tt1 * 64 * 64;
      if (wt == 0) {
        for (int s = 0; s < 5; ++s) bulk(ring + s * 9216, from + (size_t)s * SLAB, 9216, abar + 8 * s);
      }
      if (tid < TOK_TILE) {
        const int token = tt1 * 64 - 8 + tid;
        float scale = 0.f;
        if (token >= 0) {
          const float sum = l == 0 ? p.embss[p.tokens[token]] : __ldcg(p.ss + l * 256 + token);
          scale = 32.0f / (sqrtf(sum) + 1e-5f);
        }
        scales[tid] = scale;
      }
      float acc[36];
#pragma unroll
      for (int i = 0; i < 36; ++i) acc[i] = 0.f;
      fence_registers(acc);
      wgmma_fence();
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int slot = i % 5;
        if ((i & 1) == 0) mbar_wait(wbar + 8 * (wg * 4 + i / 2), wph);
        mbar_wait(abar + 8 * slot, (aph >> slot) & 1);
        aph ^= 1u << slot;
        const unsigned long long da = descriptor(sb + (wg * 8 + i) * 8192);
        const unsigned long long db = descriptor(ring + slot * 9216);
#pragma unroll
        for (int k = 0; k < 4; ++k) wgmma_n72(acc, da + 2 * k, db + 2 * k, 1);
        wgmma_commit();
        if (i >= 1 && i <= 3) {
          wgmma_wait<1>();
          asm volatile("bar.sync %0, 128;\n" ::"r"(1 + wg) : "memory");
          if (wt == 0) bulk(ring + (i - 1) * 9216, from + (size_t)(i + 4) * SLAB, 9216, abar + 8 * (i - 1));
        }
      }
      wgmma_wait<0>();
      fence_registers(acc);
      wph ^= 1;
      __syncthreads();
      if (tid == 0) load_weights(sb, p.wout + (size_t)(l * 16 + ct3) * 65536, wbar);
      float* tile = reinterpret_cast<float*>(smem + WORK);
      {
        float* to = tile + wg * (TOK_TILE * LD) + (warp & 3) * 16 + g;
#pragma unroll
        for (int j = 0; j < 9; ++j) {
          const int t = 8 * j + 2 * q;
          to[t * LD] = acc[4 * j];
          to[(t + 1) * LD] = acc[4 * j + 1];
          to[t * LD + 8] = acc[4 * j + 2];
          to[(t + 1) * LD + 8] = acc[4 * j + 3];
        }
      }
      __syncthreads();
      const float* d0 = tile + ch;
      const float* d1 = d0 + TOK_TILE * LD;
      const int i0 = part * 16;
      if (ct1 < 16) {
        __half* as = reinterpret_cast<__half*>(smem + WORK + 2 * TOK_TILE * LD * 4);
        const int c = ct1 * 64 + ch;
        const float4 w = reinterpret_cast<const float4*>(p.convw)[l * WIDTH + c];
        const float bias = p.convb[l * WIDTH + c];
        float p3 = 0.f, p2 = 0.f, p1 = 0.f;
        if (!(part == 0 && (tt1 & 1) == 0)) {
          const int r = 8 + i0;
          p3 = (d0[(r - 3) * LD] + d1[(r - 3) * LD]) * scales[r - 3];
          p2 = (d0[(r - 2) * LD] + d1[(r - 2) * LD]) * scales[r - 2];
          p1 = (d0[(r - 1) * LD] + d1[(r - 1) * LD]) * scales[r - 1];
        }
#pragma unroll
        for (int i = 0; i < 16; ++i) {
          const int r = 8 + i0 + i;
          const float v = (d0[r * LD] + d1[r * LD]) * scales[r];
          const float sum = bias + w.x * p3 + w.y * p2 + w.z * p1 + w.w * v;
          p3 = p2;
          p2 = p1;
          p1 = v;
          const __half h = __float2half_rn(silu(sum));
          p.abuf[(size_t)(tt1 * 64 + i0 + i) * WIDTH + c] = h;
          as[(i0 + i) * 72 + ch] = h;
        }
        __syncthreads();
        float d[6][4];
#pragma unroll
        for (int n = 0; n < 6; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) d[n][i] = 0.f;
        const int row = (warp & 3) * 16 + g;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          const __half* at = as + row * 72 + k * 16 + 2 * q;
          const uint32_t a0 = *reinterpret_cast<const uint32_t*>(at);
          const uint32_t a1 = *reinterpret_cast<const uint32_t*>(at + 8 * 72);
          const uint32_t a2 = *reinterpret_cast<const uint32_t*>(at + 8);
          const uint32_t a3 = *reinterpret_cast<const uint32_t*>(at + 8 * 72 + 8);
#pragma unroll
          for (int n = 0; n < 6; ++n) mma16816(d[n], a0, a1, a2, a3, wf[n * 8 + k * 2], wf[n * 8 + k * 2 + 1]);
        }
        float* to = p.pbuf + l * 24576 + (tt1 * 64 + row) * 96 + (warp >> 2) * 48 + 2 * q;
#pragma unroll
        for (int n = 0; n < 6; ++n) {
          atomicAdd(reinterpret_cast<float2*>(to + n * 8), make_float2(d[n][0], d[n][1]));
          atomicAdd(reinterpret_cast<float2*>(to + n * 8 + 8 * 96), make_float2(d[n][2], d[n][3]));
        }
      } else {
        const int c = (ct1 - 16) * 64 + ch;
#pragma unroll
        for (int i = 0; i < 16; ++i) {
          const int r = 8 + i0 + i;
          const float v = (d0[r * LD] + d1[r * LD]) * scales[r];
          p.gbuf[(size_t)(tt1 * 64 + i0 + i) * WIDTH + c] = __float2half_rn(silu(v));
        }
      }
    }
    // ---------------------------------------------------------------- step sizes, scan, gate
    {
      const int batch = bid >> 6, c0 = (bid & 63) * 16, tb = batch * 128;
      const int chunk = tid >> 4, c = tid & 15;
      uint32_t up[16];
#pragma unroll
      for (int n = 0; n < 2; ++n)
#pragma unroll
        for (int k = 0; k < 4; ++k)
#pragma unroll
          for (int h = 0; h < 2; ++h)
            up[n * 8 + k * 2 + h] = *reinterpret_cast<const uint32_t*>(
                p.wup + (size_t)(l * WIDTH + c0 + n * 8 + g) * 64 + k * 16 + h * 8 + 2 * q);
      float e[16];
      {
        const float4* from = reinterpret_cast<const float4*>(p.decay + (size_t)(l * WIDTH + c0 + c) * 16);
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          const float4 v = from[n];
          e[4 * n] = v.x;
          e[4 * n + 1] = v.y;
          e[4 * n + 2] = v.z;
          e[4 * n + 3] = v.w;
        }
      }
      float e8 = p.decay[(size_t)(l * WIDTH + c0 + c) * 16 + chunk];  // here the state's index is tid / 16
      e8 *= e8;
      e8 *= e8;
      e8 *= e8;
      const float skip = p.skip[l * WIDTH + c0 + c];
      float2 skip2[2];
      skip2[0] = *reinterpret_cast<const float2*>(p.skip + l * WIDTH + c0 + 2 * q);
      skip2[1] = *reinterpret_cast<const float2*>(p.skip + l * WIDTH + c0 + 8 + 2 * q);

      grid_sync(p.counter);

      float* steps = reinterpret_cast<float*>(smem + WORK);         // [128][18]
      float* wr = reinterpret_cast<float*>(smem + WORK + 9216);     // [128][32], skewed by chunks
      float* ends = reinterpret_cast<float*>(smem + WORK + 26624);  // [16] x 272
      float* prods = reinterpret_cast<float*>(smem + WORK + 45056); // [16][16]
      const float* pb = p.pbuf + l * 24576 + tb * 96;
      float2 sd[16];
      {
        const float* from = pb + (warp * 16 + g) * 96 + 32 + 2 * q;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          sd[4 * k] = __ldcg(reinterpret_cast<const float2*>(from + k * 16));
          sd[4 * k + 1] = __ldcg(reinterpret_cast<const float2*>(from + k * 16 + 8 * 96));
          sd[4 * k + 2] = __ldcg(reinterpret_cast<const float2*>(from + k * 16 + 8));
          sd[4 * k + 3] = __ldcg(reinterpret_cast<const float2*>(from + k * 16 + 8 * 96 + 8));
        }
      }
      float4 wrv[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int at = tid + i * 256, t = at >> 3, o = at & 7;
        wrv[i] = __ldcg(reinterpret_cast<const float4*>(pb + t * 96 + o * 4));
      }
      unsigned short ah[8], gh[8];
      {
        const size_t at = (size_t)(tb + chunk * 8) * WIDTH + c0 + c;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          ah[i] = __ldcg(reinterpret_cast<const unsigned short*>(p.abuf) + at + (size_t)i * WIDTH);
          gh[i] = __ldcg(reinterpret_cast<const unsigned short*>(p.gbuf) + at + (size_t)i * WIDTH);
        }
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int at = tid + i * 256, t = at >> 3, o = at & 7;
        *reinterpret_cast<float4*>(wr + t * 32 + (t >> 3) * 4 + o * 4) = wrv[i];
      }
      float d[2][4];
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        d[n][0] = skip2[n].x;
        d[n][1] = skip2[n].y;
        d[n][2] = skip2[n].x;
        d[n][3] = skip2[n].y;
      }
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const uint32_t a0 = pack2(sd[4 * k]), a1 = pack2(sd[4 * k + 1]);
        const uint32_t a2 = pack2(sd[4 * k + 2]), a3 = pack2(sd[4 * k + 3]);
#pragma unroll
        for (int n = 0; n < 2; ++n) mma16816(d[n], a0, a1, a2, a3, up[n * 8 + k * 2], up[n * 8 + k * 2 + 1]);
      }
#pragma unroll
      for (int n = 0; n < 2; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float v = d[n][i];
          const float s = v > 20.0f ? v : log1pf(__expf(v));
          steps[(warp * 16 + g + (i >> 1) * 8) * 18 + n * 8 + 2 * q + (i & 1)] = s;
        }
      __syncthreads();
      float st[8], a[8], s[16];
      float product = 1.f;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        st[i] = steps[(chunk * 8 + i) * 18 + c];
        a[i] = __half2float(__ushort_as_half(ah[i]));
        product *= st[i];
      }
      const float* mine = wr + chunk * (8 * 32 + 4);
#pragma unroll
      for (int n = 0; n < 16; ++n) s[n] = 0.f;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float u = st[i] * a[i];
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          const float4 w = *reinterpret_cast<const float4*>(mine + i * 32 + n * 4);
          s[4 * n] = fmaf(e[4 * n] * st[i], s[4 * n], w.x * u);
          s[4 * n + 1] = fmaf(e[4 * n + 1] * st[i], s[4 * n + 1], w.y * u);
          s[4 * n + 2] = fmaf(e[4 * n + 2] * st[i], s[4 * n + 2], w.z * u);
          s[4 * n + 3] = fmaf(e[4 * n + 3] * st[i], s[4 * n + 3], w.w * u);
        }
      }
#pragma unroll
      for (int n = 0; n < 16; ++n) ends[chunk * 272 + n * 16 + c] = s[n];
      prods[chunk * 16 + c] = product;
      __syncthreads();
      {
        float carry = 0.f;
#pragma unroll
        for (int k = 0; k < 16; ++k) {
          const float end = ends[k * 272 + tid];
          ends[k * 272 + tid] = carry;
          carry = fmaf(e8 * prods[k * 16 + c], carry, end);
        }
      }
      __syncthreads();
#pragma unroll
      for (int n = 0; n < 16; ++n) s[n] = ends[chunk * 272 + n * 16 + c];
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float u = st[i] * a[i];
        float y0 = 0.f, y1 = 0.f;
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          const float4 w = *reinterpret_cast<const float4*>(mine + i * 32 + n * 4);
          const float4 r = *reinterpret_cast<const float4*>(mine + i * 32 + 16 + n * 4);
          s[4 * n] = fmaf(e[4 * n] * st[i], s[4 * n], w.x * u);
          s[4 * n + 1] = fmaf(e[4 * n + 1] * st[i], s[4 * n + 1], w.y * u);
          s[4 * n + 2] = fmaf(e[4 * n + 2] * st[i], s[4 * n + 2], w.z * u);
          s[4 * n + 3] = fmaf(e[4 * n + 3] * st[i], s[4 * n + 3], w.w * u);
          y0 = fmaf(s[4 * n], r.x, y0);
          y1 = fmaf(s[4 * n + 1], r.y, y1);
          y0 = fmaf(s[4 * n + 2], r.z, y0);
          y1 = fmaf(s[4 * n + 3], r.w, y1);
        }
        const float y = (y0 + y1 + skip * a[i]) * __half2float(__ushort_as_half(gh[i]));
        p.yh[act_index(c0 + c, tb + chunk * 8 + i + 8)] = __float2half_rn(y);
      }
    }
    // ---------------------------------------------------------------- out, residual
    grid_sync(p.counter);
    {
      const uint32_t base = sb + WORK + wg * 32768;
      if (wt == 0) {
        const __half* from = p.yh + (size_t)(wg * 8) * SLAB + (tt3 * 32 + 8) * 64;
        for (int s = 0; s < 8; ++s) bulk(base + s * 4096, from + (size_t)s * SLAB, 4096, abar + 8 * s);
      }
      float acc[16];
#pragma unroll
      for (int i = 0; i < 16; ++i) acc[i] = 0.f;
      fence_registers(acc);
      wgmma_fence();
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        if ((i & 1) == 0) mbar_wait(wbar + 8 * (wg * 4 + i / 2), wph);
        mbar_wait(abar + 8 * i, (aph >> i) & 1);
        aph ^= 1u << i;
        const unsigned long long da = descriptor(sb + (wg * 8 + i) * 8192);
        const unsigned long long db = descriptor(base + i * 4096);
#pragma unroll
        for (int k = 0; k < 4; ++k) wgmma_n32(acc, da + 2 * k, db + 2 * k, 1);
        wgmma_commit();
      }
      wgmma_wait<0>();
      fence_registers(acc);
      wph ^= 1;
      __syncthreads();
      if (tid == 0) {
        if (l + 1 < LAYERS) load_weights(sb, p.wproj + (size_t)((l + 1) * 32 + ct1) * 65536, wbar);
        else load_weights(sb, p.wvoc + (size_t)bid * 131072, wbar);
      }
      float* tile = reinterpret_cast<float*>(smem + WORK);
      {
        float* to = tile + wg * (32 * LD) + (warp & 3) * 16 + g;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int t = 8 * j + 2 * q;
          to[t * LD] = acc[4 * j];
          to[(t + 1) * LD] = acc[4 * j + 1];
          to[t * LD + 8] = acc[4 * j + 2];
          to[(t + 1) * LD + 8] = acc[4 * j + 3];
        }
      }
      __syncthreads();
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int t = part * 8 + i, token = tt3 * 32 + t;
        x[i] += tile[t * LD + ch] + tile[32 * LD + t * LD + ch];
        p.xh[act_index(ct3 * 64 + ch, token + 8)] = __float2half_rn(x[i]);
      }
      if (l + 1 < LAYERS) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          float sum = x[i] * x[i];
#pragma unroll
          for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, o);
          if (lane == 0) atomicAdd(p.ss + (l + 1) * 256 + tt3 * 32 + part * 8 + i, sum);
        }
      }
    }
  }
  // ------------------------------------------------------------------ logits
  grid_sync(p.counter);
  {
    const __half* weights = p.wvoc + (size_t)bid * 131072;
    const __half* from = p.xh + 8 * 64;
    if (tid == 0) {
      for (int s = 0; s < 3; ++s) bulk(sb + WORK + s * 32768, from + (size_t)s * SLAB, 32768, obar + 8 * s);
    }
    float acc[128];
#pragma unroll
    for (int i = 0; i < 128; ++i) acc[i] = 0.f;
    fence_registers(acc);
    wgmma_fence();
#pragma unroll 1
    for (int ks = 0; ks < 16; ++ks) {
      const int slot = ks % 3;
      mbar_wait(wbar + 8 * (ks & 7), ks < 8 ? wph : (wph ^ 1));
      mbar_wait(obar + 8 * slot, (ks / 3) & 1);
      const unsigned long long da = descriptor(sb + (ks & 7) * 16384 + wg * 8192);
      const unsigned long long db = descriptor(sb + WORK + slot * 32768);
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < 4; ++k) wgmma_n256(acc, da + 2 * k, db + 2 * k, 1);
      wgmma_commit();
      if (ks >= 1) {
        wgmma_wait<1>();
        __syncthreads();
        if (tid == 0) {
          const int done = ks - 1;
          if (done + 3 < 16)
            bulk(sb + WORK + (done % 3) * 32768, from + (size_t)(done + 3) * SLAB, 32768, obar + 8 * (done % 3));
          if (done < 8) bulk(sb + done * 16384, weights + (size_t)(done + 8) * 8192, 16384, wbar + 8 * done);
        }
      }
    }
    wgmma_wait<0>();
    fence_registers(acc);
    __syncthreads();
    float* tile = reinterpret_cast<float*>(smem);  // [256][132]
    float* to = tile + wg * 64 + (warp & 3) * 16 + g;
#pragma unroll
    for (int j = 0; j < 32; ++j) {
      const int t = 8 * j + 2 * q;
      to[t * 132] = acc[4 * j];
      to[(t + 1) * 132] = acc[4 * j + 1];
      to[t * 132 + 8] = acc[4 * j + 2];
      to[(t + 1) * 132 + 8] = acc[4 * j + 3];
    }
    __syncthreads();
#pragma unroll 8
    for (int i = 0; i < 32; ++i) {
      const int r = warp + 8 * i;
      const float4 v = *reinterpret_cast<const float4*>(tile + r * 132 + lane * 4);
      __stcs(reinterpret_cast<float4*>(p.out + (size_t)r * VOCABULARY + bid * 128 + lane * 4), v);
    }
  }
}

torch::Tensor run_network(torch::Tensor tokens, torch::Tensor emb, torch::Tensor embss, torch::Tensor wproj,
                          torch::Tensor wout, torch::Tensor wvoc, torch::Tensor w96, torch::Tensor wup,
                          torch::Tensor decay, torch::Tensor skip, torch::Tensor convw, torch::Tensor convb,
                          torch::Tensor workspace) {
  auto out = torch::empty({2, 128, VOCABULARY}, emb.options());
  Args p;
  p.tokens = reinterpret_cast<const long long*>(tokens.data_ptr<int64_t>());
  p.emb = emb.data_ptr<float>();
  p.embss = embss.data_ptr<float>();
  p.wproj = reinterpret_cast<const __half*>(wproj.data_ptr());
  p.wout = reinterpret_cast<const __half*>(wout.data_ptr());
  p.wvoc = reinterpret_cast<const __half*>(wvoc.data_ptr());
  p.w96 = reinterpret_cast<const uint4*>(w96.data_ptr());
  p.wup = reinterpret_cast<const __half*>(wup.data_ptr());
  p.decay = decay.data_ptr<float>();
  p.skip = skip.data_ptr<float>();
  p.convw = convw.data_ptr<float>();
  p.convb = convb.data_ptr<float>();
  char* ws = reinterpret_cast<char*>(workspace.data_ptr());
  p.counter = reinterpret_cast<unsigned int*>(ws);
  p.ss = reinterpret_cast<float*>(ws + 256);
  p.pbuf = reinterpret_cast<float*>(ws + 8448);
  p.abuf = reinterpret_cast<__half*>(ws + 794880);
  p.gbuf = reinterpret_cast<__half*>(ws + 1319168);
  p.xh = reinterpret_cast<__half*>(ws + 1843456);
  p.yh = reinterpret_cast<__half*>(ws + 2384128);
  p.out = out.data_ptr<float>();
  static bool prepared = false;
  if (!prepared) {
    C10_CUDA_CHECK(cudaFuncSetAttribute(reinterpret_cast<const void*>(network_kernel),
                                        cudaFuncAttributeMaxDynamicSharedMemorySize, SMEM));
    prepared = true;
  }
  void* args[] = {&p};
  C10_CUDA_CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(network_kernel), dim3(GRID), dim3(THREADS),
                                             args, SMEM, at::cuda::getCurrentCUDAStream().stream()));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""

WORKSPACE_BYTES = 2924800

extension = load_inline(
    name="persistent_mamba_network",
    cpp_sources=[DECLARATION],
    cuda_sources=[SOURCE.replace("@@WGMMA@@", _wgmma(32) + _wgmma(72) + _wgmma(256))],
    functions=["run_network"],
    extra_cuda_cflags=["-O3", "-gencode=arch=compute_90a,code=sm_90a"],
)


def _pack(weight: torch.Tensor, rows: int) -> torch.Tensor:
    """(n, k) to tiles of `rows` rows, in each of them slabs of 64 of k, swizzled by 128 bytes, float16."""
    n, k = weight.shape
    tiles = weight.half().reshape(n // rows, rows, k // 64, 8, 8).permute(0, 2, 1, 3, 4)
    row = torch.arange(rows, device=weight.device)[:, None]
    chunk = torch.arange(8, device=weight.device)[None, :]
    return tiles[:, :, row, chunk ^ (row & 7)].contiguous()


def _pack_fragments(weight: torch.Tensor) -> torch.Tensor:
    """(96, 1024) to the order in which the threads of mma.m16n8k16 hold it, float16."""
    parts = weight.half().reshape(2, 6, 8, 16, 2, 2, 2, 4, 2)
    return parts.permute(3, 0, 1, 4, 2, 7, 5, 6, 8).contiguous()


class ModelNew(nn.Module):
    """The network in one kernel; other shapes in plain float32."""

    def __init__(self, vocabulary: int, width: int, layers: int, state: int, rank: int) -> None:
        super().__init__()
        self.sizes = (vocabulary, width, layers, state, rank)
        self.fast = self.sizes == (16384, 1024, 8, 16, 64)
        self.workspace = None

    @classmethod
    def from_reference(cls, model: nn.Module) -> "ModelNew":
        """Copy the weights of the original, and pack them where the kernel takes them."""
        embedding = model.embedding.weight.detach()
        output = model.output.weight.detach()
        blocks = list(model.layers)
        vocabulary, width = embedding.shape
        state = blocks[0].write.weight.shape[0]
        rank = blocks[0].step_down.weight.shape[0]
        new = cls(vocabulary, width, len(blocks), state, rank)

        def keep(name: str, value: torch.Tensor) -> None:
            new.register_buffer(name, value.detach().clone().contiguous())

        def stack(get) -> torch.Tensor:
            return torch.stack([get(block).detach() for block in blocks])

        keep("embedding", embedding)
        keep("output", output)
        keep("norm", torch.stack([norm.weight.detach() for norm in model.norms]))
        keep("project", stack(lambda m: m.project.weight))
        keep("conv_weight", stack(lambda m: m.convolution.weight))
        keep("conv_bias", stack(lambda m: m.convolution.bias))
        keep("write", stack(lambda m: m.write.weight))
        keep("read", stack(lambda m: m.read.weight))
        keep("step_down", stack(lambda m: m.step_down.weight))
        keep("step_up", stack(lambda m: m.step_up.weight))
        keep("decay", torch.exp(-stack(lambda m: m.A)))
        keep("skip", stack(lambda m: m.D))
        keep("out", stack(lambda m: m.out.weight))
        if new.fast:
            keep("embedding_squares", embedding.double().square().sum(-1).float())
            keep(
                "packed_project",
                torch.stack([_pack(w * n[None, :], 64) for w, n in zip(new.project, new.norm, strict=True)]),
            )
            keep("packed_out", torch.stack([_pack(w, 64) for w in new.out]))
            keep("packed_output", _pack(output, 128))
            keep(
                "packed_columns",
                torch.stack(
                    [
                        _pack_fragments(torch.cat([w, r, s], dim=0))
                        for w, r, s in zip(new.write, new.read, new.step_down, strict=True)
                    ]
                ),
            )
            keep("half_step_up", new.step_up.half())
        return new

    def general(self, tokens: torch.Tensor) -> torch.Tensor:
        """Any batch and length, float32."""
        functional = nn.functional
        width = self.embedding.shape[1]
        x = functional.embedding(tokens, self.embedding)
        length = tokens.size(1)
        for i in range(self.norm.shape[0]):
            size = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
            z = self.norm[i] * x / (size + 1e-5) * (width**0.5)
            a, gate = functional.linear(z, self.project[i]).chunk(2, dim=-1)
            kernel = self.conv_weight.shape[-1]
            a = functional.conv1d(
                a.transpose(1, 2), self.conv_weight[i], self.conv_bias[i], padding=kernel - 1, groups=width
            )[..., :length].transpose(1, 2)
            a = functional.silu(a)
            down = functional.linear(a, self.step_down[i])
            step = functional.softplus(self.skip[i] + functional.linear(down, self.step_up[i]))
            write, read = functional.linear(a, self.write[i]), functional.linear(a, self.read[i])
            drive = write[:, :, None] * (step * a)[..., None]
            decay = self.decay[i] * step[..., None]
            state = torch.zeros_like(drive[:, 0])
            states = []
            for token in range(length):
                state = decay[:, token] * state + drive[:, token]
                states.append(state)
            y = (torch.stack(states, dim=1) @ read[..., None]).squeeze(-1) + self.skip[i] * a
            x = x + functional.linear(y * functional.silu(gate), self.out[i])
        return functional.linear(x, self.output)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens (batch, tokens) to logits (batch, tokens, vocabulary)."""
        if not (self.fast and tokens.is_cuda and tokens.dtype == torch.int64 and tuple(tokens.shape) == (2, 128)):
            return self.general(tokens)
        if self.workspace is None or self.workspace.device != tokens.device:
            self.workspace = torch.zeros(WORKSPACE_BYTES, dtype=torch.uint8, device=tokens.device)
        return extension.run_network(
            tokens.contiguous(),
            self.embedding,
            self.embedding_squares,
            self.packed_project,
            self.packed_out,
            self.packed_output,
            self.packed_columns,
            self.half_step_up,
            self.decay,
            self.skip,
            self.conv_weight,
            self.conv_bias,
            self.workspace,
        )
