"""Seven MBConv blocks, stem, head and classifier as one kernel; twelve thread blocks for each image.

What it does: the network of `level3-pike/23` on images of 3 x 240 x 240, any number of them. Batch
norms are folded into the weights in 64 bits when the weights are taken over.

What made it fast: one cooperative launch does everything. Twelve thread blocks share an image and
wait only for one another, at barriers of their own. While they wait, they load the next weights. In
blocks 1 to 4 the depthwise filter runs on tensor cores (`mma`), with diagonal matrices of weights.
So the sums of one product are, after ReLU6, the operands of the next, in the same registers. Blocks
5 to 7 are cut by channels: a thread block filters its slice over the whole map. Then all narrow.

Accuracy: images, weights of the products, depthwise weights of blocks 1 to 4, the stem's map, wide
maps, each block's result and the mean are rounded to 16 bits. Sums, biases, depthwise weights of
blocks 5 to 7, the head's map and the logits have 32 bits.

Limits: these seven blocks, float32 images of 3 x 240 x 240, inference only, compute capability 9.0
(Hopper). The launch needs all multiprocessors at once. One stream at a time for each module. Weights
are taken over once, by `from_reference`; a later change is not noticed. No other way than the kernel.

Author: a coding agent, in a search by the strategy pike-x (result.json says which).
Licence: Apache-2.0.
"""

import torch
from torch.utils.cpp_extension import load_inline

