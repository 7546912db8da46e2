"""Reading and editing a captured model: the functions that graph recipes share.

Knows `torch.export` and FX graphs of aten operators. Does not know any recipe. Imports nothing of
PIKE, because its functions are copied into candidates and must work alone there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from pike.recipes.capture.memory import keeps_apart

CHANGES_INPUTS = "the model changes its inputs"
"""Why there is no graph of a model that its caller cannot call again with the same arguments."""


def capture_graph(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.fx.GraphModule:
    """The model as a flat graph of aten operators, for inputs of exactly these shapes and dtypes.

    A graph that was captured before is returned as it is. The graph shares the model's weights.

    Raises:
        RuntimeError: the model changes its own state or its inputs (torch.export raises others
            where control flow depends on values).
    """
    if isinstance(model, torch.fx.GraphModule) and model.meta.get("captured"):
        return model
    keep_checks()
    with torch.no_grad(), same_arguments(model):
        program = torch.export.export(model, args, kwargs, strict=False)
        if any(changes_a_tensor(node) for node in program.graph.nodes):
            program = program.run_decompositions({})
    signature = program.graph_signature
    if signature.buffers_to_mutate:
        raise RuntimeError("the model changes its own buffers")
    if signature.user_inputs_to_mutate:
        raise RuntimeError(CHANGES_INPUTS)
    exported = program.module()
    graph = torch.fx.GraphModule(exported, exported.graph)
    tidy_graph(graph)
    graph.meta["captured"] = True
    graph.eval()
    return graph


@contextlib.contextmanager
def same_arguments(model: torch.nn.Module) -> Iterator[None]:
    """Raise `RuntimeError` if the model puts something into its caller's lists and dictionaries, or takes it out.

    torch.export hands the model copies of them, so a graph would lose that in silence.
    """
    seen: list[Any] = []

    def note(_model: Any, args: Any, kwargs: Any, *_outputs: Any) -> None:
        seen.append(torch.utils._pytree.tree_flatten((args, kwargs)))

    hooks = [hang(note, with_kwargs=True) for hang in (model.register_forward_pre_hook, model.register_forward_hook)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
    for (before, structure), (after, other) in zip(seen[::2], seen[1::2], strict=False):
        if structure != other or any(one is not another for one, another in zip(before, after, strict=True)):
            raise RuntimeError(CHANGES_INPUTS)


def changes_a_tensor(node: torch.fx.Node) -> bool:
    """Whether a node calls an operator that writes into one of its arguments."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and bool(schema.is_mutable)


def keep_checks() -> None:
    """Have whatever simplifies graphs keep checks without a message.

    PyTorch 2.13 counts `torch._assert_async(x)` among operators without effect and drops it, in
    torch.compile too. It keeps the same check with a message.
    """
    torch.fx.node.has_side_effect(torch.ops.aten._assert_async.default)


def is_capture_check(node: torch.fx.Node) -> bool:
    """Whether torch.export put a check into the graph by itself; those that the model made stay.

    Three kinds are its own. `_guards_fn` and `_assert_tensor_metadata` check shapes, dtypes and
    devices of inputs, for which a candidate looks before it runs the graph. `_assert_scalar` for the
    range of a size or number repeats what its operator ensures. `torch._check` on such a number
    becomes an `_assert_scalar` too: there the condition itself is among the assertions that were put
    off until the model runs, and ranges are not. `torch._assert_async` only comes from the model.
    """
    if node.op == "call_module":
        return node.target == "_guards_fn"
    if node.target is torch.ops.aten._assert_tensor_metadata.default:
        return True
    if node.target is not torch.ops.aten._assert_scalar.default or not node.all_input_nodes:
        return False
    condition = example_of(node.all_input_nodes[0]).node
    put_off = condition.shape_env.deferred_runtime_asserts.values()
    return all(condition.expr != one.expr for assertions in put_off for one in assertions)


def done_for_effect(graph: torch.fx.GraphModule) -> list[torch.fx.Node]:
    """The operators of a tidy graph whose results are not read: the model's checks, unused draws."""
    called = [node for node in nested_nodes(graph) if node.op == "call_function" and not node.users]
    return [node for node in called if node.is_impure()]


