"""MobileNet v2 in eight launches: fused bottlenecks, and one cluster for everything from 14 x 14 on.

What it does: the network of `level3-pike/20` on images of 224 x 224, any number of them. Products have
16-bit factors and 32-bit sums, on tensor cores (`mma.sync`). Batch norms are folded into the weights in
64 bits when the weights are taken over.

What made it fast: no wide map of a bottleneck reaches global memory. The stem and the first block are
one kernel. Each of the next six bottlenecks is one kernel on spatial tiles, which widens, filters and
narrows 48 channels at a time. The last ten bottlenecks, the head, the pooling and the classifier are one
kernel. In it a cluster of eight blocks works on each image. Each block has an eighth of the wide channels,
and the partial sums of the narrow product are added across the blocks' shared memory.

Accuracy: images, 1 x 1 and stem weights, classifier weights and all maps before the head's are rounded to
16 bits. All sums, the depthwise filters, the biases, the head's map and the pooled features have 32 bits.

Limits: images of 224 x 224, the task's channels, 1000 classes, compute capability 9.0 (Hopper). Weights
must keep the types that `from_reference` gives them. A NaN in an image does not reach the output.

Author: a coding agent, in a search by the strategy pike-x (result.json says which).
Licence: Apache-2.0.
"""

import torch
from torch.utils.cpp_extension import load_inline