DECLARATION = "torch::Tensor run_net(torch::Tensor x, torch::Tensor blob, torch::Tensor ws, torch::Tensor bar);"
SOURCE = r"""
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/extension.h>
#include <cuda_fp16.h>

typedef __half hf;
constexpr int THREADS = 512, WARPS = 16, GROUP = 12;

// ---- sizes of the packed weights ----
constexpr int mb_bytes(int cp, int wide, int np) { return wide * cp * 2 + wide * np * 2 + wide * 44 + np * 4; }
constexpr int sa_bytes(int cin, int sl) { return sl * cin * 2 + sl * 44; }
constexpr int pg_bytes(int kt, int nt) { return nt * kt * 256 + nt * 32; }
constexpr int BY1 = 7744;
constexpr int BY2 = mb_bytes(16, 96, 32);
constexpr int BY3 = mb_bytes(32, 144, 48);
constexpr int BY4 = mb_bytes(48, 240, 80);
constexpr int BY5A = sa_bytes(80, 40), BY5B = pg_bytes(30, 5);
constexpr int BY6A = sa_bytes(112, 56), BY6B = pg_bytes(42, 4);
constexpr int BY7A = sa_bytes(192, 96), BY7B = pg_bytes(72, 4);
constexpr int BYH = pg_bytes(20, 16);
constexpr int BYC = pg_bytes(80, 1);
constexpr int O1 = 0;
constexpr int O2 = O1 + BY1;
constexpr int O3 = O2 + BY2;
constexpr int O4 = O3 + BY3;
constexpr int O5A = O4 + BY4;
constexpr int O5B = O5A + 12 * BY5A;
constexpr int O6A = O5B + 3 * BY5B;
constexpr int O6B = O6A + 12 * BY6A;
constexpr int O7A = O6B + 6 * BY6B;
constexpr int O7B = O7A + 12 * BY7A;
constexpr int OH = O7B + 10 * BY7B;
constexpr int OC = OH + 10 * BYH;
constexpr int BLOB = OC + 125 * BYC;
constexpr int SMEM = 222208;

struct Params {
  const float* x;
  const char* blob;
  unsigned* bar;
  float* out;
  hf *y1, *y2, *y3, *y4, *z5, *y5, *z6, *y6, *z7, *y7, *pool;
  int batch;
};

// ---- small helpers ----
__device__ __forceinline__ unsigned saddr(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }
__device__ __forceinline__ void cp16(void* s, const void* g) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(saddr(s)), "l"(g) : "memory");
}
__device__ __forceinline__ void cp_wait() { asm volatile("cp.async.wait_all;\n" ::: "memory"); }
__device__ __forceinline__ void load_blob(char* sm, const char* g, int bytes) {
  for (int i = threadIdx.x * 16; i < bytes; i += THREADS * 16) cp16(sm + i, g + i);
}
__device__ __forceinline__ float relu(float v) {
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(v), "f"(0.0f));
  return r;
}
__device__ __forceinline__ unsigned pack(float a, float b) {
  __half2 h = __floats2half2_rn(a, b);
  return *reinterpret_cast<unsigned*>(&h);
}
// two floats to halves with ReLU, in one instruction
__device__ __forceinline__ unsigned pack_relu(float a, float b) {
  unsigned r;
  asm("cvt.rn.relu.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a));
  return r;
}
__device__ __forceinline__ unsigned pack_relu6(float a, float b) {
  unsigned r;
  asm("min.NaN.f16x2 %0, %1, %2;" : "=r"(r) : "r"(pack_relu(a, b)), "r"(0x46004600u));
  return r;
}
__device__ __forceinline__ float2 unpack(unsigned u) { return __half22float2(*reinterpret_cast<__half2*>(&u)); }
__device__ __forceinline__ void mma4(float* c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
                                     unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void mma(float* c, const unsigned* a, uint2 b) {
  mma4(c, a[0], a[1], a[2], a[3], b.x, b.y);
}
__device__ __forceinline__ void mma_k8(float* c, unsigned a0, unsigned a1, unsigned b0) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(b0));
}
// four 8 x 8 matrices; s: this lane's row address
__device__ __forceinline__ void ldm_at(unsigned* a, unsigned s) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
               : "r"(s)
               : "memory");
}
// p: start of a 16 x 16 tile of halves, row-major with the given pitch
__device__ __forceinline__ void ldm4(unsigned* a, const hf* p, int pitch) {
  const int lane = threadIdx.x & 31;
  ldm_at(a, saddr(p + (lane & 15) * pitch + (lane >> 4) * 8));
}
__device__ __forceinline__ uint2 ldcg2(const hf* p) { return __ldcg(reinterpret_cast<const uint2*>(p)); }

// ---- barrier of the 12 blocks of an image; a counter for each stage, cleared one stage later ----
__device__ __forceinline__ void group_arrive(unsigned* counter) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(counter), "r"(1u) : "memory");
  }
}
__device__ __forceinline__ void group_await(unsigned* counter, unsigned* stale) {
  cp_wait();
  if (threadIdx.x == 0) {
    unsigned v;
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(counter) : "memory");
    } while (v < (unsigned)GROUP);
    if (stale != nullptr) *reinterpret_cast<volatile unsigned*>(stale) = 0u;
  }
  __syncthreads();
}

// ---- barrier of the whole grid, in two halves ----
__device__ __forceinline__ unsigned arrive(unsigned* bar) {
  __syncthreads();
  unsigned old = 0;
  if (threadIdx.x == 0) {
    __threadfence();
    const unsigned inc = blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1u;
    old = atomicAdd(bar, inc);
  }
  return old;
}
__device__ __forceinline__ void await_all(unsigned* bar, unsigned old) {
  cp_wait();
  if (threadIdx.x == 0) {
    unsigned v;
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(bar) : "memory");
    } while (((v ^ old) & 0x80000000u) == 0);
    __threadfence();
  }
  __syncthreads();
}

// ---- depthwise 3 x 3 on FP32 units (small maps): four channels, a column of ROWS outputs ----
template <int S, int ROWS, int WSTR, class F>
__device__ __forceinline__ void dw_strip(const hf* src, int rowp, int pxp, const float* w, const float* b, F store) {
  float wt[9][4];
#pragma unroll
  for (int k = 0; k < 9; ++k) {
    const float4 f = *reinterpret_cast<const float4*>(w + k * WSTR);
    wt[k][0] = f.x; wt[k][1] = f.y; wt[k][2] = f.z; wt[k][3] = f.w;
  }
  const float4 bb = *reinterpret_cast<const float4*>(b);
  float acc[ROWS][4];
#pragma unroll
  for (int o = 0; o < ROWS; ++o) { acc[o][0] = bb.x; acc[o][1] = bb.y; acc[o][2] = bb.z; acc[o][3] = bb.w; }
#pragma unroll
  for (int i = 0; i < (ROWS - 1) * S + 3; ++i) {
    float v[3][4];
#pragma unroll
    for (int kx = 0; kx < 3; ++kx) {
      const uint2 u = *reinterpret_cast<const uint2*>(src + i * rowp + kx * pxp);
      const float2 f0 = unpack(u.x), f1 = unpack(u.y);
      v[kx][0] = f0.x; v[kx][1] = f0.y; v[kx][2] = f1.x; v[kx][3] = f1.y;
    }
#pragma unroll
    for (int ky = 0; ky < 3; ++ky) {
      if (i - ky >= 0 && (i - ky) % S == 0 && (i - ky) / S < ROWS) {
        const int o = (i - ky) / S;
#pragma unroll
        for (int kx = 0; kx < 3; ++kx)
#pragma unroll
          for (int e = 0; e < 4; ++e) acc[o][e] = fmaf(v[kx][e], wt[ky * 3 + kx][e], acc[o][e]);
      }
    }
    if (i >= 2 && (i - 2) % S == 0 && (i - 2) / S < ROWS) {
      const int o = (i - 2) / S;
      uint2 r;
      r.x = pack_relu6(acc[o][0], acc[o][1]);
      r.y = pack_relu6(acc[o][2], acc[o][3]);
      store(o, r);
    }
  }
}

// ---- stage 1: stem and block 1, tiles of 30 x 40 ----
__device__ __forceinline__ void stage1(const Params& P, char* sm, int first, int step, int q) {
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5, g = lane >> 2, t4 = lane & 3;
  const uint2* fs = reinterpret_cast<const uint2*>(sm);
  const uint2* fe = reinterpret_cast<const uint2*>(sm + 3072);
  const uint2* fp = reinterpret_cast<const uint2*>(sm + 5120);
  const float* sb = reinterpret_cast<const float*>(sm + 6144);
  const float* eb = sb + 32;
  const unsigned* wq = reinterpret_cast<const unsigned*>(eb + 32);
  const float* db = eb + 32 + 288;
  const float* pb = db + 32;
  hf* wide = reinterpret_cast<hf*>(sm + BY1);  // 1344 x 40
  hf* patch = wide + 1344 * 40;                // 65 x 85 x 4
  int offA[3], offB[2];
#pragma unroll
  for (int k = 0; k < 3; ++k) {
    const int tap = k * 4 + (t4 >> 1);
    offA[k] = ((tap / 3) * 85 + tap % 3) * 4 + (t4 & 1) * 2;
    if (k < 2) {
      const int tb = tap + 2;
      offB[k] = ((tb / 3) * 85 + tb % 3) * 4 + (t4 & 1) * 2;
    }
  }
  const int r0 = (q / 3) * 30, c0 = (q % 3) * 40;
  for (int img = first; img < P.batch; img += step) {
    if (img != first) __syncthreads();
    const float* xin = P.x + (long long)img * 3 * 57600;
    const int ir0 = 2 * r0 - 3, ic0 = 2 * c0 - 3;
    for (int base = 0; base < 5525; base += THREADS * 4) {
      float v[4][3];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int i = base + j * THREADS + tid;
        const int pr = i / 85, pc = i - pr * 85;
        const int gr = ir0 + pr, gc = ic0 + pc;
        const bool ok = i < 5525 && gr >= 0 && gr < 240 && gc >= 0 && gc < 240;
        const float* p = xin + gr * 240 + gc;
        v[j][0] = ok ? __ldg(p) : 0.0f;
        v[j][1] = ok ? __ldg(p + 57600) : 0.0f;
        v[j][2] = ok ? __ldg(p + 115200) : 0.0f;
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int i = base + j * THREADS + tid;
        if (i < 5525) {
          uint2 u;
          u.x = pack(v[j][0], v[j][1]);
          u.y = pack(v[j][2], 0.0f);
          *reinterpret_cast<uint2*>(patch + i * 4) = u;
        }
      }
    }
    cp_wait();
    __syncthreads();
    for (int mt = warp; mt < 84; mt += WARPS) {
      const int p0 = mt * 16 + g, p1 = p0 + 8;
      const int h0 = p0 / 42, w0 = p0 - h0 * 42, h1 = p1 / 42, w1 = p1 - h1 * 42;
      const hf* s0 = patch + (2 * h0 * 85 + 2 * w0) * 4;
      const hf* s1 = patch + (2 * h1 * 85 + 2 * w1) * 4;
      float c[4][4];
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const float2 b = *reinterpret_cast<const float2*>(sb + n * 8 + 2 * t4);
        c[n][0] = b.x; c[n][1] = b.y; c[n][2] = b.x; c[n][3] = b.y;
      }
#pragma unroll
      for (int k = 0; k < 3; ++k) {
        unsigned a[4] = {0u, 0u, 0u, 0u};
        if (k < 2 || t4 < 2) {
          a[0] = *reinterpret_cast<const unsigned*>(s0 + offA[k]);
          a[1] = *reinterpret_cast<const unsigned*>(s1 + offA[k]);
        }
        if (k < 2) {
          a[2] = *reinterpret_cast<const unsigned*>(s0 + offB[k < 2 ? k : 0]);
          a[3] = *reinterpret_cast<const unsigned*>(s1 + offB[k < 2 ? k : 0]);
        }
        __syncwarp();
#pragma unroll
        for (int n = 0; n < 4; ++n) mma(c[n], a, fs[(n * 3 + k) * 32 + lane]);
      }
      unsigned a[2][4];
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        a[k][0] = pack_relu(c[2 * k][0], c[2 * k][1]);
        a[k][1] = pack_relu(c[2 * k][2], c[2 * k][3]);
        a[k][2] = pack_relu(c[2 * k + 1][0], c[2 * k + 1][1]);
        a[k][3] = pack_relu(c[2 * k + 1][2], c[2 * k + 1][3]);
      }
      const int gr0 = r0 - 1 + h0, gc0 = c0 - 1 + w0, gr1 = r0 - 1 + h1, gc1 = c0 - 1 + w1;
      const bool in0 = gr0 >= 0 && gr0 < 120 && gc0 >= 0 && gc0 < 120;
      const bool in1 = gr1 >= 0 && gr1 < 120 && gc1 >= 0 && gc1 < 120;
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const float2 b = *reinterpret_cast<const float2*>(eb + n * 8 + 2 * t4);
        float e[4] = {b.x, b.y, b.x, b.y};
        mma(e, a[0], fe[(n * 2 + 0) * 32 + lane]);
        mma(e, a[1], fe[(n * 2 + 1) * 32 + lane]);
        *reinterpret_cast<unsigned*>(wide + p0 * 40 + n * 8 + 2 * t4) = in0 ? pack_relu6(e[0], e[1]) : 0u;
        *reinterpret_cast<unsigned*>(wide + p1 * 40 + n * 8 + 2 * t4) = in1 ? pack_relu6(e[2], e[3]) : 0u;
      }
    }
    __syncthreads();
    // depthwise and projection in registers: a warp has 8 columns and 10 rows, as five products of 2 x 8 pixels
    if (warp < 15) {
      const int seg = warp / 5, cgp = warp - seg * 5;
      const bool diag = t4 == (g >> 1);
      float pc[5][2][4];
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const float2 b = *reinterpret_cast<const float2*>(pb + n * 8 + 2 * t4);
#pragma unroll
        for (int i = 0; i < 5; ++i) { pc[i][n][0] = b.x; pc[i][n][1] = b.y; pc[i][n][2] = b.x; pc[i][n][3] = b.y; }
      }
      const int mj = lane >> 3;
#pragma unroll 1
      for (int ch = 0; ch < 2; ++ch) {
        unsigned w[9][2];
#pragma unroll
        for (int t = 0; t < 9; ++t)
#pragma unroll
          for (int n = 0; n < 2; ++n) {
            const unsigned word = wq[t * 32 + ch * 16 + n * 8 + g];
            w[t][n] = diag ? word : 0u;
          }
        const float2 b0 = *reinterpret_cast<const float2*>(db + ch * 16 + 2 * t4);
        const float2 b1 = *reinterpret_cast<const float2*>(db + ch * 16 + 8 + 2 * t4);
        const unsigned base =
            saddr(wide + ((seg * 10 + (mj & 1)) * 42 + cgp * 8 + (lane & 7)) * 40 + ch * 16 + (mj >> 1) * 8);
        const uint2 f0 = fp[(0 + ch) * 32 + lane], f1 = fp[(2 + ch) * 32 + lane];
        unsigned in[4][3][2];
#pragma unroll
        for (int kx = 0; kx < 3; ++kx) {
          unsigned f[4];
          ldm_at(f, base + kx * 80);
          in[0][kx][0] = f[0]; in[1][kx][0] = f[1]; in[0][kx][1] = f[2]; in[1][kx][1] = f[3];
        }
#pragma unroll
        for (int i = 0; i < 5; ++i) {
#pragma unroll
          for (int kx = 0; kx < 3; ++kx) {
            unsigned f[4];
            ldm_at(f, base + ((2 * i + 2) * 42 + kx) * 80);
            in[2][kx][0] = f[0]; in[3][kx][0] = f[1]; in[2][kx][1] = f[2]; in[3][kx][1] = f[3];
          }
          float d[2][4] = {{b0.x, b0.y, b0.x, b0.y}, {b1.x, b1.y, b1.x, b1.y}};
#pragma unroll
          for (int t = 0; t < 8; t += 2) {
            const int ya = t / 3, xa = t % 3, yb = (t + 1) / 3, xb = (t + 1) % 3;
#pragma unroll
            for (int n = 0; n < 2; ++n)
              mma4(d[n], in[ya][xa][n], in[ya + 1][xa][n], in[yb][xb][n], in[yb + 1][xb][n], w[t][n], w[t + 1][n]);
          }
#pragma unroll
          for (int n = 0; n < 2; ++n) mma_k8(d[n], in[2][2][n], in[3][2][n], w[8][n]);
          unsigned a[4];
          a[0] = pack_relu6(d[0][0], d[0][1]);
          a[1] = pack_relu6(d[0][2], d[0][3]);
          a[2] = pack_relu6(d[1][0], d[1][1]);
          a[3] = pack_relu6(d[1][2], d[1][3]);
          mma(pc[i][0], a, f0);
          mma(pc[i][1], a, f1);
#pragma unroll
          for (int kx = 0; kx < 3; ++kx)
#pragma unroll
            for (int n = 0; n < 2; ++n) {
              in[0][kx][n] = in[2][kx][n];
              in[1][kx][n] = in[3][kx][n];
            }
        }
      }
      hf* d0 = P.y1 + (((long long)img * 120 + r0 + seg * 10) * 120 + c0 + cgp * 8 + g) * 16 + 2 * t4;
#pragma unroll
      for (int i = 0; i < 5; ++i) {
#pragma unroll
        for (int n = 0; n < 2; ++n) {
          *reinterpret_cast<unsigned*>(d0 + (2 * i) * 1920 + n * 8) = pack(pc[i][n][0], pc[i][n][1]);
          *reinterpret_cast<unsigned*>(d0 + (2 * i + 1) * 1920 + n * 8) = pack(pc[i][n][2], pc[i][n][3]);
        }
      }
    }
  }
}

// ---- stages 2 to 4: a block of stride 2 on a spatial tile; expansion and depthwise chained in registers ----
template <int CP, int WIDE, int NP, int HI, int TH, int TW>
__device__ __forceinline__ void block_tile(const hf* in, hf* out, char* sm, int batch, int first, int step, int q) {
  constexpr int HO = HI / 2, HW = 2 * TW + 1, HH = 2 * TH + 1, HP = HH * HW, HE = TW + 1;
  constexpr int PA = CP + 8, PW = WIDE + 8, RT = (HO + TH - 1) / TH, CT = HO / TW, KT = CP / 16, KP = WIDE / 16;
  constexpr int PX = TH * TW, MTO = (PX + 15) / 16, NG = WIDE / 16, CH = CP / 8;
  static_assert(RT * CT == GROUP, "one tile for each block of the group");
  static_assert(HI % 2 == 0, "only the first row and column touch the border");
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5, g = lane >> 2, t4 = lane & 3;
  const uint2* fe = reinterpret_cast<const uint2*>(sm);
  const uint2* fp = reinterpret_cast<const uint2*>(sm + WIDE * CP * 2);
  const float* eb = reinterpret_cast<const float*>(sm + WIDE * CP * 2 + WIDE * NP * 2);
  const unsigned* wq = reinterpret_cast<const unsigned*>(eb + WIDE);
  const float* db = eb + 10 * WIDE;
  const float* pb = db + WIDE;
  hf* as = reinterpret_cast<hf*>(sm + mb_bytes(CP, WIDE, NP));
  hf* dwo = as + HP * PA;
  static_assert(mb_bytes(CP, WIDE, NP) % 16 == 0, "alignment");
  static_assert(mb_bytes(CP, WIDE, NP) + 2 * (HP * PA + MTO * 16 * PW) <= SMEM, "shared memory");
  const int r0 = (q / CT) * TH, c0 = (q % CT) * TW;
  const bool diag = t4 == (g >> 1);
  for (int img = first; img < batch; img += step) {
    if (img != first) __syncthreads();
    // even columns first, then the odd ones, so that a tap's pixels are neighbours
    for (int i = tid; i < HP * CH; i += THREADS) {
      const int p = i / CH, j = i - p * CH, pr = p / HW, pc = p - pr * HW;
      const int gr = 2 * r0 - 1 + pr, gc = 2 * c0 - 1 + pc;
      if (gr >= 0 && gr < HI && gc >= 0 && gc < HI)
        cp16(as + (pr * HW + (pc >> 1) + (pc & 1) * HE) * PA + j * 8,
             in + (((long long)img * HI + gr) * HI + gc) * CP + j * 8);
    }
    cp_wait();
    __syncthreads();
    for (int u = warp; u < MTO * NG; u += WARPS) {
      const int mt = u / NG, ng = u - mt * NG;
      int lp = mt * 16 + (lane & 15);
      lp = lp < PX ? lp : 0;
      const int lr = lp / TW, lc = lp - lr * TW;
      const unsigned base = saddr(as + (2 * lr * HW + lc) * PA + (lane >> 4) * 8);
      const int p0 = mt * 16 + g, p1 = p0 + 8;
      const int y0 = p0 / TW, x0 = p0 - y0 * TW, y1 = p1 / TW, x1 = p1 - y1 * TW;
      const unsigned top0 = r0 + y0 == 0 ? 0u : 0xffffffffu, left0 = c0 + x0 == 0 ? 0u : 0xffffffffu;
      const unsigned top1 = r0 + y1 == 0 ? 0u : 0xffffffffu, left1 = c0 + x1 == 0 ? 0u : 0xffffffffu;
      uint2 be[2][KT];
      float2 bb[2];
      float d[2][4];
#pragma unroll
      for (int n = 0; n < 2; ++n) {
#pragma unroll
        for (int k = 0; k < KT; ++k) be[n][k] = fe[((ng * 2 + n) * KT + k) * 32 + lane];
        bb[n] = *reinterpret_cast<const float2*>(eb + ng * 16 + n * 8 + 2 * t4);
        const float2 b = *reinterpret_cast<const float2*>(db + ng * 16 + n * 8 + 2 * t4);
        d[n][0] = b.x; d[n][1] = b.y; d[n][2] = b.x; d[n][3] = b.y;
      }
      unsigned held[2][2], held_w[2];
#pragma unroll
      for (int t = 0; t < 9; ++t) {
        const int ky = t / 3, kx = t % 3;
        const int off = (ky * HW + (kx == 1 ? HE : kx / 2)) * PA * 2;
        float c[2][4];
#pragma unroll
        for (int n = 0; n < 2; ++n) { c[n][0] = bb[n].x; c[n][1] = bb[n].y; c[n][2] = bb[n].x; c[n][3] = bb[n].y; }
#pragma unroll
        for (int k = 0; k < KT; ++k) {
          unsigned f[4];
          ldm_at(f, base + off + k * 32);
#pragma unroll
          for (int n = 0; n < 2; ++n) mma(c[n], f, be[n][k]);
        }
#pragma unroll
        for (int n = 0; n < 2; ++n) {
          unsigned lo = pack_relu6(c[n][0], c[n][1]), hi = pack_relu6(c[n][2], c[n][3]);
          if (ky == 0) { lo &= top0; hi &= top1; }
          if (kx == 0) { lo &= left0; hi &= left1; }
          const unsigned word = wq[t * WIDE + ng * 16 + n * 8 + g];
          const unsigned w = diag ? word : 0u;
          if (t == 8) {
            mma_k8(d[n], lo, hi, w);
          } else if (t & 1) {
            mma4(d[n], held[n][0], held[n][1], lo, hi, held_w[n], w);
          } else {
            held[n][0] = lo;
            held[n][1] = hi;
            held_w[n] = w;
          }
        }
      }
      hf* o = dwo + p0 * PW + ng * 16 + 2 * t4;
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        *reinterpret_cast<unsigned*>(o + n * 8) = pack_relu6(d[n][0], d[n][1]);
        *reinterpret_cast<unsigned*>(o + 8 * PW + n * 8) = pack_relu6(d[n][2], d[n][3]);
      }
    }
    __syncthreads();
    for (int u = warp; u < MTO * (NP / 8); u += WARPS) {
      const int n = u / MTO, mt = u - n * MTO;
      const float2 b = *reinterpret_cast<const float2*>(pb + n * 8 + 2 * t4);
      float c[4] = {b.x, b.y, b.x, b.y};
      float d2[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
      for (int k = 0; k < KP; ++k) {
        unsigned f[4];
        ldm4(f, dwo + mt * 16 * PW + k * 16, PW);
        mma((k & 1) ? d2 : c, f, fp[(n * KP + k) * 32 + lane]);
      }
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int p = mt * 16 + g + h * 8, r = p / TW, cc = p - r * TW;
        if (p < PX && r0 + r < HO)
          *reinterpret_cast<unsigned*>(out + (((long long)img * HO + r0 + r) * HO + c0 + cc) * NP + n * 8 + 2 * t4) =
              pack(c[2 * h] + d2[2 * h], c[2 * h + 1] + d2[2 * h + 1]);
      }
    }
  }
}

// ---- expand and depthwise of one image and one slice of the wide channels ----
template <int CIN, int SL, int H, int PW>
__device__ __forceinline__ void zero_wide(char* sm) {
  constexpr int N = (H + 2) * (H + 2) * PW * 2 / 16;
  uint4* d = reinterpret_cast<uint4*>(sm + sa_bytes(CIN, SL));
  for (int i = threadIdx.x; i < N; i += THREADS) d[i] = make_uint4(0u, 0u, 0u, 0u);
}

template <int CIN, int WIDE, int SL, int H, int S, int ROWS, int PW, bool STAGED>
__device__ __forceinline__ void slice_stage(const hf* in, hf* z, char* sm, int batch, int first, int step, int sl) {
  constexpr int KT = CIN / 16, NT = SL / 8, HO = (H + S - 1) / S, PX = H * H, MT = (PX + 15) / 16;
  constexpr int CG = SL / 4, SEGS = HO / ROWS, PA = CIN + 8, BYTES = sa_bytes(CIN, SL);
  static_assert(WIDE == SL * GROUP, "one slice for each block of the group");
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5, g = lane >> 2, t4 = lane & 3;
  const uint2* fe = reinterpret_cast<const uint2*>(sm);
  const float* eb = reinterpret_cast<const float*>(sm + SL * CIN * 2);
  const float* dw = eb + SL;
  const float* db = dw + 9 * SL;
  hf* wide = reinterpret_cast<hf*>(sm + BYTES);
  hf* as = wide + (H + 2) * (H + 2) * PW;
  for (int img = first; img < batch; img += step) {
    if (img != first) __syncthreads();
    const hf* src = in + (long long)img * PX * CIN;
    if constexpr (STAGED) {
      constexpr int CH = CIN / 8, GN = WARPS / MT, NPW = NT / GN;
      for (int i = tid; i < PX * CH; i += THREADS) {
        const int p = i / CH, j = i - p * CH;
        cp16(as + p * PA + j * 8, src + p * CIN + j * 8);
      }
      cp_wait();
      __syncthreads();
      const int mi = warp % MT, ng = warp / MT;
      float c[NPW][4];
#pragma unroll
      for (int n = 0; n < NPW; ++n) {
        const float2 b = *reinterpret_cast<const float2*>(eb + (ng * NPW + n) * 8 + 2 * t4);
        c[n][0] = b.x; c[n][1] = b.y; c[n][2] = b.x; c[n][3] = b.y;
      }
#pragma unroll
      for (int k = 0; k < KT; ++k) {
        unsigned f[4];
        ldm4(f, as + mi * 16 * PA + k * 16, PA);
#pragma unroll
        for (int n = 0; n < NPW; ++n) mma(c[n], f, fe[((ng * NPW + n) * KT + k) * 32 + lane]);
      }
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int p = mi * 16 + g + h * 8, r = p / H, cc = p - r * H;
        hf* d = wide + ((r + 1) * (H + 2) + cc + 1) * PW + ng * NPW * 8 + 2 * t4;
#pragma unroll
        for (int n = 0; n < NPW; ++n)
          *reinterpret_cast<unsigned*>(d + n * 8) = pack_relu6(c[n][2 * h], c[n][2 * h + 1]);
      }
    } else {
      if (warp < MT) {
        unsigned a[KT][4];
        const int p0 = warp * 16 + g, p1 = p0 + 8;
#pragma unroll
        for (int k = 0; k < KT; ++k) {
          uint2 u = make_uint2(0u, 0u), v = make_uint2(0u, 0u);
          if (p0 < PX) u = ldcg2(src + p0 * CIN + k * 16 + 4 * t4);
          if (p1 < PX) v = ldcg2(src + p1 * CIN + k * 16 + 4 * t4);
          a[k][0] = u.x; a[k][1] = v.x; a[k][2] = u.y; a[k][3] = v.y;
        }
        __syncwarp();
        float c[NT][4];
#pragma unroll
        for (int n = 0; n < NT; ++n) {
          const float2 b = *reinterpret_cast<const float2*>(eb + n * 8 + 2 * t4);
          c[n][0] = b.x; c[n][1] = b.y; c[n][2] = b.x; c[n][3] = b.y;
        }
#pragma unroll
        for (int k = 0; k < KT; ++k)
#pragma unroll
          for (int n = 0; n < NT; ++n) mma(c[n], a[k], fe[(n * KT + k) * 32 + lane]);
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int p = p0 + h * 8, r = p / H, cc = p - r * H;
          if (p < PX) {
            hf* d = wide + ((r + 1) * (H + 2) + cc + 1) * PW + 2 * t4;
#pragma unroll
            for (int n = 0; n < NT; ++n)
              *reinterpret_cast<unsigned*>(d + n * 8) = pack_relu6(c[n][2 * h], c[n][2 * h + 1]);
          }
        }
      }
    }
    __syncthreads();
    for (int i = tid; i < HO * CG * SEGS; i += THREADS) {
      const int rest = i / CG, cg = i - rest * CG, seg = rest / HO, col = rest - seg * HO;
      hf* o0 = z + ((long long)img * HO * HO + seg * ROWS * HO + col) * WIDE + sl * SL + cg * 4;
      dw_strip<S, ROWS, SL>(wide + (seg * ROWS * S * (H + 2) + col * S) * PW + cg * 4, (H + 2) * PW, PW, dw + cg * 4,
                            db + cg * 4, [&](int o, uint2 r) { *reinterpret_cast<uint2*>(o0 + o * HO * WIDE) = r; });
    }
  }
}

// ---- one tile of a narrow GEMM: warps split rows and K, operands A straight from L2 to registers ----
template <int KT, int NT, int MT, int KG, int NREAL, bool F32>
__device__ __forceinline__ void project_tile(const hf* a, void* out, char* sm, int M, int mb, int sl) {
  static_assert(MT * KG == WARPS, "warps");
  constexpr int BYTES = pg_bytes(KT, NT), KPW = (KT + KG - 1) / KG, BT = KPW <= 8 ? KPW : 6, K = KT * 16;
  constexpr int PITCH = NT * 8 + ((NT * 8) % 16 == 0 ? 8 : 0);
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5, g = lane >> 2, t4 = lane & 3;
  const uint2* fb = reinterpret_cast<const uint2*>(sm);
  const float* bias = reinterpret_cast<const float*>(sm + NT * KT * 256);
  float* red = reinterpret_cast<float*>(sm + BYTES);
  const int mi = warp % MT, kg = warp / MT;
  const int r0 = (mb * MT + mi) * 16 + g, r1 = r0 + 8;
  const hf* s0 = a + (long long)r0 * K + 4 * t4;
  const hf* s1 = a + (long long)r1 * K + 4 * t4;
  float c[NT][4];
#pragma unroll
  for (int n = 0; n < NT; ++n) c[n][0] = c[n][1] = c[n][2] = c[n][3] = 0.0f;
#pragma unroll
  for (int jb = 0; jb < KPW; jb += BT) {
    unsigned f[BT][4];
#pragma unroll
    for (int j = 0; j < BT; ++j) {
      const int kt = kg + (jb + j) * KG;
      uint2 u = make_uint2(0u, 0u), v = make_uint2(0u, 0u);
      if (kt < KT && r0 < M) u = ldcg2(s0 + kt * 16);
      if (kt < KT && r1 < M) v = ldcg2(s1 + kt * 16);
      f[j][0] = u.x; f[j][1] = v.x; f[j][2] = u.y; f[j][3] = v.y;
    }
    __syncwarp();
#pragma unroll
    for (int j = 0; j < BT; ++j) {
      const int kt = kg + (jb + j) * KG;
      if (kt < KT) {
#pragma unroll
        for (int n = 0; n < NT; ++n) mma(c[n], f[j], fb[(n * KT + kt) * 32 + lane]);
      }
    }
  }
  float* w = red + (kg * MT * 16 + mi * 16 + g) * PITCH + 2 * t4;
#pragma unroll
  for (int n = 0; n < NT; ++n) {
    *reinterpret_cast<float2*>(w + n * 8) = make_float2(c[n][0], c[n][1]);
    *reinterpret_cast<float2*>(w + 8 * PITCH + n * 8) = make_float2(c[n][2], c[n][3]);
  }
  __syncthreads();
  for (int i = tid; i < MT * 16 * NT * 4; i += THREADS) {
    const int r = i / (NT * 4), cp = i - r * (NT * 4), col = sl * NT * 8 + cp * 2, row = mb * MT * 16 + r;
    if (row < M && col < NREAL) {
      float2 s = *reinterpret_cast<const float2*>(bias + cp * 2);
#pragma unroll
      for (int k = 0; k < KG; ++k) {
        const float2 v = *reinterpret_cast<const float2*>(red + (k * MT * 16 + r) * PITCH + cp * 2);
        s.x += v.x;
        s.y += v.y;
      }
      if constexpr (F32)
        *reinterpret_cast<float2*>(reinterpret_cast<float*>(out) + (long long)row * NREAL + col) = s;
      else
        *reinterpret_cast<unsigned*>(reinterpret_cast<hf*>(out) + (long long)row * NREAL + col) = pack(s.x, s.y);
    }
  }
}

// the projection of an image, split into rows and slices over the blocks of its group
template <int KT, int NT, int MT, int KG, int NS, int NREAL, int M>
__device__ __forceinline__ void project_image(const hf* a, hf* out, char* sm, int batch, int first, int step, int m) {
  constexpr int MB = (M + MT * 16 - 1) / (MT * 16);
  static_assert(MB * NS <= GROUP, "one tile for each block of the group");
  if (m >= MB * NS) return;
  const int mb = m / NS, sl = m - mb * NS;
  for (int img = first; img < batch; img += step) {
    if (img != first) __syncthreads();
    project_tile<KT, NT, MT, KG, NREAL, false>(a + (long long)img * M * KT * 16, out + (long long)img * M * NREAL, sm,
                                               M, mb, sl);
  }
}

// ---- head: 320 -> 1280, ReLU, mean over the 64 pixels of an image ----
__device__ __forceinline__ void head_stage(const Params& P, char* sm, int first, int step, int sl) {
  constexpr int KT = 20, PA = 328;
  if (sl >= 10) return;
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5, g = lane >> 2, t4 = lane & 3;
  const uint2* fb = reinterpret_cast<const uint2*>(sm);
  const float* bias = reinterpret_cast<const float*>(sm + 16 * KT * 256);
  hf* as = reinterpret_cast<hf*>(sm + BYH);
  float* red = reinterpret_cast<float*>(sm + BYH + 64 * PA * 2);
  for (int img = first; img < P.batch; img += step) {
    if (img != first) __syncthreads();
    const hf* src = P.y7 + (long long)img * 64 * 320;
    for (int i = tid; i < 64 * 40; i += THREADS) {
      const int p = i / 40, j = i - p * 40;
      cp16(as + p * PA + j * 8, src + p * 320 + j * 8);
    }
    cp_wait();
    __syncthreads();
    const int mi = warp & 3, ng = warp >> 2;
    float c[4][4];
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const float2 b = *reinterpret_cast<const float2*>(bias + (ng * 4 + n) * 8 + 2 * t4);
      c[n][0] = b.x; c[n][1] = b.y; c[n][2] = b.x; c[n][3] = b.y;
    }
#pragma unroll 10
    for (int k = 0; k < KT; ++k) {
      unsigned f[4];
      ldm4(f, as + mi * 16 * PA + k * 16, PA);
#pragma unroll
      for (int n = 0; n < 4; ++n) mma(c[n], f, fb[((ng * 4 + n) * KT + k) * 32 + lane]);
    }
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      float s0 = relu(c[n][0]) + relu(c[n][2]), s1 = relu(c[n][1]) + relu(c[n][3]);
#pragma unroll
      for (int d = 4; d < 32; d *= 2) {
        s0 += __shfl_xor_sync(0xffffffffu, s0, d);
        s1 += __shfl_xor_sync(0xffffffffu, s1, d);
      }
      if (g == 0) *reinterpret_cast<float2*>(red + mi * 128 + (ng * 4 + n) * 8 + 2 * t4) = make_float2(s0, s1);
    }
    __syncthreads();
    if (tid < 128) {
      const float s = red[tid] + red[128 + tid] + red[256 + tid] + red[384 + tid];
      P.pool[(long long)img * 1280 + sl * 128 + tid] = __float2half_rn(s * (1.0f / 64.0f));
    }
  }
}

__global__ void __launch_bounds__(THREADS, 1) net_kernel(const Params P) {
  extern __shared__ __align__(128) char sm[];
  const int b = blockIdx.x;
  const int gi = b / GROUP, m = b - gi * GROUP, groups = gridDim.x / GROUP;
  const bool active = gi < groups && gi < P.batch;
  unsigned* cnt = P.bar + 32 + gi * 32;
  if (active) {
    load_blob(sm, P.blob + O1, BY1);
    stage1(P, sm, gi, groups, m);

    group_arrive(cnt + 0);
    load_blob(sm, P.blob + O2, BY2);
    group_await(cnt + 0, nullptr);
    block_tile<16, 96, 32, 120, 15, 20>(P.y1, P.y2, sm, P.batch, gi, groups, m);

    group_arrive(cnt + 1);
    load_blob(sm, P.blob + O3, BY3);
    group_await(cnt + 1, m == 0 ? cnt + 0 : nullptr);
    block_tile<32, 144, 48, 60, 15, 5>(P.y2, P.y3, sm, P.batch, gi, groups, m);

    group_arrive(cnt + 2);
    load_blob(sm, P.blob + O4, BY4);
    group_await(cnt + 2, m == 0 ? cnt + 1 : nullptr);
    block_tile<48, 240, 80, 30, 4, 5>(P.y3, P.y4, sm, P.batch, gi, groups, m);

    group_arrive(cnt + 3);
    load_blob(sm, P.blob + O5A + m * BY5A, BY5A);
    zero_wide<80, 40, 15, 40>(sm);
    group_await(cnt + 3, m == 0 ? cnt + 2 : nullptr);
    slice_stage<80, 480, 40, 15, 1, 5, 40, false>(P.y4, P.z5, sm, P.batch, gi, groups, m);

    group_arrive(cnt + 4);
    load_blob(sm, P.blob + O5B + (m % 3) * BY5B, BY5B);
    group_await(cnt + 4, m == 0 ? cnt + 3 : nullptr);
    project_image<30, 5, 4, 4, 3, 112, 225>(P.z5, P.y5, sm, P.batch, gi, groups, m);

    group_arrive(cnt + 5);
    load_blob(sm, P.blob + O6A + m * BY6A, BY6A);
    zero_wide<112, 56, 15, 56>(sm);
    group_await(cnt + 5, m == 0 ? cnt + 4 : nullptr);
    slice_stage<112, 672, 56, 15, 2, 2, 56, false>(P.y5, P.z6, sm, P.batch, gi, groups, m);

    group_arrive(cnt + 6);
    load_blob(sm, P.blob + O6B + (m % 6) * BY6B, BY6B);
    group_await(cnt + 6, m == 0 ? cnt + 5 : nullptr);
    project_image<42, 4, 2, 8, 6, 192, 64>(P.z6, P.y6, sm, P.batch, gi, groups, m);

    group_arrive(cnt + 7);
    load_blob(sm, P.blob + O7A + m * BY7A, BY7A);
    zero_wide<192, 96, 8, 104>(sm);
    group_await(cnt + 7, m == 0 ? cnt + 6 : nullptr);
    slice_stage<192, 1152, 96, 8, 1, 4, 104, true>(P.y6, P.z7, sm, P.batch, gi, groups, m);

    group_arrive(cnt + 8);
    load_blob(sm, P.blob + O7B + (m % 10) * BY7B, BY7B);
    group_await(cnt + 8, m == 0 ? cnt + 7 : nullptr);
    project_image<72, 4, 4, 4, 10, 320, 64>(P.z7, P.y7, sm, P.batch, gi, groups, m);

    group_arrive(cnt + 9);
    load_blob(sm, P.blob + OH + (m % 10) * BYH, BYH);
    group_await(cnt + 9, m == 0 ? cnt + 8 : nullptr);
    head_stage(P, sm, gi, groups, m);
  }

  const unsigned old = arrive(P.bar);
  load_blob(sm, P.blob + OC + (b % 125) * BYC, BYC);
  await_all(P.bar, old);
  if (active && m == 0 && threadIdx.x == 0) *reinterpret_cast<volatile unsigned*>(cnt + 9) = 0u;
  const int tiles = ((P.batch + 15) / 16) * 125;
  for (int t = b; t < tiles; t += gridDim.x) {
    const int mb = t / 125, sl = t - mb * 125;
    if (t != b) {
      __syncthreads();
      load_blob(sm, P.blob + OC + (long long)sl * BYC, BYC);
      cp_wait();
      __syncthreads();
    }
    project_tile<80, 1, 1, 16, 1000, true>(P.pool, P.out, sm, P.batch, mb, sl);
  }
}

torch::Tensor run_net(torch::Tensor x, torch::Tensor blob, torch::Tensor ws, torch::Tensor bar) {
  const c10::cuda::CUDAGuard guard(x.device());
  const int batch = static_cast<int>(x.size(0));
  TORCH_CHECK(blob.numel() == BLOB, "packed weights have ", blob.numel(), " bytes, not ", BLOB);
  TORCH_CHECK(ws.numel() >= 690784LL * batch, "the workspace is too small");
  auto out = torch::empty({batch, 1000}, x.options());
  if (batch == 0) return out;
  static int sms[64] = {0};
  const int dev = x.device().index();
  TORCH_CHECK(dev >= 0 && dev < 64, "device index");
  if (sms[dev] == 0) {
    C10_CUDA_CHECK(cudaFuncSetAttribute(net_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SMEM));
    int n = 0;
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&n, cudaDevAttrMultiProcessorCount, dev));
    sms[dev] = n;
  }
  TORCH_CHECK(sms[dev] >= GROUP, "too few multiprocessors");
  TORCH_CHECK(bar.numel() >= 32 + 32LL * (sms[dev] / GROUP + 1), "too few barrier counters");
  Params p;
  p.x = x.data_ptr<float>();
  p.blob = reinterpret_cast<const char*>(blob.data_ptr());
  p.bar = reinterpret_cast<unsigned*>(bar.data_ptr());
  p.out = out.data_ptr<float>();
  hf* w = reinterpret_cast<hf*>(ws.data_ptr());
  const int64_t n = batch;
  p.y1 = w; w += n * 230400;
  p.y2 = w; w += n * 115200;
  p.y3 = w; w += n * 43200;
  p.y4 = w; w += n * 18000;
  p.z5 = w; w += n * 108000;
  p.y5 = w; w += n * 25200;
  p.z6 = w; w += n * 43008;
  p.y6 = w; w += n * 12288;
  p.z7 = w; w += n * 73728;
  p.y7 = w; w += n * 20480;
  p.pool = w;
  p.batch = batch;
  void* args[] = {&p};
  C10_CUDA_CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(net_kernel), dim3(sms[dev]), dim3(THREADS),
                                             args, SMEM, at::cuda::getCurrentCUDAStream().stream()));
  return out;
}
"""
extension = load_inline(
    name="mbconv_grouped",
    cpp_sources=[DECLARATION],
    cuda_sources=[SOURCE],
    functions=["run_net"],
    extra_cuda_cflags=["-O3", "-std=c++17"],
)

