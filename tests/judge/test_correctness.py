"""The error budget seen alone: rows, the closer look, NaN and infinity, exact types, and shapes at the edge."""

import copy
import math
import weakref
from dataclasses import replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pike.core.verdict.evaluation import Tolerance
from pike.judge.correctness.compare import Expected, OutputComparison, ReferenceErrors, compare, compare_closely
from pike.judge.correctness.flips import FlipRate
from pike.judge.correctness.rows import row_length
from pike.judge.reference.input_distributions import DISTRIBUTIONS, InputDistribution, neighbour, other_numbers
from pike.judge.reference.reference import Inputs

TINY = 2**-8


def wrong(output: torch.Tensor, native: torch.Tensor, answer: torch.Tensor | None = None) -> str:
    kind = torch.complex128 if native.is_complex() else torch.float64
    expected = Expected([native.to(kind) if answer is None else answer], [native], [], True)
    return compare([output], expected, Tolerance.STRICT).wrong


def matmul(rows: int = 256, columns: int = 128) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The same product summed in an order that no library takes, as the reference sums it, and in float64."""
    torch.manual_seed(0)
    a, b = torch.randn(rows, 512), torch.randn(512, columns)
    return (a[:, :99] @ b[:99] + a[:, 99:] @ b[99:]), a @ b, a.double() @ b.double()


def test_another_order_of_summation_passes():
    honest, native, answer = matmul()
    assert wrong(honest, native, answer) == ""


def test_one_bad_row_of_many_does_not_hide():
    honest, native, answer = matmul(rows=4096)
    error = 12 * 2**-23 * answer[7].square().mean().sqrt()
    honest[7] = (answer[7] + error * torch.randn(128).sign()).float()
    whole = (honest.double() - answer).square().mean().sqrt()
    assert whole < 2 * (native.double() - answer).square().mean().sqrt()  # over the whole output all is well
    assert "row 7)" in wrong(honest, native, answer)


def test_what_is_known_of_the_reference_changes_no_verdict():
    """Also not where an output has no number: there the figures are those of fewer elements."""
    honest, native, answer = matmul()
    lucky = answer.float()
    spoiled, with_nan = honest.clone(), native.clone()
    spoiled[3] += 1e-3
    with_nan[0, 0] = math.nan
    for own in (native, lucky, with_nan):
        known = ReferenceErrors()
        for output in (honest, spoiled, lucky, torch.zeros_like(honest), with_nan):
            plain = Expected([answer], [own], [[lucky], [native]], True)
            kept = Expected([answer], [own], [[lucky], [native]], True, known=known)
            assert compare([output], kept, Tolerance.STRICT) == compare([output], plain, Tolerance.STRICT)


def test_a_wrong_row_of_small_values_does_not_hide_behind_large_ones():
    honest, native, answer = matmul()
    scale = torch.ones(256, 1)
    scale[100] = 1e-6
    honest, native, answer = honest * scale, native * scale, answer * scale
    assert wrong(honest, native, answer) == ""
    honest[100] = 0.0
    assert "row 100)" in wrong(honest, native, answer)


@pytest.mark.parametrize(
    ("shape", "length"), [((8, 4, 100), 100), ((8, 10), 40), ((5000,), 32), ((), 32), ((3, 0), 32)]
)
def test_short_rows_are_judged_with_their_neighbours(shape, length):
    assert row_length(shape) == length


class Largest(TorchDispatchMode):
    """How many elements the largest tensor had that an operator made, views left out."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        given = {one.untyped_storage().data_ptr() for one in args if isinstance(one, torch.Tensor)}
        for one in made if isinstance(made, list | tuple) else [made]:
            if isinstance(one, torch.Tensor) and one.untyped_storage().data_ptr() not in given:
                self.elements = max(self.elements, one.numel())
        return made


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
@pytest.mark.parametrize("error", [1e-7, 1e-3])
@pytest.mark.parametrize("shape", [(100, 33), (4, 5, 100), (5000,), (7,), ()])
def test_a_large_output_is_compared_in_pieces_that_change_nothing(shape, error, dtype, monkeypatch):
    """On a GPU, copies of an output of gigabytes in float64 left no room for models; that goes for refusals too."""
    answer = torch.randn(shape, dtype=torch.complex128 if dtype.is_complex else torch.float64)
    native, reduced, output = ((answer * (1.0 + error * torch.randn(shape))).to(dtype) for _ in range(3))
    expected = Expected([answer], [native], [[reduced]], True)

    def found() -> OutputComparison:
        return compare_closely([output], expected, Tolerance.STRICT, lambda: [[reduced], [native]])

    whole = found()
    monkeypatch.setattr("pike.judge.correctness.rows.PIECE_ELEMENTS", 200)
    with Largest() as largest:
        pieces = found()
    assert pieces.wrong == whole.wrong and pieces.error.vacuous == whole.error.vacuous
    assert pieces.times == pytest.approx(whole.times)
    assert largest.elements <= 200 + 5 * math.ceil(2 * max(answer.numel(), 1) / row_length(tuple(shape)))


