"""Parsing of Python sources, safe in threads."""

import ast
import threading

_one_at_a_time = threading.RLock()


def parse(source: str | bytes) -> ast.Module:
    """The tree of a source.

    CPython 3.11 counts nested nodes of all threads in one place, so two that parse at once can end
    with `SystemError: AST constructor recursion depth mismatch`.

    Raises:
        SyntaxError: the source does not parse.
        ValueError: it contains null bytes.
    """
    with _one_at_a_time:
        return ast.parse(source)
