"""An MBConv block as one persistent kernel: expansion, depthwise filter and projection, one launch.

What it does: the block of `level3-pike/21` on maps of 112 x 224 x 224, any number of them, in half precision. Products
of the 1 x 1 convolutions have 16-bit factors and 32-bit sums, on tensor cores (`wgmma`). Batch norms are folded into
the weights in 64 bits at the first call.

What made it fast: the wide map of 672 channels never leaves the chip. A block of threads takes tiles of 8 x 8 outputs
and passes the wide channels in 11 chunks of 64, the last one half empty. Two warp groups expand a chunk into shared
memory. Two others filter it on ordinary cores, while the first two expand the next chunk and project the previous one.
The sums of the projection stay in registers until the tile is done. Zero padding is an upper limit of 0, in place of
6, in the clip. The filtering threads prefetch the next tile's input into L2.

Accuracy: the input, the folded 1 x 1 weights, the expanded map and the filtered map are rounded to float16, both maps
when ReLU6 bounds them to 0 to 6. Depthwise filters and their products, all sums, biases and the output have 32 bits.

Limits: float32 maps of 224 x 224, 112 channels in, 192 out, kernel 5, stride 2, expansion 6, inference on CUDA. Other
shapes, other types of the input, CPU and training mode run layer by layer. Compute capability 9.0 (Hopper) is assumed
without a check. The weights must be on the input's GPU, which must be the current one, and the same one in the whole
process. The result carries no gradient. Input values and folded weights beyond 65504 become infinite. Packed weights
are renewed only after `load_state_dict` of this module and after moves such as `to`. After changes in place, a
training pass, or `load_state_dict` of a parent they are stale: set `packed` to None. Calls share only the packed
weights, so several streams are possible once the first call is finished. Waits in the kernel have no time limit, but
none reaches beyond a block. It compiles with `torch.cuda._compile_kernel`, which is private.

Author: a coding agent, in a search by the strategy pike-x (result.json says which).
Licence: Apache-2.0.
"""

import ctypes
import functools

import torch
from torch import nn


def _wgmma(name, from_registers):
    """A device function for one wgmma of 64 x 96 x 16; its first factor is in registers or shared memory."""
    d = ", ".join(f"%{i}" for i in range(48))
    outs = ", ".join(f'"+f"(d[{i}])' for i in range(48))
    if from_registers:
        return (
            f"__device__ __forceinline__ void {name}(float (&d)[48], const unsigned (&a)[4], u64 b, int scale) {{\n"
            f'  asm volatile("{{ .reg .pred p; setp.ne.b32 p, %53, 0; '
            f"wgmma.mma_async.sync.aligned.m64n96k16.f32.f16.f16 {{{d}}}, "
            f'{{%48, %49, %50, %51}}, %52, p, 1, 1, 0; }}"\n'
            f'    : {outs} : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(scale));\n}}\n'
        )
    return (
        f"__device__ __forceinline__ void {name}(float (&d)[48], u64 a, u64 b, int scale) {{\n"
        f'  asm volatile("{{ .reg .pred p; setp.ne.b32 p, %50, 0; '
        f'wgmma.mma_async.sync.aligned.m64n96k16.f32.f16.f16 {{{d}}}, %48, %49, p, 1, 1, 0, 0; }}"\n'
        f'    : {outs} : "l"(a), "l"(b), "r"(scale));\n}}\n'
    )


HEAD = r"""
#include <cuda_fp16.h>
typedef unsigned long long u64;
"""

