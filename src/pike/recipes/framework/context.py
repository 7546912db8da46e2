"""What recipes look at before they apply: the model, its graph, the device and the terms.

Knows how to find out once what several recipes ask for. Does not know any recipe: those that can
capture a model in another way, or that spare a compiler some operators, are registered as
functions.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from pike.core.device import DeviceFacts
from pike.core.verdict.evaluation import EvaluateOptions
from pike.recipes.capture.exclusive import at_most, exclusively
from pike.recipes.capture.graph import capture_graph
from pike.recipes.capture.work import may_draw, operations
from pike.recipes.framework.prepared import own_copy

MOST_OPERATIONS_HERE = 10**11
"""Models with more multiplications and additions are not called on the CPU to see if they are
steady."""

_SAME_FUNCTION = 0.1
"""The share of a value by which a graph's may be off in the model's own arithmetic."""

SECONDS_PER_OPERATOR = 0.1
"""Seconds to compile one operator, roughly, for networks of 300 to 700 operators on an H200 beside
seven other judges (benchmarks/trials/h200-x2-2026-11-23)."""

COMPILER_SECONDS = 8.0
"""Seconds that a compiler takes for the smallest model, starting it included."""

Capture = Callable[["RecipeContext"], torch.fx.GraphModule]
"""Another way to capture a model that `capture_graph` cannot capture; raises where it does not
help."""

CompileSaving = Callable[["RecipeContext"], int]
"""How many operators of the graph a compiler need not compile once a recipe has replaced them."""


@dataclass(frozen=True, eq=False)
class RecipeContext:
    """Everything a recipe may look at before it applies; what is costly is found out once.

    Attributes:
        model: the original, in eval mode, on the CPU; never changed.
        args: example positional arguments.
        kwargs: example keyword arguments.
        facts: the device that candidates run on.
        options: the terms under which they are judged.
        captures: further ways to capture the model, tried in order.
        savings: what recipes spare a compiler.
        notes: what recipes found out about the problem and want to find out only once, by a key of
            theirs.
        seconds: the most for capturing and for one recipe's look, None for no limit.
        uncapturable: why the model is not to be captured again, empty where it may be.
    """

    model: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    facts: DeviceFacts
    options: EvaluateOptions = field(default_factory=EvaluateOptions)
    captures: tuple[Capture, ...] = ()
    savings: tuple[CompileSaving, ...] = ()
    notes: dict[str, Any] = field(default_factory=dict)
    seconds: float | None = None
    uncapturable: str = ""

    def limited(self, seconds: float, uncapturable: str = "") -> RecipeContext:
        """The same problem in the main thread of a process, where a limit of time can be kept."""
        return replace(self, seconds=seconds, uncapturable=uncapturable, notes={})

    @functools.cached_property
    def captured(self) -> tuple[torch.fx.GraphModule | None, str]:
        """The model as a graph, or None and why it cannot be captured."""
        why = self.uncapturable
        for capture in () if why else (_plainly, *self.captures):
            try:
                with exclusively(), at_most(self.seconds):
                    graph = capture(self)
            except Exception as error:  # export runs the user's forward and raises many kinds of errors
                why = why or in_words(error)
                continue
            differs = self._differs(graph)
            if not differs:
                return graph, ""
            why = why or differs
        return None, f"the model cannot be captured as a graph: {why}"

    @property
    def graph(self) -> torch.fx.GraphModule | None:
        """The model as a graph of aten operators, None where it cannot be captured."""
        return self.captured[0]

    @property
    def no_graph(self) -> str:
        """Why there is no graph, empty where there is one."""
        return self.captured[1]

    @property
    def nodes(self) -> list[torch.fx.Node]:
        """The nodes of the graph in order, none where there is no graph."""
        return list(self.graph.graph.nodes) if self.graph else []

    @property
    def operators(self) -> int:
        """How many operators the graph calls."""
        return sum(node.op == "call_function" for node in self.nodes)

    @functools.cached_property
    def unsteady(self) -> str:
        """Why nothing may be built ahead for a model that answers differently when called again.

        A captured model keeps no state. One that is slow to call here is therefore called only if
        it may draw numbers. One that is too slow counts as steady: the judge looks again.
        """
        if self.graph and operations(self.graph) > MOST_OPERATIONS_HERE and not any(map(may_draw, self.nodes)):
            return ""
        try:
            same = _alike(*self._answers, _equal)
        except TimeoutError:
            return ""  # not known; the judge sees it
        except Exception as error:  # the user's own forward may raise anything
            return f"the model cannot be called here: {in_words(error)}"
        return "" if same else "the model gives different answers to the same input (state or chance)"

    @functools.cached_property
    def _answers(self) -> tuple[Any, Any]:
        """The outputs of two calls of a copy of the model on copies of the inputs; raises what the model raises."""
        with torch.no_grad(), exclusively(), at_most(self.seconds):
            model = copy.deepcopy(self.model)
            return self._answer(model), self._answer(model)

    def _answer(self, model: torch.nn.Module) -> Any:
        return model(*own_copy(self.args), **own_copy(self.kwargs))

    def _differs(self, graph: torch.fx.GraphModule) -> str:
        """Why a captured graph does not stand for the model, empty where it does or is not called.

        Modules may take another path while they are captured: a transformer's encoder gives zeros
        for padding, and its graph does not.
        """
        if operations(graph) > MOST_OPERATIONS_HERE or any(map(may_draw, graph.graph.nodes)):
            return ""
        try:
            first, second = self._answers
            if not _alike(first, second, _equal):
                return ""  # `unsteady` says so
            with torch.no_grad(), exclusively(), at_most(self.seconds):
                same = _alike(first, self._answer(graph), _resembles)
        except Exception:  # `unsteady` says what the model raises, and the judge what the graph raises
            return ""
        return "" if same else "the graph gives other answers than the model"

    @property
    def no_compiler(self) -> str:
        """Why torch.compile cannot generate code here at all, empty when it can."""
        needed = ("triton",) if self.facts.is_cuda else ("g++", "clang++")
        if any(name in self.facts.compilers for name in needed):
            return ""
        return f"torch.compile needs {' or '.join(needed)} here"

    @functools.cached_property
    def compiler(self) -> str:
        """Why the whole model cannot be compiled in the judge's limit, empty when it can."""
        saved = sum(_saved(saving, self) for saving in self.savings)
        if self.compiling_seconds - SECONDS_PER_OPERATOR * saved > self.options.timeout_seconds:
            return "compiling all operators of the model would take longer than the judge's limit"
        return self.no_compiler

    @property
    def compiling_seconds(self) -> float:
        """Seconds for the operators of the captured model; 0 where it cannot be captured."""
        return SECONDS_PER_OPERATOR * self.operators

    def lacks(self, find: Callable[[torch.fx.GraphModule], object], otherwise: str) -> str:
        """Why a recipe has nothing to edit: no graph, or nothing found in it; empty if there is.

        Args:
            find: what the recipe would edit in a graph.
            otherwise: the reason where that is nothing.
        """
        if self.graph is None:
            return self.no_graph
        return "" if find(self.graph) else otherwise

    def uses(self, *names: str) -> bool:
        """Whether the captured graph calls one of these aten operators, for example `conv2d`."""
        called = {str(node.target).split(".")[1] for node in self.nodes if str(node.target).startswith("aten.")}
        return not called.isdisjoint(names)


