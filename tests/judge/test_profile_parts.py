"""The parts of a profile: the table that crosses the border, what contradicts it, the labels, the reference's work."""

import mmap
import os
import shutil
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch._C._autograd import DeviceType

from pike.core.codec import decode, encode
from pike.core.verdict.evaluation import Evaluation, Status
from pike.core.verdict.profile import Hotspot, Profile, clean_name
from pike.judge.child.profile_table import (
    MOST_CALLS,
    MOST_ROWS,
    TABLE_BYTES,
    ProfileProblem,
    ProfileRow,
    ProfileTable,
    pack,
    unpack,
)
from pike.judge.child.profiling import MARK, of_kernels
from pike.judge.profile import footprint
from pike.judge.profile.labels import (
    HALF_KERNELS,
    NO_CUSTOM_KERNEL,
    TF32_KERNELS,
    USES_GRAPH,
    labels_of,
    of_a_library,
)
from pike.judge.profile.profile import believed, contradiction
from pike.judge.profile.work import operations, weight_bytes
from pike.judge.reference.reference import Inputs

MS = 1_000_000
ROWS = (ProfileRow("aten::addmm", 3 * MS, 4), ProfileRow("aten::relu", MS, 4))
TABLE = ProfileTable(spans=(2 * MS,) * 4, busy=(MS,) * 4, allocated=(5,) * 4, rows=ROWS, total=4 * MS)
WALLS = [int(2.1 * MS)] * 4


def said(table: ProfileTable, on_cuda: bool = False, overhead_ns: float = 0.05 * MS) -> str:
    return contradiction(table, WALLS, overhead_ns, on_cuda)


def test_a_table_arrives_as_it_was_sent() -> None:
    table = replace(TABLE, launches=7, graphs=1, peak_bytes=1 << 40, problem=ProfileProblem.NO_KERNELS)
    assert unpack(pack(table)) == table


def test_a_table_has_one_size_whatever_is_put_into_it() -> None:
    rows = tuple(ProfileRow("é" * 500, 1, 1) for _ in range(1000))
    data = pack(ProfileTable(spans=tuple(range(100)), rows=rows))
    assert len(data) == TABLE_BYTES
    found = unpack(data)
    assert len(found.spans) == MOST_CALLS and len(found.rows) == MOST_ROWS


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (pack(ProfileTable(problem=ProfileProblem.NO_KERNELS)), "CUPTI"),
        (pack(ProfileTable(problem=ProfileProblem.REFUSED)), "does not start"),
        (bytes(TABLE_BYTES), "cannot be read"),
        (pack(replace(TABLE, rows=())), "contradicts itself"),
    ],
)
def test_where_nothing_can_be_shown_the_note_says_why(data: bytes, words: str) -> None:
    table, note = believed(data, WALLS, 0.0, on_cuda=True)
    assert table is None and words in note


@pytest.mark.parametrize("data", [b"", b"\0" * TABLE_BYTES, b"\x5a" * TABLE_BYTES, b"pikeprof" + b"\xff" * TABLE_BYTES])
def test_bytes_that_are_no_table_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        unpack(data)