DECLARATION = "torch::Tensor mobilenet(torch::Tensor x, torch::Tensor wh, torch::Tensor wf, std::vector<int64_t> o);"
SOURCE = r"""
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>
#include <cooperative_groups.h>
#include <cuda_fp16.h>
#include <vector>

namespace cg = cooperative_groups;

__device__ __forceinline__ float relu6(float v) { return fminf(fmaxf(v, 0.0f), 6.0f); }

__device__ __forceinline__ void ldsm4(unsigned (&a)[4], const __half* p) {
  unsigned s = static_cast<unsigned>(__cvta_generic_to_shared(p));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(s) : "memory");
}

__device__ __forceinline__ void mma(float (&d)[4], const unsigned (&a)[4], const uint2 b) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.x), "r"(b.y));
}

template <int NG, int KT>
__device__ __forceinline__ void load_b(uint2 (&b)[NG][KT], const uint2* w, int lane) {
#pragma unroll
  for (int g = 0; g < NG; ++g)
#pragma unroll
    for (int k = 0; k < KT; ++k) b[g][k] = __ldg(w + (g * KT + k) * 32 + lane);
}

// 3 x 3 depthwise down one column, two channels at a time
template <int STRIDE, int ROWS, class L, class E>
__device__ __forceinline__ void slide(const float2 (&w)[9], const float2 bias, L load, E emit) {
  float2 win[3][3];
#pragma unroll
  for (int t = 0; t < (ROWS - 1) * STRIDE + 3; ++t) {
#pragma unroll
    for (int dx = 0; dx < 3; ++dx) win[t % 3][dx] = load(t, dx);
    if (t >= 2 && (t - 2) % STRIDE == 0) {
      float2 acc = bias;
#pragma unroll
      for (int ky = 0; ky < 3; ++ky)
#pragma unroll
        for (int kx = 0; kx < 3; ++kx) {
          const float2 v = win[(t - 2 + ky) % 3][kx];
          acc.x = fmaf(v.x, w[ky * 3 + kx].x, acc.x);
          acc.y = fmaf(v.y, w[ky * 3 + kx].y, acc.y);
        }
      emit((t - 2) / STRIDE, __floats2half2_rn(relu6(acc.x), relu6(acc.y)));
    }
  }
}

__device__ __forceinline__ float2 load_pair(const __half* p) {
  return __half22float2(*reinterpret_cast<const __half2*>(p));
}

__device__ __forceinline__ void grid_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ __forceinline__ void grid_trigger() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }

// ---------------------------------------------------------------- stem, first depthwise, first narrow product
constexpr int STEM_PATCH = 3 * 37 * 40, STEM_SMEM = (STEM_PATCH + 336 * 40 + 256 * 40) * 2;

__global__ void __launch_bounds__(256) stem_kernel(const float* x, __half* y, const uint2* ws_, const float* f,
                                                   const uint2* wp) {
  extern __shared__ __align__(128) unsigned char smem_raw[];
  __half* patch = reinterpret_cast<__half*>(smem_raw);
  __half* ws = patch + STEM_PATCH;
  __half* dwb = ws + 336 * 40;
  grid_trigger();
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
  const int oy = (blockIdx.x / 7) * 16, ox = (blockIdx.x % 7) * 16, image = blockIdx.y;
  const float* in = x + static_cast<size_t>(image) * 3 * 224 * 224;
  for (int i = tid; i < 3 * 37 * 40; i += 256) {
    const int col = i % 40, rc = i / 40, row = rc % 37, c = rc / 37;
    const int gy = 2 * oy - 3 + row, gx = 2 * ox - 3 + col;
    float v = 0.0f;
    if (gy >= 0 && gy < 224 && gx >= 0 && gx < 224) v = in[(c * 224 + gy) * 224 + gx];
    patch[i] = __float2half_rn(v);
  }
  uint2 b[4][3];
  load_b<4, 3>(b, ws_, lane);
  const int q = lane & 3;
  int offs[3][2];
#pragma unroll
  for (int k = 0; k < 3; ++k)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int g = k * 4 + q / 2 + h * 2;
      offs[k][h] = (g < 9 ? ((g / 3) * 37 + g % 3) * 40 : 0) + (q & 1) * 2;
    }
  __syncthreads();
  for (int m = warp; m < 21; m += 8) {
    const int r0 = m * 16 + lane / 4, r1 = r0 + 8;
    const int c0 = min(r0, 323), c1 = min(r1, 323);
    const int py0 = c0 / 18, px0 = c0 % 18, py1 = c1 / 18, px1 = c1 % 18;
    const __half* p0 = patch + 2 * py0 * 40 + 2 * px0;
    const __half* p1 = patch + 2 * py1 * 40 + 2 * px1;
    float acc[4][4] = {};
#pragma unroll
    for (int k = 0; k < 3; ++k) {
      unsigned a[4];
      a[0] = *reinterpret_cast<const unsigned*>(p0 + offs[k][0]);
      a[1] = *reinterpret_cast<const unsigned*>(p1 + offs[k][0]);
      a[2] = *reinterpret_cast<const unsigned*>(p0 + offs[k][1]);
      a[3] = *reinterpret_cast<const unsigned*>(p1 + offs[k][1]);
#pragma unroll
      for (int g = 0; g < 4; ++g) mma(acc[g], a, b[g][k]);
    }
    const int y0 = oy - 1 + py0, x0 = ox - 1 + px0, y1 = oy - 1 + py1, x1 = ox - 1 + px1;
    const bool in0 = y0 >= 0 && y0 < 112 && x0 >= 0 && x0 < 112;
    const bool in1 = y1 >= 0 && y1 < 112 && x1 >= 0 && x1 < 112;
#pragma unroll
    for (int g = 0; g < 4; ++g) {
      const int col = g * 8 + q * 2;
      const float2 bias = *reinterpret_cast<const float2*>(f + col);
      *reinterpret_cast<__half2*>(ws + r0 * 40 + col) =
          in0 ? __floats2half2_rn(relu6(acc[g][0] + bias.x), relu6(acc[g][1] + bias.y)) : __floats2half2_rn(0.f, 0.f);
      *reinterpret_cast<__half2*>(ws + r1 * 40 + col) =
          in1 ? __floats2half2_rn(relu6(acc[g][2] + bias.x), relu6(acc[g][3] + bias.y)) : __floats2half2_rn(0.f, 0.f);
    }
  }
  const int pair = tid % 16, column = tid / 16;
  float2 w[9];
#pragma unroll
  for (int k = 0; k < 9; ++k) w[k] = *reinterpret_cast<const float2*>(f + 32 + k * 32 + pair * 2);
  const float2 db = *reinterpret_cast<const float2*>(f + 320 + pair * 2);
  __syncthreads();
  slide<1, 16>(
      w, db, [&](int t, int dx) { return load_pair(ws + (t * 18 + column + dx) * 40 + pair * 2); },
      [&](int r, __half2 v) { *reinterpret_cast<__half2*>(dwb + (r * 16 + column) * 40 + pair * 2) = v; });
  __syncthreads();
  uint2 bp[2][2];
  load_b<2, 2>(bp, wp, lane);
  for (int m = warp; m < 16; m += 8) {
    float acc[2][4] = {};
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      unsigned a[4];
      ldsm4(a, dwb + (m * 16 + (lane & 15)) * 40 + k * 16 + (lane >> 4) * 8);
#pragma unroll
      for (int g = 0; g < 2; ++g) mma(acc[g], a, bp[g][k]);
    }
#pragma unroll
    for (int g = 0; g < 2; ++g) {
      const int col = g * 8 + q * 2;
      const float2 bias = *reinterpret_cast<const float2*>(f + 352 + col);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int r = lane / 4 + h * 8;
        __half* to = y + ((static_cast<size_t>(image) * 112 + oy + m) * 112 + ox + r) * 16 + col;
        *reinterpret_cast<__half2*>(to) = __floats2half2_rn(acc[g][h * 2] + bias.x, acc[g][h * 2 + 1] + bias.y);
      }
    }
  }
}

// ---------------------------------------------------------------- one early inverted bottleneck, spatial tiles
template <int CIN, int WIDE, int COUT, int STRIDE, int HIN, int TH, int TW>
struct Early {
  static constexpr int HO = HIN / STRIDE, IH = (TH - 1) * STRIDE + 3, IW = (TW - 1) * STRIDE + 3, PIN = IH * IW;
  static constexpr int MTI = (PIN + 15) / 16, KP = (CIN + 15) / 16 * 16, KT = KP / 16, XP = KP + 8, SP = 56;
  static constexpr int PO = TH * TW, MTO = (PO + 15) / 16, NT = COUT / 8, UNITS = MTO * NT, UPW = (UNITS + 5) / 6;
  static constexpr int SMEM = (MTI * 16 * XP + MTI * 16 * SP + MTO * 16 * SP) * 2;
  static constexpr int TILES_X = HO / TW, TILES = TILES_X * (HO / TH);
};

template <int CIN, int WIDE, int COUT, int STRIDE, int HIN, int TH, int TW>
__global__ void __launch_bounds__(192) early_kernel(const __half* x, __half* y, const uint2* ww, const float* f,
                                                    const uint2* wn, const float* nb) {
  using C = Early<CIN, WIDE, COUT, STRIDE, HIN, TH, TW>;
  constexpr int KT = C::KT, XP = C::XP, SP = C::SP, IW = C::IW, V = C::KP / 8;
  extern __shared__ __align__(128) unsigned char smem_raw[];
  __half* xs = reinterpret_cast<__half*>(smem_raw);
  __half* ws = xs + C::MTI * 16 * XP;
  __half* dwb = ws + C::MTI * 16 * SP;
  grid_trigger();
  grid_wait();
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
  const int oy = (blockIdx.x / C::TILES_X) * TH, ox = (blockIdx.x % C::TILES_X) * TW, image = blockIdx.y;
  const __half* in = x + static_cast<size_t>(image) * HIN * HIN * CIN;
  const int iy0 = oy * STRIDE - 1, ix0 = ox * STRIDE - 1;
  for (int i = tid; i < C::PIN * V; i += 192) {
    const int px = i / V, v = i % V, gy = iy0 + px / IW, gx = ix0 + px % IW;
    uint4 value = make_uint4(0, 0, 0, 0);
    if (gy >= 0 && gy < HIN && gx >= 0 && gx < HIN && v * 8 < CIN)
      value = *reinterpret_cast<const uint4*>(in + (gy * HIN + gx) * CIN + v * 8);
    *reinterpret_cast<uint4*>(xs + px * XP + v * 8) = value;
  }
  __syncthreads();
  float out[C::UPW][4] = {};
  const int gw = warp & 1, q = lane & 3;
  const int pair = tid % 24, column = tid / 24;
  for (int chunk = 0; chunk < WIDE / 48; ++chunk) {
    uint2 b[3][KT];
    load_b<3, KT>(b, ww + (chunk * 6 + gw * 3) * KT * 32, lane);
    float2 bias[3];
#pragma unroll
    for (int g = 0; g < 3; ++g)
      bias[g] = *reinterpret_cast<const float2*>(f + 10 * WIDE + chunk * 48 + (gw * 3 + g) * 8 + q * 2);
    for (int m = warp >> 1; m < C::MTI; m += 3) {
      float acc[3][4] = {};
#pragma unroll
      for (int k = 0; k < KT; ++k) {
        unsigned a[4];
        ldsm4(a, xs + (m * 16 + (lane & 15)) * XP + k * 16 + (lane >> 4) * 8);
#pragma unroll
        for (int g = 0; g < 3; ++g) mma(acc[g], a, b[g][k]);
      }
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int r = m * 16 + lane / 4 + h * 8, gy = iy0 + r / IW, gx = ix0 + r % IW;
        const bool inside = gy >= 0 && gy < HIN && gx >= 0 && gx < HIN;
#pragma unroll
        for (int g = 0; g < 3; ++g) {
          const float v0 = inside ? relu6(acc[g][h * 2] + bias[g].x) : 0.0f;
          const float v1 = inside ? relu6(acc[g][h * 2 + 1] + bias[g].y) : 0.0f;
          *reinterpret_cast<__half2*>(ws + r * SP + (gw * 3 + g) * 8 + q * 2) = __floats2half2_rn(v0, v1);
        }
      }
    }
    float2 w[9];
#pragma unroll
    for (int k = 0; k < 9; ++k) w[k] = *reinterpret_cast<const float2*>(f + k * WIDE + chunk * 48 + pair * 2);
    const float2 db = *reinterpret_cast<const float2*>(f + 9 * WIDE + chunk * 48 + pair * 2);
    __syncthreads();
    if (column < TW) {
      const __half* from = ws + column * STRIDE * SP + pair * 2;
      __half* to = dwb + column * SP + pair * 2;
      slide<STRIDE, TH>(
          w, db, [&](int t, int dx) { return load_pair(from + (t * IW + dx) * SP); },
          [&](int r, __half2 v) { *reinterpret_cast<__half2*>(to + r * TW * SP) = v; });
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < C::UPW; ++i) {
      const int u = warp + 6 * i;
      if (u < C::UNITS) {
        const int m = u / C::NT, n = u % C::NT;
#pragma unroll
        for (int k = 0; k < 3; ++k) {
          unsigned a[4];
          ldsm4(a, dwb + (m * 16 + (lane & 15)) * SP + k * 16 + (lane >> 4) * 8);
          mma(out[i], a, __ldg(wn + (n * (WIDE / 16) + chunk * 3 + k) * 32 + lane));
        }
      }
    }
  }
#pragma unroll
  for (int i = 0; i < C::UPW; ++i) {
    const int u = warp + 6 * i;
    if (u < C::UNITS) {
      const int m = u / C::NT, n = u % C::NT, col = n * 8 + q * 2;
      const float2 bias = *reinterpret_cast<const float2*>(nb + col);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int r = m * 16 + lane / 4 + h * 8;
        if (r < C::PO) {
          const int gy = oy + r / TW, gx = ox + r % TW;
          __half* to = y + ((static_cast<size_t>(image) * C::HO + gy) * C::HO + gx) * COUT + col;
          *reinterpret_cast<__half2*>(to) = __floats2half2_rn(out[i][h * 2] + bias.x, out[i][h * 2 + 1] + bias.y);
        }
      }
    }
  }
}

// ---------------------------------------------------------------- 14 x 14 and 7 x 7: one cluster of 8 blocks per image
constexpr int RANKS = 8, DEEP_THREADS = 512;
constexpr int XS_BYTES = 208 * 104 * 2, DW_BYTES = 208 * 88 * 2, PART_BYTES = 208 * 104 * 4, DV_BYTES = 11 * 128 * 4;
constexpr int DEEP_SMEM = XS_BYTES + DW_BYTES + PART_BYTES + DV_BYTES;

struct DeepArgs {
  int w[10], f[10], n[10], b[10];
  int hw, hb, fw, fb;
};

// On entry a cluster arrive is outstanding (the input map is complete after the wait); likewise on exit.
template <int CIN, int S, int COUT, int HIN, int STRIDE, int NGW, int NGN>
__device__ __forceinline__ void deep_layer(unsigned char* smem, const __half* wh, const float* wf, int ow, int of,
                                           int on, int ob, int rank) {
  constexpr int PIN = HIN * HIN, MTI = (PIN + 15) / 16, HO = HIN / STRIDE, PO = HO * HO, MTO = (PO + 15) / 16;
  constexpr int KT = CIN / 16, GW = S / 8 / NGW, MGW = 16 / GW, XP = CIN + 8, SP = S + 8;
  constexpr int KN = S / 16, GN = COUT / 8 / NGN, MGN = 16 / GN, PP = COUT + 8;
  static_assert(GW * MGW == 16 && GN * MGN == 16 && GW * NGW * 8 == S && GN * NGN * 8 == COUT, "shape");
  __half* xs = reinterpret_cast<__half*>(smem);
  __half* dwb = reinterpret_cast<__half*>(smem + XS_BYTES);
  __half* ws = reinterpret_cast<__half*>(smem + XS_BYTES + DW_BYTES);
  float* part = reinterpret_cast<float*>(smem + XS_BYTES + DW_BYTES);
  float* dv = reinterpret_cast<float*>(smem + XS_BYTES + DW_BYTES + PART_BYTES);
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5, q = lane & 3;
  {
    const int gw = warp % GW, mg = warp / GW;
    uint2 b[NGW][KT];
    load_b<NGW, KT>(b, reinterpret_cast<const uint2*>(wh + ow) + (rank * (S / 8) + gw * NGW) * KT * 32, lane);
    for (int i = tid; i < 11 * S; i += DEEP_THREADS) dv[i] = __ldg(wf + of + rank * 11 * S + i);
    cluster_wait();
    __syncthreads();
    for (int m = mg; m < MTI; m += MGW) {
      float acc[NGW][4] = {};
#pragma unroll
      for (int k = 0; k < KT; ++k) {
        unsigned a[4];
        ldsm4(a, xs + (m * 16 + (lane & 15)) * XP + k * 16 + (lane >> 4) * 8);
#pragma unroll
        for (int g = 0; g < NGW; ++g) mma(acc[g], a, b[g][k]);
      }
      const int r = m * 16 + lane / 4;
#pragma unroll
      for (int g = 0; g < NGW; ++g) {
        const int col = (gw * NGW + g) * 8 + q * 2;
        const float2 bias = *reinterpret_cast<const float2*>(dv + 10 * S + col);
        *reinterpret_cast<__half2*>(ws + r * SP + col) =
            __floats2half2_rn(relu6(acc[g][0] + bias.x), relu6(acc[g][1] + bias.y));
        *reinterpret_cast<__half2*>(ws + (r + 8) * SP + col) =
            __floats2half2_rn(relu6(acc[g][2] + bias.x), relu6(acc[g][3] + bias.y));
      }
    }
  }
  __syncthreads();
  {
    constexpr int PAIRS = S / 2, SEGMENTS = HO / 7, TASKS = PAIRS * HO * SEGMENTS;
    for (int task = tid; task < TASKS; task += DEEP_THREADS) {
      const int pair = task % PAIRS, rest = task / PAIRS, column = rest % HO, y0 = (rest / HO) * 7;
      float2 w[9];
#pragma unroll
      for (int k = 0; k < 9; ++k) w[k] = *reinterpret_cast<const float2*>(dv + k * S + pair * 2);
      const float2 db = *reinterpret_cast<const float2*>(dv + 9 * S + pair * 2);
      const int iy0 = y0 * STRIDE - 1, ix0 = column * STRIDE - 1;
      slide<STRIDE, 7>(
          w, db,
          [&](int t, int dx) {
            const int iy = iy0 + t, ix = ix0 + dx;
            float2 v = make_float2(0.0f, 0.0f);
            if (iy >= 0 && iy < HIN && ix >= 0 && ix < HIN) v = load_pair(ws + (iy * HIN + ix) * SP + pair * 2);
            return v;
          },
          [&](int r, __half2 v) { *reinterpret_cast<__half2*>(dwb + ((y0 + r) * HO + column) * SP + pair * 2) = v; });
    }
  }
  {
    const int gn = warp % GN, mg = warp / GN;
    uint2 b[NGN][KN];
    load_b<NGN, KN>(b, reinterpret_cast<const uint2*>(wh + on) + (rank * (COUT / 8) + gn * NGN) * KN * 32, lane);
    __syncthreads();
    for (int m = mg; m < MTO; m += MGN) {
      float acc[NGN][4] = {};
#pragma unroll
      for (int k = 0; k < KN; ++k) {
        unsigned a[4];
        ldsm4(a, dwb + (m * 16 + (lane & 15)) * SP + k * 16 + (lane >> 4) * 8);
#pragma unroll
        for (int g = 0; g < NGN; ++g) mma(acc[g], a, b[g][k]);
      }
      const int r = m * 16 + lane / 4;
#pragma unroll
      for (int g = 0; g < NGN; ++g) {
        const int col = (gn * NGN + g) * 8 + q * 2;
        *reinterpret_cast<float2*>(part + r * PP + col) = make_float2(acc[g][0], acc[g][1]);
        *reinterpret_cast<float2*>(part + (r + 8) * PP + col) = make_float2(acc[g][2], acc[g][3]);
      }
    }
  }
  cluster_arrive();
  cluster_wait();
  {
    cg::cluster_group cluster = cg::this_cluster();
    constexpr int C4 = COUT / 4, EACH = PO * C4 / RANKS;
    static_assert(EACH * RANKS == PO * C4, "reduction");
    for (int i = tid; i < EACH; i += DEEP_THREADS) {
      const int item = rank * EACH + i, row = item / C4, c = (item % C4) * 4;
      float4 p[RANKS];
#pragma unroll
      for (int r = 0; r < RANKS; ++r)
        p[r] = *reinterpret_cast<const float4*>(cluster.map_shared_rank(part, r) + row * PP + c);
      float4 sum = __ldg(reinterpret_cast<const float4*>(wf + ob + c));
#pragma unroll
      for (int r = 0; r < RANKS; ++r) {
        sum.x += p[r].x;
        sum.y += p[r].y;
        sum.z += p[r].z;
        sum.w += p[r].w;
      }
      const __half2 lo = __floats2half2_rn(sum.x, sum.y), hi = __floats2half2_rn(sum.z, sum.w);
      uint2 v;
      v.x = *reinterpret_cast<const unsigned*>(&lo);
      v.y = *reinterpret_cast<const unsigned*>(&hi);
#pragma unroll
      for (int r = 0; r < RANKS; ++r)
        *reinterpret_cast<uint2*>(cluster.map_shared_rank(xs, r) + row * (COUT + 8) + c) = v;
    }
  }
  cluster_arrive();
}

__global__ void __launch_bounds__(DEEP_THREADS, 1) deep_kernel(const __half* x, float* y, const __half* wh,
                                                               const float* wf, DeepArgs o) {
  extern __shared__ __align__(128) unsigned char smem[];
  cg::cluster_group cluster = cg::this_cluster();
  const int rank = static_cast<int>(cluster.block_rank()), image = blockIdx.x / RANKS;
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5, q = lane & 3;
  __half* xs = reinterpret_cast<__half*>(smem);
  grid_wait();
  const __half* in = x + static_cast<size_t>(image) * 196 * 64;
  for (int i = tid; i < 196 * 8; i += DEEP_THREADS)
    *reinterpret_cast<uint4*>(xs + (i / 8) * 72 + (i % 8) * 8) = *reinterpret_cast<const uint4*>(in + i * 8);
  cluster_arrive();
#define LAYER(i, ...) deep_layer<__VA_ARGS__>(smem, wh, wf, o.w[i], o.f[i], o.n[i], o.b[i], rank)
#pragma unroll 1
  for (int i = 0; i < 3; ++i) LAYER(i, 64, 48, 64, 14, 1, 3, 4);
  LAYER(3, 64, 48, 96, 14, 1, 3, 6);
#pragma unroll 1
  for (int i = 4; i < 6; ++i) LAYER(i, 96, 80, 96, 14, 1, 5, 6);
  LAYER(6, 96, 80, 160, 14, 2, 5, 5);
#pragma unroll 1
  for (int i = 7; i < 9; ++i) LAYER(i, 160, 128, 160, 7, 1, 4, 5);
  LAYER(9, 160, 128, 320, 7, 1, 4, 5);
#undef LAYER
  // head: 160 of the 1280 channels in each block, pooled at once
  float* pooled = reinterpret_cast<float*>(smem + XS_BYTES);
  float* parts = reinterpret_cast<float*>(smem + XS_BYTES + DW_BYTES);
  {
    const int g0 = warp % 4, m = warp / 4;
    const uint2* w = reinterpret_cast<const uint2*>(wh + o.hw) + (rank * 20 + g0 * 5) * 20 * 32 + lane;
    uint2 first[5][4];
#pragma unroll
    for (int g = 0; g < 5; ++g)
#pragma unroll
      for (int k = 0; k < 4; ++k) first[g][k] = __ldg(w + (g * 20 + k) * 32);
    cluster_wait();
    float acc[5][4] = {};
#pragma unroll
    for (int kk = 0; kk < 5; ++kk) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        unsigned a[4];
        ldsm4(a, xs + (m * 16 + (lane & 15)) * 328 + (kk * 4 + k) * 16 + (lane >> 4) * 8);
#pragma unroll
        for (int g = 0; g < 5; ++g) {
          mma(acc[g], a, first[g][k]);
          if (kk < 4) first[g][k] = __ldg(w + (g * 20 + kk * 4 + 4 + k) * 32);
        }
      }
    }
    const int r = m * 16 + lane / 4;
#pragma unroll
    for (int g = 0; g < 5; ++g) {
      const int col = (g0 * 5 + g) * 8 + q * 2;
      const float2 bias = __ldg(reinterpret_cast<const float2*>(wf + o.hb + rank * 160 + col));
      float s0 = 0.0f, s1 = 0.0f;
      if (r < 49) {
        s0 += relu6(acc[g][0] + bias.x);
        s1 += relu6(acc[g][1] + bias.y);
      }
      if (r + 8 < 49) {
        s0 += relu6(acc[g][2] + bias.x);
        s1 += relu6(acc[g][3] + bias.y);
      }
#pragma unroll
      for (int step = 4; step < 32; step *= 2) {
        s0 += __shfl_xor_sync(0xffffffffu, s0, step);
        s1 += __shfl_xor_sync(0xffffffffu, s1, step);
      }
      if (lane < 4) *reinterpret_cast<float2*>(parts + m * 160 + col) = make_float2(s0, s1);
    }
  }
  __syncthreads();
  if (tid < 160) {
    const float v = (parts[tid] + parts[160 + tid] + parts[320 + tid] + parts[480 + tid]) * (1.0f / 49.0f);
#pragma unroll
    for (int r = 0; r < RANKS; ++r) cluster.map_shared_rank(pooled, r)[rank * 160 + tid] = v;
  }
  cluster_arrive();
  cluster_wait();
  // classifier: 125 of the 1000 classes in each block, one warp for each class
  float p[40];
#pragma unroll
  for (int i = 0; i < 5; ++i)
#pragma unroll
    for (int e = 0; e < 8; ++e) p[i * 8 + e] = pooled[(i * 32 + lane) * 8 + e];
#pragma unroll 2
  for (int c = warp; c < 125; c += 16) {
    const int cls = rank * 125 + c;
    const uint4* w = reinterpret_cast<const uint4*>(wh + o.fw) + cls * 160 + lane;
    uint4 v[5];
#pragma unroll
    for (int i = 0; i < 5; ++i) v[i] = __ldg(w + i * 32);
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 5; ++i) {
      const __half2* h = reinterpret_cast<const __half2*>(&v[i]);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float2 t = __half22float2(h[e]);
        sum = fmaf(t.x, p[i * 8 + e * 2], sum);
        sum = fmaf(t.y, p[i * 8 + e * 2 + 1], sum);
      }
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (lane == 0) y[image * 1000 + cls] = sum + __ldg(wf + o.fb + cls);
  }
}

// ---------------------------------------------------------------- host
template <class... A, class... B>
static void launch(void (*kernel)(A...), dim3 grid, int threads, int smem, int cluster, bool dependent,
                   cudaStream_t stream, B... args) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(threads, 1, 1);
  config.dynamicSmemBytes = smem;
  config.stream = stream;
  cudaLaunchAttribute attributes[2];
  int count = 0;
  if (dependent) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count].val.programmaticStreamSerializationAllowed = 1;
    ++count;
  }
  if (cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count].val.clusterDim.x = cluster;
    attributes[count].val.clusterDim.y = 1;
    attributes[count].val.clusterDim.z = 1;
    ++count;
  }
  config.attrs = attributes;
  config.numAttrs = count;
  C10_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, static_cast<A>(args)...));
}

template <int CIN, int WIDE, int COUT, int STRIDE, int HIN, int TH, int TW>
static at::Tensor early(const at::Tensor& x, int batch, const __half* wh, const float* wf, const int64_t* o,
                        cudaStream_t stream) {
  using C = Early<CIN, WIDE, COUT, STRIDE, HIN, TH, TW>;
  auto kernel = early_kernel<CIN, WIDE, COUT, STRIDE, HIN, TH, TW>;
  static bool ready = false;
  if (!ready) {
    C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, C::SMEM));
    ready = true;
  }
  auto y = at::empty({batch, C::HO, C::HO, COUT}, x.options());
  launch(kernel, dim3(C::TILES, batch, 1), 192, C::SMEM, 1, true, stream,
         reinterpret_cast<const __half*>(x.data_ptr()), reinterpret_cast<__half*>(y.data_ptr()),
         reinterpret_cast<const uint2*>(wh + o[0]), wf + o[1], reinterpret_cast<const uint2*>(wh + o[2]), wf + o[3]);
  return y;
}

torch::Tensor mobilenet(torch::Tensor x, torch::Tensor wh_, torch::Tensor wf_, std::vector<int64_t> o) {
  TORCH_CHECK(x.is_cuda() && x.dim() == 4 && x.size(1) == 3 && x.size(2) == 224 && x.size(3) == 224, "images");
  TORCH_CHECK(x.scalar_type() == at::kFloat, "float images");
  auto input = x.contiguous();
  const int batch = static_cast<int>(input.size(0));
  auto logits = at::empty({batch, 1000}, input.options());
  if (batch == 0) return logits;
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  const __half* wh = reinterpret_cast<const __half*>(wh_.data_ptr());
  const float* wf = wf_.data_ptr<float>();
  static bool ready = false;
  if (!ready) {
    C10_CUDA_CHECK(cudaFuncSetAttribute(stem_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, STEM_SMEM));
    C10_CUDA_CHECK(cudaFuncSetAttribute(deep_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, DEEP_SMEM));
    ready = true;
  }
  auto a0 = at::empty({batch, 112, 112, 16}, input.options().dtype(at::kHalf));
  launch(stem_kernel, dim3(49, batch, 1), 256, STEM_SMEM, 1, false, stream, input.data_ptr<float>(),
         reinterpret_cast<__half*>(a0.data_ptr()), reinterpret_cast<const uint2*>(wh + o[0]), wf + o[1],
         reinterpret_cast<const uint2*>(wh + o[2]));
  const int64_t* e = o.data() + 3;
  auto a1 = early<16, 96, 24, 2, 112, 8, 8>(a0, batch, wh, wf, e, stream);
  auto a2 = early<24, 144, 24, 1, 56, 8, 8>(a1, batch, wh, wf, e + 4, stream);
  auto a3 = early<24, 144, 32, 2, 56, 4, 7>(a2, batch, wh, wf, e + 8, stream);
  auto a4 = early<32, 192, 32, 1, 28, 4, 7>(a3, batch, wh, wf, e + 12, stream);
  auto a5 = early<32, 192, 32, 1, 28, 4, 7>(a4, batch, wh, wf, e + 16, stream);
  auto a6 = early<32, 192, 64, 2, 28, 2, 7>(a5, batch, wh, wf, e + 20, stream);
  DeepArgs args;
  const int64_t* d = o.data() + 27;
  for (int i = 0; i < 10; ++i) {
    args.w[i] = static_cast<int>(d[4 * i]);
    args.f[i] = static_cast<int>(d[4 * i + 1]);
    args.n[i] = static_cast<int>(d[4 * i + 2]);
    args.b[i] = static_cast<int>(d[4 * i + 3]);
  }
  args.hw = static_cast<int>(d[40]);
  args.hb = static_cast<int>(d[41]);
  args.fw = static_cast<int>(d[42]);
  args.fb = static_cast<int>(d[43]);
  launch(deep_kernel, dim3(batch * RANKS, 1, 1), DEEP_THREADS, DEEP_SMEM, RANKS, true, stream,
         reinterpret_cast<const __half*>(a6.data_ptr()), logits.data_ptr<float>(), wh, wf, args);
  return logits;
}
"""
extension = load_inline(
    name="mobilenet_cluster_cuda",
    cpp_sources=[DECLARATION],
    cuda_sources=[SOURCE],
    functions=["mobilenet"],
    extra_cuda_cflags=["-O3", "-std=c++17"],
)

