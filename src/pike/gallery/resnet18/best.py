"""ResNet-18 on few images: nineteen kernels for the whole network, seventeen of them in one CUDA graph.

What it does: the network of `level3-pike/9`, in evaluation mode. Batch norms are folded into the weights in
64 bits when the weights are taken over. Activations lie in memory as (image, row, column, channel).

What made it fast: every 3 x 3 convolution is one implicit matrix product on tensor cores (`mma.sync`), with
bias, residual and ReLU at its end. A projected shortcut is more columns of the same product. Where a layer
has few tiles, a cluster of up to 8 blocks shares the sum of each tile and adds it up in shared memory. A
kernel loads its first weights while the kernel before still runs (programmatic dependent launch). The first
convolution and the maximum pooling are one kernel. The other convolutions and the average pooling are
recorded as a CUDA graph, once for each shape of input.

Accuracy: images, weights and activations of the convolutions are rounded to float16. Sums, biases and the
residual addition are float32, as are the average pooling and the classifier.

Limits: two blocks for each stage, 64 channels in the first stage and 64 times a power of two in the others,
float32 images of three channels, no gradients, compute capability 9.0 (Hopper).

Author: a coding agent, in a search by the strategy pike-x (result.json says which).
Licence: Apache-2.0.
"""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

DECLARATION = r"""
#include <torch/extension.h>
void stem(torch::Tensor x, torch::Tensor w, torch::Tensor b, torch::Tensor out);
void conv(torch::Tensor in, torch::Tensor extra, torch::Tensor w, torch::Tensor b, torch::Tensor out,
          int64_t mode, int64_t stride, int64_t extra_stride, int64_t split, bool overlap);
void average(torch::Tensor in, torch::Tensor out, bool overlap);
void classify(torch::Tensor in, torch::Tensor w, torch::Tensor b, torch::Tensor out);
"""

