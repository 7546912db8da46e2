"""Convolution of few input channels on tensor cores, as a Triton kernel that writes its result
once.

Knows Triton, the kernel and its tiles. The method is implicit matrix multiplication (Chetlur et al.
2014, arXiv:1410.0759): one program multiplies a block of filters with the patches that a block of
output pixels sees. Bias and ReLU follow before the block is written. With few input channels the
patches are narrow, so only writing the result takes long. The arithmetic is that of
`attention_kernel`. Does not know graphs, nor which arithmetic is allowed. Imports nothing of PIKE
but `triton_program`, because it is copied into candidates.
"""

from __future__ import annotations

from typing import Any, NamedTuple, no_type_check

import torch

from pike.recipes.kernels.triton_program import constexpr, tl, triton_program

LEAST_CONV_BLOCK = 16
"""Tensor cores take no shorter sums and no fewer filters."""
MOST_CONV_BLOCK_M = 128
"""More filters are taken in blocks of this many."""
CONV_BLOCK_N = 128
"""Output pixels of a program: a guess."""
CONV_WARPS = 8
"""Warps of a program: a guess."""


class ConvTerms(NamedTuple):
    """What is computed.

    Attributes:
        stride: of the filters, in pixels down and across.
        padding: of the image with zeros, in pixels down and across.
        rectified: whether a ReLU follows.
        arithmetic: what Triton calls an input precision: "bf16x6" or "bf16x3".
    """

    stride: tuple[int, int]
    padding: tuple[int, int]
    rectified: bool
    arithmetic: str


@no_type_check
def conv2d_fwd_kernel(
    x, w, bias, out, x_strides, height, width, out_width, n_pixels, n_filters,
    K: constexpr, BLOCK_K: constexpr, KERNEL_H: constexpr, KERNEL_W: constexpr, STRIDE_H: constexpr,
    STRIDE_W: constexpr, PAD_H: constexpr, PAD_W: constexpr, BLOCK_M: constexpr, BLOCK_N: constexpr,
    HAS_BIAS: constexpr, RECTIFIED: constexpr, ARITHMETIC: constexpr,
):  # fmt: skip
    """One block of filters at one block of output pixels of one image.

    `x` is (batch, channels, height, width) float32 in any layout. `w` is (filters, K) contiguous,
    with K = channels * KERNEL_H * KERNEL_W. `out` is (batch, filters, pixels) contiguous. Strides
    count elements. The grid is (blocks of pixels, batch, blocks of filters).
    """
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    pid_z = tl.program_id(1).to(tl.int64)
    offs_m = tl.program_id(2) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_k = tl.arange(0, BLOCK_K)
    c = offs_k // (KERNEL_H * KERNEL_W)
    r = offs_k % (KERNEL_H * KERNEL_W) // KERNEL_W
    h = (offs_n // out_width * STRIDE_H - PAD_H)[None, :] + r[:, None]
    w_in = (offs_n % out_width * STRIDE_W - PAD_W)[None, :] + (offs_k % KERNEL_W)[:, None]
    mask = (h >= 0) & (h < height) & (w_in >= 0) & (w_in < width)
    mask &= (offs_k < K)[:, None] & (offs_n < n_pixels)[None, :]
    x_ptrs = x + pid_z * x_strides[0] + c[:, None] * x_strides[1] + h * x_strides[2] + w_in * x_strides[3]
    patches = tl.load(x_ptrs, mask=mask, other=0.0)
    mask = (offs_m < n_filters)[:, None] & (offs_k < K)[None, :]
    filters = tl.load(w + offs_m[:, None] * K + offs_k[None, :], mask=mask, other=0.0)
    acc = tl.dot(filters, patches, input_precision=ARITHMETIC)
    if HAS_BIAS:
        acc += tl.load(bias + offs_m, mask=offs_m < n_filters, other=0.0)[:, None]
    if RECTIFIED:
        acc = tl.where(acc < 0.0, 0.0, acc)  # a NaN stays a NaN
    out_ptrs = out + (pid_z * n_filters + offs_m[:, None]) * n_pixels + offs_n[None, :]
    tl.store(out_ptrs, acc, mask=(offs_m < n_filters)[:, None] & (offs_n < n_pixels)[None, :])


def convolution_program() -> Any:
    """The kernel, to be launched on a grid."""
    return triton_program(conv2d_fwd_kernel)


def convolve(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, out: torch.Tensor, terms: ConvTerms
) -> None:
    """Write the convolution of images into `out`, on the device they are on.

    Args:
        x: (batch, channels, height, width), float32, in any layout.
        weight: (filters, channels, kernel height, kernel width), contiguous.
        bias: (filters,), or None.
        out: (batch, filters, out height, out width), contiguous.
        terms: what is computed.

    Raises:
        triton.OutOfResources: the device has too little shared memory for a block.
    """
    n_pixels = out.shape[2] * out.shape[3]
    fixed = conv_parameters(weight, bias is not None, terms)
    grid = (-(-n_pixels // CONV_BLOCK_N), out.shape[0], -(-weight.shape[0] // fixed["BLOCK_M"]))
    sizes = (*x.shape[2:], out.shape[3], n_pixels, weight.shape[0])
    tensors = (x, weight, weight if bias is None else bias, out)
    convolution_program()[grid](*tensors, x.stride(), *sizes, **fixed, num_warps=CONV_WARPS)


def conv_parameters(weight: torch.Tensor, has_bias: bool, terms: ConvTerms) -> dict[str, Any]:
    """What the kernel is compiled for, by the names of its parameters; see `convolve`."""
    return {
        "K": weight[0].numel(),
        "BLOCK_K": conv_block(weight[0].numel()),
        "KERNEL_H": weight.shape[2],
        "KERNEL_W": weight.shape[3],
        "STRIDE_H": terms.stride[0],
        "STRIDE_W": terms.stride[1],
        "PAD_H": terms.padding[0],
        "PAD_W": terms.padding[1],
        "BLOCK_M": min(MOST_CONV_BLOCK_M, conv_block(weight.shape[0])),
        "BLOCK_N": CONV_BLOCK_N,
        "HAS_BIAS": has_bias,
        "RECTIFIED": terms.rectified,
        "ARITHMETIC": terms.arithmetic,
    }


def conv_block(count: int) -> int:
    """The power of two that this many products or filters are filled up to."""
    return max(LEAST_CONV_BLOCK, 1 << (count - 1).bit_length())
