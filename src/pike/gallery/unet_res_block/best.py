"""A level of a U-Net as nine kernels: each norm and SiLU happens inside the convolution that reads it.

What it does: the model of `zoo/unet_res_block` on four feature maps of 320 x 64 x 64 and four time
embeddings of 1280. Features lie with the channels innermost (NHWC) in 16 bits. One kernel prepares the
input and the time embeddings. One kernel source, compiled eight times by NVRTC, computes the eight 3 x 3
convolutions on tensor cores (`wgmma`).

What made it fast: a convolution is a product of matrices over a tile in shared memory with a border of
one pixel, and all its positions read that one tile. Three warps load the tile and apply the group norm
and SiLU to it, so no normalized tensor is written. 1 x 1 shortcuts are more steps of the same product.
The convolution after the upsampling becomes four of 2 x 2 at half the size. The concatenation is two
pointers. Two blocks share every piece of weights by multicast. Kernels sum their own result for the
next norm, and add biases, the time embedding and the first block's residual on the way out. One CUDA
graph launches all but the copies in and the last kernel, which writes into the result.

Accuracy: features and convolution weights have 16 bits, products are summed in 32. The time embedding,
biases, the arithmetic of norms and SiLU and the sums for norms have 32; mean and variance are formed
from the sums in 64. The weights for the upsampling are combined in 64 bits and then rounded. Sums for
norms are added up by atomics, so two calls need not agree in every bit.

Limits: exactly four images of 320 x 64 x 64, time embeddings of 1280, 32 groups, an epsilon of 1e-5,
inference only. A shape that broadcasts to these, like one image, is taken silently. Compute capability 9.0
(Hopper), CUDA's headers for NVRTC, and a PyTorch with the private `torch.cuda._compile_kernel`. One GPU
in a process, and it must be the current one. Weights are packed at the first call: a later change or
move is not noticed. Calls share buffers: one at a time, on one stream. Beyond 65504 features overflow.

Author: a coding agent, in a search by the strategy pike-x (result.json says which).
Licence: Apache-2.0.
"""

import functools

import torch
from torch import nn

GROUPS = 32
CHANNELS = 320
TIME = 1280
BATCH = 4
IMAGE = 64

PREP = r"""
constexpr int PREP_DUMMY = 0;
#include <cuda_fp16.h>

extern "C" __global__ void __launch_bounds__(256) prep(const float* x, const float* time, const float* wt,
    const float* bt, __half* x16, float* stat, float* tout) {
  __shared__ __align__(16) float buf[5120];
  const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31;
  if (blockIdx.x < 160) {
    for (int i = tid; i < 5120; i += 256) {
      const float v = time[i];
      buf[i] = v / (1.0f + __expf(-v));
    }
    __syncthreads();
    const int o = blockIdx.x * 8 + warp;
    float acc[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int k = lane; k < 1280; k += 32) {
      const float w = wt[o * 1280 + k];
#pragma unroll
      for (int b = 0; b < 4; ++b) acc[b] += w * buf[b * 1280 + k];
    }
#pragma unroll
    for (int b = 0; b < 4; ++b)
      for (int s = 16; s > 0; s >>= 1) acc[b] += __shfl_xor_sync(0xffffffffu, acc[b], s);
    if (lane == 0) {
      const float bias = bt[o];
#pragma unroll
      for (int b = 0; b < 4; ++b) {
        int at;
        if (o < 320) at = b * 320 + o;
        else if (o < 960) at = 1280 + b * 640 + (o - 320);
        else at = 3840 + b * 320 + (o - 960);
        tout[at] = acc[b] + bias;
      }
    }
  } else {
    const int b = blockIdx.x - 160;
    const int cb = b % 5, row = (b / 5) % 64, n = b / 320;
    __half* tile = reinterpret_cast<__half*>(buf);  // [64][72]
    float2 v[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const int c = cb * 64 + warp * 8 + k;
      v[k] = *reinterpret_cast<const float2*>(x + (long long)(n * 320 + c) * 4096 + row * 64 + lane * 2);
    }
    __align__(16) __half lo[8];
    __align__(16) __half hi[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      lo[k] = __float2half_rn(v[k].x);
      hi[k] = __float2half_rn(v[k].y);
    }
    *reinterpret_cast<uint4*>(tile + (2 * lane) * 72 + warp * 8) = *reinterpret_cast<uint4*>(lo);
    *reinterpret_cast<uint4*>(tile + (2 * lane + 1) * 72 + warp * 8) = *reinterpret_cast<uint4*>(hi);
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      float s = v[k].x + v[k].y, q = v[k].x * v[k].x + v[k].y * v[k].y;
      for (int t = 16; t > 0; t >>= 1) {
        s += __shfl_xor_sync(0xffffffffu, s, t);
        q += __shfl_xor_sync(0xffffffffu, q, t);
      }
      if (lane == 0) {
        const int c = cb * 64 + warp * 8 + k;
        atomicAdd(stat + (n * 320 + c) * 2, s);
        atomicAdd(stat + (n * 320 + c) * 2 + 1, q);
      }
    }
    __syncthreads();
    for (int i = tid; i < 512; i += 256) {
      const int px = i >> 3, c8 = i & 7;
      *reinterpret_cast<uint4*>(x16 + ((long long)n * 4096 + row * 64 + px) * 320 + cb * 64 + c8 * 8) =
          *reinterpret_cast<uint4*>(tile + px * 72 + c8 * 8);
    }
  }
}
"""

