"""Attention on tensor cores, as a Triton kernel that keeps no scores.

Knows Triton, the kernel and its tiles. A program takes a block of queries of one head through all its keys, block by
block, and keeps what a softmax over the keys so far would give (Milakov and Gimelshein 2018, arXiv:1805.02867; Dao et
al. 2022, arXiv:2205.14135), or only adds up where scores are rectified (Wortsman et al. 2023, arXiv:2309.08586). How
float32 factors become what tensor cores multiply is a parameter, the arithmetic: "bf16x6" splits each into three
bfloat16 numbers and keeps float32's bits, "bf16x3" into two and keeps 16; "tf32" takes 11 bits of each and "tf32x3"
splits into two of those, and both were slower or less exact wherever measured (docs/log.md). 16-bit factors are
multiplied as they are. Does not know graphs, nor which arithmetic is allowed. Imports nothing of PIKE but
`triton_program`, because it is copied into candidates.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, no_type_check

import torch

from pike.recipes.triton_program import constexpr, launch_fitting, tile_language, triton_program

LEAST_PADDED = 16
"""Tensor cores take no shorter sums."""


class AttentionTiles(NamedTuple):
    """How the work is cut: queries and keys in a block, warps of a program, blocks of keys on their way at once."""

    rows: int
    columns: int
    warps: int
    stages: int


SMALL_TILES = AttentionTiles(64, 32, 4, 2)
"""Fit a GPU with 99 KiB of shared memory for a block, for heads of up to 128 numbers."""


def attention_tiles(size: int, arithmetic: str) -> tuple[AttentionTiles, ...]:
    """The tiles for heads of so many numbers, the fastest on an H200 first (benchmarks/float32_attention.py)."""
    if arithmetic != "bf16x6":
        return AttentionTiles(128, 64, 8, 3), SMALL_TILES
    return AttentionTiles(128, 64, 4 if size <= 64 else 8, 2), SMALL_TILES


@no_type_check
def attend_block(
    query,
    key,
    value,
    output,
    query_steps,
    key_steps,
    value_steps,
    output_steps,
    heads,
    queries,
    keys,
    scale,
    SIZE: constexpr,
    VALUE_SIZE: constexpr,
    PADDED: constexpr,
    VALUE_PADDED: constexpr,
    CAUSAL: constexpr,
    TAIL: constexpr,
    RECTIFIED: constexpr,
    ROWS: constexpr,
    COLUMNS: constexpr,
    ARITHMETIC: constexpr,
):
    """The program of one block of queries; strides count elements.

    `scale` takes scores to what is rectified, or to powers of two.
    """
    blocks = tile_language.cdiv(queries, ROWS)
    pair = (tile_language.program_id(0) // blocks).to(tile_language.int64)
    batch = pair // heads
    head = pair % heads
    block = tile_language.program_id(0) % blocks
    start = (blocks - 1 - block if CAUSAL else block) * ROWS  # the longest first

    rows = tile_language.arange(0, ROWS)
    columns = tile_language.arange(0, COLUMNS)
    inner = tile_language.arange(0, PADDED)
    outer = tile_language.arange(0, VALUE_PADDED)
    seen = start + rows
    query += batch * query_steps[0] + head * query_steps[1] + start.to(tile_language.int64) * query_steps[2]
    key += batch * key_steps[0] + head * key_steps[1]
    value += batch * value_steps[0] + head * value_steps[1]
    output += batch * output_steps[0] + head * output_steps[1] + start.to(tile_language.int64) * output_steps[2]

    inside = (seen[:, None] < queries) & (inner[None, :] < SIZE)
    asked = tile_language.load(query + rows[:, None] * query_steps[2] + inner[None, :], mask=inside, other=0.0)
    if not RECTIFIED:
        asked = (asked * scale).to(query.dtype.element_ty)
    largest = tile_language.full([ROWS], float("-inf"), tile_language.float32)
    total = tile_language.zeros([ROWS], tile_language.float32)
    result = tile_language.zeros([ROWS, VALUE_PADDED], tile_language.float32)
    end = tile_language.minimum(keys, start + ROWS) if CAUSAL else keys
    whole = (tile_language.minimum(keys, start) if CAUSAL else keys) // COLUMNS * COLUMNS
    for tail in tile_language.static_range(2 if TAIL else 1):  # blocks that all queries see whole, then the others
        for first in range(whole if tail else 0, end if tail else whole, COLUMNS):
            here = first + columns
            begin = tile_language.cast(first, tile_language.int64)
            near = (inner[:, None] < SIZE) & (here[None, :] < keys) if tail else inner[:, None] < SIZE
            place = key + begin * key_steps[2] + columns[None, :] * key_steps[2] + inner[:, None]
            part = tile_language.load(place, mask=near, other=0.0)
            scores = tile_language.dot(asked, part, input_precision=ARITHMETIC)
            if tail:
                visible = (here[None, :] < keys) & (seen[:, None] >= here[None, :]) if CAUSAL else here[None, :] < keys
                scores = tile_language.where(visible, scores, float("-inf"))
            if RECTIFIED:
                weights = tile_language.where(scores < 0.0, 0.0, scores * scale)  # what is no number stays so
            else:
                higher = tile_language.maximum(largest, tile_language.max(scores, 1))
                weights = tile_language.exp2(scores - higher[:, None])
                shrink = tile_language.exp2(largest - higher)
                total = total * shrink + tile_language.sum(weights, 1)
                result *= shrink[:, None]
                largest = higher
            near = (here[:, None] < keys) & (outer[None, :] < VALUE_SIZE) if tail else outer[None, :] < VALUE_SIZE
            place = value + begin * value_steps[2] + columns[:, None] * value_steps[2] + outer[None, :]
            part = tile_language.load(place, mask=near, other=0.0)
            result += tile_language.dot(weights.to(part.dtype), part, input_precision=ARITHMETIC)
    if not RECTIFIED:
        result /= total[:, None]
    inside = (seen[:, None] < queries) & (outer[None, :] < VALUE_SIZE)
    place = output + rows[:, None] * output_steps[2] + outer[None, :]
    tile_language.store(place, result, mask=inside)


def attention_program() -> Any:
    """The kernel, to be launched on a grid."""
    return triton_program(attend_block)


def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    output: torch.Tensor,
    scale: float,
    causal: bool,
    arithmetic: str,
    tiles: AttentionTiles | None = None,
    rectified: bool = False,
) -> None:
    """Write the attention of queries to keys into `output`, on the device they are on.

    Args:
        query: (batch, heads, queries, size), float32 or 16 bits as all others, neighbours in memory along its last
            axis as all others.
        key: (batch, heads, keys, size).
        value: (batch, heads, keys, value size).
        output: (batch, heads, queries, value size).
        scale: what scores are multiplied with.
        causal: whether query i sees keys 0 to i only.
        arithmetic: what Triton calls an input precision: "bf16x6", "bf16x3", "tf32x3" or "tf32".
        tiles: other tiles than `attention_tiles` gives, of which the first is taken that the device has room for.
        rectified: whether scores below zero count as zero, and no softmax is taken.

    Raises:
        triton.OutOfResources: it has room for none of them.
    """
    batch, heads, queries, size = query.shape
    keys, width = value.shape[-2:]
    tensors = (query, key, value, output)
    steps = [tensor.stride()[:3] for tensor in tensors]
    amounts = (heads, queries, keys, scale if rectified else scale * math.log2(math.e))

    def launch(chosen: AttentionTiles) -> None:
        fixed = fixed_parameters(size, width, keys, causal, rectified, arithmetic, chosen)
        program = attention_program()[(-(-queries // chosen.rows) * batch * heads,)]
        program(*tensors, *steps, *amounts, **fixed, num_warps=chosen.warps, num_stages=chosen.stages)

    launch_fitting(launch, (tiles,) if tiles else attention_tiles(max(size, width), arithmetic))


def fixed_parameters(
    size: int, width: int, keys: int, causal: bool, rectified: bool, arithmetic: str, tiles: AttentionTiles
) -> dict[str, Any]:
    """What the kernel is compiled for, by the names of its parameters.

    Args:
        size: numbers in a query and a key.
        width: numbers in a value.
        keys: how many there are.
        causal: whether query i sees keys 0 to i only.
        rectified: whether there is no softmax.
        arithmetic: of the products.
        tiles: how the work is cut.
    """
    return {
        "SIZE": size,
        "VALUE_SIZE": width,
        "PADDED": padded_size(size),
        "VALUE_PADDED": padded_size(width),
        "CAUSAL": causal,
        "TAIL": causal or keys % tiles.columns != 0,
        "RECTIFIED": rectified,
        "ROWS": tiles.rows,
        "COLUMNS": tiles.columns,
        "ARITHMETIC": arithmetic,
    }


def padded_size(size: int) -> int:
    """The power of two that a head of so many numbers is filled up to."""
    return max(LEAST_PADDED, 1 << (size - 1).bit_length())
