"""A diagonal state-space layer as one kernel: a direct causal convolution with prepared taps.

What it does: the layer of `level5/5` in inference, on signals of 256 steps, any number of them. The
filters and the response to the start do not depend on the signal. They are computed at the first
call and kept, as 512 numbers a head. They are computed again when the parameters change.

What made it fast: one launch, a direct sum where the original takes FFTs, and a short way to the
launch. A block of threads takes one row of 256 steps. A thread takes 4 outputs and 32 inputs, with
taps and sums in registers. The quarter of the square that is all in the future is left out. Skip
and causality are in the taps: the skip is added to the first one, and zeros lie in front of it.
`forward` calls a plain C function. It compares addresses and versions of the parameters, launches,
and then allocates the output of the next call while the device works.

Accuracy: taps and response are computed in 64 bits and rounded to 32 bits once. Signals, products
and sums have 32 bits. The order of the sums is fixed. A value in a signal or in a head's filter that
is not finite makes its whole row NaN, as the original's FFT does.

Limits: the kernel takes float32 signals of 256 steps without gradients. All else runs the original's
formula. A write through `.data` is not noticed. A CUDA graph keeps the taps of the last eager call.
No instruction is tied to one GPU. The grid suits about 128 rows.

Author: a coding agent, in a search by the strategy pike-x (result.json says which).
Licence: Apache-2.0.
"""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

MODES = 32

CUDA = r"""
#include <cuda_runtime.h>

constexpr int LENGTH = 256, TILES = LENGTH / 4, THREADS = 384;

__device__ __forceinline__ bool finite_value(float v) { return fabsf(v) < __int_as_float(0x7f800000); }

__global__ void __launch_bounds__(LENGTH) s4d_prepare_kernel(
    const float* frequency, const float* decay, const float* skip, const float* input, const float* output,
    const float* start, float* filters, float* rest, int modes) {
  const int head = blockIdx.x, t = threadIdx.x;
  const double time = static_cast<double>(t) / (LENGTH - 1);
  double filter = 0.0, response = 0.0;
  for (int n = 0; n < modes; ++n) {
    const int at = head * modes + n;
    const double wave = exp(-fabs(static_cast<double>(decay[at])) * time) *
                        cos(static_cast<double>(frequency[at]) * time);
    const double out = output[at];
    filter += static_cast<double>(input[at]) * out * wave;
    response += static_cast<double>(start[at]) * out * wave;
  }
  const double scale = 2.0 / (LENGTH - 1);
  filter *= scale;
  response *= 2.0 * scale;
  // the original's FFT spreads a value that is not finite over the whole row
  const int bad = __syncthreads_or(!finite_value(static_cast<float>(filter)));
  if (t == 0) filter += static_cast<double>(skip[head]);
  filters[head * LENGTH + t] = static_cast<float>(filter);
  rest[head * LENGTH + t] = bad ? __int_as_float(0x7fc00000) : static_cast<float>(response);
}

__global__ void __launch_bounds__(THREADS) s4d_kernel(
    const float4* __restrict__ signal, const float4* __restrict__ filters, const float* __restrict__ rest,
    float* __restrict__ out, int heads) {
  __shared__ float4 xs[TILES];
  __shared__ float4 ks[32 + TILES];  // 32 tiles of zeros come before the filter
  __shared__ float4 parts[12 * 32];
  const int tid = threadIdx.x, row = blockIdx.x, head = row % heads;
  float base = 0.0f;
  int bad = 0;
  if (tid < 64) {
    const float4 v = signal[static_cast<size_t>(row) * TILES + tid];
    xs[tid] = v;
    bad = !(finite_value(v.x) && finite_value(v.y) && finite_value(v.z) && finite_value(v.w));
  } else if (tid < 128) {
    ks[32 + tid - 64] = filters[head * TILES + tid - 64];
  } else if (tid < 160) {
    ks[tid - 128] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  }
  if (tid < LENGTH) base = rest[head * LENGTH + tid];
  bad = __syncthreads_or(bad);

  // warps 0 to 7: outputs 128 to 255, 8 tiles of the signal each; warps 8 to 11: outputs 0 to 127
  const int warp = tid >> 5, lane = tid & 31;
  const bool high = warp < 8;
  const int tile = high ? 32 + lane : lane;
  const int first = 8 * (high ? warp : warp - 8);
  const int origin = 32 + tile - first;
  float4 now = ks[origin];
  float4 acc = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const float4 before = ks[origin - j - 1];
    const float4 v = xs[first + j];
    acc.x = fmaf(v.x, now.x, acc.x);
    acc.y = fmaf(v.x, now.y, acc.y);
    acc.z = fmaf(v.x, now.z, acc.z);
    acc.w = fmaf(v.x, now.w, acc.w);
    acc.x = fmaf(v.y, before.w, acc.x);
    acc.y = fmaf(v.y, now.x, acc.y);
    acc.z = fmaf(v.y, now.y, acc.z);
    acc.w = fmaf(v.y, now.z, acc.w);
    acc.x = fmaf(v.z, before.z, acc.x);
    acc.y = fmaf(v.z, before.w, acc.y);
    acc.z = fmaf(v.z, now.x, acc.z);
    acc.w = fmaf(v.z, now.y, acc.w);
    acc.x = fmaf(v.w, before.y, acc.x);
    acc.y = fmaf(v.w, before.z, acc.y);
    acc.z = fmaf(v.w, before.w, acc.z);
    acc.w = fmaf(v.w, now.x, acc.w);
    now = before;
  }
  parts[tid] = acc;
  __syncthreads();
  if (tid < LENGTH) {
    const float* p = reinterpret_cast<const float*>(parts);
    float sum = 0.0f;
    if (tid >= 128) {
      p += tid - 128;
      sum = ((p[0] + p[128]) + (p[256] + p[384])) + ((p[512] + p[640]) + (p[768] + p[896]));
    } else {
      p += 8 * 128 + tid;
      sum = (p[0] + p[128]) + (p[256] + p[384]);
    }
    sum += base;
    if (bad) sum = __int_as_float(0x7fc00000);
    out[static_cast<size_t>(row) * LENGTH + tid] = sum;
  }
}

cudaError_t s4d_prepare(const float* const* weights, float* filters, float* rest, int heads, int modes,
                        cudaStream_t stream) {
  s4d_prepare_kernel<<<heads, LENGTH, 0, stream>>>(weights[0], weights[1], weights[2], weights[3], weights[4],
                                                   weights[5], filters, rest, modes);
  return cudaGetLastError();
}

cudaError_t s4d_launch(const float* signal, const float* filters, const float* rest, float* out, int rows, int heads,
                       cudaStream_t stream) {
  s4d_kernel<<<rows, THREADS, 0, stream>>>(reinterpret_cast<const float4*>(signal),
                                           reinterpret_cast<const float4*>(filters), rest, out, heads);
  return cudaGetLastError();
}
"""

