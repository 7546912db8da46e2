"""Capturing experts that a router chooses, without asking the host how many tokens each one gets.

Such models split tokens that they sorted by expert, or loop over the experts and pick each one's
tokens. Both ask the host for sizes. `ManyExperts` watches the model's own code while it is
captured. What an expert is given stands for rows that are not known yet. Where the experts' results
meet, the rows of all experts are computed at once, as grouped products. The captured graph
therefore holds for any numbers of tokens. Does not know how such products are computed
(`experts_operator`). Imports nothing of PIKE but what is copied into candidates, as it is itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from pike.recipes.capture.graph import add_tensor, call_before, calls, capture_graph, finish_edit, nodes_calling
from pike.recipes.kernels.experts_operator import experts_operator, grouped_product

ROW_BY_ROW = frozenset({"silu", "gelu", "relu", "sigmoid", "tanh", "mul", "add", "sub", "square", "to", "float"})
"""Functions that treat each row alone if their other arguments are numbers."""


class Sizes(list[object]):
    """One size for each expert; the numbers are not known while a model is captured.

    Args:
        each: the sizes, on the device.
    """

    def __init__(self, each: torch.Tensor) -> None:
        super().__init__(object() for _ in range(each.numel()))
        self.each = each


class Counts:
    """Stands for the result of `bincount`, of which models ask the sizes only."""

    def __init__(self, each: torch.Tensor) -> None:
        self.each = each

    def tolist(self) -> list[object]:
        """The sizes that `split` takes."""
        return Sizes(self.each)


class RoutedTokens:
    """The tokens that chose an expert (axis 0), or the place of that choice (axis 1)."""

    def __init__(self, chosen: torch.Tensor, expert: int, axis: int) -> None:
        self.chosen, self.expert, self.axis = chosen, expert, axis


class ExpertRows:
    """The rows of one expert or a function of them: how they come about, not their values.

    Args:
        rows: the rows of all experts, one after the other.
        count: the number of rows of each of so many experts.
        expert: its index.
        made_by: a function and its arguments; None where these are the rows themselves.
    """

    def __init__(
        self,
        rows: torch.Tensor,
        count: Callable[[int], torch.Tensor],
        expert: int,
        made_by: tuple[Any, tuple[Any, ...], Any] | None = None,
    ) -> None:
        self.rows, self.count, self.expert, self.made_by = rows, count, expert, made_by

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.cat:
            return join(list(args[0]))
        mine = next(value for value in args if isinstance(value, ExpertRows))
        return ExpertRows(mine.rows, mine.count, mine.expert, (func, args, kwargs or {}))

    def __len__(self) -> int:
        return 1  # never empty, so that no expert is skipped

    def __mul__(self, other: Any) -> Any:
        return ExpertRows.__torch_function__(torch.mul, (), (self, other))

    __rmul__ = __mul__

    def __add__(self, other: Any) -> Any:
        return ExpertRows.__torch_function__(torch.add, (), (self, other))

    def __getattr__(self, name: str) -> Any:
        method = getattr(torch.Tensor, name)
        if not callable(method):
            raise AttributeError(f"{name} of an expert's rows is not known")
        return lambda *args, **kwargs: ExpertRows.__torch_function__(method, (), (self, *args), kwargs)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the rows that the expert was given."""
        return self.rows.dtype


