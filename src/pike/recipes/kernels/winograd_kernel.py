"""3 x 3 convolution on a CPU by Winograd's minimal filtering, as an operator that torch.compile can
call.

Knows the algorithm of Lavin and Gray 2015 (arXiv:1509.09308). An input tile of (m + 2)^2 values and
the filter are transformed, multiplied element by element, summed over channels, and transformed
back to m^2 outputs. That takes (m + 2)^2 multiplications instead of 9 m^2. The interpolation points
for m = 4 are 0, +-2/3, +-3/2, which have half the rounding error of the common 0, +-1, +-2
(Barabasz et al. 2018, arXiv:1803.10986). A NaN or infinity in the input reaches the whole tiles
that read it. Does not know graphs. Imports nothing of PIKE but `operator`, because it is copied
into candidates.
"""

from __future__ import annotations

import ctypes
import functools
import shutil
import subprocess
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import torch

from pike.recipes.kernels.operator import define_operator

WINOGRAD_POINTS = {
    2: (Fraction(0), Fraction(1), Fraction(-1)),
    4: (Fraction(0), Fraction(2, 3), Fraction(-2, 3), Fraction(3, 2), Fraction(-3, 2)),
}
"""Finite interpolation points by tile size; infinity is the last point."""

WINOGRAD_BLOCK = 18
"""Tiles transformed together, so that they stay in the second-level cache; a multiple of the
kernel's six rows."""

