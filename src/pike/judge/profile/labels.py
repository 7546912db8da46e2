"""Labels that rest on a profile: what ran, by the names of kernels and operators.

Reads no source and refuses nothing. A missing label says nothing: there may be no evidence.
"""

import re

from pike.judge.child.profile_table import ProfileTable

PREFIX = "by-profile:"
NO_CUSTOM_KERNEL = PREFIX + "no-custom-kernel"
USES_GRAPH = PREFIX + "uses-graph"
HALF_KERNELS = PREFIX + "half-kernels"
TF32_KERNELS = PREFIX + "tf32-kernels"
LEAKS = PREFIX + "leaks"

_MOST_ELSEWHERE = 0.01
_MOST_UNSEEN, _UNSEEN_NS_PER_OPERATOR = 0.1, 10_000
_OPERATORS = ("aten::", "mkldnn::", "mkldnn_prepacked::", "onednn::", "quantized::", "prepacked::")
_LIBRARIES = re.compile(
    r"^(?:at::|c10::|at_cuda_detail::|cub::|thrust::|cutlass|cublas|cudnn|cufft|cusparse|cusolver|nvjet"
    r"|sm\d+_(?:xmma|cudnn)|xmma_|(?:maxwell|volta|turing|ampere|hopper)_|gemv|gemmk1|gemmSN|splitKreduce|splitK_"
    r"|dot_kernel|reduce_1Block|implicit_convolve|convolve_|conv2d_|winograd|nchwToNhwc|nhwcToNchw|bn_fw|dgrad|wgrad"
    r"|internal::gem|pytorch_flash::|fmha_cutlass|regular_fft|vector_fft|softmax_warp_forward"
    r"|elementwise_kernel_with_index|Memcpy |Memset )"
)
_GEMV = re.compile(r"internal::gemvx|cublasGemv")
_HALF = re.compile(
    r"(?<![a-z0-9])(?:b?f16b?f16|hgemm|bf16gemm)|_hgemm|h(?:884|1688|16816)(?:gemm|cudnn)|16816gemm_b?f16"
    r"|nvjet_(?:sm\d+_)?[ht]s?[hts]|c10::(?:Half|BFloat16)|__nv_bfloat16|__half|pytorch_flash::|fmha_cutlassF_b?f16"
)
_TF32 = re.compile(r"tf32", re.IGNORECASE)
_DECORATION = re.compile(r"^(?:void |\(anonymous namespace\)::)+")


def labels_of(table: ProfileTable, on_cuda: bool, has_own_code: bool) -> list[str]:
    """The labels that a consistent table supports.

    Args:
        table: what ran, by the child's account.
        on_cuda: whether its rows are kernels; otherwise they are operators.
        has_own_code: whether the child runs machine code that was built in its own folder.
    """
    if not table.rows or not table.total:
        return []
    found = []
    if _elsewhere(table, on_cuda) <= _MOST_ELSEWHERE and (on_cuda or _all_in_sight(table, has_own_code)):
        found.append(NO_CUSTOM_KERNEL)
    if on_cuda:
        found += [USES_GRAPH] if table.graphs else []
        found += [HALF_KERNELS] if any(_HALF.search(row.name) for row in table.rows) else []
        found += [TF32_KERNELS] if any(_TF32.search(row.name) for row in table.rows) else []
    return found


def of_a_library(name: str) -> bool:
    """Whether a kernel's name, without arguments, is one of torch or the vendor's libraries."""
    return bool(_LIBRARIES.match(_DECORATION.sub("", name)) or _GEMV.search(name))


def _elsewhere(table: ProfileTable, on_cuda: bool) -> float:
    """The share of the time that is not known to be spent in libraries."""
    known = sum(
        row.nanoseconds
        for row in table.rows
        if (of_a_library(row.name) if on_cuda else row.name.startswith(_OPERATORS))
    )
    return 1.0 - known / table.total


def _all_in_sight(table: ProfileTable, has_own_code: bool) -> bool:
    """On a CPU: no own machine code, and little unexplained time outside operators."""
    unseen, span = min((span - busy, span) for span, busy in zip(table.spans, table.busy, strict=True))
    python = _UNSEEN_NS_PER_OPERATOR * sum(row.count for row in table.rows) / len(table.spans)
    return not has_own_code and unseen <= max(_MOST_UNSEEN * span, python)