CONV = r"""
#include <cuda_fp16.h>
typedef unsigned long long u64;

constexpr int HIN = MODE == 1 ? 32 : 64;
constexpr int CM = C0 + C1, CE = CE0 + CE1;
constexpr int KCH = KC / 8;
constexpr int P = MODE == 0 ? 265 : (MODE == 1 ? 578 : 866);
constexpr int ABYTES = KCH * P * 16;
constexpr int BBYTES = KC * N * 2;
constexpr int NH = N / NW;
constexpr int CPG = CM / 32;
constexpr int MCH = CM / KC, NCH = MCH + CE / KC;
constexpr int STEPS = MCH * TAPS + CE / KC;
constexpr int TPI = MODE == 0 ? 32 : 8;
constexpr int LDS = N + 8;

__device__ __forceinline__ unsigned sm(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void bar_init(unsigned a, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(a), "r"(count) : "memory");
}
__device__ __forceinline__ void bar_wait(unsigned a, unsigned parity) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "LAB_WAIT:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@p bra DONE;\n"
      "bra LAB_WAIT;\n"
      "DONE:\n"
      "}\n" ::"r"(a), "r"(parity) : "memory");
}
__device__ __forceinline__ void bar_arrive(unsigned a) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(a) : "memory");
}
__device__ __forceinline__ void bar_arrive_remote(unsigned a, unsigned cta) {
  asm volatile(
      "{\n"
      ".reg .b32 ra;\n"
      "mapa.shared::cluster.u32 ra, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [ra];\n"
      "}\n" ::"r"(a), "r"(cta) : "memory");
}
__device__ __forceinline__ void bar_expect(unsigned a, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(a), "r"(bytes) : "memory");
}
__device__ __forceinline__ void bulk_multicast(unsigned dst, const void* src, unsigned bytes, unsigned bar) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;"
      ::"r"(dst), "l"(src), "r"(bytes), "r"(bar), "h"((unsigned short)3) : "memory");
}
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
}

__device__ __forceinline__ unsigned act2(unsigned raw, float2 s0, float2 s1) {
  const __half2 h = *reinterpret_cast<__half2*>(&raw);
  const float2 f = __half22float2(h);
  float a = f.x * s0.x + s0.y, b = f.y * s1.x + s1.y;
  a = __fdividef(a, 1.0f + __expf(-a));
  b = __fdividef(b, 1.0f + __expf(-b));
  __half2 r = __floats2half2_rn(a, b);
  return *reinterpret_cast<unsigned*>(&r);
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1)
conv(const __half* a0, const __half* a1, const __half* e0, const __half* e1, const float* stat0,
     const float* stat1, const float* gamma, const float* beta, const __half* weight, const float* bias,
     const __half* resid, void* out, float* ostat) {
  extern __shared__ __align__(1024) unsigned char smem[];
  unsigned char* sa = smem;
  unsigned char* sb = smem + 2 * ABYTES;
  float2* scale = reinterpret_cast<float2*>(sb + STAGES * BBYTES);
  u64* bars = reinterpret_cast<u64*>(sb + STAGES * BBYTES + (NORM ? CM * 8 : 0));
  const unsigned bfull = sm(bars), bempty = bfull + STAGES * 8;
  const unsigned afull = bempty + STAGES * 8, aempty = afull + 16;
  const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31;
  const int tile = blockIdx.x, image = tile / TPI, tin = tile % TPI;
  const int n0 = blockIdx.y * N;
  const int py = blockIdx.z >> 1, px = blockIdx.z & 1;
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));

  if (tid == 0) {
    for (int i = 0; i < STAGES; ++i) {
      bar_init(bfull + i * 8, 1);
      bar_init(bempty + i * 8, 16);
    }
    for (int i = 0; i < 2; ++i) {
      bar_init(afull + i * 8, 96);
      bar_init(aempty + i * 8, 8);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  if constexpr (NORM != 0) {
    for (int g = warp; g < 32; g += 12) {
      float s = 0.0f, q = 0.0f;
      const int c = g * CPG + lane;
      if (lane < CPG) {
        const float* p = c < C0 ? stat0 + (image * C0 + c) * 2 : stat1 + (image * C1 + (c - C0)) * 2;
        s = p[0];
        q = p[1];
      }
      for (int t = 16; t > 0; t >>= 1) {
        s += __shfl_xor_sync(0xffffffffu, s, t);
        q += __shfl_xor_sync(0xffffffffu, q, t);
      }
      const double count = (double)(CPG * HIN * HIN);
      const double mean = (double)s / count;
      double var = (double)q / count - mean * mean;
      if (var < 0.0) var = 0.0;
      const float rstd = rsqrtf((float)var + 1e-5f);
      if (lane < CPG) {
        const float k = gamma[c] * rstd;
        scale[c] = make_float2(k, beta[c] - (float)mean * k);
      }
    }
  }
  __syncthreads();
  cluster_sync();

  if (warp >= 8) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 88;");
    if (warp == 8) {
      if (lane == 0) {
        const unsigned char* src = reinterpret_cast<const unsigned char*>(weight) +
            (long long)(blockIdx.z * gridDim.y + blockIdx.y) * STEPS * BBYTES + rank * (BBYTES / 2);
        int stage = 0;
        unsigned phase = 0;
        for (int s = 0; s < STEPS; ++s) {
          bar_wait(bempty + stage * 8, phase ^ 1);
          bar_expect(bfull + stage * 8, BBYTES);
          bulk_multicast(sm(sb) + stage * BBYTES + rank * (BBYTES / 2), src + (long long)s * BBYTES, BBYTES / 2,
                         bfull + stage * 8);
          if (++stage == STAGES) {
            stage = 0;
            phase ^= 1;
          }
        }
      }
      __syncwarp();
    } else {
      const int pt = tid - 288;
      const int kc = pt % KCH, pp = pt / KCH;
      constexpr int STEP = 96 / KCH;
      const uint4 zero = make_uint4(0, 0, 0, 0);
#pragma unroll 1
      for (int ch = 0; ch < NCH; ++ch) {
        const int buf = ch & 1;
        const bool extra = ch >= MCH;
        const __half* src;
        int cs;
        if (!extra) {
          const int c = ch * KC;
          if (C1 == 0 || c < C0) { src = a0 + c; cs = C0; }
          else { src = a1 + (c - C0); cs = C1; }
        } else {
          const int c = (ch - MCH) * KC;
          if (CE1 == 0 || c < CE0) { src = e0 + c; cs = CE0; }
          else { src = e1 + (c - CE0); cs = CE1; }
        }
        src += (long long)image * HIN * HIN * cs + kc * 8;
        const bool norm = NORM != 0 && !extra;
        float2 sc[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) sc[i] = make_float2(1.0f, 0.0f);
        if (norm) {
#pragma unroll
          for (int i = 0; i < 8; ++i) sc[i] = scale[ch * KC + kc * 8 + i];
        }
        int p0, p1;
        if (MODE == 0) { p0 = extra ? 66 : 0; p1 = extra ? 198 : 264; }
        else if (MODE == 1) { p0 = extra ? 32 : 0; p1 = extra ? 160 : 192; }
        else { p0 = 0; p1 = 576; }
        bar_wait(aempty + buf * 8, ((ch >> 1) & 1) ^ 1);
        uint4* dst = reinterpret_cast<uint4*>(sa + buf * ABYTES) + kc * P;
#pragma unroll 1
        for (int base = p0 + pp; base < p1; base += STEP * U) {
          uint4 v[U];
          unsigned mask = 0;
#pragma unroll
          for (int u = 0; u < U; ++u) {
            const int p = base + u * STEP;
            int y, x;
            if (MODE == 0) { const int row = p / 66; x = p - row * 66 - 1; y = 2 * tin - 1 + row; }
            else if (MODE == 1) { x = p & 31; y = 4 * tin - 1 + (p >> 5); }
            else { x = p & 63; y = 8 * tin - 1 + (p >> 6); }
            const bool ok = p < p1 && x >= 0 && x < HIN && y >= 0 && y < HIN;
            v[u] = zero;
            if (ok) {
              v[u] = __ldg(reinterpret_cast<const uint4*>(src + (y * HIN + x) * cs));
              mask |= 1u << u;
            }
          }
#pragma unroll
          for (int u = 0; u < U; ++u) {
            const int p = base + u * STEP;
            if (p < p1) {
              uint4 w = v[u];
              if (norm && ((mask >> u) & 1)) {
                w.x = act2(w.x, sc[0], sc[1]);
                w.y = act2(w.y, sc[2], sc[3]);
                w.z = act2(w.z, sc[4], sc[5]);
                w.w = act2(w.w, sc[6], sc[7]);
              }
              if (MODE == 0) {
                dst[p] = w;
              } else if (MODE == 1) {
                const int row = p >> 5, x = p & 31;
#pragma unroll
                for (int d = 0; d < 3; ++d) {
                  const int to = x + 1 - d;
                  dst[d * 192 + row * 32 + (to & 31)] = (to >= 0 && to < 32) ? w : zero;
                }
              } else {
                const int row = p >> 6, x = p & 63;
                const int at = ((row & 1) ? 5 + (row >> 1) : (row >> 1)) * 32;
                if ((x & 1) == 0) {
                  dst[288 + at + (x >> 1)] = w;
                } else {
                  dst[at + (((x + 1) >> 1) & 31)] = x == 63 ? zero : w;
                  dst[576 + at + (x >> 1)] = w;
                }
              }
            }
          }
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        bar_arrive(afull + buf * 8);
      }
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 208;");
    const int wg = warp >> 2;
    float acc[NH][NW / 2];
#pragma unroll
    for (int h = 0; h < NH; ++h)
#pragma unroll
      for (int i = 0; i < NW / 2; ++i) acc[h][i] = 0.0f;
    const u64 ahead = ((u64)8 << 32) | ((u64)P << 16);
    const u64 bhead = ((u64)8 << 32) | ((u64)N << 16);
    int stage = 0, prev = -1;
    unsigned phase = 0;
#pragma unroll 1
    for (int ch = 0; ch < NCH; ++ch) {
      const int buf = ch & 1;
      const bool extra = ch >= MCH;
      bar_wait(afull + buf * 8, (ch >> 1) & 1);
      // in a cluster, bits 24 and up hold the CTA rank: keep them out of the descriptors
      const unsigned abase = ((sm(sa) + buf * ABYTES) & 0x3FFFFu) / 16 + wg * (MODE == 0 ? 66 : 64);
      const int taps = extra ? 1 : TAPS;
#pragma unroll 1
      for (int t = 0; t < taps; ++t) {
        int ky, kx;
        if (extra) { ky = 1; kx = 1; }
        else if (UP) { ky = (t >> 1) + py; kx = (t & 1) + px; }
        else { ky = t / 3; kx = t - ky * 3; }
        int slot;
        if (MODE == 0) slot = ky * 66 + kx;
        else if (MODE == 1) slot = kx * 192 + ky * 32;
        else slot = kx * 288 + (ky == 0 ? 0 : (ky == 1 ? 160 : 32));
        bar_wait(bfull + stage * 8, phase);
        const u64 ad = ahead | (u64)(abase + slot);
        const u64 bd = bhead | (u64)(((sm(sb) + stage * BBYTES) & 0x3FFFFu) / 16);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int k = 0; k < KC / 16; ++k)
#pragma unroll
          for (int h = 0; h < NH; ++h) mma(acc[h], ad + (u64)(k * 2 * P), bd + (u64)(k * 2 * N + h * NW));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
        if (prev >= 0 && lane < 2) bar_arrive_remote(bempty + prev * 8, lane);
        if (t == 0 && ch > 0 && lane == 0) bar_arrive(aempty + ((ch - 1) & 1) * 8);
        __syncwarp();
        prev = stage;
        if (++stage == STAGES) {
          stage = 0;
          phase ^= 1;
        }
      }
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
    for (int h = 0; h < NH; ++h)
#pragma unroll
      for (int i = 0; i < NW / 2; ++i) asm volatile("" : "+f"(acc[h][i])::"memory");

    const int r = lane >> 2, cq = (lane & 3) * 2;
    const float* bs = bias + image * BIAS_STRIDE + n0;
    if constexpr (FINAL != 0) {
      float* o = reinterpret_cast<float*>(out) + (long long)(image * COUT + n0) * 4096 + tin * 128 + warp * 16 + r;
#pragma unroll
      for (int h = 0; h < NH; ++h)
#pragma unroll
        for (int j = 0; j < NW / 8; ++j) {
          const int c = h * NW + j * 8 + cq;
          const float2 b = *reinterpret_cast<const float2*>(bs + c);
          float* q = o + (long long)c * 4096;
          q[0] = acc[h][j * 4] + b.x;
          q[4096] = acc[h][j * 4 + 1] + b.y;
          q[8] = acc[h][j * 4 + 2] + b.x;
          q[4096 + 8] = acc[h][j * 4 + 3] + b.y;
        }
    } else {
      asm volatile("bar.sync 1, 256;" ::: "memory");
      __half* st = reinterpret_cast<__half*>(smem) + warp * 16 * LDS;
      float2* part = reinterpret_cast<float2*>(smem + 128 * LDS * 2);
#pragma unroll
      for (int h = 0; h < NH; ++h)
#pragma unroll
        for (int j = 0; j < NW / 8; ++j) {
          const int c = h * NW + j * 8 + cq;
          const float2 b = *reinterpret_cast<const float2*>(bs + c);
          float v0 = acc[h][j * 4] + b.x, v1 = acc[h][j * 4 + 1] + b.y;
          float v2 = acc[h][j * 4 + 2] + b.x, v3 = acc[h][j * 4 + 3] + b.y;
          if constexpr (RESID != 0) {
            const __half* rp = resid + (long long)(tile * 128 + warp * 16 + r) * COUT + n0 + c;
            const float2 f0 = __half22float2(*reinterpret_cast<const __half2*>(rp));
            const float2 f1 = __half22float2(*reinterpret_cast<const __half2*>(rp + 8 * COUT));
            v0 += f0.x; v1 += f0.y; v2 += f1.x; v3 += f1.y;
          }
          *reinterpret_cast<__half2*>(st + r * LDS + c) = __floats2half2_rn(v0, v1);
          *reinterpret_cast<__half2*>(st + (r + 8) * LDS + c) = __floats2half2_rn(v2, v3);
        }
      __syncwarp();
      __half* o = reinterpret_cast<__half*>(out);
      for (int i = lane; i < 16 * (N / 8); i += 32) {
        const int row = i / (N / 8), c8 = i - row * (N / 8);
        const int ml = warp * 16 + row;
        long long pix;
        if (UP) {
          const int q = tin * 128 + ml;
          pix = (long long)image * 4096 + (2 * (q >> 5) + py) * 64 + 2 * (q & 31) + px;
        } else {
          pix = (long long)tile * 128 + ml;
        }
        *reinterpret_cast<uint4*>(o + pix * COUT + n0 + c8 * 8) =
            *reinterpret_cast<const uint4*>(st + row * LDS + c8 * 8);
      }
      if constexpr (STATS != 0) {
        for (int c2 = lane; c2 < N / 2; c2 += 32) {
          float s0 = 0.0f, s1 = 0.0f, q0 = 0.0f, q1 = 0.0f;
#pragma unroll
          for (int row = 0; row < 16; ++row) {
            const float2 f = __half22float2(*reinterpret_cast<const __half2*>(st + row * LDS + c2 * 2));
            s0 += f.x; s1 += f.y;
            q0 += f.x * f.x; q1 += f.y * f.y;
          }
          part[warp * N + c2 * 2] = make_float2(s0, q0);
          part[warp * N + c2 * 2 + 1] = make_float2(s1, q1);
        }
        asm volatile("bar.sync 1, 256;" ::: "memory");
        for (int c = tid; c < N; c += 256) {
          float s = 0.0f, q = 0.0f;
#pragma unroll
          for (int w = 0; w < 8; ++w) {
            const float2 f = part[w * N + c];
            s += f.x; q += f.y;
          }
          atomicAdd(ostat + (image * COUT + n0 + c) * 2, s);
          atomicAdd(ostat + (image * COUT + n0 + c) * 2 + 1, q);
        }
      }
    }
  }
  __syncwarp();
  cluster_sync();
}
"""


