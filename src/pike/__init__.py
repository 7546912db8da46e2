"""PIKE: PyTorch Inference Kernel Evolution.

Knows the names that people import from `pike` and the modules that they live in. Imports a module
when one of its names is used: `import pike` needs neither torch nor a package for language models.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pike.api.campaigns import Campaign, Shared, campaign
    from pike.api.dropin import DropIn
    from pike.api.external import ask, finish, tell
    from pike.api.gallery import gallery
    from pike.api.judging import doctor, evaluate, lint, self_test
    from pike.api.options import ConfigSource, ModelNames, Options
    from pike.api.outputs import export, figures, import_runs, load, report
    from pike.api.runs import Optimized, estimate, optimize, resume
    from pike.api.service import Client, SubmissionState
    from pike.api.suite import ResultsTable, Survey, baseline, suite
    from pike.api.targets import ExampleInputs, Inputs, Target
    from pike.api.views import (
        Check,
        Estimate,
        Exported,
        ExternalStatus,
        FigureEntry,
        MoveReply,
        Observer,
        Progress,
        Question,
        RunResult,
        SelfTestResult,
    )
    from pike.core.errors import BoundaryError, InfraError, PikeError, ProviderError, StoreError, UserError
    from pike.core.query import Answer
    from pike.core.settings.config import RunConfig
    from pike.core.task import Task
    from pike.core.verdict.evaluation import Effort, Evaluation, Status
    from pike.core.verdict.lint import LintReport

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "BoundaryError",
    "Campaign",
    "Check",
    "Client",
    "ConfigSource",
    "DropIn",
    "Effort",
    "Estimate",
    "Evaluation",
    "ExampleInputs",
    "Exported",
    "ExternalStatus",
    "FigureEntry",
    "InfraError",
    "Inputs",
    "LintReport",
    "ModelNames",
    "MoveReply",
    "Observer",
    "Optimized",
    "Options",
    "PikeError",
    "Progress",
    "ProviderError",
    "Question",
    "ResultsTable",
    "RunConfig",
    "RunResult",
    "SelfTestResult",
    "Shared",
    "Status",
    "StoreError",
    "SubmissionState",
    "Survey",
    "Target",
    "Task",
    "UserError",
    "__version__",
    "ask",
    "baseline",
    "campaign",
    "doctor",
    "estimate",
    "evaluate",
    "export",
    "figures",
    "finish",
    "gallery",
    "import_runs",
    "lint",
    "load",
    "optimize",
    "report",
    "resume",
    "self_test",
    "suite",
    "tell",
]

_HOMES = {
    "pike.api.campaigns": "Campaign Shared campaign",
    "pike.api.dropin": "DropIn",
    "pike.api.external": "ask finish tell",
    "pike.api.gallery": "gallery",
    "pike.api.judging": "doctor evaluate lint self_test",
    "pike.api.options": "ConfigSource ModelNames Options",
    "pike.api.outputs": "export figures import_runs load report",
    "pike.api.runs": "Optimized estimate optimize resume",
    "pike.api.service": "Client SubmissionState",
    "pike.api.suite": "ResultsTable Survey baseline suite",
    "pike.api.targets": "ExampleInputs Inputs Target",
    "pike.api.views": "Check Estimate Exported ExternalStatus FigureEntry MoveReply Observer Progress Question "
    "RunResult SelfTestResult",
    "pike.core.errors": "BoundaryError InfraError PikeError ProviderError StoreError UserError",
    "pike.core.query": "Answer",
    "pike.core.settings.config": "RunConfig",
    "pike.core.task": "Task",
    "pike.core.verdict.evaluation": "Effort Evaluation Status",
    "pike.core.verdict.lint": "LintReport",
}
"""The modules that the names live in."""


def __getattr__(name: str) -> object:
    for module, names in _HOMES.items():
        if name in names.split():
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'pike' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
