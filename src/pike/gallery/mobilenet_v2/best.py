"""MobileNet v2 in nine launches: fused bottlenecks, and one cluster per image from 14 x 14 on.

What it does: the network of `level3-pike/20` on images of 224 x 224, any number of them up to 10,699.
Products have 16-bit factors and 32-bit sums, on tensor cores (`mma.sync`). Batch norms are folded into the
weights in 64 bits when the weights are taken over.

What made it fast: no wide map of a bottleneck reaches global memory. The stem and the first block are one
kernel. Each of the next six bottlenecks is one kernel on spatial tiles, and all wide channels of a tile stay
in shared memory. The last ten bottlenecks, the head and the pooling are one kernel. In it a cluster of eight
blocks works on each image. Each block has an eighth of the wide channels, and the partial sums of the narrow
product are added across the blocks' shared memory. While one layer computes, `cp.async` brings the next
layer's weights into shared memory. The classifier is a kernel of its own. Each kernel starts before the
previous one ends, and reads its first weights before it waits for the map.

Accuracy: images, 1 x 1 and stem weights, narrow maps and wide maps (before and after the depthwise filter)
are rounded to 16 bits. All sums, the depthwise filters, the biases, the head's map, the pooled features and
the classifier's weights have 32 bits.

Limits: images of 224 x 224, the task's channels, compute capability 9.0 (Hopper), inference only. Weights
must be on the images' GPU, with the types that `from_reference` gives them. One GPU in a process.

Author: a coding agent, in a search by the strategy pike-b (result.json says which).
Licence: Apache-2.0.
"""

import os

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

os.environ.setdefault("TORCH_CUDA_ARCH_LIST", "9.0")

CPP_SOURCE = "torch::Tensor mbv2_forward(torch::Tensor x, torch::Tensor w16, torch::Tensor w32, int64_t classes);"

CUDA_SOURCE = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_fp16.h>
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__device__ __forceinline__ float relu6f(float x) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(0.0f));
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(y), "f"(6.0f));
  return y;
}
__device__ __forceinline__ unsigned h2u(float a, float b) {
  __half2 h = __floats2half2_rn(a, b);
  return *reinterpret_cast<unsigned*>(&h);
}
__device__ __forceinline__ float2 ldh2(const __half* p) {
  return __half22float2(*reinterpret_cast<const __half2*>(p));
}
__device__ __forceinline__ float2 ldgf2(const float* p) {
  return __ldg(reinterpret_cast<const float2*>(p));
}
__device__ __forceinline__ void ldsm4(unsigned* a, const __half* p) {
  unsigned s = static_cast<unsigned>(__cvta_generic_to_shared(p));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(s) : "memory");
}
__device__ __forceinline__ void mma16(float* c, const unsigned* a, uint2 b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.x), "r"(b.y));
}
__device__ __forceinline__ void pdl_start() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
__device__ __forceinline__ void pdl_wait() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

// 3x3 depthwise along one output row for one pair of channels, reusing columns
template <int S, int TW, class L, class St>
__device__ __forceinline__ void dw_slide(L load, const float2* w, float2 b, St store) {
  float2 col[3][3];
#pragma unroll
  for (int ox = 0; ox < TW; ox++) {
#pragma unroll
    for (int k = 0; k < 3; k++) {
      const int ix = S * ox + k;
      if (ox == 0 || ix > S * (ox - 1) + 2) {
#pragma unroll
        for (int r = 0; r < 3; r++) col[ix % 3][r] = load(r, ix);
      }
    }
    float2 acc = b;
#pragma unroll
    for (int r = 0; r < 3; r++)
#pragma unroll
      for (int k = 0; k < 3; k++) {
        const float2 v = col[(S * ox + k) % 3][r];
        acc.x = fmaf(v.x, w[r * 3 + k].x, acc.x);
        acc.y = fmaf(v.y, w[r * 3 + k].y, acc.y);
      }
    store(ox, h2u(relu6f(acc.x), relu6f(acc.y)));
  }
}

