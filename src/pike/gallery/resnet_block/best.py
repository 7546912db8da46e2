"""A residual block as one persistent kernel: three convolutions, three batch norms, one launch.

What it does: the block of `level3-pike/8` on images of 224 x 224, any number of them. Products have
16-bit factors and 32-bit sums, on tensor cores (`wgmma`). Batch norms are folded into the weights in
64 bits when the weights are taken over.

What made it fast: the result of the first convolution never leaves the chip. Each block of threads
walks down its rows. One warp group computes rows of the first convolution into a ring of four in
shared memory. Two others compute the second convolution from it, with the shortcut as one more
product. They take turns, so that one stores its row while the other has the tensor cores.

Accuracy: the shortcut's input and weights are split into a high and a low part of 16 bits each, as
is the input at the centre of the first convolution.

Limits: 3 to 64 channels, stride 1, images of 224 x 224, compute capability 9.0 (Hopper).

Author: a coding agent, in a search by the strategy pike-x (result.json says which).
Licence: Apache-2.0.
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

DECLARATION = "torch::Tensor fused_block(torch::Tensor x, torch::Tensor packed, torch::Tensor bias);"

TEMPLATE = r"""
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>
#include <cuda_fp16.h>
#include <stdint.h>

constexpr int W = 224, H = 224, C = 64, CIN = 3;
constexpr int PIX = 226;                       // pixels of a ring row, with the zero columns
constexpr int HKG = PIX * 16;                  // bytes of one group of 8 channels
constexpr int HROW = 8 * HKG;                  // bytes of one ring row
constexpr int SLOTS = 4, XSLOTS = 5;
constexpr int XKG = W * 16;                    // bytes of one im2col group of 8
constexpr int OFF_W2 = 0;
constexpr int OFF_W1 = 73728;
constexpr int OFF_WD = OFF_W1 + 4096;
constexpr int OFF_H = OFF_WD + 2048;
constexpr int OFF_XC = OFF_H + SLOTS * HROW;
constexpr int OFF_IM = OFF_XC + XSLOTS * XKG;
constexpr int OFF_BAR = OFF_IM + 3 * XKG;
constexpr int OFF_RAW = OFF_BAR + 64;          // ring of three raw input lines, filled a row ahead
constexpr int RAW = CIN * W * 4;               // bytes of one raw line of all channels
constexpr int SMEM = OFF_RAW + 3 * RAW;
static_assert(OFF_RAW % 16 == 0 && 16 * SLOTS <= 64, "layout");
static_assert(SMEM <= 232448, "too much shared memory");

__device__ __forceinline__ uint64_t make_desc(uint32_t addr, uint32_t lbo, uint32_t sbo) {
  return (uint64_t)((addr & 0x3FFFF) >> 4) | ((uint64_t)(lbo >> 4) << 16) | ((uint64_t)(sbo >> 4) << 32);
}

__device__ __forceinline__ void mma(float (&d)[112], uint64_t a, uint64_t b) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %114, 0; "
    "wgmma.mma_async.sync.aligned.m64n224k16.f32.f16.f16 {@REGS@}, %112, %113, p, 1, 1, 0, 0; }"
    : @OPERANDS@
    : "l"(a), "l"(b), "r"(1));
}

