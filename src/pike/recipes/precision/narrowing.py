"""What must stay in float32 for a model to keep its error budget in 16 bits.

Simulates the candidate's graph (`rounding`) beside the float32 answer, and beside the model cast as
a whole, with which a judge compares. Tries choices from the plainest to the most cautious: fragile
operators stay, everything but matrix products stays, some of the products stay too. A model that is
too large to be called that often gets the first choice unmeasured. Does not know how graphs are
edited (`casts`).
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import torch

from pike.recipes.capture.graph import calls
from pike.recipes.capture.work import PRODUCTS, largest_bytes, operations
from pike.recipes.framework.context import RecipeContext
from pike.recipes.precision.casts import ALL_BUT_PRODUCTS, FRAGILE, nodes_to_narrow, run_inside
from pike.recipes.precision.rounding import NARROW, RoundedInterpreter, as_if_cast

MOST_OPERATIONS = 6e11
"""Multiplications and additions that all calls of one search may have, some ten seconds on a few
CPU cores."""

MOST_VALUE_BYTES = 1 << 29
"""Models with a larger value than this are not simulated."""

_FEWEST_CALLS, _CHUNKS = 6, 8
_SAFE = 0.7
"""The share of the judge's budget that is used: other inputs err a little more, and real kernels
round elsewhere."""
_TIMES_RMS, _TIMES_LARGEST = 2.0, 3.0
"""The judge's budget in terms of the reference's own error (docs/concepts/correctness.md)."""
_FLOOR = 4 * torch.finfo(torch.float32).eps


@dataclass(frozen=True, slots=True)
class Plan:
    """What stays in float32.

    Attributes:
        keep: names of nodes and groups, as `precision.run_inside` takes them.
        refusal: why no choice keeps the budget, empty where one does.
        measured: whether the choice was tried.
    """

    keep: tuple[str, ...]
    refusal: str = ""
    measured: bool = True


@dataclass(frozen=True, slots=True)
class Errors:
    """Errors of one output against the float32 answer: rms, largest, and rms of the worst row."""

    rms: float
    largest: float
    row: float


def plan(problem: RecipeContext, dtype: torch.dtype) -> Plan:
    """What stays in float32 when the model of a problem runs in `dtype`; found out once."""
    key = f"narrowing to {dtype}"
    if key not in problem.notes:
        problem.notes[key] = _planned(problem, dtype)
    found: Plan = problem.notes[key]
    return found


def refusal(problem: RecipeContext, dtype: torch.dtype) -> str:
    """Why a model cannot run in `dtype`, or has nothing from it; empty where it can."""
    graph, why = problem.captured
    if graph is None:
        return why
    narrow = nodes_to_narrow(graph, (FRAGILE,))
    if not any(node for node in narrow if calls(node, *PRODUCTS, "lstm", "gru", "rnn_tanh", "rnn_relu")):
        own = any(leaf.dtype in NARROW for leaf in _floats(problem))
        return "the model computes in 16 bits already" if own else "no matrix product or convolution is in float32"
    return plan(problem, dtype).refusal


def _floats(problem: RecipeContext) -> list[torch.Tensor]:
    leaves = [*problem.model.parameters(), *torch.utils._pytree.tree_leaves((problem.args, problem.kwargs))]
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()]


def _planned(problem: RecipeContext, dtype: torch.dtype) -> Plan:
    graph = problem.graph
    assert graph is not None
    calls_left = int(MOST_OPERATIONS // max(operations(graph), 1))
    if calls_left < _FEWEST_CALLS or largest_bytes(graph) > MOST_VALUE_BYTES:
        return Plan((FRAGILE,), measured=False)
    try:
        return NarrowingSearch(problem, graph, dtype).plan(calls_left - _FEWEST_CALLS)
    except Exception as error:  # operators that were never meant for a narrower dtype raise many kinds of errors
        first = (str(error).strip().splitlines() or [""])[0]
        return Plan((), f"the graph does not run in {_short(dtype)}: {type(error).__name__}: {first}")


class NarrowingSearch:
    """One search on one problem."""

    def __init__(self, problem: RecipeContext, graph: torch.fx.GraphModule, dtype: torch.dtype) -> None:
        self._problem, self._graph, self._dtype = problem, graph, dtype
        if "narrowing" not in problem.notes:
            problem.notes["narrowing"] = Target.of(problem, graph)
        self._target: Target = problem.notes["narrowing"]

    def plan(self, calls_left: int) -> Plan:
        """The plainest choice within the budget.

        Args:
            calls_left: how many calls may be spent after the two usual choices.
        """
        for keep in ((FRAGILE,), (ALL_BUT_PRODUCTS,)):
            if self._share(keep) <= 1.0:
                return Plan(keep)
        products = [node.name for node in self._graph.graph.nodes if calls(node, *PRODUCTS)]
        chunks = _chunks(products, min(_CHUNKS, calls_left // 2))
        shares = {chunk: self._share(_all_but(chunk, products)) for chunk in chunks}
        narrow = _most_within(shares)
        while narrow:
            wide = _all_but(tuple(name for chunk in narrow for name in chunk), products)
            if self._share(wide) <= 1.0:
                return Plan(wide)
            narrow.pop()
        worst = min(shares.values(), default=math.inf)
        return Plan((), f"{_short(self._dtype)} leaves the error budget ({worst:.2g} times) whatever stays in float32")

    def _share(self, keep: tuple[str, ...]) -> float:
        """How many times the safe part of its budget the worst output needs; may be infinite."""
        outputs = simulated(self._problem, self._graph, self._dtype, keep)
        return max((self._target.needed(index, output) for index, output in enumerate(outputs)), default=0.0)


@dataclass(frozen=True, slots=True)
class Target:
    """What is right, and how far from it an answer may be.

    Attributes:
        native: the leaves of the outputs in float32, which is exact beside 16 bits.
        budget: per leaf, the errors that are allowed.
    """

    native: list[Any]
    budget: list[Errors]

    @classmethod
    def of(cls, problem: RecipeContext, graph: torch.fx.GraphModule) -> Target:
        """The target of a problem, from the model in float32 and in both narrow dtypes."""
        native = RoundedInterpreter(graph).flat(problem.args, problem.kwargs)
        cast = [as_if_cast(problem.model, problem.args, problem.kwargs, dtype) for dtype in NARROW]
        known = [outputs for outputs in cast if outputs is not None]
        if not known:  # as a judge does where a model cannot be cast
            known = [simulated(problem, graph, torch.bfloat16, (ALL_BUT_PRODUCTS,))]
        return cls(native, [allowed(*leaf) for leaf in zip(native, zip(*known, strict=True), strict=True)])

    def needed(self, index: int, output: Any) -> float:
        """How many times its budget an output errs."""
        native, budget = self.native[index], self.budget[index]
        if not isinstance(native, torch.Tensor):
            return 0.0
        if not native.is_floating_point() and not native.is_complex():
            return 0.0 if torch.equal(output, native) else math.inf
        found = errors(output, native)
        pairs = ((found.rms, budget.rms), (found.largest, budget.largest), (found.row, budget.row))
        return max(0.0 if error == 0.0 else error / most if most else math.inf for error, most in pairs)


def simulated(
    problem: RecipeContext, graph: torch.fx.GraphModule, dtype: torch.dtype, keep: tuple[str, ...]
) -> list[Any]:
    """What the graph of a candidate would give."""
    edited = run_inside(copied(graph), problem.args, problem.kwargs, dtype, keep)
    return RoundedInterpreter(edited).flat(problem.args, problem.kwargs)


def allowed(native: Any, references: tuple[Any, ...]) -> Errors:
    """The safe part of the judge's budget for one output."""
    if not isinstance(native, torch.Tensor) or not (native.is_floating_point() or native.is_complex()):
        return Errors(0.0, 0.0, 0.0)
    own = [errors(output, native, finite_only=True) for output in references]
    scale = _rms(torch.view_as_real(native) if native.is_complex() else native)
    return Errors(
        _SAFE * max(_TIMES_RMS * max(error.rms for error in own), _FLOOR * scale),
        _SAFE * max(_TIMES_LARGEST * max(error.largest for error in own), 4 * _FLOOR * scale),
        _SAFE * max(_TIMES_LARGEST * max(error.row for error in own), 4 * _FLOOR * scale),
    )