// ---------------------------------------------------------------- stem + first bottleneck
constexpr int ST_W = 38;
__global__ void __launch_bounds__(256) stem_kernel(const float* x, const uint2* wst, const uint2* wpj,
                                                   const float* w32, __half* out) {
  __shared__ __align__(16) __half sin_[3 * 21 * ST_W + 6];
  __shared__ __align__(16) __half E[180 * 40];
  __shared__ __align__(16) __half D[128 * 40];
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5, g = lane >> 2, q = lane & 3;
  pdl_start();
  const float* bst = w32;
  const float* dww = w32 + 32;
  const float* bd = dww + 9 * 32;
  const float* bp = bd + 32;
  uint2 B[4][2];
  float2 bias[4];
#pragma unroll
  for (int n = 0; n < 4; n++) {
#pragma unroll
    for (int k = 0; k < 2; k++) B[n][k] = __ldg(wst + (n * 2 + k) * 32 + lane);
    bias[n] = ldgf2(bst + n * 8 + q * 2);
  }
  const int t = blockIdx.x, b = blockIdx.y;
  const int oy0 = (t / 7) * 8, ox0 = (t % 7) * 16;
  const int iy0 = 2 * oy0 - 3, ix0 = 2 * ox0 - 3;
  pdl_wait();
  for (int i = tid; i < 3 * 21 * 37; i += 256) {
    const int c = i / (21 * 37), rem = i % (21 * 37), yy = rem / 37, xx = rem % 37;
    const int gy = iy0 + yy, gx = ix0 + xx;
    float v = 0.0f;
    if (gy >= 0 && gy < 224 && gx >= 0 && gx < 224) v = x[((b * 3 + c) * 224 + gy) * 224 + gx];
    sin_[(c * 21 + yy) * ST_W + xx] = __float2half_rn(v);
  }
  int off[2][2][2];
#pragma unroll
  for (int kt = 0; kt < 2; kt++)
#pragma unroll
    for (int hi = 0; hi < 2; hi++)
#pragma unroll
      for (int j = 0; j < 2; j++) {
        const int k = kt * 16 + hi * 8 + q * 2 + j;
        off[kt][hi][j] = k < 27 ? (k / 9) * 21 * ST_W + ((k % 9) / 3) * ST_W + k % 3 : -1;
      }
  __syncthreads();
  const unsigned short* si = reinterpret_cast<const unsigned short*>(sin_);
  for (int mt = warp; mt < 12; mt += 8) {
    unsigned a[2][4];
#pragma unroll
    for (int rr = 0; rr < 2; rr++) {
      int p = mt * 16 + g + rr * 8;
      p = p < 180 ? p : 179;
      const int base = (p / 18) * 2 * ST_W + (p % 18) * 2;
#pragma unroll
      for (int kt = 0; kt < 2; kt++)
#pragma unroll
        for (int hi = 0; hi < 2; hi++) {
          const int o0 = off[kt][hi][0], o1 = off[kt][hi][1];
          const unsigned v0 = o0 >= 0 ? si[base + o0] : 0;
          const unsigned v1 = o1 >= 0 ? si[base + o1] : 0;
          a[kt][hi * 2 + rr] = v0 | (v1 << 16);
        }
    }
    float c[4][4];
#pragma unroll
    for (int n = 0; n < 4; n++) {
      c[n][0] = c[n][2] = bias[n].x;
      c[n][1] = c[n][3] = bias[n].y;
#pragma unroll
      for (int kt = 0; kt < 2; kt++) mma16(c[n], a[kt], B[n][kt]);
    }
#pragma unroll
    for (int rr = 0; rr < 2; rr++) {
      const int p = mt * 16 + g + rr * 8;
      if (p < 180) {
        const int gy = oy0 - 1 + p / 18, gx = ox0 - 1 + p % 18;
        const bool ok = gy >= 0 && gy < 112 && gx >= 0 && gx < 112;
#pragma unroll
        for (int n = 0; n < 4; n++)
          *reinterpret_cast<unsigned*>(E + p * 40 + n * 8 + q * 2) =
              ok ? h2u(relu6f(c[n][rr * 2]), relu6f(c[n][rr * 2 + 1])) : 0u;
      }
    }
  }
  __syncthreads();
  {
    const int pr = tid & 15, row = (tid >> 4) & 7, seg = tid >> 7;
    float2 w[9];
#pragma unroll
    for (int i = 0; i < 9; i++) w[i] = ldgf2(dww + i * 32 + pr * 2);
    const float2 bb = ldgf2(bd + pr * 2);
    const __half* e0 = E + (row * 18 + seg * 8) * 40 + pr * 2;
    __half* d0 = D + (row * 16 + seg * 8) * 40 + pr * 2;
    dw_slide<1, 8>([&](int r, int ix) { return ldh2(e0 + (r * 18 + ix) * 40); }, w, bb,
                   [&](int ox, unsigned v) { *reinterpret_cast<unsigned*>(d0 + ox * 40) = v; });
  }
  __syncthreads();
  {
    float c[2][4];
#pragma unroll
    for (int n = 0; n < 2; n++) {
      const float2 bb = ldgf2(bp + n * 8 + q * 2);
      c[n][0] = c[n][2] = bb.x;
      c[n][1] = c[n][3] = bb.y;
    }
#pragma unroll
    for (int kt = 0; kt < 2; kt++) {
      unsigned a[4];
      ldsm4(a, D + (warp * 16 + (lane & 15)) * 40 + kt * 16 + (lane >> 4) * 8);
#pragma unroll
      for (int n = 0; n < 2; n++) mma16(c[n], a, __ldg(wpj + (n * 2 + kt) * 32 + lane));
    }
#pragma unroll
    for (int rr = 0; rr < 2; rr++) {
      const int p = warp * 16 + g + rr * 8;
      const int gy = oy0 + p / 16, gx = ox0 + p % 16;
#pragma unroll
      for (int n = 0; n < 2; n++)
        *reinterpret_cast<unsigned*>(out + ((b * 112 + gy) * 112 + gx) * 16 + n * 8 + q * 2) =
            h2u(c[n][rr * 2], c[n][rr * 2 + 1]);
    }
  }
}