def tidy_graph(graph: torch.fx.GraphModule) -> None:
    """Drop the capture's checks and copies that change no value; make the rest hold in any layout.

    Views become reshapes, and outputs that were contiguous are made so (which is free where they
    are). Copies that keep what the model returns apart stay.
    """
    aten = torch.ops.aten
    for node in list(graph.graph.nodes):
        if is_capture_check(node):
            graph.graph.erase_node(node)
        elif node.target in (aten.alias.default, aten.clone.default, aten.detach.default):
            source = operand(node, 0)
            apart = node.target is aten.clone.default and keeps_apart(graph, node)
            if "memory_format" not in node.kwargs and source.op != "placeholder" and not apart:
                node.replace_all_uses_with(source)
                graph.graph.erase_node(node)
        elif node.target is aten.dropout.default and not operand(node, 2):
            node.replace_all_uses_with(operand(node, 0))
            graph.graph.erase_node(node)
        elif node.target is aten.view.default:
            node.target = aten.reshape.default
    output = graph.graph.output_node()
    output.args = torch.fx.map_arg(output.args, lambda node: contiguous_before(output, node))
    finish_edit(graph)


def contiguous_before(output: torch.fx.Node, node: torch.fx.Node) -> torch.fx.Node:
    """A contiguous copy of `node` for the output to read, or `node` itself where none is needed."""
    example = example_of(node)
    if not isinstance(example, torch.Tensor) or not example.is_contiguous():
        return node
    kept = call_before(output, torch.ops.aten.contiguous.default, node)
    kept.meta.update(node.meta)
    return kept


def finish_edit(graph: torch.fx.GraphModule) -> None:
    """Drop unused nodes and make the edits take effect."""
    graph.graph.eliminate_dead_code()
    graph.delete_all_unused_submodules()
    graph.graph.lint()
    graph.recompile()


def nodes_calling(graph: torch.fx.GraphModule, *names: str) -> list[torch.fx.Node]:
    """The nodes that call an aten operator of these names (any overload), in order.

    Nodes with sizes that depend on values are left out: recipes decide by sizes.
    """
    return [node for node in graph.graph.nodes if calls(node, *names) and knows_sizes(node)]


def knows_sizes(node: torch.fx.Node) -> bool:
    """Whether all tensors that a node reads and gives had known sizes while it was captured."""
    examples = [example_of(one) for one in (node, *node.all_input_nodes)]
    return all(has_size(leaf) for leaf in torch.utils._pytree.tree_leaves(examples) if isinstance(leaf, torch.Tensor))


def has_size(value: Any) -> bool:
    """Whether a value is a tensor whose shape is known while the model is captured."""
    return isinstance(value, torch.Tensor) and all(isinstance(size, int) for size in value.shape)


def needs_host(node: torch.fx.Node) -> bool:
    """Whether a shape or the path after a node depends on values, so that the host waits."""
    leaves = torch.utils._pytree.tree_leaves(example_of(node))
    sizes = [size for leaf in leaves if isinstance(leaf, torch.Tensor) for size in leaf.shape]
    return gives_host_value(node) or not all(isinstance(size, int) for size in sizes)


def gives_host_value(node: torch.fx.Node) -> bool:
    """Whether a node hands a number to the host that was read from a tensor, or branches by one.

    What runs such a graph once and keeps what the host saw would answer later calls by that call's
    values.
    """
    if torch.Tag.data_dependent_output in getattr(node.target, "tags", ()):
        return True
    if isinstance(node.target, torch._ops.HigherOrderOperator) and str(node.target) in ("cond", "while_loop"):
        return True
    leaves = torch.utils._pytree.tree_leaves(example_of(node))
    return any(isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool) for value in leaves)


def nested_nodes(graph: torch.fx.GraphModule) -> list[torch.fx.Node]:
    """The nodes of a graph and of the graphs that its operators call, as `torch.cond` does."""
    parts = [part for part in graph.modules() if isinstance(part, torch.fx.GraphModule)]
    return [node for part in parts for node in part.graph.nodes]


def calls(node: Any, *names: str) -> bool:
    """Whether a value is a node that calls an aten operator of these names (any overload)."""
    packet = getattr(getattr(node, "target", None), "overloadpacket", None)
    return packet is not None and any(packet is getattr(torch.ops.aten, name) for name in names)


def sole_user(node: torch.fx.Node) -> torch.fx.Node | None:
    """The only node that reads a node, None where there are several or none."""
    return next(iter(node.users)) if len(node.users) == 1 else None


def operand(node: torch.fx.Node, index: int) -> Any:
    """A positional argument of a node's call, None where it was left out."""
    return node.args[index] if index < len(node.args) else None


def example_of(node: torch.fx.Node) -> Any:
    """The example of a node's value: a tensor without data that has shape, dtype and device."""
    return node.meta.get("val")


def tensor_at(graph: torch.fx.GraphModule, node: Any) -> torch.Tensor | None:
    """The weight or buffer that a node reads, None for any other node."""
    if not isinstance(node, torch.fx.Node) or node.op != "get_attr":
        return None
    value: Any = graph
    for name in str(node.target).split("."):
        value = getattr(value, name)
    return value.detach() if isinstance(value, torch.Tensor) else None


