"""VisionAttention as two kernels: scores stay in registers, and all four heads of a token stay in one block.

What it does: the model of `level3-pike/31`, self-attention over all pixels of an image with residual and layer norm, in
precision half: products have float16 factors and float32 sums, on tensor cores (`wgmma`). Input and output are float32.
Width 128 and 4 heads take the kernels, for any number and size of images; all else takes PyTorch's own operations.

What made it fast: scores, softmax weights and the weights' mean over heads, 19 GB in the original, are never written.
The first kernel writes queries, keys and values as float16, in the order of bytes that `wgmma` wants. In the second, a
block has 256 pixels and walks through all heads. Tiles of keys and values arrive by bulk copy, four ahead, in a ring of
eight. Four warp groups with 64 pixels each have no common barrier in the loop over tiles, so one's softmax can overlap
another's products. A quarter of the softmax weights uses a polynomial on the FMA units as exponential. A block has all
channels of its pixels, so output layer, residual and layer norm happen in it too, and no tensor is transposed.

Accuracy: input, weights, queries, keys, values, softmax weights and the heads' outputs are rounded to float16. Softmax
subtracts a running maximum; its sum, and all of residual and layer norm, are float32. The sum takes softmax weights
before their rounding. The polynomial's relative error is below 9e-5.

Limits: width 128, 4 heads, contiguous float32 images (others are copied), inference only: no gradients. Compute
capability 9.0 (Hopper); on another GPU the kernels fail, without a way around. Values must fit float16. Weights are
packed at the first call, on its stream, and later changes are ignored. The number of channels is not checked: an image
with fewer is read, and its output written, out of bounds. Waits on barriers in shared memory have no time-out. Kernels
are compiled once a process, by a private function of PyTorch, and launched on the current stream: use one GPU only, the
current one. Calls share nothing but the packed weights and the compiled kernels.

Author: a coding agent, in a search by the strategy pike-x (result.json says which).
Licence: Apache-2.0.
"""

import ctypes
import functools
import math

import torch
import torch.nn.functional as F
from torch import nn

COMMON = r"""
typedef unsigned long long u64;
typedef unsigned int u32;

__device__ __forceinline__ u32 smem_address(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }

// 64-byte swizzle, groups of 8 rows are 512 bytes apart
__device__ __forceinline__ u64 descriptor(u32 address) {
  return static_cast<u64>((address & 0x3FFFFu) >> 4) | (static_cast<u64>(512 >> 4) << 16) |
         (static_cast<u64>(512 >> 4) << 32) | (static_cast<u64>(2) << 62);
}
__device__ __forceinline__ void wg_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wg_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wg_wait() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
template <int N>
__device__ __forceinline__ void hold(float (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i])::"memory");
}
__device__ __forceinline__ void mma_ss(float (&d)[64], u64 a, u64 b, int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {@R64@}, %64, %65, p, 1, 1, 0, 0;\n}\n"
      : @D64@
      : "l"(a), "l"(b), "r"(accumulate));
}
__device__ __forceinline__ void mma_rs(float (&d)[16], u32 a0, u32 a1, u32 a2, u32 a3, u64 b) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %21, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {@R16@}, {%16, %17, %18, %19}, %20, p, 1, 1, 1;\n}\n"
      : @D16@
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(1));
}
__device__ __forceinline__ u32 pack(float low, float high) {
  u32 out;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
  return out;
}
__device__ __forceinline__ void bar_init(u32 bar, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}
__device__ __forceinline__ void bar_expect(u32 bar, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
__device__ __forceinline__ void bar_arrive(u32 bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
__device__ __forceinline__ void bar_wait(u32 bar, u32 parity) {
  u32 done = 0;
  while (!done) {
    asm volatile(
        "{\n.reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n}\n"
        : "=r"(done)
        : "r"(bar), "r"(parity)
        : "memory");
  }
}
__device__ __forceinline__ void bulk_load(u32 to, const void* from, u32 bytes, u32 bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(bar)
               : "memory");
}
__device__ __forceinline__ void proxy_fence() { asm volatile("fence.proxy.async;" ::: "memory"); }
"""

