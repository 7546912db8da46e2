"""The source of functions together with everything they need, to run without PIKE installed.

Knows how to read the modules of this room. A name that a function uses is a definition of its
module, an import from this room (followed), or any other import (copied). Does not execute
anything.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from pike.core.text.parsing import parse

ROOM = "pike.recipes."
"""Modules whose names begin with this are copied; all others are imported."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """Source that runs on its own.

    Attributes:
        imports: import statements, sorted.
        definitions: names and texts of definitions, what is used before what uses it.
    """

    imports: tuple[str, ...]
    definitions: tuple[tuple[str, str], ...]

    @property
    def names(self) -> frozenset[str]:
        """The names that the definitions bind."""
        return frozenset(name for name, _ in self.definitions)


def bundle(wanted: tuple[Callable[..., Any], ...]) -> Bundle:
    """Everything that the wanted functions and classes need, themselves included.

    Raises:
        ValueError: two modules define different things under one name.
    """
    imports: dict[str, None] = {}
    definitions: dict[tuple[str, str], str] = {}

    def visit(module: ModuleType, name: str) -> None:
        outline = _outline(module)
        if name in outline.imports:
            home, original = outline.imports[name]
            if home and home.startswith(ROOM):
                visit(sys.modules[home], original)
            else:
                imports[outline.statements[name]] = None
        elif name in outline.definitions and (module.__name__, name) not in definitions:
            node = outline.definitions[name]
            definitions[module.__name__, name] = ""
            for used in _names_in(node):
                visit(module, used)
            del definitions[module.__name__, name]
            definitions[module.__name__, name] = outline.text(node)

    for function in wanted:
        original = inspect.unwrap(function)
        visit(sys.modules[original.__module__], original.__name__)
    return Bundle(tuple(sorted(imports)), _distinct(definitions))


def _distinct(definitions: dict[tuple[str, str], str]) -> tuple[tuple[str, str], ...]:
    names = [name for _, name in definitions]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"two modules define {sorted(twice)[0]}")
    return tuple((name, text) for (_, name), text in definitions.items())


@dataclass(frozen=True, slots=True)
class _Outline:
    """The top level of a module: imports by bound name, their statements, and definitions."""

    lines: list[str]
    imports: dict[str, tuple[str, str]]
    statements: dict[str, str]
    definitions: dict[str, ast.stmt]

    def text(self, node: ast.stmt) -> str:
        """The source of a definition, decorators included."""
        decorators = getattr(node, "decorator_list", [])
        first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
        return "\n".join(self.lines[first - 1 : node.end_lineno])


@functools.cache
def _outline(module: ModuleType) -> _Outline:
    source = inspect.getsource(module)
    outline = _Outline(source.splitlines(), {}, {}, {})
    for node in parse(source).body:
        if isinstance(node, ast.ImportFrom) and node.module != "__future__":
            for alias in node.names:
                outline.imports[alias.asname or alias.name] = (node.module or "", alias.name)
                outline.statements[alias.asname or alias.name] = f"from {node.module} import {_alias(alias)}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                seen = outline.statements.get(name)
                outline.imports[name] = ("", alias.name)
                outline.statements[name] = f"{seen}\nimport {_alias(alias)}" if seen else f"import {_alias(alias)}"
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            outline.definitions[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    outline.definitions[target.id] = node
    return outline


def _alias(alias: ast.alias) -> str:
    return f"{alias.name} as {alias.asname}" if alias.asname else alias.name


def _names_in(node: ast.stmt) -> Iterator[str]:
    seen = dict.fromkeys(inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name))
    yield from seen
