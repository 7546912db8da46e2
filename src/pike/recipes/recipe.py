"""What a recipe is: one named rewrite with the conditions under which it applies.

Knows the record and the order in which recipes of a composition take effect. Does not know any single recipe
(`registry` lists them) nor how a composition becomes a file (`write`).
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Protocol

import torch

from pike.core.device import DeviceFacts
from pike.core.evaluation import EvaluateOptions
from pike.recipes.experts_operator import kernel_calls
from pike.recipes.graph import calls, capture_graph
from pike.recipes.quiet import quietly
from pike.recipes.rounding import operations
from pike.recipes.routing import capture_experts
from pike.recipes.steps import STEP_OPERATORS, recurrences
from pike.recipes.tensor_cores import no_kernel

MOST_OPERATIONS_HERE = 10**11
"""Models with more multiplications and additions are not called on the CPU only to see whether they are steady."""

SECONDS_PER_OPERATOR = 0.1
"""What compiling a captured model takes, roughly: first searches on an H200 beside seven other judges, networks of 300
to 700 operators (benchmarks/trials/h200-x2-2026-11-23)."""


class Stage(IntEnum):
    """When a recipe takes effect, in order."""

    REWRITE = 0
    """Another algorithm for the same values, as an edit of the captured graph."""
    PRECISION = 1
    """Another arithmetic inside, with casts at the border."""
    LAYOUT = 2
    """Another form of weights and data in memory, restored at the border."""
    LOWER = 3
    """Another way to run the same operators; at most one of a composition."""
    SETTING = 4
    """A setting that holds while the model is lowered (and, where it says so, while it runs)."""


class Inputs(Protocol):
    """The arguments of one call (what `evaluate.reference` draws)."""

    @property
    def args(self) -> tuple[Any, ...]:
        """Positional arguments."""
        ...

    @property
    def kwargs(self) -> dict[str, Any]:
        """Keyword arguments."""
        ...


class Reference(Protocol):
    """The original model as recipes see it (what `evaluate.reference.load` gives)."""

    @property
    def model(self) -> torch.nn.Module:
        """The model, in eval mode, on the CPU."""
        ...

    @property
    def draw(self) -> Callable[[int], Inputs]:
        """Draws inputs from a seed."""
        ...


@dataclass(frozen=True, eq=False)
class Problem:
    """Everything a recipe may look at before it applies; what is costly is found out once.

    Attributes:
        model: the original, in eval mode, on the CPU; never changed.
        args: example positional arguments.
        kwargs: example keyword arguments.
        facts: the device that candidates run on.
        options: the terms under which they are judged.
        notes: what recipes found out about the problem and want to find out only once, by a key of theirs.
    """

    model: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    facts: DeviceFacts
    options: EvaluateOptions = field(default_factory=EvaluateOptions)
    notes: dict[str, Any] = field(default_factory=dict)

    @functools.cached_property
    def captured(self) -> tuple[torch.fx.GraphModule | None, str]:
        """The model as a graph, or None and why it cannot be captured."""
        why = ""
        for capture in (capture_graph, capture_experts):
            try:
                with quietly():
                    graph = capture(self.model, self.args, self.kwargs)
                if not (kernel_calls(graph) and no_kernel(self.facts)):
                    return graph, ""
            except Exception as error:  # export runs the user's forward and raises many kinds of errors
                lines = str(error).strip().splitlines() or [type(error).__name__]
                why = why or f"the model cannot be captured as a graph: {lines[0]}"
        return None, why

    @functools.cached_property
    def unsteady(self) -> str:
        """Why nothing may be built ahead for the model: it answers differently when called again; else empty.

        A captured model keeps no state, so one that is slow to call here is called only if it may draw numbers.
        """
        nodes = self.graph.graph.nodes if self.graph else ()
        if self.graph and operations(self.graph) > MOST_OPERATIONS_HERE and not any(map(may_draw, nodes)):
            return ""
        try:
            with torch.no_grad():
                model = copy.deepcopy(self.model)
                outputs = [torch.utils._pytree.tree_leaves(model(*self.args, **self.kwargs)) for _ in range(2)]
        except Exception as error:  # the user's own forward may raise anything
            return f"the model cannot be called here: {type(error).__name__}: {error}"
        same = all(_equal(first, second) for first, second in zip(*outputs, strict=True))
        return "" if same else "the model gives different answers to the same input (state or chance)"

    @property
    def graph(self) -> torch.fx.GraphModule | None:
        """The model as a graph of aten operators, None where it cannot be captured."""
        return self.captured[0]

    @property
    def no_compiler(self) -> str:
        """Why torch.compile cannot generate code here at all, empty when it can."""
        needed = ("triton",) if self.facts.is_cuda else ("g++", "clang++")
        if any(name in self.facts.compilers for name in needed):
            return ""
        return f"torch.compile needs {' or '.join(needed)} here"

    @functools.cached_property
    def compiler(self) -> str:
        """Why torch.compile cannot generate code for the whole model here within the judge's limit, empty when it
        can."""
        if self.shortest_compiling_seconds > self.options.timeout_seconds:
            return "compiling all operators of the model would take longer than the judge's limit"
        return self.no_compiler

    @property
    def compiling_seconds(self) -> float:
        """What compiling the captured model should take; 0 where it cannot be captured."""
        nodes = self.graph.graph.nodes if self.graph else ()
        count: int = sum(node.op == "call_function" for node in nodes)
        return SECONDS_PER_OPERATOR * count

    @functools.cached_property
    def shortest_compiling_seconds(self) -> float:
        """The same once each chain of elementwise steps is one operator, where there is a kernel for it."""
        if self.graph is None or not self.facts.is_cuda or self.no_compiler:
            return self.compiling_seconds
        steps = sum(len(found.states) for found in recurrences(self.graph))
        return self.compiling_seconds - SECONDS_PER_OPERATOR * STEP_OPERATORS * steps


@dataclass(frozen=True, slots=True)
class Recipe:
    """One rewrite.

    Attributes:
        name: short, in snake case; compositions are written `a + b + c`.
        summary: what it does, one line without a full stop, for the candidate's header.
        stage: when it takes effect.
        transform: a self-contained module-level function; its source is copied into candidates. It takes those
            of `model`, `args`, `kwargs` (one call's arguments) that it needs, and returns what runs instead. For
            `Stage.SETTING`, a context manager function without arguments. It may also take `keep` (see `adapt`).
        declines: why it does not apply to a problem, empty when it does.
        edits_weights: whether the transform changes the module it is given, which is then a private copy.
        own_modules: whether the transform needs the modules of the original, so that nothing may have captured or
            changed it before.
        while_running: for a setting, whether it also holds while the model runs.
        needs: names of which one must be in the composition too; empty for none.
        excludes: names that cannot be in the same composition.
        restores: whether it brings back arithmetic of the original that a composition may have lost; it is added to a
            composition whose answers were far beyond their budget.
        foundation: whether every composition has it where it applies, because the others build on it; listed
            before all other recipes.
        prior_cpu: expected log speedup on a CPU, for trying promising compositions first.
        prior_cuda: expected log speedup on a GPU.
        suits: what to add to the expectation for a problem, by its structure.
        blamed_for: words in a failed candidate's diagnostics that point at this recipe.
        adapt: names that are found out for a problem to which the recipe applies and written into the candidate as
            the transform's last argument `keep`; without it the argument is left out.
    """

    name: str
    summary: str
    stage: Stage
    transform: Callable[..., Any]
    declines: Callable[[Problem], str]
    edits_weights: bool = False
    own_modules: bool = False
    while_running: bool = False
    needs: frozenset[str] = frozenset()
    excludes: frozenset[str] = frozenset()
    restores: bool = False
    foundation: bool = False
    prior_cpu: float = 0.0
    prior_cuda: float = 0.0
    suits: Callable[[Problem], float] = lambda _problem: 0.0
    blamed_for: tuple[str, ...] = ()
    adapt: Callable[[Problem], tuple[str, ...]] | None = None

    def gain(self, problem: Problem) -> float:
        """The expected log speedup on a problem, before anything is measured."""
        return (self.prior_cuda if problem.facts.is_cuda else self.prior_cpu) + self.suits(problem)

    def call(self, keep: tuple[str, ...] | None = None) -> str:
        """The transform's call in a candidate file.

        Args:
            keep: what `adapt` found; the transform's own default without it.
        """
        function = inspect.unwrap(self.transform)
        given = [name for name in inspect.signature(function).parameters if name != "keep"]
        given += [f"keep={keep!r}"] if keep is not None else []
        return f"{function.__name__}({', '.join(given)})"


def _equal(first: Any, second: Any) -> bool:
    if isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor):
        return torch.allclose(first, second, rtol=1e-3, atol=1e-5, equal_nan=True)
    return type(first) is type(second)


def needs_graph(problem: Problem) -> str:
    """Why a recipe that edits the graph declines, empty when there is a graph."""
    return problem.captured[1]


def may_draw(node: torch.fx.Node) -> bool:
    """Whether an operator may draw random numbers; attention does where it drops weights."""
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    dropout: Any = node.kwargs.get("dropout_p", node.args[4] if len(node.args) > 4 else 0.0)
    return not calls(node, "scaled_dot_product_attention") or bool(dropout)


def uses(problem: Problem, *names: str) -> bool:
    """Whether the captured graph calls one of these aten operators, for example `conv2d`."""
    graph = problem.graph
    if graph is None:
        return False
    called = {str(node.target).split(".")[1] for node in graph.graph.nodes if str(node.target).startswith("aten.")}
    return not called.isdisjoint(names)
