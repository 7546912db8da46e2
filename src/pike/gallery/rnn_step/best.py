"""One step of an Elman network as one kernel launch.

What it does: the step of `level3-pike/33` for a batch of eight, with weights in 16 bits and inputs,
sums and the hidden state in 32. Other batches and other sizes take PyTorch's own operations.

What made it fast: one launch instead of five. A cluster of sixteen blocks shares out the hidden
layer, and each block turns its part straight into a share of the output, so that blocks exchange
once. Weights are kept in the order in which tensor cores read them. A call is one C function that
looks at its tensors, launches, and asks the allocator for the output.

Accuracy: each input is split into a high and a low part, which tensor cores multiply one after the
other (TF32 twice). Weights that 16 bits would not hold well are left to PyTorch.

Limits: batch 8, 1024 inputs, 256 hidden, 128 outputs, compute capability 9.0 (Hopper).

Author: a coding agent, in a search by the strategy pike-b (result.json says which). The search had
a task that also keeps the hidden state on the module; that part was taken out by hand.
Licence: Apache-2.0.
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

_CPP_SRC = r"""
#include <torch/extension.h>
pybind11::object get_step();
"""

_CUDA_SRC = r"""
#include <torch/extension.h>
#include <torch/csrc/autograd/python_variable.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/EmptyTensor.h>
#include <c10/core/GradMode.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cooperative_groups.h>
#include <cstdint>
#include <exception>
#include <optional>
#include <utility>

namespace cg = cooperative_groups;

namespace {

constexpr int XK = 1024;     // input features
constexpr int HK = 256;      // hidden features
constexpr int OUTN = 128;    // output features
constexpr int KC1 = 80;      // k16 chunks of layer 1
constexpr int KC2 = 16;      // k16 chunks of layer 2
constexpr int NW = 16;       // warps per block
constexpr int RS = 20;       // padded stride of one batch column of a partial tile
constexpr int TILE = 8 * RS;

__device__ __forceinline__ void cluster_arrive() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() {
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ __forceinline__ void mma_tf32(float* c, float a0, float a1, float a2, float a3,
                                         float b0, float b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(__float_as_uint(a0)), "r"(__float_as_uint(a1)),
          "r"(__float_as_uint(a2)), "r"(__float_as_uint(a3)),
          "r"(__float_as_uint(b0)), "r"(__float_as_uint(b1)));
}

__device__ __forceinline__ float2 h2f(unsigned int u) {
    __half2 v = *reinterpret_cast<__half2*>(&u);
    return __half22float2(v);
}

__device__ __forceinline__ void split(float x, float& hi, float& lo) {
    hi = __uint_as_float(__float_as_uint(x) & 0xffffe000u);
    lo = (fabsf(x) == __int_as_float(0x7f800000)) ? 0.0f : (x - hi);
}

// four independent accumulator chains
struct Acc {
    float ha[4], hb[4], la[4], lb[4];
};

__device__ __forceinline__ void zero(Acc& a) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        a.ha[i] = 0.f;
        a.hb[i] = 0.f;
        a.la[i] = 0.f;
        a.lb[i] = 0.f;
    }
}

__device__ __forceinline__ float total(const Acc& a, int i) {
    return (a.ha[i] + a.hb[i]) + (a.la[i] + a.lb[i]);
}

__device__ __forceinline__ void chunk(uint4 w, float4 x, Acc& c) {
    float2 r0a = h2f(w.x), r0b = h2f(w.y), r1a = h2f(w.z), r1b = h2f(w.w);
    float h0, h1, h2, h3, l0, l1, l2, l3;
    split(x.x, h0, l0);
    split(x.y, h1, l1);
    split(x.z, h2, l2);
    split(x.w, h3, l3);
    mma_tf32(c.ha, r0a.x, r1a.x, r0a.y, r1a.y, h0, h1);
    mma_tf32(c.hb, r0b.x, r1b.x, r0b.y, r1b.y, h2, h3);
    mma_tf32(c.la, r0a.x, r1a.x, r0a.y, r1a.y, l0, l1);
    mma_tf32(c.lb, r0b.x, r1b.x, r0b.y, r1b.y, l2, l3);
}

