"""A chain of linear layers with few rows as a single CUDA kernel.

Knows CUDA C++, NVRTC (the run-time compiler that comes with torch) and how to launch through the
driver. A warp sums one output of a layer, for all rows at once. Between layers all blocks wait for
each other, which is safe with at most one block on each multiprocessor. Meanwhile they fetch the
weights of later layers into the cache. Sums and values between layers are float32 for weights of
any dtype. Calls must not overlap, because they share the memory between layers. Does not know
graphs. Imports nothing of PIKE, because it is copied into candidates.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

LAYER_THREADS = 256
LAYER_TYPES = {torch.float32: "float", torch.float16: "half_bits", torch.bfloat16: "bfloat_bits"}
"""The dtypes of inputs, weights and outputs, and the kernel's names for them."""

LAYERS_SOURCE = r"""
#ifdef __CUDACC_RTC__
#define ON_DEVICE __device__ __forceinline__
ON_DEVICE void past_l1(const float* p, float (&v)[1]) {
  asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(v[0]) : "l"(p));
}
ON_DEVICE void past_l1(const float* p, float (&v)[2]) {
  asm volatile("ld.global.cg.v2.f32 {%0, %1}, [%2];" : "=f"(v[0]), "=f"(v[1]) : "l"(p));
}
ON_DEVICE void past_l1(const float* p, float (&v)[4]) {
  asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3]) : "l"(p));
}
ON_DEVICE unsigned seen(const unsigned* p) {
  unsigned v; asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v;
}
ON_DEVICE void fetch(const void* p) { asm volatile("prefetch.global.L2 [%0];" :: "l"(p)); }
ON_DEVICE float wide(unsigned short bits) { float v; asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(bits)); return v; }
ON_DEVICE unsigned short narrow(float v) {
  unsigned short bits; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(v)); return bits;
}
ON_DEVICE float bits_to_float(unsigned bits) { return __uint_as_float(bits); }
ON_DEVICE unsigned float_to_bits(float v) { return __float_as_uint(v); }
#endif

struct half_bits { unsigned short bits; };
struct bfloat_bits { unsigned short bits; };
ON_DEVICE float value(float v) { return v; }
ON_DEVICE float value(half_bits v) { return wide(v.bits); }
ON_DEVICE float value(bfloat_bits v) { return bits_to_float((unsigned)v.bits << 16); }
ON_DEVICE void put(float* p, float v) { *p = v; }
ON_DEVICE void put(half_bits* p, float v) { p->bits = narrow(v); }
ON_DEVICE void put(bfloat_bits* p, float v) {
  unsigned bits = float_to_bits(v);
  p->bits = v != v ? 0x7fc0 : (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}
struct none { ON_DEVICE static float of(float v) { return v; } };
struct relu { ON_DEVICE static float of(float v) { return v < 0.0f ? 0.0f : v; } };
struct tanh_ { ON_DEVICE static float of(float v) { return tanhf(v); } };
struct sigmoid { ON_DEVICE static float of(float v) { return 1.0f / (1.0f + expf(-v)); } };
struct silu { ON_DEVICE static float of(float v) { return v / (1.0f + expf(-v)); } };
struct gelu { ON_DEVICE static float of(float v) { return 0.5f * v * (1.0f + erff(v * 0.70710678118654752f)); } };

template <class T, int COUNT> struct alignas(sizeof(T) * COUNT) Pack { T at[COUNT]; };

// Neighbours of a row of inputs, and of what another block may have written, which the first cache does not know.
template <int COUNT, class T> ON_DEVICE void read(const T* p, float (&v)[COUNT]) {
  const Pack<T, COUNT> pack = *reinterpret_cast<const Pack<T, COUNT>*>(p);
#pragma unroll
  for (int i = 0; i < COUNT; i++) v[i] = value(pack.at[i]);
}
template <int COUNT> ON_DEVICE void read(const float* p, float (&v)[COUNT]) {
  constexpr int PART = COUNT < 4 ? COUNT : 4;
#pragma unroll
  for (int i = 0; i < COUNT; i += PART) past_l1(p + i, reinterpret_cast<float (&)[PART]>(v[i]));
}

// sums[r] += the part of a weight row over columns [0, K) times row r of x; lanes share the columns.
template <int K, int COUNT, int ROWS, class X, class W>
ON_DEVICE void accumulate(float (&sums)[ROWS], const X* x, const W* w, int lane) {
#pragma unroll (ROWS > 2 ? 2 : 4)
  for (int k = lane * COUNT; k < K; k += 32 * COUNT) {
    const Pack<W, COUNT> weights = *reinterpret_cast<const Pack<W, COUNT>*>(w + k);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      float inputs[COUNT];
      read<COUNT>(x + r * K + k, inputs);
#pragma unroll
      for (int i = 0; i < COUNT; i++) sums[r] += value(weights.at[i]) * inputs[i];
    }
  }
}

template <int N, int ROWS, class ACT, class Y>
ON_DEVICE void finish(float (&sums)[ROWS], const float* bias, Y* y, int n, int lane) {
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    for (int other = 16; other; other /= 2) sums[r] += __shfl_xor_sync(0xffffffffu, sums[r], other);
    if (lane == 0) put(y + r * N + n, ACT::of(sums[r] + (bias ? bias[n] : 0.0f)));
  }
}

// Every block waits for every other; gate[0] counts those that came, gate[1] how often all came.
ON_DEVICE void meet(unsigned* gate) {
  __syncthreads();
  if (threadIdx.x == 0) {
    const unsigned before = seen(gate + 1);
    __threadfence();
    if (atomicAdd(gate, 1u) == gridDim.x - 1) {
      gate[0] = 0;
      __threadfence();
      atomicAdd(gate + 1, 1u);
    } else {
      while (seen(gate + 1) == before) {}
    }
    __threadfence();
  }
  __syncthreads();
}

ON_DEVICE void fetch_all(const void* start, long long bytes, int warp, int lane, int warps) {
  for (long long at = (warp * 32LL + lane) * 128; at < bytes; at += warps * 4096LL) fetch((const char*)start + at);
}

struct Job {
  const void* x[MOST_INPUTS]; void* y; float* between[2]; unsigned* gate; const void* w[DEPTH]; const float* b[DEPTH];
};

extern "C" __global__ void __launch_bounds__(THREADS) layers(const Job job) {
  const int lane = threadIdx.x % 32, warps = gridDim.x * (THREADS / 32);
  const int warp = blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
BODY}
"""
"""The kernel; BODY, MOST_INPUTS, DEPTH and THREADS are filled in for a chain."""