def test_neighbours_are_looked_at_once_for_many_outputs():
    """What lint tries lies close enough to be looked at again and again; the answers themselves are not kept."""
    honest, native, answer = matmul()
    made = []

    def look() -> list[list[torch.Tensor]]:
        near = honest.clone()
        made.append(weakref.ref(near))
        return [[near]]

    plain = Expected([answer], [native], [], True)
    kept = Expected([answer], [native], [], True, known=ReferenceErrors())
    outputs = [native + times * (native - answer).float() for times in (3, 4, 5)]
    found = [compare_closely([output], kept, Tolerance.STRICT, look) for output in outputs]
    assert len(made) == 16 and not any(one() is not None for one in made)
    assert found == [compare_closely([output], plain, Tolerance.STRICT, look) for output in outputs]


def test_what_neighbours_are_known_for_does_not_count_for_fewer_elements():
    """Where the reference has no number, an output may have none either, and all figures are of the other elements."""
    honest, native, answer = matmul()
    spoiled = native + 4 * (native - answer).float()
    native[0, 0] = math.nan
    without = spoiled.clone()
    without[0, 0] = math.nan
    honest[0, 0] += 1.0
    looks = []

    def look() -> list[list[torch.Tensor]]:
        looks.append(1)
        return [[honest]]

    plain = Expected([answer], [native], [], True)
    kept = Expected([answer], [native], [], True, known=ReferenceErrors())
    whole, fewer = (compare_closely([output], kept, Tolerance.STRICT, look) for output in (spoiled, without))
    assert whole.error.budget_max_abs > 1.0 > fewer.error.budget_max_abs
    assert fewer == compare_closely([without], plain, Tolerance.STRICT, look)


def test_a_lucky_reference_gets_a_closer_look():
    """The reference's scalar is right to the last bit by chance; the candidate's is off by what it usually is."""
    answer = torch.tensor(1.0, dtype=torch.float64)
    native, output = torch.tensor(1.0), torch.tensor(1.0 + 100 * 2**-23)
    expected = Expected([answer], [native], [], True)
    usual = iter([100 * 2**-23, -60 * 2**-23] * 10)
    assert compare([output], expected, Tolerance.STRICT).wrong
    look = lambda: [[torch.tensor(1.0 + next(usual))]]  # noqa: E731
    assert compare_closely([output], expected, Tolerance.STRICT, look).wrong == ""


def test_a_closer_look_forgives_no_wrong_answer():
    honest, native, answer = matmul()
    expected = Expected([answer], [native], [], True)
    looks = []

    def look() -> list[list[torch.Tensor]]:
        looks.append(1)
        return [[honest]]

    assert compare_closely([native * (1 + TINY)], expected, Tolerance.STRICT, look).wrong
    assert len(looks) == 4  # far beyond help, so the rest is spared


def test_a_closer_look_keeps_one_answer_at_a_time():
    """Each may be gigabytes on a GPU that others need too."""
    honest, native, answer = matmul()
    made, most_alive = [], 0

    def look() -> list[list[torch.Tensor]]:
        nonlocal most_alive
        most_alive = max(most_alive, sum(one() is not None for one in made))
        near = honest.clone()
        made.append(weakref.ref(near))
        return [[near]]

    expected = Expected([answer], [native], [], True)
    assert compare_closely([native + 4 * (native - answer).float()], expected, Tolerance.STRICT, look).wrong
    assert len(made) == 16
    assert most_alive == 0, "the one before is gone when the next is made"