__device__ __forceinline__ void wg_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wg_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> __device__ __forceinline__ void wg_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}
__device__ __forceinline__ void pin(float (&d)[112]) {
#pragma unroll
  for (int i = 0; i < 112; ++i) asm volatile("" : "+f"(d[i])::"memory");
}
__device__ __forceinline__ void proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ __forceinline__ void bar_init(uint32_t bar, uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}
__device__ __forceinline__ void bar_arrive(uint32_t bar, uint32_t count) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}
__device__ __forceinline__ void bar_wait(uint32_t bar, uint32_t parity) {
  uint32_t done = 0;
  do {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(bar), "r"(parity) : "memory");
  } while (!done);
}
__device__ __forceinline__ float relu_nan(float v) {
  float r;
  asm("max.NaN.f32 %0, %1, 0f00000000;" : "=f"(r) : "f"(v));
  return r;
}
__device__ __forceinline__ uint32_t bits(__half2 v) { return *reinterpret_cast<uint32_t*>(&v); }
__device__ __forceinline__ uint32_t pack(float a, float b) { return bits(__floats2half2_rn(a, b)); }
__device__ __forceinline__ uint32_t pack_relu(float a, float b, uint32_t mask) {
  return bits(__hmax2_nan(__floats2half2_rn(a, b), __float2half2_rn(0.0f))) & mask;
}
__device__ __forceinline__ void st16(uint32_t addr, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(addr), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
__device__ __forceinline__ float low_part(float v) {
  const float h = __half2float(__float2half_rn(v));
  return fabsf(v) < 65000.0f ? v - h : 0.0f;
}

__global__ void __launch_bounds__(384, 1)
block_kernel(const float* __restrict__ x, const uint4* __restrict__ packed, const float* __restrict__ bias,
             float* __restrict__ out, int total, int per) {
  extern __shared__ __align__(128) unsigned char smem[];
  const uint32_t base = (uint32_t)__cvta_generic_to_shared(smem);
  const int tid = threadIdx.x;
  const int wg = __shfl_sync(0xffffffffu, tid >> 7, 0);
  const int lane = tid & 31;
  const int warp = (tid >> 5) & 3;
  const uint32_t full = base + OFF_BAR, empty = base + OFF_BAR + 8 * SLOTS;

  const int r0 = blockIdx.x * per;
  const int n = min(per, total - r0);
  const int b0 = r0 / H, y0 = r0 % H;
  const int s = min(n, H - y0);                               // rows of the first image
  const int hrows = s + 2 + (s < n ? n - s + 2 : 0);

  // line j holds the input row above the j-th row of conv1; rows outside the image become zeros
  auto load_line = [&](int j, uint32_t slot) {
    const bool one = j <= s + 2 || s == n;
    const int img = one ? b0 : b0 + 1;
    const int y = one ? y0 - 2 + j : j - s - 4;
    const bool inside = (unsigned)y < (unsigned)H;
    const float* line = x + img * (CIN * H * W) + (inside ? y : 0) * W;
    const int size = inside ? 16 : 0;
#pragma unroll
    for (int u = 0; u < 2; ++u) {
      const int e = tid + u * 128;
      if (e < RAW / 16) {
        const int ch = e / (W / 4), part = e % (W / 4);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                     ::"r"(slot + e * 16), "l"(line + ch * (H * W) + part * 4), "r"(size) : "memory");
      }
    }
  };
  if (wg == 0) {
    for (int j = 0; j < 3; ++j) load_line(j, base + OFF_RAW + j * RAW);
  }

  for (int i = tid; i < OFF_H / 16; i += 384) {
    const uint4 v = packed[i];
    st16(base + i * 16, v.x, v.y, v.z, v.w);
  }
  if (tid < SLOTS * 8 * 2) {
    const int slot = tid >> 4, kg = (tid >> 1) & 7, side = tid & 1;
    st16(base + OFF_H + slot * HROW + kg * HKG + side * (PIX - 1) * 16, 0, 0, 0, 0);
  }
  if (tid == 0) {
    for (int i = 0; i < SLOTS; ++i) {
      bar_init(full + 8 * i, 128);
      bar_init(empty + 8 * i, 12);
    }
  }
  proxy_fence();
  __syncthreads();

  const int g = lane >> 2, t = lane & 3;
  float d[112];

  if (wg == 0) {
    // ---------------- producer: conv1 + bn1 + ReLU ----------------
    const float blo = bias[16 * warp + g], bhi = bias[16 * warp + g + 8];
    const uint64_t w1a = make_desc(base + OFF_W1, 1024, 128);
    const uint64_t w1b = make_desc(base + OFF_W1 + 2048, 1024, 128);
    const uint64_t imb = make_desc(base + OFF_IM + XKG, XKG, 128);
    const uint32_t st_off = (2 * warp + ((lane >> 3) & 1)) * HKG + (1 + 8 * (lane >> 4) + (lane & 7)) * 16;
    int xslot = 0;
    int raw0 = OFF_RAW, raw1 = OFF_RAW + RAW, raw2 = OFF_RAW + 2 * RAW;
    for (int i = 0; i < hrows; ++i) {
      int img, y;
      if (i < s + 2) { img = b0; y = y0 + i - 1; }
      else { img = b0 + 1; y = i - s - 3; }
      const float* xi = x + img * (CIN * H * W);
      if (tid < 21) {
        const int ch = tid / 7, line = tid % 7;
        if (y >= 0 && y + 4 < H) {
          const float* ptr = xi + ch * (H * W) + (y + 4) * W + line * 32;
          asm volatile("prefetch.global.L2 [%0];" ::"l"(ptr));
        }
      }
      // this row's lines have arrived, and every warp's products of the row before are done:
      // the lines may be read and the im2col buffer may be overwritten
      asm volatile("cp.async.wait_all;" ::: "memory");
      asm volatile("bar.sync 1, 128;" ::: "memory");
      float v[2][27];
#pragma unroll
      for (int u = 0; u < 2; ++u) {
        const int p = tid + u * 128;
#pragma unroll
        for (int c = 0; c < 3; ++c)
#pragma unroll
          for (int dy = 0; dy < 3; ++dy)
#pragma unroll
            for (int dx = 0; dx < 3; ++dx) {
              const int xx = p + dx - 1;
              const bool ok = (unsigned)xx < (unsigned)W && p < W;
              const float* line = reinterpret_cast<const float*>(smem + (dy == 0 ? raw0 : dy == 1 ? raw1 : raw2));
              v[u][c * 9 + dy * 3 + dx] = ok ? line[c * W + xx] : 0.0f;
            }
      }
      const uint32_t xc = base + OFF_XC + xslot * XKG;
#pragma unroll
      for (int u = 0; u < 2; ++u) {
        const int p = tid + u * 128;
        if (p < W) {
          const float c0 = v[u][4], c1 = v[u][13], c2 = v[u][22];
          st16(xc + p * 16, pack(c0, c1), pack(c2, low_part(c0)), pack(low_part(c1), low_part(c2)), 0u);
#pragma unroll
          for (int c = 0; c < 3; ++c) {
            const int o = c * 9;
            st16(base + OFF_IM + c * XKG + p * 16, pack(v[u][o], v[u][o + 1]), pack(v[u][o + 2], v[u][o + 3]),
                 pack(v[u][o + 5], v[u][o + 6]), pack(v[u][o + 7], v[u][o + 8]));
          }
        }
      }
      proxy_fence();
      asm volatile("bar.sync 1, 128;" ::: "memory");
      // the oldest line has been read by all: the next row's new line takes its place while this row is computed
      if (i + 1 < hrows) load_line(i + 3, base + raw0);
      const int oldest = raw0;
      raw0 = raw1;
      raw1 = raw2;
      raw2 = oldest;
#pragma unroll
      for (int j = 0; j < 28; ++j) {
        d[4 * j] = blo; d[4 * j + 1] = blo; d[4 * j + 2] = bhi; d[4 * j + 3] = bhi;
      }
      pin(d);
      wg_fence();
      mma(d, w1a, make_desc(xc, base + OFF_IM - xc, 128));
      mma(d, w1b, imb);
      wg_commit();
      wg_wait<0>();
      pin(d);
      const int slot = i & 3;
      if (i >= SLOTS) bar_wait(empty + 8 * slot, ((i >> 2) - 1) & 1);
      const uint32_t mask = (unsigned)y < (unsigned)H ? 0xffffffffu : 0u;
      const uint32_t to = base + OFF_H + slot * HROW + st_off;
#pragma unroll
      for (int jp = 0; jp < 14; ++jp) {
        const uint32_t q0 = pack_relu(d[8 * jp], d[8 * jp + 1], mask);
        const uint32_t q1 = pack_relu(d[8 * jp + 2], d[8 * jp + 3], mask);
        const uint32_t q2 = pack_relu(d[8 * jp + 4], d[8 * jp + 5], mask);
        const uint32_t q3 = pack_relu(d[8 * jp + 6], d[8 * jp + 7], mask);
        asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
                     ::"r"(to + jp * 256), "r"(q0), "r"(q1), "r"(q2), "r"(q3) : "memory");
      }
      proxy_fence();
      bar_arrive(full + 8 * slot, 1);
      if (++xslot == XSLOTS) xslot = 0;
    }
  } else {
    // ---------------- consumers: conv2 + bn2 + shortcut + ReLU ----------------
    const float blo = bias[64 + 16 * warp + g], bhi = bias[64 + 16 * warp + g + 8];
    const uint64_t w2 = make_desc(base + OFF_W2, 1024, 128);
    const uint64_t wd = make_desc(base + OFF_WD, 1024, 128);
    const uint64_t hb = make_desc(base + OFF_H, HKG, 128);
    const int odd = t & 1;
    const int pixel = odd ? 8 + 2 * t - 2 : 2 * t;
    for (int k = wg - 1; k < n; k += 2) {
      const int q = k < s ? k : k + 2;
      const int first = (k == 0 || k == s) ? 1 : 0;
      const int last = (k == s - 1 || k == n - 1) ? 1 : 0;
      const int s0 = q & 3, s1 = (q + 1) & 3, s2 = (q + 2) & 3;
#pragma unroll
      for (int j = 0; j < 28; ++j) {
        d[4 * j] = blo; d[4 * j + 1] = blo; d[4 * j + 2] = bhi; d[4 * j + 3] = bhi;
      }
      pin(d);

      // ping-pong: this row's products start when those of the row before have all been issued, so that one
      // consumer has the tensor cores to itself while the other one stores its results
      if (k > 0) asm volatile("bar.sync %0, 256;" ::"r"(1 + wg) : "memory");
      bar_wait(full + 8 * s0, (q >> 2) & 1);
      wg_fence();
      {
        const uint64_t hd = hb + (uint64_t)(s0 * (HROW / 16));
#pragma unroll
        for (int m = 0; m < 12; ++m)
          mma(d, w2 + (uint64_t)(m * 128), hd + (uint64_t)((m >> 2) + (m & 3) * (2 * HKG / 16)));
      }
      wg_commit();

      bar_wait(full + 8 * s1, ((q + 1) >> 2) & 1);
      wg_fence();
      {
        const uint64_t hd = hb + (uint64_t)(s1 * (HROW / 16));
#pragma unroll
        for (int m = 0; m < 12; ++m)
          mma(d, w2 + (uint64_t)((12 + m) * 128), hd + (uint64_t)((m >> 2) + (m & 3) * (2 * HKG / 16)));
        // both groups of 8 of this step read the same pixels: high, then low part of the weights
        mma(d, wd, make_desc(base + OFF_XC + ((q + 1) % XSLOTS) * XKG, 0, 128));
      }
      wg_commit();
      wg_wait<1>();
      if (lane == 0) bar_arrive(empty + 8 * s0, first ? 3 : 1);
      __syncwarp();

      bar_wait(full + 8 * s2, ((q + 2) >> 2) & 1);
      wg_fence();
      {
        const uint64_t hd = hb + (uint64_t)(s2 * (HROW / 16));
#pragma unroll
        for (int m = 0; m < 12; ++m)
          mma(d, w2 + (uint64_t)((24 + m) * 128), hd + (uint64_t)((m >> 2) + (m & 3) * (2 * HKG / 16)));
      }
      wg_commit();
      if (k + 1 < n) asm volatile("bar.arrive %0, 256;" ::"r"(4 - wg) : "memory");
      wg_wait<1>();
      if (lane == 0) bar_arrive(empty + 8 * s1, 1 + first + last);
      __syncwarp();
      wg_wait<0>();
      pin(d);
      if (lane == 0) bar_arrive(empty + 8 * s2, last ? 3 : 1);
      __syncwarp();

      const int r = r0 + k;
      const int img = r / H, y = r % H;
      float* to = out + (int64_t)(img * C + 16 * warp + g) * (H * W) + y * W + pixel;
#pragma unroll
      for (int jp = 0; jp < 14; ++jp) {
#pragma unroll
        for (int hh = 0; hh < 2; ++hh) {
          const float a0 = d[8 * jp + 2 * hh], a1 = d[8 * jp + 2 * hh + 1];
          const float c0 = d[8 * jp + 4 + 2 * hh], c1 = d[8 * jp + 5 + 2 * hh];
          const float e0 = __shfl_xor_sync(0xffffffffu, odd ? a0 : c0, 1);
          const float e1 = __shfl_xor_sync(0xffffffffu, odd ? a1 : c1, 1);
          float4 o;
          o.x = relu_nan(odd ? e0 : a0);
          o.y = relu_nan(odd ? e1 : a1);
          o.z = relu_nan(odd ? c0 : e0);
          o.w = relu_nan(odd ? c1 : e1);
          __stcs(reinterpret_cast<float4*>(to + hh * (8 * H * W) + jp * 16), o);
        }
      }
    }
  }
}

