"""From a composition of recipes to a candidate file.

Knows what the file looks like: a header, the original model of a source task, the functions of the
recipes, and `ModelNew`. Does not decide which recipes go together (`composition`).
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable, Mapping

from pike.core.task import Task, TaskKind
from pike.core.text.parsing import parse
from pike.recipes.framework.bundle import Bundle, bundle
from pike.recipes.framework.prepared import PreparedModel, private_copy
from pike.recipes.framework.recipe import Recipe, RecipeStage

ABOUT = """Written by PIKE's recipes, without a language model. The fast way is built at the first call and used for
inputs of the same shapes, dtypes and device; for all others, in training, and where gradients are wanted, the original
runs."""
"""The paragraph that every header has."""

OWN_NAMES = frozenset({"ModelNew"})
"""Names that the file defines, besides those that recipes need."""


Adapted = Mapping[str, tuple[str, ...]]
"""The names that `adapt` found for a problem, by recipe."""


def write(task: Task, recipes: tuple[Recipe, ...], adapted: Adapted | None = None) -> str:
    """The whole candidate file.

    Args:
        task: the problem.
        recipes: the composition, in the order of `composition.ordered`.
        adapted: what is written into the calls of recipes; their defaults without it.

    Raises:
        ValueError: the task's own code defines a name that the recipes need; the message names it.
    """
    copies = (private_copy,) if any(recipe.edits_weights for recipe in recipes) else ()
    parts = bundle((PreparedModel, *copies, *(recipe.transform for recipe in recipes)))
    futures, original = _original(task)
    clash = _clash(parts, original)
    if clash:
        raise ValueError(f"the task's own code already defines {clash}")
    sections = [
        _header(task, recipes),
        *([futures] if futures else []),
        *([_titled("The original model", original)] if original else []),
        _titled("What the recipes do", _needed(parts)),
        _titled("The candidate", _candidate(task, recipes, adapted or {})),
    ]
    return "\n\n\n".join(section.strip("\n") for section in sections) + "\n"


def _header(task: Task, recipes: tuple[Recipe, ...]) -> str:
    steps = "\n".join(f"{index}. {recipe.name}: {recipe.summary}." for index, recipe in enumerate(recipes, 1))
    names = " + ".join(recipe.name for recipe in recipes)
    title = f"{task.name}: {names}".replace("\\", "/").replace('"""', "'''")
    return f'"""{title}.\n\n{steps}\n\n{textwrap.fill(ABOUT, 100)}\n"""'


def _original(task: Task) -> tuple[str, str]:
    """The `from __future__` lines of a source task, and the rest; nothing for a live module."""
    if task.kind is TaskKind.MODULE:
        return "", ""
    lines = task.source.splitlines()
    futures = []
    for node in parse(task.source).body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            futures.append(", ".join(alias.name for alias in node.names))
            for number in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                lines[number - 1] = ""
    text = re.sub(r"\n{4,}", "\n\n\n", "\n".join(lines))
    return "".join(f"from __future__ import {names}\n" for names in futures), text


def _clash(parts: Bundle, original: str) -> str:
    """A name that the original and the recipes bind to different things, empty if there is none."""
    ours = dict.fromkeys(parts.names | OWN_NAMES, "")
    ours |= _bound(parse("\n".join(parts.imports)).body)
    theirs = _bound(parse(original).body)
    clashing = (name for name in sorted(ours) if name in theirs and (not ours[name] or ours[name] != theirs[name]))
    return next(clashing, "")


def _bound(body: Iterable[ast.AST]) -> dict[str, str]:
    """Names that a module's top level binds, and the import that brings each; else empty."""
    found: dict[str, str] = {}
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found[node.name] = ""
        elif isinstance(node, ast.Import):
            found.update({alias.asname or alias.name.partition(".")[0]: _brought(alias) for alias in node.names})
        elif isinstance(node, ast.ImportFrom):
            found.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found[node.id] = ""
        elif not isinstance(node, ast.Lambda):
            found.update(_bound(ast.iter_child_nodes(node)))
    return found


def _brought(alias: ast.alias) -> str:
    return alias.name if alias.asname else alias.name.partition(".")[0]


def _needed(parts: Bundle) -> str:
    return "\n\n\n".join(["\n".join(parts.imports), *(text for _, text in parts.definitions)])


def _titled(title: str, text: str) -> str:
    text = text.strip("\n")
    return f"# --- {title} ---\n\n{text}"


def _candidate(task: Task, recipes: tuple[Recipe, ...], adapted: Adapted) -> str:
    if task.kind is TaskKind.SOURCE:
        build = """
    def __init__(self, *init_args: Any, **init_kwargs: Any) -> None:
        super().__init__(Model(*init_args, **init_kwargs))"""
    else:
        build = '''
    @classmethod
    def from_reference(cls, model: torch.nn.Module) -> "ModelNew":
        """The candidate around a copy of the original module."""
        return cls(model)'''
    head = 'class ModelNew(PreparedModel):\n    """The original model, run faster."""\n'
    return f"{head}{build}\n{_prepare(recipes, adapted)}{_run(recipes)}"


def _prepare(recipes: tuple[Recipe, ...], adapted: Adapted) -> str:
    """The method that applies the recipes in order, settings around the last of them."""
    settings = [recipe for recipe in recipes if recipe.stage is RecipeStage.SETTING]
    steps = [recipe for recipe in recipes if recipe.stage is not RecipeStage.SETTING]
    body = ["model = private_copy(model)"] if any(recipe.edits_weights for recipe in recipes) else []
    edits = [recipe for recipe in steps if recipe.stage is not RecipeStage.LOWER]
    body += [f"model = {recipe.call(adapted.get(recipe.name))}" for recipe in edits]
    lowers = [recipe for recipe in steps if recipe.stage is RecipeStage.LOWER]
    last = [f"fast = {recipe.call(adapted.get(recipe.name))}" for recipe in lowers] or ["fast = model"]
    last += [
        "for _ in range(3):",
        "    fast(*own_copy(args), **own_copy(kwargs))  # compiles and warms up now, not at the first call",
    ]
    if settings:
        body += [f"with {_together(settings)}:", *(f"    {line}" for line in last)]
    else:
        body += last
    body.append("return fast")
    text = textwrap.indent("\n".join(body), " " * 8)
    return f"""
    def prepare(self, model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[..., Any]:
{text}
"""


def _run(recipes: tuple[Recipe, ...]) -> str:
    recorded = any(recipe.records for recipe in recipes)
    settings = [recipe for recipe in recipes if recipe.while_running and not (recorded and recipe.recordable)]
    if not settings:
        return ""
    return f"""
    def run(self, fast: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with {_together(settings)}:
            return fast(*args, **kwargs)
"""


def _together(settings: list[Recipe]) -> str:
    return ", ".join(recipe.call() for recipe in settings)