@pytest.mark.parametrize("special", [math.nan, math.inf, -math.inf])
def test_specials_of_complex_numbers_stand_where_the_reference_has_them(special):
    native = torch.randn(4, 8, dtype=torch.complex64)
    native[1, 2] = complex(1.0, special)
    answer = native.to(torch.complex128)
    assert wrong(native.clone(), native, answer) == ""
    moved = native.clone()
    moved[1, 2], moved[2, 2] = 1.0, native[1, 2]
    assert "NaN or infinity in 2 wrong places" in wrong(moved, native, answer)
    scaled = torch.view_as_complex(torch.view_as_real(native) * (1 + TINY))
    assert "allowed" in wrong(scaled, native, answer)


def test_where_float64_reaches_further_than_the_references_type_both_are_right():
    """Half precision overflows; a candidate may overflow alike or hold the value, but not put something else there."""
    answer = torch.tensor([[1.0, 1e5]], dtype=torch.float64)
    native = answer.half()
    assert wrong(native.clone(), native, answer) == ""
    assert wrong(torch.tensor([[1.0, -math.inf]]).half(), native, answer)
    assert wrong(torch.tensor([[1.0, 0.0]]).half(), native, answer)


def test_booleans_are_compared_as_bytes_so_poison_is_not_true():
    native = torch.ones(6, dtype=torch.bool)
    poisoned = torch.full((6,), 0xFF, dtype=torch.uint8).view(torch.bool)
    assert wrong(native.clone(), native) == ""
    assert wrong(poisoned, native)
    assert "1 of 6" in wrong(torch.tensor([True] * 5 + [False]), native)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int64, torch.uint8])
def test_integers_are_exact(dtype):
    native = torch.arange(40).to(dtype)
    off = native.clone()
    off[3] += 1
    assert wrong(native.clone(), native) == ""
    assert "1 of 40" in wrong(off, native)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64, torch.bool, torch.int32])
@pytest.mark.parametrize("shape", [(0,), (4, 0), (0, 4), ()])
def test_empty_outputs_and_scalars_are_compared(dtype, shape):
    native = torch.ones(shape, dtype=dtype)
    assert wrong(native.clone(), native) == ""
    if native.numel():
        assert wrong(torch.zeros_like(native), native)
        if dtype.is_floating_point:
            assert "NaN" in wrong(torch.full_like(native, math.nan), native)


def named(name: str) -> InputDistribution:
    return next(distribution for distribution in DISTRIBUTIONS if distribution.name == name)


def test_distributions_change_floating_point_inputs_only_and_neighbours_hardly_differ():
    given = Inputs((torch.randn(6, 8), torch.arange(4), torch.zeros(2, dtype=torch.float8_e4m3fn)), {"mask": None})
    real = [distribution for distribution in DISTRIBUTIONS if torch.float32 in distribution.kinds]
    for change in (*(distribution.change for distribution in real), neighbour):
        made = change(given, 1)
        assert not torch.equal(made.args[0], given.args[0])
        assert made.args[0].shape == (6, 8)
        assert made.args[1] is given.args[1] and made.args[2] is given.args[2]
        assert torch.equal(made.args[0], change(given, 1).args[0])  # the seed decides
    assert torch.allclose(neighbour(given, 2).args[0], given.args[0], rtol=3e-7, atol=0.0)
    assert (named("one-hot rows").change(given, 1).args[0] != 0).sum() == 6


@pytest.mark.parametrize(("dtype", "most"), [(torch.float64, 1.0), (torch.float32, 1.0), (torch.bfloat16, 0.03)])
def test_a_neighbour_is_moved_by_one_unit_in_the_last_place(dtype, most):
    given = torch.rand(64, 256).to(dtype) + 1
    moved = neighbour(Inputs((given,), {}), 2).args[0]
    assert moved.dtype == dtype
    assert 0.0 < (moved != given).float().mean() <= most
    assert (moved.double() - given.double()).abs().max() <= 2 * torch.finfo(dtype).eps


def sampled_only(tensor: torch.Tensor) -> bool:
    """Whether nothing unusual is among the elements that a cheap sniffer looks at."""
    return bool((tensor.flatten()[::64].abs() < 6).all())