SOURCE = r"""
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>
#include <cuda_fp16.h>
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

__device__ __forceinline__ void grid_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ __forceinline__ void grid_trigger() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

__device__ __forceinline__ void mma16816(float (&c)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3,
                                         unsigned b0, unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void ldsm4(unsigned (&r)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

__device__ __forceinline__ void copy16(unsigned to, const void* from, bool valid) {
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
template <int N>
__device__ __forceinline__ void wait_group() { asm volatile("cp.async.wait_group %0;\n" ::"n"(N) : "memory"); }

__device__ __forceinline__ float relu(float v) { return v < 0.0f ? 0.0f : v; }  // keeps NaN

__device__ __forceinline__ unsigned pack2(float a, float b) {
  __half2 h = __floats2half2_rn(a, b);
  return *reinterpret_cast<unsigned*>(&h);
}
__device__ __forceinline__ float2 unpack2(unsigned v) {
  return __half22float2(*reinterpret_cast<__half2*>(&v));
}

// ---------------------------------------------------------------- convolution
constexpr int STAGES = 7, STAGE_BYTES = 16384, CONV_SMEM = STAGES * STAGE_BYTES, RED = 72;

struct ConvParams {
  const __half* in;
  const __half* extra;  // residual (mode 1) or source of the projection (mode 2)
  const __half* w;
  const float* bias;
  __half* out;
  int H, W, C, shift;        // input; shift: log2(C / 64)
  int OH, OW, N, M, stride;  // output
  int steps_main, steps;     // of 64 products
  int H2, W2, C2, stride2;
  int mode;
};

template <int S>
__global__ void __launch_bounds__(256, 2) conv_kernel(const ConvParams p) {
  extern __shared__ __align__(1024) unsigned char smem[];
  const unsigned base = static_cast<unsigned>(__cvta_generic_to_shared(smem));
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
  const int m0 = blockIdx.x * 64, n0 = blockIdx.y * 64;
  const int part = S > 1 ? static_cast<int>(blockIdx.z) : 0;
  const int first = p.steps * part / S, last = p.steps * (part + 1) / S, count = last - first;
  const int K = p.steps * 64;

  const int row0 = tid >> 3, chunk = tid & 7;
  const unsigned to = row0 * 128 + ((chunk ^ (row0 & 7)) << 4);
  const __half* w0 = p.w + static_cast<long long>(n0 + row0) * K + first * 64 + chunk * 8;
  const __half* w1 = w0 + static_cast<long long>(32) * K;

  auto load_b = [&](int step, int slot) {
    const unsigned d = base + slot * STAGE_BYTES + 8192 + to;
    copy16(d, w0 + step * 64, true);
    copy16(d + 4096, w1 + step * 64, true);
  };

  // weights do not depend on the kernel before: fetch them while it runs
#pragma unroll
  for (int i = 0; i < STAGES; ++i)
    if (i < count) load_b(i, i);

  const float4 bias = *reinterpret_cast<const float4*>(p.bias + n0 + (tid & 15) * 4);

  int img[2], py[2], px[2];
  bool live[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int m = m0 + row0 + i * 32;
    live[i] = m < p.M;
    const int mm = live[i] ? m : 0;
    const int area = p.OH * p.OW;
    img[i] = mm / area;
    const int rest = mm - img[i] * area;
    py[i] = rest / p.OW;
    px[i] = rest - py[i] * p.OW;
  }

  auto load_a = [&](int step, int slot) {
    const int t = first + step;
    const unsigned d = base + slot * STAGE_BYTES + to;
    if (t < p.steps_main) {
      const int tap = t >> p.shift;
      const int c = ((t - (tap << p.shift)) << 6) + chunk * 8;
      const int kh = tap / 3, kw = tap - kh * 3;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int y = py[i] * p.stride - 1 + kh, x = px[i] * p.stride - 1 + kw;
        const bool ok = live[i] && y >= 0 && y < p.H && x >= 0 && x < p.W;
        const __half* from = ok ? p.in + (static_cast<long long>((img[i] * p.H + y) * p.W + x) * p.C + c) : p.in;
        copy16(d + i * 4096, from, ok);
      }
    } else {
      const int c = ((t - p.steps_main) << 6) + chunk * 8;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int y = py[i] * p.stride2, x = px[i] * p.stride2;
        const bool ok = live[i];
        const __half* from =
            ok ? p.extra + (static_cast<long long>((img[i] * p.H2 + y) * p.W2 + x) * p.C2 + c) : p.extra;
        copy16(d + i * 4096, from, ok);
      }
    }
  };

  grid_wait();
  grid_trigger();

#pragma unroll
  for (int i = 0; i < STAGES; ++i) {
    if (i < count) load_a(i, i);
    commit();
  }

  // the residual is fetched early, too
  constexpr int TASKS = S >= 4 ? 1 : 4 / S;
  constexpr int TOTAL = 1024 / S;
  uint2 residual[TASKS];
#pragma unroll
  for (int i = 0; i < TASKS; ++i) {
    residual[i] = make_uint2(0u, 0u);
    const int task = tid + i * 256;
    const int m = m0 + part * (64 / S) + (task >> 4);
    if (p.mode == 1 && task < TOTAL && m < p.M)
      residual[i] =
          *reinterpret_cast<const uint2*>(p.extra + static_cast<long long>(m) * p.N + n0 + (task & 15) * 4);
  }

  float acc[2][4][4];
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int k = 0; k < 4; ++k) acc[i][j][k] = 0.0f;

  const int wk = warp >> 2, wm = (warp >> 1) & 1, wn = warp & 1;
  const int arow = wm * 32 + (lane & 15), achunk = lane >> 4;
  const int brow = wn * 32 + (lane & 7) + ((lane >> 4) << 3), bchunk = (lane >> 3) & 1;

  int slot = 0;
  for (int t = 0; t < count; ++t) {
    wait_group<STAGES - 2>();
    __syncthreads();
    if (t > 0) {
      const int next = t - 1 + STAGES;
      if (next < count) {
        const int free_slot = slot == 0 ? STAGES - 1 : slot - 1;
        load_a(next, free_slot);
        load_b(next, free_slot);
      }
      commit();
    }
    const unsigned sa = base + slot * STAGE_BYTES, sb = sa + 8192;
#pragma unroll
    for (int kk = 0; kk < 2; ++kk) {
      const int k16 = wk * 2 + kk;
      unsigned a[2][4], b[2][4];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int r = arow + i * 16;
        ldsm4(a[i], sa + r * 128 + (((k16 * 2 + achunk) ^ (r & 7)) << 4));
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int r = brow + j * 16;
        ldsm4(b[j], sb + r * 128 + (((k16 * 2 + bchunk) ^ (r & 7)) << 4));
      }
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          mma16816(acc[i][j], a[i][0], a[i][1], a[i][2], a[i][3], b[j >> 1][(j & 1) * 2], b[j >> 1][(j & 1) * 2 + 1]);
    }
    slot = slot + 1 == STAGES ? 0 : slot + 1;
  }

  wait_group<0>();
  __syncthreads();
  float* red = reinterpret_cast<float*>(smem);
  const int rr = wm * 32 + (lane >> 2), rc = wn * 32 + (lane & 3) * 2;
  if (wk == 1) {
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        float* at = red + (rr + i * 16) * RED + rc + j * 8;
        *reinterpret_cast<float2*>(at) = make_float2(acc[i][j][0], acc[i][j][1]);
        *reinterpret_cast<float2*>(at + 8 * RED) = make_float2(acc[i][j][2], acc[i][j][3]);
      }
  }
  __syncthreads();
  if (wk == 0) {
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        float2* at = reinterpret_cast<float2*>(red + (rr + i * 16) * RED + rc + j * 8);
        float2* below = reinterpret_cast<float2*>(red + (rr + i * 16 + 8) * RED + rc + j * 8);
        const float2 u = *at, v = *below;
        *at = make_float2(acc[i][j][0] + u.x, acc[i][j][1] + u.y);
        *below = make_float2(acc[i][j][2] + v.x, acc[i][j][3] + v.y);
      }
  }
  if constexpr (S > 1) {
    cg::this_cluster().sync();
  } else {
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < TASKS; ++i) {
    const int task = tid + i * 256;
    const int row = part * (64 / S) + (task >> 4), c = (task & 15) * 4;
    const int m = m0 + row;
    if (task < TOTAL && m < p.M) {
      float4 sum = bias;
      if constexpr (S > 1) {
        float4 v[S];
#pragma unroll
        for (int r = 0; r < S; ++r) {
          const float* other = cg::this_cluster().map_shared_rank(red, r);
          v[r] = *reinterpret_cast<const float4*>(other + row * RED + c);
        }
#pragma unroll
        for (int r = 0; r < S; ++r) {
          sum.x += v[r].x;
          sum.y += v[r].y;
          sum.z += v[r].z;
          sum.w += v[r].w;
        }
      } else {
        const float4 v = *reinterpret_cast<const float4*>(red + row * RED + c);
        sum.x += v.x;
        sum.y += v.y;
        sum.z += v.z;
        sum.w += v.w;
      }
      const float2 lo = unpack2(residual[i].x), hi = unpack2(residual[i].y);
      uint2 result;
      result.x = pack2(relu(sum.x + lo.x), relu(sum.y + lo.y));
      result.y = pack2(relu(sum.z + hi.x), relu(sum.w + hi.y));
      *reinterpret_cast<uint2*>(p.out + static_cast<long long>(m) * p.N + n0 + c) = result;
    }
  }
  if constexpr (S > 1) cg::this_cluster().sync();  // shared memory must live until all have read it
}

template <int S>
static void launch_conv(const ConvParams& p, bool overlap) {
  C10_CUDA_CHECK(cudaFuncSetAttribute(conv_kernel<S>, cudaFuncAttributeMaxDynamicSharedMemorySize, CONV_SMEM));
  C10_CUDA_CHECK(cudaFuncSetAttribute(conv_kernel<S>, cudaFuncAttributePreferredSharedMemoryCarveout, 100));
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3((p.M + 63) / 64, p.N / 64, S);
  config.blockDim = dim3(256, 1, 1);
  config.dynamicSmemBytes = CONV_SMEM;
  config.stream = at::cuda::getCurrentCUDAStream();
  cudaLaunchAttribute attributes[2];
  int n = 0;
  if (S > 1) {
    attributes[n].id = cudaLaunchAttributeClusterDimension;
    attributes[n].val.clusterDim.x = 1;
    attributes[n].val.clusterDim.y = 1;
    attributes[n].val.clusterDim.z = S;
    ++n;
  }
  if (overlap) {
    attributes[n].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[n].val.programmaticStreamSerializationAllowed = 1;
    ++n;
  }
  config.attrs = attributes;
  config.numAttrs = n;
  C10_CUDA_CHECK(cudaLaunchKernelEx(&config, conv_kernel<S>, p));
}

void conv(torch::Tensor in, torch::Tensor extra, torch::Tensor w, torch::Tensor b, torch::Tensor out,
          int64_t mode, int64_t stride, int64_t extra_stride, int64_t split, bool overlap) {
  ConvParams p;
  p.in = reinterpret_cast<const __half*>(in.data_ptr());
  p.extra = reinterpret_cast<const __half*>(extra.data_ptr());
  p.w = reinterpret_cast<const __half*>(w.data_ptr());
  p.bias = reinterpret_cast<const float*>(b.data_ptr());
  p.out = reinterpret_cast<__half*>(out.data_ptr());
  p.H = in.size(1);
  p.W = in.size(2);
  p.C = in.size(3);
  TORCH_CHECK(p.C % 64 == 0 && ((p.C / 64) & (p.C / 64 - 1)) == 0, "channels must be 64 times a power of two");
  p.shift = 0;
  while ((64 << p.shift) < p.C) ++p.shift;
  p.OH = out.size(1);
  p.OW = out.size(2);
  p.N = out.size(3);
  TORCH_CHECK(p.N % 64 == 0, "channels must be a multiple of 64");
  p.M = out.size(0) * p.OH * p.OW;
  p.stride = stride;
  p.steps_main = 9 * p.C / 64;
  p.steps = w.size(1) / 64;
  p.H2 = extra.size(1);
  p.W2 = extra.size(2);
  p.C2 = extra.size(3);
  p.stride2 = extra_stride;
  p.mode = mode;
  TORCH_CHECK(p.steps == p.steps_main + (mode == 2 ? p.C2 / 64 : 0), "weights do not fit");
  if (split == 1) launch_conv<1>(p, overlap);
  else if (split == 2) launch_conv<2>(p, overlap);
  else if (split == 4) launch_conv<4>(p, overlap);
  else launch_conv<8>(p, overlap);
}

// ---------------------------------------------------------------- stem: 7 x 7 / 2, ReLU, 3 x 3 / 2 maximum
constexpr int STEM_THREADS = 320, TILE = 8, CT = 17, IH = 39, IW = 40, OUT_STRIDE = 72;
constexpr int STEM_W_BYTES = 11 * 4 * 32 * 16, STEM_OUT_BYTES = CT * CT * OUT_STRIDE * 2;
constexpr int STEM_SMEM = STEM_W_BYTES + STEM_OUT_BYTES + 3 * IH * IW * 2;

__global__ void __launch_bounds__(STEM_THREADS) stem_kernel(const float* __restrict__ x, const uint4* __restrict__ w,
                                                            const float* __restrict__ bias, __half* __restrict__ out,
                                                            int H, int W, int CH, int CW, int PH, int PW) {
  extern __shared__ __align__(1024) unsigned char smem[];
  uint4* sw = reinterpret_cast<uint4*>(smem);
  __half* so = reinterpret_cast<__half*>(smem + STEM_W_BYTES);
  __half* si = reinterpret_cast<__half*>(smem + STEM_W_BYTES + STEM_OUT_BYTES);
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
  const int px0 = blockIdx.x * TILE, py0 = blockIdx.y * TILE, image = blockIdx.z;
  const int cy0 = 2 * py0 - 1, cx0 = 2 * px0 - 1;
  const int iy0 = 2 * cy0 - 3, ix0 = 2 * cx0 - 3;
  const unsigned sw_base = static_cast<unsigned>(__cvta_generic_to_shared(sw));
  for (int i = tid; i < 11 * 4 * 32; i += STEM_THREADS) copy16(sw_base + i * 16, w + i, true);
  commit();

  const float* plane = x + static_cast<long long>(image) * 3 * H * W;
  constexpr int ELEMENTS = 3 * IH * IW, ROUNDS = (ELEMENTS + STEM_THREADS - 1) / STEM_THREADS;
  float kept[ROUNDS];
#pragma unroll
  for (int k = 0; k < ROUNDS; ++k) {
    const int i = tid + k * STEM_THREADS;
    const int c = i / (IH * IW), rest = i - c * (IH * IW), r = rest / IW;
    const int y = iy0 + r, xx = ix0 + rest - r * IW;
    kept[k] = i < ELEMENTS && y >= 0 && y < H && xx >= 0 && xx < W
                  ? __ldg(plane + (static_cast<long long>(c) * H + y) * W + xx)
                  : 0.0f;
  }
#pragma unroll
  for (int k = 0; k < ROUNDS; ++k) {
    const int i = tid + k * STEM_THREADS;
    if (i < ELEMENTS) si[i] = __float2half_rn(kept[k]);
  }
  wait_group<0>();
  __syncthreads();

  const int g = lane >> 2, t = lane & 3;
  int from[2][2];
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      int q = (warp * 2 + i) * 16 + h * 8 + g;
      q = q < CT * CT ? q : CT * CT - 1;
      const int oy = q / CT, ox = q - oy * CT;
      from[i][h] = 2 * oy * IW + 2 * ox + 2 * t;
    }
  float acc[2][8][4];
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const float b0 = __ldg(bias + j * 8 + t * 2), b1 = __ldg(bias + j * 8 + t * 2 + 1);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      acc[i][j][0] = b0;
      acc[i][j][1] = b1;
      acc[i][j][2] = b0;
      acc[i][j][3] = b1;
    }
  }
#pragma unroll
  for (int ks = 0; ks < 11; ++ks) {
    const int ra = 2 * ks, rb = 2 * ks + 1 < 21 ? 2 * ks + 1 : 20;  // row 21 has zero weights
    const int oa = (ra / 7) * IH * IW + (ra % 7) * IW, ob = (rb / 7) * IH * IW + (rb % 7) * IW;
    unsigned a[2][4];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      a[i][0] = *reinterpret_cast<const unsigned*>(si + from[i][0] + oa);
      a[i][1] = *reinterpret_cast<const unsigned*>(si + from[i][1] + oa);
      a[i][2] = *reinterpret_cast<const unsigned*>(si + from[i][0] + ob);
      a[i][3] = *reinterpret_cast<const unsigned*>(si + from[i][1] + ob);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const uint4 b = sw[(ks * 4 + j) * 32 + lane];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        mma16816(acc[i][2 * j], a[i][0], a[i][1], a[i][2], a[i][3], b.x, b.y);
        mma16816(acc[i][2 * j + 1], a[i][0], a[i][1], a[i][2], a[i][3], b.z, b.w);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int q = (warp * 2 + i) * 16 + h * 8 + g;
      if (q < CT * CT) {
        const int oy = q / CT, ox = q - oy * CT;
        const int y = cy0 + oy, xx = cx0 + ox;
        const bool inside = y >= 0 && y < CH && xx >= 0 && xx < CW;  // outside: 0 never exceeds a ReLU's result
#pragma unroll
        for (int j = 0; j < 8; ++j)
          *reinterpret_cast<unsigned*>(so + q * OUT_STRIDE + j * 8 + t * 2) =
              inside ? pack2(relu(acc[i][j][2 * h]), relu(acc[i][j][2 * h + 1])) : 0u;
      }
    }
  __syncthreads();
  for (int task = tid; task < TILE * TILE * 8; task += STEM_THREADS) {
    const int c = task & 7, pixel = task >> 3;
    const int oy = pixel / TILE, ox = pixel % TILE;
    if (py0 + oy >= PH || px0 + ox >= PW) continue;
    __half2 best[4];
#pragma unroll
    for (int k = 0; k < 9; ++k) {
      const int q = (2 * oy + k / 3) * CT + 2 * ox + k % 3;
      uint4 v = *reinterpret_cast<const uint4*>(so + q * OUT_STRIDE + c * 8);
      const __half2* h = reinterpret_cast<const __half2*>(&v);
#pragma unroll
      for (int e = 0; e < 4; ++e) best[e] = k == 0 ? h[e] : __hmax2_nan(best[e], h[e]);
    }
    uint4 result;
    result.x = *reinterpret_cast<unsigned*>(&best[0]);
    result.y = *reinterpret_cast<unsigned*>(&best[1]);
    result.z = *reinterpret_cast<unsigned*>(&best[2]);
    result.w = *reinterpret_cast<unsigned*>(&best[3]);
    const long long pos = (static_cast<long long>(image) * PH + py0 + oy) * PW + px0 + ox;
    *reinterpret_cast<uint4*>(out + pos * 64 + c * 8) = result;
  }
}

void stem(torch::Tensor x, torch::Tensor w, torch::Tensor b, torch::Tensor out) {
  const int H = x.size(2), W = x.size(3), CH = (H - 1) / 2 + 1, CW = (W - 1) / 2 + 1;
  const int PH = out.size(1), PW = out.size(2);
  static const cudaError_t ready =
      cudaFuncSetAttribute(stem_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, STEM_SMEM);
  C10_CUDA_CHECK(ready);
  const dim3 grid((PW + TILE - 1) / TILE, (PH + TILE - 1) / TILE, x.size(0));
  stem_kernel<<<grid, STEM_THREADS, STEM_SMEM, at::cuda::getCurrentCUDAStream()>>>(
      reinterpret_cast<const float*>(x.data_ptr()), reinterpret_cast<const uint4*>(w.data_ptr()),
      reinterpret_cast<const float*>(b.data_ptr()), reinterpret_cast<__half*>(out.data_ptr()), H, W, CH, CW, PH, PW);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

// ---------------------------------------------------------------- average pooling and classifier
__global__ void __launch_bounds__(256) average_kernel(const __half* in, float* out, int area, int C) {
  __shared__ float parts[32][65];
  const int chunk = threadIdx.x & 7, lane = threadIdx.x >> 3;
  float sum[8];
#pragma unroll
  for (int e = 0; e < 8; ++e) sum[e] = 0.0f;
  grid_wait();
  const __half* from = in + static_cast<long long>(blockIdx.y) * area * C + blockIdx.x * 64 + chunk * 8;
  for (int i = lane; i < area; i += 32) {
    const uint4 v = *reinterpret_cast<const uint4*>(from + static_cast<long long>(i) * C);
    const float2 a = unpack2(v.x), b = unpack2(v.y), c = unpack2(v.z), d = unpack2(v.w);
    sum[0] += a.x; sum[1] += a.y; sum[2] += b.x; sum[3] += b.y;
    sum[4] += c.x; sum[5] += c.y; sum[6] += d.x; sum[7] += d.y;
  }
#pragma unroll
  for (int e = 0; e < 8; ++e) parts[lane][chunk * 8 + e] = sum[e];
  __syncthreads();
  if (threadIdx.x < 64) {
    float total = 0.0f;
#pragma unroll
    for (int i = 0; i < 32; ++i) total += parts[i][threadIdx.x];
    out[static_cast<long long>(blockIdx.y) * C + blockIdx.x * 64 + threadIdx.x] = total / area;
  }
}

void average(torch::Tensor in, torch::Tensor out, bool overlap) {
  const int area = in.size(1) * in.size(2), C = in.size(3);
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(C / 64, in.size(0), 1);
  config.blockDim = dim3(256, 1, 1);
  config.dynamicSmemBytes = 0;
  config.stream = at::cuda::getCurrentCUDAStream();
  cudaLaunchAttribute attributes[1];
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  config.attrs = attributes;
  config.numAttrs = overlap ? 1 : 0;
  const __half* from = reinterpret_cast<const __half*>(in.data_ptr());
  float* to = reinterpret_cast<float*>(out.data_ptr());
  C10_CUDA_CHECK(cudaLaunchKernelEx(&config, average_kernel, from, to, area, C));
}

__global__ void __launch_bounds__(256) classify_kernel(const float* __restrict__ in, const float* __restrict__ w,
                                                       const float* __restrict__ bias, float* __restrict__ out,
                                                       int C, int classes) {
  const int lane = threadIdx.x & 31, k = blockIdx.x * 8 + (threadIdx.x >> 5), n = blockIdx.y;
  if (k >= classes) return;
  const float* a = in + static_cast<long long>(n) * C;
  const float* b = w + static_cast<long long>(k) * C;
  float sum = 0.0f;
#pragma unroll 4
  for (int c = lane * 4; c < C; c += 128) {
    const float4 u = __ldg(reinterpret_cast<const float4*>(a + c));
    const float4 v = __ldg(reinterpret_cast<const float4*>(b + c));
    sum += u.x * v.x + u.y * v.y + u.z * v.z + u.w * v.w;
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (lane == 0) out[static_cast<long long>(n) * classes + k] = sum + bias[k];
}

void classify(torch::Tensor in, torch::Tensor w, torch::Tensor b, torch::Tensor out) {
  const int C = in.size(1), classes = w.size(0);
  const dim3 grid((classes + 7) / 8, in.size(0));
  classify_kernel<<<grid, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
      reinterpret_cast<const float*>(in.data_ptr()), reinterpret_cast<const float*>(w.data_ptr()),
      reinterpret_cast<const float*>(b.data_ptr()), reinterpret_cast<float*>(out.data_ptr()), C, classes);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}
"""

