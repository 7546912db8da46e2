"""All steps of an elementwise recurrence, state = decay * state + drive, as one Triton kernel.

Knows Triton, the kernel and its tiles. The recurrence is that of selective state spaces (Gu and Dao
2023, arXiv:2312.00752), evaluated in order. One program keeps a block of neighbouring states in
registers through all steps. It loads several steps at once, because what a step reads does not
depend on the last one. Does not know graphs. Imports nothing of PIKE but `triton_program`, because
it is copied into candidates.
"""

from __future__ import annotations

from typing import Any, NamedTuple, no_type_check

import torch

from pike.recipes.kernels.triton_program import constexpr, tl, triton_program


class ScanTiles(NamedTuple):
    """How many steps are loaded at once, and the most states of a program."""

    block_t: int
    block_n: int


SCAN_TILES = ScanTiles(4, 128)
"""The fastest on an H100 where there is much to do, and near it elsewhere
(benchmarks/scan_steps.py).

A program has one warp, so that a step never leaves its registers.
"""


@no_type_check
def scan_fwd_kernel(
    decay, drive, first, states, n_steps, n_inner,
    BLOCK_T: constexpr, BLOCK_N: constexpr,
):  # fmt: skip
    """One block of neighbouring states through all steps.

    `decay`, `drive` and `states` are (outer, n_steps, n_inner), `first` is (outer, n_inner), all
    contiguous and float32 or 16 bits; states are kept in float32. The grid is (outer, blocks of
    inner).
    """
    pid_o = tl.program_id(0).to(tl.int64)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_t = tl.arange(0, BLOCK_T)
    mask_n = offs_n < n_inner
    h = tl.load(first + pid_o * n_inner + offs_n, mask=mask_n, other=0.0).to(tl.float32)
    for start_t in range(0, n_steps, BLOCK_T):
        offs = (pid_o * n_steps + start_t + offs_t)[:, None] * n_inner + offs_n[None, :]
        mask = (start_t + offs_t < n_steps)[:, None] & mask_n[None, :]
        a = tl.load(decay + offs, mask=mask, other=0.0).to(tl.float32)
        b = tl.load(drive + offs, mask=mask, other=0.0).to(tl.float32)
        block = a
        for t in tl.static_range(BLOCK_T):
            this = (offs_t == t)[:, None]
            h = h * tl.sum(tl.where(this, a, 0.0), 0)
            h += tl.sum(tl.where(this, b, 0.0), 0)
            block = tl.where(this, h[None, :], block)
        tl.store(states + offs, block.to(states.dtype.element_ty), mask=mask)


def scan_program() -> Any:
    """The kernel, to be launched on a grid."""
    return triton_program(scan_fwd_kernel)


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
        decay: what each step multiplies the state with. All four tensors are contiguous and of one
            dtype, float32 or 16 bits.
        drive: what each step adds, of the same shape, as is `states`.
        first: the state before the first step, without the axis of steps.
        states: the result.
        axis: the axis of steps.
        tiles: how the work is cut.
    """
    outer, n_inner = states.shape[:axis].numel(), states.shape[axis + 1 :].numel()
    fixed = scan_parameters(n_inner, tiles)
    grid = (outer, -(-n_inner // fixed["BLOCK_N"]))
    scan_program()[grid](decay, drive, first, states, states.shape[axis], n_inner, **fixed, num_warps=1)


def scan_parameters(n_inner: int, tiles: ScanTiles) -> dict[str, Any]:
    """What the kernel is compiled for where this many states are neighbours, by parameter names."""
    return {"BLOCK_T": tiles.block_t, "BLOCK_N": min(tiles.block_n, 1 << (n_inner - 1).bit_length())}
