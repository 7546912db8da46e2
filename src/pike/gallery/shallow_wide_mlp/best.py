"""A perceptron of three layers as one launch: weights are asked for first, and values carry their own flags.

What it does: the network of `level3-pike/2`, 1000 to 2000 to 2000 to 10 features, on any number of rows, in half
precision: weights of the first two layers are float16. Layer 3, biases, input, hidden values and sums are float32.

What made it fast: each of 125 blocks owns 16 outputs of layer 1 and 16 of layer 2. Its threads ask for their weights of
both layers before they multiply, and keep them in registers for all rows. A hidden value and the number of the launch
are one 64-bit word, so readers poll the words themselves, and no barrier across the grid is needed. Each block turns
its 16 values of layer 2 straight into shares of the outputs, and block 0 adds the shares. A call sets three arguments
in a prepared list and goes to the driver.

Accuracy: a weight that would round to zero becomes the smallest float16 number instead. If float16 moves the weights of
a layer by more than 6e-4 of their norm, PyTorch's layers are used. The norm is that of the whole matrix, not of a row.

Limits: two hidden layers, 1 to 16 outputs, few enough columns (at most 8 a thread in both layers together), float32 on
a GPU with a multiprocessor for each block (125 here), and gradients switched off. All else takes PyTorch's layers. Rows
are computed one after another. Hazards:
- Readers poll without a time limit. The cooperative launch keeps all blocks resident, or fails with an error. After a
  launch that is cut short, or after 2^32 launches on a stream, old flags can match, and results may be wrong.
- Weights are packed at the first call. Changes in place, or by `load_state_dict` of a module around this one, go
  unnoticed. Its own `load_state_dict` and `.to()` free buffers that CUDA graphs captured before still read.
- Each stream has scratch and launch arguments of its own, which its calls share: use one host thread. A graph that is
  captured on a stream with scratch shares it with that stream's calls and graphs, so they must not run at once. The
  first call must not be captured. Outgrown scratch is kept.
- The input's GPU is compared with that of the weights at packing only, and the launch goes to the current device: use
  one GPU, the current one.
- It uses private functions of PyTorch and calls `libcuda.so.1` itself. After a call the model cannot be deep-copied.

Author: a coding agent, in a search by the strategy pike-x (result.json says which).
Licence: Apache-2.0.
"""

import ctypes
import functools

import torch
from torch import nn

THREADS = 512
ROWS = 16

