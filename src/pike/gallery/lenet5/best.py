"""LeNet-5 as one kernel launch: the whole network on a cluster of eight blocks.

What it does: the network of `level3-pike/4` in 32-bit arithmetic, on images of 32 x 32, any number
of them. Each image has a cluster of eight blocks. They share out the convolutions and the first
linear layer, keep every result in shared memory, and block 0 computes the last two layers.

What made it fast: one launch instead of twelve, weights packed once in the order in which threads
read them, all loads of weights issued before the first product, partial sums handed over between
blocks without a barrier (`st.async`), and a call that reaches the driver with little on its way.

Limits: channels 6 and 16, hidden layers of 120 and 84, compute capability 9.0 (Hopper).

Author: a coding agent, in a search by the strategy pike-b (result.json says which).
Licence: Apache-2.0.
"""

import torch
import torch.nn as nn
from torch.nn.modules import module as _nn_module
from torch.utils.cpp_extension import load_inline

CHANNELS, HIDDEN = (6, 16), (120, 84)

_CPP_SRC = r"""
#include <torch/extension.h>
pybind11::object get_lenet_call();
"""

_CUDA_SRC = r"""
#include <torch/extension.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <ATen/EmptyTensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <cooperative_groups.h>
#include <cuda.h>
#include <cuda_runtime.h>

namespace cg = cooperative_groups;

// Layout of the packed buffer, in floats.
constexpr int O_W1 = 0;                       // [6][28]      25 weights, bias at 25
constexpr int O_W2 = O_W1 + 6 * 28;           // [8][12][28]  25 weights, bias at 25 where ic == 0
constexpr int O_F1 = O_W2 + 96 * 28;          // [8][13][480]
constexpr int O_F2 = O_F1 + 8 * 13 * 480;     // [20][504]
constexpr int O_B1 = O_F2 + 20 * 504;         // [120]
constexpr int O_B2 = O_B1 + 120;              // [84]
constexpr int O_F3 = O_B2 + 84;               // [nc][84], then [nc] biases

constexpr int XS = 46;    // padded row of the input
constexpr int AS = 22;    // padded row of the first pooled map
constexpr int AC = 14 * AS;

__device__ __forceinline__ float ldv(const float* p) {
    float v;
    asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(v) : "l"(p));
    return v;
}
// NaN-propagating maximum, as in torch's relu and max_pool2d
__device__ __forceinline__ float maxn(float a, float b) {
    float r;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}
__device__ __forceinline__ void cl_arrive() {
    asm volatile("barrier.cluster.arrive.release;" ::: "memory");
}
__device__ __forceinline__ void cl_wait() {
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}
__device__ __forceinline__ unsigned smem_addr(const void* p) {
    return (unsigned)__cvta_generic_to_shared(p);
}
__device__ __forceinline__ unsigned map_rank(unsigned a, unsigned rank) {
    unsigned r;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(rank));
    return r;
}

__global__ void __cluster_dims__(8, 1, 1) __launch_bounds__(512, 1)
lenet_kernel(const float* __restrict__ x, const float* __restrict__ P,
             float* __restrict__ out, int nc) {
    __shared__ __align__(16) float xs[32 * XS];
    __shared__ __align__(16) float w1s[6 * 28];
    __shared__ __align__(16) float w2s[12 * 28];
    __shared__ __align__(16) float a1s[6 * AC];
    __shared__ __align__(16) float part[6 * 200];
    __shared__ __align__(16) float a2s[52];
    __shared__ __align__(16) float p1s[8 * 120];
    __shared__ __align__(16) float h1s[120];
    __shared__ __align__(16) float p2s[6 * 84];
    __shared__ __align__(8) unsigned long long mbar;

    cg::cluster_group cluster = cg::this_cluster();
    const int t = threadIdx.x;
    const int rank = blockIdx.x & 7;
    const int n = blockIdx.x >> 3;
    const int lane = t & 31;
    const int warp = t >> 5;

    // block 0 of the cluster will receive 8 x 480 bytes of fc1 partial sums
    if (t == 0 && rank == 0) {
        const unsigned mb = smem_addr(&mbar);
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(mb) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                     :: "r"(mb), "r"(8 * 480) : "memory");
    }
    __syncwarp();
    cl_arrive();

    // ---- issue all loads
    const float* xp = x + (size_t)n * 1024;
    const float xv0 = ldv(xp + t);
    const float xv1 = ldv(xp + t + 512);
    float w1v = 0.f, w2v = 0.f;
    if (t < 168) w1v = ldv(P + O_W1 + t);
    if (t < 336) w2v = ldv(P + O_W2 + rank * 336 + t);

    float f1w[13];
#pragma unroll
    for (int k = 0; k < 13; k++) f1w[k] = 0.f;
    if (t < 480) {
        const float* f1p = P + O_F1 + rank * (13 * 480) + t;
#pragma unroll
        for (int k = 0; k < 13; k++) f1w[k] = ldv(f1p + k * 480);
    }
    float f2w[20];
    float f3w[3], b2v[3];
    float b1v = 0.f, b3v = 0.f;
#pragma unroll
    for (int k = 0; k < 20; k++) f2w[k] = 0.f;
#pragma unroll
    for (int m = 0; m < 3; m++) { f3w[m] = 0.f; b2v[m] = 0.f; }
    if (rank == 0) {
        if (t < 504) {
            const float* f2p = P + O_F2 + t;
#pragma unroll
            for (int k = 0; k < 20; k++) f2w[k] = ldv(f2p + k * 504);
        }
        if (t < 120) b1v = ldv(P + O_B1 + t);
        if (warp < nc) {
#pragma unroll
            for (int m = 0; m < 3; m++) {
                const int j = lane + 32 * m;
                if (j < 84) {
                    b2v[m] = ldv(P + O_B2 + j);
                    f3w[m] = ldv(P + O_F3 + warp * 84 + j);
                }
            }
            b3v = ldv(P + O_F3 + nc * 84 + warp);
        }
    }

    xs[warp * XS + lane] = xv0;
    xs[(warp + 16) * XS + lane] = xv1;
    if (t < 168) w1s[t] = w1v;
    if (t < 336) w2s[t] = w2v;
    if (t >= 510) a2s[50 + (t - 510)] = 0.f;
    __syncthreads();

    // ---- conv1 + relu + pool: 147 pooled outputs per block, two threads each
    float m1 = 0.f;
    int dst = 0;
    const int pp = t >> 1;
    const int dy1 = t & 1;
    if (t < 320) {
        const int pl = pp < 147 ? pp : 146;
        const int g = rank * 147 + pl;
        const int c = g / 196;
        const int pos = g - c * 196;
        const int py = pos / 14;
        const int px = pos - py * 14;
        dst = c * AC + py * AS + px;
        const float* src = xs + (2 * py + dy1) * XS + 2 * px;
        float w[28];
        const float4* wp = reinterpret_cast<const float4*>(w1s + c * 28);
#pragma unroll
        for (int i = 0; i < 7; i++) {
            const float4 v = wp[i];
            w[4 * i] = v.x; w[4 * i + 1] = v.y; w[4 * i + 2] = v.z; w[4 * i + 3] = v.w;
        }
        float s0 = w[25], s1 = w[25];
#pragma unroll
        for (int i = 0; i < 5; i++) {
            const float2* rp = reinterpret_cast<const float2*>(src + i * XS);
            const float2 q0 = rp[0], q1 = rp[1], q2 = rp[2];
            const float r[6] = {q0.x, q0.y, q1.x, q1.y, q2.x, q2.y};
#pragma unroll
            for (int j = 0; j < 5; j++) {
                s0 = fmaf(r[j], w[i * 5 + j], s0);
                s1 = fmaf(r[j + 1], w[i * 5 + j], s1);
            }
        }
        m1 = maxn(s0, s1);
        m1 = maxn(m1, __shfl_xor_sync(0xffffffffu, m1, 1));
        m1 = maxn(m1, 0.f);
    }
    cl_wait();   // every block of the cluster has started, block 0's mbarrier is ready
    if (t < 294) {
#pragma unroll
        for (int r = 0; r < 4; r++) {
            float* ra = cluster.map_shared_rank(a1s, (unsigned)(dy1 * 4 + r));
            ra[dst] = m1;
        }
    }
    cl_arrive();
    cl_wait();

    // ---- conv2: two output channels per block, split over input channels
    if (t < 300) {
        const int ic = t / 50;
        const int p = t - ic * 50;
        const int ocl = p / 25;
        const int pos = p - ocl * 25;
        const int py = pos / 5;
        const int px = pos - py * 5;
        const float* src = a1s + ic * AC + 2 * py * AS + 2 * px;
        float w[28];
        const float4* wp = reinterpret_cast<const float4*>(w2s + (ocl * 6 + ic) * 28);
#pragma unroll
        for (int i = 0; i < 7; i++) {
            const float4 v = wp[i];
            w[4 * i] = v.x; w[4 * i + 1] = v.y; w[4 * i + 2] = v.z; w[4 * i + 3] = v.w;
        }
        float s00 = w[25], s01 = w[25], s10 = w[25], s11 = w[25];
#pragma unroll
        for (int i = 0; i < 6; i++) {
            const float2* rp = reinterpret_cast<const float2*>(src + i * AS);
            const float2 q0 = rp[0], q1 = rp[1], q2 = rp[2];
            const float r[6] = {q0.x, q0.y, q1.x, q1.y, q2.x, q2.y};
            if (i < 5) {
#pragma unroll
                for (int j = 0; j < 5; j++) {
                    s00 = fmaf(r[j], w[i * 5 + j], s00);
                    s01 = fmaf(r[j + 1], w[i * 5 + j], s01);
                }
            }
            if (i > 0) {
#pragma unroll
                for (int j = 0; j < 5; j++) {
                    s10 = fmaf(r[j], w[(i > 0 ? i - 1 : 0) * 5 + j], s10);
                    s11 = fmaf(r[j + 1], w[(i > 0 ? i - 1 : 0) * 5 + j], s11);
                }
            }
        }
        reinterpret_cast<float4*>(part)[ic * 50 + p] = make_float4(s00, s01, s10, s11);
    }
    __syncthreads();
    if (t < 224) {
        const int q = t < 200 ? t : 199;
        float s = 0.f;
#pragma unroll
        for (int ic = 0; ic < 6; ic++) s += part[ic * 200 + q];
        s = maxn(s, __shfl_xor_sync(0xffffffffu, s, 1));
        s = maxn(s, __shfl_xor_sync(0xffffffffu, s, 2));
        s = maxn(s, 0.f);
        if (t < 200 && (t & 3) == 0) a2s[t >> 2] = s;
    }
    __syncthreads();

    // ---- fc1: partial sums over this block's 50 features, four threads per output
    if (t < 480) {
        const int q = t & 3;
        float s0 = 0.f, s1 = 0.f;
#pragma unroll
        for (int k = 0; k < 12; k += 2) {
            s0 = fmaf(a2s[k * 4 + q], f1w[k], s0);
            s1 = fmaf(a2s[k * 4 + 4 + q], f1w[k + 1], s1);
        }
        s0 = fmaf(a2s[48 + q], f1w[12], s0);
        float s = s0 + s1;
        s += __shfl_xor_sync(0xffffffffu, s, 1);
        s += __shfl_xor_sync(0xffffffffu, s, 2);
        const float v1 = __shfl_down_sync(0xffffffffu, s, 4);
        const float v2 = __shfl_down_sync(0xffffffffu, s, 8);
        const float v3 = __shfl_down_sync(0xffffffffu, s, 12);
        if ((t & 15) == 0) {
            const unsigned ra = map_rank(smem_addr(p1s + rank * 120 + (t >> 2)), 0u);
            const unsigned rb = map_rank(smem_addr(&mbar), 0u);
            asm volatile(
                "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 "
                "[%0], {%1, %2, %3, %4}, [%5];"
                :: "r"(ra), "r"(__float_as_uint(s)), "r"(__float_as_uint(v1)),
                   "r"(__float_as_uint(v2)), "r"(__float_as_uint(v3)), "r"(rb)
                : "memory");
        }
    }
    if (rank != 0) return;

    if (t < 120) {
        const unsigned mb = smem_addr(&mbar);
        unsigned done = 0;
        while (!done) {
            asm volatile(
                "{\n\t"
                ".reg .pred p;\n\t"
                "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n\t"
                "selp.u32 %0, 1, 0, p;\n\t"
                "}"
                : "=r"(done) : "r"(mb), "r"(0u) : "memory");
        }
        float s = b1v;
#pragma unroll
        for (int r = 0; r < 8; r++) s += p1s[r * 120 + t];
        h1s[t] = maxn(s, 0.f);
    }
    __syncthreads();

    // ---- fc2: six threads per output, 20 inputs each
    if (t < 504) {
        const int sg = t / 84;
        const float4* hp = reinterpret_cast<const float4*>(h1s + sg * 20);
        float s0 = 0.f, s1 = 0.f;
#pragma unroll
        for (int k = 0; k < 5; k++) {
            const float4 h = hp[k];
            s0 = fmaf(h.x, f2w[4 * k], s0);
            s1 = fmaf(h.y, f2w[4 * k + 1], s1);
            s0 = fmaf(h.z, f2w[4 * k + 2], s0);
            s1 = fmaf(h.w, f2w[4 * k + 3], s1);
        }
        p2s[t] = s0 + s1;
    }
    __syncthreads();

    // ---- fc2's reduction + relu, fc3: one warp per class
    if (warp < nc) {
        float h[3];
#pragma unroll
        for (int m = 0; m < 3; m++) {
            const int j = lane + 32 * m;
            h[m] = 0.f;
            if (j < 84) {
                float s = b2v[m];
#pragma unroll
                for (int g = 0; g < 6; g++) s += p2s[g * 84 + j];
                h[m] = maxn(s, 0.f);
            }
        }
        for (int o = warp; o < nc; o += 16) {
            if (o != warp) {
#pragma unroll
                for (int m = 0; m < 3; m++) {
                    const int j = lane + 32 * m;
                    f3w[m] = j < 84 ? P[O_F3 + o * 84 + j] : 0.f;
                }
                b3v = P[O_F3 + nc * 84 + o];
            }
            float s = h[0] * f3w[0];
            s = fmaf(h[1], f3w[1], s);
            s = fmaf(h[2], f3w[2], s);
#pragma unroll
            for (int d = 16; d > 0; d >>= 1) s += __shfl_xor_sync(0xffffffffu, s, d);
            if (lane == 0) out[(size_t)n * nc + o] = s + b3v;
        }
    }
}

// ---------------------------------------------------------------- host side

typedef CUresult (*DriverLaunch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                                 unsigned, unsigned, CUstream, void**, void**);

// cuLaunchKernel itself: the runtime's launch does more before it gets there
static DriverLaunch find_driver_launch() {
    void* p = nullptr;
    cudaDriverEntryPointQueryResult q;
    const cudaError_t e =
        cudaGetDriverEntryPointByVersion("cuLaunchKernel", &p, 12000, cudaEnableDefault, &q);
    if (e != cudaSuccess || q != cudaDriverEntryPointSuccess) {
        (void)cudaGetLastError();
        return nullptr;
    }
    return reinterpret_cast<DriverLaunch>(p);
}

// The kernel's handle on one device (the caller holds the GIL); null if there is none.
static CUfunction kernel_handle(int dev) {
    static CUfunction cache[64] = {};
    if (dev < 0 || dev >= 64) return nullptr;
    CUfunction f = cache[dev];
    if (__builtin_expect(f == nullptr, 0)) {
        cudaFunction_t cf = nullptr;
        if (cudaGetFuncBySymbol(&cf, reinterpret_cast<const void*>(&lenet_kernel)) != cudaSuccess) {
            (void)cudaGetLastError();
            return nullptr;
        }
        f = reinterpret_cast<CUfunction>(cf);
        cache[dev] = f;
    }
    return f;
}

static void launch(int dev, const float* xp, const float* pw, float* op, int64_t N, int nc,
                   cudaStream_t stream) {
    static const DriverLaunch driver_launch = find_driver_launch();
    const unsigned grid = (unsigned)(8 * N);
    if (driver_launch != nullptr) {
        CUfunction f = kernel_handle(dev);
        if (f != nullptr) {
            void* args[] = {(void*)&xp, (void*)&pw, (void*)&op, (void*)&nc};
            if (driver_launch(f, grid, 1, 1, 512, 1, 1, 0, (CUstream)stream, args, nullptr)
                == CUDA_SUCCESS)
                return;
        }
    }
    // no current context on this thread yet, or no driver entry: the runtime's launch
    lenet_kernel<<<grid, 512, 0, stream>>>(xp, pw, op, nc);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

static at::Tensor lenet_forward(const at::Tensor& x, const at::Tensor& packed) {
    TORCH_CHECK(x.is_cuda() && packed.is_cuda() && x.get_device() == packed.get_device(),
                "x and the weights must be on the same CUDA device");
    TORCH_CHECK(x.scalar_type() == at::kFloat && packed.scalar_type() == at::kFloat,
                "x and the weights must be float32");
    const at::IntArrayRef sz = x.sizes();
    TORCH_CHECK(sz.size() == 4 && sz[1] == 1 && sz[2] == 32 && sz[3] == 32,
                "x must have shape (N, 1, 32, 32)");
    const int64_t nc = (packed.numel() - O_F3) / 85;
    const int64_t N = sz[0];
    const c10::DeviceIndex dev = (c10::DeviceIndex)x.get_device();
    c10::cuda::OptionalCUDAGuard guard;
    if (dev != c10::cuda::current_device()) guard.set_index(dev);

    const int64_t osz[2] = {N, nc};
    at::Tensor out(at::detail::empty_generic(
        at::IntArrayRef(osz, 2), c10::cuda::CUDACachingAllocator::get(),
        c10::DispatchKeySet(c10::DispatchKey::CUDA), at::kFloat, std::nullopt));
    if (N == 0 || nc == 0) return out;
    const float* pw = packed.const_data_ptr<float>();
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(dev).stream();
    if (x.is_contiguous()) {
        launch(dev, x.const_data_ptr<float>(), pw, out.mutable_data_ptr<float>(), N, (int)nc,
               stream);
    } else {
        at::Tensor xc = x.contiguous();
        launch(dev, xc.const_data_ptr<float>(), pw, out.mutable_data_ptr<float>(), N, (int)nc,
               stream);
    }
    return out;
}

static PyObject* lenet_call(PyObject* /*self*/, PyObject* const* args, Py_ssize_t nargs) {
    HANDLE_TH_ERRORS
    if (nargs != 2 || !THPVariable_Check(args[0]) || !THPVariable_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "expected two tensors: x and the packed weights");
        return nullptr;
    }
    return THPVariable_Wrap(
        lenet_forward(THPVariable_Unpack(args[0]), THPVariable_Unpack(args[1])));
    END_HANDLE_TH_ERRORS
}

static PyMethodDef lenet_call_def = {
    "lenet_call", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)(void)>(lenet_call)),
    METH_FASTCALL, nullptr};

pybind11::object get_lenet_call() {
    return pybind11::reinterpret_steal<pybind11::object>(
        PyCFunction_NewEx(&lenet_call_def, nullptr, nullptr));
}
"""