torch::Tensor fused_block(torch::Tensor x, torch::Tensor packed, torch::Tensor bias) {
  TORCH_CHECK(x.is_cuda() && x.scalar_type() == torch::kFloat32, "float32 CUDA input expected");
  TORCH_CHECK(x.dim() == 4 && x.size(1) == CIN && x.size(2) == H && x.size(3) == W, "unexpected shape");
  TORCH_CHECK(packed.numel() * 2 == OFF_H && packed.is_contiguous() && bias.numel() == 128, "bad weights");
  auto input = x.contiguous();
  if (reinterpret_cast<uintptr_t>(input.data_ptr()) % 16 != 0) input = input.clone();
  const int images = (int)input.size(0);
  auto output = torch::empty({images, C, H, W}, input.options());
  if (images == 0) return output;
  const int total = images * H;
  int per = (total + 131) / 132;
  if (per > H) per = H;
  const int grid = (total + per - 1) / per;
  C10_CUDA_CHECK(cudaFuncSetAttribute(block_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SMEM));
  block_kernel<<<grid, 384, SMEM, at::cuda::getCurrentCUDAStream()>>>(
      input.data_ptr<float>(), reinterpret_cast<const uint4*>(packed.data_ptr()), bias.data_ptr<float>(),
      output.data_ptr<float>(), total, per);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return output;
}
"""

SOURCE = TEMPLATE.replace("@REGS@", ", ".join("%" + str(i) for i in range(112))).replace(
    "@OPERANDS@", ", ".join('"+f"(d[' + str(i) + "])" for i in range(112))
)

extension = load_inline(
    name="pike_gallery_resnet_block",
    cpp_sources=[DECLARATION],
    cuda_sources=[SOURCE],
    functions=["fused_block"],
    extra_cuda_cflags=["-O3", "-gencode=arch=compute_90a,code=sm_90a"],
)

PACKED = 9 * 8 * 64 * 8 + 4 * 64 * 8 + 2 * 64 * 8  # numbers of conv2, conv1 and the shortcut


def _fold(conv: nn.Conv2d, bn: nn.BatchNorm2d) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights and biases of a convolution with the batch norm after it, in 64 bits."""
    weight = conv.weight.detach().double()
    scale = torch.rsqrt(bn.running_var.detach().double() + bn.eps)
    if bn.weight is not None:
        scale = scale * bn.weight.detach().double()
    shift = -bn.running_mean.detach().double() * scale
    if bn.bias is not None:
        shift = shift + bn.bias.detach().double()
    return weight * scale.view(-1, 1, 1, 1), shift