PROJECT = r"""
// 256 tokens a block; x is (batch, 128, tokens); q is [batch][head][padded][32],
// kv [batch][head][tile][K 128x32, V 128x32]
extern "C" __global__ void __launch_bounds__(512, 1)
project_kernel(const float* __restrict__ x, const char* __restrict__ weight, const float* __restrict__ bias,
               char* __restrict__ q, char* __restrict__ kv, int tokens, int padded, float scale) {
  extern __shared__ char raw[];
  const u32 raw_address = smem_address(raw);
  const u32 base = (raw_address + 1023u) & ~1023u;
  char* shared = raw + (base - raw_address);
  const u32 w_at = base + 65536u, bar = base + 163840u;
  const int tid = threadIdx.x, blocks = padded >> 8;
  const int batch = blockIdx.x / blocks, first = (blockIdx.x % blocks) << 8;
  if (tid == 0) {
    bar_init(bar, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    proxy_fence();
    bar_expect(bar, 98304u);
    for (int i = 0; i < 6; ++i) bulk_load(w_at + i * 16384u, weight + i * 16384, 16384u, bar);
  }
  const int row = tid & 255, token = first + row;
  const bool inside = token < tokens;
  const float* from = x + static_cast<long long>(batch) * 128 * tokens + token;
#pragma unroll 4
  for (int i = 0; i < 8; ++i) {
    const int group = (tid >> 8) + 2 * i;
    float v[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) v[e] = inside ? from[static_cast<long long>(group * 8 + e) * tokens] : 0.0f;
    uint4 packed;
    packed.x = pack(v[0], v[1]);
    packed.y = pack(v[2], v[3]);
    packed.z = pack(v[4], v[5]);
    packed.w = pack(v[6], v[7]);
    *reinterpret_cast<uint4*>(shared + (group >> 2) * 16384 + row * 64 + (((group & 3) ^ ((row >> 1) & 3)) << 4)) =
        packed;
  }
  proxy_fence();
  __syncthreads();
  bar_wait(bar, 0);
  __syncwarp();

  const int wg = tid >> 7, warp = (tid >> 5) & 3, lane = tid & 31, c = lane & 3;
  const int r = wg * 64 + warp * 16 + (lane >> 2);
  const int tiles = padded >> 7;
  for (int g = 0; g < 3; ++g) {
    float s[64];
    wg_fence();
#pragma unroll
    for (int k = 0; k < 8; ++k)
      mma_ss(s, descriptor(base + (k >> 1) * 16384u + wg * 4096u + (k & 1) * 32u),
             descriptor(w_at + (g * 4 + (k >> 1)) * 8192u + (k & 1) * 32u), k > 0);
    wg_commit();
    wg_wait();
    hold(s);
    const float factor = g == 0 ? scale : 1.0f;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int t = first + r + half * 8;
#pragma unroll
      for (int j = 0; j < 16; ++j) {
        const float2 b = *reinterpret_cast<const float2*>(bias + g * 128 + j * 8 + c * 2);
        const u32 value = pack((s[4 * j + 2 * half] + b.x) * factor, (s[4 * j + 2 * half + 1] + b.y) * factor);
        const long long head = batch * 4 + (j >> 2);
        const int inner = (((j & 3) ^ ((t >> 1) & 3)) << 4) + c * 4;
        char* to;
        if (g == 0)
          to = q + (head * padded + t) * 64 + inner;
        else
          to = kv + (head * tiles + (t >> 7)) * 16384 + (g - 1) * 8192 + (t & 127) * 64 + inner;
        *reinterpret_cast<u32*>(to) = value;
      }
    }
  }
}
"""

