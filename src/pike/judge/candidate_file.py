"""The text of a candidate: whether it is a candidate file at all, and whose work it says it is.

Knows Python's grammar. Reads the text and never runs it. Does not know tasks.
"""

import ast
import re

from pike.core.text.parsing import parse

CLASS_NAME, _PUBLISHED_NAME = "ModelNew", "Model"
"""The class that a candidate file defines, and what it may be called instead."""
OWN_NAME = "class-named-model"
"""Label of a candidate file that defines `Model` and no `ModelNew`, as some published ones do."""
_MOST_BYTES = 1 << 20
THIRD_PARTY = "third-party-header"
"""Label of a candidate that holds a copyright or licence line which the task does not hold."""
_HEADER = re.compile(
    r"SPDX-License-Identifier|Copyright\s+(\(c\)|©|\d{4})|All rights reserved|Licensed under the\s"
    r"|Redistribution and use in source and binary|Permission is hereby granted, free of charge",
    re.IGNORECASE,
)


def parse_problem(source: str) -> str:
    """Why a text is no candidate file, empty if it is one. Reads the text, never runs it."""
    if not source.strip():
        return "the answer holds no code"
    try:
        if len(source.encode()) > _MOST_BYTES:
            return f"the file is larger than {_MOST_BYTES} bytes"
        parse(source)
    except UnicodeEncodeError:
        return "the answer holds characters that are no text"
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return f"not valid Python: {error}"
    return "" if class_name(source) else f"the file defines no class {CLASS_NAME}"


def class_name(source: str) -> str:
    """The class that a candidate file defines: `ModelNew`, else `Model`; empty if it has neither.

    The text must be valid Python.
    """
    names = _names(parse(source))
    return next((name for name in (CLASS_NAME, _PUBLISHED_NAME) if name in names), "")


def has_third_party_header(source: str, original: str) -> bool:
    """Whether a line of `source` names an owner or a licence and is no line of the original."""
    known = {line.strip() for line in original.splitlines()}
    return any(_HEADER.search(line) and line.strip() not in known for line in source.splitlines())


def _names(tree: ast.Module) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.ImportFrom | ast.Import):
            found |= {alias.asname or alias.name for alias in node.names}
    return found