def _pack(w1: torch.Tensor, w2: torch.Tensor, shortcut: torch.Tensor) -> torch.Tensor:
    """The weights in 16 bits, in the order in which they lie in shared memory."""
    # conv2: [tap][channel / 8][output channel][channel % 8]
    p2 = w2.permute(2, 3, 1, 0).reshape(9, 8, 8, 64).permute(0, 1, 3, 2).contiguous()
    # conv1: group 0 holds the centre taps (for the high and the low part of x), group c + 1 the others of channel c
    taps = w1.reshape(64, 3, 9)
    p1 = torch.zeros(4, 64, 8, dtype=torch.float64, device=w1.device)
    p1[0, :, 0:3] = p1[0, :, 3:6] = taps[:, :, 4]
    for c in range(3):
        p1[c + 1] = taps[:, c, [0, 1, 2, 3, 5, 6, 7, 8]]
    # shortcut: the high part of the weights, then what 16 bits cut off
    ws = shortcut.reshape(64, 3)
    high = ws.to(torch.float16).double()
    ps = torch.zeros(2, 64, 8, dtype=torch.float64, device=w1.device)
    ps[0, :, 0:3] = ps[0, :, 3:6] = high
    ps[1, :, 0:3] = ps[1, :, 3:6] = ws - high
    return torch.cat([part.reshape(-1) for part in (p2, p1, ps)]).to(torch.float16).contiguous()


class ModelNew(nn.Module):
    """The block for inference: folded weights in 16 bits, biases in 32."""

    def __init__(self, channels_in: int, channels: int, stride: int = 1) -> None:
        super().__init__()
        if (channels_in, channels, stride) != (3, 64, 1):
            raise ValueError("this kernel is made for 3 to 64 channels with stride 1")
        self.register_buffer("packed", torch.zeros(PACKED, dtype=torch.float16))
        self.register_buffer("bias", torch.zeros(128, dtype=torch.float32))

    @classmethod
    def from_reference(cls, model: nn.Module) -> "ModelNew":
        """The same block with the weights and statistics of `model`."""
        channels, channels_in = model.conv1.weight.shape[:2]
        new = cls(channels_in, channels, model.conv1.stride[0])
        with torch.no_grad():
            w1, b1 = _fold(model.conv1, model.bn1)
            w2, b2 = _fold(model.conv2, model.bn2)
            ws, bs = _fold(*model.shortcut)
            new.packed = _pack(w1, w2, ws)
            new.bias = torch.cat([b1, b2 + bs]).to(torch.float32).contiguous()
        return new

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, 3, 224, 224) to (batch, 64, 224, 224)."""
        return extension.fused_block(x, self.packed, self.bias)
