"""A live module as readable text, for agents that rewrite it.

Knows how to find the source of classes and how to describe a call. Classes without available source
(of interactive sessions, compiled ones) are only named. Does not know agents.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

MOST_CHARACTERS = 120_000
"""Classes beyond this much text are named only, so that a prompt stays affordable."""


def describe(module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """The module's classes, its structure and its example call, as text that parses as Python."""
    parts = [f'"""A live module of class {_full_name(type(module))}; the text below describes it."""']
    parts += _sources(module)
    parts.append(_commented("Structure of the module:", repr(module)))
    parts.append(_commented("Example call:", call_text(args, kwargs)))
    return "\n\n\n".join(parts) + "\n"


def call_text(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """`forward(...)` with shapes, dtypes and plain values instead of tensors."""
    words = [value_text(value) for value in args] + [f"{name}={value_text(value)}" for name, value in kwargs.items()]
    return f"forward({', '.join(words)})"


def value_text(value: Any) -> str:
    """One argument in words, for example `float32[2, 3, 224, 224]`."""
    import torch

    if isinstance(value, torch.Tensor) and value.is_nested:
        return "nested tensor"
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, tuple | list):
        inner = ", ".join(value_text(item) for item in value)
        return f"({inner})" if isinstance(value, tuple) else f"[{inner}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {value_text(item)}" for key, item in value.items()) + "}"
    text = repr(value)
    return text if len(text) <= 60 else f"<{type(value).__name__}>"


def _sources(module: torch.nn.Module) -> list[str]:
    """The source of every class in the module tree but torch's own, the root's class last."""
    classes = list(dict.fromkeys(type(child) for child in module.modules()))
    own = [kind for kind in reversed(classes) if not kind.__module__.startswith("torch.")]
    found, size = [], 0
    for kind in own:
        text = _source(kind)
        size += len(text)
        found.append(text if size <= MOST_CHARACTERS else f"# {_full_name(kind)}: left out, the text is too long")
    return found


def _source(kind: type) -> str:
    try:
        text = textwrap.dedent(inspect.getsource(kind)).rstrip()
    except (OSError, TypeError):
        return f"# {_full_name(kind)}: its source is not available"
    return f"# from {kind.__module__}\n{text}"


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _commented(title: str, text: str) -> str:
    lines = [title, *text.splitlines()]
    return "\n".join(f"# {line}".rstrip() for line in lines)
