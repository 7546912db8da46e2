"""Every task of a suite under short compositions of recipes: each must decline with a reason or be right.

Run `python benchmarks/recipes_on_suite.py level3-pike:small [--precision half] [--compositions a+b c] [--out FILE]`.
Candidates are written as in a run, imported in this process and compared by the judge's own rule on fresh inputs;
nothing is timed. Without a GPU the `half` recipe is taken as if there were one and runs in float16 on the CPU, where
only its values mean anything; what needs Triton or CUDA graphs to run is left out.
"""

import argparse
import functools
import importlib.util
import json
import sys
import tempfile
import time
import warnings
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from pike import tasks
from pike.core.device import DeviceFacts
from pike.core.task import Task
from pike.core.verdict.evaluation import EvaluateOptions, Precision, Tolerance
from pike.judge.child.memory.layout import flatten_output, signature
from pike.judge.correctness.compare import compare_closely
from pike.judge.reference.answers import Answers
from pike.judge.reference.forward import Trial
from pike.judge.reference.reference import Inputs, Reference, load
from pike.recipes.framework.context import RecipeContext
from pike.recipes.framework.recipe import RecipeStage, look
from pike.recipes.registry import BY_NAME, RECIPES
from pike.recipes.search.composition import ordered
from pike.recipes.search.explored import problem_of
from pike.recipes.search.proposals import proposal
from pike.tasks import variants

GPU = DeviceFacts("cuda:0", "any GPU", capability="9.0", compilers=("g++", "triton"))
CPU = DeviceFacts("cpu", "this CPU", compilers=("g++",))
SEEDS = (11, 12)


@dataclass(frozen=True)
class Row:
    """What became of one composition on one task; `times` is the share of the error budget that was used."""

    task: str
    precision: str
    composition: str
    status: str
    times: float = 0.0
    reason: str = ""
    keep: str = ""
    seconds: float = 0.0


