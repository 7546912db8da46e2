"""The Mamba-2 scan as one matrix per (batch, head): one launch for the sequence and the last state.

What it does: the scan of `level3-pike/49` with parameters A, B and C that do not depend on the input.
It returns the sequence and the state after the last step. Both are linear in x, so the parameters
are folded into a matrix of 144 rows and 128 columns for each (batch, head): 128 rows for the sequence,
16 for the state. A call multiplies it with x on tensor cores (`mma`).

What made it fast: the cumulative sums, masks, exponentials and the products of B and C are computed
once for a set of parameters. Of 72 tiles, 16 by 16 each, the 44 that are not zero are kept, in the order
of the tensor cores' fragments. Each block of threads reads its share of x once, and its warps have nearly
equal numbers of tiles. The call goes around `nn.Module`, pybind11 and PyTorch's dispatcher: a bare C function
checks that the parameters have not changed, allocates once for both outputs and launches by the driver.

Accuracy: the matrix is folded in 64 bits. Each row is divided by its largest magnitude and rounded to
float16; the divisors stay float32. x is rounded to float16, with a power of two per (batch, head) where
its largest magnitude is below 1/16 or at least 32768. Sums are float32.

Limits: 128 steps, heads of width 64, a state of 16, float32; compute capability 8.0 or newer. Inference
only: no gradients. Changes of the parameters through `.data` in place are not noticed. Both outputs share one
storage. After the first call, a `forward` that is replaced or overridden in a subclass is bypassed.

Author: a coding agent, in a search by the strategy pike-x (result.json says which).
Licence: Apache-2.0.
"""

import torch
from torch import nn
from torch.nn.modules import module as nn_module
from torch.utils.cpp_extension import load_inline