ATTEND = r"""
constexpr int STAGES = 8, AHEAD = 4;

__device__ __forceinline__ float exp2_unit(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// the same on the FMA units: its error (9e-5) is below float16's rounding
__device__ __forceinline__ float exp2_poly(float x) {
  x = fmaxf(x, -127.0f);
  const float t = __fadd_rd(x, 12582912.0f);
  const float f = x - (t - 12582912.0f);
  float p = fmaf(f, 0.077119089663028717041015625f, 0.227564394474029541015625f);
  p = fmaf(p, f, 0.695146143436431884765625f);
  p = fmaf(p, f, 1.0f);
  return __int_as_float(__float_as_int(p) + (__float_as_int(t) << 23));
}

extern "C" __global__ void __launch_bounds__(512, 1)
attend_kernel(const char* __restrict__ q, const char* __restrict__ kv, const char* __restrict__ weight,
              const float* __restrict__ bias, const float* __restrict__ gamma, const float* __restrict__ beta,
              const float* __restrict__ x, float* __restrict__ out, int tokens, int padded, float eps) {
  extern __shared__ char raw[];
  const u32 raw_address = smem_address(raw);
  const u32 base = (raw_address + 1023u) & ~1023u;
  char* shared = raw + (base - raw_address);
  const u32 w_at = base + 65536u, ring = base + 98304u, bars = base + 229376u;
  const u32 full = bars, empty = bars + 8 * STAGES, start = bars + 16 * STAGES;
  const int tid = threadIdx.x, blocks = padded >> 8;
  const int batch = blockIdx.x / blocks, first = (blockIdx.x % blocks) << 8;
  const int stride = padded >> 7, count = (tokens + 127) >> 7, total = 4 * count;
  const char* source = kv + static_cast<long long>(batch) * 4 * stride * 16384;
  int load_head = 0, load_tile = 0;
  if (tid == 0) {
    for (int i = 0; i < STAGES; ++i) {
      bar_init(full + 8 * i, 1);
      bar_init(empty + 8 * i, 16);
    }
    bar_init(start, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    proxy_fence();
    bar_expect(start, 98304u);
    for (int h = 0; h < 4; ++h)
      bulk_load(base + h * 16384u, q + (static_cast<long long>(batch * 4 + h) * padded + first) * 64, 16384u, start);
    bulk_load(w_at, weight, 32768u, start);
    for (int i = 0; i < AHEAD && i < total; ++i) {
      bar_expect(full + 8 * i, 16384u);
      bulk_load(ring + i * 16384u, source + static_cast<long long>(load_head * stride + load_tile) * 16384, 16384u,
                full + 8 * i);
      if (++load_tile == count) {
        load_tile = 0;
        ++load_head;
      }
    }
  }
  __syncthreads();
  bar_wait(start, 0);
  __syncwarp();

  const int wg = tid >> 7, warp = (tid >> 5) & 3, lane = tid & 31, c = lane & 3;
  const int r = wg * 64 + warp * 16 + (lane >> 2);
  float s[64];
  int i = 0;
  for (int head = 0; head < 4; ++head) {
    const u64 q_desc = descriptor(base + head * 16384u + wg * 4096u);
    float o[16];
#pragma unroll
    for (int k = 0; k < 16; ++k) o[k] = 0.0f;
    const float lowest = __int_as_float(0xff800000);
    float m0 = lowest, m1 = lowest, l0 = 0.0f, l1 = 0.0f;
    for (int tile = 0; tile < count; ++tile, ++i) {
      if (tid == 0 && i + AHEAD < total) {
        const int n = i + AHEAD, stage = n & (STAGES - 1);
        if (n >= STAGES) bar_wait(empty + 8 * stage, ((n / STAGES) - 1) & 1);
        bar_expect(full + 8 * stage, 16384u);
        bulk_load(ring + stage * 16384u, source + static_cast<long long>(load_head * stride + load_tile) * 16384,
                  16384u, full + 8 * stage);
        if (++load_tile == count) {
          load_tile = 0;
          ++load_head;
        }
      }
      __syncwarp();
      const int stage = i & (STAGES - 1);
      bar_wait(full + 8 * stage, (i / STAGES) & 1);
      __syncwarp();
      const u64 k_desc = descriptor(ring + stage * 16384u);
      wg_fence();
      mma_ss(s, q_desc, k_desc, 0);
      mma_ss(s, q_desc + 2, k_desc + 2, 1);
      wg_commit();
      wg_wait();
      hold(s);

      if ((tile + 1) * 128 > tokens) {
#pragma unroll
        for (int k = 0; k < 64; ++k)
          if (tile * 128 + (k >> 2) * 8 + c * 2 + (k & 1) >= tokens) s[k] = lowest;
      }
      float a0 = fmaxf(m0, s[0]), b0 = s[1], a1 = fmaxf(m1, s[2]), b1 = s[3];
#pragma unroll
      for (int j = 1; j < 16; ++j) {
        a0 = fmaxf(a0, s[4 * j]);
        b0 = fmaxf(b0, s[4 * j + 1]);
        a1 = fmaxf(a1, s[4 * j + 2]);
        b1 = fmaxf(b1, s[4 * j + 3]);
      }
      a0 = fmaxf(a0, b0);
      a1 = fmaxf(a1, b1);
      a0 = fmaxf(a0, __shfl_xor_sync(0xffffffffu, a0, 1));
      a1 = fmaxf(a1, __shfl_xor_sync(0xffffffffu, a1, 1));
      a0 = fmaxf(a0, __shfl_xor_sync(0xffffffffu, a0, 2));
      a1 = fmaxf(a1, __shfl_xor_sync(0xffffffffu, a1, 2));
      const float f0 = exp2_unit(m0 - a0), f1 = exp2_unit(m1 - a1);
      m0 = a0;
      m1 = a1;
      l0 *= f0;
      l1 *= f1;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        o[4 * j] *= f0;
        o[4 * j + 1] *= f0;
        o[4 * j + 2] *= f1;
        o[4 * j + 3] *= f1;
      }
      u32 p[32];
      float e0 = 0.0f, e1 = 0.0f;
#pragma unroll
      for (int j = 0; j < 16; ++j) {
        const float p0 = exp2_unit(s[4 * j] - m0);
        const float p1 = (j & 1) ? exp2_poly(s[4 * j + 1] - m0) : exp2_unit(s[4 * j + 1] - m0);
        const float p2 = (j & 1) ? exp2_poly(s[4 * j + 2] - m1) : exp2_unit(s[4 * j + 2] - m1);
        const float p3 = exp2_unit(s[4 * j + 3] - m1);
        l0 += p0;
        e0 += p1;
        l1 += p2;
        e1 += p3;
        p[2 * j] = pack(p0, p1);
        p[2 * j + 1] = pack(p2, p3);
      }
      l0 += e0;
      l1 += e1;
      const u64 v_desc = k_desc + (8192 >> 4);
      hold(o);
      wg_fence();
#pragma unroll
      for (int k = 0; k < 8; ++k) mma_rs(o, p[4 * k], p[4 * k + 1], p[4 * k + 2], p[4 * k + 3], v_desc + k * 64);
      wg_commit();
      wg_wait();
      hold(o);
      if (lane == 0) bar_arrive(empty + 8 * stage);
    }
    l0 += __shfl_xor_sync(0xffffffffu, l0, 1);
    l1 += __shfl_xor_sync(0xffffffffu, l1, 1);
    l0 += __shfl_xor_sync(0xffffffffu, l0, 2);
    l1 += __shfl_xor_sync(0xffffffffu, l1, 2);
    const float i0 = 1.0f / l0, i1 = 1.0f / l1;
    // this head's queries are dead for this warpgroup: its output takes their place
    asm volatile("bar.sync %0, 128;" ::"r"(wg + 1) : "memory");
    char* to = shared + head * 16384;
    const int turn = (r >> 1) & 3;  // the same for r + 8
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int inner = ((j ^ turn) << 4) + c * 4;
      *reinterpret_cast<u32*>(to + r * 64 + inner) = pack(o[4 * j] * i0, o[4 * j + 1] * i0);
      *reinterpret_cast<u32*>(to + (r + 8) * 64 + inner) = pack(o[4 * j + 2] * i1, o[4 * j + 3] * i1);
    }
  }
  proxy_fence();
  asm volatile("bar.sync %0, 128;" ::"r"(wg + 1) : "memory");
  wg_fence();
#pragma unroll
  for (int k = 0; k < 8; ++k)
    mma_ss(s, descriptor(base + (k >> 1) * 16384u + wg * 4096u + (k & 1) * 32u),
           descriptor(w_at + (k >> 1) * 8192u + (k & 1) * 32u), k > 0);
  wg_commit();
  wg_wait();
  hold(s);

  const int t0 = first + r, t1 = t0 + 8;
  const bool in0 = t0 < tokens, in1 = t1 < tokens;
  const long long image = static_cast<long long>(batch) * 128 * tokens;
  float sum0 = 0.0f, sum1 = 0.0f;
#pragma unroll
  for (int j = 0; j < 16; ++j) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int channel = j * 8 + c * 2 + e;
      const float b = bias[channel];
      const float* from = x + image + static_cast<long long>(channel) * tokens;
      s[4 * j + e] += b + (in0 ? from[t0] : 0.0f);
      s[4 * j + 2 + e] += b + (in1 ? from[t1] : 0.0f);
      sum0 += s[4 * j + e];
      sum1 += s[4 * j + 2 + e];
    }
  }
  sum0 += __shfl_xor_sync(0xffffffffu, sum0, 1);
  sum1 += __shfl_xor_sync(0xffffffffu, sum1, 1);
  sum0 += __shfl_xor_sync(0xffffffffu, sum0, 2);
  sum1 += __shfl_xor_sync(0xffffffffu, sum1, 2);
  const float mean0 = sum0 * 0.0078125f, mean1 = sum1 * 0.0078125f;
  float var0 = 0.0f, var1 = 0.0f;
#pragma unroll
  for (int j = 0; j < 16; ++j) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      s[4 * j + e] -= mean0;
      s[4 * j + 2 + e] -= mean1;
      var0 += s[4 * j + e] * s[4 * j + e];
      var1 += s[4 * j + 2 + e] * s[4 * j + 2 + e];
    }
  }
  var0 += __shfl_xor_sync(0xffffffffu, var0, 1);
  var1 += __shfl_xor_sync(0xffffffffu, var1, 1);
  var0 += __shfl_xor_sync(0xffffffffu, var0, 2);
  var1 += __shfl_xor_sync(0xffffffffu, var1, 2);
  const float n0 = rsqrtf(var0 * 0.0078125f + eps), n1 = rsqrtf(var1 * 0.0078125f + eps);
#pragma unroll
  for (int j = 0; j < 16; ++j) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int channel = j * 8 + c * 2 + e;
      const float g = gamma[channel], b = beta[channel];
      float* to = out + image + static_cast<long long>(channel) * tokens;
      if (in0) to[t0] = s[4 * j + e] * n0 * g + b;
      if (in1) to[t1] = s[4 * j + 2 + e] * n1 * g + b;
    }
  }
}
"""

