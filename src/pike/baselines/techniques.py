"""How a competent user runs a model in 16 bits, as a CUDA graph or with TensorRT.

Knows torch and nothing of PIKE, because its functions are copied into candidates (`write`), texts
and all: a change to one makes every result of its baselines stale. Does not repair what a model
cannot do: where 16 bits break it, the verdict says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Call = Callable[..., Any]


def in_16_bits(model: torch.nn.Module, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    """`call` with float32 weights and inputs in float16 (bfloat16 on a CPU), its outputs as they were before.

    A model that holds 16-bit weights already is left as it is.

    Args:
        model: whose weights are cast, in place.
        call: runs the model.
        args: positional arguments of one call, from which the dtypes of the outputs are learnt.
        kwargs: its keyword arguments.
    """
    weights = [*model.parameters(), *model.buffers()]
    if any(weight.dtype in (torch.float16, torch.bfloat16) for weight in weights):
        return call
    tree = torch.utils._pytree
    leaves = tree.tree_leaves((args, kwargs))
    on_gpu = any(isinstance(value, torch.Tensor) and value.is_cuda for value in [*weights, *leaves])
    narrow = torch.float16 if on_gpu else torch.bfloat16
    dtypes = [getattr(leaf, "dtype", None) for leaf in tree.tree_leaves(call(*args, **kwargs))]
    for weight in weights:
        if weight.dtype == torch.float32:
            weight.data = weight.data.to(narrow)

    def lowered(value: Any) -> Any:
        return value.to(narrow) if isinstance(value, torch.Tensor) and value.dtype == torch.float32 else value

    def run(*args: Any, **kwargs: Any) -> Any:
        outputs = call(*tree.tree_map(lowered, args), **tree.tree_map(lowered, kwargs))
        leaves, structure = tree.tree_flatten(outputs)
        raised = [leaf if dtype is None else leaf.to(dtype) for leaf, dtype in zip(leaves, dtypes, strict=True)]
        return tree.tree_unflatten(raised, structure)

    return run


def as_cuda_graphs(call: Call) -> Call:
    """`call` recorded once for each kind of input and replayed: inputs copied in, outputs copied out.

    As torch's notes on CUDA semantics say: warm up on a side stream, then record.
    """
    recorded: dict[Any, tuple[list[torch.Tensor], torch.cuda.CUDAGraph, Any]] = {}
    tree = torch.utils._pytree

    def record(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[torch.Tensor], torch.cuda.CUDAGraph, Any]:
        copied = tree.tree_map(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, (args, kwargs))
        inputs = [leaf for leaf in tree.tree_leaves(copied) if isinstance(leaf, torch.Tensor)]
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                call(*copied[0], **copied[1])
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outputs = call(*copied[0], **copied[1])
        return inputs, graph, outputs

    def run(*args: Any, **kwargs: Any) -> Any:
        plain = not kwargs and all(type(leaf) is torch.Tensor for leaf in args)
        leaves = args if plain else tree.tree_leaves((args, kwargs))
        kind = tuple([(leaf.shape, leaf.dtype) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves])
        if kind not in recorded:
            recorded[kind] = record(args, kwargs)
        inputs, graph, outputs = recorded[kind]
        fresh = leaves if plain else [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        for static, given in zip(inputs, fresh, strict=True):
            static.copy_(given)
        graph.replay()
        if isinstance(outputs, torch.Tensor):
            return outputs.clone()
        return tree.tree_map(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, outputs)

    return run


def need_tensorrt() -> None:
    """Import Torch-TensorRT, which brings its backend of `torch.compile`.

    Raises:
        ImportError: it or a library of it is missing.
    """
    try:
        import torch_tensorrt  # noqa: F401
    except Exception as error:  # a missing library of NVIDIA's comes as an OSError
        raise ImportError(f"torch_tensorrt cannot be imported: {type(error).__name__}: {error}") from error


def with_tensorrt(call: Call, tf32: bool) -> Call:
    """`call` compiled by Torch-TensorRT's backend of `torch.compile`; dtypes stay what the model says.

    Args:
        call: runs the model.
        tf32: whether float32 products may use TensorFloat-32, as TensorRT does by default.
    """
    options: Any = {"use_explicit_typing": True, "disable_tf32": not tf32, "truncate_double": True, "min_block_size": 1}
    compiled: Call = torch.compile(call, backend="torch_tensorrt", dynamic=False, options=options)
    return compiled