// ---------------------------------------------------------------- fused inverted bottleneck on a tile
template <int CIN, int WIDE, int COUT, int S, int HIN, int TH, int TW, int NTHR, int NCH>
struct FB {
  static constexpr int CK = (CIN + 15) / 16 * 16, LDX = CK + 8, LDE = WIDE + 8;
  static constexpr int IH = (TH - 1) * S + 3, IW = (TW - 1) * S + 3, HP = IH * IW, HM = (HP + 15) / 16;
  static constexpr int OP = TH * TW, OM = (OP + 15) / 16, HO = HIN / S;
  static constexpr int SMEM = 2 * (HM * 16 * LDX + HP * LDE + OM * 16 * LDE);
  static constexpr int TILES = (HO / TH) * (HO / TW);
  static constexpr int W16 = WIDE * CK + COUT * WIDE, W32 = 11 * WIDE + COUT;
};

template <int CIN, int WIDE, int COUT, int S, int HIN, int TH, int TW, int NTHR, int NCH>
__global__ void __launch_bounds__(NTHR) fused_kernel(const __half* in, const __half* w16, const float* w32,
                                                     __half* out) {
  using F = FB<CIN, WIDE, COUT, S, HIN, TH, TW, NTHR, NCH>;
  constexpr int CK = F::CK, LDX = F::LDX, LDE = F::LDE, IW = F::IW, HP = F::HP, HM = F::HM;
  constexpr int OP = F::OP, OM = F::OM, HO = F::HO, NW = NTHR / 32, KT = CK / 16, NT = WIDE / 8 / NCH;
  static_assert(NW % NCH == 0, "warps");
  extern __shared__ __align__(16) unsigned char smem[];
  __half* X = reinterpret_cast<__half*>(smem);
  __half* E = X + HM * 16 * LDX;
  __half* D = E + HP * LDE;
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5, g = lane >> 2, q = lane & 3;
  pdl_start();
  const uint2* we = reinterpret_cast<const uint2*>(w16);
  const uint2* wp = reinterpret_cast<const uint2*>(w16 + WIDE * CK);
  const float* be = w32;
  const float* dww = w32 + WIDE;
  const float* bd = dww + 9 * WIDE;
  const float* bp = bd + WIDE;
  const int ch = warp % NCH;
  uint2 B[NT][KT];
  float2 bias[NT];
#pragma unroll
  for (int n = 0; n < NT; n++) {
#pragma unroll
    for (int k = 0; k < KT; k++) B[n][k] = __ldg(we + ((ch * NT + n) * KT + k) * 32 + lane);
    bias[n] = ldgf2(be + (ch * NT + n) * 8 + q * 2);
  }
  const int t = blockIdx.x, b = blockIdx.y;
  const int oy0 = t / (HO / TW) * TH, ox0 = t % (HO / TW) * TW;
  const int iy0 = oy0 * S - 1, ix0 = ox0 * S - 1;
  pdl_wait();
  constexpr int C8 = CK / 8;
  for (int i = tid; i < HM * 16 * C8; i += NTHR) {
    const int p = i / C8, c = i % C8;
    const int gy = iy0 + p / IW, gx = ix0 + p % IW;
    uint4 v = make_uint4(0, 0, 0, 0);
    if (p < HP && c * 8 < CIN && gy >= 0 && gy < HIN && gx >= 0 && gx < HIN)
      v = *reinterpret_cast<const uint4*>(in + ((b * HIN + gy) * HIN + gx) * CIN + c * 8);
    *reinterpret_cast<uint4*>(X + p * LDX + c * 8) = v;
  }
  __syncthreads();
  for (int mt = warp / NCH; mt < HM; mt += NW / NCH) {
    unsigned a[KT][4];
#pragma unroll
    for (int k = 0; k < KT; k++) ldsm4(a[k], X + (mt * 16 + (lane & 15)) * LDX + k * 16 + (lane >> 4) * 8);
    float c[NT][4];
#pragma unroll
    for (int n = 0; n < NT; n++) {
      c[n][0] = c[n][2] = bias[n].x;
      c[n][1] = c[n][3] = bias[n].y;
    }
#pragma unroll
    for (int k = 0; k < KT; k++)
#pragma unroll
      for (int n = 0; n < NT; n++) mma16(c[n], a[k], B[n][k]);
#pragma unroll
    for (int rr = 0; rr < 2; rr++) {
      const int p = mt * 16 + g + rr * 8;
      if (p < HP) {
        const int gy = iy0 + p / IW, gx = ix0 + p % IW;
        const bool ok = gy >= 0 && gy < HIN && gx >= 0 && gx < HIN;
#pragma unroll
        for (int n = 0; n < NT; n++)
          *reinterpret_cast<unsigned*>(E + p * LDE + (ch * NT + n) * 8 + q * 2) =
              ok ? h2u(relu6f(c[n][rr * 2]), relu6f(c[n][rr * 2 + 1])) : 0u;
      }
    }
  }
  __syncthreads();
  constexpr int NP = WIDE / 2;
  for (int i = tid; i < NP * TH; i += NTHR) {
    const int pr = i % NP, row = i / NP;
    float2 w[9];
#pragma unroll
    for (int k = 0; k < 9; k++) w[k] = ldgf2(dww + k * WIDE + pr * 2);
    const float2 bb = ldgf2(bd + pr * 2);
    const __half* e0 = E + row * S * IW * LDE + pr * 2;
    __half* d0 = D + row * TW * LDE + pr * 2;
    dw_slide<S, TW>([&](int r, int ix) { return ldh2(e0 + (r * IW + ix) * LDE); }, w, bb,
                    [&](int ox, unsigned v) { *reinterpret_cast<unsigned*>(d0 + ox * LDE) = v; });
  }
  __syncthreads();
  constexpr int KP = WIDE / 16;
  for (int task = warp; task < OM * (COUT / 8); task += NW) {
    const int mt = task % OM, nt = task / OM;
    uint2 bb[KP];
#pragma unroll
    for (int k = 0; k < KP; k++) bb[k] = __ldg(wp + (nt * KP + k) * 32 + lane);
    const float2 bi = ldgf2(bp + nt * 8 + q * 2);
    float c[4] = {bi.x, bi.y, bi.x, bi.y};
#pragma unroll
    for (int k = 0; k < KP; k++) {
      unsigned a[4];
      ldsm4(a, D + (mt * 16 + (lane & 15)) * LDE + k * 16 + (lane >> 4) * 8);
      mma16(c, a, bb[k]);
    }
#pragma unroll
    for (int rr = 0; rr < 2; rr++) {
      const int p = mt * 16 + g + rr * 8;
      if (p < OP) {
        const int gy = oy0 + p / TW, gx = ox0 + p % TW;
        *reinterpret_cast<unsigned*>(out + ((b * HO + gy) * HO + gx) * COUT + nt * 8 + q * 2) =
            h2u(c[rr * 2], c[rr * 2 + 1]);
      }
    }
  }
}