WINOGRAD_SOURCE = r"""
// Channels last. The filter is packed as [point][K / width][C][width]. Threads share blocks of tiles.
#include <algorithm>
#include <cstddef>
#include <vector>
#ifdef __AVX512F__
constexpr int LANES = 16, ROWS = 6, VECS = 4;
#else
constexpr int LANES = 8, ROWS = 6, VECS = 2;
#endif
typedef float vec __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
constexpr int CHUNK = 32;  // channels summed in one go: short sums keep the rounding error small
constexpr int M = TILE, A = M + 2;
static const float BT[A][A] = INPUT_MATRIX;
static const float AT[M][A] = OUTPUT_MATRIX;

struct Shape {
  int H, W, C, K, across, per_image, block;
};

template <int R>
static inline void multiply_rows(const float* v, const float* u, float* p, int C, int K) {
  for (int k = 0; k < K; k += LANES * VECS) {
    const float* up = u + (size_t)k * C;
    for (int from = 0; from < C; from += CHUNK) {
      vec acc[R][VECS] = {};
      for (int c = from; c < std::min(C, from + CHUNK); c++, up += LANES * VECS) {
        vec w[VECS];
        for (int j = 0; j < VECS; j++) w[j] = *(const vec*)(up + j * LANES);
        for (int r = 0; r < R; r++) {
          const float x = v[(size_t)r * C + c];
          for (int j = 0; j < VECS; j++) acc[r][j] += w[j] * x;
        }
      }
      for (int r = 0; r < R; r++)
        for (int j = 0; j < VECS; j++) {
          vec* sum = (vec*)(p + (size_t)r * K + k + j * LANES);
          *sum = from ? *sum + acc[r][j] : acc[r][j];
        }
    }
  }
}

static void multiply(const float* v, const float* u, float* p, int count, int C, int K) {
  for (; count >= ROWS; count -= ROWS, v += (size_t)ROWS * C, p += (size_t)ROWS * K) multiply_rows<ROWS>(v, u, p, C, K);
  switch (count) {
    case 1: multiply_rows<1>(v, u, p, C, K); break;
    case 2: multiply_rows<2>(v, u, p, C, K); break;
    case 3: multiply_rows<3>(v, u, p, C, K); break;
    case 4: multiply_rows<4>(v, u, p, C, K); break;
    case 5: multiply_rows<5>(v, u, p, C, K); break;
  }
}

static void transform_input(const float* x, float* V, int tile, int t, const Shape& s) {
  const int n = tile / s.per_image, row = tile % s.per_image / s.across * M - 1, col = tile % s.across * M - 1;
  for (int c = 0; c < s.C; c += LANES) {
    vec d[A][A], half[A][A];
    for (int i = 0; i < A; i++)
      for (int j = 0; j < A; j++) {
        const int h = row + i, w = col + j;
        const bool inside = h >= 0 && h < s.H && w >= 0 && w < s.W;
        d[i][j] = inside ? *(const vec*)(x + (((size_t)n * s.H + h) * s.W + w) * s.C + c) : vec{};
      }
    for (int i = 0; i < A; i++)
      for (int j = 0; j < A; j++) {
        vec sum = {};
        for (int q = 0; q < A; q++)
          if (BT[i][q] != 0) sum += d[q][j] * BT[i][q];
        half[i][j] = sum;
      }
    for (int i = 0; i < A; i++)
      for (int j = 0; j < A; j++) {
        vec sum = {};
        for (int q = 0; q < A; q++)
          if (BT[j][q] != 0) sum += half[i][q] * BT[j][q];
        *(vec*)(V + ((size_t)(i * A + j) * s.block + t) * s.C + c) = sum;
      }
  }
}

static void transform_output(const float* P, const float* bias, const float* add, float* y, int relu, int tile, int t,
                             const Shape& s) {
  const int n = tile / s.per_image, row = tile % s.per_image / s.across * M, col = tile % s.across * M;
  for (int k = 0; k < s.K; k += LANES) {
    vec half[M][A];
    for (int j = 0; j < A; j++) {
      vec p[A];
      for (int q = 0; q < A; q++) p[q] = *(const vec*)(P + ((size_t)(q * A + j) * s.block + t) * s.K + k);
      for (int i = 0; i < M; i++) {
        vec sum = {};
        for (int q = 0; q < A; q++)
          if (AT[i][q] != 0) sum += p[q] * AT[i][q];
        half[i][j] = sum;
      }
    }
    const vec shift = bias ? *(const vec*)(bias + k) : vec{};
    for (int i = 0; i < M && row + i < s.H; i++)
      for (int j = 0; j < M && col + j < s.W; j++) {
        vec sum = {};
        for (int q = 0; q < A; q++)
          if (AT[j][q] != 0) sum += half[i][q] * AT[j][q];
        sum += shift;
        const size_t at = (((size_t)n * s.H + row + i) * s.W + col + j) * s.K + k;
        if (add) sum += *(const vec*)(add + at);
        if (relu) sum = sum < 0 ? vec{} : sum;
        *(vec*)(y + at) = sum;
      }
  }
}

extern "C" int packed_width() { return LANES * VECS; }

extern "C" void conv3x3(const float* x, const float* u, const float* bias, const float* add, float* y, int N, int H,
                        int W, int C, int K, int relu, int block, int threads) {
  const int across = (W + M - 1) / M, down = (H + M - 1) / M, tiles = N * down * across;
  const Shape s = {H, W, C, K, across, down * across, block};
#pragma omp parallel num_threads(threads)
  {
    std::vector<float> buffer((size_t)A * A * block * (C + K));
    float *V = buffer.data(), *P = V + (size_t)A * A * block * C;
#pragma omp for schedule(dynamic, 1)
    for (int first = 0; first < tiles; first += block) {
      const int count = std::min(block, tiles - first);
      for (int t = 0; t < count; t++) transform_input(x, V, first + t, t, s);
      for (size_t e = 0; e < A * A; e++) multiply(V + e * block * C, u + e * C * K, P + e * block * K, count, C, K);
      for (int t = 0; t < count; t++) transform_output(P, bias, add, y, relu, first + t, t, s);
    }
  }
}
"""
"""The kernel; TILE, INPUT_MATRIX and OUTPUT_MATRIX come from the compiler's command line."""


def winograd_matrices(tile: int) -> tuple[list[list[Fraction]], list[list[Fraction]], list[list[Fraction]]]:
    """The exact transforms of outputs (m, m + 2), filters (m + 2, 3) and inputs (m + 2, m + 2)."""
    points = WINOGRAD_POINTS[tile]

    def product(roots: list[Fraction]) -> list[Fraction]:
        coefficients = [Fraction(1)]
        for root in roots:
            shifted, scaled = [Fraction(0), *coefficients], [-root * value for value in coefficients] + [Fraction(0)]
            coefficients = [one + other for one, other in zip(shifted, scaled, strict=True)]
        return coefficients + [Fraction(0)] * (tile + 2 - len(coefficients))

    inputs, filters = [], []
    for point in points:
        others = [other for other in points if other != point]
        weight = Fraction(1)
        for other in others:
            weight *= point - other
        inputs.append(product(others))
        filters.append([point**power / weight for power in range(3)])
    inputs.append(product(list(points)))
    filters.append([Fraction(0), Fraction(0), Fraction(1)])
    outputs = [[point**power for point in points] + [Fraction(power == tile - 1)] for power in range(tile)]
    return outputs, filters, inputs