def copied(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A copy of a captured graph that may be edited; it shares the weights."""
    copied_graph = torch.fx.GraphModule(graph, copy.deepcopy(graph.graph))
    copied_graph.meta.update(graph.meta)
    return copied_graph


def errors(output: torch.Tensor, native: torch.Tensor, finite_only: bool = False) -> Errors:
    """How far an output lies from the float32 answer; infinite where it is not finite and that is.

    Args:
        output: what is judged.
        native: what the model gives in float32.
        finite_only: leave out where the output is not finite (for what sets a budget).
    """
    values = [torch.view_as_real(value) if value.is_complex() else value for value in (output, native)]
    found, right = (value.float() for value in values)
    where = torch.isfinite(right)
    if finite_only:
        where &= torch.isfinite(found)
    elif not bool(torch.isfinite(found[where]).all()):
        return Errors(math.inf, math.inf, math.inf)
    distance = (found - right).abs().where(where, 0.0)
    if not distance.numel():
        return Errors(0.0, 0.0, 0.0)
    rows = distance.reshape(-1, distance.shape[-1]) if distance.dim() > 1 and distance.shape[-1] >= 32 else distance
    row = float(rows.square().mean(-1).max().sqrt()) if rows.dim() == 2 and rows is not distance else _rms(distance)
    return Errors(_rms(distance), float(distance.max()), row)


def _rms(value: torch.Tensor) -> float:
    return math.sqrt(float(value.square().mean(dtype=torch.float64))) if value.numel() else 0.0


def _chunks(names: list[str], count: int) -> list[tuple[str, ...]]:
    """The names in at most `count` runs of equal length, in order."""
    size = -(-len(names) // count) if count > 0 else 0
    return [tuple(names[start : start + size]) for start in range(0, len(names), size)] if size else []


def _all_but(narrow: tuple[str, ...], products: list[str]) -> tuple[str, ...]:
    return (ALL_BUT_PRODUCTS, *(name for name in products if name not in narrow))


def _most_within(shares: dict[tuple[str, ...], float]) -> list[tuple[str, ...]]:
    """The chunks that err least and together stay within the budget, if errors are independent."""
    chosen: list[tuple[str, ...]] = []
    total = 0.0
    for chunk, share in sorted(shares.items(), key=lambda item: item[1]):
        total += share**2
        if total > 1.0:
            break
        chosen.append(chunk)
    return chosen


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