RANKS = 8


def fold(layer):
    """The convolution's weight and bias with the batch norm folded in, in float64."""
    norm = layer.norm
    scale = norm.weight.detach().double() / torch.sqrt(norm.running_var.double() + norm.eps)
    weight = layer.conv.weight.detach().double() * scale.view(-1, 1, 1, 1)
    bias = norm.bias.detach().double() - norm.running_mean.double() * scale
    return weight.cpu(), bias.cpu()


def pad_to(matrix, rows, columns):
    """The matrix with zeros below and to the right, as (rows, columns) in float64."""
    out = torch.zeros(rows, columns, dtype=torch.float64)
    out[: matrix.shape[0], : matrix.shape[1]] = matrix
    return out


def pack(matrix):
    """(n, k) to the B fragments of m16n8k16: n tile, k tile, lane, 4 halves."""
    n, k = matrix.shape
    n, k = (n + 7) // 8 * 8, (k + 15) // 16 * 16
    tiles = pad_to(matrix, n, k).view(n // 8, 8, k // 16, 2, 4, 2)
    return tiles.permute(0, 2, 1, 4, 3, 5).reshape(-1)


class Store:
    """Concatenates pieces at aligned offsets."""

    def __init__(self):
        self.pieces, self.size = [], 0

    def add(self, piece):
        """Append a piece, padded to a multiple of 64 numbers; the offset at which it starts."""
        piece = piece.reshape(-1)
        offset = self.size
        extra = -piece.numel() % 64
        self.pieces += [piece, torch.zeros(extra, dtype=torch.float64)]
        self.size += piece.numel() + extra
        return offset

    def tensor(self, dtype):
        """All pieces as one vector of the given type."""
        return torch.cat(self.pieces).to(dtype).contiguous()


class ModelNew(torch.nn.Module):
    """The network for inference: packed weights in 16 bits, biases and depthwise filters in 32."""

    def __init__(self, classes=1000, stem=32, stages=None, head=1280):
        super().__init__()
        self.offsets = []
        self.register_buffer("halves", torch.zeros(0, dtype=torch.float16))
        self.register_buffer("floats", torch.zeros(0, dtype=torch.float32))

    @classmethod
    def from_reference(cls, model):
        """The same network with the weights and statistics of `model`, on the CPU."""
        self = cls()
        halves, floats, offsets = Store(), Store(), []
        layers = [fold(layer) for layer in model.features]
        # stem: k runs over (channel, ky) padded to 12 groups of 4 (kx and a zero)
        weight, bias = layers[0]
        stem = torch.zeros(32, 12, 4, dtype=torch.float64)
        stem[:, :9, :3] = weight.reshape(32, 9, 3)
        dw, dw_bias = layers[1]
        narrow, narrow_bias = layers[2]
        offsets.append(halves.add(pack(stem.view(32, 48))))
        offsets.append(floats.add(torch.cat([bias, dw.reshape(32, 9).t().reshape(-1), dw_bias, narrow_bias])))
        offsets.append(halves.add(pack(narrow.flatten(1))))
        for index in range(16):
            widen, widen_bias = layers[3 + 3 * index]
            dw, dw_bias = layers[4 + 3 * index]
            narrow, narrow_bias = layers[5 + 3 * index]
            widen, narrow = widen.flatten(1), narrow.flatten(1)
            wide = widen.shape[0]
            vectors = torch.cat([dw.reshape(wide, 9).t(), dw_bias[None], widen_bias[None]])  # (11, wide)
            if index < 6:
                offsets.append(halves.add(pack(widen)))
                offsets.append(floats.add(vectors))
                offsets.append(halves.add(pack(narrow)))
            else:
                part = wide // RANKS
                padded = (part + 15) // 16 * 16
                spans = [slice(rank * part, (rank + 1) * part) for rank in range(RANKS)]
                offsets.append(halves.add(torch.cat([pack(pad_to(widen[s], padded, widen.shape[1])) for s in spans])))
                offsets.append(floats.add(torch.cat([pad_to(vectors[:, s], 11, padded).reshape(-1) for s in spans])))
                offsets.append(
                    halves.add(torch.cat([pack(pad_to(narrow[:, s], narrow.shape[0], padded)) for s in spans]))
                )
            offsets.append(floats.add(narrow_bias))
        head, head_bias = layers[51]
        offsets.append(halves.add(pack(head.flatten(1))))
        offsets.append(floats.add(head_bias))
        offsets.append(halves.add(model.classifier.weight.detach().double().cpu()))
        offsets.append(floats.add(model.classifier.bias.detach().double().cpu()))
        self.halves = halves.tensor(torch.float16)
        self.floats = floats.tensor(torch.float32)
        self.offsets = offsets
        return self

    def forward(self, x):
        """Images (batch, 3, 224, 224) in 32 bits to logits (batch, 1000)."""
        return extension.mobilenet(x, self.halves, self.floats, self.offsets)
