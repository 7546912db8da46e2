"""DenseNet-201 without concatenations: one kernel per dense layer, on one buffer per block.

What it does: the network of `level3-pike/16` on images of 3 x 224 x 224, any number of them, in
inference. A CUDA graph replays the whole network; there is one graph for each shape of the input.

What made it fast: a block's maps share one 16-bit buffer in NHWC, and a layer writes its 32
channels behind the others, so nothing is concatenated. The layer's kernel applies batch norm and
ReLU while it loads a tile, so the normalised maps are never written. The sum over channels is split
over warps and, on small maps, over the blocks of a cluster. Each layer works on the older channels
while the layer before still computes the newest 32 (programmatic dependent launch).

Accuracy: maps, convolution weights and the factors of products have 16 bits. Sums in the kernels,
batch norms and the whole head have 32 bits. A transition's averages are rounded to 16 bits, and its
product is `torch.mm`'s. Batch norms are folded to scale and shift in 64 bits.

Limits: growth of 32, stem of 64 channels, at most four blocks, images of 224 x 224, compute
capability 9.0 (Hopper), one GPU per process. Weights are taken over at the first call; later
changes are not seen.

Author: a coding agent, in a search by the strategy pike-x (result.json says which).
Licence: Apache-2.0.
"""

import os

import torch
from torch import nn

os.environ.setdefault("TORCH_CUDA_ARCH_LIST", "9.0a")
from torch.utils.cpp_extension import load_inline

DECLARATION = """
void stem(torch::Tensor x, torch::Tensor w, torch::Tensor s, torch::Tensor t, torch::Tensor buf);
void dense(torch::Tensor buf, torch::Tensor s, torch::Tensor t, torch::Tensor w, int64_t C, bool first);
void bnpool(torch::Tensor buf, torch::Tensor s, torch::Tensor t, torch::Tensor out);
void head(torch::Tensor buf, torch::Tensor s, torch::Tensor t, torch::Tensor w, torch::Tensor b, torch::Tensor feat,
          torch::Tensor out);
"""