// ---------------------------------------------------------------- all 14x14 and 7x7 layers, one cluster per image
__host__ __device__ constexpr int l_cin(int l) { return l < 4 ? 64 : (l < 7 ? 96 : 160); }
__host__ __device__ constexpr int l_ws(int l) { return l < 4 ? 48 : (l < 7 ? 72 : 120); }
__host__ __device__ constexpr int l_cout(int l) { return l < 3 ? 64 : (l < 6 ? 96 : (l < 9 ? 160 : 320)); }
__host__ __device__ constexpr int l_kp(int l) { return l < 4 ? 48 : (l < 7 ? 80 : 128); }
__host__ __device__ constexpr int l_weoff(int l) { return l <= 6 ? 161408 : 124960; }
__host__ __device__ constexpr int l_wpoff(int l) { return l <= 6 ? 175232 : 163360; }
__host__ __device__ constexpr int l_doff(int l) { return l <= 5 ? 124800 : 107552; }
constexpr int P_OFF = 43264;
constexpr int CL_SMEM = 227360;
constexpr int CT = 512;

__device__ __forceinline__ void prefetch(unsigned char* dst, const void* src, int bytes) {
  const unsigned s = static_cast<unsigned>(__cvta_generic_to_shared(dst));
  const char* p = static_cast<const char*>(src);
  for (int i = threadIdx.x * 16; i < bytes; i += CT * 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(s + i), "l"(p + i) : "memory");
  asm volatile("cp.async.commit_group;" ::: "memory");
}
__device__ __forceinline__ void wait_all_but_one() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }

template <int MTILES, int NG, int NTILES, int KT, class Init, class Epi>
__device__ __forceinline__ void gemm(const __half* A, int lda, const uint2* B, Init init, Epi epi) {
  constexpr int MP = (MTILES + 1) / 2, NPW = (NTILES + NG - 1) / NG, U = KT <= 10 ? KT : 5;
  static_assert(MP * NG <= CT / 32, "warps");
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int mp = warp % MP, ng = warp / MP;
  if (ng >= NG) return;
  float c[2][NPW][4];
#pragma unroll
  for (int j = 0; j < NPW; j++) {
    const int nt = ng * NPW + j;
    float2 bi = make_float2(0.0f, 0.0f);
    if (nt < NTILES) bi = init(nt);
#pragma unroll
    for (int i = 0; i < 2; i++) {
      c[i][j][0] = c[i][j][2] = bi.x;
      c[i][j][1] = c[i][j][3] = bi.y;
    }
  }
  const __half* ap[2];
#pragma unroll
  for (int i = 0; i < 2; i++) {
    int row = (mp * 2 + i) * 16 + (lane & 15);
    row = row < MTILES * 16 ? row : MTILES * 16 - 1;
    ap[i] = A + row * lda + (lane >> 4) * 8;
  }
#pragma unroll U
  for (int k = 0; k < KT; k++) {
    unsigned a[2][4];
    ldsm4(a[0], ap[0] + k * 16);
    ldsm4(a[1], ap[1] + k * 16);
#pragma unroll
    for (int j = 0; j < NPW; j++) {
      const int nt = ng * NPW + j;
      if (nt < NTILES) {
        const uint2 b = B[(nt * KT + k) * 32 + lane];
        mma16(c[0][j], a[0], b);
        mma16(c[1][j], a[1], b);
      }
    }
  }
#pragma unroll
  for (int j = 0; j < NPW; j++) {
    const int nt = ng * NPW + j;
    if (nt < NTILES) {
#pragma unroll
      for (int i = 0; i < 2; i++) epi((mp * 2 + i) * 16, nt, c[i][j]);
    }
  }
}

