"""Parsing of Python sources, safe in threads."""

import ast
import threading
from contextlib import suppress

_MOST_TRIES = 20
_one_at_a_time = threading.RLock()


def parse(source: str | bytes) -> ast.Module:
    """The tree of a source.

    CPython 3.11 counts nested nodes of all threads in one place, so two that parse at once can end
    with `SystemError: AST constructor recursion depth mismatch`. Threads of PIKE take turns; those of
    other code, as of torch while it captures a model, do not, and so this tries again.

    Raises:
        SyntaxError: the source does not parse.
        ValueError: it contains null bytes.
    """
    with _one_at_a_time:
        for _ in range(_MOST_TRIES):
            with suppress(SystemError):
                return ast.parse(source)
        return ast.parse(source)