CPP_SOURCE = r"""
#include <torch/extension.h>
#include <torch/csrc/autograd/python_variable.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <dlfcn.h>
#include <array>
#include <exception>
#include <utility>

void launch_scan(const float* x, const void* packed, const float* scales, float* y, float* state, int batch, int heads,
                 cudaStream_t stream);
void* scan_function();
int scan_threads();

// cuLaunchKernel
using Launch = int (*)(void*, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                       unsigned int, void*, void**, void**);

static Launch driver_launch() {
  static Launch found = []() -> Launch {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return nullptr;
    return reinterpret_cast<Launch>(dlsym(library, "cuLaunchKernel"));
  }();
  return found;
}

struct Seen {
  at::Tensor tensor;  // keeps the identity from being used again
  at::Tensor alias;   // keeps the storage from being used again
  const void* pointer;
  int64_t version;

  explicit Seen(const at::Tensor& t)
      : tensor(t), alias(t.detach()), pointer(t.data_ptr()), version(0) {
    if (!t.is_inference()) version = t.unsafeGetTensorImpl()->version_counter().current_version();
  }

  bool same(const at::Tensor& t) const {
    return t.unsafeGetTensorImpl() == tensor.unsafeGetTensorImpl() && !t.is_inference() && t.data_ptr() == pointer &&
           static_cast<int64_t>(t.unsafeGetTensorImpl()->version_counter().current_version()) == version;
  }
};

struct Plan {
  Seen a, b, c;
  at::Tensor packed, scales;
  const void* packed_pointer;
  const float* scales_pointer;
  int64_t batch, heads;
  c10::Device device;
  Launch launch;
  void* function;
  unsigned int threads;

  Plan(const at::Tensor& a_, const at::Tensor& b_, const at::Tensor& c_, const at::Tensor& packed_,
       const at::Tensor& scales_, int64_t batch_, int64_t heads_)
      : a(a_), b(b_), c(c_), packed(packed_), scales(scales_), packed_pointer(packed_.data_ptr()),
        scales_pointer(scales_.data_ptr<float>()), batch(batch_), heads(heads_), device(packed_.device()),
        launch(driver_launch()), function(nullptr), threads(static_cast<unsigned int>(scan_threads())) {
    const c10::cuda::CUDAGuard guard(device);
    function = scan_function();
  }
};

static PyObject* name_a = nullptr;
static PyObject* name_b = nullptr;
static PyObject* name_c = nullptr;
static const char* const CAPSULE = "mamba2_scan_plan";

static inline bool unchanged(PyObject* parameters, PyObject* name, const Seen& seen) {
  PyObject* found = PyDict_GetItemWithError(parameters, name);  // borrowed
  return found != nullptr && THPVariable_Check(found) && seen.same(THPVariable_Unpack(found));
}

static at::Tensor tensor_of(const c10::Storage& storage, c10::IntArrayRef sizes, int64_t offset) {
  at::Tensor made = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage), c10::DispatchKeySet(c10::DispatchKey::CUDA), caffe2::TypeMeta::Make<float>());
  c10::TensorImpl* impl = made.unsafeGetTensorImpl();
  if (offset != 0) impl->set_storage_offset(offset);
  impl->set_sizes_contiguous(sizes);
  return made;
}

static PyObject* compute(const Plan& plan, const at::Tensor& x) {
  const c10::cuda::CUDAGuard guard(plan.device);
  at::Tensor held;
  const at::Tensor* input = &x;
  if (!x.is_contiguous()) {
    held = x.contiguous();
    input = &held;
  } else if (reinterpret_cast<uintptr_t>(x.data_ptr()) % 16 != 0) {
    held = x.clone();
    input = &held;
  }
  const int64_t y_count = plan.batch * 128 * plan.heads * 64;
  const int64_t state_count = plan.batch * plan.heads * 64 * 16;
  const size_t bytes = static_cast<size_t>(y_count + state_count) * sizeof(float);
  c10::Allocator* allocator = c10::cuda::CUDACachingAllocator::get();
  c10::DataPtr memory = allocator->allocate(bytes);
  float* y_to = static_cast<float*>(memory.get());
  float* state_to = y_to + y_count;
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, std::move(memory), allocator, true);

  const float* from = static_cast<const float*>(input->data_ptr());
  const void* packed = plan.packed_pointer;
  const float* scales = plan.scales_pointer;
  int heads = static_cast<int>(plan.heads);
  cudaStream_t stream = at::cuda::getCurrentCUDAStream(plan.device.index());
  bool launched = false;
  if (plan.launch != nullptr && plan.function != nullptr) {
    void* arguments[] = {&from, &packed, &scales, &y_to, &state_to, &heads};
    launched = plan.launch(plan.function, static_cast<unsigned int>(plan.batch * plan.heads), 1, 1, plan.threads, 1, 1,
                           0, stream, arguments, nullptr) == 0;
  }
  if (!launched) {
    launch_scan(from, packed, scales, y_to, state_to, static_cast<int>(plan.batch), heads, stream);
  }

  const std::array<int64_t, 4> y_sizes = {plan.batch, 128, plan.heads, 64};
  const std::array<int64_t, 4> state_sizes = {plan.batch, plan.heads, 64, 16};
  PyObject* first = THPVariable_Wrap(tensor_of(storage, y_sizes, 0));
  if (first == nullptr) return nullptr;
  PyObject* second = THPVariable_Wrap(tensor_of(storage, state_sizes, y_count));
  if (second == nullptr) {
    Py_DECREF(first);
    return nullptr;
  }
  PyObject* both = PyTuple_New(2);
  if (both == nullptr) {
    Py_DECREF(first);
    Py_DECREF(second);
    return nullptr;
  }
  PyTuple_SET_ITEM(both, 0, first);
  PyTuple_SET_ITEM(both, 1, second);
  return both;
}

// (x, the module's dictionary of parameters) to the result, or to None where the parameters have changed since the
// plan was made, or where x is not what the kernel takes
static PyObject* run(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  try {
    const Plan* plan = static_cast<const Plan*>(PyCapsule_GetPointer(self, CAPSULE));
    if (plan == nullptr) return nullptr;
    if (count != 2 || !THPVariable_CheckExact(arguments[0]) || !PyDict_Check(arguments[1])) Py_RETURN_NONE;
    const at::Tensor& x = THPVariable_Unpack(arguments[0]);
    if (!x.is_cuda() || x.scalar_type() != at::kFloat || x.layout() != at::kStrided || x.dim() != 4 ||
        x.device() != plan->device) {
      Py_RETURN_NONE;
    }
    const c10::IntArrayRef sizes = x.sizes();
    if (sizes[0] != plan->batch || sizes[1] != 128 || sizes[2] != plan->heads || sizes[3] != 64) Py_RETURN_NONE;
    if (!unchanged(arguments[1], name_a, plan->a) || !unchanged(arguments[1], name_b, plan->b) ||
        !unchanged(arguments[1], name_c, plan->c)) {
      if (PyErr_Occurred()) return nullptr;
      Py_RETURN_NONE;
    }
    return compute(*plan, x);
  } catch (const std::exception& e) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, e.what());
    return nullptr;
  }
}

static PyMethodDef run_definition = {
    "run", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)(void)>(run)), METH_FASTCALL, nullptr};

static void drop(PyObject* capsule) { delete static_cast<Plan*>(PyCapsule_GetPointer(capsule, CAPSULE)); }

static py::object make_run(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c, const at::Tensor& packed,
                           const at::Tensor& scales, int64_t batch, int64_t heads) {
  Plan* plan = new Plan(a, b, c, packed, scales, batch, heads);
  PyObject* capsule = PyCapsule_New(plan, CAPSULE, drop);
  if (capsule == nullptr) {
    delete plan;
    throw py::error_already_set();
  }
  PyObject* made = PyCFunction_New(&run_definition, capsule);
  Py_DECREF(capsule);
  if (made == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(made);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  name_a = PyUnicode_InternFromString("A");
  name_b = PyUnicode_InternFromString("B");
  name_c = PyUnicode_InternFromString("C");
  m.def("make_run", &make_run);
}
"""