template <int L0, int S>
__device__ __forceinline__ void cl_layer(int l, unsigned char* sm, int rank, const __half*& w16, const float*& w32) {
  constexpr int CIN = l_cin(L0), WS = l_ws(L0), COUT = l_cout(L0), KP = l_kp(L0), WIDE = WS * 8;
  constexpr int HIN = L0 <= 6 ? 14 : 7, HO = HIN / S, HWI = HIN * HIN, HWO = HO * HO;
  constexpr int LDX = CIN + 8, LDE = ((WS / 8) | 1) * 8, LDD = KP + 8, LDP = COUT + 8, LDN = COUT + 8;
  constexpr int MTE = HIN == 14 ? 13 : 4, NGE = HIN == 14 ? 2 : 8, MTP = HO == 14 ? 13 : 4, NGP = HO == 14 ? 2 : 8;
  constexpr bool PS = L0 < 9;
  cg::cluster_group cluster = cg::this_cluster();
  const int tid = threadIdx.x, lane = tid & 31, g = lane >> 2, q = lane & 3;
  __half* X = reinterpret_cast<__half*>(sm);
  __half* E = reinterpret_cast<__half*>(sm + P_OFF);
  float* P = reinterpret_cast<float*>(sm + P_OFF);
  __half* D = reinterpret_cast<__half*>(sm + l_doff(L0));
  const float* be = w32 + rank * WS;
  const float* dww = w32 + WIDE + rank * WS;
  const float* bd = w32 + 10 * WIDE + rank * WS;
  const float* bp = w32 + 11 * WIDE;
  // where the next layer's weights are
  const __half* next = w16 + 8 * WS * CIN + 8 * COUT * KP;
  const __half* srcE;
  const __half* srcP = next;
  int bytesE, bytesP = 0;
  if (l < 9) {
    const int ne = l_ws(l + 1) * l_cin(l + 1), np = l_cout(l + 1) * l_kp(l + 1);
    srcE = next + rank * ne;
    bytesE = ne * 2;
    srcP = next + 8 * ne + rank * np;
    bytesP = l == 8 ? 0 : np * 2;
  } else {
    srcE = next + rank * 160 * 320;
    bytesE = 160 * 320 * 2;
  }
  constexpr int NP = WS / 2;
  static_assert(NP * HO <= CT, "depthwise tasks");
  const int pr = tid % NP, oy = tid / NP;
  const bool active = oy < HO;
  float2 w[9], bb;
#pragma unroll
  for (int k = 0; k < 9; k++) w[k] = ldgf2(dww + k * WIDE + pr * 2);
  bb = ldgf2(bd + pr * 2);

  gemm<MTE, NGE, WS / 8, CIN / 16>(
      X, LDX, reinterpret_cast<const uint2*>(sm + l_weoff(L0)),
      [&](int nt) { return ldgf2(be + nt * 8 + q * 2); },
      [&](int m0, int nt, const float* c) {
#pragma unroll
        for (int rr = 0; rr < 2; rr++) {
          const int p = m0 + g + rr * 8;
          if (p < HWI)
            *reinterpret_cast<unsigned*>(E + p * LDE + nt * 8 + q * 2) = h2u(relu6f(c[rr * 2]), relu6f(c[rr * 2 + 1]));
        }
      });
  __syncthreads();
  prefetch(sm + l_weoff(l + 1), srcE, bytesE);
  if (active) {
    const int iy0 = oy * S - 1;
    const __half* e0 = E + pr * 2;
    __half* d0 = D + oy * HO * LDD + pr * 2;
    dw_slide<S, HO>(
        [&](int r, int ix) {
          const int iy = iy0 + r, xx = ix - 1;
          if (xx < 0 || xx >= HIN || iy < 0 || iy >= HIN) return make_float2(0.0f, 0.0f);
          return ldh2(e0 + (iy * HIN + xx) * LDE);
        },
        w, bb, [&](int ox, unsigned v) { *reinterpret_cast<unsigned*>(d0 + ox * LDD) = v; });
  }
  if (KP > WS) {
    if (tid < HWO) *reinterpret_cast<uint4*>(D + tid * LDD + WS) = make_uint4(0, 0, 0, 0);
  }
  wait_all_but_one();
  __syncthreads();
  const uint2* wp = PS ? reinterpret_cast<const uint2*>(sm + l_wpoff(L0))
                       : reinterpret_cast<const uint2*>(w16 + 8 * WS * CIN + rank * COUT * KP);
  gemm<MTP, NGP, COUT / 8, KP / 16>(
      D, LDD, wp, [&](int) { return make_float2(0.0f, 0.0f); },
      [&](int m0, int nt, const float* c) {
#pragma unroll
        for (int rr = 0; rr < 2; rr++) {
          const int p = m0 + g + rr * 8;
          if (p < HWO) *reinterpret_cast<float2*>(P + p * LDP + nt * 8 + q * 2) = make_float2(c[rr * 2], c[rr * 2 + 1]);
        }
      });
  cluster.sync();
  prefetch(sm + l_wpoff(l + 1), srcP, bytesP);
  {
    constexpr int C4 = COUT / 4, Q = HWO * C4, CH = (Q + 7) / 8;
    const int end = (rank + 1) * CH < Q ? (rank + 1) * CH : Q;
    for (int i = rank * CH + tid; i < end; i += CT) {
      const int row = i / C4, c4 = i % C4;
      float4 v[8];
#pragma unroll
      for (int s = 0; s < 8; s++)
        v[s] = *reinterpret_cast<const float4*>(cluster.map_shared_rank(P, s) + row * LDP + c4 * 4);
      float4 a = __ldg(reinterpret_cast<const float4*>(bp + c4 * 4));
#pragma unroll
      for (int s = 0; s < 8; s++) {
        a.x += v[s].x;
        a.y += v[s].y;
        a.z += v[s].z;
        a.w += v[s].w;
      }
      const uint2 h = make_uint2(h2u(a.x, a.y), h2u(a.z, a.w));
#pragma unroll
      for (int s = 0; s < 8; s++)
        *reinterpret_cast<uint2*>(cluster.map_shared_rank(X, s) + row * LDN + c4 * 4) = h;
    }
  }
  wait_all_but_one();
  cluster.sync();
  w16 = next;
  w32 += 11 * WIDE + COUT;
}