def test_unusual_elements_lie_where_a_sample_of_one_in_64_and_a_prefix_do_not_see_them():
    given = Inputs((torch.randn(64, 256),), {})
    extremes = [named("a few extremes").change(given, seed).args[0] for seed in range(40)]
    assert all(1 <= (one != given.args[0]).sum() <= 3 and one.abs().max() > 20 for one in extremes)
    assert sum(map(sampled_only, extremes)) > 30
    for tail in (named("an unusual tail").change(given, seed).args[0] for seed in range(40)):
        assert torch.equal(tail[:32], given.args[0][:32])
        assert 256 <= (tail != given.args[0]).sum() <= 32 * 256
    mixed = named("mixed rows").change(given, 1).args[0]
    differing = (mixed != given.args[0]).float().mean(1)
    assert (differing == 0).any() and (differing > 0).any() and differing.max() < 0.3
    ordinary = given.args[0].abs().amax()
    assert mixed.abs().amax() > ordinary and (mixed == 0).any()


@pytest.mark.parametrize(
    ("name", "tensor", "holds"),
    [
        ("a mask of ones", torch.ones(4, 9, dtype=torch.bool), lambda old, new: new[:, 0].all()),
        (
            "a mask of ones in integers",
            torch.ones(4, 9, dtype=torch.int64),
            lambda old, new: set(new.flatten().tolist()) == {0, 1},
        ),
        ("ids", torch.randint(5, 90, (4, 30)), lambda old, new: old.min() <= new.min() and new.max() <= old.max()),
        ("equal lengths", torch.full((30,), 8), lambda old, new: new.min() >= 4 and new.max() <= 8),
        ("one length", torch.tensor(8), lambda old, new: 1 <= new < 8),
        ("lengths", torch.tensor([40, 19, 5, 2]), lambda old, new: (new.diff() < 0).all() and new[-1] == 2),
        ("offsets", torch.tensor([0, 5, 19, 40]), lambda old, new: (new.diff() > 0).all() and new[-1] == 40),
        ("a permutation", torch.randperm(30), lambda old, new: sorted(new) == list(range(30))),
    ],
)
def test_other_masks_ids_and_lengths_are_valid_ones(name, tensor, holds):
    change = named("other masks, ids and lengths").change
    new = change(Inputs((torch.randn(3), tensor), {}), 3).args
    assert new[1].shape == tensor.shape and new[1].dtype == tensor.dtype and not torch.equal(new[1], tensor)
    assert holds(tensor, new[1])


def test_other_numbers_leave_flags_words_and_tensors_alone():
    given = Inputs((torch.ones(2), 3, 0.5), {"causal": True, "mode": "sum", "axis": 1})
    found = other_numbers(given)
    assert found.args[0] is given.args[0]
    assert (found.args[1:], found.kwargs) == ((2, 0.375), {"causal": True, "mode": "sum", "axis": 2})
    assert other_numbers(Inputs((torch.ones(2), True), {"mode": "sum"})) is None


