"""DenseNet-201 without concatenations: one `wgmma` kernel per dense layer, on one buffer per block.

What it does: the network of `level3-pike/16` on images of 3 x 224 x 224, any number up to 2674, in inference.
A CUDA graph replays all but the first and the last kernel. There is one graph for each number of images.

What made it fast: a block's maps share one 16-bit buffer in NHWC, and a layer writes its 32 channels behind
the others, so nothing is concatenated. The layer's kernel applies batch norm and ReLU while it loads a tile,
so the normalised maps are never written. Tensor cores (`wgmma`) read the nine taps as nine offsets into that
one tile. On small maps the blocks of a cluster share out the sum over channels. Layers overlap: a kernel
starts early (programmatic dependent launch), works on old channels, and waits for new ones by a counter per
layer and image.

Accuracy: maps, convolution weights and the factors of products have 16 bits. Sums in the dense layers, batch
norms after the stem and the whole head have 32 bits. The stem's batch norm is folded into its 16-bit weights.
Its convolution is cuDNN's and a transition's product is `torch.mm`'s, both with results of 16 bits. Batch
norms are folded to scale and shift in 64 bits.

Limits: growth of 32, stem of 64 channels, four blocks, made for 6, 12, 48 and 32 layers, images of 224 x 224
in float32, compute capability 9.0 (Hopper), and the model's GPU must be the current one. Sizes of images are
not checked. Weights are taken over at the first call. Later changes are not seen, except in the classifier,
which may be read in place. Two calls at once with the same number of images can give wrong results or hang.

Author: a coding agent, in a search by the strategy pike-x (result.json says which).
Licence: Apache-2.0.
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.cpp_extension import load_inline

DECLARATION = """
void prep(torch::Tensor x, torch::Tensor s, torch::Tensor cnt);
void stem_pool(torch::Tensor y, torch::Tensor bias, torch::Tensor buf);
void dense_layer(torch::Tensor buf, torch::Tensor w, torch::Tensor bn, torch::Tensor cnt, int64_t first, int64_t layer,
                 int64_t base);
void bn_pool(torch::Tensor buf, torch::Tensor bn, torch::Tensor out);
void final_pool(torch::Tensor buf, torch::Tensor bn, torch::Tensor out);
torch::Tensor head(torch::Tensor pooled, torch::Tensor w, torch::Tensor b);
"""

SOURCE = r"""
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>

__device__ __forceinline__ uint32_t smem_addr(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
__device__ __forceinline__ unsigned ld_acquire(const unsigned* p) {
  unsigned v;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
__device__ __forceinline__ void red_release(unsigned* p) {
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(p) : "memory");
}
__device__ __forceinline__ void cp16(uint32_t dst, const void* src) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(dst), "l"(src) : "memory");
}
__device__ __forceinline__ uint64_t make_desc(uint32_t addr, uint32_t lbo, uint32_t sbo) {
  return static_cast<uint64_t>((addr >> 4) & 0x3FFF) | (static_cast<uint64_t>((lbo >> 4) & 0x3FFF) << 16) |
         (static_cast<uint64_t>((sbo >> 4) & 0x3FFF) << 32);
}
__device__ __forceinline__ void wgmma32(float (&d)[16], uint64_t a, uint64_t b) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %18, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, %16, %17, p, 1, 1, 0, 0;\n}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
        "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
      : "l"(a), "l"(b), "r"(1));
}
__device__ __forceinline__ unsigned as_u(__half2 h) { return *reinterpret_cast<unsigned*>(&h); }
__device__ __forceinline__ __half2 as_h2(unsigned u) { return *reinterpret_cast<__half2*>(&u); }
__device__ __forceinline__ float relu_nan(float v) { return v < 0.0f ? 0.0f : v; }
__device__ __forceinline__ unsigned bn_relu2(unsigned u, float s0, float s1, float t0, float t1) {
  const float2 v = __half22float2(as_h2(u));
  return as_u(__floats2half2_rn(relu_nan(fmaf(v.x, s0, t0)), relu_nan(fmaf(v.y, s1, t1))));
}

constexpr int WBYTES = 9 * 32 * 32 * 2;
constexpr int RS = 40;  // floats of a row of partial sums

