"""Causal self-attention, projections included, as two kernels after a short packing step.

What it does: the attention of `level3-pike/43` on sequences of 512 tokens, an even number of them.
Products have 16-bit factors and 32-bit sums, on tensor cores (`wgmma`). Other shapes take PyTorch's
own operations.

What made it fast: queries, keys and values never leave the chip. A pair of blocks handles one head
of two sequences, and each loads half of the weights and multicasts it to both. Keys and values of
all 512 tokens stay in shared memory, so that the causal loop only reads what lies below the
diagonal. Scores of the next block are computed while the products of the last one run. Warps that
would idle pack later sequences to 16 bits meanwhile. The output projection is a second kernel of
the same make.

Limits: width 768, 8 heads, 512 tokens, an even batch, compute capability 9.0 (Hopper).

Author: a coding agent, in a search by the strategy pike-b (result.json says which). The way for
other shapes was added by hand.
Licence: Apache-2.0.
"""

import torch
import torch.nn as nn
from torch.nn import functional
from torch.utils.cpp_extension import load_inline

WIDTH, HEADS, TOKENS = 768, 8, 512


def _wgmma(columns: int, from_registers: bool) -> str:
    """A C++ function for one product of 64 rows, whose first factor lies in registers or in shared memory.

    An operand for each of `columns / 2` registers stands in it, which nobody wants to write by hand.
    """
    count = columns // 2
    results = ", ".join(f"%{i}" for i in range(count))
    outputs = ", ".join(f'"+f"(d[{i}])' for i in range(count))
    if from_registers:
        name, extra, tail = "rs", 4, "p, 1, 1, 0"
        first = "{" + ", ".join(f"%{count + i}" for i in range(4)) + "}"
        given, inputs = "uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3", '"r"(a0), "r"(a1), "r"(a2), "r"(a3)'
    else:
        name, extra, tail = "ss", 1, "p, 1, 1, 0, 0"
        first, given, inputs = f"%{count}", "uint64_t da", '"l"(da)'
    return (
        f"__device__ __forceinline__ void wgmma_{name}_{columns}"
        f"(float (&d)[{count}], {given}, uint64_t db, int sc) {{\n"
        f'  asm volatile("{{ .reg .pred p; setp.ne.b32 p, %{count + extra + 1}, 0; "\n'
        f'    "wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.f16.f16 {{{results}}}, "\n'
        f'    "{first}, %{count + extra}, {tail}; }}"\n'
        f'    : {outputs} : {inputs}, "l"(db), "r"(sc));\n}}\n'
    )


_HEAD = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_fp16.h>
#include <stdint.h>
"""

_BODY = r"""
template <int N>
__device__ __forceinline__ void reg_fence(float (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; i++) asm volatile("" : "+f"(d[i]) :: "memory");
}
template <int N>
__device__ __forceinline__ void reg_fence_u(uint32_t (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; i++) asm volatile("" : "+r"(d[i]) :: "memory");
}
__device__ __forceinline__ void wg_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wg_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N>
__device__ __forceinline__ void wg_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(N) : "memory"); }