SOURCE = r"""
#include <cuda_fp16.h>

constexpr int K1 = @K1@, H1 = @H1@, H2 = @H2@, OUT = @OUT@, NB = @NB@, C1 = @C1@, C2 = @C2@;
constexpr int WIDTH = NB * 16;
constexpr int V1 = C1 > 1 ? 2 : 1;
constexpr int NP = (NB + 31) / 32;
typedef unsigned long long word;

__device__ __forceinline__ uint4 load_weights(const uint4* p) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
  return v;
}

__device__ __forceinline__ word load_word(const word* p) {
  word v;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}

__device__ __forceinline__ void load_pair(const word* p, word& a, word& b) {
  asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];" : "=l"(a), "=l"(b) : "l"(p) : "memory");
}

__device__ __forceinline__ void store_word(word* p, float value, unsigned int flag) {
  const word v = (static_cast<word>(flag) << 32) | static_cast<word>(__float_as_uint(value));
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" :: "l"(p), "l"(v) : "memory");
}

__device__ __forceinline__ float value_of(word v) { return __uint_as_float(static_cast<unsigned int>(v)); }
__device__ __forceinline__ unsigned int flag_of(word v) { return static_cast<unsigned int>(v >> 32); }

template <int C>
__device__ __forceinline__ void multiply(const uint4 (&w)[2 * C], const float (&x)[C], float (&acc)[16]) {
#pragma unroll
  for (int i = 0; i < 16; ++i) acc[i] = 0.0f;
#pragma unroll
  for (int j = 0; j < 2 * C; ++j) {
    const unsigned int u[4] = {w[j].x, w[j].y, w[j].z, w[j].w};
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      const int e = 8 * j + 2 * q;
      const float2 f = __half22float2(*reinterpret_cast<const __half2*>(&u[q]));
      acc[e / C] = fmaf(f.x, x[e % C], acc[e / C]);
      acc[(e + 1) / C] = fmaf(f.y, x[(e + 1) % C], acc[(e + 1) / C]);
    }
  }
}

// sums 16 values over the block; warp 0 gets the sum of row (lane & 15)
__device__ __forceinline__ float reduce(float (&v)[16], float* part, int warp, int lane) {
#pragma unroll
  for (int n = 8; n >= 1; n >>= 1) {
    const int m = 2 * n;
    const bool up = (lane & m) != 0;
#pragma unroll
    for (int i = 0; i < n; ++i) {
      const float send = up ? v[i] : v[i + n];
      const float keep = up ? v[i + n] : v[i];
      v[i] = keep + __shfl_xor_sync(0xffffffffu, send, m);
    }
  }
  const float mine = v[0] + __shfl_xor_sync(0xffffffffu, v[0], 1);
  if ((lane & 1) == 0) part[warp * 16 + (lane >> 1)] = mine;
  __syncthreads();
  float sum = 0.0f;
  if (warp == 0) {
    float a[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) a[i] = part[i * 32 + lane];
    sum = ((a[0] + a[1]) + (a[2] + a[3])) + ((a[4] + a[5]) + (a[6] + a[7]));
    sum += __shfl_xor_sync(0xffffffffu, sum, 16);
  }
  return sum;
}

__device__ __forceinline__ void load_x(const float* x, int t, float (&v)[C1]) {
#pragma unroll
  for (int k = 0; k < C1; ++k) {
    const int column = (k / V1) * 512 * V1 + V1 * t + k % V1;
    v[k] = column < K1 ? __ldg(x + column) : 0.0f;
  }
}

extern "C" __global__ void __launch_bounds__(512, 1)
mlp(const float* x, float* out, const uint4* w1, const uint4* w2, const float* w3, const float* b1, const float* b2,
    const float* b3, word* hidden, word* partial, unsigned int* epochs, int rows) {
  __shared__ float parts[2][256];
  const int t = threadIdx.x, warp = t >> 5, lane = t & 31, block = blockIdx.x;

  float xv[C1];
  load_x(x, t, xv);
  uint4 first[2 * C1], second[2 * C2];
#pragma unroll
  for (int j = 0; j < 2 * C1; ++j) first[j] = load_weights(w1 + (block * 2 * C1 + j) * 512 + t);
  unsigned int epoch;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(epoch) : "l"(epochs) : "memory");
#pragma unroll
  for (int j = 0; j < 2 * C2; ++j) second[j] = load_weights(w2 + (block * 2 * C2 + j) * 512 + t);
  const int mine = block * 16 + (lane & 15);
  float bias1 = 0.0f, bias2 = 0.0f, third[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) third[i] = 0.0f;
  if (warp == 0) {
    bias1 = __ldg(b1 + mine);
    bias2 = __ldg(b2 + mine);
    const float4* from = reinterpret_cast<const float4*>(w3 + (lane & 15) * WIDTH + block * 16 + (lane >> 4) * 8);
    const float4 a = __ldg(from), b = __ldg(from + 1);
    third[0] = a.x; third[1] = a.y; third[2] = a.z; third[3] = a.w;
    third[4] = b.x; third[5] = b.y; third[6] = b.z; third[7] = b.w;
  }

  int side = 0;
  float acc[16];
  // layer 1
#pragma unroll 1
  for (int r = 0; r < rows; ++r) {
    multiply<C1>(first, xv, acc);
    if (r + 1 < rows) load_x(x + static_cast<long long>(r + 1) * K1, t, xv);
    float sum = reduce(acc, parts[side], warp, lane);
    side ^= 1;
    if (warp == 0 && lane < 16) {
      sum += bias1;
      sum = (sum < 0.0f || mine >= H1) ? 0.0f : sum;
      store_word(hidden + static_cast<long long>(r) * WIDTH + mine, sum, epoch);
    }
  }

  // layer 2, and this block's share of layer 3
#pragma unroll 1
  for (int r = 0; r < rows; ++r) {
    const word* from = hidden + static_cast<long long>(r) * WIDTH;
    float h[C2];
#pragma unroll
    for (int k = 0; k < C2; ++k) h[k] = 0.0f;
    bool ready;
#if @C2@ == 1
    do {
      ready = true;
      if (t < WIDTH) {
        const word a = load_word(from + t);
        ready = flag_of(a) == epoch;
        h[0] = value_of(a);
      }
    } while (!ready);
#else
    do {
      ready = true;
#pragma unroll
      for (int p = 0; p < C2 / 2; ++p) {
        const int column = p * 1024 + 2 * t;
        if (column < WIDTH) {
          word a, b;
          load_pair(from + column, a, b);
          ready = ready && flag_of(a) == epoch && flag_of(b) == epoch;
          h[2 * p] = value_of(a);
          h[2 * p + 1] = value_of(b);
        }
      }
    } while (!ready);
#endif
    __syncwarp();
    multiply<C2>(second, h, acc);
    float sum = reduce(acc, parts[side], warp, lane);
    side ^= 1;
    if (warp == 0) {
      sum += bias2;
      sum = (sum < 0.0f || mine >= H2) ? 0.0f : sum;
      float share = 0.0f;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float value = __shfl_sync(0xffffffffu, sum, (lane >> 4) * 8 + i);
        share = fmaf(third[i], value, share);
      }
      share += __shfl_xor_sync(0xffffffffu, share, 16);
      if (lane < OUT) store_word(partial + (static_cast<long long>(r) * OUT + lane) * NB + block, share, epoch);
    }
  }

  // block 0 adds the shares: one warp an output
  if (block == 0) {
#pragma unroll 1
    for (int item = (warp + 15) & 15; item < rows * OUT; item += 16) {
      const word* from = partial + static_cast<long long>(item) * NB;
      float value[NP];
      bool ready;
      do {
        ready = true;
#pragma unroll
        for (int i = 0; i < NP; ++i) {
          const int b = lane + 32 * i;
          value[i] = 0.0f;
          if (b < NB) {
            const word a = load_word(from + b);
            ready = ready && flag_of(a) == epoch;
            value[i] = value_of(a);
          }
        }
      } while (!ready);
      __syncwarp();
      float sum = 0.0f;
#pragma unroll
      for (int i = 0; i < NP; ++i) sum += value[i];
#pragma unroll
      for (int step = 16; step > 0; step >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, step);
      if (lane == 0) out[item] = sum + __ldg(b3 + item % OUT);
    }
    __syncthreads();
    // every block has given its shares, so all have read the epoch and the hidden values
    if (t == 0) *epochs = epoch + 1u;
  }
}
"""


