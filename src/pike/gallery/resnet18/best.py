"""ResNet-18 on few images: eighteen kernels for the whole network, all in one CUDA graph.

What it does: the network of `level3-pike/9`, in evaluation mode. At the first call batch norms are folded
into the weights in 64 bits. Activations lie in memory as (image, row, column, channel).

What made it fast: a block of a 3 x 3 convolution computes 64 pixels of 64 channels from one slice of 64 input
channels. It loads all its weights with bulk copies while the kernel before still runs (programmatic dependent
launch). It loads its input pixels once, and takes the nine shifted operands from shared memory. Tensor cores
(`wgmma`) multiply. A cluster of up to 8 blocks, one for each slice, adds the sums up in shared memory. Bias,
residual and ReLU follow in the same kernel. A projected shortcut is a tenth tile of weights. The first
convolution and the maximum pooling are one kernel, as are the average pooling and the classifier. Where the
address of images or result changes, only the arguments of the graph's first or last kernel are set.

Accuracy: images, weights and activations of the convolutions are rounded to float16. Sums, biases and the
residual addition are float32, as are the average pooling and the classifier.

Limits: float32 images of 3 x 224 x 224, 1 to 64 of them, widths 64, 128, 256, 512. Anything else, and
training mode, runs as plain PyTorch. No gradients on the fast path. Weights changed in place after the first
call are not seen until `forget()`. Compute capability 9.0 (Hopper) and the current device, not checked.

Author: a coding agent, in a search by the strategy pike-x (result.json says which).
Licence: Apache-2.0.
"""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

DECLARATION = r"""
int64_t build_plan(torch::Tensor x, int64_t classes, std::vector<torch::Tensor> weights,
                   std::vector<torch::Tensor> biases, std::vector<torch::Tensor> buffers,
                   std::vector<std::vector<int64_t>> layers);
torch::Tensor run_plan(int64_t handle, torch::Tensor x);
"""