__global__ void __cluster_dims__(8, 1, 1) __launch_bounds__(CT, 1)
    cluster_kernel(const __half* in, const __half* w16, const float* w32, float* pooled) {
  extern __shared__ __align__(16) unsigned char smem[];
  cg::cluster_group cluster = cg::this_cluster();
  const int rank = cluster.block_rank(), b = blockIdx.x / 8;
  const int tid = threadIdx.x, lane = tid & 31, g = lane >> 2, q = lane & 3;
  pdl_start();
  prefetch(smem + l_weoff(0), w16 + rank * 48 * 64, 48 * 64 * 2);
  prefetch(smem + l_wpoff(0), w16 + 8 * 48 * 64 + rank * 64 * 48, 64 * 48 * 2);
  pdl_wait();
  __half* X = reinterpret_cast<__half*>(smem);
  for (int i = tid; i < 196 * 8; i += CT)
    *reinterpret_cast<uint4*>(X + (i >> 3) * 72 + (i & 7) * 8) =
        *reinterpret_cast<const uint4*>(in + b * 196 * 64 + i * 8);
  wait_all_but_one();
  cluster.sync();
#pragma unroll 1
  for (int l = 0; l < 3; l++) cl_layer<0, 1>(l, smem, rank, w16, w32);
  cl_layer<3, 1>(3, smem, rank, w16, w32);
#pragma unroll 1
  for (int l = 4; l < 6; l++) cl_layer<4, 1>(l, smem, rank, w16, w32);
  cl_layer<6, 2>(6, smem, rank, w16, w32);
#pragma unroll 1
  for (int l = 7; l < 9; l++) cl_layer<7, 1>(l, smem, rank, w16, w32);
  cl_layer<9, 1>(9, smem, rank, w16, w32);
  // head: 160 of its 1280 channels in each block, ReLU6 and mean over the 49 pixels
  float* pool = reinterpret_cast<float*>(smem + P_OFF);
  gemm<4, 8, 20, 20>(
      X, 328, reinterpret_cast<const uint2*>(smem + 124960),
      [&](int nt) { return ldgf2(w32 + rank * 160 + nt * 8 + q * 2); },
      [&](int m0, int nt, const float* c) {
        float s0 = 0.0f, s1 = 0.0f;
#pragma unroll
        for (int rr = 0; rr < 2; rr++) {
          if (m0 + g + rr * 8 < 49) {
            s0 += relu6f(c[rr * 2]);
            s1 += relu6f(c[rr * 2 + 1]);
          }
        }
#pragma unroll
        for (int o = 4; o < 32; o <<= 1) {
          s0 += __shfl_xor_sync(0xffffffffu, s0, o);
          s1 += __shfl_xor_sync(0xffffffffu, s1, o);
        }
        if (g == 0) {
          pool[(m0 >> 4) * 160 + nt * 8 + q * 2] = s0;
          pool[(m0 >> 4) * 160 + nt * 8 + q * 2 + 1] = s1;
        }
      });
  __syncthreads();
  if (tid < 160)
    pooled[b * 1280 + rank * 160 + tid] =
        ((pool[tid] + pool[160 + tid]) + (pool[320 + tid] + pool[480 + tid])) * (1.0f / 49.0f);
}