@functools.cache
def compiled_kernel(_device: int, sizes: tuple):
    """The kernel for these sizes, compiled for the current device, once for each device."""
    source = SOURCE
    for name, value in zip(("K1", "H1", "H2", "OUT", "NB", "C1", "C2"), sizes, strict=True):
        source = source.replace(f"@{name}@", str(value))
    return torch.cuda._compile_kernel(source, "mlp")


@functools.cache
def cooperative_launch():
    """The driver's function for a cooperative launch."""
    return ctypes.CDLL("libcuda.so.1").cuLaunchCooperativeKernel


def columns_per_thread(width: int) -> int:
    """Columns that each thread takes: one, or an even number."""
    count = -(-width // THREADS)
    return count if count == 1 else count + count % 2


def to_half(weight: torch.Tensor) -> torch.Tensor:
    """Weights in float16; none becomes zero unless it was."""
    half = weight.half()
    tiny = torch.copysign(torch.full_like(weight, 2.0**-24), weight).half()
    return torch.where((half == 0) & (weight != 0), tiny, half)


def pack(half: torch.Tensor, blocks: int, count: int) -> torch.Tensor:
    """(out, in) to (block, chunk, thread, 8): what one thread needs, in 16-byte pieces."""
    padded = half.new_zeros(blocks * ROWS, THREADS * count)
    padded[: half.shape[0], : half.shape[1]] = half
    v = min(count, 2)
    thread = torch.arange(THREADS, device=half.device)[:, None]
    k = torch.arange(count, device=half.device)[None, :]
    columns = ((k // v) * (THREADS * v) + v * thread + k % v).reshape(-1)
    ordered = padded[:, columns].reshape(blocks, ROWS, THREADS, count).permute(0, 2, 1, 3)
    return ordered.reshape(blocks, THREADS, 2 * count, 8).permute(0, 2, 1, 3).contiguous()


def padded_to(tensor: torch.Tensor, *shape: int) -> torch.Tensor:
    """A float32 copy, filled up with zeros."""
    result = torch.zeros(shape, dtype=torch.float32, device=tensor.device)
    result[tuple(slice(0, n) for n in tensor.shape)] = tensor
    return result


class Plan:
    """Scratch and launch arguments for one stream."""

    def __init__(self, packed, blocks, outputs, capacity, device):
        self.capacity = capacity
        self.packed = packed
        self.hidden = torch.zeros(capacity * blocks * ROWS, dtype=torch.int64, device=device)
        self.partial = torch.zeros(capacity * blocks * outputs, dtype=torch.int64, device=device)
        self.epoch = torch.ones(1, dtype=torch.int32, device=device)
        self.x = ctypes.c_void_p(0)
        self.out = ctypes.c_void_p(0)
        self.rows = ctypes.c_int(0)
        fixed = [ctypes.c_void_p(v.data_ptr()) for v in (*packed, self.hidden, self.partial, self.epoch)]
        self.held = [self.x, self.out, *fixed, self.rows]
        self.places = (ctypes.c_void_p * len(self.held))(*map(ctypes.addressof, self.held))


class ModelNew(nn.Module):
    """The perceptron; its kernel runs where it can, and PyTorch's layers elsewhere."""

    def __init__(self, features: int, hidden: tuple[int, ...], outputs: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        self.sizes = None
        self.outputs = outputs
        hidden = tuple(hidden)
        if len(hidden) == 2 and 1 <= outputs <= 16:
            blocks = -(-max(hidden) // ROWS)
            c1, c2 = columns_per_thread(features), columns_per_thread(blocks * ROWS)
            if c1 + c2 <= 8:
                self.sizes = (features, *hidden, outputs, blocks, c1, c2)
        self.features = features
        for width in hidden:
            layers += [nn.Linear(features, width), nn.ReLU()]
            features = width
        self.layers = nn.Sequential(*layers, nn.Linear(features, outputs))
        self.forget()

    def forget(self) -> None:
        """Drop packed weights and scratch; the next call makes them again."""
        self.packed = None
        self.usable = self.sizes is not None
        self.plans = {}
        self.retired = []
        self.kernel = None

    def _apply(self, *args, **kwargs):
        """Move or convert as usual, then forget what was packed."""
        result = super()._apply(*args, **kwargs)
        self.forget()
        return result

    def load_state_dict(self, *args, **kwargs):
        """Load as usual, then forget what was packed."""
        result = super().load_state_dict(*args, **kwargs)
        self.forget()
        return result

    def pack_weights(self, device: torch.device) -> bool:
        """Pack the weights and get the kernel; False if the kernel cannot be used."""
        _, _, _, _, blocks, c1, c2 = self.sizes
        one, two, three = self.layers[0], self.layers[2], self.layers[4]
        if torch.cuda.get_device_properties(device).multi_processor_count < blocks:
            return False
        if any(p.dtype != torch.float32 or p.device != device for p in self.parameters()):
            return False
        halves = []
        for layer in (one, two):
            weight = layer.weight.detach()
            half = to_half(weight)
            # float16 must hold these weights to its full precision: neither overflow nor underflow
            if not bool((half.float() - weight).norm() <= 6e-4 * weight.norm()):
                return False
            halves.append(half)
        width = blocks * ROWS
        self.packed = (
            pack(halves[0], blocks, c1),
            pack(halves[1], blocks, c2),
            padded_to(three.weight.detach(), 16, width),
            padded_to(one.bias.detach(), width),
            padded_to(two.bias.detach(), width),
            padded_to(three.bias.detach(), 16),
        )
        self.kernel = compiled_kernel(device.index, self.sizes).func
        self.launch = cooperative_launch()
        torch.cuda.current_stream(device).synchronize()
        return True

    def prepare(self, x: torch.Tensor, stream: int, rows: int):
        """Scratch for so many rows on a stream; None if the kernel cannot be used."""
        with torch.cuda.device(x.device), torch.no_grad():
            if self.packed is None and not self.pack_weights(x.device):
                self.usable = False
                return None
            old = self.plans.get(stream)
            capacity = max(16, rows, 2 * old.capacity if old is not None else 0)
            plan = Plan(self.packed, self.sizes[4], self.outputs, capacity, x.device)
            plan.stream = ctypes.c_void_p(stream)
            if torch.cuda.is_current_stream_capturing():
                self.retired.append(plan)  # its clearing is part of the graph, so it serves that graph alone
            else:
                if old is not None:
                    self.retired.append(old)
                self.plans[stream] = plan
        return plan

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(rows, features) to (rows, outputs)."""
        if (
            not self.usable
            or not x.is_cuda
            or x.dtype != torch.float32
            or x.dim() != 2
            or x.shape[1] != self.features
            or x.shape[0] == 0
            or torch.is_grad_enabled()
        ):
            return self.layers(x)
        rows = x.shape[0]
        stream = torch._C._cuda_getCurrentRawStream(x.get_device())
        plan = self.plans.get(stream)
        if plan is None or rows > plan.capacity:
            plan = self.prepare(x, stream, rows)
            if plan is None:
                return self.layers(x)
        if not x.is_contiguous():
            x = x.contiguous()
        out = x.new_empty((rows, self.outputs))
        plan.x.value = x.data_ptr()
        plan.out.value = out.data_ptr()
        plan.rows.value = rows
        if self.launch(self.kernel, self.sizes[4], 1, 1, THREADS, 1, 1, 0, plan.stream, plan.places):
            raise RuntimeError("the launch failed")
        return out