_ext = load_inline(
    name="pike_gallery_lenet5",
    cpp_sources=_CPP_SRC,
    cuda_sources=_CUDA_SRC,
    functions=["get_lenet_call"],
    extra_cflags=["-O3"],
    extra_cuda_cflags=["-O3", "-gencode=arch=compute_90,code=sm_90"],
    verbose=False,
)
_lenet_call = _ext.get_lenet_call()

_GLOBAL_PRE_HOOKS = _nn_module._global_forward_pre_hooks
_GLOBAL_HOOKS = _nn_module._global_forward_hooks


def _pack(conv1: nn.Conv2d, conv2: nn.Conv2d, fc1: nn.Linear, fc2: nn.Linear, fc3: nn.Linear) -> torch.Tensor:
    """All weights and biases in one contiguous 32-bit buffer, in the kernel's order."""
    with torch.no_grad():
        dev = conv1.weight.device

        def f(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.detach().to(device=dev, dtype=torch.float32)

        w1 = torch.zeros(6, 28, device=dev, dtype=torch.float32)
        w1[:, :25] = f(conv1.weight).reshape(6, 25)
        w1[:, 25] = f(conv1.bias)

        w2 = torch.zeros(16, 6, 28, device=dev, dtype=torch.float32)
        w2[:, :, :25] = f(conv2.weight).reshape(16, 6, 25)
        w2[:, 0, 25] = f(conv2.bias)

        f1 = torch.zeros(120, 8, 52, device=dev, dtype=torch.float32)
        f1[:, :, :50] = f(fc1.weight).reshape(120, 8, 50)
        f1 = f1.view(120, 8, 13, 4).permute(1, 2, 0, 3)

        f2 = f(fc2.weight).reshape(84, 6, 20).permute(2, 1, 0)

        parts = [w1, w2, f1, f2, f(fc1.bias), f(fc2.bias), f(fc3.weight), f(fc3.bias)]
        return torch.cat([part.reshape(-1) for part in parts]).contiguous()


class ModelNew(nn.Module):
    """LeNet-5 for inference; its one buffer `packed` holds every weight and bias."""

    def __init__(self, classes: int, channels: tuple[int, int] = CHANNELS, hidden: tuple[int, int] = HIDDEN) -> None:
        super().__init__()
        if tuple(channels) != CHANNELS or tuple(hidden) != HIDDEN:
            raise ValueError(f"this kernel is made for channels {CHANNELS} and hidden layers {HIDDEN}")
        layers = nn.Conv2d(1, 6, 5), nn.Conv2d(6, 16, 5), nn.Linear(400, 120), nn.Linear(120, 84)
        self.register_buffer("packed", _pack(*layers, nn.Linear(84, classes)))

    @classmethod
    def from_reference(cls, model: nn.Module) -> "ModelNew":
        """The same network with the weights of `model`."""
        new = cls(model.fc3.weight.shape[0])
        new.packed = _pack(model.conv1, model.conv2, model.fc1, model.fc2, model.fc3)
        return new

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images (batch, 1, 32, 32) to logits (batch, classes)."""
        return _lenet_call(x, self._buffers["packed"])

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """As every module; without hooks, the way through `nn.Module.__call__` is left out."""
        if self._forward_hooks or self._forward_pre_hooks or _GLOBAL_HOOKS or _GLOBAL_PRE_HOOKS:
            return nn.Module.__call__(self, x)
        return _lenet_call(x, self._buffers["packed"])