template <int CS>
__global__ void __launch_bounds__(512, 1)
rnn_kernel(const float* __restrict__ x, const float* __restrict__ h,
           const uint4* __restrict__ w1, const float* __restrict__ b1,
           const uint4* __restrict__ w2, const float* __restrict__ b2,
           float* __restrict__ out) {
    constexpr int MT = 16 / CS;   // 16-row tiles of layer 1 per block
    __shared__ __align__(16) float red[NW * MT * TILE];
    __shared__ __align__(16) float hbuf[MT * 128];
    __shared__ __align__(16) float part[CS * 128];   // layer 2 partials from every block

    const int rank = blockIdx.x;   // one cluster only: block index is the rank
    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;
    const int g = lane >> 2;
    const int t = lane & 3;

    cluster_arrive();

    // issue every load up front
    uint4 wv[MT][5];
    float4 xv[5];
#pragma unroll
    for (int m = 0; m < MT; ++m) {
#pragma unroll
        for (int i = 0; i < 5; ++i) {
            wv[m][i] = __ldg(w1 + ((size_t)(rank * MT + m) * KC1 + warp + 16 * i) * 32 + lane);
        }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        xv[i] = __ldg(reinterpret_cast<const float4*>(x + g * XK + (warp + 16 * i) * 16 + 4 * t));
    }
    xv[4] = __ldg(reinterpret_cast<const float4*>(h + g * HK + warp * 16 + 4 * t));

    uint4 w2v[MT];
#pragma unroll
    for (int m = 0; m < MT; ++m) {
        w2v[m] = make_uint4(0u, 0u, 0u, 0u);
        if (warp < 8) w2v[m] = __ldg(w2 + (size_t)(warp * KC2 + rank * MT + m) * 32 + lane);
    }
    float bias1 = 0.0f, bias2 = 0.0f;
    if (tid < MT * 128) {
        bias1 = __ldg(b1 + (rank * MT + (tid >> 7)) * 16 + (tid & 15));
    }
    // position of this thread's element in a fragment-ordered tile (element = lane * 4 + c)
    const int eg = (tid >> 4) & 7;
    const int et = (tid >> 2) & 3;
    const int ec = tid & 3;
    const int er = eg + 8 * (ec >> 1);
    const int en = 2 * et + (ec & 1);
    if (rank < 8 && tid < 128) bias2 = __ldg(b2 + rank * 16 + er);

#pragma unroll
    for (int m = 0; m < MT; ++m) {
        Acc a;
        zero(a);
#pragma unroll
        for (int i = 0; i < 5; ++i) chunk(wv[m][i], xv[i], a);
        float* tile = red + (warp * MT + m) * TILE;
        tile[(2 * t) * RS + g]         = total(a, 0);
        tile[(2 * t + 1) * RS + g]     = total(a, 1);
        tile[(2 * t) * RS + g + 8]     = total(a, 2);
        tile[(2 * t + 1) * RS + g + 8] = total(a, 3);
    }
    __syncthreads();

    if (tid < MT * 128) {
        const int m = tid >> 7;
        const int v = tid & 127;
        const int off = m * TILE + (v >> 4) * RS + (v & 15);
        float s0 = 0.f, s1 = 0.f, s2 = 0.f, s3 = 0.f;
#pragma unroll
        for (int w = 0; w < NW; w += 4) {
            s0 += red[w * MT * TILE + off];
            s1 += red[(w + 1) * MT * TILE + off];
            s2 += red[(w + 2) * MT * TILE + off];
            s3 += red[(w + 3) * MT * TILE + off];
        }
        hbuf[tid] = tanhf(((s0 + s1) + (s2 + s3)) + bias1);
    }
    __syncthreads();

    cluster_wait();   // every block of the cluster has started

    if (warp < 8) {
        // this block's share of output tile `warp`
        Acc a;
        zero(a);
#pragma unroll
        for (int m = 0; m < MT; ++m) {
            float4 hv = *reinterpret_cast<const float4*>(hbuf + m * 128 + lane * 4);
            chunk(w2v[m], hv, a);
        }
        cg::cluster_group cl = cg::this_cluster();
        float* remote = cl.map_shared_rank(part, warp);
        *reinterpret_cast<float4*>(remote + rank * 128 + lane * 4) =
            make_float4(total(a, 0), total(a, 1), total(a, 2), total(a, 3));
    }
    __syncwarp();
    cluster_arrive();
    cluster_wait();

    if (rank < 8 && tid < 128) {
        float s0 = 0.f, s1 = 0.f, s2 = 0.f, s3 = 0.f;
#pragma unroll
        for (int s = 0; s < CS; s += 4) {
            s0 += part[s * 128 + tid];
            s1 += part[(s + 1) * 128 + tid];
            s2 += part[(s + 2) * 128 + tid];
            s3 += part[(s + 3) * 128 + tid];
        }
        out[en * OUTN + rank * 16 + er] = ((s0 + s1) + (s2 + s3)) + bias2;
    }
}