template <int W, int R, int NM, int S, int NPIX>
struct Shape {
  static constexpr int ABYTES = 4 * NPIX * 16;
  static constexpr int KSPL = NM == 1 ? 2 : 1;
  static constexpr int RPR = NM * 64 / S;
  static constexpr int RED = S == 1 ? 0 : S * KSPL * RPR * RS * 4;
  static constexpr int SMEM = 2 * ABYTES + 3 * WBYTES + RED;
};

template <int W, int R, int NM, int S, int NPIX>
__global__ void __launch_bounds__(256, 2)
dense_kernel(__half* buf, const __half* __restrict__ wpk, const float* __restrict__ bn, unsigned* cnt, int layer,
             int batch, int ctot, int base) {
  using T = Shape<W, R, NM, S, NPIX>;
  constexpr int H = W, WP = W + 1, TPI = H / R, PLANE = NPIX * 16, ABYTES = T::ABYTES, KSPL = T::KSPL;
  constexpr int MT = NM == 4 ? 2 : 1, RPR = T::RPR, SLOTS = S * KSPL;
  constexpr int ITEMS = (R + 2) * W * 4, NI = (ITEMS + 255) / 256;
  static_assert(NPIX >= NM * 64 + 2 * WP + 2, "halo");
  static_assert(R * WP <= NM * 64, "tile");
  extern __shared__ __align__(128) unsigned char smem[];

  const int tid = threadIdx.x, wg = tid >> 7, g = tid & 3;
  const int rank = S == 1 ? 0 : blockIdx.x, tile = blockIdx.y;
  const int img = tile / TPI, row0 = (tile % TPI) * R;
  const int nch = base + layer, channels = nch * 32;
  const int n = (nch - rank + S - 1) / S;
  const unsigned target = TPI * S;
  const uint32_t a_base = smem_addr(smem), w_base = a_base + 2 * ABYTES;
  constexpr int RED_OFF = S == 1 ? 0 : 2 * ABYTES + 3 * WBYTES;

  if constexpr (S > 1) asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");

  auto load_w = [&](int i) {
    if (i < n) {
      const char* src = reinterpret_cast<const char*>(wpk) + static_cast<size_t>(rank + i * S) * WBYTES;
      const uint32_t dst = w_base + (i % 3) * WBYTES;
      for (int k = tid; k < WBYTES / 16; k += 256) cp16(dst + k * 16, src + k * 16);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  load_w(0);
  load_w(1);

  for (int k = tid; k < 2 * ABYTES / 16; k += 256) reinterpret_cast<uint4*>(smem)[k] = make_uint4(0, 0, 0, 0);

  int goff[NI], soff[NI];
#pragma unroll
  for (int k = 0; k < NI; ++k) {
    const int item = tid + k * 256, pix = item >> 2, r = pix / W, c = pix % W, y = row0 + r - 1;
    const bool ok = item < ITEMS && y >= 0 && y < H;
    goff[k] = ok ? ((img * H + y) * W + c) * ctot + g * 8 : -1;
    soff[k] = (r * WP + c + 1) * 16 + g * PLANE;
  }

  auto gate = [&](int j) {
    if (tid == 0) {
      const unsigned* p = cnt + j * batch + img;
      while (ld_acquire(p) < target) {
      }
    }
    __syncthreads();
  };
  auto gated = [&](int i) {
    const int j = rank + i * S - base;
    return j >= 0 && j >= layer - 2;
  };

  uint4 regs[NI];
  float sc[8], sh[8];
  auto load_a = [&](int i) {
    const int ch = rank + i * S;
#pragma unroll
    for (int k = 0; k < NI; ++k)
      if (goff[k] >= 0) regs[k] = __ldcg(reinterpret_cast<const uint4*>(buf + goff[k] + ch * 32));
    const float4* s4 = reinterpret_cast<const float4*>(bn + ch * 32 + g * 8);
    const float4* t4 = reinterpret_cast<const float4*>(bn + channels + ch * 32 + g * 8);
    const float4 s0 = __ldg(s4), s1 = __ldg(s4 + 1), t0 = __ldg(t4), t1 = __ldg(t4 + 1);
    sc[0] = s0.x; sc[1] = s0.y; sc[2] = s0.z; sc[3] = s0.w;
    sc[4] = s1.x; sc[5] = s1.y; sc[6] = s1.z; sc[7] = s1.w;
    sh[0] = t0.x; sh[1] = t0.y; sh[2] = t0.z; sh[3] = t0.w;
    sh[4] = t1.x; sh[5] = t1.y; sh[6] = t1.z; sh[7] = t1.w;
  };
  auto transform = [&](int i) {
    unsigned char* to = smem + (i & 1) * ABYTES;
#pragma unroll
    for (int k = 0; k < NI; ++k)
      if (goff[k] >= 0) {
        uint4 v = regs[k];
        v.x = bn_relu2(v.x, sc[0], sc[1], sh[0], sh[1]);
        v.y = bn_relu2(v.y, sc[2], sc[3], sh[2], sh[3]);
        v.z = bn_relu2(v.z, sc[4], sc[5], sh[4], sh[5]);
        v.w = bn_relu2(v.w, sc[6], sc[7], sh[6], sh[7]);
        *reinterpret_cast<uint4*>(to + soff[k]) = v;
      }
  };

#pragma unroll
  for (int k = 0; k < NI; ++k) regs[k] = make_uint4(0, 0, 0, 0);

  // everything three or more layers old is finished for this image; the next layer may be started
  if (layer >= 3) gate(layer - 3);
  else __syncthreads();
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");

  if (gated(0)) gate(rank - base);
  load_a(0);
  transform(0);
  bool ready = false;
  if (n > 1 && !gated(1)) {
    load_a(1);
    ready = true;
  }

  float acc[MT][16];
#pragma unroll
  for (int m = 0; m < MT; ++m)
#pragma unroll
    for (int k = 0; k < 16; ++k) acc[m][k] = 0.0f;

  const int m_first = NM == 1 ? 0 : wg * MT;
  for (int i = 0; i < n; ++i) {
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    const uint64_t da = make_desc(a_base + (i & 1) * ABYTES + m_first * 64 * 16, PLANE, 128);
    const uint64_t db = make_desc(w_base + (i % 3) * WBYTES, 512, 128);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    if constexpr (NM == 1) {
      const uint64_t da1 = da + ((wg * 2 * PLANE) >> 4), db1 = db + ((wg * 1024) >> 4);
#pragma unroll
      for (int tap = 0; tap < 9; ++tap)
        wgmma32(acc[0], da1 + (tap / 3) * WP + tap % 3, db1 + ((tap * 2048) >> 4));
    } else {
#pragma unroll
      for (int tap = 0; tap < 9; ++tap)
#pragma unroll
        for (int kk = 0; kk < 2; ++kk)
#pragma unroll
          for (int m = 0; m < MT; ++m)
            wgmma32(acc[m], da + ((kk * 2 * PLANE) >> 4) + m * 64 + (tap / 3) * WP + tap % 3,
                    db + ((tap * 2048 + kk * 1024) >> 4));
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    load_w(i + 2);
    if (i + 1 < n) {
      if (!ready) {
        if (gated(i + 1)) gate(rank + (i + 1) * S - base);
        load_a(i + 1);
      }
      transform(i + 1);
      ready = false;
      if (i + 2 < n && !gated(i + 2)) {
        load_a(i + 2);
        ready = true;
      }
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
#pragma unroll
  for (int m = 0; m < MT; ++m)
#pragma unroll
    for (int k = 0; k < 16; ++k) asm volatile("" : "+f"(acc[m][k])::"memory");

  // partial sums go to the block of the cluster that owns the row
  if constexpr (S > 1) asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
  else __syncthreads();
  {
    const int lane = tid & 31, warp4 = (tid >> 5) & 3;
    const int slot = rank * KSPL + (KSPL == 2 ? wg : 0);
#pragma unroll
    for (int m = 0; m < MT; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = (m_first + m) * 64 + warp4 * 16 + (lane >> 2) + half * 8;
        const int owner = row / RPR, lr = row % RPR;
        uint32_t addr = a_base + RED_OFF + ((slot * RPR + lr) * RS + (lane & 3) * 2) * 4;
        if constexpr (S > 1) {
          uint32_t remote;
          asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(addr), "r"(owner));
#pragma unroll
          for (int nt = 0; nt < 4; ++nt)
            asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};" ::"r"(remote + nt * 32),
                         "f"(acc[m][nt * 4 + half * 2]), "f"(acc[m][nt * 4 + half * 2 + 1])
                         : "memory");
        } else {
#pragma unroll
          for (int nt = 0; nt < 4; ++nt)
            asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(addr + nt * 32),
                         "f"(acc[m][nt * 4 + half * 2]), "f"(acc[m][nt * 4 + half * 2 + 1])
                         : "memory");
        }
      }
  }
  if constexpr (S > 1) {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
  } else {
    __syncthreads();
  }
  const float* red = reinterpret_cast<const float*>(smem + RED_OFF);
  for (int it = tid; it < RPR * 8; it += 256) {
    const int lr = it >> 3, q = it & 7, row = rank * RPR + lr, r = row / WP, c = row % WP;
    if (r < R && c < W) {
      float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
#pragma unroll
      for (int s = 0; s < SLOTS; ++s) {
        const float4 v = *reinterpret_cast<const float4*>(red + (s * RPR + lr) * RS + q * 4);
        sum.x += v.x; sum.y += v.y; sum.z += v.z; sum.w += v.w;
      }
      uint2 o;
      o.x = as_u(__floats2half2_rn(sum.x, sum.y));
      o.y = as_u(__floats2half2_rn(sum.z, sum.w));
      *reinterpret_cast<uint2*>(buf + static_cast<size_t>((img * H + row0 + r) * W + c) * ctot + channels + q * 4) = o;
    }
  }
  __syncthreads();
  if (tid == 0) {
    __threadfence();
    red_release(cnt + layer * batch + img);
  }
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

template <int W, int R, int NM, int S, int NPIX>
void launch(__half* buf, const __half* w, const float* bn, unsigned* cnt, int layer, int batch, int ctot, int base) {
  using T = Shape<W, R, NM, S, NPIX>;
  auto kernel = dense_kernel<W, R, NM, S, NPIX>;
  C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, T::SMEM));
  cudaLaunchConfig_t cfg = {};
  cfg.gridDim = dim3(S, batch * (W / R), 1);
  cfg.blockDim = dim3(256, 1, 1);
  cfg.dynamicSmemBytes = T::SMEM;
  cfg.stream = at::cuda::getCurrentCUDAStream();
  cudaLaunchAttribute attr[2];
  int count = 0;
  if (S > 1) {
    attr[count].id = cudaLaunchAttributeClusterDimension;
    attr[count].val.clusterDim.x = S;
    attr[count].val.clusterDim.y = 1;
    attr[count].val.clusterDim.z = 1;
    ++count;
  }
  if (layer > 0) {
    attr[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attr[count].val.programmaticStreamSerializationAllowed = 1;
    ++count;
  }
  cfg.attrs = attr;
  cfg.numAttrs = count;
  C10_CUDA_CHECK(cudaLaunchKernelEx(&cfg, kernel, buf, w, bn, cnt, layer, batch, ctot, base));
}

void dense_layer(torch::Tensor buf, torch::Tensor w, torch::Tensor bn, torch::Tensor cnt, int64_t first, int64_t layer,
                 int64_t base) {
  const int batch = buf.size(0), width = buf.size(2), ctot = buf.size(3);
  __half* b = reinterpret_cast<__half*>(buf.data_ptr());
  const __half* wp = reinterpret_cast<const __half*>(w.data_ptr());
  const float* bp = bn.data_ptr<float>();
  unsigned* c = reinterpret_cast<unsigned*>(cnt.data_ptr<int>()) + first * batch;
  if (width == 56) launch<56, 4, 4, 1, 378>(b, wp, bp, c, layer, batch, ctot, base);
  else if (width == 28) launch<28, 4, 2, 2, 194>(b, wp, bp, c, layer, batch, ctot, base);
  else if (width == 14) launch<14, 7, 2, 4, 162>(b, wp, bp, c, layer, batch, ctot, base);
  else if (width == 7) launch<7, 7, 1, 8, 82>(b, wp, bp, c, layer, batch, ctot, base);
  else TORCH_CHECK(false, "unsupported width");
}

// images to cells of 2 x 2 pixels, 12 of 16 channels used, two cells of padding before and one behind
__global__ void prep_kernel(const float* __restrict__ x, __half* __restrict__ s, unsigned* cnt, int ncnt, int cells) {
  const int idx = blockIdx.x * blockDim.x + threadIdx.x;
  if (idx < ncnt) cnt[idx] = 0;
  if (idx >= cells) return;
  const int cx = idx % 115, cy = (idx / 115) % 115, img = idx / (115 * 115);
  const int X = cx - 2, Y = cy - 2;
  uint4 o0 = make_uint4(0, 0, 0, 0), o1 = o0;
  if (X >= 0 && X < 112 && Y >= 0 && Y < 112) {
    float2 v[3][2];
#pragma unroll
    for (int c = 0; c < 3; ++c)
#pragma unroll
      for (int b = 0; b < 2; ++b)
        v[c][b] =
            *reinterpret_cast<const float2*>(x + (static_cast<size_t>(img * 3 + c) * 224 + 2 * Y + b) * 224 + 2 * X);
    // channel (b * 2 + bx) * 3 + c
    o0.x = as_u(__floats2half2_rn(v[0][0].x, v[1][0].x));
    o0.y = as_u(__floats2half2_rn(v[2][0].x, v[0][0].y));
    o0.z = as_u(__floats2half2_rn(v[1][0].y, v[2][0].y));
    o0.w = as_u(__floats2half2_rn(v[0][1].x, v[1][1].x));
    o1.x = as_u(__floats2half2_rn(v[2][1].x, v[0][1].y));
    o1.y = as_u(__floats2half2_rn(v[1][1].y, v[2][1].y));
  }
  uint4* to = reinterpret_cast<uint4*>(s + static_cast<size_t>(idx) * 16);
  to[0] = o0;
  to[1] = o1;
}

void prep(torch::Tensor x, torch::Tensor s, torch::Tensor cnt) {
  const int cells = x.size(0) * 115 * 115;
  prep_kernel<<<(cells + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), reinterpret_cast<__half*>(s.data_ptr()), reinterpret_cast<unsigned*>(cnt.data_ptr<int>()),
      static_cast<int>(cnt.numel()), cells);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

// 3 x 3 maximum with stride 2 of (batch, 112, 112, 64), then bias and ReLU
__global__ void stem_pool_kernel(const __half* __restrict__ y, const float* __restrict__ bias, __half* __restrict__ buf,
                                 int ctot, int total) {
  const int idx = blockIdx.x * blockDim.x + threadIdx.x;
  if (idx >= total) return;
  const int g = idx & 7, pix = idx >> 3, ox = pix % 56, oy = (pix / 56) % 56, img = pix / (56 * 56);
  __half2 m[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) m[k] = as_h2(0xFC00FC00u);
#pragma unroll
  for (int dy = -1; dy < 2; ++dy)
#pragma unroll
    for (int dx = -1; dx < 2; ++dx) {
      const int yy = 2 * oy + dy, xx = 2 * ox + dx;
      if (yy >= 0 && xx >= 0 && yy < 112 && xx < 112) {
        const uint4 v =
            __ldg(reinterpret_cast<const uint4*>(y + (static_cast<size_t>(img * 112 + yy) * 112 + xx) * 64 + g * 8));
        m[0] = __hmax2_nan(m[0], as_h2(v.x));
        m[1] = __hmax2_nan(m[1], as_h2(v.y));
        m[2] = __hmax2_nan(m[2], as_h2(v.z));
        m[3] = __hmax2_nan(m[3], as_h2(v.w));
      }
    }
  unsigned o[4];
#pragma unroll
  for (int k = 0; k < 4; ++k)
    o[k] = bn_relu2(as_u(m[k]), 1.0f, 1.0f, __ldg(bias + g * 8 + 2 * k), __ldg(bias + g * 8 + 2 * k + 1));
  *reinterpret_cast<uint4*>(buf + static_cast<size_t>(pix) * ctot + g * 8) = make_uint4(o[0], o[1], o[2], o[3]);
}

void stem_pool(torch::Tensor y, torch::Tensor bias, torch::Tensor buf) {
  const int total = buf.size(0) * 56 * 56 * 8;
  stem_pool_kernel<<<(total + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
      reinterpret_cast<const __half*>(y.data_ptr()), bias.data_ptr<float>(), reinterpret_cast<__half*>(buf.data_ptr()),
      static_cast<int>(buf.size(3)), total);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

// batch norm, ReLU, 2 x 2 mean
__global__ void bn_pool_kernel(const __half* __restrict__ buf, const float* __restrict__ bn, __half* __restrict__ out,
                               int width, int channels, int total) {
  const int idx = blockIdx.x * blockDim.x + threadIdx.x;
  if (idx >= total) return;
  const int groups = channels / 8, g = idx % groups, pix = idx / groups, ow = width / 2;
  const int ox = pix % ow, oy = (pix / ow) % ow, img = pix / (ow * ow);
  float sum[8], sc[8], sh[8];
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    sum[k] = 0.0f;
    sc[k] = __ldg(bn + g * 8 + k);
    sh[k] = __ldg(bn + channels + g * 8 + k);
  }
#pragma unroll
  for (int d = 0; d < 4; ++d) {
    const uint4 v = __ldg(reinterpret_cast<const uint4*>(
        buf + (static_cast<size_t>(img * width + 2 * oy + d / 2) * width + 2 * ox + d % 2) * channels + g * 8));
    const unsigned u[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float2 f = __half22float2(as_h2(u[k]));
      sum[2 * k] += relu_nan(fmaf(f.x, sc[2 * k], sh[2 * k]));
      sum[2 * k + 1] += relu_nan(fmaf(f.y, sc[2 * k + 1], sh[2 * k + 1]));
    }
  }
  unsigned o[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) o[k] = as_u(__floats2half2_rn(sum[2 * k] * 0.25f, sum[2 * k + 1] * 0.25f));
  *reinterpret_cast<uint4*>(out + static_cast<size_t>(pix) * channels + g * 8) = make_uint4(o[0], o[1], o[2], o[3]);
}

void bn_pool(torch::Tensor buf, torch::Tensor bn, torch::Tensor out) {
  const int width = buf.size(2), channels = buf.size(3);
  const int total = buf.size(0) * (width / 2) * (width / 2) * (channels / 8);
  bn_pool_kernel<<<(total + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
      reinterpret_cast<const __half*>(buf.data_ptr()), bn.data_ptr<float>(), reinterpret_cast<__half*>(out.data_ptr()),
      width, channels, total);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

// batch norm, ReLU, mean over all places
__global__ void final_pool_kernel(const __half* __restrict__ buf, const float* __restrict__ bn, float* __restrict__ out,
                                  int places, int channels) {
  const int c = (blockIdx.y * blockDim.x + threadIdx.x) * 2, img = blockIdx.x;
  if (c >= channels) return;
  const float s0 = bn[c], s1 = bn[c + 1], t0 = bn[channels + c], t1 = bn[channels + c + 1];
  const __half* from = buf + static_cast<size_t>(img) * places * channels + c;
  float a = 0.0f, b = 0.0f;
#pragma unroll 7
  for (int p = 0; p < places; ++p) {
    const float2 f = __half22float2(*reinterpret_cast<const __half2*>(from + static_cast<size_t>(p) * channels));
    a += relu_nan(fmaf(f.x, s0, t0));
    b += relu_nan(fmaf(f.y, s1, t1));
  }
  *reinterpret_cast<float2*>(out + static_cast<size_t>(img) * channels + c) = make_float2(a / places, b / places);
}

void final_pool(torch::Tensor buf, torch::Tensor bn, torch::Tensor out) {
  const int channels = buf.size(3), places = buf.size(1) * buf.size(2);
  dim3 grid(buf.size(0), (channels / 2 + 63) / 64);
  final_pool_kernel<<<grid, 64, 0, at::cuda::getCurrentCUDAStream()>>>(
      reinterpret_cast<const __half*>(buf.data_ptr()), bn.data_ptr<float>(), out.data_ptr<float>(), places, channels);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

__global__ void head_kernel(const float* __restrict__ pooled, const float* __restrict__ w, const float* __restrict__ b,
                            float* __restrict__ out, int channels, int classes) {
  const int img = blockIdx.x, k = blockIdx.y;
  const float* p = pooled + static_cast<size_t>(img) * channels;
  const float* q = w + static_cast<size_t>(k) * channels;
  float sum = 0.0f;
  for (int c = threadIdx.x; c < channels; c += 128) sum = fmaf(p[c], q[c], sum);
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  __shared__ float parts[4];
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) out[img * classes + k] = parts[0] + parts[1] + parts[2] + parts[3] + b[k];
}

torch::Tensor head(torch::Tensor pooled, torch::Tensor w, torch::Tensor b) {
  const int batch = pooled.size(0), channels = pooled.size(1), classes = w.size(0);
  auto out = torch::empty({batch, classes}, pooled.options());
  head_kernel<<<dim3(batch, classes), 128, 0, at::cuda::getCurrentCUDAStream()>>>(
      pooled.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), out.data_ptr<float>(), channels, classes);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""

extension = load_inline(
    name="densenet_pdl_wgmma",
    cpp_sources=[DECLARATION],
    cuda_sources=[SOURCE],
    functions=["prep", "stem_pool", "dense_layer", "bn_pool", "final_pool", "head"],
    extra_cuda_cflags=["-O3", "-std=c++17", "-gencode=arch=compute_90a,code=sm_90a"],
)


class DenseLayer(nn.Module):
    """The parameters of one dense layer: a batch norm and a 3 x 3 convolution to `growth` channels."""

    def __init__(self, channels, growth):
        super().__init__()
        self.bn = nn.BatchNorm2d(channels)
        self.conv = nn.Conv2d(channels, growth, 3, padding=1, bias=False)


class DenseBlock(nn.Module):
    """The parameters of a dense block: its layers, each with `growth` more input channels than the one before."""

    def __init__(self, layers, channels, growth):
        super().__init__()
        self.layers = nn.ModuleList(DenseLayer(channels + growth * layer, growth) for layer in range(layers))


class Transition(nn.Module):
    """The parameters between two blocks: a batch norm and a 1 x 1 convolution to half the channels."""

    def __init__(self, channels):
        super().__init__()
        self.bn = nn.BatchNorm2d(channels)
        self.conv = nn.Conv2d(channels, channels // 2, 1, bias=False)


def affine(bn):
    """Scale and shift of a batch norm in eval mode, in float32."""
    scale = bn.weight.double() / torch.sqrt(bn.running_var.double() + bn.eps)
    shift = bn.bias.double() - bn.running_mean.double() * scale
    return scale.float(), shift.float()


class ModelNew(nn.Module):
    """DenseNet-201 in inference, with one kernel per dense layer and one CUDA graph per number of images."""

    def __init__(self, growth, classes, layers, stem):
        super().__init__()
        assert growth == 32 and stem == 64 and len(layers) == 4
        self.counts = tuple(layers)
        self.conv1 = nn.Conv2d(3, stem, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(stem)
        blocks = []
        channels = stem
        self.starts = []
        self.ends = []
        for block, count in enumerate(layers):
            if block:
                blocks.append(Transition(channels))
                channels //= 2
            self.starts.append(channels)
            blocks.append(DenseBlock(count, channels, growth))
            channels += count * growth
            self.ends.append(channels)
        self.blocks = nn.Sequential(*blocks)
        self.bn2 = nn.BatchNorm2d(channels)
        self.classifier = nn.Linear(channels, classes)
        self.packed = None
        self.states = {}

    def pack(self):
        """Keep in `packed` the weights as the kernels read them, 16-bit for convolutions, and batch norms folded."""
        scale, shift = affine(self.bn1)
        w = self.conv1.weight.float() * scale.view(-1, 1, 1, 1)
        w8 = torch.zeros(64, 3, 8, 8, device=w.device, dtype=torch.float32)
        w8[:, :, 1:, 1:] = w
        w4 = w8.view(64, 3, 4, 2, 4, 2).permute(0, 3, 5, 1, 2, 4).reshape(64, 12, 4, 4)
        w16 = torch.zeros(64, 16, 4, 4, device=w.device, dtype=torch.float32)
        w16[:, :12] = w4
        packed = {
            "stem_w": w16.half().contiguous(memory_format=torch.channels_last),
            "stem_b": shift.contiguous(),
            "dense": [],
            "transitions": [],
        }
        for index, block in enumerate(self.blocks):
            if index % 2 == 0:
                entries = []
                for layer in block.layers:
                    weight = layer.conv.weight
                    chunks = weight.shape[1] // 32
                    wp = weight.reshape(32, chunks, 4, 8, 9).permute(1, 4, 2, 0, 3).half().contiguous()
                    entries.append((wp, torch.cat(affine(layer.bn)).contiguous()))
                packed["dense"].append(entries)
            else:
                weight = block.conv.weight
                wt = weight.view(weight.shape[0], weight.shape[1]).half().contiguous()
                packed["transitions"].append((wt, torch.cat(affine(block.bn)).contiguous()))
        packed["final"] = torch.cat(affine(self.bn2)).contiguous()
        packed["head_w"] = self.classifier.weight.detach().float().contiguous()
        packed["head_b"] = self.classifier.bias.detach().float().contiguous()
        self.packed = packed

    def compute(self, state):
        """All between `prep` and `head`: (batch, 115, 115, 16) cells to (batch, channels) features, both in `state`."""
        packed = self.packed
        with torch.backends.cudnn.flags(enabled=True, benchmark=True, deterministic=False, allow_tf32=True):
            y = F.conv2d(state["cells"].permute(0, 3, 1, 2), packed["stem_w"])
        y = y.contiguous(memory_format=torch.channels_last)
        extension.stem_pool(y, packed["stem_b"], state["buffers"][0])
        first = 0
        for block, count in enumerate(self.counts):
            buf = state["buffers"][block]
            if block:
                wt, bn = packed["transitions"][block - 1]
                pooled = state["pooled"][block - 1]
                extension.bn_pool(state["buffers"][block - 1], bn, pooled)
                rows = pooled.shape[0]
                torch.mm(pooled, wt.t(), out=buf.view(rows, buf.shape[3])[:, : wt.shape[0]])
            base = self.starts[block] // 32
            for layer in range(count):
                wp, bn = packed["dense"][block][layer]
                extension.dense_layer(buf, wp, bn, state["counters"], first, layer, base)
            first += count
        extension.final_pool(state["buffers"][-1], packed["final"], state["features"])

    def record(self, x):
        """Allocate the buffers for this number of images, warm up, and capture `compute` in a CUDA graph; the state."""
        if self.packed is None:
            self.pack()
        batch, device = x.shape[0], x.device
        half = {"device": device, "dtype": torch.float16}
        sizes = (56, 28, 14, 7)
        state = {
            "cells": torch.zeros(batch, 115, 115, 16, **half),
            "buffers": [torch.zeros(batch, s, s, c, **half) for s, c in zip(sizes, self.ends, strict=False)],
            "pooled": [torch.zeros(batch * s * s, c, **half) for s, c in zip(sizes[1:], self.ends[:-1], strict=False)],
            "counters": torch.zeros(sum(self.counts) * batch, device=device, dtype=torch.int32),
            "features": torch.zeros(batch, self.ends[-1], device=device, dtype=torch.float32),
        }
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                extension.prep(x, state["cells"], state["counters"])
                self.compute(state)
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.compute(state)
        state["graph"] = graph
        self.states[batch] = state
        return state

    def forward(self, x):
        """(batch, 3, 224, 224) images to (batch, classes) scores."""
        x = x.contiguous()
        state = self.states.get(x.shape[0])
        if state is None:
            with torch.no_grad():
                state = self.record(x)
        extension.prep(x, state["cells"], state["counters"])
        state["graph"].replay()
        return extension.head(state["features"], self.packed["head_w"], self.packed["head_b"])
