"""One decoding step of multi-head latent attention as one persistent kernel.

What it does: the step of `level5/12`. Two new tokens of width 2048 go through the low-rank layers,
attend over 4096 cached positions and themselves with 16 heads each, and through the output layer.
All of it is one cooperative launch of 132 blocks, with three barriers across the grid.

What made it fast: the step reads 168 MB of keys and values and 61 MB of weights, and little else
counts. Each layer's first weights are asked for before the barrier: a warp loads its next row into
registers ahead. In each block that attends, one thread feeds a ring of five stages in shared memory
with bulk copies, and starts to fill it before the first layer is computed. Four blocks share the
positions of a sample and head. Scores, softmax and weighted sum are one pass over the ring.

Accuracy: weights, caches, products and sums are float32, and no tensor cores are used. The norms'
weights, the scale of the scores and log2(e) are folded into the layers in 64 bits when the weights
are taken over. Sums have another order than in PyTorch.

Limits: 2 tokens, width 2048, 16 heads, ranks 1536 and 512, 4096 cached positions. A GPU of compute
capability 9.0 (Hopper) with at least 132 multiprocessors. Calls of a model must follow each other.

Author: a coding agent, in a search by the strategy pike-x (result.json says which).
Licence: Apache-2.0.
"""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

DECLARATION = """
torch::Tensor mla_decode(torch::Tensor x, torch::Tensor packed, torch::Tensor keys, torch::Tensor values,
                         torch::Tensor scratch);
"""
SOURCE = r"""
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime.h>
#include <torch/extension.h>

constexpr int BLOCKS = 132, WARPS = 16, THREADS = WARPS * 32 + 32, LEADER = WARPS * 32;
constexpr int WIDTH = 2048, QRANK = 1536, LATENT = 512, DOWN = 2112, QROWS = 3072, KVROWS = 4096;
constexpr int ATTENDING = 128, SPLITS = 4, ROWS = 1024, TILE = 32, TILES = ROWS / TILE, STAGES = 5;
constexpr int K_BYTES = TILE * 192 * 4, V_BYTES = TILE * 128 * 4, STAGE_BYTES = K_BYTES + V_BYTES;
constexpr int AUX_OFFSET = STAGES * STAGE_BYTES, AUX_BYTES = 2 * DOWN * 4;
constexpr int BAR_OFFSET = AUX_OFFSET + AUX_BYTES, SMEM = BAR_OFFSET + 128;

// offsets in packed, in floats
constexpr int P_DOWN = 0;
constexpr int P_QUP = P_DOWN + DOWN * WIDTH;
constexpr int P_KVUP = P_QUP + QROWS * QRANK;
constexpr int P_OUT = P_KVUP + KVROWS * LATENT;
constexpr int P_DOWN_B = P_OUT + WIDTH * WIDTH;
constexpr int P_QUP_B = P_DOWN_B + DOWN;
constexpr int P_KVUP_B = P_QUP_B + QROWS;
constexpr int P_OUT_B = P_KVUP_B + KVROWS;
constexpr int P_COS = P_OUT_B + WIDTH;
constexpr int P_SIN = P_COS + 32;
constexpr int P_TOTAL = P_SIN + 32;

// offsets in scratch, in floats; the barrier comes first
constexpr int S_H = 32;
constexpr int S_Q = S_H + 2 * DOWN;
constexpr int S_KV = S_Q + 2 * QROWS;
constexpr int S_ACC = S_KV + 2 * KVROWS;
constexpr int S_ML = S_ACC + ATTENDING * 128;
constexpr int S_TOTAL = S_ML + ATTENDING * 2;

__device__ __forceinline__ unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ float4 load_once(const float* p) {
  float4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(p));
  return v;
}

template <int N>
__device__ __forceinline__ void load_row(float4 (&w)[16], const float* row, int lane) {
#pragma unroll
  for (int k = 0; k < N; ++k) w[k] = load_once(row + (k * 32 + lane) * 4);
}

__device__ __forceinline__ float dot4(float4 a, float4 b, float s) {
  s = fmaf(a.x, b.x, s);
  s = fmaf(a.y, b.y, s);
  s = fmaf(a.z, b.z, s);
  return fmaf(a.w, b.w, s);
}

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
  return v;
}

// all threads of all blocks; the top bit flips when everyone has come
__device__ __forceinline__ void grid_barrier(unsigned* barrier) {
  __syncthreads();
  if (threadIdx.x == LEADER) {
    __threadfence();
    const unsigned add = blockIdx.x == 0 ? 0x80000000u - (BLOCKS - 1) : 1u;
    const unsigned old = atomicAdd(barrier, add);
    unsigned now;
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(barrier) : "memory");
    } while (((old ^ now) & 0x80000000u) == 0u);
    __threadfence();
  }
  __syncwarp();
  __syncthreads();
}

__device__ __forceinline__ void mbar_wait(unsigned bar, unsigned parity) {
  unsigned done;
  do {
    asm volatile(
        "{\n\t.reg .pred p;\n\t"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
        "selp.u32 %0, 1, 0, p;\n\t}"
        : "=r"(done)
        : "r"(bar), "r"(parity)
        : "memory");
  } while (!done);
}

__device__ __forceinline__ void bulk_copy(unsigned to, const float* from, unsigned bytes, unsigned bar,
                                          unsigned long long policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;"
      :
      : "r"(to), "l"(from), "r"(bytes), "r"(bar), "l"(policy)
      : "memory");
}

__global__ void __launch_bounds__(THREADS, 1)
mla_decode_kernel(const float* __restrict__ x, const float* __restrict__ packed, const float* __restrict__ keys,
                  const float* __restrict__ values, float* scratch, float* out) {
  extern __shared__ __align__(128) unsigned char smem[];
  float* aux = reinterpret_cast<float*>(smem + AUX_OFFSET);
  float4* aux4 = reinterpret_cast<float4*>(aux);
  const unsigned stages = shared_address(smem), bars = shared_address(smem + BAR_OFFSET);
  const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31;
  const int g = blockIdx.x * WARPS + warp;
  const bool worker = warp < WARPS;
  const bool attends = blockIdx.x < ATTENDING;
  const int pair = blockIdx.x / SPLITS, split = blockIdx.x % SPLITS;
  const int sample = pair >> 4, head = pair & 15;
  unsigned* barrier = reinterpret_cast<unsigned*>(scratch);
  const float* my_keys = keys + static_cast<size_t>(blockIdx.x) * ROWS * 192;
  const float* my_values = values + static_cast<size_t>(blockIdx.x) * ROWS * 128;
  unsigned long long policy = 0;

  auto issue = [&](int tile) {
    const int s = tile % STAGES;
    const unsigned full = bars + 8 * s, to = stages + s * STAGE_BYTES;
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :
                 : "r"(full), "r"(STAGE_BYTES)
                 : "memory");
    bulk_copy(to, my_keys + tile * TILE * 192, K_BYTES, full, policy);
    bulk_copy(to + K_BYTES, my_values + tile * TILE * 128, V_BYTES, full, policy);
  };

  float4 w[16];

  // phase 1: both down projections, a row a warp; the first tiles of keys and values are on their way
  if (worker) load_row<16>(w, packed + P_DOWN + g * WIDTH, lane);
  if (tid == LEADER) {
    for (int s = 0; s < STAGES; ++s) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" : : "r"(bars + 8 * s), "r"(1) : "memory");
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" : : "r"(bars + 8 * (STAGES + s)), "r"(WARPS) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
    asm volatile("fence.proxy.async;" : : : "memory");
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    if (attends)
      for (int t = 0; t < STAGES; ++t) issue(t);
  }
  __syncwarp();
  const bool second_query = (g & 1) == 0;
  const int half = g >> 1;
  const float* second = second_query ? packed + P_QUP + (WIDTH + half) * QRANK : packed + P_KVUP + half * 4 * LATENT;
  if (worker && attends) {
    const int lines = second_query ? QRANK / 32 : 4 * LATENT / 32;
    for (int i = lane; i < lines; i += 32) asm volatile("prefetch.global.L2 [%0];" : : "l"(second + i * 32));
  }
  for (int i = tid; i < 2 * WIDTH / 4; i += THREADS) aux4[i] = reinterpret_cast<const float4*>(x)[i];
  __syncthreads();
  if (worker) {
    float s0 = 0.0f, s1 = 0.0f;
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      s0 = dot4(w[k], aux4[k * 32 + lane], s0);
      s1 = dot4(w[k], aux4[WIDTH / 4 + k * 32 + lane], s1);
    }
    s0 = warp_sum(s0);
    s1 = warp_sum(s1);
    if (lane == 0) {
      const float bias = packed[P_DOWN_B + g];
      scratch[S_H + g] = s0 + bias;
      scratch[S_H + DOWN + g] = s1 + bias;
    }
    if (attends) load_row<12>(w, packed + P_QUP + g * QRANK, lane);
  }
  grid_barrier(barrier);

  // phase 2: norms and both up projections; a warp has two rows of the query's, or one of the query's and four of the
  // key's and value's
  if (tid == LEADER && attends) {
    for (int t = STAGES; t < STAGES + 2; ++t) {
      asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;"
                   :
                   : "l"(my_keys + t * TILE * 192), "r"(K_BYTES)
                   : "memory");
      asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;"
                   :
                   : "l"(my_values + t * TILE * 128), "r"(V_BYTES)
                   : "memory");
    }
  }
  __syncwarp();
  for (int i = tid; i < 2 * DOWN / 4; i += THREADS)
    aux4[i] = __ldcg(reinterpret_cast<const float4*>(scratch + S_H) + i);
  __syncthreads();
  if (worker && attends) {
    float s0 = 0.0f, s1 = 0.0f, n0 = 0.0f, n1 = 0.0f;
#pragma unroll
    for (int k = 0; k < 12; ++k) {
      const float4 a = aux4[k * 32 + lane], b = aux4[DOWN / 4 + k * 32 + lane];
      s0 = dot4(w[k], a, s0);
      s1 = dot4(w[k], b, s1);
      n0 = dot4(a, a, n0);
      n1 = dot4(b, b, n1);
    }
    if (second_query)
      load_row<12>(w, second, lane);
    else
      load_row<16>(w, second, lane);
    s0 = warp_sum(s0);
    s1 = warp_sum(s1);
    const float f0 = 1.0f / sqrtf(warp_sum(n0) / QRANK + 1e-6f), f1 = 1.0f / sqrtf(warp_sum(n1) / QRANK + 1e-6f);
    if (lane == 0) {
      const float bias = packed[P_QUP_B + g];
      scratch[S_Q + g] = fmaf(s0, f0, bias);
      scratch[S_Q + QROWS + g] = fmaf(s1, f1, bias);
    }
    if (second_query) {
      s0 = 0.0f;
      s1 = 0.0f;
#pragma unroll
      for (int k = 0; k < 12; ++k) {
        s0 = dot4(w[k], aux4[k * 32 + lane], s0);
        s1 = dot4(w[k], aux4[DOWN / 4 + k * 32 + lane], s1);
      }
      s0 = warp_sum(s0);
      s1 = warp_sum(s1);
      if (lane == 0) {
        const int row = WIDTH + half;
        const float bias = packed[P_QUP_B + row];
        scratch[S_Q + row] = fmaf(s0, f0, bias);
        scratch[S_Q + QROWS + row] = fmaf(s1, f1, bias);
      }
    } else {
      float r0[4] = {0.0f, 0.0f, 0.0f, 0.0f}, r1[4] = {0.0f, 0.0f, 0.0f, 0.0f};
      n0 = 0.0f;
      n1 = 0.0f;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const float4 a = aux4[QRANK / 4 + k * 32 + lane], b = aux4[DOWN / 4 + QRANK / 4 + k * 32 + lane];
        n0 = dot4(a, a, n0);
        n1 = dot4(b, b, n1);
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          r0[r] = dot4(w[r * 4 + k], a, r0[r]);
          r1[r] = dot4(w[r * 4 + k], b, r1[r]);
        }
      }
      const float e0 = 1.0f / sqrtf(warp_sum(n0) / LATENT + 1e-6f), e1 = 1.0f / sqrtf(warp_sum(n1) / LATENT + 1e-6f);
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const float t0 = warp_sum(r0[r]), t1 = warp_sum(r1[r]);
        if (lane == 0) {
          const int row = half * 4 + r;
          const float bias = packed[P_KVUP_B + row];
          scratch[S_KV + row] = fmaf(t0, e0, bias);
          scratch[S_KV + KVROWS + row] = fmaf(t1, e1, bias);
        }
      }
    }
    // the output layer's row waits in registers while attention runs
    load_row<16>(w, packed + P_OUT + g * WIDTH, lane);
  }
  grid_barrier(barrier);

  // phase 3: attention over 1024 cached positions of one sample and head
  if (attends) {
    if (tid == LEADER) {
      for (int t = STAGES; t < TILES; ++t) {
        mbar_wait(bars + 8 * (STAGES + t % STAGES), (t / STAGES - 1) & 1);
        issue(t);
      }
    } else if (worker) {
      const float2* query = reinterpret_cast<const float2*>(scratch + S_Q + sample * QROWS + head * 192);
      const float2 q0 = __ldcg(query + lane), q1 = __ldcg(query + lane + 32), raw = __ldcg(query + lane + 64);
      const float c = packed[P_COS + lane], s = packed[P_SIN + lane];
      const float2 q2 = make_float2(raw.x * c - raw.y * s, raw.x * s + raw.y * c);
      float m = __int_as_float(0xff800000), l = 0.0f;
      float4 acc = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      if (split == 0 && warp == 0) {  // the new token
        const float* both = scratch + S_KV + sample * KVROWS + head * 256;
        const float2 k0 = __ldcg(reinterpret_cast<const float2*>(both) + lane);
        const float2 k1 = __ldcg(reinterpret_cast<const float2*>(both) + lane + 32);
        const float2 kr =
            __ldcg(reinterpret_cast<const float2*>(scratch + S_H + sample * DOWN + QRANK + LATENT) + lane);
        const float2 k2 = make_float2(kr.x * c - kr.y * s, kr.x * s + kr.y * c);
        float score = q0.x * k0.x;
        score = fmaf(q0.y, k0.y, score);
        score = fmaf(q1.x, k1.x, score);
        score = fmaf(q1.y, k1.y, score);
        score = fmaf(q2.x, k2.x, score);
        score = fmaf(q2.y, k2.y, score);
        m = warp_sum(score);
        l = 1.0f;
        acc = __ldcg(reinterpret_cast<const float4*>(both + 128) + lane);
      }
      int stage = 0;
      unsigned parity = 0;
      for (int t = 0; t < TILES; ++t) {
        mbar_wait(bars + 8 * stage, parity);
        const float2* kt = reinterpret_cast<const float2*>(smem + stage * STAGE_BYTES);
        const float4* vt = reinterpret_cast<const float4*>(smem + stage * STAGE_BYTES + K_BYTES);
        float score[2];
        float4 v[2];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const float2* k = kt + (warp + r * WARPS) * 96 + lane;
          const float2 k0 = k[0], k1 = k[32], k2 = k[64];
          v[r] = vt[(warp + r * WARPS) * 32 + lane];
          score[r] = q0.x * k0.x;
          score[r] = fmaf(q0.y, k0.y, score[r]);
          score[r] = fmaf(q1.x, k1.x, score[r]);
          score[r] = fmaf(q1.y, k1.y, score[r]);
          score[r] = fmaf(q2.x, k2.x, score[r]);
          score[r] = fmaf(q2.y, k2.y, score[r]);
        }
#pragma unroll
        for (int step = 16; step > 0; step /= 2) {
          score[0] += __shfl_xor_sync(0xffffffffu, score[0], step);
          score[1] += __shfl_xor_sync(0xffffffffu, score[1], step);
        }
        const float top = fmaxf(m, fmaxf(score[0], score[1]));
        const float keep = exp2f(m - top), p0 = exp2f(score[0] - top), p1 = exp2f(score[1] - top);
        m = top;
        l = fmaf(l, keep, p0 + p1);
        acc.x = fmaf(p1, v[1].x, fmaf(p0, v[0].x, acc.x * keep));
        acc.y = fmaf(p1, v[1].y, fmaf(p0, v[0].y, acc.y * keep));
        acc.z = fmaf(p1, v[1].z, fmaf(p0, v[0].z, acc.z * keep));
        acc.w = fmaf(p1, v[1].w, fmaf(p0, v[0].w, acc.w * keep));
        __syncwarp();
        if (lane == 0)
          asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" : : "r"(bars + 8 * (STAGES + stage)) : "memory");
        if (++stage == STAGES) {
          stage = 0;
          parity ^= 1;
        }
      }
      reinterpret_cast<float4*>(aux + warp * 132)[lane] = acc;
      if (lane == 0) {
        aux[warp * 132 + 128] = m;
        aux[warp * 132 + 129] = l;
      }
    }
    __syncwarp();
    __syncthreads();
    if (tid < 128) {
      float top = aux[128];
#pragma unroll
      for (int k = 1; k < WARPS; ++k) top = fmaxf(top, aux[k * 132 + 128]);
      float total = 0.0f, sum = 0.0f;
#pragma unroll
      for (int k = 0; k < WARPS; ++k) {
        const float factor = exp2f(aux[k * 132 + 128] - top);
        total = fmaf(factor, aux[k * 132 + 129], total);
        sum = fmaf(factor, aux[k * 132 + tid], sum);
      }
      scratch[S_ACC + blockIdx.x * 128 + tid] = sum;
      if (tid == 0) {
        scratch[S_ML + blockIdx.x * 2] = top;
        scratch[S_ML + blockIdx.x * 2 + 1] = total;
      }
    }
  }
  grid_barrier(barrier);

  // phase 4: merge the ranges and the output layer
  if (!attends) return;
  for (int i = tid; i < 2 * WIDTH / 4; i += THREADS) {
    const int p = i >> 5, column = i & 31;
    float2 ml[SPLITS];
    float4 a[SPLITS];
#pragma unroll
    for (int k = 0; k < SPLITS; ++k) {
      ml[k] = __ldcg(reinterpret_cast<const float2*>(scratch + S_ML) + p * SPLITS + k);
      a[k] = __ldcg(reinterpret_cast<const float4*>(scratch + S_ACC) + (p * SPLITS + k) * 32 + column);
    }
    float top = ml[0].x;
#pragma unroll
    for (int k = 1; k < SPLITS; ++k) top = fmaxf(top, ml[k].x);
    float total = 0.0f;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
    for (int k = 0; k < SPLITS; ++k) {
      const float factor = exp2f(ml[k].x - top);
      total = fmaf(factor, ml[k].y, total);
      sum.x = fmaf(factor, a[k].x, sum.x);
      sum.y = fmaf(factor, a[k].y, sum.y);
      sum.z = fmaf(factor, a[k].z, sum.z);
      sum.w = fmaf(factor, a[k].w, sum.w);
    }
    const float inverse = 1.0f / total;
    aux4[i] = make_float4(sum.x * inverse, sum.y * inverse, sum.z * inverse, sum.w * inverse);
  }
  __syncthreads();
  if (worker) {
    float s0 = 0.0f, s1 = 0.0f;
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      s0 = dot4(w[k], aux4[k * 32 + lane], s0);
      s1 = dot4(w[k], aux4[WIDTH / 4 + k * 32 + lane], s1);
    }
    s0 = warp_sum(s0);
    s1 = warp_sum(s1);
    if (lane == 0) {
      const float bias = packed[P_OUT_B + g];
      out[g] = s0 + bias;
      out[WIDTH + g] = s1 + bias;
    }
  }
}

torch::Tensor mla_decode(torch::Tensor x, torch::Tensor packed, torch::Tensor keys, torch::Tensor values,
                         torch::Tensor scratch) {
  const c10::cuda::CUDAGuard guard(x.device());
  auto input = x.contiguous();
  TORCH_CHECK(input.scalar_type() == at::kFloat && input.numel() == 2 * WIDTH, "x must be float32, (2, 1, 2048)");
  TORCH_CHECK(packed.numel() == P_TOTAL && scratch.numel() == S_TOTAL, "weights of another shape");
  TORCH_CHECK(keys.numel() == 32LL * 4096 * 192 && values.numel() == 32LL * 4096 * 128, "caches of another shape");
  if (reinterpret_cast<size_t>(input.data_ptr()) % 16 != 0) input = input.clone();
  auto output = torch::empty_like(input);
  static bool ready = false;
  if (!ready) {
    C10_CUDA_CHECK(cudaFuncSetAttribute(reinterpret_cast<const void*>(mla_decode_kernel),
                                        cudaFuncAttributeMaxDynamicSharedMemorySize, SMEM));
    ready = true;
  }
  const float* x_p = input.data_ptr<float>();
  const float* packed_p = packed.data_ptr<float>();
  const float* keys_p = keys.data_ptr<float>();
  const float* values_p = values.data_ptr<float>();
  float* scratch_p = scratch.data_ptr<float>();
  float* out_p = output.data_ptr<float>();
  void* args[] = {&x_p, &packed_p, &keys_p, &values_p, &scratch_p, &out_p};
  C10_CUDA_CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(mla_decode_kernel), dim3(BLOCKS),
                                             dim3(THREADS), args, static_cast<size_t>(SMEM),
                                             at::cuda::getCurrentCUDAStream().stream()));
  return output;
}
"""
extension = load_inline(
    name="mla_decode_persistent_cuda",
    cpp_sources=[DECLARATION],
    cuda_sources=[SOURCE],
    functions=["mla_decode"],
    extra_cuda_cflags=["-O3", "-gencode=arch=compute_90a,code=sm_90a"],
)