PROJECT_SHARED = 163840 + 64 + 1024
ATTEND_SHARED = 229376 + 256 + 1024


def complete(source):
    """The source with the shared part before it and the lists of wgmma's registers filled in."""
    text = COMMON + source
    for count in (64, 16):
        text = text.replace(f"@R{count}@", ", ".join(f"%{i}" for i in range(count)))
        text = text.replace(f"@D{count}@", ", ".join(f'"+f"(d[{i}])' for i in range(count)))
    return text


@functools.cache
def kernels():
    """Both kernels, compiled once a process, and the driver's library."""
    project = torch.cuda._compile_kernel(complete(PROJECT), "project_kernel", compute_capability="90a")
    project.set_shared_memory_config(PROJECT_SHARED)
    attend = torch.cuda._compile_kernel(complete(ATTEND), "attend_kernel", compute_capability="90a")
    attend.set_shared_memory_config(ATTEND_SHARED)
    return project, attend, ctypes.CDLL("libcuda.so.1")


def launch(driver, compiled, blocks, shared_bytes, stream, *values):
    """Launch a kernel with 512 threads a block; values are tensors, int or float."""
    kinds = {int: ctypes.c_int, float: ctypes.c_float}
    held = [kinds[type(v)](v) if type(v) in kinds else ctypes.c_void_p(v.data_ptr()) for v in values]
    places = (ctypes.c_void_p * len(held))(*map(ctypes.addressof, held))
    if driver.cuLaunchKernel(compiled.func, blocks, 1, 1, 512, 1, 1, shared_bytes, stream, places, None):
        raise RuntimeError("the launch failed")