extension = load_inline(
    name="resnet18_fp16_graph_pipeline",
    cpp_sources=[DECLARATION],
    cuda_sources=[SOURCE],
    functions=["stem", "conv", "average", "classify"],
    extra_cuda_cflags=["-O3", "-std=c++17", "-gencode=arch=compute_90a,code=sm_90a"],
)

BLOCKS_WANTED = 132


def fold(conv, bn):
    """Weights and bias, in float64, of a convolution followed by a batch norm in eval mode."""
    scale = bn.weight.detach().double() / torch.sqrt(bn.running_var.detach().double() + bn.eps)
    weight = conv.weight.detach().double() * scale.view(-1, 1, 1, 1)
    bias = bn.bias.detach().double() - bn.running_mean.detach().double() * scale
    return weight, bias


def rows(weight):
    """(C_out, C_in, kh, kw) to (C_out, kh * kw * C_in)."""
    return weight.permute(0, 2, 3, 1).reshape(weight.shape[0], -1)


class ModelNew(nn.Module):
    """ResNet-18 with folded weights: images (batch, 3, h, w) to logits (batch, classes)."""

    def __init__(self, classes, widths):
        super().__init__()
        self.classes = classes
        self.widths = tuple(widths)
        if self.widths[0] != 64:
            raise ValueError("the stem is written for 64 channels")
        self.register_buffer("stem_w", torch.zeros(11, 4, 8, 4, 2, 2, 2, dtype=torch.float16))
        self.register_buffer("stem_b", torch.zeros(self.widths[0]))
        self.layout = []  # per block: stride, channels, projected
        channels_in = self.widths[0]
        for stage, channels in enumerate(self.widths):
            for number in range(2):
                stride = 2 if stage > 0 and number == 0 else 1
                projected = stride != 1 or channels_in != channels
                i = len(self.layout)
                self.layout.append((stride, channels, projected))
                extra = channels_in if projected else 0
                self.register_buffer(f"w{i}a", torch.zeros(channels, 9 * channels_in, dtype=torch.float16))
                self.register_buffer(f"b{i}a", torch.zeros(channels))
                self.register_buffer(f"w{i}b", torch.zeros(channels, 9 * channels + extra, dtype=torch.float16))
                self.register_buffer(f"b{i}b", torch.zeros(channels))
                channels_in = channels
        self.register_buffer("fc_w", torch.zeros(classes, channels_in))
        self.register_buffer("fc_b", torch.zeros(classes))
        self.plans = {}

    @classmethod
    def from_reference(cls, model):
        """Take over, fold and pack the weights of the original; later changes to it are not seen."""
        widths = tuple(model.blocks[i].conv1.weight.shape[0] for i in range(0, len(model.blocks), 2))
        new = cls(model.classifier.weight.shape[0], widths)
        with torch.no_grad():
            weight, bias = fold(model.conv1, model.bn1)
            padded = weight.new_zeros(64, 22, 8)
            padded[:, :21, :7] = weight.reshape(64, 21, 7)
            # n = pair, j, g; k = step, half, t, e: the order of the fragments of mma.m16n8k16
            packed = padded.reshape(4, 2, 8, 11, 2, 4, 2).permute(3, 0, 2, 5, 1, 4, 6)
            new.stem_w.copy_(packed)
            new.stem_b.copy_(bias)
            for i, (_, _, projected) in enumerate(new.layout):
                block = model.blocks[i]
                weight, bias = fold(block.conv1, block.bn1)
                getattr(new, f"w{i}a").copy_(rows(weight))
                getattr(new, f"b{i}a").copy_(bias)
                weight, bias = fold(block.conv2, block.bn2)
                weight = rows(weight)
                if projected:
                    projection, shift = fold(block.shortcut[0], block.shortcut[1])
                    weight = torch.cat([weight, rows(projection)], dim=1)
                    bias = bias + shift
                getattr(new, f"w{i}b").copy_(weight)
                getattr(new, f"b{i}b").copy_(bias)
            new.fc_w.copy_(model.classifier.weight.detach())
            new.fc_b.copy_(model.classifier.bias.detach())
        return new

    def _apply(self, fn, recurse=True):
        self.plans = {}  # recorded graphs hold addresses of the weights
        return super()._apply(fn, recurse)

    @staticmethod
    def split(out):
        """How many blocks share the sum of one 64 x 64 tile of `out`: 1, 2, 4 or 8."""
        pixels = out.shape[0] * out.shape[1] * out.shape[2]
        tiles = ((pixels + 63) // 64) * (out.shape[3] // 64)
        parts = 1
        while parts < 8 and tiles * parts * 2 <= BLOCKS_WANTED:
            parts *= 2
        return parts

    def record(self, x):
        """Allocate the activations for the shape of `x`, run once, and record the CUDA graph for that shape."""
        count, _, height, width = x.shape
        device = x.device

        def half(size):
            return (size - 1) // 2 + 1

        height, width = half(half(height)), half(half(width))
        pooled = torch.empty(count, height, width, self.widths[0], dtype=torch.float16, device=device)
        calls = []
        current = pooled
        for i, (stride, channels, projected) in enumerate(self.layout):
            if stride == 2:
                height, width = half(height), half(width)
            middle = torch.empty(count, height, width, channels, dtype=torch.float16, device=device)
            out = torch.empty_like(middle)
            parts = self.split(middle)
            wa, ba = getattr(self, f"w{i}a"), getattr(self, f"b{i}a")
            wb, bb = getattr(self, f"w{i}b"), getattr(self, f"b{i}b")
            calls.append((current, current, wa, ba, middle, 0, stride, 1, parts, i > 0))
            calls.append((middle, current, wb, bb, out, 2 if projected else 1, 1, stride, parts, True))
            current = out
        features = torch.empty(count, current.shape[3], dtype=torch.float32, device=device)

        def run():
            for call in calls:
                extension.conv(*call)
            extension.average(current, features, True)

        extension.stem(x, self.stem_w, self.stem_b, pooled)
        run()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            run()
        torch.cuda.synchronize()
        plan = (graph, pooled, features, self.stem_w, self.stem_b, self.fc_w, self.fc_b, calls)
        self.plans[tuple(x.shape)] = plan
        return plan

    def forward(self, x):
        """Images (batch, 3, h, w) in float32 to logits (batch, classes)."""
        x = x.contiguous()
        plan = self.plans.get(tuple(x.shape))
        if plan is None:
            plan = self.record(x)
        graph, pooled, features, stem_w, stem_b, fc_w, fc_b, _ = plan
        extension.stem(x, stem_w, stem_b, pooled)
        graph.replay()
        logits = torch.empty(x.shape[0], self.classes, dtype=torch.float32, device=x.device)
        extension.classify(features, fc_w, fc_b, logits)
        return logits