class Layer(NamedTuple):
    """One linear layer: weight (out, in), bias (out) or None, and the function of its outputs."""

    weight: torch.Tensor
    bias: torch.Tensor | None
    function: str


def layers_source(inputs: Sequence[torch.Tensor], rows: int, layers: Sequence[Layer], dtype: torch.dtype) -> str:
    """The kernel for one chain.

    Args:
        inputs: each (rows, its columns), contiguous; the first layer reads them side by side.
        rows: how many.
        layers: at least one.
        dtype: of the output.
    """
    later = enumerate(layers[1:], 1)
    body = [f"  fetch_all(job.w[{index}], {layer.weight.nbytes}LL, warp, lane, warps);\n" for index, layer in later]
    for index, layer in enumerate(layers):
        weight, last = LAYER_TYPES[layer.weight.dtype], index == len(layers) - 1
        columns, width = layer.weight.shape[1], layer.weight.shape[0]
        reads = [(f"job.between[{(index - 1) % 2}]", columns, "float", 0)]
        if index == 0:
            widths = [one.numel() // rows for one in inputs]
            reads = [
                (f"job.x[{place}]", count, LAYER_TYPES[inputs[place].dtype], sum(widths[:place]))
                for place, count in enumerate(widths)
            ]
        sums = "".join(
            f"    accumulate<{count}, {load_width(layer.weight, count, start)}>"
            f"(sums, (const {kind}*){source}, w + {start}, lane);\n"
            for source, count, kind, start in reads
        )
        target = f"({LAYER_TYPES[dtype]}*)job.y" if last else f"job.between[{index % 2}]"
        body.append(
            f"  for (int n = warp; n < {width}; n += warps) {{\n"
            f"    const {weight}* w = (const {weight}*)job.w[{index}] + (long long)n * {columns};\n"
            f"    float sums[{rows}] = {{}};\n{sums}"
            f"    finish<{width}, {rows}, {layer.function}>(sums, job.b[{index}], {target}, n, lane);\n  }}\n"
        )
        if not last:
            body.append("  meet(job.gate);\n")
    filled = LAYERS_SOURCE.replace("BODY", "".join(body)).replace("MOST_INPUTS", str(len(inputs)))
    return filled.replace("DEPTH", str(len(layers))).replace("THREADS", str(LAYER_THREADS))


def load_width(weight: torch.Tensor, count: int, start: int) -> int:
    """How many neighbours one load of at most 16 bytes may take where a part begins at `start`."""
    fitting = (size for size in (8, 4, 2) if size * weight.element_size() <= 16)
    return next((size for size in fitting if not (weight.shape[1] % size or count % size or start % size)), 1)


def aligned(tensor: torch.Tensor) -> torch.Tensor:
    """The same values, contiguous, at an address that 16-byte loads may begin at."""
    plain = tensor.contiguous()
    return plain if plain.data_ptr() % 16 == 0 else plain.clone()


class LayersKernel:
    """Runs a chain of layers on inputs like these.

    Args:
        inputs: example inputs on one GPU, each (rows, its columns).
        rows: how many.
        layers: the chain.
        shape: of the output.
        dtype: of the output.

    Raises:
        RuntimeError: NVRTC is not there or refuses, or the kernel cannot be loaded.
    """

    def __init__(
        self, inputs: Sequence[torch.Tensor], rows: int, layers: Sequence[Layer], shape: Any, dtype: torch.dtype
    ) -> None:
        self.shape, self.dtype, self.device = shape, dtype, inputs[0].device
        self.index = self.device.index or 0
        weights = [aligned(layer.weight) for layer in layers]
        biases = [None if layer.bias is None else layer.bias.float().contiguous() for layer in layers]
        widest = max(weight.shape[0] for weight in weights)
        room = -(-rows * widest // 4) * 4  # both halves begin at multiples of 16 bytes
        between = torch.empty(2, room, dtype=torch.float32, device=self.device)
        gate = torch.zeros(2, dtype=torch.int32, device=self.device)
        self.kept = (weights, biases, between, gate)
        self.job = job_type(len(inputs), len(layers))()
        self.job.between[:] = [row.data_ptr() for row in between]
        self.job.gate = gate.data_ptr()
        self.job.w[:] = [weight.data_ptr() for weight in weights]
        self.job.b[:] = [0 if bias is None else bias.data_ptr() for bias in biases]
        self.arguments = (ctypes.c_void_p * 1)(ctypes.addressof(self.job))
        properties = torch.cuda.get_device_properties(self.device)
        self.blocks = min(properties.multi_processor_count, -(-widest // (LAYER_THREADS // 32)))
        with torch.cuda.device(self.device):
            torch.cuda.synchronize()
            source = layers_source(inputs, rows, layers, dtype)
            self.function = loaded_kernel(source, f"sm_{properties.major}{properties.minor}")
        self.launch = cuda_driver().cuLaunchKernel

    def __call__(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        """The output, alone in a list."""
        if torch.cuda.current_device() != self.index:
            with torch.cuda.device(self.device):
                return self(*inputs)
        y = torch.empty(self.shape, dtype=self.dtype, device=self.device)
        read = [aligned(x) for x in inputs]
        self.job.x[:] = [x.data_ptr() for x in read]
        self.job.y = y.data_ptr()
        stream = ctypes.c_void_p(torch._C._cuda_getCurrentRawStream(self.index))
        grid = (self.blocks, 1, 1, LAYER_THREADS, 1, 1)
        if code := self.launch(self.function, *grid, 0, stream, self.arguments, None):
            raise RuntimeError(f"cuLaunchKernel failed with CUDA error {code}")
        return [y]


@functools.cache
def job_type(inputs: int, depth: int) -> Any:
    """The kernel's argument as ctypes has it."""
    pointer = ctypes.c_void_p
    fields = [("x", pointer * inputs), ("y", pointer), ("between", pointer * 2), ("gate", pointer)]
    return type("Job", (ctypes.Structure,), {"_fields_": [*fields, ("w", pointer * depth), ("b", pointer * depth)]})


@functools.cache
def cuda_driver() -> Any:
    """The driver's library."""
    return ctypes.CDLL("libcuda.so.1")


def loaded_kernel(source: str, architecture: str) -> ctypes.c_void_p:
    """The function `layers` of a source, compiled and loaded into the current context.

    Raises:
        RuntimeError: it cannot be.
    """
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    driver, cubin = cuda_driver(), compiled_by_nvrtc(source, architecture)
    code = driver.cuModuleLoadData(ctypes.byref(module), cubin)
    code = code or driver.cuModuleGetFunction(ctypes.byref(function), module, b"layers")
    if code:
        raise RuntimeError(f"the kernel cannot be loaded: CUDA error {code}")
    return function


def compiled_by_nvrtc(source: str, architecture: str) -> bytes:
    """A cubin for, say, `sm_90`.

    Raises:
        RuntimeError: NVRTC is not there, or its words on why it refuses.
    """
    nvrtc, program, size = nvrtc_library(), ctypes.c_void_p(), ctypes.c_size_t()

    def text(what: str) -> bytes:
        getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        getattr(nvrtc, f"nvrtcGet{what}")(program, buffer)
        return buffer.raw

    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"layers.cu", 0, None, None)
    options = [f"--gpu-architecture={architecture}".encode(), b"--std=c++17"]
    if nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options)):
        raise RuntimeError(f"NVRTC does not compile the kernel: {text('ProgramLog').decode(errors='replace')[:2000]}")
    cubin = text("CUBIN")
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return cubin


@functools.cache
def nvrtc_library() -> Any:
    """NVRTC of torch's own CUDA, where torch or the toolkit put it.

    Raises:
        RuntimeError: it is not installed there.
    """
    name = f"libnvrtc.so.{str(torch.version.cuda).partition('.')[0]}"
    home = Path(torch.__file__).parent
    folders = [
        *sorted(home.parent.glob("nvidia/*/lib")),
        home / "lib",
        Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "lib64"),
    ]
    for path in (name, *(str(folder / name) for folder in folders)):
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    raise RuntimeError(f"{name} is not here; it comes with torch's CUDA build (package nvidia-cuda-nvrtc)")
