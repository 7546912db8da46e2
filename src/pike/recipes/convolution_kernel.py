"""Convolution of few input channels on tensor cores, as a Triton kernel that writes its result once.

Knows Triton, the kernel and its tiles. A program takes a block of output places of one image and multiplies all
filters, as a matrix, with the patches that they see there, gathered from the cache; bias and ReLU follow before the
block is written. With few input channels the patches are narrow, so that nothing but writing the result takes long. How
float32 factors become what tensor cores multiply is the arithmetic (`attention_kernel`). Does not know graphs, nor
which arithmetic is allowed. Imports nothing of PIKE but `triton_program`, because it is copied into candidates.
"""

from __future__ import annotations

from typing import Any, NamedTuple, no_type_check

import torch

from pike.recipes.triton_program import constexpr, tile_language, triton_program

LEAST_SIDE = 16
"""Tensor cores take no shorter sums and no fewer filters."""
MOST_FILTERS = 128
"""More filters are taken in blocks of so many."""
PLACES_AT_ONCE = 128
"""Output places of a program: a guess."""
CONV_WARPS = 8
"""Warps of a program: a guess."""


class Steps(NamedTuple):
    """How filters move over an image, and by how much it is filled up with zeros, in pixels down and across."""

    stride: tuple[int, int]
    padding: tuple[int, int]


@no_type_check
def convolve_block(
    image,
    weight,
    bias,
    output,
    image_steps,
    height,
    width,
    out_width,
    places,
    filters,
    TAPS: constexpr,
    TAPS_PADDED: constexpr,
    KERNEL_HEIGHT: constexpr,
    KERNEL_WIDTH: constexpr,
    STRIDE_DOWN: constexpr,
    STRIDE_ACROSS: constexpr,
    PADDING_DOWN: constexpr,
    PADDING_ACROSS: constexpr,
    FILTERS: constexpr,
    PLACES: constexpr,
    HAS_BIAS: constexpr,
    RECTIFIED: constexpr,
    ARITHMETIC: constexpr,
):
    """The program of one block of output places and filters of one image; strides count elements."""
    place = tile_language.program_id(0) * PLACES + tile_language.arange(0, PLACES)
    number = tile_language.program_id(1).to(tile_language.int64)
    wanted = tile_language.program_id(2) * FILTERS + tile_language.arange(0, FILTERS)
    tap = tile_language.arange(0, TAPS_PADDED)
    channel = tap // (KERNEL_HEIGHT * KERNEL_WIDTH)
    down = tap % (KERNEL_HEIGHT * KERNEL_WIDTH) // KERNEL_WIDTH
    row = (place // out_width * STRIDE_DOWN - PADDING_DOWN)[None, :] + down[:, None]
    column = (place % out_width * STRIDE_ACROSS - PADDING_ACROSS)[None, :] + (tap % KERNEL_WIDTH)[:, None]
    inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
    inside &= (tap < TAPS)[:, None] & (place < places)[None, :]
    source = image + number * image_steps[0] + channel[:, None] * image_steps[1]
    patches = tile_language.load(source + row * image_steps[2] + column * image_steps[3], mask=inside, other=0.0)
    known = (wanted < filters)[:, None] & (tap < TAPS)[None, :]
    chosen = tile_language.load(weight + wanted[:, None] * TAPS + tap[None, :], mask=known, other=0.0)
    result = tile_language.dot(chosen, patches, input_precision=ARITHMETIC)
    if HAS_BIAS:
        result += tile_language.load(bias + wanted, mask=wanted < filters, other=0.0)[:, None]
    if RECTIFIED:
        result = tile_language.where(result < 0.0, 0.0, result)  # what is no number stays so
    target = output + (number * filters + wanted[:, None]) * places + place[None, :]
    tile_language.store(target, result, mask=(wanted < filters)[:, None] & (place < places)[None, :])


def convolution_program() -> Any:
    """The kernel, to be launched on a grid."""
    return triton_program(convolve_block)


def convolve(
    image: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    output: torch.Tensor,
    steps: Steps,
    rectified: bool,
    arithmetic: str,
) -> None:
    """Write the convolution of images into `output`, on the device they are on.

    Args:
        image: (batch, channels, height, width), float32, in any layout.
        weight: (filters, channels, kernel height, kernel width), contiguous.
        bias: (filters,), or None.
        output: (batch, filters, out height, out width), contiguous.
        steps: stride and padding.
        rectified: whether a ReLU follows.
        arithmetic: what Triton calls an input precision: "bf16x6" or "bf16x3".

    Raises:
        triton.OutOfResources: the device has too little shared memory for a block.
    """
    places = output.shape[2] * output.shape[3]
    fixed = conv_parameters(weight, bias is not None, steps, rectified, arithmetic)
    grid = (-(-places // PLACES_AT_ONCE), output.shape[0], -(-weight.shape[0] // fixed["FILTERS"]))
    sizes = (*image.shape[2:], output.shape[3], places, weight.shape[0])
    tensors = (image, weight, weight if bias is None else bias, output)
    convolution_program()[grid](*tensors, image.stride(), *sizes, **fixed, num_warps=CONV_WARPS)


def conv_parameters(
    weight: torch.Tensor, has_bias: bool, steps: Steps, rectified: bool, arithmetic: str
) -> dict[str, Any]:
    """What the kernel is compiled for, by the names of its parameters; see `convolve`."""
    taps = weight[0].numel()
    return {
        "TAPS": taps,
        "TAPS_PADDED": power_of_two(taps),
        "KERNEL_HEIGHT": weight.shape[2],
        "KERNEL_WIDTH": weight.shape[3],
        "STRIDE_DOWN": steps.stride[0],
        "STRIDE_ACROSS": steps.stride[1],
        "PADDING_DOWN": steps.padding[0],
        "PADDING_ACROSS": steps.padding[1],
        "FILTERS": min(MOST_FILTERS, power_of_two(weight.shape[0])),
        "PLACES": PLACES_AT_ONCE,
        "HAS_BIAS": has_bias,
        "RECTIFIED": rectified,
        "ARITHMETIC": arithmetic,
    }


def power_of_two(count: int) -> int:
    """The power of two that so many taps or filters are filled up to."""
    return max(LEAST_SIDE, 1 << (count - 1).bit_length())