SOURCE = r"""
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>
#include <cuda_fp16.h>
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

__device__ __forceinline__ void ldmatrix4(unsigned (&a)[4], unsigned addr) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(addr) : "memory");
}

__device__ __forceinline__ void mma16816(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ unsigned pack_half2(float x, float y) {
  __half2 h = __floats2half2_rn(x, y);
  return *reinterpret_cast<unsigned*>(&h);
}

__device__ __forceinline__ float2 unpack_half2(unsigned v) {
  __half2 h = *reinterpret_cast<__half2*>(&v);
  return __half22float2(h);
}

__device__ __forceinline__ unsigned act2(unsigned v, float s0, float t0, float s1, float t1) {
  float2 f = unpack_half2(v);
  __half2 h = __floats2half2_rn(fmaf(f.x, s0, t0), fmaf(f.y, s1, t1));
  h = __hmax2_nan(h, __float2half2_rn(0.0f));
  return *reinterpret_cast<unsigned*>(&h);
}

__device__ __forceinline__ float relu_nan(float y) { return y < 0.0f ? 0.0f : y; }

// ---------------------------------------------------------------- dense layer

// raw channels of a tile with its halo -> batch norm, ReLU -> shared memory, zeros outside the image
template <int H, int HP, int WP, int U>
__device__ __forceinline__ void fill(const __half* image, int CT, int y0, int x0, int cbase, int nv, unsigned char* to,
                                     int stride, const float* s, const float* t) {
  constexpr int NP = HP * WP;
  const int tid = threadIdx.x;
  const int step = 256 / nv;
  const int first = tid / nv, c = tid - first * nv;
  if (first >= step) return;
  const int ch = cbase + c * 8;
  const float4 s0 = __ldg(reinterpret_cast<const float4*>(s + ch));
  const float4 s1 = __ldg(reinterpret_cast<const float4*>(s + ch + 4));
  const float4 t0 = __ldg(reinterpret_cast<const float4*>(t + ch));
  const float4 t1 = __ldg(reinterpret_cast<const float4*>(t + ch + 4));
  const __half* from = image + ch;
  unsigned char* dst = to + c * 16;
  for (int p = first; p < NP; p += U * step) {
    uint4 v[U];
    bool ok[U];
#pragma unroll
    for (int i = 0; i < U; ++i) {
      const int q = p + i * step;
      const int row = q / WP, col = q - row * WP;
      const int gy = y0 + row - 1, gx = x0 + col - 1;
      ok[i] = q < NP && gy >= 0 && gy < H && gx >= 0 && gx < H;
      v[i] = make_uint4(0u, 0u, 0u, 0u);
      if (ok[i]) v[i] = __ldcg(reinterpret_cast<const uint4*>(from + static_cast<long long>(gy * H + gx) * CT));
    }
#pragma unroll
    for (int i = 0; i < U; ++i) {
      const int q = p + i * step;
      uint4 r = make_uint4(0u, 0u, 0u, 0u);
      if (ok[i]) {
        r.x = act2(v[i].x, s0.x, t0.x, s0.y, t0.y);
        r.y = act2(v[i].y, s0.z, t0.z, s0.w, t0.w);
        r.z = act2(v[i].z, s1.x, t1.x, s1.y, t1.y);
        r.w = act2(v[i].w, s1.z, t1.z, s1.w, t1.w);
      }
      if (q < NP) *reinterpret_cast<uint4*>(dst + q * stride) = r;
    }
  }
}

template <int WP, int JS>
__device__ __forceinline__ void mma_loop(float (&acc)[4][4][4], const unsigned (&addr)[4], int stride, int chan_off,
                                         const uint4* w, int j, int jend, bool full, uint4 c0, uint4 c1, uint4 n0,
                                         uint4 n1) {
#pragma unroll 1
  for (; j < jend; j += JS) {
    uint4 m0 = n0, m1 = n1;
    if (j + 2 * JS < jend) {
      m0 = __ldg(w + (j + 2 * JS) * 64);
      m1 = __ldg(w + (j + 2 * JS) * 64 + 32);
    }
    const int u = j / 9, tap = j - u * 9;
    const int dy = (tap * 11) >> 5;
    const unsigned off = chan_off + (dy * WP + tap - 3 * dy) * stride + u * 32;
#pragma unroll
    for (int m = 0; m < 4; ++m) {
      if (m < 3 || full) {
        unsigned a[4];
        ldmatrix4(a, addr[m] + off);
        mma16816(acc[m][0], a, c0.x, c0.y);
        mma16816(acc[m][1], a, c0.z, c0.w);
        mma16816(acc[m][2], a, c1.x, c1.y);
        mma16816(acc[m][3], a, c1.z, c1.w);
      }
    }
    c0 = n0; c1 = n1;
    n0 = m0; n1 = m1;
  }
}

constexpr int RS = 40;  // floats of a row of the reduction buffer

template <int H, int TH, int TW, int CL, int MG>
__global__ void __launch_bounds__(256, 2) dense_kernel(__half* buf, const float* s, const float* t, const uint4* w,
                                                       int C, int CT, int first) {
  constexpr int KG = 8 / MG, HP = TH + 2, WP = TW + 2, M = TH * TW, NMT = (M + 15) / 16, MPAD = MG * 64;
  constexpr int TX = H / TW, TY = H / TH;
  static_assert(NMT <= MG * 4 && NMT >= MG * 4 - 1, "tile");
  static_assert(TX * TW == H && TY * TH == H, "tile");
  extern __shared__ __align__(128) unsigned char smem[];
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
  const int mg = warp % MG, kg = warp / MG;
  const int rank = blockIdx.x % CL;
  const int tile = blockIdx.x / CL;
  const int img = tile / (TX * TY), rest = tile - img * (TX * TY);
  const int y0 = (rest / TX) * TH, x0 = (rest % TX) * TW;
  const int old_units = C / 16 - (first ? 0 : 2);
  const int u0 = rank * old_units / CL, u1 = (rank + 1) * old_units / CL;
  const int nu = u1 - u0, kl = nu * 16;
  const int stride = (kl + (first ? 0 : 32) + 8) * 2;
  const bool full = mg * 4 + 4 <= NMT;
  const __half* image = buf + static_cast<long long>(img) * H * H * CT;
  const uint4 zero4 = make_uint4(0u, 0u, 0u, 0u);

  // weights do not depend on the layer before: load them at once
  const uint4* w_old = w + u0 * 9 * 64 + lane;
  const int jend = nu * 9;
  uint4 c0 = zero4, c1 = zero4, n0 = zero4, n1 = zero4;
  if (kg < jend) { c0 = __ldg(w_old + kg * 64); c1 = __ldg(w_old + kg * 64 + 32); }
  if (kg + KG < jend) { n0 = __ldg(w_old + (kg + KG) * 64); n1 = __ldg(w_old + (kg + KG) * 64 + 32); }

  if (first) {
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  }
  if (nu > 0) fill<H, HP, WP, 8>(image, CT, y0, x0, u0 * 16, nu * 2, smem, stride, s, t);

  unsigned addr[4];
  const unsigned base = static_cast<unsigned>(__cvta_generic_to_shared(smem));
#pragma unroll
  for (int m = 0; m < 4; ++m) {
    int p = (mg * 4 + m) * 16 + (lane & 15);
    if (p >= M) p = 0;
    addr[m] = base + ((p / TW) * WP + p % TW) * stride + (lane >> 4) * 16;
  }
  float acc[4][4][4];
#pragma unroll
  for (int a = 0; a < 4; ++a)
#pragma unroll
    for (int b = 0; b < 4; ++b)
#pragma unroll
      for (int c = 0; c < 4; ++c) acc[a][b][c] = 0.0f;

  __syncthreads();
  mma_loop<WP, KG>(acc, addr, stride, 0, w_old, kg, jend, full, c0, c1, n0, n1);

  if (!first) {
    // the 32 newest channels: every block of the cluster holds them; warps share out the 18 steps, some get none
    constexpr int JS = CL * KG;
    const uint4* w_new = w + old_units * 9 * 64 + lane;
    const int j = rank * KG + kg;
    c0 = zero4; c1 = zero4; n0 = zero4; n1 = zero4;
    if (j < 18) { c0 = __ldg(w_new + j * 64); c1 = __ldg(w_new + j * 64 + 32); }
    if (j + JS < 18) { n0 = __ldg(w_new + (j + JS) * 64); n1 = __ldg(w_new + (j + JS) * 64 + 32); }
    // the layer before is complete after this; what it waited for is so already when this grid starts
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    fill<H, HP, WP, 3>(image, CT, y0, x0, old_units * 16, 4, smem + kl * 2, stride, s, t);
    __syncthreads();
    mma_loop<WP, JS>(acc, addr, stride, kl * 2, w_new, j, 18, full, c0, c1, n0, n1);
  }
  __syncthreads();

  float* red = reinterpret_cast<float*>(smem);
#pragma unroll
  for (int m = 0; m < 4; ++m) {
    if (m < 3 || full) {
      const int p = (mg * 4 + m) * 16 + (lane >> 2);
      float* to = red + (kg * MPAD + p) * RS + (lane & 3) * 2;
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        *reinterpret_cast<float2*>(to + n * 8) = make_float2(acc[m][n][0], acc[m][n][1]);
        *reinterpret_cast<float2*>(to + 8 * RS + n * 8) = make_float2(acc[m][n][2], acc[m][n][3]);
      }
    }
  }
  __syncthreads();

  __half* out = buf + static_cast<long long>(img) * H * H * CT + C;
  if constexpr (CL == 1) {
    for (int i = tid; i < M * 8; i += 256) {
      const int p = i >> 3, q = i & 7;
      float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
#pragma unroll
      for (int k = 0; k < KG; ++k) {
        const float4 v = *reinterpret_cast<const float4*>(red + (k * MPAD + p) * RS + q * 4);
        sum.x += v.x; sum.y += v.y; sum.z += v.z; sum.w += v.w;
      }
      const int y = y0 + p / TW, x = x0 + p % TW;
      *reinterpret_cast<uint2*>(out + static_cast<long long>(y * H + x) * CT + q * 4) =
          make_uint2(pack_half2(sum.x, sum.y), pack_half2(sum.z, sum.w));
    }
  } else {
    for (int i = tid; i < M * 8; i += 256) {
      const int p = i >> 3, q = i & 7;
      float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
#pragma unroll
      for (int k = 0; k < KG; ++k) {
        const float4 v = *reinterpret_cast<const float4*>(red + (k * MPAD + p) * RS + q * 4);
        sum.x += v.x; sum.y += v.y; sum.z += v.z; sum.w += v.w;
      }
      *reinterpret_cast<float4*>(red + p * RS + q * 4) = sum;
    }
    cg::cluster_group cluster = cg::this_cluster();
    cluster.sync();
    constexpr int SHARE = (M * 8 + CL - 1) / CL;
    for (int k = tid; k < SHARE; k += 256) {
      const int i = rank * SHARE + k;
      if (i < M * 8) {
        const int p = i >> 3, q = i & 7;
        float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
#pragma unroll
        for (int r = 0; r < CL; ++r) {
          const float* other = cluster.map_shared_rank(red, r);
          const float4 v = *reinterpret_cast<const float4*>(other + p * RS + q * 4);
          sum.x += v.x; sum.y += v.y; sum.z += v.z; sum.w += v.w;
        }
        const int y = y0 + p / TW, x = x0 + p % TW;
        *reinterpret_cast<uint2*>(out + static_cast<long long>(y * H + x) * CT + q * 4) =
            make_uint2(pack_half2(sum.x, sum.y), pack_half2(sum.z, sum.w));
      }
    }
    cluster.sync();
  }
}

template <int H, int TH, int TW, int CL, int MG>
void launch_dense(torch::Tensor& buf, torch::Tensor& s, torch::Tensor& t, torch::Tensor& w, int C, bool first) {
  auto kernel = dense_kernel<H, TH, TW, CL, MG>;
  const int batch = buf.size(0), CT = buf.size(3);
  const int old_units = C / 16 - (first ? 0 : 2);
  const int most = (old_units + CL - 1) / CL * 16 + (first ? 0 : 32) + 8;
  int bytes = (TH + 2) * (TW + 2) * most * 2;
  const int reduction = 8 * 64 * RS * 4;
  if (bytes < reduction) bytes = reduction;
  static bool ready = false;
  if (!ready) {
    C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 112 * 1024));
    ready = true;
  }
  TORCH_CHECK(bytes <= 112 * 1024, "too many channels");
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(batch * (H / TH) * (H / TW) * CL, 1, 1);
  config.blockDim = dim3(256, 1, 1);
  config.dynamicSmemBytes = bytes;
  config.stream = at::cuda::getCurrentCUDAStream();
  cudaLaunchAttribute attributes[2];
  int count = 0;
  if (CL > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count].val.clusterDim.x = CL;
    attributes[count].val.clusterDim.y = 1;
    attributes[count].val.clusterDim.z = 1;
    ++count;
  }
  if (!first) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count].val.programmaticStreamSerializationAllowed = 1;
    ++count;
  }
  config.attrs = attributes;
  config.numAttrs = count;
  __half* bp = reinterpret_cast<__half*>(buf.data_ptr());
  const float* sp = s.data_ptr<float>();
  const float* tp = t.data_ptr<float>();
  const uint4* wp = reinterpret_cast<const uint4*>(w.data_ptr());
  int c = C, ct = CT, f = first ? 1 : 0;
  C10_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, bp, sp, tp, wp, c, ct, f));
}

void dense(torch::Tensor buf, torch::Tensor s, torch::Tensor t, torch::Tensor w, int64_t C, bool first) {
  const int H = buf.size(1);
  if (H == 56) launch_dense<56, 8, 14, 1, 2>(buf, s, t, w, C, first);
  else if (H == 28) launch_dense<28, 4, 28, 4, 2>(buf, s, t, w, C, first);
  else if (H == 14) launch_dense<14, 7, 14, 8, 2>(buf, s, t, w, C, first);
  else if (H == 7) launch_dense<7, 7, 7, 8, 1>(buf, s, t, w, C, first);
  else TORCH_CHECK(false, "unexpected size of a map");
}

// ---------------------------------------------------------------- stem: 7 x 7 / 2, batch norm, ReLU, max pooling 3 / 2

constexpr int SI = 35, SJ = 36, SC = 15, SROW = 72;  // input rows, columns, convolution tile, halves of an output row

__global__ void __launch_bounds__(256, 2) stem_kernel(const float* x, const uint4* w, const float* s, const float* t,
                                                      __half* buf, int CT) {
  __shared__ __align__(128) unsigned char in[SI * SJ * 8];
  __shared__ __align__(128) __half conv[240 * SROW];
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
  const int img = blockIdx.x / 64, rest = blockIdx.x % 64;
  const int py0 = (rest / 8) * 7, px0 = (rest % 8) * 7;
  const int iy0 = 4 * py0 - 5, ix0 = 4 * px0 - 5;
  const float* image = x + static_cast<long long>(img) * 3 * 224 * 224;
  for (int i = tid; i < SI * SJ; i += 256) {
    const int row = i / SJ, col = i - row * SJ, gy = iy0 + row, gx = ix0 + col;
    float a = 0.f, b = 0.f, c = 0.f;
    if (gy >= 0 && gy < 224 && gx >= 0 && gx < 224) {
      const float* p = image + gy * 224 + gx;
      a = __ldg(p);
      b = __ldg(p + 224 * 224);
      c = __ldg(p + 2 * 224 * 224);
    }
    *reinterpret_cast<uint2*>(in + i * 8) = make_uint2(pack_half2(a, b), pack_half2(c, 0.f));
  }
  float acc[2][8][4];
#pragma unroll
  for (int a = 0; a < 2; ++a)
#pragma unroll
    for (int b = 0; b < 8; ++b)
#pragma unroll
      for (int c = 0; c < 4; ++c) acc[a][b][c] = 0.0f;
  unsigned addr[2];
  const unsigned base = static_cast<unsigned>(__cvta_generic_to_shared(in));
#pragma unroll
  for (int m = 0; m < 2; ++m) {
    int p = (warp + 8 * m) * 16 + (lane & 15);
    if (p >= SC * SC) p = 0;
    addr[m] = base + ((2 * (p / SC)) * SJ + 2 * (p % SC)) * 8 + (lane >> 4) * 16;
  }
  __syncthreads();
#pragma unroll 2
  for (int k = 0; k < 14; ++k) {
    uint4 b[4];
#pragma unroll
    for (int h = 0; h < 4; ++h) b[h] = __ldg(w + (k * 4 + h) * 32 + lane);
    const unsigned off = (k >> 1) * (SJ * 8) + (k & 1) * 32;
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      unsigned a[4];
      ldmatrix4(a, addr[m] + off);
#pragma unroll
      for (int h = 0; h < 4; ++h) {
        mma16816(acc[m][2 * h], a, b[h].x, b[h].y);
        mma16816(acc[m][2 * h + 1], a, b[h].z, b[h].w);
      }
    }
  }
#pragma unroll
  for (int m = 0; m < 2; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int p = (warp + 8 * m) * 16 + (lane >> 2) + half * 8;
      if (p < SC * SC) {
        const int cy = 2 * py0 - 1 + p / SC, cx = 2 * px0 - 1 + p % SC;
        const bool ok = cy >= 0 && cx >= 0;
#pragma unroll
        for (int n = 0; n < 8; ++n) {
          const int ch = n * 8 + (lane & 3) * 2;
          const float a = ok ? relu_nan(fmaf(acc[m][n][half * 2], __ldg(s + ch), __ldg(t + ch))) : 0.f;
          const float b = ok ? relu_nan(fmaf(acc[m][n][half * 2 + 1], __ldg(s + ch + 1), __ldg(t + ch + 1))) : 0.f;
          *reinterpret_cast<unsigned*>(conv + p * SROW + ch) = pack_half2(a, b);
        }
      }
    }
  }
  __syncthreads();
  for (int i = tid; i < 49 * 32; i += 256) {
    const int c = i & 31, p = i >> 5, py = p / 7, px = p - py * 7;
    __half2 best = __float2half2_rn(0.0f);
#pragma unroll
    for (int dy = 0; dy < 3; ++dy)
#pragma unroll
      for (int dx = 0; dx < 3; ++dx)
        best = __hmax2_nan(
            best, *reinterpret_cast<const __half2*>(conv + ((2 * py + dy) * SC + 2 * px + dx) * SROW + c * 2));
    const long long place = (static_cast<long long>(img) * 56 + py0 + py) * 56 + px0 + px;
    *reinterpret_cast<__half2*>(buf + place * CT + c * 2) = best;
  }
}

void stem(torch::Tensor x, torch::Tensor w, torch::Tensor s, torch::Tensor t, torch::Tensor buf) {
  TORCH_CHECK(x.is_contiguous() && x.size(1) == 3 && x.size(2) == 224 && x.size(3) == 224, "images of 3 x 224 x 224");
  const int batch = x.size(0);
  stem_kernel<<<batch * 64, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), reinterpret_cast<const uint4*>(w.data_ptr()), s.data_ptr<float>(), t.data_ptr<float>(),
      reinterpret_cast<__half*>(buf.data_ptr()), static_cast<int>(buf.size(3)));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

// ---------------------------------------------------------------- transition: batch norm, ReLU, average of 2 x 2

__device__ __forceinline__ void add_act(float (&sum)[8], uint4 v, const float (&s)[8], const float (&t)[8]) {
  const unsigned parts[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 f = unpack_half2(parts[i]);
    sum[2 * i] += relu_nan(fmaf(f.x, s[2 * i], t[2 * i]));
    sum[2 * i + 1] += relu_nan(fmaf(f.y, s[2 * i + 1], t[2 * i + 1]));
  }
}

__global__ void __launch_bounds__(256) bnpool_kernel(const __half* buf, const float* s, const float* t, __half* out,
                                                     int H, int CT, int total) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= total) return;
  const int nv = CT / 8, place = i / nv, c = (i - place * nv) * 8;
  const int h = H / 2, img = place / (h * h), rest = place - img * h * h, y = rest / h, x = rest - y * h;
  const __half* from = buf + ((static_cast<long long>(img) * H + 2 * y) * H + 2 * x) * CT + c;
  uint4 v[4];
  v[0] = __ldcg(reinterpret_cast<const uint4*>(from));
  v[1] = __ldcg(reinterpret_cast<const uint4*>(from + CT));
  v[2] = __ldcg(reinterpret_cast<const uint4*>(from + static_cast<long long>(H) * CT));
  v[3] = __ldcg(reinterpret_cast<const uint4*>(from + static_cast<long long>(H + 1) * CT));
  float s8[8], t8[8], sum[8];
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    s8[k] = __ldg(s + c + k);
    t8[k] = __ldg(t + c + k);
    sum[k] = 0.f;
  }
#pragma unroll
  for (int k = 0; k < 4; ++k) add_act(sum, v[k], s8, t8);
  *reinterpret_cast<uint4*>(out + static_cast<long long>(place) * CT + c) =
      make_uint4(pack_half2(sum[0] * .25f, sum[1] * .25f), pack_half2(sum[2] * .25f, sum[3] * .25f),
                 pack_half2(sum[4] * .25f, sum[5] * .25f), pack_half2(sum[6] * .25f, sum[7] * .25f));
}

void bnpool(torch::Tensor buf, torch::Tensor s, torch::Tensor t, torch::Tensor out) {
  const int H = buf.size(1), CT = buf.size(3), total = out.numel() / 8;
  bnpool_kernel<<<(total + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
      reinterpret_cast<const __half*>(buf.data_ptr()), s.data_ptr<float>(), t.data_ptr<float>(),
      reinterpret_cast<__half*>(out.data_ptr()), H, CT, total);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

// ---------------------------------------------------------------- head

__global__ void __launch_bounds__(128) mean_kernel(const __half* buf, const float* s, const float* t, float* feat,
                                                   int places, int CT) {
  __shared__ float parts[8][128];
  const int img = blockIdx.x, c = threadIdx.x & 15, g = threadIdx.x >> 4, ch = blockIdx.y * 128 + c * 8;
  float s8[8], t8[8], sum[8];
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    s8[k] = __ldg(s + ch + k);
    t8[k] = __ldg(t + ch + k);
    sum[k] = 0.f;
  }
  const __half* from = buf + static_cast<long long>(img) * places * CT + ch;
#pragma unroll 4
  for (int p = g; p < places; p += 8)
    add_act(sum, __ldcg(reinterpret_cast<const uint4*>(from + static_cast<long long>(p) * CT)), s8, t8);
#pragma unroll
  for (int k = 0; k < 8; ++k) parts[g][c * 8 + k] = sum[k];
  __syncthreads();
  float all = 0.f;
#pragma unroll
  for (int k = 0; k < 8; ++k) all += parts[k][threadIdx.x];
  feat[static_cast<long long>(img) * CT + blockIdx.y * 128 + threadIdx.x] = all / places;
}

__global__ void classify_kernel(const float* feat, const float* w, const float* b, float* out, int CT, int classes) {
  const int img = blockIdx.x, lane = threadIdx.x & 31, k = threadIdx.x >> 5;
  float sum = 0.f;
#pragma unroll 8
  for (int i = lane; i < CT; i += 32)
    sum = fmaf(feat[static_cast<long long>(img) * CT + i], __ldg(w + k * CT + i), sum);
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (lane == 0) out[img * classes + k] = sum + b[k];
}

void head(torch::Tensor buf, torch::Tensor s, torch::Tensor t, torch::Tensor w, torch::Tensor b, torch::Tensor feat,
          torch::Tensor out) {
  const int batch = buf.size(0), places = buf.size(1) * buf.size(2), CT = buf.size(3), classes = w.size(0);
  TORCH_CHECK(CT % 128 == 0 && classes <= 32, "head");
  auto stream = at::cuda::getCurrentCUDAStream();
  mean_kernel<<<dim3(batch, CT / 128), 128, 0, stream>>>(reinterpret_cast<const __half*>(buf.data_ptr()),
                                                         s.data_ptr<float>(), t.data_ptr<float>(),
                                                         feat.data_ptr<float>(), places, CT);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  classify_kernel<<<batch, classes * 32, 0, stream>>>(feat.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(),
                                                      out.data_ptr<float>(), CT, classes);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}
"""