CPP = r"""
#include <torch/extension.h>
#include <torch/csrc/autograd/python_variable.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/EmptyTensor.h>
#include <c10/core/InferenceMode.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime.h>

cudaError_t s4d_prepare(const float* const* weights, float* filters, float* rest, int heads, int modes,
                        cudaStream_t stream);
cudaError_t s4d_launch(const float* signal, const float* filters, const float* rest, float* out, int rows, int heads,
                       cudaStream_t stream);

namespace {

constexpr int COUNT = 6;
constexpr int64_t LENGTH = 256;
constexpr int64_t SPARE_MOST = 262144;  // elements of a spare output, at most: 1 MiB
const char* const NAMES[COUNT] = {"frequency", "decay", "skip", "input", "output", "start"};
PyObject* keys[COUNT] = {};

struct Handle {
  PyObject* parameters = nullptr;  // the module's own dictionary
  PyObject* known[COUNT] = {};
  uint32_t version[COUNT] = {};
  const void* data[COUNT] = {};
  at::Tensor filters, rest;
  at::Tensor spare;  // the next call's output, never handed out before; of the legacy default stream
  const float* filters_at = nullptr;
  const float* rest_at = nullptr;
  bool ready = false;
  int device = -1;
  int64_t heads = 0;
};

// whether the prepared tensors still belong to the module's parameters
inline bool valid(const Handle& h) {
  for (int i = 0; i < COUNT; ++i) {
    PyObject* item = PyDict_GetItemWithError(h.parameters, keys[i]);
    if (item == nullptr || item != h.known[i]) return false;
    const at::Tensor& t = THPVariable_Unpack(item);
    if (t.unsafeGetTensorImpl()->version_counter().current_version() != h.version[i]) return false;
    if (t.const_data_ptr() != h.data[i]) return false;
  }
  return true;
}

bool prepare(Handle& h, const at::Tensor& x, cudaStream_t stream) {
  h.ready = false;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  C10_CUDA_CHECK(cudaStreamIsCapturing(stream, &status));
  if (status != cudaStreamCaptureStatusNone) return false;
  const int64_t heads = x.size(1);
  PyObject* items[COUNT];
  const float* weights[COUNT];
  int64_t modes = -1;
  for (int i = 0; i < COUNT; ++i) {
    items[i] = PyDict_GetItemWithError(h.parameters, keys[i]);
    if (items[i] == nullptr || !THPVariable_CheckExact(items[i])) return false;
    const at::Tensor& t = THPVariable_Unpack(items[i]);
    if (!t.unsafeGetTensorImpl()->has_storage() || t.is_inference() || t.device() != x.device() ||
        t.scalar_type() != at::kFloat || !t.is_contiguous() || t.is_neg())
      return false;
    if (i == 2) {
      if (t.dim() != 2 || t.size(0) != 1 || t.size(1) != heads) return false;
    } else {
      if (t.dim() != 3 || t.size(0) != 1 || t.size(1) != heads) return false;
      if (modes < 0) modes = t.size(2);
      if (t.size(2) != modes) return false;
    }
    weights[i] = static_cast<const float*>(t.const_data_ptr());
  }
  C10_CUDA_CHECK(cudaDeviceSynchronize());  // older calls may still read what is overwritten
  if (!h.filters.defined() || h.device != x.device().index() || h.heads != heads) {
    const auto options = at::TensorOptions().dtype(at::kFloat).device(x.device());
    h.filters = at::empty({heads, LENGTH}, options);
    h.rest = at::empty({heads, LENGTH}, options);
  }
  float* filters = static_cast<float*>(h.filters.mutable_data_ptr());
  float* rest = static_cast<float*>(h.rest.mutable_data_ptr());
  C10_CUDA_CHECK(s4d_prepare(weights, filters, rest, static_cast<int>(heads), static_cast<int>(modes), stream));
  C10_CUDA_CHECK(cudaStreamSynchronize(stream));  // so that any stream may read them
  for (int i = 0; i < COUNT; ++i) {
    const at::Tensor& t = THPVariable_Unpack(items[i]);
    Py_INCREF(items[i]);
    Py_XDECREF(h.known[i]);
    h.known[i] = items[i];
    h.version[i] = t.unsafeGetTensorImpl()->version_counter().current_version();
    h.data[i] = t.const_data_ptr();
  }
  h.filters_at = filters;
  h.rest_at = rest;
  h.device = x.device().index();
  h.heads = heads;
  h.ready = true;
  return true;
}

bool wants_gradient(const Handle& h, const at::Tensor& x) {
  if (x.requires_grad()) return true;
  for (int i = 0; i < COUNT; ++i) {
    PyObject* item = PyDict_GetItemWithError(h.parameters, keys[i]);
    if (item == nullptr || !THPVariable_Check(item) || THPVariable_Unpack(item).requires_grad()) return true;
  }
  return false;
}

PyObject* run(Handle& h, PyObject* argument) {
  if (!THPVariable_CheckExact(argument)) Py_RETURN_NONE;
  const at::Tensor& x = THPVariable_Unpack(argument);
  if (!x.is_cuda() || !x.unsafeGetTensorImpl()->has_storage() || x.scalar_type() != at::kFloat || x.dim() != 3 ||
      x.size(2) != LENGTH || x.numel() == 0 || x.numel() / LENGTH > 2147483647LL || x.is_neg())
    Py_RETURN_NONE;
  if (at::GradMode::is_enabled() && wants_gradient(h, x)) Py_RETURN_NONE;

  const auto device = x.device().index();
  c10::cuda::OptionalCUDAGuard guard;
  if (c10::cuda::current_device() != device) guard.set_index(device);
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream(device).stream();
  if (!(h.ready && h.device == device && h.heads == x.size(1) && valid(h)) && !prepare(h, x, stream)) Py_RETURN_NONE;

  const void* from = x.const_data_ptr();
  at::Tensor copied;
  if (!x.is_contiguous() || reinterpret_cast<uintptr_t>(from) % 16 != 0) {
    copied = x.detach().clone(at::MemoryFormat::Contiguous);
    from = copied.const_data_ptr();
  }
  // the legacy default stream is never captured into a graph, so its outputs need no graph's memory pool
  const bool ahead = stream == nullptr && x.numel() <= SPARE_MOST;
  at::Tensor out;
  if (ahead && h.spare.defined() && h.spare.sizes() == x.sizes() && h.spare.device() == x.device() &&
      h.spare.is_inference() == c10::InferenceMode::is_enabled()) {
    out = std::move(h.spare);
    h.spare = at::Tensor();
  } else {
    out = at::Tensor(at::detail::empty_cuda(x.sizes(), at::kFloat, x.device(), std::nullopt));
  }
  C10_CUDA_CHECK(s4d_launch(static_cast<const float*>(from), h.filters_at, h.rest_at,
                            static_cast<float*>(out.mutable_data_ptr()), static_cast<int>(x.numel() / LENGTH),
                            static_cast<int>(h.heads), stream));
  if (ahead) {  // while the device works
    try {
      h.spare = at::Tensor(at::detail::empty_cuda(x.sizes(), at::kFloat, x.device(), std::nullopt));
    } catch (const c10::Error&) {
      h.spare = at::Tensor();  // no memory to spare: the next call allocates its own
    }
  }
  return THPVariable_Wrap(out);
}

PyObject* call(PyObject* self, PyObject* argument) {
  try {
    return run(*static_cast<Handle*>(PyCapsule_GetPointer(self, nullptr)), argument);
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

void destroy(PyObject* capsule) {
  Handle* h = static_cast<Handle*>(PyCapsule_GetPointer(capsule, nullptr));
  if (h == nullptr) return;
  for (int i = 0; i < COUNT; ++i) Py_XDECREF(h->known[i]);
  Py_XDECREF(h->parameters);
  delete h;
}

PyMethodDef definition = {"s4d", call, METH_O, "A diagonal state-space layer, or None where it does not apply."};

}  // namespace

py::object make(py::dict parameters) {
  for (int i = 0; i < COUNT; ++i) {
    if (keys[i] == nullptr) keys[i] = PyUnicode_InternFromString(NAMES[i]);
  }
  Handle* h = new Handle();
  h->parameters = parameters.ptr();
  Py_INCREF(h->parameters);
  PyObject* capsule = PyCapsule_New(h, nullptr, destroy);
  if (capsule == nullptr) throw py::error_already_set();
  PyObject* function = PyCFunction_NewEx(&definition, capsule, nullptr);
  Py_DECREF(capsule);  // the function keeps it
  if (function == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(function);
}
"""

