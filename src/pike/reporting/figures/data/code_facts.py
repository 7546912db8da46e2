"""What the source of a candidate shows: its size, its distance from its seed, its techniques.

Knows Python's tokens and syntax tree. Does not run or import a candidate.
"""

from __future__ import annotations

import ast
import tokenize
from collections import Counter
from functools import lru_cache

from pike.core.text.parsing import parse
from pike.reporting.figures.data.records import CodeFacts
from pike.reporting.lineage import changed_lines, code_lines, tokens_of

TECHNIQUES = ("CUDA", "Triton", "C++", "CUDA graph", "torch.compile", "library calls")
"""What a candidate can be written with; the last stands for none of the others."""
_CALLS = {
    "load_inline": "C++",
    "CUDAGraph": "CUDA graph",
    "make_graphed_callables": "CUDA graph",
    "compile_fx": "torch.compile",
}
_PATHS = {"torch.cuda.graph": "CUDA graph", "torch.compile": "torch.compile"}
_MODULES = {"triton": "Triton", "torch._inductor": "torch.compile", "torch._dynamo": "torch.compile"}
_SHINGLE = 3
"""Tokens in a row that are compared at once."""
_SPACE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def facts(source: str, seed: str, *, with_techniques: bool = True) -> CodeFacts:
    """What a source shows; `seed` is the source it continues, empty where that is not known."""
    known = bool(seed)
    return CodeFacts(
        lines=len(code_lines(source)),
        changed=changed_lines(seed, source) if known else None,
        similarity=similarity(seed, source) if known else None,
        techniques=techniques(source) if with_techniques else (),
    )


def similarity(one: str, other: str) -> float:
    """How much of two sources is alike: the Dice coefficient of their runs of three tokens.

    Comments and layout do not count. 1 for equal sources, 0 where nothing is shared.
    """
    left, right = _shingles(one), _shingles(other)
    total = left.total() + right.total()
    return 2.0 * (left & right).total() / total if total else 1.0


@lru_cache(maxsize=512)
def _shingles(source: str) -> Counter[tuple[str, ...]]:
    tokens = tokens_of(source)
    found = source.split() if tokens is None else [token.string for token in tokens if token.type not in _SPACE]
    return Counter(tuple(found[at : at + _SHINGLE]) for at in range(max(1, len(found) - _SHINGLE + 1)))


def techniques(source: str) -> tuple[str, ...]:
    """What a source is written with, in the order of `TECHNIQUES`; empty if it does not parse.

    Code that is never called counts too: only a profile shows what ran.
    """
    try:
        tree = parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    found = {name for node in ast.walk(tree) for name in _shown_by(node)}
    if "CUDA" in found:
        found.discard("C++")
    return tuple(name for name in TECHNIQUES if name in found) or (TECHNIQUES[-1],)


def _shown_by(node: ast.AST) -> tuple[str, ...]:
    match node:
        case ast.Constant(value=str(text)) if "__global__" in text:
            return ("CUDA",)
        case ast.Import(names=names):
            return tuple(found for one in names if (found := _of_module(one.name)))
        case ast.ImportFrom(module=str(module)):
            return tuple(found for found in (_of_module(module),) if found)
        case ast.Attribute() | ast.Name():
            path = _path(node)
            return tuple(found for found in (_PATHS.get(path), _CALLS.get(path.rpartition(".")[2])) if found)
        case ast.keyword(arg="cuda_sources"):
            return ("CUDA",)
    return ()


def _of_module(module: str) -> str:
    return next((found for name, found in _MODULES.items() if f"{module}.".startswith(f"{name}.")), "")


def _path(node: ast.expr) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join(reversed([*parts, node.id])) if isinstance(node, ast.Name) else ""
