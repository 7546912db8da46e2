"""All steps of an elementwise recurrence, state = decay * state + drive, as one Triton kernel.

Knows Triton, the kernel and its tiles. A program takes a block of neighbouring states through all steps in their order
and keeps them in registers; it reads several steps at once, because what a step needs does not depend on the last one.
Does not know graphs. Imports nothing of PIKE but `triton_program`, because it is copied into candidates.
"""

from __future__ import annotations

from typing import Any, NamedTuple, no_type_check

import torch

from pike.recipes.triton_program import constexpr, tile_language, triton_program


class ScanTiles(NamedTuple):
    """How many steps are read at once, and the most states of a program."""

    steps: int
    columns: int


SCAN_TILES = ScanTiles(4, 128)
"""Of those that benchmarks/scan_steps.py tries the fastest on an H100 where there is much to do, and near it elsewhere.
A program has one warp, so that a step never leaves its registers."""


@no_type_check
def scan_block(
    decay,
    drive,
    first,
    states,
    steps,
    inner,
    STEPS: constexpr,
    COLUMNS: constexpr,
):
    """The program of one block of states that are neighbours in memory, through all steps."""
    outer = tile_language.program_id(0).to(tile_language.int64)
    column = tile_language.program_id(1) * COLUMNS + tile_language.arange(0, COLUMNS)
    row = tile_language.arange(0, STEPS)
    inside = column < inner
    state = tile_language.load(first + outer * inner + column, mask=inside, other=0.0).to(tile_language.float32)
    for begin in range(0, steps, STEPS):
        place = (outer * steps + begin + row)[:, None] * inner + column[None, :]
        known = (begin + row < steps)[:, None] & inside[None, :]
        kept = tile_language.load(decay + place, mask=known, other=0.0).to(tile_language.float32)
        added = tile_language.load(drive + place, mask=known, other=0.0).to(tile_language.float32)
        found = kept
        for step in tile_language.static_range(STEPS):
            mine = (row == step)[:, None]
            state = state * tile_language.sum(tile_language.where(mine, kept, 0.0), 0)
            state += tile_language.sum(tile_language.where(mine, added, 0.0), 0)
            found = tile_language.where(mine, state[None, :], found)
        tile_language.store(states + place, found.to(states.dtype.element_ty), mask=known)


def scan_program() -> Any:
    """The kernel, to be launched on a grid."""
    return triton_program(scan_block)


def scan_steps(
    decay: torch.Tensor,
    drive: torch.Tensor,
    first: torch.Tensor,
    states: torch.Tensor,
    axis: int,
    tiles: ScanTiles = SCAN_TILES,
) -> None:
    """Write the state after each step into `states`, on the device they are on.

    Args:
        decay: what each step multiplies the state with, float32 or 16 bits as all others, contiguous as all others.
        drive: what it adds then, of the same shape, as is `states`.
        first: the state before the first step, without the axis of steps.
        states: the result.
        axis: that of steps.
        tiles: how the work is cut.
    """
    outer, inner = states.shape[:axis].numel(), states.shape[axis + 1 :].numel()
    fixed = scan_parameters(inner, tiles)
    grid = (outer, -(-inner // fixed["COLUMNS"]))
    scan_program()[grid](decay, drive, first, states, states.shape[axis], inner, **fixed, num_warps=1)


def scan_parameters(inner: int, tiles: ScanTiles) -> dict[str, Any]:
    """What the kernel is compiled for, by the names of its parameters, where so many states are neighbours."""
    return {"STEPS": tiles.steps, "COLUMNS": min(tiles.columns, 1 << (inner - 1).bit_length())}