extension = load_inline(
    name="densenet_dense_layers",
    cpp_sources=[DECLARATION],
    cuda_sources=[SOURCE],
    functions=["stem", "dense", "bnpool", "head"],
    extra_cuda_cflags=["-O3"],
)


class DenseLayer(nn.Module):
    """Parameters of a layer: batch norm and a 3 x 3 convolution."""

    def __init__(self, channels, growth):
        super().__init__()
        self.bn = nn.BatchNorm2d(channels)
        self.conv = nn.Conv2d(channels, growth, 3, padding=1, bias=False)


class DenseBlock(nn.Module):
    """Parameters of the layers of a block."""

    def __init__(self, layers, channels, growth):
        super().__init__()
        self.layers = nn.ModuleList(DenseLayer(channels + growth * layer, growth) for layer in range(layers))


class Transition(nn.Module):
    """Parameters of a transition: batch norm and a 1 x 1 convolution."""

    def __init__(self, channels):
        super().__init__()
        self.bn = nn.BatchNorm2d(channels)
        self.conv = nn.Conv2d(channels, channels // 2, 1, bias=False)


def affine(bn):
    """Scale and shift of a batch norm in inference, in float32."""
    scale = bn.weight.double() / torch.sqrt(bn.running_var.double() + bn.eps)
    shift = bn.bias.double() - bn.running_mean.double() * scale
    return scale.float().contiguous(), shift.float().contiguous()


def pack_dense(weight):
    """(32, C, 3, 3) to fragments [C / 16][tap][half][lane][tile, register, element] of mma.m16n8k16's B."""
    w = weight.detach().half().contiguous()
    units = w.shape[1] // 16
    w = w.reshape(2, 2, 8, units, 2, 4, 2, 9)
    return w.permute(3, 7, 0, 2, 5, 1, 4, 6).contiguous()


def pack_stem(weight):
    """(64, 3, 7, 7) to fragments; columns padded to 8, channels to 4."""
    w = torch.zeros(64, 7, 8, 4, dtype=torch.half, device=weight.device)
    w[:, :, :7, :3] = weight.detach().permute(0, 2, 3, 1).half()
    w = w.reshape(4, 2, 8, 14, 2, 4, 2)
    return w.permute(3, 0, 2, 5, 1, 4, 6).contiguous()


class ModelNew(nn.Module):
    """The network, with the original's parameters; packs them and records a graph when first called."""

    def __init__(self, growth, classes, layers, stem):
        super().__init__()
        self.conv1 = nn.Conv2d(3, stem, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(stem)
        blocks = []
        channels = stem
        self.widths = []
        self.starts = []
        for block, count in enumerate(layers):
            if block:
                blocks.append(Transition(channels))
                channels //= 2
            self.starts.append(channels)
            blocks.append(DenseBlock(count, channels, growth))
            channels += count * growth
            self.widths.append(channels)
        self.blocks = nn.Sequential(*blocks)
        self.bn2 = nn.BatchNorm2d(channels)
        self.classifier = nn.Linear(channels, classes)
        self.growth = growth
        self.classes = classes
        self.packed = None
        self.graphs = {}

    def prepare(self):
        """Fold the batch norms and lay the weights out as the kernels read them."""
        packed = {"stem": (pack_stem(self.conv1.weight), *affine(self.bn1)), "dense": [], "transition": []}
        for module in self.blocks:
            if isinstance(module, DenseBlock):
                packed["dense"].append([(*affine(layer.bn), pack_dense(layer.conv.weight)) for layer in module.layers])
            else:
                weight = module.conv.weight.detach().half().flatten(1).contiguous()
                packed["transition"].append((*affine(module.bn), weight.t()))
        packed["head"] = (
            *affine(self.bn2),
            self.classifier.weight.detach().float().contiguous(),
            self.classifier.bias.detach().float().contiguous(),
        )
        self.packed = packed

    def allocate(self, batch, device):
        """Memory for one batch size: a buffer per block, pooled maps, features, logits."""
        buffers, pooled, size = [], [], 56
        for index, width in enumerate(self.widths):
            buffers.append(torch.empty(batch, size, size, width, dtype=torch.half, device=device))
            if index + 1 < len(self.widths):
                size //= 2
                pooled.append(torch.empty(batch * size * size, width, dtype=torch.half, device=device))
        features = torch.empty(batch, self.widths[-1], device=device)
        logits = torch.empty(batch, self.classes, device=device)
        return buffers, pooled, features, logits

    def compute(self, x, memory):
        """Launch all kernels: images (batch, 3, 224, 224) in float32 to the logits in `memory`."""
        buffers, pooled, features, logits = memory
        packed = self.packed
        weight, scale, shift = packed["stem"]
        extension.stem(x, weight, scale, shift, buffers[0])
        for index, layers in enumerate(packed["dense"]):
            buffer = buffers[index]
            if index:
                scale, shift, weight = packed["transition"][index - 1]
                extension.bnpool(buffers[index - 1], scale, shift, pooled[index - 1])
                target = buffer.view(-1, buffer.shape[-1])[:, : self.starts[index]]
                torch.mm(pooled[index - 1], weight, out=target)
            channels = self.starts[index]
            for number, (scale, shift, weight) in enumerate(layers):
                extension.dense(buffer, scale, shift, weight, channels, number == 0)
                channels += self.growth
        extension.head(buffers[-1], *packed["head"], features, logits)

    def record(self, x):
        """Warm up, capture a CUDA graph for the shape of `x`, and keep it with its memory."""
        if self.packed is None:
            self.prepare()
        given = x.detach().clone(memory_format=torch.contiguous_format)
        memory = self.allocate(x.shape[0], x.device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.compute(given, memory)
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.compute(given, memory)
        entry = (graph, given, memory)
        self.graphs[tuple(x.shape)] = entry
        return entry

    def forward(self, x):
        """Images (batch, 3, 224, 224) to logits (batch, classes)."""
        entry = self.graphs.get(tuple(x.shape))
        if entry is None:
            entry = self.record(x)
        graph, given, memory = entry
        given.copy_(x)
        graph.replay()
        return memory[3].clone()