SOURCE = r"""
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <torch/extension.h>
#include <algorithm>
#include <vector>

// ------------------------------------------------------------------ small helpers
__device__ __forceinline__ unsigned smem_addr(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}
__device__ __forceinline__ void grid_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ __forceinline__ void grid_launch() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
__device__ __forceinline__ void cp_async16(unsigned dst, const void* src, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(src), "r"(bytes) : "memory");
}
__device__ __forceinline__ void cp_async_wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }
__device__ __forceinline__ void ldmatrix4(unsigned& a, unsigned& b, unsigned& c, unsigned& d, unsigned addr) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
               : "r"(addr)
               : "memory");
}
__device__ __forceinline__ void mma16816(float* c, const unsigned* a, unsigned b0, unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}
// B: 64 rows (n) of 64 halves (k), 128-byte swizzle, K-major
__device__ __forceinline__ unsigned long long b_descriptor(unsigned addr) {
  return static_cast<unsigned long long>((addr & 0x3FFFF) >> 4) | (1ull << 16) | (64ull << 32) | (1ull << 62);
}
__device__ __forceinline__ void wgmma64(float* d, const unsigned* a, unsigned long long desc) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "{%32, %33, %34, %35}, %36, p, 1, 1, 0;\n"
      "}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(desc), "r"(1));
}
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ __forceinline__ float relu_nan(float v) { return v < 0.0f ? 0.0f : v; }

// ------------------------------------------------------------------ stem: 7x7 conv, norm, relu, 3x3 max pool
constexpr int IMG = 224, CONV = 112, POOL = 56;
constexpr int TILE_Y = 7, TILE_X = 8;          // pooled pixels of one block
constexpr int CX = 2 * TILE_X + 1;             // 17 columns of convolution outputs, 15 rows: 255 of 256
constexpr int PATCH_H = 35, PATCH_W = 40;
constexpr int STEM_K = 224, STEM_PITCH = 232, STEM_OUT_PITCH = 72;
constexpr int STEM_W_BYTES = 64 * STEM_PITCH * 2;
constexpr int STEM_X_BYTES = PATCH_H * PATCH_W * 8;
constexpr int STEM_O_BYTES = 256 * STEM_OUT_PITCH * 2;
constexpr int STEM_SMEM = STEM_W_BYTES + STEM_X_BYTES + STEM_O_BYTES;

__global__ void __launch_bounds__(256) stem_kernel(const float* x, const __half* w, const float* bias, __half* out) {
  extern __shared__ __align__(1024) unsigned char stem_smem[];
  grid_launch();
  unsigned char* s_w = stem_smem;
  unsigned char* s_x = stem_smem + STEM_W_BYTES;
  __half* s_o = reinterpret_cast<__half*>(stem_smem + STEM_W_BYTES + STEM_X_BYTES);
  const int tid = threadIdx.y * blockDim.x + threadIdx.x, lane = tid & 31, warp = tid >> 5;
  const int px0 = blockIdx.x * TILE_X, py0 = blockIdx.y * TILE_Y, b = blockIdx.z;
  const unsigned w_addr = smem_addr(s_w), x_addr = smem_addr(s_x);
  for (int i = tid; i < STEM_W_BYTES / 16; i += 256)
    cp_async16(w_addr + i * 16, reinterpret_cast<const unsigned char*>(w) + i * 16, 16);
  const int iy0 = 4 * py0 - 5, ix0 = 4 * px0 - 5;
  const float* image = x + static_cast<size_t>(b) * 3 * IMG * IMG;
  float v[6][3];
#pragma unroll
  for (int k = 0; k < 6; ++k) {
    const int i = tid + k * 256;
    const int ry = i / PATCH_W, rx = i - ry * PATCH_W;
    const int iy = iy0 + ry, ix = ix0 + rx;
    const bool ok = i < PATCH_H * PATCH_W && iy >= 0 && iy < IMG && ix >= 0 && ix < IMG;
    const float* from = image + iy * IMG + ix;
#pragma unroll
    for (int c = 0; c < 3; ++c) v[k][c] = ok ? from[c * IMG * IMG] : 0.0f;
  }
#pragma unroll
  for (int k = 0; k < 6; ++k) {
    const int i = tid + k * 256;
    if (i < PATCH_H * PATCH_W) {
      __half2 lo = __floats2half2_rn(v[k][0], v[k][1]);
      __half2 hi = __floats2half2_rn(v[k][2], 0.0f);
      uint2 packed;
      packed.x = *reinterpret_cast<unsigned*>(&lo);
      packed.y = *reinterpret_cast<unsigned*>(&hi);
      *reinterpret_cast<uint2*>(s_x + i * 8) = packed;
    }
  }
  cp_async_wait_all();
  __syncthreads();

  float acc[2][8][4];
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 8; ++j)
#pragma unroll
      for (int k = 0; k < 4; ++k) acc[i][j][k] = 0.0f;
  unsigned a_base[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    int r = warp * 32 + i * 16 + (lane & 15);
    if (r > 254) r = 254;
    const int cy = r / CX, cx = r - cy * CX;
    a_base[i] = x_addr + (2 * cy * PATCH_W + 2 * cx) * 8 + (lane >> 4) * 16;
  }
  const unsigned b_base =
      w_addr + (((lane & 7) + ((lane >> 4) << 3)) * STEM_PITCH + ((lane >> 3) & 1) * 8) * 2;
#pragma unroll 2
  for (int s = 0; s < STEM_K / 16; ++s) {
    unsigned a[2][4];
#pragma unroll
    for (int i = 0; i < 2; ++i)
      ldmatrix4(a[i][0], a[i][1], a[i][2], a[i][3], a_base[i] + (s >> 1) * (PATCH_W * 8) + (s & 1) * 32);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      unsigned b0, b1, b2, b3;
      ldmatrix4(b0, b1, b2, b3, b_base + j * 16 * STEM_PITCH * 2 + s * 32);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        mma16816(acc[i][2 * j], a[i], b0, b1);
        mma16816(acc[i][2 * j + 1], a[i], b2, b3);
      }
    }
  }
  const int g = lane >> 2, t = lane & 3;
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int r = warp * 32 + i * 16 + h * 8 + g;
      const int cy = r / CX, cx = r - cy * CX;
      const int y = 2 * py0 - 1 + cy, xx = 2 * px0 - 1 + cx;
      const bool ok = y >= 0 && y < CONV && xx >= 0 && xx < CONV;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const int c = j * 8 + 2 * t;
        const float v0 = ok ? relu_nan(acc[i][j][2 * h] + __ldg(bias + c)) : 0.0f;
        const float v1 = ok ? relu_nan(acc[i][j][2 * h + 1] + __ldg(bias + c + 1)) : 0.0f;
        *reinterpret_cast<__half2*>(s_o + r * STEM_OUT_PITCH + c) = __floats2half2_rn(v0, v1);
      }
    }
  __syncthreads();
  for (int i = tid; i < TILE_Y * TILE_X * 8; i += 256) {
    const int c = (i & 7) * 8, p = i >> 3, py = p >> 3, px = p & 7;
    __half2 best[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) best[k] = __floats2half2_rn(0.0f, 0.0f);
#pragma unroll
    for (int dy = 0; dy < 3; ++dy)
#pragma unroll
      for (int dx = 0; dx < 3; ++dx) {
        const int r = (2 * py + dy) * CX + 2 * px + dx;
        uint4 q = *reinterpret_cast<const uint4*>(s_o + r * STEM_OUT_PITCH + c);
        const __half2* h = reinterpret_cast<const __half2*>(&q);
#pragma unroll
        for (int k = 0; k < 4; ++k) best[k] = __hmax2_nan(best[k], h[k]);
      }
    uint4 q;
    q.x = *reinterpret_cast<unsigned*>(&best[0]);
    q.y = *reinterpret_cast<unsigned*>(&best[1]);
    q.z = *reinterpret_cast<unsigned*>(&best[2]);
    q.w = *reinterpret_cast<unsigned*>(&best[3]);
    const size_t pixel = (static_cast<size_t>(b) * POOL + py0 + py) * POOL + px0 + px;
    *reinterpret_cast<uint4*>(out + pixel * 64 + c) = q;
  }
}

// ------------------------------------------------------------------ 3x3 convolutions
struct ConvArgs {
  const __half* in;
  const __half* w;
  const float* bias;
  const __half* res;  // identity shortcut or null
  const __half* px;   // input of the projected shortcut or null
  __half* out;
  int M, H, W, Hin, Win, Cin, Cout, Cp, stride, total, rows, chunks;
};
constexpr int CHUNK = 8192;       // bytes of one 64 x 64 weight tile
constexpr int RED_PITCH = 72;     // floats
constexpr int RED_BYTES = 64 * RED_PITCH * 4;

template <int SPLIT>
__global__ void __launch_bounds__(256, 2) conv_kernel(const ConvArgs p) {
  extern __shared__ __align__(1024) unsigned char conv_smem[];
  __shared__ __align__(8) unsigned long long bar;
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5, wg = warp >> 2, ww = warp & 3;
  const int rank = SPLIT > 1 ? static_cast<int>(blockIdx.x) : 0;
  const int n0 = blockIdx.y * 64, m0 = blockIdx.z * 64;
  const unsigned s_w = (smem_addr(conv_smem) + 1023u) & ~1023u;
  const unsigned s_a = s_w + p.chunks * CHUNK;
  const unsigned s_p = s_a + (p.rows + 1) * 128;
  const unsigned bar_addr = smem_addr(&bar);
  const bool proj = p.px != nullptr && rank < (p.Cp >> 6);

  // ---- prologue: independent of the predecessor
  if (tid == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar_addr) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    const int count = proj ? 10 : 9;
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar_addr), "r"(count * CHUNK)
                 : "memory");
    const unsigned char* from = reinterpret_cast<const unsigned char*>(p.w) +
                                static_cast<size_t>(blockIdx.y * SPLIT + rank) * p.chunks * CHUNK;
    for (int i = 0; i < count; ++i)
      asm volatile(
          "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
              s_w + i * CHUNK),
          "l"(from + i * CHUNK), "r"(CHUNK), "r"(bar_addr)
          : "memory");
  }
  const int area = p.H * p.W, sh = p.stride - 1;
  int lo, hi;
  {
    int b = m0 / area, r = m0 - b * area, oy = r / p.W, ox = r - oy * p.W;
    lo = max(0, (b * p.Hin + oy * p.stride) * p.Win + ox * p.stride - p.Win - 1);
    const int last = min(m0 + 63, p.M - 1);
    b = last / area, r = last - b * area, oy = r / p.W, ox = r - oy * p.W;
    hi = min(p.total - 1, (b * p.Hin + oy * p.stride) * p.Win + ox * p.stride + p.Win + 1);
  }
  int iy, ix, base;
  bool inside;
  {
    const int m = m0 + ww * 16 + (lane & 15);
    inside = m < p.M;
    const int mm = inside ? m : p.M - 1;
    const int b = mm / area, r = mm - b * area, oy = r / p.W, ox = r - oy * p.W;
    iy = oy * p.stride, ix = ox * p.stride;
    base = (b * p.Hin + iy) * p.Win + ix - lo;
  }
  int proj_pixel[2] = {-1, -1};
  if (proj) {
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const int m = m0 + (tid >> 3) + k * 32;
      if (m < p.M) {
        const int b = m / area, r = m - b * area, oy = r / p.W, ox = r - oy * p.W;
        proj_pixel[k] = (b * 2 * p.H + 2 * oy) * (2 * p.W) + 2 * ox;
      }
    }
  }
  if (tid < 8)
    asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(s_a + p.rows * 128 + tid * 16), "r"(0) : "memory");
  const int column = n0 + lane * 2;
  const float2 bias = *reinterpret_cast<const float2*>(p.bias + column);

  // ---- from here on activations are touched
  grid_wait();
  grid_launch();
  {
    const int items = (hi - lo + 1) * 8;
    const __half* from = p.in + static_cast<size_t>(lo) * p.Cin + rank * 64;
    for (int i = tid; i < items; i += 256) {
      const int r = i >> 3, c = i & 7;
      cp_async16(s_a + r * 128 + ((c ^ ((r >> sh) & 7)) << 4), from + static_cast<size_t>(r) * p.Cin + c * 8, 16);
    }
    if (proj) {
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const int r = (tid >> 3) + k * 32, c = tid & 7;
        const bool ok = proj_pixel[k] >= 0;
        const __half* src = p.px + static_cast<size_t>(ok ? proj_pixel[k] : 0) * p.Cp + rank * 64 + c * 8;
        cp_async16(s_p + r * 128 + ((c ^ (r & 7)) << 4), src, ok ? 16 : 0);
      }
    }
  }
  constexpr int ITEMS = 8 / SPLIT;
  unsigned res[ITEMS];
  const int row0 = rank * (64 / SPLIT) + warp;
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const int m = m0 + row0 + i * 8;
    res[i] = 0u;
    if (p.res != nullptr && m < p.M)
      res[i] = __ldcg(reinterpret_cast<const unsigned*>(p.res + static_cast<size_t>(m) * p.Cout + column));
  }
  cp_async_wait_all();
  __syncthreads();
  {
    unsigned done = 0;
    while (!done) {
      asm volatile(
          "{\n.reg .pred q;\n"
          "mbarrier.try_wait.parity.shared::cta.b64 q, [%1], %2;\n"
          "selp.u32 %0, 1, 0, q;\n}\n"
          : "=r"(done)
          : "r"(bar_addr), "r"(0)
          : "memory");
    }
  }

  float d[32];
#pragma unroll
  for (int i = 0; i < 32; ++i) d[i] = 0.0f;
  unsigned a[2][24];
  const int chunk0 = wg * 4 + (lane >> 4);
#pragma unroll
  for (int dy = 0; dy < 3; ++dy) {
    if (dy == 2) wgmma_wait<1>();
    const int y = iy + dy - 1;
    const bool oky = inside && y >= 0 && y < p.Hin;
#pragma unroll
    for (int dx = 0; dx < 3; ++dx) {
      const int xx = ix + dx - 1;
      const bool ok = oky && xx >= 0 && xx < p.Win;
      const int row = ok ? base + (dy - 1) * p.Win + dx - 1 : p.rows;
      const int sw = (row >> sh) & 7;
      const unsigned at = s_a + row * 128;
#pragma unroll
      for (int ks = 0; ks < 2; ++ks) {
        unsigned* f = a[dy & 1] + (dx * 2 + ks) * 4;
        ldmatrix4(f[0], f[1], f[2], f[3], at + (((chunk0 + ks * 2) ^ sw) << 4));
      }
    }
    wgmma_fence();
#pragma unroll
    for (int dx = 0; dx < 3; ++dx)
#pragma unroll
      for (int ks = 0; ks < 2; ++ks)
        wgmma64(d, a[dy & 1] + (dx * 2 + ks) * 4, b_descriptor(s_w + (dy * 3 + dx) * CHUNK + wg * 64 + ks * 32));
    wgmma_commit();
  }
  wgmma_wait<0>();
  if (proj) {
    unsigned f[8];
    const int row = ww * 16 + (lane & 15);
#pragma unroll
    for (int ks = 0; ks < 2; ++ks)
      ldmatrix4(f[ks * 4], f[ks * 4 + 1], f[ks * 4 + 2], f[ks * 4 + 3],
                s_p + row * 128 + (((chunk0 + ks * 2) ^ (row & 7)) << 4));
#pragma unroll
    for (int i = 0; i < 32; ++i) asm volatile("" : "+f"(d[i])::"memory");
    wgmma_fence();
#pragma unroll
    for (int ks = 0; ks < 2; ++ks) wgmma64(d, f + ks * 4, b_descriptor(s_w + 9 * CHUNK + wg * 64 + ks * 32));
    wgmma_commit();
    wgmma_wait<0>();
  }
#pragma unroll
  for (int i = 0; i < 32; ++i) asm volatile("" : "+f"(d[i])::"memory");

  // ---- sum of the two warp groups and of the cluster's channel slices; the weights' space is reused
  __syncthreads();
  {
    const int g = lane >> 2, t = lane & 3;
    const unsigned to = s_w + wg * RED_BYTES + ((ww * 16 + g) * RED_PITCH + 2 * t) * 4;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to + j * 32), "f"(d[4 * j]), "f"(d[4 * j + 1])
                   : "memory");
      asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to + 8 * RED_PITCH * 4 + j * 32), "f"(d[4 * j + 2]),
                   "f"(d[4 * j + 3])
                   : "memory");
    }
  }
  if (SPLIT > 1)
    cluster_sync();
  else
    __syncthreads();
  float sum0[ITEMS], sum1[ITEMS];
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) sum0[i] = bias.x, sum1[i] = bias.y;
  const unsigned mine = s_w + (row0 * RED_PITCH + lane * 2) * 4;
#pragma unroll
  for (int q = 0; q < SPLIT; ++q) {
    unsigned from = mine;
    if (SPLIT > 1) {
      const int other = (q + rank) & (SPLIT - 1);
      asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(from) : "r"(mine), "r"(other));
    }
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
      for (int i = 0; i < ITEMS; ++i) {
        float u, v;
        const unsigned at = from + h * RED_BYTES + i * 8 * RED_PITCH * 4;
        if (SPLIT > 1)
          asm volatile("ld.shared::cluster.v2.f32 {%0, %1}, [%2];" : "=f"(u), "=f"(v) : "r"(at) : "memory");
        else
          asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(u), "=f"(v) : "r"(at) : "memory");
        sum0[i] += u;
        sum1[i] += v;
      }
  }
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const int m = m0 + row0 + i * 8;
    if (m < p.M) {
      const float2 r = __half22float2(*reinterpret_cast<__half2*>(&res[i]));
      const __half2 value = __floats2half2_rn(relu_nan(sum0[i] + r.x), relu_nan(sum1[i] + r.y));
      *reinterpret_cast<__half2*>(p.out + static_cast<size_t>(m) * p.Cout + column) = value;
    }
  }
  if (SPLIT > 1) cluster_sync();
}

// ------------------------------------------------------------------ average pooling and classifier, 512 features
__global__ void __launch_bounds__(256) head_kernel(const __half* x, const float* w, const float* bias, float* out,
                                                   int pixels, int classes) {
  __shared__ float parts[4][512];
  __shared__ __align__(16) float mean[512];
  const int lane = threadIdx.x, warp = threadIdx.y, tid = warp * 32 + lane;
  const int c = blockIdx.x * 8 + warp, b = blockIdx.y;
  float4 weight[4];
  float offset = 0.0f;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    weight[j] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (c < classes)
      weight[j] = *reinterpret_cast<const float4*>(w + static_cast<size_t>(c) * 512 + j * 128 + lane * 4);
  }
  if (c < classes) offset = bias[c];
  grid_wait();
  const int cg = tid & 63, pg = tid >> 6;
  float s[8];
#pragma unroll
  for (int k = 0; k < 8; ++k) s[k] = 0.0f;
  const __half* from = x + static_cast<size_t>(b) * pixels * 512 + cg * 8;
#pragma unroll 13
  for (int p = pg; p < pixels; p += 4) {
    uint4 q = __ldcg(reinterpret_cast<const uint4*>(from + static_cast<size_t>(p) * 512));
    const __half2* h = reinterpret_cast<const __half2*>(&q);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float2 f = __half22float2(h[k]);
      s[2 * k] += f.x;
      s[2 * k + 1] += f.y;
    }
  }
#pragma unroll
  for (int k = 0; k < 8; ++k) parts[pg][cg * 8 + k] = s[k];
  __syncthreads();
  for (int i = tid; i < 512; i += 256)
    mean[i] = (parts[0][i] + parts[1][i] + parts[2][i] + parts[3][i]) / static_cast<float>(pixels);
  __syncthreads();
  float total = 0.0f;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float4 f = *reinterpret_cast<const float4*>(mean + j * 128 + lane * 4);
    total += f.x * weight[j].x + f.y * weight[j].y + f.z * weight[j].z + f.w * weight[j].w;
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) total += __shfl_xor_sync(0xffffffffu, total, step);
  if (lane == 0 && c < classes) out[static_cast<size_t>(b) * classes + c] = total + offset;
}

// ------------------------------------------------------------------ host
struct Plan {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  cudaGraphNode_t stem_node = nullptr, head_node = nullptr;
  cudaKernelNodeParams stem_params{}, head_params{};
  const float* x = nullptr;
  float* out = nullptr;
  const __half* stem_w = nullptr;
  const float* stem_b = nullptr;
  __half* stem_out = nullptr;
  const __half* head_in = nullptr;
  const float* head_w = nullptr;
  const float* head_b = nullptr;
  int pixels = 49, classes = 0;
  int64_t batch = 0;
  std::vector<torch::Tensor> kept;
};
static std::vector<Plan*> plans;

template <int SPLIT>
static void launch_conv(const ConvArgs& args, int smem, int tiles, cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(SPLIT, args.Cout / 64, tiles);
  config.blockDim = dim3(256, 1, 1);
  config.dynamicSmemBytes = smem;
  config.stream = stream;
  cudaLaunchAttribute attributes[2];
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = SPLIT;
  attributes[1].val.clusterDim.y = 1;
  attributes[1].val.clusterDim.z = 1;
  config.attrs = attributes;
  config.numAttrs = SPLIT > 1 ? 2 : 1;
  C10_CUDA_CHECK(cudaLaunchKernelEx(&config, conv_kernel<SPLIT>, args));
}

int64_t build_plan(torch::Tensor x, int64_t classes, std::vector<torch::Tensor> weights,
                   std::vector<torch::Tensor> biases, std::vector<torch::Tensor> buffers,
                   std::vector<std::vector<int64_t>> layers) {
  const int batch = static_cast<int>(x.size(0));
  auto output = torch::empty({batch, classes}, x.options());
  Plan* plan = new Plan();
  plan->batch = batch;
  plan->classes = static_cast<int>(classes);
  for (auto& t : weights) plan->kept.push_back(t);
  for (auto& t : biases) plan->kept.push_back(t);
  for (auto& t : buffers) plan->kept.push_back(t);
  auto half_of = [](const torch::Tensor& t) { return reinterpret_cast<__half*>(t.data_ptr()); };
  plan->x = x.data_ptr<float>();
  plan->out = output.data_ptr<float>();
  plan->stem_w = half_of(weights.front());
  plan->stem_b = biases.front().data_ptr<float>();
  plan->stem_out = half_of(buffers.front());
  plan->head_in = half_of(buffers.back());
  plan->head_w = weights.back().data_ptr<float>();
  plan->head_b = biases.back().data_ptr<float>();

  const int most = 200 * 1024;
  C10_CUDA_CHECK(cudaFuncSetAttribute(stem_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, STEM_SMEM));
  C10_CUDA_CHECK(cudaFuncSetAttribute(conv_kernel<1>, cudaFuncAttributeMaxDynamicSharedMemorySize, most));
  C10_CUDA_CHECK(cudaFuncSetAttribute(conv_kernel<2>, cudaFuncAttributeMaxDynamicSharedMemorySize, most));
  C10_CUDA_CHECK(cudaFuncSetAttribute(conv_kernel<4>, cudaFuncAttributeMaxDynamicSharedMemorySize, most));
  C10_CUDA_CHECK(cudaFuncSetAttribute(conv_kernel<8>, cudaFuncAttributeMaxDynamicSharedMemorySize, most));

  cudaStream_t stream;
  C10_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  C10_CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  stem_kernel<<<dim3(POOL / TILE_X, POOL / TILE_Y, batch), dim3(64, 4, 1), STEM_SMEM, stream>>>(
      plan->x, plan->stem_w, plan->stem_b, plan->stem_out);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  for (size_t i = 0; i < layers.size(); ++i) {
    // in, res, px, out (buffers, -1: none), H, W, Hin, Win, Cin, Cout, Cp, stride
    const auto& l = layers[i];
    ConvArgs args{};
    args.in = half_of(buffers[l[0]]);
    args.res = l[1] >= 0 ? half_of(buffers[l[1]]) : nullptr;
    args.px = l[2] >= 0 ? half_of(buffers[l[2]]) : nullptr;
    args.out = half_of(buffers[l[3]]);
    args.w = half_of(weights[i + 1]);
    args.bias = biases[i + 1].data_ptr<float>();
    args.H = static_cast<int>(l[4]), args.W = static_cast<int>(l[5]);
    args.Hin = static_cast<int>(l[6]), args.Win = static_cast<int>(l[7]);
    args.Cin = static_cast<int>(l[8]), args.Cout = static_cast<int>(l[9]);
    args.Cp = static_cast<int>(l[10]), args.stride = static_cast<int>(l[11]);
    args.M = batch * args.H * args.W;
    args.total = batch * args.Hin * args.Win;
    args.chunks = args.px != nullptr ? 10 : 9;
    const int tiles = (args.M + 63) / 64;
    auto flat = [&](int m) {
      const int b = m / (args.H * args.W), r = m % (args.H * args.W);
      return (b * args.Hin + (r / args.W) * args.stride) * args.Win + (r % args.W) * args.stride;
    };
    int rows = 0;
    for (int t = 0; t < tiles; ++t) {
      const int lo = std::max(0, flat(t * 64) - args.Win - 1);
      const int hi = std::min(args.total - 1, flat(std::min(t * 64 + 63, args.M - 1)) + args.Win + 1);
      rows = std::max(rows, hi - lo + 1);
    }
    args.rows = rows;
    const int smem = 1024 + args.chunks * CHUNK + (rows + 1) * 128 + (args.px != nullptr ? CHUNK : 0);
    TORCH_CHECK(smem <= most, "too much shared memory");
    switch (args.Cin / 64) {
      case 1: launch_conv<1>(args, smem, tiles, stream); break;
      case 2: launch_conv<2>(args, smem, tiles, stream); break;
      case 4: launch_conv<4>(args, smem, tiles, stream); break;
      case 8: launch_conv<8>(args, smem, tiles, stream); break;
      default: TORCH_CHECK(false, "unexpected number of channels");
    }
  }
  {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3((plan->classes + 7) / 8, batch, 1);
    config.blockDim = dim3(32, 8, 1);
    config.dynamicSmemBytes = 0;
    config.stream = stream;
    cudaLaunchAttribute attribute[1];
    attribute[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute[0].val.programmaticStreamSerializationAllowed = 1;
    config.attrs = attribute;
    config.numAttrs = 1;
    C10_CUDA_CHECK(cudaLaunchKernelEx(&config, head_kernel, plan->head_in, plan->head_w, plan->head_b, plan->out,
                                      plan->pixels, plan->classes));
  }
  C10_CUDA_CHECK(cudaStreamEndCapture(stream, &plan->graph));
  C10_CUDA_CHECK(cudaStreamDestroy(stream));
  size_t count = 0;
  C10_CUDA_CHECK(cudaGraphGetNodes(plan->graph, nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  C10_CUDA_CHECK(cudaGraphGetNodes(plan->graph, nodes.data(), &count));
  for (auto node : nodes) {
    cudaGraphNodeType type;
    C10_CUDA_CHECK(cudaGraphNodeGetType(node, &type));
    if (type != cudaGraphNodeTypeKernel) continue;
    cudaKernelNodeParams params{};
    C10_CUDA_CHECK(cudaGraphKernelNodeGetParams(node, &params));
    if (params.blockDim.y == 4) {  // only the stem's blocks are 64 x 4
      plan->stem_node = node;
      plan->stem_params = params;
      plan->stem_params.func = reinterpret_cast<void*>(stem_kernel);
    } else if (params.blockDim.y == 8) {  // only the head's blocks are 32 x 8
      plan->head_node = node;
      plan->head_params = params;
      plan->head_params.func = reinterpret_cast<void*>(head_kernel);
    }
  }
  TORCH_CHECK(plan->stem_node != nullptr && plan->head_node != nullptr, "graph nodes not found");
  C10_CUDA_CHECK(cudaGraphInstantiate(&plan->exec, plan->graph, 0));
  plans.push_back(plan);
  return static_cast<int64_t>(plans.size()) - 1;
}

torch::Tensor run_plan(int64_t handle, torch::Tensor x) {
  Plan* plan = plans.at(handle);
  TORCH_CHECK(x.size(0) == plan->batch, "another batch size");
  auto output = torch::empty({plan->batch, plan->classes}, x.options());
  const float* from = x.data_ptr<float>();
  float* to = output.data_ptr<float>();
  if (from != plan->x) {
    void* args[] = {&from, &plan->stem_w, &plan->stem_b, &plan->stem_out};
    plan->stem_params.kernelParams = args;
    plan->stem_params.extra = nullptr;
    C10_CUDA_CHECK(cudaGraphExecKernelNodeSetParams(plan->exec, plan->stem_node, &plan->stem_params));
    plan->x = from;
  }
  if (to != plan->out) {
    void* args[] = {&plan->head_in, &plan->head_w, &plan->head_b, &to, &plan->pixels, &plan->classes};
    plan->head_params.kernelParams = args;
    plan->head_params.extra = nullptr;
    C10_CUDA_CHECK(cudaGraphExecKernelNodeSetParams(plan->exec, plan->head_node, &plan->head_params));
    plan->out = to;
  }
  C10_CUDA_CHECK(cudaGraphLaunch(plan->exec, at::cuda::getCurrentCUDAStream()));
  return output;
}
"""