BODY = r"""
constexpr int CHUNKS = 11, CIN = 112, COUT = 192, IMG = 224, PLANE = IMG * IMG, SIDE = 112;
constexpr int XS = 0;
constexpr int WIDE = 86016, WIDE_BYTES = 50176, WIDE_ROW = 784;
constexpr int DW = WIDE + 2 * WIDE_BYTES, DW_BYTES = 8320, DW_GROUP = 1040;
constexpr int WP = DW + 2 * DW_BYTES, WP_BYTES = 12288;
constexpr int LIM = WP + 2 * WP_BYTES;
constexpr int EB = LIM + 768;
constexpr int PB = EB + 2816;
constexpr int BAR = PB + 768;

__device__ __forceinline__ u64 make_desc(unsigned addr, unsigned lbo, unsigned sbo) {
  return (u64)((addr & 0x3FFFFu) >> 4) | ((u64)(lbo >> 4) << 16) | ((u64)(sbo >> 4) << 32);
}
__device__ __forceinline__ void mma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void mma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void mma_wait() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
__device__ __forceinline__ void keep(float (&d)[48]) {
#pragma unroll
  for (int i = 0; i < 48; ++i) asm volatile("" : "+f"(d[i]) :: "memory");
}
__device__ __forceinline__ void proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void bar_init(unsigned bar, unsigned count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(bar), "r"(count) : "memory");
}
__device__ __forceinline__ void bar_arrive(unsigned bar) {
  asm volatile("{ .reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0]; }" :: "r"(bar) : "memory");
}
__device__ __forceinline__ void bar_wait(unsigned bar, unsigned parity) {
  unsigned done = 0;
  while (!done) {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(bar), "r"(parity) : "memory");
  }
}
__device__ __forceinline__ void named_sync(int id, int count) {
  asm volatile("bar.sync %0, %1;" :: "r"(id), "r"(count) : "memory");
}
__device__ __forceinline__ void bulk_load(unsigned dst, const void* src, unsigned bytes, unsigned bar) {
  asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], %1; }" ::"r"(bar), "r"(bytes)
               : "memory");
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :: "r"(dst), "l"(src), "r"(bytes), "r"(bar) : "memory");
}
// relu, then the smaller of it and the limit; the lower half comes from lo
__device__ __forceinline__ unsigned clip_pack(float lo, float hi, unsigned limit) {
  unsigned r;
  asm("{ .reg .b32 t; cvt.rn.relu.f16x2.f32 t, %1, %2; min.NaN.f16x2 %0, t, %3; }"
      : "=r"(r) : "f"(hi), "f"(lo), "r"(limit));
  return r;
}
__device__ __forceinline__ float relu6(float v) {
  float r;
  asm("{ .reg .f32 t; max.NaN.f32 t, %1, 0f00000000; min.NaN.f32 %0, t, 0f40C00000; }" : "=f"(r) : "f"(v));
  return r;
}
__device__ __forceinline__ unsigned pack2(float lo, float hi) {
  unsigned r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
  return r;
}
__device__ __forceinline__ void unpack2(unsigned v, float& lo, float& hi) {
  __half2 h = *reinterpret_cast<__half2*>(&v);
  lo = __low2float(h);
  hi = __high2float(h);
}

// 256 threads: the 19 x 20 pixels of a tile, 112 channels, as float16 core matrices [14][384][8]; and the limits
__device__ __forceinline__ void load_tile(const float* __restrict__ x, unsigned char* smem, int tile, int t) {
  const int n = tile / 196, rem = tile % 196, ty = rem / 14, tx = rem % 14;
  const int iy0 = ty * 16 - 2, ix0 = tx * 16 - 2;
  const float* xb = x + (long long)n * CIN * PLANE;
#pragma unroll 1
  for (int b = 0; b < 4; ++b) {
    float2 v[3][8];
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      const int u = (b * 3 + i) * 256 + t, g = u / 192, pr = u % 192, row = pr / 10, cp = pr % 10;
      const int iy = iy0 + row, ix = ix0 + cp * 2;
      const bool ok = u < 2688 && row < 19 && iy >= 0 && iy < IMG && ix >= 0 && ix < IMG;
      const float* src = xb + g * 8 * PLANE + iy * IMG + ix;
#pragma unroll
      for (int q = 0; q < 8; ++q) {
        v[i][q] = make_float2(0.0f, 0.0f);
        if (ok) v[i][q] = __ldg(reinterpret_cast<const float2*>(src + q * PLANE));
      }
    }
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      const int u = (b * 3 + i) * 256 + t, g = u / 192, pr = u % 192;
      if (u < 2688) {
        uint4 p, q;
        p.x = pack2(v[i][0].x, v[i][1].x); p.y = pack2(v[i][2].x, v[i][3].x);
        p.z = pack2(v[i][4].x, v[i][5].x); p.w = pack2(v[i][6].x, v[i][7].x);
        q.x = pack2(v[i][0].y, v[i][1].y); q.y = pack2(v[i][2].y, v[i][3].y);
        q.z = pack2(v[i][4].y, v[i][5].y); q.w = pack2(v[i][6].y, v[i][7].y);
        uint4* to = reinterpret_cast<uint4*>(smem + XS + g * 6144 + pr * 32);
        to[0] = p;
        to[1] = q;
      }
    }
  }
  for (int i = t; i < 384; i += 256) {
    const int row = i / 20, col = i % 20, iy = iy0 + row, ix = ix0 + col;
    const bool ok = row < 19 && iy >= 0 && iy < IMG && ix >= 0 && ix < IMG;
    *reinterpret_cast<unsigned short*>(smem + LIM + i * 2) = ok ? 0x4600 : 0;
  }
  proxy_fence();
}

__device__ __forceinline__ void load_a(unsigned (&a)[7][4], const uint4* __restrict__ we, int chunk, int t) {
#pragma unroll
  for (int s = 0; s < 7; ++s) {
    const uint4 v = __ldg(we + (chunk * 7 + s) * 128 + t);
    a[s][0] = v.x; a[s][1] = v.y; a[s][2] = v.z; a[s][3] = v.w;
  }
}

__device__ __forceinline__ void project(float (&acc)[48], unsigned base, const unsigned char* __restrict__ wp,
                                        int wg, int t, int c, int k, bool more) {
  bar_wait(base + BAR + 16 + (c & 1) * 8, (c >> 1) & 1);
  bar_wait(base + BAR + 32 + wg * 8, c & 1);
  const unsigned da = base + DW + (c & 1) * DW_BYTES, wb = base + WP + wg * WP_BYTES;
  keep(acc);
  mma_fence();
#pragma unroll
  for (int s = 0; s < 4; ++s)
    mma_ss(acc, make_desc(da + s * 2 * DW_GROUP, DW_GROUP, 128), make_desc(wb + s * 3072, 1536, 128), (k | s) != 0);
  mma_commit();
  mma_wait();
  keep(acc);
  named_sync(1 + wg, 128);
  if (t == 0 && more) {
    const int next = k == CHUNKS - 1 ? 0 : k + 1;
    bulk_load(wb, wp + (next * 2 + wg) * WP_BYTES, WP_BYTES, base + BAR + 32 + wg * 8);
  }
}

extern "C" __global__ void __launch_bounds__(512, 1)
mbconv(const float* __restrict__ x, const uint4* __restrict__ we, const float* __restrict__ eb,
       const float* __restrict__ dwp, const unsigned char* __restrict__ wp, const float* __restrict__ pb,
       float* __restrict__ out, int tiles) {
  extern __shared__ __align__(1024) unsigned char smem[];
  const unsigned base = (unsigned)__cvta_generic_to_shared(smem);
  const int wg = threadIdx.x >> 7, lane = threadIdx.x & 31;
  float* s_eb = reinterpret_cast<float*>(smem + EB);
  float* s_pb = reinterpret_cast<float*>(smem + PB);
  for (int i = threadIdx.x; i < 704; i += 512) s_eb[i] = eb[i];
  for (int i = threadIdx.x; i < COUT; i += 512) s_pb[i] = pb[i];
  if (threadIdx.x == 0) {
    bar_init(base + BAR, 8);       // wide chunk is full
    bar_init(base + BAR + 8, 8);
    bar_init(base + BAR + 16, 8);  // depthwise is done
    bar_init(base + BAR + 24, 8);
    bar_init(base + BAR + 32, 1);  // projection weights have arrived
    bar_init(base + BAR + 40, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    proxy_fence();
  }
  __syncthreads();

  if (wg < 2) {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 168;");
    const int t = threadIdx.x & 127, t2 = threadIdx.x, warp = t >> 5;
    float pacc[48];
#pragma unroll
    for (int i = 0; i < 48; ++i) pacc[i] = 0.0f;
    unsigned a[7][4];
    if (t == 0) bulk_load(base + WP + wg * WP_BYTES, wp + wg * WP_BYTES, WP_BYTES, base + BAR + 32 + wg * 8);
    load_tile(x, smem, blockIdx.x, t2);
    load_a(a, we, 0, t);
    named_sync(3, 256);
    const unsigned st = (16 * warp + ((lane >> 3) & 1) * 8 + (lane & 7)) * WIDE_ROW + (lane >> 4) * 16;
    int c = 0;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      const int n = tile / 196, rem = tile % 196, ty = rem / 14, tx = rem % 14;
      const bool border = ty == 0 || ty == 13 || tx == 0 || tx == 13;
      const int next = tile + gridDim.x;
#pragma unroll 1
      for (int k = 0; k < CHUNKS; ++k) {
        const unsigned wide = base + WIDE + (c & 1) * WIDE_BYTES + st;
        const float b0 = s_eb[k * 64 + 16 * warp + (lane >> 2)], b1 = s_eb[k * 64 + 16 * warp + (lane >> 2) + 8];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int n0 = wg * 192 + h * 96;
          float acc[48];
#pragma unroll
          for (int i = 0; i < 48; ++i) acc[i] = 0.0f;
          mma_fence();
#pragma unroll
          for (int s = 0; s < 7; ++s) mma_rs(acc, a[s], make_desc(base + XS + s * 12288 + n0 * 16, 6144, 128), s != 0);
          mma_commit();
          mma_wait();
          keep(acc);
          if (h == 1) load_a(a, we, k == CHUNKS - 1 ? 0 : k + 1, t);
#pragma unroll
          for (int j = 0; j < 6; ++j) {
            unsigned l0 = 0x46004600u, l1 = 0x46004600u;
            if (border) {
              const unsigned char* lp = smem + LIM + (n0 + 16 * j + 2 * (lane & 3)) * 2;
              l0 = *reinterpret_cast<const unsigned*>(lp);
              l1 = *reinterpret_cast<const unsigned*>(lp + 16);
            }
            const unsigned r0 = clip_pack(acc[8 * j] + b0, acc[8 * j + 1] + b0, l0);
            const unsigned r1 = clip_pack(acc[8 * j + 2] + b1, acc[8 * j + 3] + b1, l0);
            const unsigned r2 = clip_pack(acc[8 * j + 4] + b0, acc[8 * j + 5] + b0, l1);
            const unsigned r3 = clip_pack(acc[8 * j + 6] + b1, acc[8 * j + 7] + b1, l1);
            asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                         :: "r"(wide + (n0 + 16 * j) * 2), "r"(r0), "r"(r1), "r"(r2), "r"(r3) : "memory");
          }
        }
        __syncwarp();
        if (lane == 0) bar_arrive(base + BAR + (c & 1) * 8);
        if (k > 0) project(pacc, base, wp, wg, t, c - 1, k - 1, true);
        ++c;
      }
      named_sync(3, 256);  // the input tile has been read by all
      if (next < tiles) load_tile(x, smem, next, t2);
      project(pacc, base, wp, wg, t, c - 1, CHUNKS - 1, next < tiles);
      float* to = out + (long long)n * COUT * SIDE * SIDE + (ty * 8 + 2 * warp) * SIDE + tx * 8 + (lane >> 2);
#pragma unroll
      for (int j = 0; j < 12; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int oc = wg * 96 + 8 * j + 2 * (lane & 3) + e;
          const float b = s_pb[oc];
          to[oc * SIDE * SIDE] = pacc[4 * j + e] + b;
          to[oc * SIDE * SIDE + SIDE] = pacc[4 * j + 2 + e] + b;
        }
      }
      named_sync(3, 256);  // the next input tile is there
    }
  } else {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 88;");
    const int t = threadIdx.x - 256, w = t >> 5;
    const int ch = (w & 1) * 32 + lane, rh = (w >> 1) & 1, chalf = w >> 2;
    const int from = WIDE + ch * WIDE_ROW + rh * 320 + chalf * 16;
    const int into = DW + (ch >> 3) * DW_GROUP + (ch & 7) * 2 + (rh * 32 + chalf * 4) * 16;
    int c = 0;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      const int next = tile + gridDim.x;
      const int nn = next / 196, nrem = next % 196, ny = (nrem / 14) * 16 - 2, nx = (nrem % 14) * 16 - 2;
#pragma unroll 1
      for (int k = 0; k < CHUNKS; ++k) {
        float wt[25];
        const float* wsrc = dwp + k * 26 * 64 + ch;
#pragma unroll
        for (int i = 0; i < 25; ++i) wt[i] = __ldg(wsrc + i * 64);
        const float bias = __ldg(wsrc + 25 * 64);
        const int idx = k * 256 + t;
        if (next < tiles && idx < 2128) {
          const int pc = idx / 19, iy = ny + idx % 19;
          if (iy >= 0 && iy < IMG) {
            const float* row = x + ((long long)nn * CIN + pc) * PLANE + iy * IMG;
            const int first = nx < 0 ? 0 : nx, last = nx + 19 > IMG - 1 ? IMG - 1 : nx + 19;
            asm volatile("prefetch.global.L2 [%0];" :: "l"(row + first));
            asm volatile("prefetch.global.L2 [%0];" :: "l"(row + last));
          }
        }
        bar_wait(base + BAR + (c & 1) * 8, (c >> 1) & 1);
        const unsigned char* src = smem + from + (c & 1) * WIDE_BYTES;
        unsigned char* dst = smem + into + (c & 1) * DW_BYTES;
        float acc[4][4];
#pragma unroll
        for (int o = 0; o < 4; ++o)
#pragma unroll
          for (int i = 0; i < 4; ++i) acc[o][i] = bias;
#pragma unroll
        for (int r = 0; r < 11; ++r) {
          float v[12];
          if (r % 2 == 0) {
            const uint4 p = *reinterpret_cast<const uint4*>(src + r * 40);
            const uint2 q = *reinterpret_cast<const uint2*>(src + r * 40 + 16);
            unpack2(p.x, v[0], v[1]); unpack2(p.y, v[2], v[3]); unpack2(p.z, v[4], v[5]); unpack2(p.w, v[6], v[7]);
            unpack2(q.x, v[8], v[9]); unpack2(q.y, v[10], v[11]);
          } else {
            const uint2 q = *reinterpret_cast<const uint2*>(src + r * 40);
            const uint4 p = *reinterpret_cast<const uint4*>(src + r * 40 + 8);
            unpack2(q.x, v[0], v[1]); unpack2(q.y, v[2], v[3]);
            unpack2(p.x, v[4], v[5]); unpack2(p.y, v[6], v[7]); unpack2(p.z, v[8], v[9]); unpack2(p.w, v[10], v[11]);
          }
#pragma unroll
          for (int o = 0; o < 4; ++o) {
            const int ky = r - 2 * o;
            if (ky >= 0 && ky < 5) {
#pragma unroll
              for (int kx = 0; kx < 5; ++kx)
#pragma unroll
                for (int i = 0; i < 4; ++i) acc[o][i] = fmaf(wt[ky * 5 + kx], v[2 * i + kx], acc[o][i]);
              if (ky == 4) {
#pragma unroll
                for (int i = 0; i < 4; ++i)
                  *reinterpret_cast<__half*>(dst + (o * 8 + i) * 16) = __float2half_rn(relu6(acc[o][i]));
              }
            }
          }
        }
        proxy_fence();
        __syncwarp();
        if (lane == 0) bar_arrive(base + BAR + 16 + (c & 1) * 8);
        ++c;
      }
    }
  }
}
"""