template <int CS>
void fill_config(cudaLaunchConfig_t& cfg, cudaLaunchAttribute* attr, cudaStream_t stream) {
    cfg.gridDim = dim3(CS);
    cfg.blockDim = dim3(512);
    cfg.dynamicSmemBytes = 0;
    cfg.stream = stream;
    attr[0].id = cudaLaunchAttributeClusterDimension;
    attr[0].val.clusterDim.x = CS;
    attr[0].val.clusterDim.y = 1;
    attr[0].val.clusterDim.z = 1;
    cfg.attrs = attr;
    cfg.numAttrs = 1;
}

int pick_cluster(cudaStream_t stream) {
    cudaError_t e = cudaFuncSetAttribute(reinterpret_cast<const void*>(&rnn_kernel<16>),
                                         cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    if (e == cudaSuccess) {
        cudaLaunchConfig_t cfg = {};
        cudaLaunchAttribute attr[1];
        fill_config<16>(cfg, attr, stream);
        int n = 0;
        e = cudaOccupancyMaxActiveClusters(&n, reinterpret_cast<const void*>(&rnn_kernel<16>), &cfg);
        if (e == cudaSuccess && n >= 1) return 16;
    }
    (void)cudaGetLastError();
    return 8;
}

inline bool shape_ok(const at::Tensor& a, int64_t rows, int64_t cols) {
    return a.scalar_type() == at::kFloat && a.layout() == at::kStrided && a.dim() == 2 &&
           a.size(0) == rows && a.size(1) == cols;
}

inline bool aligned16(const void* p) { return (reinterpret_cast<uintptr_t>(p) & 15) == 0; }

inline bool direct(const at::Tensor& a) {
    return a.is_contiguous() && aligned16(a.const_data_ptr());
}

at::Tensor prepare(const at::Tensor& a) {
    at::Tensor c = a.contiguous();
    if (!aligned16(c.const_data_ptr())) c = c.clone();
    return c;
}

inline long long version_of(const at::Tensor& a) {
    return a.is_inference()
        ? 0LL
        : static_cast<long long>(a.unsafeGetTensorImpl()->version_counter().current_version());
}

int g_mode[64] = {0};
PyObject* s_weight = nullptr;
PyObject* s_bias = nullptr;

inline PyObject* tensor_item(PyObject* dict, PyObject* name) {
    PyObject* o = PyDict_GetItemWithError(dict, name);   // borrowed
    if (o == nullptr) {
        PyErr_Clear();
        return nullptr;
    }
    return THPVariable_Check(o) ? o : nullptr;
}

// args: x, hidden, packed weights, parameters of input_to_hidden, parameters of hidden_to_output.
// Returns None where the caller has to take the general way.
PyObject* step_impl(PyObject* const* args, Py_ssize_t nargs) {
    if (nargs != 5) {
        PyErr_SetString(PyExc_TypeError, "step takes 5 arguments");
        return nullptr;
    }
    PyObject* xo = args[0];
    PyObject* ho = args[1];
    PyObject* st = args[2];
    PyObject* p1 = args[3];
    PyObject* p2 = args[4];
    if (c10::GradMode::is_enabled() || !PyTuple_Check(st) || PyTuple_GET_SIZE(st) != 6 ||
        !PyDict_Check(p1) || !PyDict_Check(p2) || !THPVariable_Check(xo) || !THPVariable_Check(ho)) {
        Py_RETURN_NONE;
    }
    PyObject* w1o = tensor_item(p1, s_weight);
    PyObject* b1o = tensor_item(p1, s_bias);
    PyObject* w2o = tensor_item(p2, s_weight);
    PyObject* b2o = tensor_item(p2, s_bias);
    PyObject* w1po = PyTuple_GET_ITEM(st, 0);
    PyObject* w2po = PyTuple_GET_ITEM(st, 1);
    if (!w1o || !b1o || !w2o || !b2o || !THPVariable_Check(w1po) || !THPVariable_Check(w2po)) {
        Py_RETURN_NONE;
    }
    const at::Tensor& x = THPVariable_Unpack(xo);
    const at::Tensor& w1 = THPVariable_Unpack(w1o);
    const at::Tensor& b1 = THPVariable_Unpack(b1o);
    const at::Tensor& w2 = THPVariable_Unpack(w2o);
    const at::Tensor& b2 = THPVariable_Unpack(b2o);
    const at::Tensor& w1p = THPVariable_Unpack(w1po);
    const at::Tensor& w2p = THPVariable_Unpack(w2po);
    const at::Tensor& h = THPVariable_Unpack(ho);

    if (!x.is_cuda()) Py_RETURN_NONE;
    const at::Device dev = x.device();
    if (!shape_ok(x, 8, XK) || !shape_ok(h, 8, HK) ||
        h.device() != dev || w1.device() != dev || w2.device() != dev ||
        w1p.device() != dev || w2p.device() != dev || b1.device() != dev || b2.device() != dev ||
        b1.scalar_type() != at::kFloat || b2.scalar_type() != at::kFloat ||
        b1.numel() != HK || b2.numel() != OUTN || !b1.is_contiguous() || !b2.is_contiguous()) {
        Py_RETURN_NONE;
    }
    // packed weights must belong to the weights as they are now
    const long long k0 = static_cast<long long>(reinterpret_cast<intptr_t>(w1.const_data_ptr()));
    const long long k2 = static_cast<long long>(reinterpret_cast<intptr_t>(w2.const_data_ptr()));
    const bool same = PyLong_AsLongLong(PyTuple_GET_ITEM(st, 2)) == k0 &&
                      PyLong_AsLongLong(PyTuple_GET_ITEM(st, 3)) == version_of(w1) &&
                      PyLong_AsLongLong(PyTuple_GET_ITEM(st, 4)) == k2 &&
                      PyLong_AsLongLong(PyTuple_GET_ITEM(st, 5)) == version_of(w2);
    if (!same) {
        if (PyErr_Occurred()) PyErr_Clear();
        Py_RETURN_NONE;
    }

    c10::cuda::OptionalCUDAGuard guard;
    if (c10::cuda::current_device() != dev.index()) guard.set_device(dev);

    at::Tensor xc, hc;
    const float* xp;
    const float* hp;
    if (direct(x)) {
        xp = static_cast<const float*>(x.const_data_ptr());
    } else {
        xc = prepare(x);
        xp = static_cast<const float*>(xc.const_data_ptr());
    }
    if (direct(h)) {
        hp = static_cast<const float*>(h.const_data_ptr());
    } else {
        hc = prepare(h);
        hp = static_cast<const float*>(hc.const_data_ptr());
    }
    at::Tensor out = at::Tensor(at::detail::empty_cuda({8, OUTN}, at::kFloat, dev, std::nullopt));
    float* outp = static_cast<float*>(const_cast<void*>(out.const_data_ptr()));

    cudaStream_t stream = at::cuda::getCurrentCUDAStream(dev.index());
    const int di = static_cast<int>(dev.index()) & 63;
    if (g_mode[di] == 0) g_mode[di] = pick_cluster(stream);

    const uint4* w1q = static_cast<const uint4*>(w1p.const_data_ptr());
    const uint4* w2q = static_cast<const uint4*>(w2p.const_data_ptr());
    const float* b1p = static_cast<const float*>(b1.const_data_ptr());
    const float* b2p = static_cast<const float*>(b2.const_data_ptr());

    cudaLaunchConfig_t cfg = {};
    cudaLaunchAttribute attr[1];
    if (g_mode[di] == 16) {
        fill_config<16>(cfg, attr, stream);
        C10_CUDA_CHECK(cudaLaunchKernelEx(&cfg, rnn_kernel<16>, xp, hp, w1q, b1p, w2q, b2p, outp));
    } else {
        fill_config<8>(cfg, attr, stream);
        C10_CUDA_CHECK(cudaLaunchKernelEx(&cfg, rnn_kernel<8>, xp, hp, w1q, b1p, w2q, b2p, outp));
    }
    C10_CUDA_KERNEL_LAUNCH_CHECK();

    return THPVariable_Wrap(std::move(out));
}

PyObject* step(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    try {
        return step_impl(args, nargs);
    } catch (const std::exception& e) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, e.what());
        return nullptr;
    }
}