def in_words(error: Exception) -> str:
    """The kind of an error and the first line of what it says."""
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or ['no message'])[0]}"


def seconds_to_compile(problem: RecipeContext) -> float:
    """Seconds to compile the whole model; one that cannot be captured is judged by its modules."""
    return COMPILER_SECONDS + (problem.compiling_seconds or SECONDS_PER_OPERATOR * len(list(problem.model.modules())))


def _plainly(problem: RecipeContext) -> torch.fx.GraphModule:
    return capture_graph(problem.model, problem.args, problem.kwargs)


def _saved(saving: CompileSaving, problem: RecipeContext) -> int:
    try:
        return saving(problem)
    except Exception:  # a recipe that cannot look at this model spares nothing
        return 0


def _alike(first: Any, second: Any, agree: Callable[[Any, Any], bool]) -> bool:
    """Whether all leaves of two outputs agree."""
    leaves, others = (torch.utils._pytree.tree_leaves(outputs) for outputs in (first, second))
    return len(leaves) == len(others) and all(map(agree, leaves, others))


def _resembles(value: Any, other: Any) -> bool:
    """Whether two values may be one function's: whole numbers may differ, as rounding decides."""
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return type(value) is type(other)
    distance, size = (value - other).double().norm(), value.double().norm()
    return value.shape == other.shape and not bool(distance > _SAME_FUNCTION * size)


def _equal(first: Any, second: Any) -> bool:
    if isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor):
        return torch.allclose(first, second, rtol=1e-3, atol=1e-5, equal_nan=True)
    return type(first) is type(second)