class ManyExperts(TorchFunctionMode):
    """While it is entered, it answers the model's questions about the rows of experts."""

    def __init__(self) -> None:
        super().__init__()
        self.compared: list[tuple[torch.Tensor, torch.Tensor, int]] = []
        self.orders: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.gathered: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []
        self.gaining: list[tuple[torch.Tensor, torch.Tensor, list[Any]]] = []

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs, name = kwargs or {}, getattr(func, "__name__", "").strip("_")
        if name in ("getitem", "setitem") and is_picked(args[1]):
            return self.get(*args) if name == "getitem" else self.set(*args)
        if name != "get":  # shapes do not depend on values
            self.settle((args, kwargs))
        if name == "bincount" and len(args) == 1 and isinstance(kwargs.get("minlength"), int):
            return Counts(count_each(args[0], kwargs["minlength"]))
        if name == "split" and len(args) > 1 and isinstance(args[1], Sizes):
            each = args[1].each
            return tuple(ExpertRows(args[0], lambda _: each, expert) for expert in range(len(args[1])))
        if name == "where" and len(args) == 1:
            for mask, chosen, expert in self.compared:
                if mask is args[0]:
                    return RoutedTokens(chosen, expert, 0), RoutedTokens(chosen, expert, 1)
        found = func(*args, **kwargs)
        if name == "eq" and type(args[1]) is int and isinstance(found, torch.Tensor):
            self.compared.append((found, args[0], args[1]))
        return found

    def get(self, owner: torch.Tensor, index: Any) -> ExpertRows:
        """The rows of `owner` that an expert is given, or its tokens' weights for it."""
        first = index if isinstance(index, RoutedTokens) else index[0]
        order = self.order(first.chosen)
        rows = next((rows for one, by, rows in self.gathered if one is owner and by is first.chosen), None)
        if rows is None:
            if first is index:
                rows = owner[order // first.chosen.shape[1]]
            else:
                rows = owner.flatten()[order].view(-1, *[1] * (len(index) - 2))
            self.gathered.append((owner, first.chosen, rows))
        return ExpertRows(rows, lambda count: count_each(first.chosen, count), first.expert)

    def order(self, chosen: torch.Tensor) -> torch.Tensor:
        """The order of tokens by expert, worked out once."""
        known = next((order for by, order in self.orders if by is chosen), None)
        if known is None:
            known = chosen.flatten().argsort(stable=True)
            self.orders.append((chosen, known))
        return known

    def set(self, owner: torch.Tensor, index: RoutedTokens, value: Any) -> None:
        """`owner[index] += value`, remembered until the model reads the owner."""
        func, (before, *gained), more = value.made_by
        same = before.made_by is None and before.rows is self.get(owner, index).rows
        if getattr(func, "__name__", "") != "add" or more or not same:
            raise RuntimeError("rows of experts are not added to what was there")
        for one, by, parts in self.gaining:
            if one is owner and by is index.chosen:
                parts += gained
                return
        self.gaining.append((owner, index.chosen, gained))

    def settle(self, asked: Any) -> None:
        """Add what experts made of their rows to the tensors that the model reads now."""
        if not self.gaining:
            return
        leaves = torch.utils._pytree.tree_leaves(asked)
        for gain in [gain for gain in self.gaining if any(leaf is gain[0] for leaf in leaves)]:
            self.gaining.remove(gain)
            owner, chosen, parts = gain
            made = join(parts)
            back = torch.empty_like(made).index_copy(0, self.order(chosen), made)
            owner.add_(back.view(*chosen.shape, -1).sum(1))


def is_picked(index: Any) -> bool:
    """Whether an index picks an expert's tokens, with or without the place of their choice."""
    if isinstance(index, RoutedTokens):
        return index.axis == 0
    both = isinstance(index, tuple) and len(index) > 1 and all(isinstance(one, RoutedTokens) for one in index[:2])
    return both and (index[0].axis, index[1].axis) == (0, 1) and all(one is None for one in index[2:])


def count_each(values: torch.Tensor, count: int) -> torch.Tensor:
    """How often each of 0 to count - 1 is among the values: `bincount` without asking the host."""
    numbers = torch.arange(count, device=values.device)
    return (values.flatten()[None] == numbers[:, None]).sum(1)


def join(parts: list[Any]) -> torch.Tensor:
    """The outputs of all experts for their rows, one after the other.

    Raises:
        RuntimeError: the parts are not one of each expert in order, or experts do what cannot be
            done for all at once.
    """
    each = parts[0].count(len(parts))
    if [part.expert for part in parts] != list(range(each.numel())):
        raise RuntimeError("rows of experts are not joined in their order")
    return computed(parts, torch.cumsum(each, 0).to(torch.int32), {})


def computed(parts: list[Any], ends: torch.Tensor, known: dict[int, torch.Tensor]) -> torch.Tensor:
    """All rows of one step of every expert; `ends` is where the rows of each expert end."""
    first = parts[0]
    if first.made_by is None:
        rows: torch.Tensor = first.rows
        return rows
    if id(first) not in known:
        func, args, kwargs = first.made_by
        steps: list[Any] = [part.made_by or (None, (), {}) for part in parts]
        if any((step[0], len(step[1]), step[2]) != (func, len(args), kwargs) for step in steps):
            raise RuntimeError("experts differ in what they do")
        columns = [[step[1][index] for step in steps] for index in range(len(args))]
        wholes = [computed(column, ends, known) if isinstance(column[0], ExpertRows) else None for column in columns]
        known[id(first)] = one_step(func, columns, wholes, kwargs, ends)
    return known[id(first)]


def one_step(
    func: Any, columns: list[list[Any]], wholes: list[torch.Tensor | None], kwargs: dict[str, Any], ends: torch.Tensor
) -> torch.Tensor:
    """One function of all experts at once."""
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
    """The product of each row with its expert's weights, plus its expert's bias.

    Raises:
        RuntimeError: there is no such product for these bits.
    """
    product = grouped_product(rows, weights, ends)
    if bias is None:
        return product
    owners = torch.searchsorted(ends, torch.arange(rows.shape[0], device=ends.device, dtype=ends.dtype), right=True)
    return product + bias[owners]


def capture_experts(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.fx.GraphModule:
    """Captures a model as `capture_graph` does, also where the host asks for the experts' sizes.

    Raises:
        RuntimeError: experts do what cannot be done for all at once (and what else `capture_graph`
            raises).
    """
    watch = ManyExperts()
    with watch:
        graph = capture_graph(model, args, kwargs)
    if watch.gaining:
        raise RuntimeError("the model never reads what rows of experts are added to")
    multiply_together(graph)
    store_stacks(graph)
    graph.meta["experts"] = True
    return graph


def is_captured_with_experts(graph: torch.fx.GraphModule) -> bool:
    """Whether the graph holds only because of `capture_experts`."""
    return bool(graph.meta.get("experts"))


def one_by_one(graph: torch.fx.GraphModule) -> list[torch.fx.Node]:
    """Grouped products of transformers that ask the host for sizes, as it makes them of most numbers."""
    return [node for node in graph.graph.nodes if str(node.target).startswith("transformers.grouped_mm_fallback")]


def multiply_together(graph: torch.fx.GraphModule) -> None:
    """Make them products that ask nobody."""
    for call in one_by_one(graph):
        given: Any = call.args
        rows, weights, ends = given
        turned = calls(weights, "transpose") and {axis % 3 for axis in weights.args[1:]} == {1, 2}
        stacked = weights.args[0] if turned else call_before(call, torch.ops.aten.transpose.int, weights, 1, 2)
        ends = call_before(call, torch.ops.aten._to_copy.default, ends, dtype=torch.int32)
        product = call_before(call, experts_operator(), rows, stacked, ends, "bf16x6")
        product.meta.update(call.meta)
        call.replace_all_uses_with(product)
    finish_edit(graph)


def store_stacks(graph: torch.fx.GraphModule) -> None:
    """Stack weights once instead of at each call; they become slices, so memory is not doubled."""
    for node in nodes_calling(graph, "stack"):
        read: Any = node.args[0]
        if not all(source.op == "get_attr" for source in read):
            continue
        weights = [graph.get_parameter(str(source.target)) for source in read]
        stack = torch.stack([weight.detach() for weight in weights])
        for weight, part in zip(weights, stack, strict=True):
            weight.data = part
        node.replace_all_uses_with(add_tensor(graph, "experts", stack, node))
    finish_edit(graph)