KINDS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def edges(count: int = 1 << 16) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Integers from one product: summed in another order, as the reference sums it, in float64, and by a neighbour."""
    honest, native, answer = matmul(rows=count // 128)
    near = native * (1 + 2**-22)
    return tuple((200 * one).round().to(torch.int32) for one in (honest, native, answer, near))


def test_integers_on_a_rounding_edge_may_fall_to_either_side_as_the_references_own_do():
    honest, native, answer, near = edges()
    assert 0 < (honest != native).sum() < 999
    expected = Expected([answer], [native], [], True)

    def judged(output):
        return compare_closely([output], expected, Tolerance.STRICT, lambda: [[near]])

    assert judged(honest).wrong == "" and judged(answer).wrong == ""
    spoiled = native.clone()
    spoiled[:20] += 1
    assert "elements differ (allowed" in judged(spoiled).wrong


def test_a_steady_reference_allows_no_other_integer():
    native = torch.arange(4096)
    off = native.clone()
    off[7] += 1
    expected = Expected([native.clone()], [native], [], True)
    found = compare_closely([off], expected, Tolerance.STRICT, lambda: [[native.clone()]])
    assert "1 of 4096 torch.int64 elements differ (allowed 0)" in found.wrong


def test_indices_at_half_precision_may_differ_as_often_as_the_references_do():
    torch.manual_seed(0)
    x, w = torch.randn(4096, 128), torch.randn(128, 64)
    native, answer = (x @ w).argmax(1), (x.double() @ w.double()).argmax(1)
    variants = [[(x.to(kind) @ w.to(kind)).argmax(1)] for kind in (torch.float16, torch.bfloat16)]
    honest = (x.bfloat16()[:, :64].float() @ w.bfloat16()[:64].float() + x.bfloat16()[:, 64:].float()
              @ w.bfloat16()[64:].float()).bfloat16().argmax(1)  # fmt: skip
    looks = lambda: [[native], *variants]  # noqa: E731
    assert compare_closely([honest], Expected([answer], [native], variants, True), Tolerance.STRICT, looks).wrong == ""
    assert compare_closely([honest], Expected([answer], [native], [], True), Tolerance.STRICT, lambda: [[native]]).wrong
    coarse = ((x * 2).round() @ w).argmax(1)
    assert compare_closely([coarse], Expected([answer], [native], variants, True), Tolerance.STRICT, looks).wrong


def test_one_inputs_few_answers_do_not_decide_how_unsteady_a_reference_is():
    """A program with one more rounding flips as often, and on some input more often than any answer does."""
    torch.manual_seed(0)
    rate, layer = FlipRate(), torch.nn.Linear(256, 256).requires_grad_(False)
    honest_refused, by_one_input, coarse_refused = 0, 0, 0
    for _ in range(24):
        x = torch.randn(1024, 256)
        native, answer, *halves = (copy.deepcopy(layer).to(kind)(x.to(kind)).argmax(1) for kind in KINDS)
        honest = (x.bfloat16() @ layer.weight.bfloat16().T + layer.bias.bfloat16()).argmax(1)
        variants = [[half] for half in halves]
        rate.learn([native], [[answer], *variants])
        alone = Expected([answer], [native], variants, True)
        known = replace(alone, unsteady=rate.allowed([native]))
        by_one_input += bool(compare([honest], alone, Tolerance.STRICT).wrong)
        honest_refused += bool(compare([honest], known, Tolerance.STRICT).wrong)
        coarse_refused += bool(compare([layer((x * 8).round()).argmax(1)], known, Tolerance.STRICT).wrong)
    assert by_one_input > 0
    assert (honest_refused, coarse_refused) == (0, 24)


def test_a_rate_counts_for_each_output_by_its_size_and_never_for_a_steady_one():
    rate, native = FlipRate(), [torch.zeros(100, dtype=torch.long), torch.zeros(5, dtype=torch.bool), torch.ones(7)]
    other = [native[0].clone(), native[1], native[2] + 1]
    other[0][:4] = 1
    rate.learn(native, [native, other])
    assert rate.allowed(native) == (4 + 6, 0, 0)
    rate.learn(native, [native, native])
    assert rate.allowed([torch.zeros(400, dtype=torch.long), *native[1:]]) == (8 + 8, 0, 0)


def test_an_output_whose_shape_depends_on_values_may_have_the_shape_of_any_own_answer():
    values = torch.linspace(-1, 1, 41, dtype=torch.float64)
    answer, native, near = values[values > 0.1], values[values > 0.11].float(), values[values > 0.3].float()
    expected = Expected([answer], [native], [], True)

    def judged(output):
        return compare_closely([output], expected, Tolerance.STRICT, lambda: [[near]]).wrong

    assert judged(native.clone()) == "" and judged(answer.float()) == "" and judged(near.clone()) == ""
    assert "expected" in judged(values[values > 0.5].float())
    assert judged(native + 0.1) and judged(near + 0.1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_products_of_eight_bits_are_not_those_of_sixteen(dtype):
    torch.manual_seed(0)
    a, b = torch.randn(128, 1024).to(dtype), torch.randn(1024, 128).to(dtype)
    native, answer = a @ b, a.double() @ b.double()
    parts = [(x.float() @ y.float()).to(dtype) for x, y in zip(a.split(256, 1), b.split(256, 0), strict=True)]
    assert wrong(sum(parts[1:], parts[0]), native, answer) == ""
    x, y = a.float().abs().amax(1, keepdim=True) / 127, b.float().abs().amax(0, keepdim=True) / 127
    eight = (((a / x).round() @ (b / y).round()) * x * y).to(dtype)
    near = lambda: [[neighbour(Inputs((a,), {}), 1).args[0] @ b]]  # noqa: E731
    assert compare_closely([eight], Expected([answer], [native], [], True), Tolerance.STRICT, near).wrong


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float8_e4m3fn])
def test_narrow_types_are_compared_at_their_own_precision(dtype):
    answer = torch.linspace(-2, 2, 64, dtype=torch.float64).view(2, 32)
    native = answer.to(dtype)
    assert wrong(native.clone(), native, answer) == ""
    assert wrong(torch.zeros_like(native), native, answer)
