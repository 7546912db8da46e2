"""Products of rows with their expert's weights, as a Triton kernel that asks the host nothing.

Knows Triton, the kernel and its tiles. The method is grouped matrix multiplication, as in Triton's
tutorial 08 and in MegaBlocks (Gale et al. 2022, arXiv:2211.15841). Rows lie sorted by expert, and
only the device knows where each expert's rows end. The launch therefore has as many programs as any
sizes could need. Each program finds its block from those ends, and programs without a block leave.
The arithmetic is that of `attention_kernel`. Does not know graphs, nor which arithmetic is allowed.
Imports nothing of PIKE but `triton_program`, because it is copied into candidates.
"""

from __future__ import annotations

from typing import Any, NamedTuple, no_type_check

import torch

from pike.recipes.kernels.triton_program import constexpr, launch_fitting, tl, triton_program


class ExpertTiles(NamedTuple):
    """How the work is cut.

    Attributes:
        block_m: rows of a block.
        block_n: outputs of a block.
        block_k_bytes: bytes of a row that are multiplied at once.
        num_warps: warps of a program.
        num_stages: blocks on their way from memory at once.
    """

    block_m: int
    block_n: int
    block_k_bytes: int
    num_warps: int
    num_stages: int


FEW_ROWS = 16
"""Experts with no more rows than this on average wait for their weights, not for products."""
FEW_ROWS_TILES = ExpertTiles(FEW_ROWS, 64, 256, 4, 3)
FLOAT32_TILES = ExpertTiles(128, 64, 128, 8, 3)
SHORT_TILES = ExpertTiles(128, 128, 128, 8, 3)
"""For 16 bits."""
SMALL_EXPERT_TILES = ExpertTiles(64, 64, 128, 4, 2)
"""Fit a GPU with 99 KiB of shared memory for a block."""


def expert_tiles(rows: torch.Tensor, experts: int) -> tuple[ExpertTiles, ...]:
    """The tiles for all rows, the fastest on an H100 first (benchmarks/expert_products.py)."""
    wide = FLOAT32_TILES if rows.dtype == torch.float32 else SHORT_TILES
    return FEW_ROWS_TILES if rows.shape[0] <= FEW_ROWS * experts else wide, SMALL_EXPERT_TILES


@no_type_check
def grouped_gemm_kernel(
    a, b, ends, c,
    EXPERTS: constexpr, BLOCK_E: constexpr, K: constexpr, N: constexpr, BLOCK_M: constexpr,
    BLOCK_N: constexpr, BLOCK_K: constexpr, ARITHMETIC: constexpr,
):  # fmt: skip
    """One block of one expert's rows and outputs.

    `a` is (rows, K) sorted by expert, `b` is (EXPERTS, N, K), `c` is (rows, N), all contiguous and
    of one dtype, float32 or 16 bits. `ends` is (EXPERTS,) int32. The grid is (blocks of rows *
    blocks of outputs,).
    """
    num_pid_n = tl.cdiv(N, BLOCK_N)
    pid_m = tl.program_id(0) // num_pid_n
    offs_e = tl.arange(0, BLOCK_E)
    end = tl.load(ends + offs_e, mask=offs_e < EXPERTS, other=0)
    begin = tl.load(ends + offs_e - 1, mask=(offs_e > 0) & (offs_e < EXPERTS), other=0)
    blocks = tl.cdiv(end - begin, BLOCK_M)
    before = tl.cumsum(blocks) - blocks
    mine = (before <= pid_m) & (pid_m < before + blocks)
    pid_e = tl.sum(tl.where(mine, offs_e, 0)).to(tl.int64)
    start_m = tl.sum(tl.where(mine, begin + (pid_m - before) * BLOCK_M, 0))
    end_m = tl.sum(tl.where(mine, end, 0))  # 0 without a block

    offs_m = start_m + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(0) % num_pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    near_m = tl.maximum(tl.minimum(offs_m, end_m - 1), 0).to(tl.int64)
    near_n = tl.minimum(offs_n, N - 1).to(tl.int64)  # what lies outside is computed twice and not written
    a_ptrs = a + near_m[:, None] * K + offs_k[None, :]
    b_ptrs = b + pid_e * N * K + near_n[None, :] * K + offs_k[:, None]
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start_k in range(0, tl.where(start_m < end_m, K, 0), BLOCK_K):
        if K % BLOCK_K:
            a_block = tl.load(a_ptrs + start_k, mask=offs_k[None, :] < K - start_k, other=0.0)
            b_block = tl.load(b_ptrs + start_k, mask=offs_k[:, None] < K - start_k, other=0.0)
        else:
            a_block = tl.load(a_ptrs + start_k)
            b_block = tl.load(b_ptrs + start_k)
        acc += tl.dot(a_block, b_block, input_precision=ARITHMETIC)
    c_ptrs = c + offs_m[:, None].to(tl.int64) * N + offs_n[None, :]
    tl.store(c_ptrs, acc, mask=(offs_m < end_m)[:, None] & (offs_n < N)[None, :])


def experts_program() -> Any:
    """The kernel, to be launched on a grid."""
    return triton_program(grouped_gemm_kernel)


def multiply_experts(
    rows: torch.Tensor,
    weights: torch.Tensor,
    ends: torch.Tensor,
    out: torch.Tensor,
    arithmetic: str,
    tiles: ExpertTiles | None = None,
) -> None:
    """Write the product of each row with its expert's weights into `out`.

    Args:
        rows: (rows, inputs), float32 or 16 bits as the weights, sorted by expert, contiguous.
        weights: (experts, outputs, inputs), contiguous.
        ends: (experts,) int32, where each expert's rows end; the last one is the number of rows.
        out: (rows, outputs), contiguous.
        arithmetic: what Triton calls an input precision: "bf16x6" or "bf16x3".
        tiles: replaces `expert_tiles`, of which the first is taken that the device has room for.

    Raises:
        triton.OutOfResources: the device has room for none of the tiles.
    """
    experts, outputs, _ = weights.shape

    def launch(chosen: ExpertTiles) -> None:
        blocks = rows.shape[0] // chosen.block_m + min(experts, rows.shape[0])
        fixed = expert_parameters(weights, arithmetic, chosen)
        program = experts_program()[(blocks * -(-outputs // chosen.block_n),)]
        program(rows, weights, ends, out, **fixed, num_warps=chosen.num_warps, num_stages=chosen.num_stages)

    launch_fitting(launch, (tiles,) if tiles else expert_tiles(rows, experts))


def expert_parameters(weights: torch.Tensor, arithmetic: str, tiles: ExpertTiles) -> dict[str, Any]:
    """What the kernel is compiled for, by the names of its parameters; see `multiply_experts`."""
    experts, outputs, inputs = weights.shape
    return {
        "EXPERTS": experts,
        "BLOCK_E": 1 << (experts - 1).bit_length(),
        "K": inputs,
        "N": outputs,
        "BLOCK_M": tiles.block_m,
        "BLOCK_N": tiles.block_n,
        "BLOCK_K": tiles.block_k_bytes // weights.element_size(),
        "ARITHMETIC": arithmetic,
    }