def test_an_honest_table_contradicts_nothing() -> None:
    assert said(TABLE) == ""
    assert said(replace(TABLE, busy=(MS // 2,) * 4), on_cuda=True) == ""


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (replace(TABLE, spans=(2 * MS,) * 3, busy=(MS,) * 3), "count of calls"),
        (replace(TABLE, spans=(2 * MS, 2 * MS, 2 * MS, 9 * MS)), "clock by 6.81 ms"),
        (replace(TABLE, spans=(MS // 2,) * 4, busy=(MS // 2,) * 4), "clock by 1.55 ms"),
        (replace(TABLE, busy=(3 * MS,) * 4, total=12 * MS), "clock by 0.91 ms"),
        (replace(TABLE, total=9 * MS), "itself"),
        (replace(TABLE, total=MS), "itself"),
        (replace(TABLE, rows=(ProfileRow("aten::addmm", 5 * MS, 1),)), "itself"),
        (replace(TABLE, rows=()), "itself"),
        (replace(TABLE, rows=(ProfileRow("aten::addmm", MS, 10**9),)), "what a program can start"),
        (replace(TABLE, rows=(ProfileRow("a", 2**64 - 1, 1),), total=2**64 - 1), "itself"),
    ],
)
def test_a_table_that_cannot_be_true_is_found_out(table: ProfileTable, words: str) -> None:
    assert words in said(table)


def test_a_call_in_which_the_machine_was_busy_does_not_contradict() -> None:
    assert contradiction(TABLE, [20 * MS, 30 * MS, int(2.1 * MS), 20 * MS], 0.0, on_cuda=False) == ""


def event(name: str, start: float, end: float, cuda: bool = False, annotation: bool = False) -> SimpleNamespace:
    """An event as torch's profiler gives it, in microseconds."""
    kind = DeviceType.CUDA if cuda else DeviceType.CPU
    return SimpleNamespace(
        name=name, time_range=SimpleNamespace(start=start, end=end), device_type=kind, is_user_annotation=annotation
    )


def test_only_what_a_call_itself_starts_on_the_gpu_is_counted() -> None:
    ranges = [event(MARK, 0, 100), event(MARK, 200, 300)]
    events = [
        *ranges,
        event(MARK, 5, 90, cuda=True, annotation=True),
        event("region of the candidate", 5, 90, cuda=True, annotation=True),
        *[event("cudaLaunchKernel", start, start + 2) for start in (1, 3, 201)],
        event("cudaGraphLaunch", 205, 207),
        event("cudaDeviceSynchronize", 50, 100),
        event("gemm", 10, 40, cuda=True),
        event("relu", 30, 50, cuda=True),  # on another stream, at the same time
        event("gemm", 210, 240, cuda=True),
        event("Memcpy DtoD (Device -> Device)", 110, 150, cuda=True),  # the stub's
        event("cudaMemcpyAsync", 105, 106),
    ]
    table = of_kernels(events, ranges, [10, 20], 1 << 20)
    assert {row.name: (row.nanoseconds, row.count) for row in table.rows} == {"gemm": (60_000, 2), "relu": (20_000, 1)}
    assert table.spans == (100_000, 100_000) and table.busy == (40_000, 30_000) and table.total == 80_000
    assert (table.launches, table.graphs, table.peak_bytes, table.allocated) == (4, 1, 1 << 20, (10, 20))
    assert contradiction(table, [120_000, 120_000], 0.0, on_cuda=True) == ""


def test_a_gpu_on_which_nothing_was_seen_is_said_to_be_unseen() -> None:
    ranges = [event(MARK, 0, 100)]
    assert of_kernels([*ranges, event("cudaLaunchKernel", 1, 2)], ranges, [10], 0).problem is ProfileProblem.NO_KERNELS


KERNELS = {
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, 4ul>(int)": True,
    "void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float>(float*)": True,
    "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, false, false>(float*)": True,
    "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_warpgroupsize1x1x1": True,
    "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_16x4_tn_align4>(Params)": True,
    "nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_TNT": True,
    "nvjet_sm90_hsh_128x256_64x4_2x1_v_bz_coopA_bias_TNN": True,
    "ampere_sgemm_128x64_tn": True,
    "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, float>(...)": True,
    "Memcpy DtoD (Device -> Device)": True,
    "triton_poi_fused_relu_0": False,
    "my_kernel(float const*, float*, int)": False,
    "void fused<c10::Half>(at::PackedTensorAccessor32<c10::Half, 2>)": False,
    "matmul_at::native": False,
}


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_is_told_by_its_own_name(name: str) -> None:
    assert of_a_library(name) is KERNELS[name]


def of(name: str, elsewhere: float = 0.0, graphs: int = 0) -> ProfileTable:
    mine = int(elsewhere * 4 * MS)
    rows = (ProfileRow(name, 4 * MS - mine, 4), ProfileRow("my_kernel(float*)", mine, 4))
    return replace(TABLE, rows=rows, graphs=graphs)


@pytest.mark.parametrize(
    ("table", "labels"),
    [
        (of("ampere_sgemm_128x64_tn"), [NO_CUSTOM_KERNEL]),
        (of("ampere_sgemm_128x64_tn", 0.005), [NO_CUSTOM_KERNEL]),
        (of("ampere_sgemm_128x64_tn", 0.05), []),
        (of("ampere_sgemm_128x64_tn", 0.05, graphs=4), [USES_GRAPH]),
        (of("sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32"), [NO_CUSTOM_KERNEL, TF32_KERNELS]),
        (of("sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize96x128x32"), [NO_CUSTOM_KERNEL, HALF_KERNELS]),
        (of("nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_TNT"), [NO_CUSTOM_KERNEL, HALF_KERNELS]),
        (of("nvjet_tst_64x8_64x16_4x1_v_bz_TNT"), [NO_CUSTOM_KERNEL, HALF_KERNELS]),
        (of("nvjet_sm90_hsh_128x256_64x4_2x1_v_bz_coopA_bias_TNN"), [NO_CUSTOM_KERNEL, HALF_KERNELS]),
        (
            of("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64>>(Params)"),
            [NO_CUSTOM_KERNEL, HALF_KERNELS],
        ),
        (replace(TABLE, rows=(), total=0), []),
    ],
)
def test_labels_of_a_gpu_rest_on_the_names_of_kernels(table: ProfileTable, labels: list[str]) -> None:
    assert labels_of(table, on_cuda=True, has_own_code=False) == labels


SEEN = replace(TABLE, busy=(int(1.9 * MS),) * 4)


@pytest.mark.parametrize(
    ("table", "own_code", "labelled"),
    [
        (SEEN, False, True),
        (SEEN, True, False),
        (TABLE, False, False),  # half of each call lies outside of what the profiler saw
        (replace(SEEN, rows=(*ROWS, ProfileRow("Torch-Compiled Region: 0/0", MS, 4)), total=5 * MS), False, False),
        (replace(SEEN, total=5 * MS), False, False),  # a fifth of the time has no row
    ],
)
def test_a_cpu_candidate_without_own_kernels_is_labelled_only_on_evidence(
    table: ProfileTable, own_code: bool, labelled: bool
) -> None:
    assert (NO_CUSTOM_KERNEL in labels_of(table, on_cuda=False, has_own_code=own_code)) is labelled


@pytest.mark.parametrize(
    ("steps", "grows"),
    [([4096] * 8, True), ([8192] * 7 + [0], True), ([8192] * 5 + [0] * 3, False), ([1] * 8, False), ([9999] * 2, False),
     ([0] * 7 + [1 << 20], False)],
)  # fmt: skip
def test_growth_is_growth_in_every_call(steps: list[int], grows: bool) -> None:
    assert footprint.grows(list(accumulate([1 << 20, *steps]))) is grows


def test_machine_code_from_a_folder_is_found_by_the_kernels_account(tmp_path: Path) -> None:
    me, library = {os.getpid()}, torch._C.__file__
    assert not footprint.has_own_code(me, tmp_path)
    own = tmp_path / "own.so"
    shutil.copyfile(library, own)
    with own.open("rb") as file, mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC):
        assert footprint.has_own_code(me, tmp_path)
        assert not footprint.has_own_code(me, tmp_path.parent / "elsewhere")
        own.unlink()
        assert footprint.has_own_code(me, tmp_path.parent / "elsewhere")


def test_the_peak_counts_from_when_it_was_forgotten() -> None:
    me = {os.getpid()}
    footprint.forget_peak(me)
    before = footprint.peak_bytes(me)
    block = bytearray(os.urandom(1 << 20) * 64)
    assert footprint.peak_bytes(me) - before >= len(block) // 2
    del block
    footprint.forget_peak(me)
    assert footprint.peak_bytes(me) < before + (32 << 20)


def test_work_is_counted_without_fused_operators_hiding_it() -> None:
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).eval()
    projections, attention, feed_forward = 4 * 2 * 32 * 64 * 64, 2 * 2 * 2 * 4 * 16 * 16 * 16, 2 * 2 * 32 * 64 * 128
    assert operations(layer, Inputs((torch.randn(2, 16, 64),), {})) == projections + attention + feed_forward
    assert torch.backends.mha.get_fastpath_enabled()


def test_counting_leaves_a_model_that_remembers_things_as_it_was() -> None:
    class Remembering(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)
            self.register_buffer("calls", torch.zeros(()))
            self.last: torch.Tensor | None = None

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            self.last = self.linear(x)
            return self.last

    model = Remembering()
    weight = model.linear.weight
    assert operations(model, Inputs((torch.ones(4, 8),), {})) == 2 * 4 * 8 * 8
    assert model.last is None and model.linear.weight is weight
    assert model.calls.item() == 0


def test_work_of_a_model_that_needs_values_is_unknown() -> None:
    class Branching(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ x if x.sum().item() > 0 else x

    assert operations(Branching(), Inputs((torch.ones(8, 8),), {})) == 0


def test_shared_weights_are_moved_once() -> None:
    model = nn.Sequential(nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False))
    model[1].weight = model[0].weight
    assert weight_bytes(model) == 4 * 64


def test_names_are_one_printable_line() -> None:
    assert clean_name("a\x1b[31mb\nc\u202ed```" + "x" * 200) == "a?[31mb?c?d```" + "x" * 63 + "..."
    assert clean_name(clean_name("y" * 100)) == clean_name("y" * 100)


@pytest.mark.parametrize(
    "hotspots",
    [
        [Hotspot("a", float("nan"), 1)],
        [Hotspot("a", -0.1, 1)],
        [Hotspot("a", 0.1, float("inf"))],
        [Hotspot("a", 0.6, 1), Hotspot("b", 0.6, 1)],
        [Hotspot("a\nb", 0.1, 1)],
        [Hotspot("a" * 81, 0.1, 1)],
        [Hotspot("a", 0.01, 1)] * 13,
    ],
)
def test_a_profile_that_cannot_be_is_not_made(hotspots: list[Hotspot]) -> None:
    with pytest.raises(ValueError):
        Profile("x", "y", tuple(hotspots))


def test_only_a_valid_verdict_has_a_profile_and_an_old_one_has_none() -> None:
    with pytest.raises(ValueError, match="valid"):
        Evaluation(Status.WRONG_OUTPUT, profile=Profile("x", "y"))
    old = encode(Evaluation(Status.WRONG_OUTPUT))
    del old["profile"]
    assert decode(Evaluation, old).profile is None