// K-major, no swizzle: core matrices of 8 rows x 16 bytes
__device__ __forceinline__ uint64_t mk_desc(uint32_t addr, uint32_t lbo, uint32_t sbo) {
  return (uint64_t)((addr & 0x3FFFF) >> 4) | ((uint64_t)(lbo >> 4) << 16) | ((uint64_t)(sbo >> 4) << 32);
}
__device__ __forceinline__ void mbar_init(uint32_t bar, uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(bar), "r"(count) : "memory");
}
__device__ __forceinline__ void mbar_wait(uint32_t bar, uint32_t parity) {
  uint32_t ok = 0;
  while (!ok) {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(ok) : "r"(bar), "r"(parity) : "memory");
  }
}
__device__ __forceinline__ void mbar_expect(uint32_t bar, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(bar), "r"(bytes) : "memory");
}
__device__ __forceinline__ void mbar_arrive_cta(uint32_t bar, uint32_t cta) {
  asm volatile("{ .reg .b32 ra; mapa.shared::cluster.u32 ra, %0, %1; mbarrier.arrive.shared::cluster.b64 _, [ra]; }"
               :: "r"(bar), "r"(cta) : "memory");
}
__device__ __forceinline__ void bulk_load(uint32_t dst, const void* src, uint32_t bytes, uint32_t bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :: "r"(dst), "l"(src), "r"(bytes), "r"(bar) : "memory");
}
__device__ __forceinline__ void bulk_load_mc(uint32_t dst, const void* src, uint32_t bytes, uint32_t bar,
                                             uint16_t mask) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
               "[%0], [%1], %2, [%3], %4;"
               :: "r"(dst), "l"(src), "r"(bytes), "r"(bar), "h"(mask) : "memory");
}
__device__ __forceinline__ void cluster_sync_all() {
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}
__device__ __forceinline__ uint32_t pack2(float a, float b) {
  __half2 v = __floats2half2_rn(a, b);
  return *reinterpret_cast<uint32_t*>(&v);
}
__device__ __forceinline__ float ex2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ void stm4(uint32_t addr, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
               :: "r"(addr), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
__device__ __forceinline__ void stm4t(uint32_t addr, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
               :: "r"(addr), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
__device__ __forceinline__ void consumer_bar() { asm volatile("bar.sync 1, 256;" ::: "memory"); }

// ---------------------------------------------------------------- pack the first batches of x, reset the counters
// tile (mt, kt): 128 rows x 32 columns as [16 row groups][4 column groups][8 rows][8 columns]
__global__ void __launch_bounds__(256) pack_kernel(const float* __restrict__ x, uint4* __restrict__ xp, int total,
                                                   int* __restrict__ sync, int nsync) {
  if (blockIdx.x == 0) {
    for (int i = threadIdx.x; i < nsync; i += 256) sync[i] = 0;
  }
  int idx = blockIdx.x * 256 + threadIdx.x;
  if (idx >= total) return;
  int tile = idx >> 9;
  int in = idx & 511;
  int mt = tile / 24, kt = tile - mt * 24;
  int rg = in >> 5, kg = (in >> 3) & 3, r = in & 7;
  const float4* src = reinterpret_cast<const float4*>(x + (size_t)(mt * 128 + rg * 8 + r) * 768 + kt * 32 + kg * 8);
  float4 a = __ldg(src), b = __ldg(src + 1);
  uint4 o;
  o.x = pack2(a.x, a.y); o.y = pack2(a.z, a.w);
  o.z = pack2(b.x, b.y); o.w = pack2(b.z, b.w);
  xp[idx] = o;
}

// ---------------------------------------------------------------- fused QKV + attention
constexpr int SLOT = 49152;          // K (24576) and V^T (24576) of one 128-row chunk
constexpr int OFF_X = 4 * SLOT;      // 3 x 8192
constexpr int OFF_Q2 = OFF_X + 3 * 8192;
constexpr int OFF_BIAS = OFF_Q2 + 6144;
constexpr int OFF_BAR = OFF_BIAS + 1152;
constexpr int SMEM_ATTN = OFF_BAR + 128;

// stages 0..2 stage their weights in the slot of the current chunk; stage 3 (chunks 0..2 only) lies in slot 3
__device__ __forceinline__ uint32_t off_kv(int c, int s) {
  return s < 3 ? (uint32_t)(c * SLOT + s * 12288) : (uint32_t)(3 * SLOT);
}
__device__ __forceinline__ uint32_t off_q(int c, int s) {
  return s < 2 ? (uint32_t)(c * SLOT + 36864 + s * 6144) : (s == 2 ? (uint32_t)OFF_Q2 : (uint32_t)(3 * SLOT + 12288));
}
__device__ __forceinline__ uint32_t off_x(int s) {
  return s < 3 ? (uint32_t)(OFF_X + s * 8192) : (uint32_t)(3 * SLOT + 18432);
}

__device__ __forceinline__ void issue_qk(float (&S)[32], const uint32_t (&qa)[24], uint32_t kaddr) {
#pragma unroll
  for (int kk = 0; kk < 6; kk++)
    wgmma_rs_64(S, qa[kk * 4], qa[kk * 4 + 1], qa[kk * 4 + 2], qa[kk * 4 + 3],
                mk_desc(kaddr + kk * 256, 128, 1536), kk != 0);
}
__device__ __forceinline__ void issue_pv(float (&O)[48], const uint32_t (&P)[16], uint32_t vaddr) {
#pragma unroll
  for (int kk = 0; kk < 4; kk++)
    wgmma_rs_96(O, P[kk * 4], P[kk * 4 + 1], P[kk * 4 + 2], P[kk * 4 + 3],
                mk_desc(vaddr + kk * 256, 128, 2048), 1);
}
__device__ __forceinline__ void mask_diag(float (&S)[32], int r0, int t) {
  const int r1 = r0 + 8;
#pragma unroll
  for (int i = 0; i < 8; i++) {
    const int col = i * 8 + t * 2;
    if (col > r0) S[4 * i] = -INFINITY;
    if (col + 1 > r0) S[4 * i + 1] = -INFINITY;
    if (col > r1) S[4 * i + 2] = -INFINITY;
    if (col + 1 > r1) S[4 * i + 3] = -INFINITY;
  }
}
// new probabilities and running maximum and sum; a0, a1 are the factors for the output accumulated so far
__device__ __forceinline__ void softmax_step(const float (&S)[32], uint32_t (&P)[16], float& a0, float& a1,
                                             float& m0, float& m1, float& l0, float& l1) {
  float x0 = S[0], x1 = S[2];
#pragma unroll
  for (int i = 0; i < 8; i++) {
    x0 = fmaxf(x0, fmaxf(S[4 * i], S[4 * i + 1]));
    x1 = fmaxf(x1, fmaxf(S[4 * i + 2], S[4 * i + 3]));
  }
  x0 = fmaxf(x0, __shfl_xor_sync(0xffffffffu, x0, 1));
  x1 = fmaxf(x1, __shfl_xor_sync(0xffffffffu, x1, 1));
  x0 = fmaxf(x0, __shfl_xor_sync(0xffffffffu, x0, 2));
  x1 = fmaxf(x1, __shfl_xor_sync(0xffffffffu, x1, 2));
  const float n0 = fmaxf(m0, x0), n1 = fmaxf(m1, x1);
  a0 = ex2(m0 - n0);
  a1 = ex2(m1 - n1);
  m0 = n0; m1 = n1;
  float s0 = 0.f, s1 = 0.f;
#pragma unroll
  for (int i = 0; i < 8; i++) {
    float p0 = ex2(S[4 * i] - n0), p1 = ex2(S[4 * i + 1] - n0);
    float p2 = ex2(S[4 * i + 2] - n1), p3 = ex2(S[4 * i + 3] - n1);
    s0 += p0 + p1;
    s1 += p2 + p3;
    P[2 * i] = pack2(p0, p1);
    P[2 * i + 1] = pack2(p2, p3);
  }
  l0 = l0 * a0 + s0;
  l1 = l1 * a1 + s1;
}

__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1)
qkv_attn_kernel(const float* __restrict__ x, __half* xp, const __half* __restrict__ wq, const __half* __restrict__ wkv,
                const float* __restrict__ bias, __half* __restrict__ yp, int* sync, int lead, int npairs,
                float qscale) {
  extern __shared__ __align__(1024) uint8_t smem[];
  const uint32_t sb = (uint32_t)__cvta_generic_to_shared(smem);
  const int tid = threadIdx.x, wg = tid >> 7, lane = tid & 31, warp = (tid >> 5) & 3;
  const int rank = blockIdx.x & 1;
  const uint32_t full = sb + OFF_BAR, empty = sb + OFF_BAR + 32;
  float* sbias = reinterpret_cast<float*>(smem + OFF_BIAS);
  int* sticket = reinterpret_cast<int*>(smem + OFF_BAR + 64);

  if (tid == 0) {
    for (int s = 0; s < 4; s++) {
      mbar_init(full + s * 8, 1);
      mbar_init(empty + s * 8, 16);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    // tickets: a cluster waits only for data packed by clusters that have already started
    if (rank == 0) *sticket = atomicAdd(sync, 1);
  }
  __syncthreads();
  cluster_sync_all();
  int cid;
  asm volatile("{ .reg .b32 ra; mapa.shared::cluster.u32 ra, %1, 0; ld.shared::cluster.u32 %0, [ra]; }"
               : "=r"(cid) : "r"(sb + OFF_BAR + 64) : "memory");
  const int h = cid & 7;
  const int pair = cid >> 3;
  const int b = pair * 2 + rank;
  if (tid < 288) sbias[tid] = bias[h * 288 + tid];
  __syncthreads();

  if (wg == 2) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (warp == 0) {
      if (lane == 0) {
        if (pair >= lead) {
          int v = 0;
          while (true) {
            asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(sync + 1 + pair) : "memory");
            if (v >= 48) break;
            __nanosleep(64);
          }
        }
        asm volatile("fence.proxy.async;" ::: "memory");
        int s = 0;
        uint32_t ph = 0;
#pragma unroll 1
        for (int c = 0; c < 4; c++) {
          const int ns = c < 3 ? 4 : 3;
          // stage 3 lies in slot 3: both CTAs must be done with it before chunk 3 is staged there
          if (c == 3) mbar_wait(empty + 24, 1);
#pragma unroll 1
          for (int kt = 0; kt < 24; kt++) {
            mbar_wait(empty + s * 8, ph ^ 1);
            const uint32_t fb = full + s * 8;
            mbar_expect(fb, 26624);
            bulk_load(sb + off_x(s), xp + (size_t)((b * 4 + c) * 24 + kt) * 4096, 8192, fb);
            bulk_load_mc(sb + off_kv(c, s) + rank * 6144, wkv + (size_t)(h * 24 + kt) * 6144 + rank * 3072, 6144, fb,
                         (uint16_t)3);
            bulk_load_mc(sb + off_q(c, s) + rank * 3072, wq + (size_t)(h * 24 + kt) * 3072 + rank * 1536, 3072, fb,
                         (uint16_t)3);
            if (++s == ns) { s = 0; ph ^= 1; }
          }
        }
      }
      __syncwarp();
    } else {
      // idle warps: pack 1/16 of a later pair of batches (half a row of tiles) to fp16
      const int np = pair + lead;
      if (np < npairs) {
        const int share = (cid & 7) * 2 + rank;
        const int mt = np * 8 + (share >> 1);
        const int kt0 = (share & 1) * 12;
        const int row = lane >> 3, c4 = lane & 7;
        const float* src = x + (size_t)(mt * 128 + row) * 768 + kt0 * 32 + c4 * 4;
        __half* dst = xp + (size_t)(mt * 24 + kt0) * 4096 + (c4 >> 1) * 64 + row * 8 + (c4 & 1) * 4;
#pragma unroll 1
        for (int i = warp - 1; i < 96; i += 3) {
          const int tile = i >> 3, rg = (i & 7) * 2;
          const float* p = src + rg * 8 * 768 + tile * 32;
          float4 v0 = __ldcs(reinterpret_cast<const float4*>(p));
          float4 v1 = __ldcs(reinterpret_cast<const float4*>(p + 4 * 768));
          float4 v2 = __ldcs(reinterpret_cast<const float4*>(p + 8 * 768));
          float4 v3 = __ldcs(reinterpret_cast<const float4*>(p + 12 * 768));
          __half* q = dst + tile * 4096 + rg * 256;
          *reinterpret_cast<uint2*>(q) = make_uint2(pack2(v0.x, v0.y), pack2(v0.z, v0.w));
          *reinterpret_cast<uint2*>(q + 32) = make_uint2(pack2(v1.x, v1.y), pack2(v1.z, v1.w));
          *reinterpret_cast<uint2*>(q + 256) = make_uint2(pack2(v2.x, v2.y), pack2(v2.z, v2.w));
          *reinterpret_cast<uint2*>(q + 288) = make_uint2(pack2(v3.x, v3.y), pack2(v3.z, v3.w));
        }
        asm volatile("fence.proxy.async;" ::: "memory");
        __threadfence();
        __syncwarp();
        if (lane == 0)
          asm volatile("red.release.gpu.global.add.s32 [%0], %1;" :: "l"(sync + 1 + np), "r"(1) : "memory");
      }
      __syncwarp();
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    const int g = lane >> 2, t = lane & 3;
    int s = 0;
    uint32_t ph = 0;
#pragma unroll 1
    for (int c = 0; c < 4; c++) {
      const int ns = c < 3 ? 4 : 3;
      uint32_t qa[24];
      {
        float aq[48], akv[96];
#pragma unroll
        for (int i = 0; i < 48; i++) aq[i] = 0.f;
#pragma unroll
        for (int i = 0; i < 96; i++) akv[i] = 0.f;
        int prev = 0;
#pragma unroll 1
        for (int kt = 0; kt < 24; kt++) {
          mbar_wait(full + s * 8, ph);
          const uint32_t xa = sb + off_x(s) + wg * 4096;
          const uint32_t qb = sb + off_q(c, s), kb = sb + off_kv(c, s);
          reg_fence(aq);
          reg_fence(akv);
          wg_fence();
#pragma unroll
          for (int ks = 0; ks < 2; ks++) {
            uint64_t da = mk_desc(xa + ks * 256, 128, 512);
            wgmma_ss_96(aq, da, mk_desc(qb + ks * 256, 128, 512), 1);
            wgmma_ss_192(akv, da, mk_desc(kb + ks * 256, 128, 512), 1);
          }
          wg_commit();
          if (kt > 0) {
            wg_wait<1>();
            if (lane < 2) mbar_arrive_cta(empty + prev * 8, lane);
          }
          prev = s;
          if (++s == ns) { s = 0; ph ^= 1; }
        }
        wg_wait<0>();
        reg_fence(aq);
        reg_fence(akv);
        if (lane < 2) mbar_arrive_cta(empty + prev * 8, lane);

        // Q to A fragments, with bias, softmax scale and log2(e)
#pragma unroll
        for (int j = 0; j < 12; j++) {
          float2 bb = *reinterpret_cast<const float2*>(sbias + j * 8 + t * 2);
          qa[j * 2] = pack2((aq[4 * j] + bb.x) * qscale, (aq[4 * j + 1] + bb.y) * qscale);
          qa[j * 2 + 1] = pack2((aq[4 * j + 2] + bb.x) * qscale, (aq[4 * j + 3] + bb.y) * qscale);
        }
        consumer_bar();  // both warpgroups have finished with the staging data in this slot
        const int mi = lane >> 3, r = lane & 7;
        const int kg = wg * 8 + warp * 2 + (mi & 1);
        const uint32_t kbase = sb + c * SLOT + (kg * 12 + (mi >> 1)) * 128 + r * 16;
        const uint32_t vbase = sb + c * SLOT + 24576 + ((mi >> 1) * 16 + kg) * 128 + r * 16;
#pragma unroll
        for (int j = 0; j < 12; j += 2) {
          float2 b0 = *reinterpret_cast<const float2*>(sbias + 96 + j * 8 + t * 2);
          float2 b1 = *reinterpret_cast<const float2*>(sbias + 96 + j * 8 + 8 + t * 2);
          stm4(kbase + j * 128,
               pack2(akv[4 * j] + b0.x, akv[4 * j + 1] + b0.y), pack2(akv[4 * j + 2] + b0.x, akv[4 * j + 3] + b0.y),
               pack2(akv[4 * j + 4] + b1.x, akv[4 * j + 5] + b1.y),
               pack2(akv[4 * j + 6] + b1.x, akv[4 * j + 7] + b1.y));
        }
#pragma unroll
        for (int j = 0; j < 12; j += 2) {
          float2 b0 = *reinterpret_cast<const float2*>(sbias + 192 + j * 8 + t * 2);
          float2 b1 = *reinterpret_cast<const float2*>(sbias + 192 + j * 8 + 8 + t * 2);
          stm4t(vbase + j * 2048,
                pack2(akv[48 + 4 * j] + b0.x, akv[48 + 4 * j + 1] + b0.y),
                pack2(akv[48 + 4 * j + 2] + b0.x, akv[48 + 4 * j + 3] + b0.y),
                pack2(akv[48 + 4 * j + 4] + b1.x, akv[48 + 4 * j + 5] + b1.y),
                pack2(akv[48 + 4 * j + 6] + b1.x, akv[48 + 4 * j + 7] + b1.y));
        }
        asm volatile("fence.proxy.async;" ::: "memory");
        consumer_bar();
      }

      // ---- causal attention of 64 query rows over 64-key blocks 0 .. n (block n is the diagonal one)
      float S[32], O[48];
      uint32_t P[16];
#pragma unroll
      for (int i = 0; i < 48; i++) O[i] = 0.f;
#pragma unroll
      for (int i = 0; i < 32; i++) S[i] = 0.f;
      float m0 = -INFINITY, m1 = -INFINITY, l0 = 0.f, l1 = 0.f;
      float a0, a1;
      const int n = 2 * c + wg;
      const int r0 = warp * 16 + g;
      reg_fence(S);
      wg_fence();
      issue_qk(S, qa, sb);
      wg_commit();
      wg_wait<0>();
      reg_fence(S);
      if (n == 0) mask_diag(S, r0, t);
      softmax_step(S, P, a0, a1, m0, m1, l0, l1);
#pragma unroll 1
      for (int j = 0; j < n; j++) {
        const int jn = j + 1;
        uint32_t Pn[16];
        reg_fence(S);
        reg_fence(O);
        reg_fence_u(P);
        wg_fence();
        issue_qk(S, qa, sb + (jn >> 1) * SLOT + (jn & 1) * 12288);
        wg_commit();
        issue_pv(O, P, sb + (j >> 1) * SLOT + 24576 + (j & 1) * 1024);
        wg_commit();
        wg_wait<1>();          // scores are there, P V still runs
        reg_fence(S);
        if (jn == n) mask_diag(S, r0, t);
        softmax_step(S, Pn, a0, a1, m0, m1, l0, l1);
        reg_fence_u(Pn);
        wg_wait<0>();
        reg_fence(O);
        reg_fence_u(P);        // P stays untouched until its products are done
#pragma unroll
        for (int i = 0; i < 12; i++) {
          O[4 * i] *= a0; O[4 * i + 1] *= a0;
          O[4 * i + 2] *= a1; O[4 * i + 3] *= a1;
        }
#pragma unroll
        for (int i = 0; i < 16; i++) P[i] = Pn[i];
      }
      reg_fence(O);
      reg_fence_u(P);
      wg_fence();
      issue_pv(O, P, sb + (n >> 1) * SLOT + 24576 + (n & 1) * 1024);
      wg_commit();
      l0 += __shfl_xor_sync(0xffffffffu, l0, 1);
      l1 += __shfl_xor_sync(0xffffffffu, l1, 1);
      l0 += __shfl_xor_sync(0xffffffffu, l0, 2);
      l1 += __shfl_xor_sync(0xffffffffu, l1, 2);
      const float i0 = 1.f / l0, i1 = 1.f / l1;
      wg_wait<0>();
      reg_fence(O);
      reg_fence_u(P);

      const int rg = wg * 8 + warp * 2;
      uint32_t* yo = reinterpret_cast<uint32_t*>(yp) + (size_t)((b * 4 + c) * 24 + h * 3) * 2048 + lane;
#pragma unroll
      for (int i = 0; i < 12; i++) {
        uint32_t* p = yo + (i >> 2) * 2048 + (rg * 4 + (i & 3)) * 32;
        p[0] = pack2(O[4 * i] * i0, O[4 * i + 1] * i0);
        p[128] = pack2(O[4 * i + 2] * i1, O[4 * i + 3] * i1);
      }
    }
  }
  cluster_sync_all();
}

// ---------------------------------------------------------------- output projection
// clusters of two row tiles share the weight tiles: each CTA loads one half and multicasts it
constexpr int PST = 5;
constexpr int PSTB = 20480;
constexpr int SMEM_PROJ = PST * PSTB + 128;

__device__ __forceinline__ void proj_load(uint32_t sb, uint32_t fb, int s, int kt, const __half* A, const __half* Bw,
                                          int rank) {
  mbar_expect(fb, PSTB);
  bulk_load(sb + s * PSTB, A + kt * 4096, 8192, fb);
  bulk_load_mc(sb + s * PSTB + 8192 + rank * 6144, Bw + kt * 6144 + rank * 3072, 6144, fb, (uint16_t)3);
}

__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(256, 2)
proj_kernel(const __half* __restrict__ yp, const __half* __restrict__ wp, const float* __restrict__ bias,
            float* __restrict__ out) {
  extern __shared__ __align__(1024) uint8_t smem[];
  const uint32_t sb = (uint32_t)__cvta_generic_to_shared(smem);
  const int tid = threadIdx.x, wg = tid >> 7, lane = tid & 31, warp = (tid >> 5) & 3;
  const int rank = blockIdx.x & 1;
  const int nt = (blockIdx.x >> 1) & 3;
  const int mt = (blockIdx.x >> 3) * 2 + rank;
  const uint32_t full = sb + PST * PSTB, empty = full + PST * 8;
  const __half* A = yp + (size_t)mt * 24 * 4096;
  const __half* Bw = wp + (size_t)nt * 24 * 6144;
  if (tid == 0) {
    for (int s = 0; s < PST; s++) {
      mbar_init(full + s * 8, 1);
      mbar_init(empty + s * 8, 16);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  cluster_sync_all();
  if (tid == 0) {
    for (int s = 0; s < PST; s++) proj_load(sb, full + s * 8, s, s, A, Bw, rank);
  }
  __syncwarp();
  float acc[96];
#pragma unroll
  for (int i = 0; i < 96; i++) acc[i] = 0.f;
#pragma unroll 1
  for (int kt = 0; kt < 24; kt++) {
    const int s = kt % PST;
    mbar_wait(full + s * 8, (kt / PST) & 1);
    __syncwarp();
    reg_fence(acc);
    wg_fence();
#pragma unroll
    for (int ks = 0; ks < 2; ks++)
      wgmma_ss_192(acc, mk_desc(sb + s * PSTB + wg * 4096 + ks * 256, 128, 512),
                   mk_desc(sb + s * PSTB + 8192 + ks * 256, 128, 512), 1);
    wg_commit();
    wg_wait<1>();
    // release only stages that are filled again: their owner waits for it, so the other CTA is still there
    if (kt >= 1 && kt - 1 + PST < 24 && lane < 2) mbar_arrive_cta(empty + ((kt - 1) % PST) * 8, lane);
    if (tid == 0 && kt >= 2 && kt + PST - 2 < 24) {
      const int o = kt - 2, so = o % PST;
      mbar_wait(empty + so * 8, (o / PST) & 1);
      proj_load(sb, full + so * 8, so, o + PST, A, Bw, rank);
    }
    __syncwarp();
  }
  wg_wait<0>();
  reg_fence(acc);
  const int g = lane >> 2, t = lane & 3;
  float* o0 = out + (size_t)(mt * 128 + wg * 64 + warp * 16 + g) * 768 + nt * 192 + t * 2;
  const float* bp = bias + nt * 192 + t * 2;
#pragma unroll
  for (int j = 0; j < 24; j++) {
    float2 bb = __ldg(reinterpret_cast<const float2*>(bp + j * 8));
    __stcs(reinterpret_cast<float2*>(o0 + j * 8), make_float2(acc[4 * j] + bb.x, acc[4 * j + 1] + bb.y));
    __stcs(reinterpret_cast<float2*>(o0 + 8 * 768 + j * 8), make_float2(acc[4 * j + 2] + bb.x, acc[4 * j + 3] + bb.y));
  }
}

torch::Tensor fused_attn_forward(torch::Tensor x, torch::Tensor wq, torch::Tensor wkv, torch::Tensor battn,
                                 torch::Tensor wp, torch::Tensor bproj) {
  TORCH_CHECK(x.is_cuda() && x.scalar_type() == torch::kFloat32 && x.is_contiguous(),
              "x must be contiguous float32 on CUDA");
  TORCH_CHECK(x.dim() == 3 && x.size(1) == 512 && x.size(2) == 768 && x.size(0) % 2 == 0 && x.size(0) > 0,
              "unsupported shape");
  c10::cuda::CUDAGuard guard(x.device());
  const int B = (int)x.size(0);
  const int npairs = B / 2;
  auto hopt = x.options().dtype(torch::kFloat16);
  auto xp = torch::empty({(int64_t)B * 512 * 768}, hopt);
  auto yp = torch::empty({(int64_t)B * 512 * 768}, hopt);
  auto sync = torch::empty({(int64_t)npairs + 1}, x.options().dtype(torch::kInt32));
  auto out = torch::empty_like(x);
  cudaStream_t st = at::cuda::getCurrentCUDAStream();

  // pairs of batches packed up front: one wave of resident clusters and a little more
  const int sms = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
  const int lead = (sms + 15) / 16 + 1;
  const int first = lead < npairs ? lead : npairs;

  const int total = first * 2 * 512 * 96;
  pack_kernel<<<(total + 255) / 256, 256, 0, st>>>(x.data_ptr<float>(), reinterpret_cast<uint4*>(xp.data_ptr()), total,
                                                   sync.data_ptr<int>(), npairs + 1);
  C10_CUDA_KERNEL_LAUNCH_CHECK();

  C10_CUDA_CHECK(cudaFuncSetAttribute(qkv_attn_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SMEM_ATTN));
  const float qscale = (float)(1.4426950408889634 / 9.797958971132712);
  qkv_attn_kernel<<<B * 8, 384, SMEM_ATTN, st>>>(
      x.data_ptr<float>(), reinterpret_cast<__half*>(xp.data_ptr()), reinterpret_cast<const __half*>(wq.data_ptr()),
      reinterpret_cast<const __half*>(wkv.data_ptr()), battn.data_ptr<float>(),
      reinterpret_cast<__half*>(yp.data_ptr()), sync.data_ptr<int>(), lead, npairs, qscale);
  C10_CUDA_KERNEL_LAUNCH_CHECK();

  C10_CUDA_CHECK(cudaFuncSetAttribute(proj_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SMEM_PROJ));
  proj_kernel<<<B * 16, 256, SMEM_PROJ, st>>>(
      reinterpret_cast<const __half*>(yp.data_ptr()), reinterpret_cast<const __half*>(wp.data_ptr()),
      bproj.data_ptr<float>(), out.data_ptr<float>());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""

_CUDA_SRC = _HEAD + _wgmma(96, False) + _wgmma(192, False) + _wgmma(64, True) + _wgmma(96, True) + _BODY

_CPP_SRC = (
    "torch::Tensor fused_attn_forward(torch::Tensor x, torch::Tensor wq, torch::Tensor wkv, "
    "torch::Tensor battn, torch::Tensor wp, torch::Tensor bproj);"
)

_ext = load_inline(
    name="pike_gallery_causal_attention",
    cpp_sources=_CPP_SRC,
    cuda_sources=_CUDA_SRC,
    functions=["fused_attn_forward"],
    extra_cuda_cflags=["-O3", "-std=c++17", "-gencode=arch=compute_90a,code=sm_90a"],
    verbose=False,
)


def _tiles(w: torch.Tensor, groups: int) -> torch.Tensor:
    """(G, rows, 768) to (G, k tile, row group, column group, 8, 8): the core matrices of `wgmma`."""
    return w.reshape(w.shape[0], groups, 8, 24, 4, 8).permute(0, 3, 1, 4, 2, 5).contiguous()


class ModelNew(nn.Module):
    """Multi-head attention to the left for inference; parameters and buffers are those of the original."""

    def __init__(
        self, width: int, heads: int, attention_dropout: float, residual_dropout: float, most_tokens: int
    ) -> None:
        super().__init__()
        if (width, heads) != (WIDTH, HEADS):
            raise ValueError(f"this kernel is made for width {WIDTH} and {HEADS} heads")
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        ones = torch.ones(most_tokens, most_tokens)
        self.register_buffer("causal", torch.tril(ones).view(1, 1, most_tokens, most_tokens))
        self._packed = None

    def _apply(self, fn, *args, **kwargs):
        self._packed = None
        return super()._apply(fn, *args, **kwargs)

    def _load_from_state_dict(self, *args, **kwargs):
        self._packed = None
        return super()._load_from_state_dict(*args, **kwargs)

    def _pack(self):
        with torch.no_grad():
            w = self.project.weight.detach().to(torch.float16).reshape(3, 8, 96, 768)
            wq = _tiles(w[0], 12)
            wkv = _tiles(torch.cat([w[1], w[2]], dim=1), 24)
            battn = self.project.bias.detach().float().reshape(3, 8, 96).permute(1, 0, 2).reshape(8, 288).contiguous()
            wp = _tiles(self.out.weight.detach().to(torch.float16).reshape(4, 192, 768), 24)
            bproj = self.out.bias.detach().float().contiguous()
        self._packed = (wq, wkv, battn, wp, bproj)
        return self._packed

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, width) to the same shape."""
        if x.shape[1] != TOKENS or x.shape[0] % 2 or not x.shape[0]:
            return self._general(x)
        packed = self._packed
        if packed is None:
            packed = self._pack()
        return _ext.fused_attn_forward(x.contiguous(), *packed)

    def _general(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        split = (batch, tokens, HEADS, width // HEADS)
        q, k, v = (part.view(split).transpose(1, 2) for part in self.project(x).split(width, dim=2))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, tokens, width))