BLOCKS = ((16, 1, 1), (24, 2, 6), (40, 2, 6), (80, 2, 6), (112, 1, 6), (192, 2, 6), (320, 1, 6))
HALVES_PER_IMAGE = 690784
BLOB_BYTES = (
    7744
    + sum(wide * (2 * cp + 2 * np_ + 44) + np_ * 4 for cp, wide, np_ in ((16, 96, 32), (32, 144, 48), (48, 240, 80)))
    + sum(12 * (sl * cin * 2 + sl * 44) for cin, sl in ((80, 40), (112, 56), (192, 96)))
    + sum(
        ns * (nt * kt * 256 + nt * 32)
        for ns, kt, nt in ((3, 30, 5), (6, 42, 4), (10, 72, 4), (10, 20, 16), (125, 80, 1))
    )
)


def to_bytes(t):
    """A tensor's memory, made contiguous, as a flat uint8 tensor."""
    return t.contiguous().reshape(-1).view(torch.uint8)


def floats(t, size=None):
    """A tensor as the bytes of flat float32 values, with zeros added at the end up to `size` values if given."""
    t = t.reshape(-1)
    if size is not None and size > t.numel():
        t = torch.cat([t, t.new_zeros(size - t.numel())])
    return to_bytes(t.float())


def diagonal(dw):
    """(9, wide) depthwise weights as the non-zero registers of diagonal B fragments: even channels low, odd high."""
    words = torch.zeros(dw.shape[0], dw.shape[1], 2, dtype=torch.float16)
    half = dw.half()
    words[:, 0::2, 0] = half[:, 0::2]
    words[:, 1::2, 1] = half[:, 1::2]
    return to_bytes(words)


