"""A diagonal state-space layer as one kernel: a causal convolution with prepared taps.

What it does: the layer of `level5/5` in inference, on signals of 256 steps, any number of them. The
filters and the response to the start do not depend on the signal. They are computed at the first
call and kept, as 512 numbers a head.

What made it fast: one launch, and a direct sum where the original takes FFTs. A block of threads
finishes two tiles of 16 outputs, an early and a late one, of one head of eight signals. Every such
pair needs 17 squares of 16 outputs by 16 inputs, so all blocks have the same number of products. A
thread takes 4 outputs of 2 signals from one square, with all inputs and taps in registers. Skip and
causality are in the taps: the skip is added to the first one, and zeros lie in front of it.

Accuracy: taps and response are computed in 64 bits and rounded to 32 bits once. Signals, products
and sums have 32 bits. The order of the sums is fixed.

Limits: float32 signals of 256 steps, inference only, one device for model and signal. A change of
the parameters in place is not noticed. No instruction is tied to one GPU; the grid suits 8 signals
of 16 heads.

Author: a coding agent, in a search by the strategy pike-x (result.json says which).
Licence: Apache-2.0.
"""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

MODES = 32
LENGTH = 256

DECLARATION = "torch::Tensor s4d_convolve(torch::Tensor signal, torch::Tensor table);"
SOURCE = r"""
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/extension.h>

constexpr int LENGTH = 256;            // time steps
constexpr int TILE = 16;               // outputs of a tile, sources of a segment
constexpr int TILES = LENGTH / TILE;   // 16
constexpr int PAIRS = TILES / 2;       // 8
constexpr int SQUARES = TILES + 1;     // 17 of one block
constexpr int THREADS = SQUARES * 16;  // 272
constexpr int ROWS = 8;                // batch rows of one block
constexpr int STRIDE = LENGTH + 4;     // a padded row, against bank conflicts

__global__ void __launch_bounds__(THREADS) s4d_kernel(const float* __restrict__ signal,
                                                      const float* __restrict__ table,
                                                      float* __restrict__ out, int batch, int heads) {
  __shared__ __align__(16) float rows[ROWS * STRIDE];
  __shared__ __align__(16) float taps[TILE + LENGTH];
  __shared__ __align__(16) float parts[SQUARES * ROWS * TILE];

  const int tid = threadIdx.x;
  const int pair = blockIdx.x;
  const int head = blockIdx.y;
  const int first = blockIdx.z * ROWS;
  const int low = pair, high = TILES - 1 - pair;
  const float* own = table + static_cast<size_t>(head) * 2 * LENGTH;

  // the prefix of every batch row, and the taps behind 16 zeros
  const int needed = (high + 1) * (TILE / 4);
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    const int index = tid + k * THREADS;
    const int row = index >> 6, column = index & 63;
    if (index < ROWS * (LENGTH / 4) && column < needed) {
      float4 value = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      if (first + row < batch)
        value = __ldg(reinterpret_cast<const float4*>(
                          signal + (static_cast<size_t>(first + row) * heads + head) * LENGTH) + column);
      *reinterpret_cast<float4*>(rows + row * STRIDE + column * 4) = value;
    }
  }
  if (tid < LENGTH / 4) {
    reinterpret_cast<float4*>(taps + TILE)[tid] = __ldg(reinterpret_cast<const float4*>(own) + tid);
  } else if (tid < LENGTH / 4 + TILE / 4) {
    reinterpret_cast<float4*>(taps)[tid - LENGTH / 4] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  }

  // what this thread finishes at the end: one output, and its response to the start
  const bool upper = tid >= ROWS * TILE;
  const int final_row = (tid >> 4) & (ROWS - 1);
  const int final_time = (upper ? high : low) * TILE + (tid & (TILE - 1));
  float response = 0.0f;
  if (tid < 2 * ROWS * TILE) response = __ldg(own + LENGTH + final_time);

  __syncthreads();

  {
    const int group = tid & 3;          // four outputs
    const int lane_row = (tid >> 2) & 3;  // batch rows lane_row and lane_row + 4
    const int square = tid >> 4;
    const bool is_low = square <= low;
    const int tile = is_low ? low : high;
    const int source = is_low ? square : square - low - 1;

    float tap[20], u0[TILE], u1[TILE];
    const float4* tap_from = reinterpret_cast<const float4*>(taps + (tile - source) * TILE + group * 4);
#pragma unroll
    for (int k = 0; k < 5; ++k) {
      const float4 v = tap_from[k];
      tap[4 * k] = v.x;
      tap[4 * k + 1] = v.y;
      tap[4 * k + 2] = v.z;
      tap[4 * k + 3] = v.w;
    }
    const float4* from0 = reinterpret_cast<const float4*>(rows + lane_row * STRIDE + source * TILE);
    const float4* from1 = reinterpret_cast<const float4*>(rows + (lane_row + 4) * STRIDE + source * TILE);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float4 a = from0[k];
      u0[4 * k] = a.x;
      u0[4 * k + 1] = a.y;
      u0[4 * k + 2] = a.z;
      u0[4 * k + 3] = a.w;
      const float4 b = from1[k];
      u1[4 * k] = b.x;
      u1[4 * k + 1] = b.y;
      u1[4 * k + 2] = b.z;
      u1[4 * k + 3] = b.w;
    }
    float sum0[4] = {0.0f, 0.0f, 0.0f, 0.0f}, sum1[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int c = 0; c < TILE; ++c) {
#pragma unroll
      for (int a = 0; a < 4; ++a) {
        sum0[a] = fmaf(tap[16 + a - c], u0[c], sum0[a]);
        sum1[a] = fmaf(tap[16 + a - c], u1[c], sum1[a]);
      }
    }
    float* to = parts + square * (ROWS * TILE) + group * 4;
    *reinterpret_cast<float4*>(to + lane_row * TILE) = make_float4(sum0[0], sum0[1], sum0[2], sum0[3]);
    *reinterpret_cast<float4*>(to + (lane_row + 4) * TILE) = make_float4(sum1[0], sum1[1], sum1[2], sum1[3]);
  }

  __syncthreads();

  if (tid < 2 * ROWS * TILE) {
    const int begin = upper ? low + 1 : 0;
    const int count = upper ? high + 1 : low + 1;
    const float* from = parts + begin * (ROWS * TILE) + (tid & (ROWS * TILE - 1));
    float total[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int j = 0; j < TILES; ++j) {
      if (j < count) total[j & 3] += from[j * (ROWS * TILE)];
    }
    const float y = ((total[0] + total[1]) + (total[2] + total[3])) + response;
    if (first + final_row < batch)
      out[(static_cast<size_t>(first + final_row) * heads + head) * LENGTH + final_time] = y;
  }
}

torch::Tensor s4d_convolve(torch::Tensor signal, torch::Tensor table) {
  TORCH_CHECK(signal.is_cuda() && signal.scalar_type() == at::kFloat, "the signal must be float32 on the GPU");
  TORCH_CHECK(signal.dim() == 3 && signal.size(2) == LENGTH && signal.size(1) == table.size(0),
              "the signal must be (batch, heads, 256)");
  const c10::cuda::CUDAGuard guard(signal.device());
  torch::Tensor input = signal.is_contiguous() ? signal : signal.contiguous();
  if (reinterpret_cast<uintptr_t>(input.data_ptr<float>()) % 16 != 0) input = input.clone();
  const int batch = static_cast<int>(input.size(0)), heads = static_cast<int>(input.size(1));
  torch::Tensor output = at::empty({batch, heads, LENGTH}, input.options());
  if (batch == 0) return output;
  const dim3 grid(PAIRS, heads, (batch + ROWS - 1) / ROWS);
  s4d_kernel<<<grid, THREADS, 0, at::cuda::getCurrentCUDAStream()>>>(
      input.data_ptr<float>(), table.data_ptr<float>(), output.data_ptr<float>(), batch, heads);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return output;
}
"""
extension = load_inline(
    name="s4d_tile_pairs_cuda",
    cpp_sources=[DECLARATION],
    cuda_sources=[SOURCE],
    functions=["s4d_convolve"],
    extra_cuda_cflags=["-O3"],
)
convolve = extension.s4d_convolve