// ---------------------------------------------------------------- classifier
__global__ void __launch_bounds__(256) classifier_kernel(const float* pooled, const float* weight, const float* bias,
                                                         float* out, int batch, int classes) {
  const int lane = threadIdx.x & 31, n = blockIdx.x * 8 + (threadIdx.x >> 5);
  pdl_start();
  float4 w[10];
  float bi = 0.0f;
  if (n < classes) {
#pragma unroll
    for (int i = 0; i < 10; i++) w[i] = __ldg(reinterpret_cast<const float4*>(weight + n * 1280) + i * 32 + lane);
    bi = __ldg(bias + n);
  }
  pdl_wait();
  if (n >= classes) return;
  const int b0 = blockIdx.y * 5;
#pragma unroll
  for (int j = 0; j < 5; j++) {
    const int b = b0 + j;
    if (b < batch) {
      const float4* p = reinterpret_cast<const float4*>(pooled + b * 1280);
      float s = 0.0f;
#pragma unroll
      for (int i = 0; i < 10; i++) {
        const float4 v = p[i * 32 + lane];
        s = fmaf(v.x, w[i].x, s);
        s = fmaf(v.y, w[i].y, s);
        s = fmaf(v.z, w[i].z, s);
        s = fmaf(v.w, w[i].w, s);
      }
#pragma unroll
      for (int o = 16; o > 0; o >>= 1) s += __shfl_xor_sync(0xffffffffu, s, o);
      if (lane == 0) out[b * classes + n] = s + bi;
    }
  }
}

// ---------------------------------------------------------------- host
template <class... KA, class... AA>
static void launch(void (*kernel)(KA...), dim3 grid, int threads, size_t smem, cudaStream_t stream, AA... args) {
  cudaLaunchConfig_t cfg = {};
  cfg.gridDim = grid;
  cfg.blockDim = dim3(threads);
  cfg.dynamicSmemBytes = smem;
  cfg.stream = stream;
  cudaLaunchAttribute attr[1];
  attr[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attr[0].val.programmaticStreamSerializationAllowed = 1;
  cfg.attrs = attr;
  cfg.numAttrs = 1;
  C10_CUDA_CHECK(cudaLaunchKernelEx(&cfg, kernel, static_cast<KA>(args)...));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template <int CIN, int WIDE, int COUT, int S, int HIN, int TH, int TW, int NTHR, int NCH>
static void run_fused(const __half* in, const __half*& w16, const float*& w32, __half* out, int batch,
                      cudaStream_t stream) {
  using F = FB<CIN, WIDE, COUT, S, HIN, TH, TW, NTHR, NCH>;
  auto kernel = fused_kernel<CIN, WIDE, COUT, S, HIN, TH, TW, NTHR, NCH>;
  static bool ready = false;
  if (!ready) {
    C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, F::SMEM));
    ready = true;
  }
  launch(kernel, dim3(F::TILES, batch), NTHR, F::SMEM, stream, in, w16, w32, out);
  w16 += F::W16;
  w32 += F::W32;
}