CUDA_SOURCE = r"""
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <c10/cuda/CUDAException.h>

constexpr int STEPS = 128, WIDTH = 64, STATE = 16;
constexpr int UNITS = 44;      // tiles of 16 x 16: 36 on and below the diagonal, 8 for the state
constexpr int STRIDE = 72;     // halves in a row of x in shared memory, padded against bank conflicts
constexpr int THREADS = 640;   // 5 groups of rows times 4 groups of 16 columns
constexpr int LOADERS = 512;

__device__ __forceinline__ void mma(float (&d)[4], const uint4& a, unsigned int b0, unsigned int b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

__device__ __forceinline__ unsigned int magnitude(float v) { return __float_as_uint(v) & 0x7fffffffu; }

__global__ void __launch_bounds__(THREADS, 1)
scan_kernel(const float* __restrict__ x, const uint4* __restrict__ packed, const float* __restrict__ scales,
            float* __restrict__ y, float* __restrict__ state, int heads) {
  __shared__ __align__(16) __half xs[STEPS * STRIDE];
  __shared__ __align__(16) unsigned int maxima[LOADERS / 32];

  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
  const int pair = blockIdx.x, batch = pair / heads, head = pair - batch * heads;
  const int row_stride = heads * WIDTH;
  const size_t base = (static_cast<size_t>(batch) * STEPS * heads + head) * WIDTH;

  // x first, as it comes from farthest away
  float4 v[4];
  if (tid < LOADERS) {
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      const int i = tid + q * LOADERS;
      v[q] = __ldg(reinterpret_cast<const float4*>(x + base + static_cast<size_t>(i >> 4) * row_stride) + (i & 15));
    }
  }

  // the fragments of this warp's tiles of the matrix: row tiles 7 - group and group, or the state's
  const int group = warp >> 2, columns = (warp & 3) * 16;
  const bool last = group == 4;
  const int high_tile = last ? 8 : 7 - group;
  const int high_count = last ? 8 : 8 - group;
  const int low_count = last ? 0 : group + 1;
  const int high_unit = high_tile * (high_tile + 1) / 2;  // 36 for the state
  const int low_unit = group * (group + 1) / 2;
  const uint4* from = packed + static_cast<size_t>(pair) * UNITS * 32 + lane;
  uint4 high[8], low[4];
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    if (k < high_count) high[k] = __ldg(from + (high_unit + k) * 32);
  }
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    if (k < low_count) low[k] = __ldg(from + (low_unit + k) * 32);
  }
  const int g = lane >> 2, t = lane & 3;
  const float* row_scales = scales + static_cast<size_t>(pair) * (STEPS + STATE);
  const float high_scale0 = __ldg(row_scales + high_tile * 16 + g);
  const float high_scale1 = __ldg(row_scales + high_tile * 16 + g + 8);
  float low_scale0 = 0.0f, low_scale1 = 0.0f;
  if (!last) {
    low_scale0 = __ldg(row_scales + group * 16 + g);
    low_scale1 = __ldg(row_scales + group * 16 + g + 8);
  }

  auto keep = [&](float scale) {
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      const int i = tid + q * LOADERS;
      __half2 p0 = __floats2half2_rn(v[q].x * scale, v[q].y * scale);
      __half2 p1 = __floats2half2_rn(v[q].z * scale, v[q].w * scale);
      uint2 both;
      both.x = *reinterpret_cast<unsigned int*>(&p0);
      both.y = *reinterpret_cast<unsigned int*>(&p1);
      *reinterpret_cast<uint2*>(xs + (i >> 4) * STRIDE + (i & 15) * 4) = both;
    }
  };

  if (tid < LOADERS) {
    unsigned int most = 0;
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      most = max(most, max(max(magnitude(v[q].x), magnitude(v[q].y)), max(magnitude(v[q].z), magnitude(v[q].w))));
    }
    most = __reduce_max_sync(0xffffffffu, most);
    if (lane == 0) maxima[warp] = most;
    keep(1.0f);
  }
  __syncthreads();

  // float16 holds x as it is, unless the largest value of the block is far from one
  float back = 1.0f;
  {
    unsigned int most = 0;
#pragma unroll
    for (int q = 0; q < LOADERS / 128; ++q) {
      const uint4 m = reinterpret_cast<const uint4*>(maxima)[q];
      most = max(most, max(max(m.x, m.y), max(m.z, m.w)));
    }
    if (most != 0u && most < 0x7f800000u && (most >= 0x47000000u || most < 0x3d800000u)) {
      int exponent = 262 - static_cast<int>(most >> 23);  // the largest becomes 256 to 512
      exponent = min(exponent, 253);
      const float scale = __uint_as_float(static_cast<unsigned int>(exponent) << 23);
      back = __uint_as_float(static_cast<unsigned int>(254 - exponent) << 23);
      __syncthreads();
      if (tid < LOADERS) keep(scale);
      __syncthreads();
    }
  }

  float high_sum[2][4] = {}, low_sum[2][4] = {};
  const unsigned int address = static_cast<unsigned int>(
      __cvta_generic_to_shared(xs + (lane & 15) * STRIDE + columns + (lane >> 4) * 8));
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    if (k < high_count) {
      unsigned int b0, b1, b2, b3;
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                   : "=r"(b0), "=r"(b1), "=r"(b2), "=r"(b3)
                   : "r"(address + k * 16 * STRIDE * 2)
                   : "memory");
      mma(high_sum[0], high[k], b0, b1);
      mma(high_sum[1], high[k], b2, b3);
      if (k < 4) {
        if (k < low_count) {
          mma(low_sum[0], low[k & 3], b0, b1);
          mma(low_sum[1], low[k & 3], b2, b3);
        }
      }
    }
  }

  if (last) {
    float* to = state + static_cast<size_t>(pair) * WIDTH * STATE;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const int p = columns + n * 8 + 2 * t;
      to[p * STATE + g] = high_sum[n][0] * back * high_scale0;
      to[(p + 1) * STATE + g] = high_sum[n][1] * back * high_scale0;
      to[p * STATE + g + 8] = high_sum[n][2] * back * high_scale1;
      to[(p + 1) * STATE + g + 8] = high_sum[n][3] * back * high_scale1;
    }
  } else {
    float* high_to = y + base + static_cast<size_t>(high_tile * 16 + g) * row_stride + columns + 2 * t;
    float* low_to = y + base + static_cast<size_t>(group * 16 + g) * row_stride + columns + 2 * t;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      *reinterpret_cast<float2*>(high_to + n * 8) =
          make_float2(high_sum[n][0] * back * high_scale0, high_sum[n][1] * back * high_scale0);
      *reinterpret_cast<float2*>(high_to + 8 * row_stride + n * 8) =
          make_float2(high_sum[n][2] * back * high_scale1, high_sum[n][3] * back * high_scale1);
      *reinterpret_cast<float2*>(low_to + n * 8) =
          make_float2(low_sum[n][0] * back * low_scale0, low_sum[n][1] * back * low_scale0);
      *reinterpret_cast<float2*>(low_to + 8 * row_stride + n * 8) =
          make_float2(low_sum[n][2] * back * low_scale1, low_sum[n][3] * back * low_scale1);
    }
  }
}

void launch_scan(const float* x, const void* packed, const float* scales, float* y, float* state, int batch, int heads,
                 cudaStream_t stream) {
  scan_kernel<<<batch * heads, THREADS, 0, stream>>>(x, static_cast<const uint4*>(packed), scales, y, state, heads);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

// the driver's handle of the kernel on the current device, or nothing
void* scan_function() {
  cudaFunction_t found = nullptr;
  if (cudaGetFuncBySymbol(&found, reinterpret_cast<const void*>(scan_kernel)) != cudaSuccess) {
    (void)cudaGetLastError();
    return nullptr;
  }
  return reinterpret_cast<void*>(found);
}

int scan_threads() { return THREADS; }
"""