def wgmma_source(n):
    """CUDA source of `mma`: a (64, 16) by (16, n) wgmma of 16-bit values, added to n // 2 floats per thread."""
    regs = n // 2
    names = ", ".join(f"%{i}" for i in range(regs))
    outs = ", ".join(f'"+f"(d[{i}])' for i in range(regs))
    return (
        f"__device__ __forceinline__ void mma(float (&d)[{regs}], unsigned long long a, unsigned long long b) {{\n"
        '  asm volatile("{\\n.reg .pred p;\\n'
        f"setp.ne.b32 p, %{regs + 2}, 0;\\n"
        f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.f16.f16 {{{names}}}, %{regs}, %{regs + 1}, p, 1, 1, 0, 0;\\n"
        '}\\n"\n'
        f'    : {outs} : "l"(a), "l"(b), "r"(1));\n'
        "}\n"
    )


# MODE 0: 64 x 64, stride 1; 1: 32 x 32, stride 1; 2: 64 x 64 to 32 x 32, stride 2
CONFIGS = {
    "first1": dict(  # noqa: C408
        MODE=0,
        UP=0,
        KC=64,
        N=320,
        NW=160,
        COUT=320,
        C0=320,
        C1=0,
        CE0=0,
        CE1=0,
        NORM=1,
        TAPS=9,
        STAGES=3,
        BIAS_STRIDE=320,
        RESID=0,
        STATS=1,
        FINAL=0,
        U=8,
    ),
    "first2": dict(  # noqa: C408
        MODE=0,
        UP=0,
        KC=64,
        N=320,
        NW=160,
        COUT=320,
        C0=320,
        C1=0,
        CE0=0,
        CE1=0,
        NORM=1,
        TAPS=9,
        STAGES=3,
        BIAS_STRIDE=0,
        RESID=1,
        STATS=1,
        FINAL=0,
        U=8,
    ),
    "down": dict(  # noqa: C408
        MODE=2,
        UP=0,
        KC=32,
        N=80,
        NW=80,
        COUT=320,
        C0=320,
        C1=0,
        CE0=0,
        CE1=0,
        NORM=0,
        TAPS=9,
        STAGES=12,
        BIAS_STRIDE=0,
        RESID=0,
        STATS=1,
        FINAL=0,
        U=12,
    ),
    "middle1": dict(  # noqa: C408
        MODE=1,
        UP=0,
        KC=32,
        N=160,
        NW=160,
        COUT=640,
        C0=320,
        C1=0,
        CE0=0,
        CE1=0,
        NORM=1,
        TAPS=9,
        STAGES=10,
        BIAS_STRIDE=640,
        RESID=0,
        STATS=1,
        FINAL=0,
        U=8,
    ),
    "middle2": dict(  # noqa: C408
        MODE=1,
        UP=0,
        KC=32,
        N=160,
        NW=160,
        COUT=640,
        C0=640,
        C1=0,
        CE0=320,
        CE1=0,
        NORM=1,
        TAPS=9,
        STAGES=10,
        BIAS_STRIDE=0,
        RESID=0,
        STATS=0,
        FINAL=0,
        U=8,
    ),
    "up": dict(  # noqa: C408
        MODE=1,
        UP=1,
        KC=32,
        N=320,
        NW=160,
        COUT=640,
        C0=640,
        C1=0,
        CE0=0,
        CE1=0,
        NORM=0,
        TAPS=4,
        STAGES=6,
        BIAS_STRIDE=0,
        RESID=0,
        STATS=1,
        FINAL=0,
        U=8,
    ),
    "last1": dict(  # noqa: C408
        MODE=0,
        UP=0,
        KC=64,
        N=320,
        NW=160,
        COUT=320,
        C0=640,
        C1=320,
        CE0=0,
        CE1=0,
        NORM=1,
        TAPS=9,
        STAGES=3,
        BIAS_STRIDE=320,
        RESID=0,
        STATS=1,
        FINAL=0,
        U=8,
    ),
    "last2": dict(  # noqa: C408
        MODE=0,
        UP=0,
        KC=64,
        N=320,
        NW=160,
        COUT=320,
        C0=320,
        C1=0,
        CE0=640,
        CE1=320,
        NORM=1,
        TAPS=9,
        STAGES=3,
        BIAS_STRIDE=0,
        RESID=0,
        STATS=0,
        FINAL=1,
        U=8,
    ),
}