def fragments(weight, n, k, direct):
    """(out, in) weights in the order of B fragments of mma.m16n8k16; direct: for A read as four halves a lane."""
    full = torch.zeros(n, k, dtype=torch.float64)
    full[: weight.shape[0], : weight.shape[1]] = weight
    full = full.half()
    if direct:
        packed = full.view(n // 8, 8, k // 16, 4, 2, 2).permute(0, 2, 1, 3, 4, 5)
    else:
        packed = full.view(n // 8, 8, k // 16, 2, 4, 2).permute(0, 2, 1, 4, 3, 5)
    return to_bytes(packed)


def fold(conv, norm):
    """Fold a batch norm into a convolution, in float64 on the CPU: (out, in, kh, kw) weight and (out,) bias."""
    weight = conv.weight.detach().cpu().double()
    scale = norm.weight.detach().cpu().double() / torch.sqrt(norm.running_var.detach().cpu().double() + norm.eps)
    bias = norm.bias.detach().cpu().double() - norm.running_mean.detach().cpu().double() * scale
    if conv.bias is not None:
        bias = bias + conv.bias.detach().cpu().double() * scale
    return weight * scale.view(-1, 1, 1, 1), bias


def fold_block(block):
    """Folded expand (wide, in), depthwise (9, wide) and project (out, wide) weights, each followed by its bias."""
    ew, eb = fold(block.expand, block.expand_norm)
    dw, db = fold(block.depthwise, block.depthwise_norm)
    pw, pb = fold(block.project, block.project_norm)
    return ew.flatten(1), eb, dw.reshape(dw.shape[0], 9).t().contiguous(), db, pw.flatten(1), pb


def pack_slices(parts, weight, bias, nt, slices, direct):
    """Append to parts, for each slice of nt * 8 rows (zeros past the end), the weight's fragments and the bias."""
    n, k = nt * 8 * slices, weight.shape[1]
    full = torch.zeros(n, k, dtype=torch.float64)
    full[: weight.shape[0]] = weight
    full_bias = torch.zeros(n, dtype=torch.float64)
    full_bias[: bias.numel()] = bias
    for s in range(slices):
        rows = slice(s * nt * 8, (s + 1) * nt * 8)
        parts.append(fragments(full[rows], nt * 8, k, direct))
        parts.append(floats(full_bias[rows]))


def pack_model(model):
    """All weights of the reference, folded and in the order the kernel reads them, as one flat uint8 CPU tensor."""
    parts = []
    blocks = [fold_block(block) for block in model.blocks]
    # stem and block 1
    sw, sb = fold(model.stem[0], model.stem[1])
    taps = torch.zeros(32, 3, 3, 4, dtype=torch.float64)
    taps[..., :3] = sw.permute(0, 2, 3, 1)
    ew, eb, dw, db, pw, pb = blocks[0]
    parts += [
        fragments(taps.reshape(32, 36), 32, 48, False),
        fragments(ew, 32, 32, False),
        fragments(pw, 16, 32, False),
        floats(sb),
        floats(eb),
        diagonal(dw),
        floats(db),
        floats(pb),
    ]
    # blocks 2 to 4
    for index, (cp, wide, np_) in enumerate(((16, 96, 32), (32, 144, 48), (48, 240, 80)), start=1):
        ew, eb, dw, db, pw, pb = blocks[index]
        parts += [
            fragments(ew, wide, cp, False),
            fragments(pw, np_, wide, False),
            floats(eb),
            diagonal(dw),
            floats(db),
            floats(pb, np_),
        ]
    # blocks 5 to 7
    for index, (width, nt, slices) in enumerate(((40, 5, 3), (56, 4, 6), (96, 4, 10)), start=4):
        ew, eb, dw, db, pw, pb = blocks[index]
        for s in range(12):
            rows = slice(s * width, (s + 1) * width)
            parts += [
                fragments(ew[rows], width, ew.shape[1], index != 6),
                floats(eb[rows]),
                floats(dw[:, rows].contiguous()),
                floats(db[rows]),
            ]
        pack_slices(parts, pw, pb, nt, slices, True)
    hw, hb = fold(model.head[0], model.head[1])
    pack_slices(parts, hw.flatten(1), hb, 16, 10, False)
    cw = model.classifier.weight.detach().cpu().double()
    cb = model.classifier.bias.detach().cpu().double()
    pack_slices(parts, cw, cb, 1, 125, True)
    return torch.cat(parts)


class ModelNew(torch.nn.Module):
    """Stem, seven MBConv blocks, head and classifier as one kernel, batch norms folded, for 240 x 240 images."""

    def __init__(self, classes, stem, blocks, head):
        super().__init__()
        if (classes, stem, head) != (1000, 32, 1280) or tuple(tuple(b) for b in blocks) != BLOCKS:
            raise ValueError("the kernel is written for the published widths")
        self.register_buffer("blob", torch.zeros(BLOB_BYTES, dtype=torch.uint8))
        self.register_buffer("barrier", torch.zeros(2048, dtype=torch.int32))
        self.workspace = None

    @classmethod
    def from_reference(cls, model):
        """A new module, on the CPU, with the reference's weights folded and packed."""
        new = cls(
            model.classifier.weight.shape[0], model.stem[0].weight.shape[0], BLOCKS, model.head[0].weight.shape[0]
        )
        with torch.no_grad():
            blob = pack_model(model)
        if blob.numel() != BLOB_BYTES:
            raise ValueError(f"packed weights have {blob.numel()} bytes, not {BLOB_BYTES}")
        new.blob = blob.clone()
        return new

    def forward(self, x):
        """(batch, 3, 240, 240) float32 images to (batch, 1000) float32 scores."""
        if x.dim() != 4 or x.shape[1:] != (3, 240, 240):
            raise ValueError("the kernel is written for images of 3 x 240 x 240")
        x = x.contiguous()
        need = HALVES_PER_IMAGE * x.shape[0]
        workspace = self.workspace
        if workspace is None or workspace.numel() < need or workspace.device != x.device:
            workspace = torch.empty(need, dtype=torch.float16, device=x.device)
            self.workspace = workspace
        return extension.run_net(x, self.blob, workspace, self.barrier)
