"""Capturing experts that a router chooses, without asking the host how many tokens each one gets.

Models with routed experts sort tokens by expert, ask the host for the sizes, split, call each expert on its part and
join the parts. `ManyExperts` watches the model's own code do so while it is captured: the parts stand for rows that are
not known yet, and joining them computes every expert's rows at once, as grouped products. What is captured therefore
holds for any sizes. Imports nothing of PIKE, because its functions must work alone inside a candidate file.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from pike.recipes.graph import add_tensor, capture_graph, finish_edit, nodes_calling

ROW_BY_ROW = frozenset({"silu", "gelu", "relu", "sigmoid", "tanh", "mul", "add", "sub", "square", "to", "float"})
"""Functions that treat each row alone, whichever expert's it is, when everything else they are given is a number."""


class ManyExperts(TorchFunctionMode):
    """While it is entered, counting and splitting the rows of experts asks the host for nothing."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs, name = kwargs or {}, getattr(func, "__name__", "")
        if name == "bincount" and len(args) == 1 and isinstance(kwargs.get("minlength"), int):
            return Counts(count_each(args[0], kwargs["minlength"]))
        if name == "split" and len(args) > 1 and isinstance(args[1], Sizes):
            return tuple(ExpertRows(args[0], args[1].each, place) for place in range(len(args[1])))
        return func(*args, **kwargs)


class Counts:
    """How many rows each expert gets, which nobody knows yet: when the host asks, an object for each that is no number."""

    def __init__(self, each: torch.Tensor) -> None:
        self.each = each

    def tolist(self) -> list[object]:
        """What `split` takes for the sizes."""
        return Sizes(self.each)


class Sizes(list[object]):
    """One size for each expert, of which nothing can be computed."""

    def __init__(self, each: torch.Tensor) -> None:
        super().__init__(object() for _ in range(each.numel()))
        self.each = each


class ExpertRows:
    """The rows of one expert, or what it makes of them: how they come about, not their values.

    Args:
        rows: the rows of all experts, one after the other.
        each: how many rows each expert gets.
        place: which expert.
        made_by: a function and its arguments; None where these are the rows themselves.
    """

    def __init__(
        self, rows: torch.Tensor, each: torch.Tensor, place: int, made_by: tuple[Any, tuple[Any, ...], Any] | None = None
    ) -> None:
        self.rows, self.each, self.place, self.made_by = rows, each, place, made_by

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.cat:
            return join(list(args[0]))
        mine = next(value for value in args if isinstance(value, ExpertRows))
        return ExpertRows(mine.rows, mine.each, mine.place, (func, args, kwargs or {}))

    def __len__(self) -> int:
        return 1  # rows of nobody do no harm

    def __mul__(self, other: Any) -> Any:
        return torch.mul(self, other)  # type: ignore[call-overload]

    def __add__(self, other: Any) -> Any:
        return torch.add(self, other)  # type: ignore[call-overload]

    def __getattr__(self, name: str) -> Any:
        method = getattr(torch.Tensor, name)
        if not callable(method):
            raise AttributeError(f"{name} of an expert's rows is not known")
        return lambda *args, **kwargs: ExpertRows.__torch_function__(method, (), (self, *args), kwargs)

    @property
    def dtype(self) -> torch.dtype:
        """Of the rows that the expert was given."""
        return self.rows.dtype


def count_each(values: torch.Tensor, count: int) -> torch.Tensor:
    """How often each of 0 to count - 1 is among the values, as `bincount` says, without asking the host."""
    numbers = torch.arange(count, device=values.device)
    return (values.flatten()[None] == numbers[:, None]).sum(1)


def join(parts: list[Any]) -> torch.Tensor:
    """What the experts make of their rows, one after the other.

    Raises:
        RuntimeError: the parts are not one of each expert in order, or experts do what cannot be done for all at once.
    """
    if [part.place for part in parts] != list(range(parts[0].each.numel())):
        raise RuntimeError("rows of experts are not joined in their order")
    return computed(parts, torch.cumsum(parts[0].each, 0).to(torch.int32), {})


def computed(parts: list[Any], ends: torch.Tensor, known: dict[int, torch.Tensor]) -> torch.Tensor:
    """All rows of one step of every expert: `parts` has that step for each, `ends` where the rows of each end."""
    first = parts[0]
    if first.made_by is None:
        return first.rows
    if id(first) not in known:
        func, args, kwargs = first.made_by
        steps = [part.made_by or (None, (), {}) for part in parts]
        if any((step[0], len(step[1]), step[2]) != (func, len(args), kwargs) for step in steps):
            raise RuntimeError("experts differ in what they do")
        columns = [[step[1][index] for step in steps] for index in range(len(args))]
        wholes = [computed(column, ends, known) if isinstance(column[0], ExpertRows) else None for column in columns]
        known[id(first)] = one_step(func, columns, wholes, kwargs, ends)
    return known[id(first)]


def one_step(
    func: Any, columns: list[list[Any]], wholes: list[torch.Tensor | None], kwargs: dict[str, Any], ends: torch.Tensor
) -> torch.Tensor:
    """One function of all experts at once; `columns` has each argument for every expert, `wholes` all rows of it."""
    name = getattr(func, "__name__", "")
    if name == "linear" and not kwargs:
        biased = len(columns) > 2 and columns[2][0] is not None
        return grouped(wholes[0], torch.stack(columns[1]), torch.stack(columns[2]) if biased else None, ends)
    arguments = [column[0] if whole is None else whole for column, whole in zip(columns, wholes, strict=True)]
    numbers = [column for column, whole in zip(columns, wholes, strict=True) if whole is None]
    given = any(isinstance(value, torch.Tensor) or value != column[0] for column in numbers for value in column)
    if name not in ROW_BY_ROW or given:
        raise RuntimeError(f"experts do '{name}', which cannot be done for the rows of all at once")
    result: torch.Tensor = func(*arguments, **kwargs)
    return result


def grouped(rows: Any, weights: torch.Tensor, bias: torch.Tensor | None, ends: torch.Tensor) -> torch.Tensor:
    """The product of each row with its expert's weights (experts, out, in), and its expert's bias (experts, out)."""
    short = -rows.shape[1] % (16 // rows.element_size())  # rows must begin at multiples of 16 bytes
    if short:
        rows, weights = torch.nn.functional.pad(rows, (0, short)), torch.nn.functional.pad(weights, (0, short))
    product: torch.Tensor = torch._grouped_mm(rows, weights.mT, offs=ends)
    if bias is None:
        return product
    owners = torch.searchsorted(ends, torch.arange(rows.shape[0], device=ends.device, dtype=ends.dtype), right=True)
    return product + bias[owners]


def capture_experts(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.fx.GraphModule:
    """What `capture_graph` gives, also where the host asks how many rows each expert gets.

    Raises:
        RuntimeError: experts do what cannot be done for all at once (and what else `capture_graph` raises).
    """
    with ManyExperts():
        graph = capture_graph(model, args, kwargs)
    store_stacks(graph)
    graph.meta["experts"] = True
    return graph


def is_captured_with_experts(graph: torch.fx.GraphModule) -> bool:
    """Whether the graph holds only because of `capture_experts`."""
    return bool(graph.meta.get("experts"))


def store_stacks(graph: torch.fx.GraphModule) -> None:
    """Stack weights once instead of at each call; they become slices of the stack, so that nothing is held twice."""
    for node in nodes_calling(graph, "stack"):
        if not all(source.op == "get_attr" for source in node.args[0]):
            continue
        weights = [graph.get_parameter(str(source.target)) for source in node.args[0]]
        stack = torch.stack([weight.detach() for weight in weights])
        for weight, part in zip(weights, stack, strict=True):
            weight.data = part
        node.replace_all_uses_with(add_tensor(graph, "experts", stack, node))
    finish_edit(graph)
