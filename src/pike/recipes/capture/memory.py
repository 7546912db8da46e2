"""Which values of a captured graph may lie in the same memory, so that a caller who writes into one
changes the other.

Knows operators' declarations and examples. Does not know recipes. Imports nothing of PIKE, because its functions
are copied into candidates.
"""

from __future__ import annotations

import torch


def returned_memory(graph: torch.fx.GraphModule) -> set[torch.fx.Node]:
    """The nodes whose memory a caller may get hold of: outputs, and what outputs may be views of."""
    return memory_behind(graph.graph.output_node().all_input_nodes)


def keeps_apart(graph: torch.fx.GraphModule, copy: torch.fx.Node) -> bool:
    """Whether without a copy an output would lie in the memory of another output, an input or a weight.

    A caller who wrote into the one would change the other.
    """
    given = returned_memory(graph)
    return copy in given and any(
        node in given or node.op != "call_function" for node in memory_behind(copy.all_input_nodes)
    )


def memory_behind(nodes: list[torch.fx.Node]) -> set[torch.fx.Node]:
    """Some nodes, and all others that they may be views of."""
    found: set[torch.fx.Node] = set()
    reached = list(nodes)
    while reached:
        node = reached.pop()
        if node not in found:
            found.add(node)
            reached += node.all_input_nodes if may_share(node) else []
    return found


def may_share(node: torch.fx.Node) -> bool:
    """Whether a node may give memory of what it reads: views, and what declares too little.

    Operators that PyTorch composes of others, as einsum, may return a view without saying so: then
    examples share memory. Dropout that drops nothing returns its argument; its example is a copy.
    Code that is no operator may do anything.
    """
    if node.op != "call_function":
        return node.op not in ("placeholder", "get_attr")
    if not isinstance(node.target, torch._ops.OpOverload):
        return True
    if any(value.alias_info is not None for value in node.target._schema.returns):
        return True
    if not node.target.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd):
        return False
    own = example_memory(node)
    shares = any(own & example_memory(source) for source in node.all_input_nodes)
    return shares or not own or "dropout" in str(node.target)


def example_memory(node: torch.fx.Node) -> set[int]:
    """What tells the memory of a node's example apart from that of others."""
    leaves = torch.utils._pytree.tree_leaves(node.meta.get("val"))
    return {leaf.untyped_storage()._cdata for leaf in leaves if isinstance(leaf, torch.Tensor)}