SOURCE = HEAD + _wgmma("mma_rs", True) + _wgmma("mma_ss", False) + BODY
SHARED_BYTES = 231984


@functools.cache
def _kernel():
    """The compiled kernel, with its shared memory allowed, and the driver."""
    compiled = torch.cuda._compile_kernel(SOURCE, "mbconv", compute_capability="90a")
    compiled.set_shared_memory_config(SHARED_BYTES)
    return compiled, ctypes.CDLL("libcuda.so.1")


@functools.cache
def _processors(index):
    """The multiprocessors of a GPU."""
    return torch.cuda.get_device_properties(index).multi_processor_count


def _launch(blocks, threads, shared_bytes, *values):
    """Start the kernel on the current stream; tensors become pointers."""
    compiled, driver = _kernel()
    held = [ctypes.c_int(v) if type(v) is int else ctypes.c_void_p(v.data_ptr()) for v in values]
    places = (ctypes.c_void_p * len(held))(*map(ctypes.addressof, held))
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    if driver.cuLaunchKernel(compiled.func, blocks, 1, 1, threads, 1, 1, shared_bytes, stream, places, None):
        raise RuntimeError("the launch failed")


def _fold(conv, norm):
    """Weight and bias of a convolution with the batch norm after it, in 64 bits."""
    scale = norm.weight.double() / torch.sqrt(norm.running_var.double() + norm.eps)
    weight = conv.weight.double() * scale.view(-1, 1, 1, 1)
    return weight, norm.bias.double() - norm.running_mean.double() * scale