extension = load_inline(
    name="resnet18_pdl_chain",
    cpp_sources=[DECLARATION],
    cuda_sources=[SOURCE],
    functions=["build_plan", "run_plan"],
    extra_cuda_cflags=["-O3", "-gencode=arch=compute_90a,code=sm_90a"],
)

FAST_WIDTHS = (64, 128, 256, 512)
MOST_IMAGES = 64


def fold(conv, norm):
    """Weights and bias, in float64, of a convolution followed by a batch norm in eval mode."""
    scale = norm.weight.double() / torch.sqrt(norm.running_var.double() + norm.eps)
    weight = conv.weight.double() * scale[:, None, None, None]
    return weight, norm.bias.double() - norm.running_mean.double() * scale


def pack_stem(weight):
    """(64, 3, 7, 7) to (64, 232): k = ky * 32 + kx * 4 + channel, padded with zeros."""
    padded = torch.zeros(64, 7, 8, 4, dtype=weight.dtype, device=weight.device)
    padded[:, :, :7, :3] = weight.permute(0, 2, 3, 1)
    out = torch.zeros(64, 232, dtype=weight.dtype, device=weight.device)
    out[:, :224] = padded.reshape(64, 224)
    return out.half().contiguous()


def pack_conv(weight, projection):
    """Tiles [64 outputs][64 inputs] in the order (output tile, input slice, tap), 128-byte swizzled."""
    outputs, inputs = weight.shape[:2]
    tiles = weight.reshape(outputs // 64, 64, inputs // 64, 64, 9).permute(0, 2, 4, 1, 3)
    if projection is not None:
        width = projection.shape[1]
        extra = torch.zeros(outputs // 64, inputs // 64, 1, 64, 64, dtype=weight.dtype, device=weight.device)
        extra[:, : width // 64, 0] = projection.reshape(outputs // 64, 64, width // 64, 64).permute(0, 2, 1, 3)
        tiles = torch.cat([tiles, extra], 2)
    tiles = tiles.half().contiguous()
    shape = tiles.shape
    rows = torch.arange(64, device=weight.device)[:, None]
    chunks = torch.arange(8, device=weight.device)[None, :] ^ (rows & 7)
    pieces = tiles.reshape(-1, 64, 8, 8)
    return pieces[:, rows, chunks, :].reshape(shape).contiguous()


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions with batch norms, and a shortcut that is projected where the shape changes."""

    def __init__(self, channels_in, channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.shortcut = nn.Identity()
        if stride != 1 or channels_in != channels:
            projection = nn.Conv2d(channels_in, channels, 1, stride, bias=False)
            self.shortcut = nn.Sequential(projection, nn.BatchNorm2d(channels))

    def forward(self, x):
        """(batch, channels_in, h, w) to (batch, channels, h / stride, w / stride), rounded up."""
        y = torch.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return torch.relu(y + self.shortcut(x))


class ModelNew(nn.Module):
    """ResNet-18 on images: one CUDA graph where the fast path allows it, plain PyTorch elsewhere."""

    def __init__(self, classes, widths):
        super().__init__()
        self.widths = tuple(widths)
        self.classes = classes
        self.conv1 = nn.Conv2d(3, widths[0], 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        self.pool = nn.MaxPool2d(3, 2, 1)
        blocks = []
        channels_in = widths[0]
        for stage, channels in enumerate(widths):
            blocks.append(BasicBlock(channels_in, channels, stride=1 if stage == 0 else 2))
            blocks.append(BasicBlock(channels, channels, stride=1))
            channels_in = channels
        self.blocks = nn.Sequential(*blocks)
        self.classifier = nn.Linear(channels_in, classes)
        self.forget()

    def forget(self):
        """Drop whatever was prepared from the weights."""
        self.packed = None
        self.handles = {}

    def _apply(self, *args, **kwargs):
        result = super()._apply(*args, **kwargs)
        self.forget()
        return result

    def load_state_dict(self, *args, **kwargs):
        """Load weights as `nn.Module` does, then drop whatever was prepared from the old ones."""
        result = super().load_state_dict(*args, **kwargs)
        self.forget()
        return result

    @torch.no_grad()
    def pack(self):
        """Fold the batch norms, convert to FP16 and lay out for the kernels; once."""
        weight, bias = fold(self.conv1, self.bn1)
        weights, biases = [pack_stem(weight)], [bias.float().contiguous()]
        for block in self.blocks:
            weight, bias = fold(block.conv1, block.bn1)
            weights.append(pack_conv(weight, None))
            biases.append(bias.float().contiguous())
            weight, bias = fold(block.conv2, block.bn2)
            projection = None
            if not isinstance(block.shortcut, nn.Identity):
                projection, more = fold(block.shortcut[0], block.shortcut[1])
                projection = projection[:, :, 0, 0]
                bias = bias + more
            weights.append(pack_conv(weight, projection))
            biases.append(bias.float().contiguous())
        weights.append(self.classifier.weight.detach().float().clone().contiguous())
        biases.append(self.classifier.bias.detach().float().clone().contiguous())
        self.packed = (weights, biases)

    def prepare(self, x):
        """Activation buffers and the graph for this number of images."""
        if self.packed is None:
            self.pack()
        weights, biases = self.packed
        batch = x.shape[0]

        def buffer(side, channels):
            return torch.empty(batch, side, side, channels, dtype=torch.float16, device=x.device)

        side, channels_in = 56, self.widths[0]
        buffers = [buffer(side, channels_in)]
        layers = []
        for block in self.blocks:
            channels = block.conv1.out_channels
            stride = block.conv1.stride[0]
            half = side // stride
            given = len(buffers) - 1
            projected = not isinstance(block.shortcut, nn.Identity)
            buffers.append(buffer(half, channels))
            layers.append([given, -1, -1, given + 1, half, half, side, side, channels_in, channels, 0, stride])
            buffers.append(buffer(half, channels))
            layers.append(
                [
                    given + 1,
                    -1 if projected else given,
                    given if projected else -1,
                    given + 2,
                    half,
                    half,
                    half,
                    half,
                    channels,
                    channels,
                    channels_in if projected else 0,
                    1,
                ]
            )
            side, channels_in = half, channels
        torch.cuda.current_stream().synchronize()
        return extension.build_plan(x, self.classes, weights, biases, buffers, layers)

    def plain(self, x):
        """(batch, 3, h, w) images to (batch, classes) scores, in plain PyTorch."""
        x = self.pool(torch.relu(self.bn1(self.conv1(x))))
        x = self.blocks(x)
        return self.classifier(x.mean((2, 3)))

    def forward(self, x):
        """(batch, 3, 224, 224) images to (batch, classes) scores; other sizes run as plain PyTorch."""
        if (
            self.training
            or not x.is_cuda
            or x.dtype != torch.float32
            or tuple(x.shape[1:]) != (3, 224, 224)
            or not 1 <= x.shape[0] <= MOST_IMAGES
            or self.widths != FAST_WIDTHS
        ):
            return self.plain(x)
        x = x.contiguous()
        handle = self.handles.get(x.shape[0])
        if handle is None:
            handle = self.prepare(x)
            self.handles[x.shape[0]] = handle
        return extension.run_plan(handle, x)