class ModelNew(nn.Module):
    """The same layer; filters and the response to the start are prepared at the first call."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.frequency = nn.Parameter(torch.zeros(1, heads, MODES))
        self.decay = nn.Parameter(torch.zeros(1, heads, MODES))
        self.skip = nn.Parameter(torch.zeros(1, heads))
        self.input = nn.Parameter(torch.zeros(1, heads, MODES))
        self.output = nn.Parameter(torch.zeros(1, heads, MODES))
        self.start = nn.Parameter(torch.zeros(1, heads, MODES))
        self.table = None

    def _apply(self, *args, **kwargs):
        self.table = None
        return super()._apply(*args, **kwargs)

    def _load_from_state_dict(self, *args, **kwargs):
        self.table = None
        return super()._load_from_state_dict(*args, **kwargs)

    @torch.no_grad()
    def _prepare(self) -> torch.Tensor:
        """(heads, 2, length): the taps with the skip in the first, and the response to the start."""
        frequency, decay = self.frequency[0].double(), self.decay[0].double()
        gain_in, gain_out, start = self.input[0].double(), self.output[0].double(), self.start[0].double()
        time = torch.arange(LENGTH, dtype=torch.float64, device=decay.device) / (LENGTH - 1)
        damping = torch.exp(-decay.abs()[..., None] * time)
        waves = 2 / (LENGTH - 1) * damping * torch.cos(frequency[..., None] * time)
        taps = ((gain_in * gain_out)[..., None] * waves).sum(-2)
        taps[:, 0] += self.skip[0].double()
        response = 2 * ((gain_out * start)[..., None] * waves).sum(-2)
        return torch.stack((taps, response), 1).float().contiguous()

    def forward(self, signal: torch.Tensor) -> torch.Tensor:
        """(batch, heads, 256) in float32 to the same shape, causal; without a gradient."""
        table = self.table
        if table is None:
            table = self.table = self._prepare()
        return convolve(signal, table)