def main() -> None:
    """Try all, print a table, write it to a file."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("tasks", nargs="+")
    arguments.add_argument("--precision", choices=("same", "half"), default="half")
    arguments.add_argument("--compositions", nargs="*", default=[])
    arguments.add_argument("--out", type=Path)
    given = arguments.parse_args()
    warnings.simplefilter("ignore")
    rows: list[Row] = []
    for task in [one for text in given.tasks for one in found(text)]:
        for row in tried(task, Precision(given.precision), given.compositions):
            rows.append(row)
            print(
                f"{row.task:44} {row.composition:50} {row.status:9} {row.times:6.2f} {row.keep} {row.reason}",
                flush=True,
            )
            if given.out:
                given.out.write_text(json.dumps([asdict(one) for one in rows], indent=1))
    bad = [row for row in rows if row.status in ("wrong", "raised")]
    print(f"{len(rows)} tried, {sum(row.status == 'right' for row in rows)} right, {len(bad)} wrong or raised")
    sys.exit(bool(bad))


def found(text: str) -> list[Task]:
    """One task, or those of a suite, small ones where the name says so."""
    name, small = text.removesuffix(":small"), text.endswith(":small")
    members = [tasks.resolve(text)] if "/" in name else list(tasks.in_suite(name))
    return [variants.small(task) if small and "/" not in name else task for task in members]


def tried(task: Task, precision: Precision, wanted: list[str]) -> list[Row]:
    """All compositions on one task."""
    reference = load(task)
    facts = GPU if precision is Precision.HALF else CPU
    problem = problem_of(reference, facts, EvaluateOptions(precision=precision))
    answers = Answers(reference.model, precision, Trial(torch.device("cpu"), reference.draw(1)))
    compositions = [tuple(text.split("+")) for text in wanted] or usual(problem)
    return [attempt(task, reference, problem, answers, ordered(names)) for names in compositions]


def usual(problem: RecipeContext) -> list[tuple[str, ...]]:
    """Each rewrite alone, all of them together, and, at half precision, the same inside 16 bits."""
    rewrites = [
        recipe.name for recipe in RECIPES if recipe.stage is RecipeStage.REWRITE and "winograd" not in recipe.name
    ]
    layouts = [recipe.name for recipe in RECIPES if recipe.stage is RecipeStage.LAYOUT]
    apply = [name for name in (*rewrites, *layouts) if not look(BY_NAME[name], problem).declined]
    if problem.options.precision is Precision.SAME:
        return [*((name,) for name in (*rewrites, *layouts)), *([tuple(apply)] if len(apply) > 1 else [])]
    return [inner for half in ("half", "bf16") for inner in ((half,), (*apply, half)) if apply or inner == (half,)]


def attempt(task: Task, reference: Reference, problem: RecipeContext, answers: Answers, names: tuple[str, ...]) -> Row:
    """One composition."""
    started = time.monotonic()
    row = Row(task.id, problem.options.precision.value, "+".join(names), "declines")
    looks = {name: look(BY_NAME[name], problem) for name in names}
    reason = next((f"{name}: {found.declined}" for name, found in looks.items() if found.declined), "")
    if reason:
        return replace(row, reason=reason)
    adapted = {name: found.keep for name, found in looks.items() if found.keep is not None}
    row = replace(row, keep=",".join(name for keep in adapted.values() for name in keep))
    written = proposal(task, names, adapted)
    if not written.source:
        return replace(row, reason=written.failure)
    try:
        row = compared(row, built(written.source, reference), reference, answers)
    except Exception as error:  # a candidate may raise anything, and that is what is looked for
        row = replace(row, status="raised", reason=f"{type(error).__name__}: {str(error).splitlines()[:1]}")
    return replace(row, seconds=round(time.monotonic() - started, 1))


def built(source: str, reference: Reference) -> torch.nn.Module:
    """The candidate with the reference's weights."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "candidate_on_suite.py"
        path.write_text(source)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
        model: torch.nn.Module = module.ModelNew(*reference.init_inputs)
        model.load_state_dict(reference.model.state_dict(), strict=True)
        return model.eval()


def compared(row: Row, candidate: torch.nn.Module, reference: Reference, answers: Answers) -> Row:
    """The row with what the judge's rule says about fresh inputs."""
    for seed in SEEDS:
        inputs = reference.draw(seed)
        with torch.no_grad():
            native, output = (model(*inputs.args, **inputs.kwargs) for model in (reference.model, candidate))
        if signature(native) != signature(output):
            return replace(row, status="wrong", reason=f"gives {signature(output)} instead of {signature(native)}")
        expected = answers.expected(inputs, functools.partial(leaves, native))
        verdict = compare_closely(
            leaves(output), expected, Tolerance.STRICT, functools.partial(nearby, reference, answers, inputs)
        )
        row = replace(row, times=round(max(row.times, verdict.times), 3))
        if verdict.wrong:
            return replace(row, status="wrong", reason=verdict.wrong)
    return replace(row, status="right")


def nearby(reference: Reference, answers: Answers, inputs: Inputs) -> list[list[torch.Tensor]]:
    """The reference's answers on an input a unit in the last place away, at each allowed precision."""
    near = Inputs(*torch.utils._pytree.tree_map_only(torch.Tensor, moved, (inputs.args, inputs.kwargs)))
    with torch.no_grad():
        own = leaves(reference.model(*near.args, **near.kwargs))
    return [own, *answers.variants(near)]


def moved(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor whose elements are a unit in the last place larger or smaller."""
    if not tensor.is_floating_point():
        return tensor
    sign = torch.randint(0, 2, tensor.shape) * 2.0 - 1
    return torch.nextafter(tensor, sign.to(tensor.dtype) * torch.inf)


def leaves(output: object) -> list[torch.Tensor]:
    """The tensors of an output."""
    return [leaf for leaf, _ in flatten_output(output)]


if __name__ == "__main__":
    main()
