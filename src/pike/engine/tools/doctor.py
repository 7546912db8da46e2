"""What works on this machine, what is missing, and what to do about it.

Knows what a run can need: a device, compilers, a sandbox, keys, optional packages. Says whether a
key is set, never its value. Runs no candidate; a judge process looks at the device.
"""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pike import llm
from pike.core.errors import BoundaryError, UserError

if TYPE_CHECKING:
    from pike.judge.sandbox.level import SandboxLevel

EXTRAS = (
    ("pydantic-ai-slim", "asking language models", "pip install 'pike-torch[llm]'"),
    ("genai-prices", "the price of a call", "pip install 'pike-torch[llm]'"),
    ("mcp", "serving coding agents", "pip install 'pike-torch[mcp]'"),
    ("matplotlib", "drawing figures", "pip install 'pike-torch[figures]'"),
    ("datasets", "suites on the Hugging Face Hub", "pip install 'pike-torch[hf]'"),
    ("transformers", "the BERT example", "pip install transformers"),
)


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was checked.

    Attributes:
        ok: it works; False where it is missing.
        needed: no run works without it.
        cure: what to do, empty where nothing needs to be done.
    """

    name: str
    ok: bool
    needed: bool
    detail: str
    cure: str = ""


def examine() -> tuple[Check, ...]:
    """Look at everything; takes a few seconds, because a judge process is started."""
    return (*_device(), *_sandboxes(), *_keys(), *_packages())


def _device() -> Iterator[Check]:
    from pike.judge.client import JudgeClient

    try:
        with closing(JudgeClient()) as judge:
            facts = judge.facts("auto")
    except (BoundaryError, UserError) as error:
        yield Check(
            "judge", False, True, str(error), "See what the judge wrote to standard error, then reinstall torch"
        )
        return
    versions = dict(facts.versions)
    yield Check("torch", True, True, versions.get("torch", ""))
    cure = "" if facts.is_cuda else "For an NVIDIA GPU, install its driver and a CUDA build of torch"
    yield Check("GPU", facts.is_cuda, False, facts.name if facts.is_cuda else "none; candidates run on the CPU", cure)
    yield Check("CPU threads", True, True, str(facts.threads))
    for name, purpose, cure in (
        ("g++", "torch.compile on a CPU and inline C++", "Install g++ (Debian: apt install g++)"),
        ("nvcc", "inline CUDA", "Install the CUDA toolkit that matches torch"),
        ("ninja", "inline extensions", "pip install ninja"),
        ("triton", "Triton kernels and torch.compile on a GPU", "Install a CUDA build of torch, which brings Triton"),
    ):
        if name in ("nvcc", "triton") and not facts.is_cuda:
            continue
        found = name in facts.compilers
        yield Check(name, found, False, f"for {purpose}", "" if found else cure)


def _sandboxes() -> Iterator[Check]:
    from pike.judge.process.filters import not_enforced
    from pike.judge.sandbox import LEVELS, choose

    chosen, with_gpu = choose("auto"), choose("auto", cuda=True)
    for level in LEVELS:
        obstacle = level.obstacle()
        gaps = not_enforced(level, cuda=level.name == with_gpu.name != chosen.name)
        detail = obstacle or f"does not enforce: {gaps or 'nothing known'}"
        used = " (used)" if level.name == chosen.name else " (used with a GPU)" if level.name == with_gpu.name else ""
        cure = _sandbox_cure(chosen) if obstacle else ""
        yield Check(f"sandbox {level.name}{used}", not obstacle, False, detail, cure)


def _sandbox_cure(chosen: SandboxLevel) -> str:
    if chosen.claims:
        return f"Nothing to do: {chosen.name} works here"
    return "Install it and let it run: candidates are code from a model"


def _keys() -> Iterator[Check]:
    for name in llm.key_variables():
        found = bool(os.environ.get(name))
        yield Check(name, found, False, "set" if found else "not set", "" if found else f"export {name}=... to use it")


def _packages() -> Iterator[Check]:
    for name, purpose, cure in EXTRAS:
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            yield Check(name, False, False, f"not installed; for {purpose}", cure)
        else:
            yield Check(name, True, False, f"{version}, for {purpose}")