def shared_bytes(c):
    """Bytes of shared memory for a config: two input tiles, the ring of weights, the norm's scales, barriers."""
    slots = (265, 578, 866)[c["MODE"]]
    a = c["KC"] // 8 * slots * 16
    b = c["KC"] * c["N"] * 2
    scale = (c["C0"] + c["C1"]) * 8 if c["NORM"] else 0
    return 2 * a + c["STAGES"] * b + scale + 256


@functools.cache
def conv_kernel(name):
    """Compile the convolution kernel for the config `name` by NVRTC, once."""
    c = CONFIGS[name]
    head = "".join(f"constexpr int {key} = {value};\n" for key, value in c.items())
    source = head + wgmma_source(c["NW"]) + CONV
    kernel = torch.cuda._compile_kernel(source, "conv", compute_capability="90a")
    kernel.set_shared_memory_config(shared_bytes(c))
    return kernel


@functools.cache
def prep_kernel():
    """Compile the kernel that prepares the input and the time embeddings, once."""
    return torch.cuda._compile_kernel(PREP, "prep", compute_capability="90a")


def launch(name, *args):
    """Launch the convolution `name` with the grid of its config; `args` are the kernel's pointers."""
    c = CONFIGS[name]
    grid = (128 if c["MODE"] == 0 else 32, c["COUT"] // c["N"], 4 if c["UP"] else 1)
    conv_kernel(name)(grid, (384, 1, 1), args, shared_mem=shared_bytes(c))


def pack(name, weight):
    """(out, in, kh, kw) to (tiles, steps, kc * n * 8)."""
    c = CONFIGS[name]
    n, kc = c["N"], c["KC"]
    out, inner = weight.shape[:2]
    taps = weight.shape[2] * weight.shape[3]
    w = weight.reshape(out // n, n, inner // kc, kc // 8, 8, taps)
    w = w.permute(0, 2, 5, 3, 1, 4)
    return w.reshape(out // n, inner // kc * taps, kc * n)


class ResBlock(nn.Module):
    """Holds the weights of one residual block; the kernels of `ModelNew` do the computing."""

    def __init__(self, channels_in: int, channels: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(GROUPS, channels_in), nn.GroupNorm(GROUPS, channels)
        self.conv1 = nn.Conv2d(channels_in, channels, 3, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.time = nn.Linear(TIME, channels)
        self.skip = nn.Conv2d(channels_in, channels, 1) if channels_in != channels else nn.Identity()


class ModelNew(nn.Module):
    """(4, 320, 64, 64) features and (4, 1280) time embeddings to (4, 320, 64, 64) features."""

    def __init__(self) -> None:
        super().__init__()
        self.first = ResBlock(CHANNELS, CHANNELS)
        self.down = nn.Conv2d(CHANNELS, CHANNELS, 3, stride=2, padding=1)
        self.middle = ResBlock(CHANNELS, 2 * CHANNELS)
        self.up = nn.Conv2d(2 * CHANNELS, 2 * CHANNELS, 3, padding=1)
        self.last = ResBlock(3 * CHANNELS, CHANNELS)
        self.graph = None

    def prepare(self, device):
        """Pack the weights for the kernels (convolutions in float16) and allocate the buffers on `device`."""
        first, middle, last = self.first, self.middle, self.last
        blocks = (first, middle, last)
        half = torch.float16

        def own(t):
            return t.detach().float().contiguous().clone()

        w = {}
        w["first1"] = pack("first1", first.conv1.weight.detach())
        w["first2"] = pack("first2", first.conv2.weight.detach())
        w["down"] = pack("down", self.down.weight.detach())
        w["middle1"] = pack("middle1", middle.conv1.weight.detach())
        w["middle2"] = torch.cat(
            (pack("middle2", middle.conv2.weight.detach()), pack("middle2", middle.skip.weight.detach())), 1
        )
        up = self.up.weight.detach().double()
        phases = []
        for py in range(2):
            if py == 0:
                rows = torch.stack((up[:, :, 0], up[:, :, 1] + up[:, :, 2]), 2)
            else:
                rows = torch.stack((up[:, :, 0] + up[:, :, 1], up[:, :, 2]), 2)
            for px in range(2):
                if px == 0:
                    both = torch.stack((rows[..., 0], rows[..., 1] + rows[..., 2]), 3)
                else:
                    both = torch.stack((rows[..., 0] + rows[..., 1], rows[..., 2]), 3)
                phases.append(pack("up", both))
        w["up"] = torch.cat(phases, 0)
        w["last1"] = pack("last1", last.conv1.weight.detach())
        w["last2"] = torch.cat((pack("last2", last.conv2.weight.detach()), pack("last2", last.skip.weight.detach())), 1)
        self.packed = {key: value.to(half).contiguous() for key, value in w.items()}

        self.time_weight = torch.cat([b.time.weight.detach() for b in blocks], 0).float().contiguous()
        self.time_bias = (
            torch.cat([b.time.bias.detach() + b.conv1.bias.detach() for b in blocks], 0).float().contiguous()
        )
        self.biases = {
            "first2": own(first.conv2.bias),
            "down": own(self.down.bias),
            "middle2": own(middle.conv2.bias + middle.skip.bias),
            "up": own(self.up.bias),
            "last2": own(last.conv2.bias + last.skip.bias),
        }
        self.norms = {
            "first1": (own(first.norm1.weight), own(first.norm1.bias)),
            "first2": (own(first.norm2.weight), own(first.norm2.bias)),
            "middle1": (own(middle.norm1.weight), own(middle.norm1.bias)),
            "middle2": (own(middle.norm2.weight), own(middle.norm2.bias)),
            "last1": (own(last.norm1.weight), own(last.norm1.bias)),
            "last2": (own(last.norm2.weight), own(last.norm2.bias)),
        }

        def image(size, channels):
            return torch.empty(BATCH * size * size * channels, device=device, dtype=half)

        self.given_x = torch.empty(BATCH, CHANNELS, IMAGE, IMAGE, device=device, dtype=torch.float32)
        self.given_time = torch.empty(BATCH, TIME, device=device, dtype=torch.float32)
        self.acts = {
            "x": image(64, 320),
            "f1": image(64, 320),
            "kept": image(64, 320),
            "d": image(32, 320),
            "m1": image(32, 640),
            "m2": image(32, 640),
            "u": image(64, 640),
            "l1": image(64, 320),
        }
        sizes = {"x": 320, "f1": 320, "kept": 320, "d": 320, "m1": 640, "u": 640, "l1": 320}
        self.stats = torch.zeros(sum(sizes.values()) * BATCH * 2, device=device, dtype=torch.float32)
        self.stat, at = {}, 0
        for key, value in sizes.items():
            self.stat[key] = self.stats[at : at + value * BATCH * 2]
            at += value * BATCH * 2
        self.times = torch.zeros(5120, device=device, dtype=torch.float32)
        self.time_parts = (self.times[:1280], self.times[1280:3840], self.times[3840:])
        self.none_half = torch.zeros(64, device=device, dtype=half)
        self.none_float = torch.zeros(64, device=device, dtype=torch.float32)

    def body(self):
        """Launch all but the last kernel: zero the sums for norms, prepare the input, seven convolutions."""
        a, s, t = self.acts, self.stat, self.time_parts
        w, b, g = self.packed, self.biases, self.norms
        nh, nf = self.none_half, self.none_float
        self.stats.zero_()
        prep_kernel()(
            (160 + 1280, 1, 1),
            (256, 1, 1),
            (self.given_x, self.given_time, self.time_weight, self.time_bias, a["x"], s["x"], self.times),
        )
        launch("first1", a["x"], nh, nh, nh, s["x"], nf, *g["first1"], w["first1"], t[0], nh, a["f1"], s["f1"])
        launch(
            "first2",
            a["f1"],
            nh,
            nh,
            nh,
            s["f1"],
            nf,
            *g["first2"],
            w["first2"],
            b["first2"],
            a["x"],
            a["kept"],
            s["kept"],
        )
        launch("down", a["kept"], nh, nh, nh, nf, nf, nf, nf, w["down"], b["down"], nh, a["d"], s["d"])
        launch("middle1", a["d"], nh, nh, nh, s["d"], nf, *g["middle1"], w["middle1"], t[1], nh, a["m1"], s["m1"])
        launch(
            "middle2", a["m1"], nh, a["d"], nh, s["m1"], nf, *g["middle2"], w["middle2"], b["middle2"], nh, a["m2"], nf
        )
        launch("up", a["m2"], nh, nh, nh, nf, nf, nf, nf, w["up"], b["up"], nh, a["u"], s["u"])
        launch(
            "last1", a["u"], a["kept"], nh, nh, s["u"], s["kept"], *g["last1"], w["last1"], t[2], nh, a["l1"], s["l1"]
        )

    def tail(self, out):
        """Launch the last convolution, which writes (4, 320, 64, 64) floats into `out`."""
        a, s = self.acts, self.stat
        nh, nf = self.none_half, self.none_float
        launch(
            "last2",
            a["l1"],
            nh,
            a["u"],
            a["kept"],
            s["l1"],
            nf,
            *self.norms["last2"],
            self.packed["last2"],
            self.biases["last2"],
            nh,
            out,
            nf,
        )

    def record(self, x, time):
        """Prepare, run everything once on a side stream to warm up, then capture `body` in a CUDA graph."""
        self.prepare(x.device)
        self.given_x.copy_(x)
        self.given_time.copy_(time)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.body()
            self.tail(torch.empty_like(self.given_x))
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.body()
        self.graph = graph

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        """(4, 320, 64, 64) features and (4, 1280) time embeddings to a new float32 (4, 320, 64, 64) tensor."""
        if self.graph is None:
            self.record(x, time)
        self.given_x.copy_(x)
        self.given_time.copy_(time)
        self.graph.replay()
        # the last kernel is launched behind the graph, so it writes straight into a fresh tensor
        out = torch.empty_like(self.given_x)
        self.tail(out)
        return out