extension = load_inline(
    name="s4d_direct_ahead_cuda",
    cpp_sources=[CPP],
    cuda_sources=[CUDA],
    functions=["make"],
    extra_cflags=["-O2"],
    extra_cuda_cflags=["-O3"],
    no_implicit_headers=True,
)


class ModelNew(nn.Module):
    """Damped waves: a filter for the signal, a response to the start, and the signal itself."""

    def __init__(self, heads):
        super().__init__()
        self.frequency = nn.Parameter(torch.zeros(1, heads, MODES))
        self.decay = nn.Parameter(torch.zeros(1, heads, MODES))
        self.skip = nn.Parameter(torch.zeros(1, heads))
        self.input = nn.Parameter(torch.zeros(1, heads, MODES))
        self.output = nn.Parameter(torch.zeros(1, heads, MODES))
        self.start = nn.Parameter(torch.zeros(1, heads, MODES))
        self._bind()

    def _bind(self):
        object.__setattr__(self, "_run", extension.make(self._parameters))

    def __getstate__(self):
        state = self.__dict__.copy()
        state.pop("_run", None)
        return state

    def __setstate__(self, state):
        super().__setstate__(state)
        self._bind()

    def forward(self, signal):
        """(batch, heads, length) signals to outputs of that shape, by the kernel where it applies, else `_general`."""
        out = self._run(signal)
        return self._general(signal) if out is None else out

    def _general(self, signal):
        """The original's formula, for what the kernel does not take (gradients, other lengths, dtypes, devices)."""
        length = signal.shape[-1]
        time = torch.arange(length, dtype=self.decay.dtype, device=self.decay.device) / (length - 1)
        damping = torch.exp(-self.decay.abs()[..., None] * time)
        waves = 2 / (length - 1) * damping * torch.cos(self.frequency[..., None] * time)
        filters = ((self.input * self.output)[..., None] * waves).sum(-2)
        wide = torch.promote_types(signal.dtype, torch.float32)
        spectrum = torch.fft.rfft(signal.to(wide), 2 * length) * torch.fft.rfft(filters.to(wide), 2 * length)
        y = torch.fft.irfft(spectrum, 2 * length)[..., :length].to(signal.dtype)
        y = y + self.skip[..., None] * signal
        return y + 2 * ((self.output * self.start)[..., None] * waves).sum(-2)