BATCH, CACHED, PLAIN, ROTARY, VALUE = 2, 4096, 128, 64, 128
LOG2E = 1.4426950408889634


class ModelNew(nn.Module):
    """One launch a call; scratch belongs to the model, so calls must follow each other on one stream."""

    def __init__(self, width: int, heads: int, query_rank: int, latent: int) -> None:
        super().__init__()
        down = query_rank + latent + ROTARY
        query_rows, both_rows = heads * (PLAIN + ROTARY), heads * (PLAIN + VALUE)
        weights = down * width + query_rows * query_rank + both_rows * latent + width * heads * VALUE
        biases = down + query_rows + both_rows + width
        self.register_buffer("packed", torch.zeros(weights + biases + ROTARY))
        self.register_buffer("keys", torch.zeros(BATCH, heads, CACHED, PLAIN + ROTARY))
        self.register_buffer("values", torch.zeros(BATCH, heads, CACHED, VALUE))
        ranges = BATCH * heads * 4
        size = 32 + BATCH * (down + query_rows + both_rows) + ranges * (VALUE + 2)
        self.register_buffer("scratch", torch.zeros(size))

    @classmethod
    def from_reference(cls, model: nn.Module) -> "ModelNew":
        """Pack the original's weights, with norms and scale folded in, and copy its caches."""
        new = cls(model.query_down.in_features, model.heads, model.query_down.out_features, model.latent)
        with torch.no_grad():
            factor = model.scale * LOG2E  # scores are in powers of two
            query_up = model.query_up.weight.double() * model.query_norm.weight.double() * factor
            query_bias = model.query_up.bias.double() * factor
            both_up = model.key_value_up.weight.double() * model.key_value_norm.weight.double()
            parts = (
                model.query_down.weight,
                model.key_value_down.weight,
                query_up,
                both_up,
                model.output.weight,
                model.query_down.bias,
                model.key_value_down.bias,
                query_bias,
                model.key_value_up.bias,
                model.output.bias,
                model.cos,
                model.sin,
            )
            new.packed = torch.cat([part.detach().float().reshape(-1) for part in parts])
            new.keys = model.keys.detach().clone(memory_format=torch.contiguous_format)
            new.values = model.values.detach().clone(memory_format=torch.contiguous_format)
            new.scratch = new.scratch.to(new.packed.device)
        return new

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The two new tokens, float32 of (2, 1, 2048), to the same shape; the caches are only read."""
        return extension.mla_decode(x, self.packed, self.keys, self.values, self.scratch)