torch::Tensor mbv2_forward(torch::Tensor x, torch::Tensor w16t, torch::Tensor w32t, int64_t classes) {
  TORCH_CHECK(x.is_cuda() && x.is_contiguous() && x.scalar_type() == torch::kFloat32, "input");
  TORCH_CHECK(x.dim() == 4 && x.size(1) == 3 && x.size(2) == 224 && x.size(3) == 224, "input shape");
  const c10::cuda::CUDAGuard guard(x.device());
  const int batch = static_cast<int>(x.size(0));
  auto out = torch::empty({batch, classes}, x.options());
  if (batch == 0) return out;
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  const int64_t n0 = 112 * 112 * 16, n1 = 56 * 56 * 24, n3 = 28 * 28 * 32, n6 = 14 * 14 * 64;
  const int64_t total = batch * (n0 + 2 * n1 + 3 * n3 + n6 + 2 * 1280);
  auto ws = torch::empty({total}, x.options().dtype(torch::kFloat16));
  __half* a0 = reinterpret_cast<__half*>(ws.data_ptr());
  __half* a1 = a0 + batch * n0;
  __half* a2 = a1 + batch * n1;
  __half* a3 = a2 + batch * n1;
  __half* a4 = a3 + batch * n3;
  __half* a5 = a4 + batch * n3;
  __half* a6 = a5 + batch * n3;
  float* pooled = reinterpret_cast<float*>(a6 + batch * n6);
  const __half* w16 = reinterpret_cast<const __half*>(w16t.data_ptr());
  const float* w32 = w32t.data_ptr<float>();

  launch(stem_kernel, dim3(98, batch), 256, 0, stream, x.data_ptr<float>(), reinterpret_cast<const uint2*>(w16),
         reinterpret_cast<const uint2*>(w16 + 1024), w32, a0);
  w16 += 1024 + 512;
  w32 += 32 + 9 * 32 + 32 + 16;
  run_fused<16, 96, 24, 2, 112, 4, 8, 192, 2>(a0, w16, w32, a1, batch, stream);
  run_fused<24, 144, 24, 1, 56, 8, 8, 288, 3>(a1, w16, w32, a2, batch, stream);
  run_fused<24, 144, 32, 2, 56, 4, 7, 288, 3>(a2, w16, w32, a3, batch, stream);
  run_fused<32, 192, 32, 1, 28, 4, 7, 384, 4>(a3, w16, w32, a4, batch, stream);
  run_fused<32, 192, 32, 1, 28, 4, 7, 384, 4>(a4, w16, w32, a5, batch, stream);
  run_fused<32, 192, 64, 2, 28, 2, 7, 192, 3>(a5, w16, w32, a6, batch, stream);
  static bool ready = false;
  if (!ready) {
    C10_CUDA_CHECK(cudaFuncSetAttribute(cluster_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, CL_SMEM));
    ready = true;
  }
  launch(cluster_kernel, dim3(8 * batch), CT, CL_SMEM, stream, a6, w16, w32, pooled);
  for (int l = 0; l < 10; l++) w32 += 11 * 8 * l_ws(l) + l_cout(l);
  w32 += 1280;
  launch(classifier_kernel, dim3((static_cast<int>(classes) + 7) / 8, (batch + 4) / 5), 256, 0, stream, pooled, w32,
         w32 + classes * 1280, out.data_ptr<float>(), batch, static_cast<int>(classes));
  return out;
}
"""

_ext = load_inline(
    name="mbv2_cluster_ext",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["mbv2_forward"],
    extra_cuda_cflags=["-O3", "-std=c++17"],
    verbose=False,
)

CLUSTER = 8
FUSED = 6  # bottlenecks with an expansion that run as tile kernels; the others run in the cluster kernel
EXPECTED_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def _fold(layer):
    """Convolution weight times batch-norm scale, and the offset, in float64 on the CPU."""
    norm = layer.norm
    weight = layer.conv.weight.detach().cpu().double()
    scale = norm.weight.detach().cpu().double() / torch.sqrt(norm.running_var.detach().cpu().double() + norm.eps)
    bias = norm.bias.detach().cpu().double() - norm.running_mean.detach().cpu().double() * scale
    return weight * scale.view(-1, 1, 1, 1), bias


def _pad_k(weight, multiple=16):
    n, k = weight.shape
    target = (k + multiple - 1) // multiple * multiple
    if target == k:
        return weight
    return torch.cat([weight, weight.new_zeros(n, target - k)], 1)


def _pack(weight):
    """(N, K) to the order in which the lanes of mma.m16n8k16 hold their B fragments."""
    weight = _pad_k(weight)
    n, k = weight.shape
    return weight.reshape(n // 8, 8, k // 16, 2, 4, 2).permute(0, 2, 1, 4, 3, 5).reshape(-1)


class ModelNew(nn.Module):
    """MobileNet v2 without residual additions, batch norm folded, for 224 x 224 images."""

    def __init__(self, classes, stem, stages, head):
        super().__init__()
        if stem != 32 or head != 1280 or tuple(tuple(s) for s in stages) != EXPECTED_STAGES:
            raise ValueError("the kernels are written for MobileNet v2 of width 1")
        self.classes = int(classes)
        self.register_buffer("w16", torch.empty(0, dtype=torch.float16))
        self.register_buffer("w32", torch.empty(0, dtype=torch.float32))

    @classmethod
    def from_reference(cls, model):
        """A new module, on the CPU, with the reference's weights folded and packed into 16- and 32-bit buffers."""
        classifier = model.classifier
        new = cls(classifier.weight.shape[0], 32, EXPECTED_STAGES, 1280)
        layers = list(model.features)
        half, full = [], []

        def depthwise(layer):
            weight, bias = _fold(layer)
            full.append(weight.reshape(weight.shape[0], 9).t().reshape(-1))
            full.append(bias)

        weight, bias = _fold(layers[0])
        half.append(_pack(weight.reshape(32, 27)))
        full.append(bias)
        depthwise(layers[1])
        weight, bias = _fold(layers[2])
        half.append(_pack(weight.flatten(1)))
        full.append(bias)
        for index in range(16):
            expand, filt, narrow = layers[3 + 3 * index : 6 + 3 * index]
            weight, bias = _fold(expand)
            half.append(_pack(weight.flatten(1)))
            full.append(bias)
            depthwise(filt)
            weight, bias = _fold(narrow)
            weight = weight.flatten(1)
            if index < FUSED:
                half.append(_pack(weight))
            else:
                for part in weight.chunk(CLUSTER, 1):
                    half.append(_pack(part.contiguous()))
            full.append(bias)
        weight, bias = _fold(layers[51])
        half.append(_pack(weight.flatten(1)))
        full.append(bias)
        full.append(classifier.weight.detach().cpu().double().reshape(-1))
        full.append(classifier.bias.detach().cpu().double())
        new.w16 = torch.cat([h.reshape(-1) for h in half]).to(torch.float16).contiguous()
        new.w32 = torch.cat([f.reshape(-1) for f in full]).to(torch.float32).contiguous()
        return new

    def forward(self, x):
        """(batch, 3, 224, 224) float32 images to (batch, classes) float32 scores."""
        return _ext.mbv2_forward(x.contiguous(), self.w16, self.w32, self.classes)
