"""Reading and editing a captured model: the functions that graph recipes share, copied into candidates with them.

Knows `torch.export` and FX graphs of aten operators. Does not know any recipe. Imports nothing of PIKE, because its
functions must work alone inside a candidate file.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch


def capture_graph(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.fx.GraphModule:
    """The model as a flat graph of aten operators, for inputs of exactly these shapes and dtypes.

    A graph that was captured before is returned as it is. The graph shares the model's weights.

    Raises:
        RuntimeError: the model changes its own state or its inputs (torch.export raises others where control flow
            depends on values).
    """
    if isinstance(model, torch.fx.GraphModule) and model.meta.get("captured"):
        return model
    with torch.no_grad():
        program = torch.export.export(model, args, kwargs, strict=False)
        if any(changes_a_tensor(node) for node in program.graph.nodes):
            program = program.run_decompositions({})
    signature = program.graph_signature
    if signature.buffers_to_mutate or signature.user_inputs_to_mutate:
        raise RuntimeError("the model changes its own buffers or its inputs")
    exported = program.module()
    graph = torch.fx.GraphModule(exported, exported.graph)
    tidy_graph(graph)
    graph.meta["captured"] = True
    graph.eval()
    return graph


def changes_a_tensor(node: torch.fx.Node) -> bool:
    """Whether a node calls an operator that writes into one of its arguments."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and bool(schema.is_mutable)


def tidy_graph(graph: torch.fx.GraphModule) -> None:
    """Drop run-time checks and copies that change no value; make the rest hold in any memory layout.

    Views become reshapes, and outputs that were contiguous are made so (which is free where they are).
    """
    aten = torch.ops.aten
    for node in list(graph.graph.nodes):
        if (node.op == "call_module" and node.target == "_guards_fn") or node.target in (
            aten._assert_async.msg,
            aten._assert_tensor_metadata.default,
            aten._assert_scalar.default,
        ):
            graph.graph.erase_node(node)
        elif node.target in (aten.alias.default, aten.clone.default, aten.detach.default):
            source = operand(node, 0)
            if "memory_format" not in node.kwargs and source.op != "placeholder":
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
    """What the output reads instead of `node` so that a contiguous tensor stays one."""
    example = example_of(node)
    if not isinstance(example, torch.Tensor) or not example.is_contiguous():
        return node
    kept = call_before(output, torch.ops.aten.contiguous.default, node)
    kept.meta.update(node.meta)
    return kept


def finish_edit(graph: torch.fx.GraphModule) -> None:
    """Drop what nothing uses any more and make the edits take effect."""
    graph.graph.eliminate_dead_code()
    graph.delete_all_unused_submodules()
    graph.graph.lint()
    graph.recompile()


def nodes_calling(graph: torch.fx.GraphModule, *names: str) -> list[torch.fx.Node]:
    """The nodes that call an aten operator of these names (any overload), in order."""
    packets = [getattr(torch.ops.aten, name) for name in names]
    return [node for node in graph.graph.nodes if getattr(node.target, "overloadpacket", None) in packets]


def calls(node: Any, *names: str) -> bool:
    """Whether a value is a node that calls an aten operator of these names (any overload)."""
    packet = getattr(getattr(node, "target", None), "overloadpacket", None)
    return packet is not None and any(packet is getattr(torch.ops.aten, name) for name in names)


def operand(node: torch.fx.Node, index: int) -> Any:
    """A positional argument of a node's call, None where it was left out."""
    return node.args[index] if index < len(node.args) else None


def example_of(node: torch.fx.Node) -> Any:
    """What capturing recorded of a node's value: a tensor without data that has shape, dtype and device."""
    return node.meta.get("val")


def tensor_at(graph: torch.fx.GraphModule, node: Any) -> torch.Tensor | None:
    """The weight or buffer that a node reads, None for any other node."""
    if not isinstance(node, torch.fx.Node) or node.op != "get_attr":
        return None
    value: Any = graph
    for name in str(node.target).split("."):
        value = getattr(value, name)
    return value.detach() if isinstance(value, torch.Tensor) else None


def varying_nodes(graph: torch.fx.GraphModule) -> set[torch.fx.Node]:
    """The nodes whose value depends on the inputs, on chance, or on code that is not an operator."""
    varying: set[torch.fx.Node] = set()
    for node in graph.graph.nodes:
        random = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
        fixed = node.op in ("get_attr", "call_function") and not random
        if not fixed or any(source in varying for source in node.all_input_nodes):
            varying.add(node)
    return varying


def constant_value(graph: torch.fx.GraphModule, node: Any, varying: set[torch.fx.Node]) -> Any:
    """The value of a node that depends on weights and constants only; None where it varies.

    Args:
        graph: the captured model.
        node: a node, or a plain value, which is returned as it is.
        varying: what `varying_nodes` gives for the graph.
    """
    if not isinstance(node, torch.fx.Node):
        return node
    if node in varying:
        return None
    if node.op == "get_attr":
        return tensor_at(graph, node)
    values = {source: constant_value(graph, source, varying) for source in node.all_input_nodes}
    with torch.no_grad():
        args: Any = torch.fx.map_arg(node.args, values.__getitem__)
        kwargs: Any = torch.fx.map_arg(node.kwargs, values.__getitem__)
        function: Any = node.target
        return function(*args, **kwargs)


def call_leaves(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """The arguments of a call without the structure around them."""
    leaves: list[Any] = torch.utils._pytree.tree_leaves((args, kwargs))
    return leaves


class FlatCall:
    """A function from tensors to a list of outputs, called as the model is that it stands for.

    Args:
        function: takes the tensors among the arguments in order; other arguments are those of the example call.
        args: example positional arguments.
        kwargs: example keyword arguments.
        structure: of the model's outputs, as torch's pytree has it.
    """

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], structure: Any
    ) -> None:
        leaves = call_leaves(args, kwargs)
        self.function, self.structure = function, structure
        self.places = [index for index, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.plain = not kwargs and all(isinstance(value, torch.Tensor) for value in args)
        self.single = structure == torch.utils._pytree.tree_structure(0)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The outputs in their structure."""
        if not self.plain:
            leaves = call_leaves(args, kwargs)
            args = tuple(leaves[index] for index in self.places)
        outputs = self.function(*args)
        return outputs[0] if self.single else torch.utils._pytree.tree_unflatten(list(outputs), self.structure)


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
    """Compute what `example_of` is to give for a node, from the examples of what it reads."""
    mode = fake_mode_of(node.graph)
    if mode is None or any(example_of(source) is None for source in node.all_input_nodes):
        return
    function: Any = node.target
    args: Any = torch.fx.map_arg(node.args, example_of)
    kwargs: Any = torch.fx.map_arg(node.kwargs, example_of)
    with contextlib.suppress(Exception), mode, torch.no_grad():  # a recipe's own operator may know no examples
        node.meta["val"] = function(*args, **kwargs)