@functools.cache
def winograd_library(tile: int) -> Any:
    """The kernel compiled for this machine.

    Raises:
        RuntimeError: the compiler is missing or fails; its words are in the message.
    """
    outputs, _, inputs = winograd_matrices(tile)

    def initialiser(rows: list[list[Fraction]]) -> str:
        return "{" + ",".join("{" + ",".join(f"{float(value):.9e}f" for value in row) + "}" for row in rows) + "}"

    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise RuntimeError("winograd needs g++ or clang++")
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "winograd.cpp"), Path(folder, f"winograd{tile}.so")
        source.write_text(WINOGRAD_SOURCE)
        matrices = [
            f"-DTILE={tile}",
            f"-DINPUT_MATRIX={initialiser(inputs)}",
            f"-DOUTPUT_MATRIX={initialiser(outputs)}",
        ]
        flags = ["-O3", "-march=native", "-fno-math-errno", "-fopenmp", "-shared", "-fPIC", "-o", str(library)]
        done = subprocess.run([compiler, *flags, *matrices, str(source)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"winograd does not compile: {done.stderr[-2000:]}")
        loaded = ctypes.CDLL(str(library))
    loaded.conv3x3.argtypes = [ctypes.c_void_p] * 5 + [ctypes.c_int] * 8
    loaded.conv3x3.restype = None
    return loaded


def winograd_packed(weight: torch.Tensor, tile: int) -> torch.Tensor:
    """A (K, C, 3, 3) weight, transformed in float64 and packed as (points, K / width, C, width)."""
    filters = torch.tensor([[float(value) for value in row] for row in winograd_matrices(tile)[1]], dtype=torch.float64)
    moved = torch.einsum("ai,kcij,bj->abkc", filters, weight.double(), filters).float()
    width = winograd_library(tile).packed_width()
    channels_out, channels_in = weight.shape[:2]
    split = moved.reshape((tile + 2) ** 2, channels_out // width, width, channels_in)
    return split.transpose(2, 3).contiguous()


def winograd_conv3x3(
    x: torch.Tensor, packed: torch.Tensor, bias: torch.Tensor | None, add: torch.Tensor | None, relu: bool, tile: int
) -> torch.Tensor:
    """`relu(conv(x) + bias + add)` with padding 1, (N, C, H, W) to channels-last (N, K, H, W)."""
    x = x.contiguous(memory_format=torch.channels_last)
    batch, channels_in, height, width = x.shape
    channels_out = packed.shape[1] * packed.shape[3]
    y = torch.empty((batch, channels_out, height, width), memory_format=torch.channels_last)
    if add is not None:
        add = add.contiguous(memory_format=torch.channels_last)
    optional = [None if tensor is None else tensor.data_ptr() for tensor in (bias, add)]
    sizes = (batch, height, width, channels_in, channels_out, int(relu), WINOGRAD_BLOCK, torch.get_num_threads())
    winograd_library(tile).conv3x3(x.data_ptr(), packed.data_ptr(), *optional, y.data_ptr(), *sizes)
    return y


def winograd_shape(x: torch.Tensor, packed: torch.Tensor, *_others: Any) -> torch.Tensor:
    """An empty result of `winograd_conv3x3`."""
    shape = (x.shape[0], packed.shape[1] * packed.shape[3], *x.shape[2:])
    return x.new_empty(shape).to(memory_format=torch.channels_last)


def winograd_operator() -> Any:
    """`winograd_conv3x3` as an operator."""
    schema = "(Tensor x, Tensor packed, Tensor? bias, Tensor? add, bool relu, int tile) -> Tensor"
    return define_operator("pike_winograd::conv3x3", schema, winograd_conv3x3, winograd_shape, "cpu")