class ModelNew(nn.Module):
    """The block: one kernel for inference on the shapes of the task, layer by layer elsewhere."""

    def __init__(self, channels_in: int, channels: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = channels_in * expansion
        self.expand = nn.Conv2d(channels_in, wide, 1, bias=False)
        self.expand_norm = nn.BatchNorm2d(wide)
        self.depthwise = nn.Conv2d(wide, wide, kernel, stride, kernel // 2, groups=wide, bias=False)
        self.depthwise_norm = nn.BatchNorm2d(wide)
        self.project = nn.Conv2d(wide, channels, 1, bias=False)
        self.project_norm = nn.BatchNorm2d(channels)
        self.is_residual = stride == 1 and channels_in == channels
        self.fits = (channels_in, channels, kernel, stride, expansion) == (112, 192, 5, 2, 6)
        self.packed = None

    def _apply(self, *args, **kwargs):
        """Forget the packed weights when the module moves or changes its type."""
        self.packed = None
        return super()._apply(*args, **kwargs)

    def load_state_dict(self, *args, **kwargs):
        """Forget the packed weights when new ones are loaded."""
        self.packed = None
        return super().load_state_dict(*args, **kwargs)

    @torch.no_grad()
    def pack(self):
        """Fold the norms, pad 672 channels to 11 x 64 and lay the weights out as the kernel reads them."""
        pad = 704 - 672
        we, be = _fold(self.expand, self.expand_norm)
        wd, bd = _fold(self.depthwise, self.depthwise_norm)
        wp, bp = _fold(self.project, self.project_norm)
        we = nn.functional.pad(we.view(672, 112), (0, 0, 0, pad))
        # chunk, warp, row + 8, row, step, k + 8, k pair, element
        # -> chunk, step, warp, row, k pair, k + 8, row + 8, element
        we = we.view(11, 4, 2, 8, 7, 2, 4, 2).permute(0, 4, 1, 3, 6, 5, 2, 7).contiguous().half()
        be = nn.functional.pad(be, (0, pad)).float().contiguous()
        taps = torch.cat([wd.view(672, 25), bd.view(672, 1)], 1)
        taps = nn.functional.pad(taps, (0, 0, 0, pad)).view(11, 64, 26).permute(0, 2, 1).contiguous().float()
        wp = nn.functional.pad(wp.view(192, 672), (0, pad))
        wp = wp.view(2, 96, 11, 8, 8).permute(2, 0, 3, 1, 4).contiguous().half()
        self.packed = (we, be, taps, wp, bp.float().contiguous())

    def plain(self, x):
        """The same block, layer by layer."""
        y = nn.functional.relu6(self.expand_norm(self.expand(x)))
        y = nn.functional.relu6(self.depthwise_norm(self.depthwise(y)))
        narrow = self.project_norm(self.project(y))
        return x + narrow if self.is_residual else narrow

    def forward(self, x):
        """(batch, 112, 224, 224) to (batch, 192, 112, 112)."""
        if (
            not self.fits
            or self.training
            or not x.is_cuda
            or x.dtype != torch.float32
            or tuple(x.shape[1:]) != (112, 224, 224)
            or x.shape[0] == 0
        ):
            return self.plain(x)
        if self.packed is None:
            self.pack()
        x = x.contiguous()
        if x.data_ptr() % 8:
            x = x.clone()
        we, be, taps, wp, bp = self.packed
        count = x.shape[0]
        out = torch.empty((count, 192, 112, 112), device=x.device, dtype=torch.float32)
        tiles = count * 196
        blocks = min(tiles, _processors(x.device.index))
        _launch(blocks, 512, SHARED_BYTES, x, we, be, taps, wp, bp, out, tiles)
        return out