extension = load_inline(
    name="mamba2_scan_folded_bare",
    cpp_sources=[CPP_SOURCE],
    cuda_sources=[CUDA_SOURCE],
    extra_cflags=["-O3"],
    extra_cuda_cflags=["-O3"],
    extra_ldflags=["-ldl"],
)

UNITS = [tile * 8 + k for tile in range(9) for k in range(8) if tile == 8 or k <= tile]
"""The tiles of 16 x 16 that are kept: on and below the diagonal, and all of the state's."""

ALL_HOOKS = nn_module._global_forward_hooks
ALL_PRE_HOOKS = nn_module._global_forward_pre_hooks


class ModelNew(nn.Module):
    """The whole scan as one product with a matrix per (batch, head) that depends on the parameters alone."""

    def __init__(self, batch: int, steps: int, heads: int, width: int, state: int, chunk: int) -> None:
        super().__init__()
        self.chunk = chunk
        self.sizes = (batch, steps, heads, width, state)
        self.A = nn.Parameter(torch.zeros(batch, steps, heads))
        self.B = nn.Parameter(torch.zeros(batch, steps, heads, state))
        self.C = nn.Parameter(torch.zeros(batch, steps, heads, state))
        self.run = None

    def __getstate__(self):
        kept = dict(self.__dict__)
        kept["run"] = None  # made again at the next call
        return kept

    def matrices(self) -> torch.Tensor:
        """(batch, heads, steps + state, steps) in float64: rows for the sequence, then rows for the last state."""
        a, b, c = (part.detach().double() for part in (self.A, self.B, self.C))
        sums = a.cumsum(dim=1).permute(0, 2, 1)
        steps = sums.size(-1)
        past = torch.tril(torch.ones(steps, steps, device=a.device, dtype=torch.bool))
        between = (sums[..., :, None] - sums[..., None, :]).masked_fill(~past, float("-inf"))
        sequence = torch.einsum("bihn,bjhn->bhij", c, b) * torch.exp(between)
        last = b.permute(0, 2, 3, 1) * torch.exp(sums[..., -1:] - sums)[:, :, None, :]
        return torch.cat((sequence, last), dim=2)

    def make_run(self):
        """Fold, scale and pack the matrices of the current parameters, and return the C function that uses them."""
        batch, steps, heads, width, state = self.sizes  # noqa: RUF059
        pairs = batch * heads
        full = self.matrices().reshape(pairs, steps + state, steps)
        most = full.abs().amax(dim=-1, keepdim=True)
        scales = torch.where((most > 0) & torch.isfinite(most), most, torch.ones_like(most))
        half = (full / scales).half()
        # pair, tile, half of rows, row, tile of columns, half of columns, pair of columns, column
        parts = half.reshape(pairs, 9, 2, 8, 8, 2, 4, 2).permute(0, 1, 4, 3, 6, 5, 2, 7).reshape(pairs, 72, 256)
        packed = parts[:, torch.tensor(UNITS, device=parts.device)].contiguous()
        scales = scales.float().reshape(pairs, steps + state).contiguous()
        torch.cuda.current_stream(packed.device).synchronize()  # any stream may use it from here on
        return extension.make_run(self.A, self.B, self.C, packed, scales, batch, heads)

    def first(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The first call, the first one after a change of the parameters, and shapes that the kernel does not take."""
        batch, steps, heads, width, state = self.sizes  # noqa: RUF059
        if x.is_cuda and self.A.is_cuda and (steps, width, state) == (128, 64, 16):
            self.run = self.make_run()
            result = self.run(x, self._parameters)
            if result is not None:
                return result
        full = self.matrices().to(x.dtype)
        result = torch.einsum("bhij,bjhp->bhip", full, x)
        sequence = result[:, :, :steps].transpose(1, 2).contiguous()
        return sequence, result[:, :, steps:].transpose(2, 3).contiguous()

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(batch, steps, heads, width) to the same shape, and the last state, (batch, heads, width, state)."""
        run = self.run
        if run is not None:
            result = run(x, self._parameters)
            if result is not None:
                return result
        return self.first(x)

    def __call__(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """What nn.Module's does, by a shorter way where no hook is registered."""
        run = self.run
        if run is not None and not (self._forward_hooks or self._forward_pre_hooks or ALL_HOOKS or ALL_PRE_HOOKS):
            result = run(x, self._parameters)
            if result is not None:
                return result
        return super().__call__(x)