PyMethodDef step_def = {
    "rnn_step",
    reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)(void)>(&step)),
    METH_FASTCALL,
    nullptr};

}  // namespace

pybind11::object get_step() {
    if (s_weight == nullptr) {
        s_weight = PyUnicode_InternFromString("weight");
        s_bias = PyUnicode_InternFromString("bias");
    }
    PyObject* f = PyCFunction_New(&step_def, nullptr);
    if (f == nullptr) throw pybind11::error_already_set();
    return pybind11::reinterpret_steal<pybind11::object>(f);
}
"""
_ext = load_inline(
    name="pike_gallery_rnn_step",
    cpp_sources=[_CPP_SRC],
    cuda_sources=[_CUDA_SRC],
    functions=["get_step"],
    extra_cflags=["-O3"],
    extra_cuda_cflags=["-O3"],
    verbose=False,
)
_step = _ext.get_step()


def _version(w: torch.Tensor) -> int:
    return 0 if w.is_inference() else w._version


def _pack(w: torch.Tensor) -> torch.Tensor | None:
    """16-bit copy of w in the order of the tensor cores' fragments; None where 16 bits would not hold it well."""
    w = w.detach()
    w16 = w.to(torch.float16)
    # what underflows keeps its sign and stays non-zero
    tiny = torch.full_like(w, 2.0**-24)
    w16 = torch.where((w16 == 0) & (w != 0), torch.copysign(tiny, w).to(torch.float16), w16)
    exact = w.double()
    error, size = (w16.double() - exact).norm(dim=1), exact.norm(dim=1)
    if not bool(torch.isfinite(w16).all() & (error <= 5e-4 * size).all()):
        return None
    n, k = w16.shape
    return w16.reshape(n // 16, 2, 8, k // 16, 4, 4).permute(0, 3, 2, 4, 1, 5).contiguous()


class ModelNew(nn.Module):
    """The hidden state from input and last hidden state, the output from the hidden state.

    Parameters are those of the original. Packed weights are made again when a weight has changed.
    """

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.input_to_hidden = nn.Linear(inputs + hidden, hidden)
        self.hidden_to_output = nn.Linear(hidden, outputs)
        self._key = None
        self._packed = None

    def _apply(self, fn, recurse=True):
        self._key = self._packed = None
        return super()._apply(fn, recurse)

    def forward(self, x: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        """Input (batch, inputs) and last hidden state (batch, hidden) to output (batch, outputs)."""
        layers = self._modules
        one, two = layers["input_to_hidden"]._parameters, layers["hidden_to_output"]._parameters
        out = _step(x, hidden, self._packed, one, two)
        if out is None and not torch.is_grad_enabled() and self._refresh():
            out = _step(x, hidden, self._packed, one, two)
        return self._general(x, hidden) if out is None else out

    def _refresh(self) -> bool:
        """Pack the weights as they are now; False if they are packed already or cannot be."""
        w1, w2 = self.input_to_hidden.weight, self.hidden_to_output.weight
        key = (w1.data_ptr(), _version(w1), w2.data_ptr(), _version(w2))
        if key == self._key:
            return False
        self._key, self._packed = key, None
        fits = tuple(w1.shape) == (256, 1280) and tuple(w2.shape) == (128, 256)
        if fits and all(w.is_cuda and w.dtype == torch.float32 for w in (w1, w2)):
            with torch.no_grad():
                packed = _pack(w1), _pack(w2)
            if all(one is not None for one in packed):
                self._packed = packed + key
        return self._packed is not None

    def _general(self, x: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        return self.hidden_to_output(torch.tanh(self.input_to_hidden(torch.cat((x, hidden), dim=1))))
