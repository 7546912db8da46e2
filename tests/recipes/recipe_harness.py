"""A judge in miniature for recipe tests: loads a candidate file like the child does and compares it in float64."""

from __future__ import annotations

import copy
import functools
import importlib.util
import itertools
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from pike import tasks
from pike.core.agent import Proposal
from pike.core.device import DeviceFacts
from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import EvaluateOptions, Precision
from pike.judge.reference.reference import Inputs, Reference, load
from pike.recipes.framework.context import RecipeContext
from pike.recipes.search.composition import ordered
from pike.recipes.search.explored import explore, problem_of
from pike.recipes.search.proposals import compose
from pike.recipes.search.proposals import proposal as written

CPU = DeviceFacts("cpu", "a CPU", threads=2, compilers=("g++",))
CUDA = DeviceFacts(
    "cuda:0", "an H100", capability="9.0", compilers=("g++", "nvcc", "triton"), versions=(("triton", "3.6.0"),)
)
HALF = EvaluateOptions(precision=Precision.HALF)
SAME = EvaluateOptions()
needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")


def small_task(name: str) -> Task:
    return replace(tasks.resolve(f"demo/{name}:small"), id=f"small/{name}")


def source_task(source: str, id: str = "test/task") -> Task:
    return Task(id, id, TaskKind.SOURCE, source, "<test>")


@dataclass
class Case:
    """A task with its reference."""

    task: Task
    reference: Reference

    @classmethod
    def of(cls, task: Task) -> Case:
        return cls(task, load(task))

    def compose(self, *names: str, facts: DeviceFacts = CPU, options: EvaluateOptions = HALF) -> Proposal:
        return compose(self.task, self.problem(facts, options), names)

    def problem(self, facts: DeviceFacts = CPU, options: EvaluateOptions = SAME) -> RecipeContext:
        """What recipes look at."""
        return problem_of(self.reference, facts, options)

    @functools.cached_property
    def declined(self) -> dict[str, str]:
        """Why each recipe declines on the CPU, found out once."""
        return explore(self.problem(CPU, HALF)).declined

    def build(self, folder: Path, *names: str) -> torch.nn.Module:
        """The candidate of a composition, with the reference's weights, in eval mode."""
        assert not any(self.declined[name] for name in names)
        return self.loaded(written(self.task, ordered(names)), folder)

    def loaded(self, proposal: Proposal, folder: Path) -> torch.nn.Module:
        """The candidate of a proposal, with the reference's weights, in eval mode."""
        assert proposal.source, proposal.failure
        module = candidate_module(proposal.source, folder)
        if self.task.kind is TaskKind.MODULE:
            return module.ModelNew.from_reference(copy.deepcopy(self.reference.model)).eval()
        torch.manual_seed(0)
        candidate = module.ModelNew(*self.reference.init_inputs)
        candidate.load_state_dict(self.reference.model.state_dict(), strict=True)
        return candidate.eval()

    def errors(self, candidate: torch.nn.Module, inputs: Inputs) -> tuple[float, float]:
        """RMS error of the candidate and of the reference itself, against float64."""
        exact = copy.deepcopy(self.reference.model).double()
        with torch.no_grad():
            want = exact(*as_double(inputs.args), **as_double(inputs.kwargs))
            own = self.reference.model(*inputs.args, **inputs.kwargs)
            got = candidate(*inputs.args, **inputs.kwargs)
        return distance(got, want, own), distance(own, want, own)


_numbers = itertools.count()


def candidate_module(source: str, folder: Path) -> Any:
    name = f"candidate_{next(_numbers)}"
    path = folder / f"{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def as_double(value: Any) -> Any:
    return torch.utils._pytree.tree_map(
        lambda leaf: leaf.double() if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf, value
    )


def distance(got: Any, want: Any, like: Any) -> float:
    """The largest RMS error over all outputs, after the contract is checked."""
    got_leaves, got_structure = torch.utils._pytree.tree_flatten(got)
    like_leaves, like_structure = torch.utils._pytree.tree_flatten(like)
    assert got_structure == like_structure
    worst = 0.0
    for mine, exact, own in zip(got_leaves, torch.utils._pytree.tree_leaves(want), like_leaves, strict=True):
        assert (mine.shape, mine.dtype, mine.stride()) == (own.shape, own.dtype, own.stride())
        worst = max(worst, float((mine.double() - exact).square().mean().sqrt()))
    return worst


def alone(file: Path, what: str) -> dict[str, float]:
    """What `kernels_alone.py` finds out about the kernels of a file."""
    interpreted = str(int(not what.startswith("compile")))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TRITON_INTERPRET": interpreted}
    command = [sys.executable, str(Path(__file__).parent / "kernels_alone.py"), str(file), what]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    lines = (line.rpartition(": ") for line in done.stdout.splitlines())
    return {name: float(number) for name, _, number in lines}
