"""Products of rows with their expert's weights, as a Triton kernel that asks the host nothing.

Knows Triton, the kernel and its tiles. Rows lie sorted by expert, and only the device knows where each expert's end. So
as many programs are launched as any numbers of rows could need; each finds out from those ends which block of which
expert's rows it has, and those that have none leave. How float32 factors become what tensor cores multiply is the
arithmetic (`attention_kernel`). Does not know graphs, nor which arithmetic is allowed. Imports nothing of PIKE but
`triton_program`, because it is copied into candidates.
"""

from __future__ import annotations

from typing import Any, NamedTuple, no_type_check

import torch

from pike.recipes.triton_program import constexpr, launch_fitting, tile_language, triton_program


class ExpertTiles(NamedTuple):
    """How the work is cut: rows, outputs and bytes of a row in a block, warps, and blocks on their way at once."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int


FEW_ROWS = 16
"""Experts with no more rows than this on average wait for their weights, not for products."""
FEW_ROWS_TILES = ExpertTiles(FEW_ROWS, 64, 256, 4, 3)
FLOAT32_TILES = ExpertTiles(128, 64, 128, 8, 3)
SHORT_TILES = ExpertTiles(128, 128, 128, 8, 3)
"""For 16 bits."""
SMALL_EXPERT_TILES = ExpertTiles(64, 64, 128, 4, 2)
"""Fit a GPU with 99 KiB of shared memory for a block."""


def expert_tiles(rows: torch.Tensor, experts: int) -> tuple[ExpertTiles, ...]:
    """The tiles for the rows of all experts together, the fastest on an H100 first (benchmarks/expert_products.py)."""
    wide = FLOAT32_TILES if rows.dtype == torch.float32 else SHORT_TILES
    return FEW_ROWS_TILES if rows.shape[0] <= FEW_ROWS * experts else wide, SMALL_EXPERT_TILES


@no_type_check
def multiply_block(
    rows,
    weights,
    ends,
    output,
    EXPERTS: constexpr,
    EXPERTS_PADDED: constexpr,
    INPUTS: constexpr,
    OUTPUTS: constexpr,
    ROWS: constexpr,
    COLUMNS: constexpr,
    INNER: constexpr,
    ARITHMETIC: constexpr,
):
    """The program of one block of one expert's rows and of its outputs."""
    across = tile_language.cdiv(OUTPUTS, COLUMNS)
    block = tile_language.program_id(0) // across
    expert = tile_language.arange(0, EXPERTS_PADDED)
    end = tile_language.load(ends + expert, mask=expert < EXPERTS, other=0)
    begin = tile_language.load(ends + expert - 1, mask=(expert > 0) & (expert < EXPERTS), other=0)
    blocks = tile_language.cdiv(end - begin, ROWS)
    before = tile_language.cumsum(blocks) - blocks
    mine = (before <= block) & (block < before + blocks)
    owner = tile_language.sum(tile_language.where(mine, expert, 0)).to(tile_language.int64)
    first = tile_language.sum(tile_language.where(mine, begin + (block - before) * ROWS, 0))
    last = tile_language.sum(tile_language.where(mine, end, 0))  # 0 without a block

    row = first + tile_language.arange(0, ROWS)
    column = tile_language.program_id(0) % across * COLUMNS + tile_language.arange(0, COLUMNS)
    inner = tile_language.arange(0, INNER)
    near = tile_language.maximum(tile_language.minimum(row, last - 1), 0).to(tile_language.int64)
    beside = tile_language.minimum(column, OUTPUTS - 1)  # what lies outside is computed twice and not written
    left = rows + near[:, None] * INPUTS + inner[None, :]
    right = weights + owner * OUTPUTS * INPUTS + beside[None, :].to(tile_language.int64) * INPUTS + inner[:, None]
    result = tile_language.zeros([ROWS, COLUMNS], tile_language.float32)
    for start in range(0, tile_language.where(first < last, INPUTS, 0), INNER):
        if INPUTS % INNER:
            given = tile_language.load(left + start, mask=inner[None, :] < INPUTS - start, other=0.0)
            known = tile_language.load(right + start, mask=inner[:, None] < INPUTS - start, other=0.0)
        else:
            given = tile_language.load(left + start)
            known = tile_language.load(right + start)
        result += tile_language.dot(given, known, input_precision=ARITHMETIC)
    place = output + row[:, None].to(tile_language.int64) * OUTPUTS + column[None, :]
    tile_language.store(place, result, mask=(row < last)[:, None] & (column < OUTPUTS)[None, :])


def experts_program() -> Any:
    """The kernel, to be launched on a grid."""
    return triton_program(multiply_block)


def multiply_experts(
    rows: torch.Tensor,
    weights: torch.Tensor,
    ends: torch.Tensor,
    output: torch.Tensor,
    arithmetic: str,
    tiles: ExpertTiles | None = None,
) -> None:
    """Write the product of each row with its expert's weights into `output`, on the device they are on.

    Args:
        rows: (rows, inputs), float32 or 16 bits as the weights, sorted by expert, contiguous.
        weights: (experts, outputs, inputs), contiguous.
        ends: (experts,) int32, where each expert's rows end; the last one is the number of rows.
        output: (rows, outputs), contiguous.
        arithmetic: what Triton calls an input precision: "bf16x6" or "bf16x3".
        tiles: other tiles than `expert_tiles` gives, of which the first is taken that the device has room for.

    Raises:
        triton.OutOfResources: it has room for none of them.
    """
    experts, outputs, _ = weights.shape

    def launch(chosen: ExpertTiles) -> None:
        blocks = rows.shape[0] // chosen.rows + min(experts, rows.shape[0])
        fixed = expert_parameters(weights, arithmetic, chosen)
        program = experts_program()[(blocks * -(-outputs // chosen.columns),)]
        program(rows, weights, ends, output, **fixed, num_warps=chosen.warps, num_stages=chosen.stages)

    launch_fitting(launch, (tiles,) if tiles else expert_tiles(rows, experts))


def expert_parameters(weights: torch.Tensor, arithmetic: str, tiles: ExpertTiles) -> dict[str, Any]:
    """What the kernel is compiled for, by the names of its parameters; see `multiply_experts`."""
    experts, outputs, inputs = weights.shape
    return {
        "EXPERTS": experts,
        "EXPERTS_PADDED": 1 << (experts - 1).bit_length(),
        "INPUTS": inputs,
        "OUTPUTS": outputs,
        "ROWS": tiles.rows,
        "COLUMNS": tiles.columns,
        "INNER": tiles.depth // weights.element_size(),
        "ARITHMETIC": arithmetic,
    }