def swizzled_tiles(weight):
    """(n * 128, 128) to float16 tiles [n][4 slabs of 32 inputs][128 rows][32], 16-byte chunks swizzled by row."""
    groups = weight.shape[0] // 128
    parts = weight.detach().half().reshape(groups, 128, 4, 4, 8).permute(0, 2, 1, 3, 4)
    rows = torch.arange(128, device=weight.device)[:, None]
    chunks = torch.arange(4, device=weight.device)[None, :] ^ ((rows >> 1) & 3)
    return parts[:, :, rows, chunks].contiguous()


class Attention(nn.Module):
    """Holds the parameters under the original's names."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)


class ModelNew(nn.Module):
    """The original's model: two kernels for width 128 and 4 heads, PyTorch's operations otherwise."""

    def __init__(self, width, heads):
        super().__init__()
        self.width, self.heads = width, heads
        self.attention = Attention(width, heads)
        self.norm = nn.LayerNorm(width)
        self.packed = None

    def prepare(self):
        """Round, swizzle and copy the weights; they are not looked at again."""
        attention = self.attention
        self.packed = (
            swizzled_tiles(attention.project.weight),
            attention.project.bias.detach().float().contiguous().clone(),
            swizzled_tiles(attention.out.weight),
            attention.out.bias.detach().float().contiguous().clone(),
            self.norm.weight.detach().float().contiguous().clone(),
            self.norm.bias.detach().float().contiguous().clone(),
        )

    def general(self, x):
        """Other widths, heads and devices."""
        batch, width = x.shape[:2]
        tokens = x.flatten(2).transpose(1, 2)
        split = (batch, tokens.shape[1], self.heads, width // self.heads)
        q, k, v = (part.reshape(split).transpose(1, 2) for part in self.attention.project(tokens).chunk(3, dim=-1))
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(tokens.shape)
        y = self.norm(self.attention.out(y) + tokens)
        return y.transpose(1, 2).reshape(x.shape).contiguous()

    def forward(self, x):
        """(batch, width, h, w) to the same shape."""
        if self.width != 128 or self.heads != 4 or not x.is_cuda or x.dtype != torch.float32 or x.numel() == 0:
            return self.general(x)
        if self.packed is None:
            self.prepare()
        project_weight, project_bias, out_weight, out_bias, gamma, beta = self.packed
        project, attend, driver = kernels()
        x = x.contiguous()
        batch, tokens = x.shape[0], x.shape[2] * x.shape[3]
        padded = (tokens + 255) // 256 * 256
        q = torch.empty(batch * padded * 128, dtype=torch.float16, device=x.device)
        kv = torch.empty(batch * padded * 256, dtype=torch.float16, device=x.device)
        out = torch.empty_like(x)
        blocks = batch * padded // 256
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        scale = math.sqrt(self.heads / self.width) * math.log2(math.e)
        launch(
            driver,
            project,
            blocks,
            PROJECT_SHARED,
            stream,
            x,
            project_weight,
            project_bias,
            q,
            kv,
            tokens,
            padded,
            scale,
        )
        launch(
            driver,
            attend,
            blocks,
            ATTEND_SHARED,
            stream,
            q,
            kv,
            out_weight,
            out_bias,
            gamma,
            beta,
            x,
            out,
            tokens,
            padded,
            float(self.norm.eps),
        )
        return out