def call_leaves(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """The arguments of a call without the structure around them."""
    leaves: list[Any] = torch.utils._pytree.tree_leaves((args, kwargs))
    return leaves


def tensors_only(
    captured: torch.fx.GraphModule, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[torch.fx.GraphModule, list[Any]]:
    """A captured model as a function from tensors to a tuple of tensors, and one call's tensors.

    Arguments and outputs that are no tensors are left out: `FlatCall` puts the outputs back.
    """
    graph = torch.fx.Graph()  # without the code that takes arguments apart and puts outputs together
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    graph.graph_copy(captured.graph, copies)
    graph.output(tuple(copies[leaf] for leaf in returned(captured) if isinstance(leaf, torch.fx.Node)))
    tensors: list[Any] = []
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    for node, leaf in zip(inputs, call_leaves(args, kwargs), strict=True):
        if isinstance(leaf, torch.Tensor):
            tensors.append(leaf)
        else:  # its value is part of the graph
            graph.erase_node(node)
    return torch.fx.GraphModule(captured, graph), tensors


def returned(graph: torch.fx.GraphModule) -> list[Any]:
    """What a captured model returns, without the structure: nodes, and values that never change."""
    outputs: Any = graph.graph.output_node().args[0]
    leaves: list[Any] = torch.utils._pytree.tree_leaves(outputs)
    return leaves


class FlatCall:
    """Gives a function on flat tensors the signature of the model that it stands for.

    Args:
        function: takes the tensors among the arguments in order and returns those among the
            outputs; other arguments are those of the example call.
        args: example positional arguments.
        kwargs: example keyword arguments.
        captured: the model's graph.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        captured: torch.fx.GraphModule,
    ) -> None:
        leaves, self.outputs = call_leaves(args, kwargs), returned(captured)
        codegen: Any = captured.graph._codegen
        self.function, self.structure = function, codegen.pytree_info.out_spec
        self.slots = [index for index, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.places = [index for index, leaf in enumerate(self.outputs) if isinstance(leaf, torch.fx.Node)]
        self.plain = not kwargs and all(isinstance(value, torch.Tensor) for value in args)
        self.single = self.structure == torch.utils._pytree.tree_structure(0)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The outputs in their structure."""
        if not self.plain:
            leaves = call_leaves(args, kwargs)
            args = tuple(leaves[index] for index in self.slots)
        outputs = self.function(*args)
        if self.single:
            return outputs[0]
        whole = list(self.outputs)
        for place, output in zip(self.places, outputs, strict=True):
            whole[place] = output
        return torch.utils._pytree.tree_unflatten(whole, self.structure)


def first_operation(graph: torch.fx.GraphModule) -> torch.fx.Node:
    """The node after the last input: what is inserted before it can read every input."""
    inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
    first: torch.fx.Node = inputs[-1].next if inputs else next(iter(graph.graph.nodes))
    return first


def add_tensor(graph: torch.fx.GraphModule, name: str, value: torch.Tensor, before: torch.fx.Node) -> torch.fx.Node:
    """Store a tensor in the graph under a new name and read it just before a node."""
    count = 0
    while hasattr(graph, f"{name}_{count}"):
        count += 1
    graph.register_buffer(f"{name}_{count}", value.detach())
    with graph.graph.inserting_before(before):
        node = graph.graph.get_attr(f"{name}_{count}")
    mode = fake_mode_of(graph.graph)
    node.meta["val"] = (
        value.detach().to("meta") if mode is None else mode.from_tensor(value.detach(), static_shapes=True)
    )
    return node


def call_before(before: torch.fx.Node, target: Any, *args: Any, **kwargs: Any) -> torch.fx.Node:
    """Insert a call just before a node, with an example of its value where one can be computed."""
    with before.graph.inserting_before(before):
        node = before.graph.call_function(target, args, kwargs)
    add_example(node)
    return node


def fake_mode_of(graph: torch.fx.Graph) -> Any:
    """The mode in which capturing made the examples of this graph, None where there are none."""
    for node in graph.nodes:
        mode = getattr(example_of(node), "fake_mode", None)
        if mode is not None:
            return mode
    return None


def add_example(node: torch.fx.Node) -> None:
    """Give a node its example, computed from the examples of its inputs."""
    mode = fake_mode_of(node.graph)
    if mode is None or any(example_of(source) is None for source in node.all_input_nodes):
        return
    function: Any = node.target
    args: Any = torch.fx.map_arg(node.args, example_of)
    kwargs: Any = torch.fx.map_arg(node.kwargs, example_of)
    with contextlib.suppress(Exception), mode, torch.no_grad():  # a recipe's own operator may know no examples
        node.meta["val"] = function(*args, **kwargs)
