"""Attention on tensor cores, as a Triton kernel that never stores the scores.

Knows Triton, the kernel and its tiles. One program takes a block of queries of one head through all
keys, block by block. With a softmax it keeps the running maximum and sum of FlashAttention (Milakov
and Gimelshein 2018, arXiv:1805.02867; Dao et al. 2022, arXiv:2205.14135). With rectified scores it
only adds up (Wortsman et al. 2023, arXiv:2309.08586).

The arithmetic says how float32 factors become what tensor cores multiply. "bf16x6" splits each into
three bfloat16 numbers and keeps float32's bits; "bf16x3" splits into two and keeps 16 bits. "tf32"
takes 11 bits of each and "tf32x3" splits into two of those; both were slower or less exact wherever
they were measured (docs/experiments). 16-bit factors are multiplied as they are.

Does not know graphs, nor which arithmetic is allowed. Imports nothing of PIKE but `triton_program`,
because it is copied into candidates.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, no_type_check

import torch

from pike.recipes.kernels.triton_program import constexpr, launch_fitting, tl, triton_program

LEAST_BLOCK_D = 16
"""Tensor cores take no shorter sums."""


class AttentionTerms(NamedTuple):
    """What is computed.

    Attributes:
        scale: what scores are multiplied with.
        causal: whether query i sees keys 0 to i only.
        rectified: whether scores below zero count as zero, and no softmax is taken.
        arithmetic: what Triton calls an input precision: "bf16x6", "bf16x3", "tf32x3" or "tf32".
    """

    scale: float
    causal: bool
    rectified: bool
    arithmetic: str


class AttentionTiles(NamedTuple):
    """How the work is cut.

    Attributes:
        block_m: queries of a program.
        block_n: keys that it takes at once.
        num_warps: its warps.
        num_stages: blocks of keys on their way from memory at once.
    """

    block_m: int
    block_n: int
    num_warps: int
    num_stages: int


SMALL_TILES = AttentionTiles(64, 32, 4, 2)
"""Fit a GPU with 99 KiB of shared memory for a block, for heads of up to 128 numbers."""


def attention_tiles(head_dim: int, arithmetic: str) -> tuple[AttentionTiles, ...]:
    """The tiles for a head size, the fastest on an H200 first (benchmarks/float32_attention.py)."""
    if arithmetic != "bf16x6":
        return AttentionTiles(128, 64, 8, 3), SMALL_TILES
    return AttentionTiles(128, 64, 4 if head_dim <= 64 else 8, 2), SMALL_TILES


@no_type_check
def attention_fwd_inner(
    acc, l_i, m_i, q, k, v, stride_kn, stride_vn, offs_m, n_keys, lo, hi, scale,
    HEAD_DIM: constexpr, V_DIM: constexpr, BLOCK_D: constexpr, BLOCK_DV: constexpr,
    BLOCK_N: constexpr, CAUSAL: constexpr, RECTIFIED: constexpr, MASKED: constexpr,
    ARITHMETIC: constexpr,
):  # fmt: skip
    """Take a block of queries through the keys from `lo` to `hi`.

    `q` is (BLOCK_M, BLOCK_D), `acc` is (BLOCK_M, BLOCK_DV), and `l_i` and `m_i` are the running sum
    and maximum of each query. Without MASKED all queries see all of these keys. The result is the
    new (acc, l_i, m_i).
    """
    offs_n = tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, BLOCK_D)
    offs_dv = tl.arange(0, BLOCK_DV)
    for start_n in range(lo, hi, BLOCK_N):
        n = start_n + offs_n
        first = tl.cast(start_n, tl.int64)
        k_ptrs = k + first * stride_kn + offs_n[None, :] * stride_kn + offs_d[:, None]
        mask = (offs_d[:, None] < HEAD_DIM) & (n[None, :] < n_keys) if MASKED else offs_d[:, None] < HEAD_DIM
        qk = tl.dot(q, tl.load(k_ptrs, mask=mask, other=0.0), input_precision=ARITHMETIC)
        if MASKED:
            seen = (n[None, :] < n_keys) & (offs_m[:, None] >= n[None, :]) if CAUSAL else n[None, :] < n_keys
            qk = tl.where(seen, qk, float("-inf"))
        if RECTIFIED:
            p = tl.where(qk < 0.0, 0.0, qk * scale)  # a NaN stays a NaN
        else:
            m_ij = tl.maximum(m_i, tl.max(qk, 1))
            p = tl.exp2(qk - m_ij[:, None])
            alpha = tl.exp2(m_i - m_ij)
            l_i = l_i * alpha + tl.sum(p, 1)
            acc *= alpha[:, None]
            m_i = m_ij
        v_ptrs = v + first * stride_vn + offs_n[:, None] * stride_vn + offs_dv[None, :]
        mask = (n[:, None] < n_keys) & (offs_dv[None, :] < V_DIM) if MASKED else offs_dv[None, :] < V_DIM
        v_block = tl.load(v_ptrs, mask=mask, other=0.0)
        acc += tl.dot(p.to(v_block.dtype), v_block, input_precision=ARITHMETIC)
    return acc, l_i, m_i


@no_type_check
def attention_fwd_kernel(
    q, k, v, out, q_strides, k_strides, v_strides, out_strides, n_heads, n_queries, n_keys, scale,
    HEAD_DIM: constexpr, V_DIM: constexpr, BLOCK_D: constexpr, BLOCK_DV: constexpr,
    CAUSAL: constexpr, TAIL: constexpr, RECTIFIED: constexpr, BLOCK_M: constexpr,
    BLOCK_N: constexpr, ARITHMETIC: constexpr,
):  # fmt: skip
    """Attention of one block of queries of one head.

    `q`, `k`, `v` and `out` are (batch, heads, tokens, size) tensors of one dtype, float32 or 16
    bits, with a contiguous last axis. Strides count elements of the other three axes. `scale` takes
    scores to what is rectified, or to powers of two. The grid is (blocks of queries * batch *
    heads,).
    """
    num_pid_m = tl.cdiv(n_queries, BLOCK_M)
    off_hz = (tl.program_id(0) // num_pid_m).to(tl.int64)
    off_z = off_hz // n_heads
    off_h = off_hz % n_heads
    pid_m = tl.program_id(0) % num_pid_m
    start_m = (num_pid_m - 1 - pid_m if CAUSAL else pid_m) * BLOCK_M  # the longest first
    offs_r = tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, BLOCK_D)
    offs_dv = tl.arange(0, BLOCK_DV)
    offs_m = start_m + offs_r
    q += off_z * q_strides[0] + off_h * q_strides[1] + start_m.to(tl.int64) * q_strides[2]
    k += off_z * k_strides[0] + off_h * k_strides[1]
    v += off_z * v_strides[0] + off_h * v_strides[1]
    out += off_z * out_strides[0] + off_h * out_strides[1] + start_m.to(tl.int64) * out_strides[2]

    mask = (offs_m[:, None] < n_queries) & (offs_d[None, :] < HEAD_DIM)
    q_block = tl.load(q + offs_r[:, None] * q_strides[2] + offs_d[None, :], mask=mask, other=0.0)
    if not RECTIFIED:
        q_block = (q_block * scale).to(q.dtype.element_ty)
    m_i = tl.full([BLOCK_M], float("-inf"), tl.float32)
    l_i = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_DV], tl.float32)
    end = tl.minimum(n_keys, start_m + BLOCK_M) if CAUSAL else n_keys
    whole = (tl.minimum(n_keys, start_m) if CAUSAL else n_keys) // BLOCK_N * BLOCK_N
    for masked in tl.static_range(2 if TAIL else 1):  # first the blocks that all queries see whole
        acc, l_i, m_i = attention_fwd_inner(
            acc, l_i, m_i, q_block, k, v, k_strides[2], v_strides[2], offs_m, n_keys,
            whole if masked else 0, end if masked else whole, scale, HEAD_DIM, V_DIM, BLOCK_D,
            BLOCK_DV, BLOCK_N, CAUSAL, RECTIFIED, masked, ARITHMETIC,
        )  # fmt: skip
    if not RECTIFIED:
        acc /= l_i[:, None]
    mask = (offs_m[:, None] < n_queries) & (offs_dv[None, :] < V_DIM)
    tl.store(out + offs_r[:, None] * out_strides[2] + offs_dv[None, :], acc, mask=mask)


def attention_program() -> Any:
    """The kernel, to be launched on a grid."""
    return triton_program(attention_fwd_kernel, "attention_fwd_inner")


def attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    terms: AttentionTerms,
    tiles: AttentionTiles | None = None,
) -> None:
    """Write the attention of queries to keys into `out`, on the device they are on.

    Args:
        q: (batch, heads, queries, size). All four tensors have one dtype, float32 or 16 bits, and a
            contiguous last axis.
        k: (batch, heads, keys, size).
        v: (batch, heads, keys, value size).
        out: (batch, heads, queries, value size).
        terms: what is computed.
        tiles: replaces `attention_tiles`, of which the first is taken that the device has room for.

    Raises:
        triton.OutOfResources: the device has room for none of the tiles.
    """
    batch, n_heads, n_queries, head_dim = q.shape
    n_keys, v_dim = v.shape[-2:]
    tensors = (q, k, v, out)
    strides = [tensor.stride()[:3] for tensor in tensors]
    scale = terms.scale if terms.rectified else terms.scale * math.log2(math.e)
    amounts = (n_heads, n_queries, n_keys, scale)

    def launch(chosen: AttentionTiles) -> None:
        fixed = attention_parameters(head_dim, v_dim, n_keys, terms, chosen)
        program = attention_program()[(-(-n_queries // chosen.block_m) * batch * n_heads,)]
        program(*tensors, *strides, *amounts, **fixed, num_warps=chosen.num_warps, num_stages=chosen.num_stages)

    launch_fitting(launch, (tiles,) if tiles else attention_tiles(max(head_dim, v_dim), terms.arithmetic))


def attention_parameters(
    head_dim: int, v_dim: int, n_keys: int, terms: AttentionTerms, tiles: AttentionTiles
) -> dict[str, Any]:
    """What the kernel is compiled for, by the names of its parameters; see `attend`."""
    return {
        "HEAD_DIM": head_dim,
        "V_DIM": v_dim,
        "BLOCK_D": padded_size(head_dim),
        "BLOCK_DV": padded_size(v_dim),
        "CAUSAL": terms.causal,
        "TAIL": terms.causal or n_keys % tiles.block_n != 0,
        "RECTIFIED": terms.rectified,
        "BLOCK_M": tiles.block_m,
        "BLOCK_N": tiles.block_n,
        "ARITHMETIC": terms.arithmetic,
    }


def padded_size(size: int) -> int:
    """The power of two that a head of this size is filled up to."""
    return max(LEAST_BLOCK_D, 1 << (size - 1).bit_length())
