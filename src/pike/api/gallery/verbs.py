"""What one can do with the gallery.

Knows the judges that measure a winner, and the search for recipes beside it. Does not know how a
drop-in decides whether it answers (`api.dropin`).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeVar

from pike.api.runs import optimize
from pike.api.waiting import run_to_end
from pike.core.comparison.results import Result
from pike.core.errors import UserError
from pike.core.settings.config import EngineConfig, RunConfig
from pike.core.verdict.evaluation import EvaluateOptions, OnStage
from pike.engine import LocalExecutor
from pike.engine.tools.gallery import GalleryEntry, chosen, measure

if TYPE_CHECKING:
    from torch import nn

T = TypeVar("T")
RECIPE_MINUTES = 5.0


@dataclass(frozen=True, slots=True)
class Verified:
    """What a winner came to on this machine.

    Attributes:
        entry: the winner.
        results: its own first, then those of what was timed in the same sessions.
        note: what was verified elsewhere and not here, empty if it was measured here before.
    """

    entry: GalleryEntry
    results: tuple[Result, ...]
    note: str


def gallery(name: str, model: nn.Module | None = None) -> nn.Module:
    """Load a winner of the gallery as a drop-in; `pike gallery` lists them.

    The winner's code runs in this process, at the first call that it answers.

    >>> faster = pike.gallery("lenet5")
    >>> with torch.no_grad():
    ...     faster(torch.randn(1, 1, 32, 32)).shape
    torch.Size([1, 10])

    Args:
        name: of the entry.
        model: a model like the original, whose weights are used and which answers the calls that
            were not judged; by default the original itself, with random weights.

    Returns:
        A `DropIn`. On another GPU than the winner was measured on, the model answers.

    Raises:
        UserError: there is no such entry, or the model has other parameters.
    """
    import torch

    from pike.api.dropin import DropIn, FromSource, JudgedCalls
    from pike.engine.output import originals

    (entry,) = chosen([name])
    original = originals.load(entry.task)
    reference: nn.Module = original.reference.model
    if model is None:
        model = reference.to("cuda") if torch.cuda.is_available() else reference
    elif {name: one.shape for name, one in model.state_dict().items()} != {
        name: one.shape for name, one in reference.state_dict().items()
    }:
        raise UserError(
            f"The model {type(model).__name__} has other parameters than {entry.task.id}: give one with the same "
            "names and shapes"
        )
    device, made = entry.device, original.reference.init_inputs
    gpu = device.name if device.is_cuda else ""
    kind = device.device.partition(":")[0]
    judged = JudgedCalls(original.call, kind, gpu, original.dtypes, original.constants)
    return DropIn(model, FromSource(entry.source, entry.evaluation.weights, made), judged)


def verify_gallery(
    entry: GalleryEntry, *, device: str | None = None, recipes: bool = False, on_stage: OnStage = lambda _: None
) -> Verified:
    """Measure a winner here, thoroughly and on fresh data, beside eager, a CUDA graph and the compile ways.

    Args:
        entry: of the gallery.
        device: `auto`, `cuda` or `cuda:N`.
        recipes: search for the best composition of recipes first, and measure it with them.
        on_stage: told each stage.

    Raises:
        UserError: the winner was made for another kind of device.
        BoundaryError: no judge could be started.
    """
    today = EvaluateOptions()
    options = replace(entry.found.options, device=device or "auto", max_timing_seconds=today.max_timing_seconds)
    here = run_to_end(_judging(lambda judge: judge.facts(options.device)))
    entry.require(here)
    composition = _composition(entry, options, on_stage) if recipes else None
    results = run_to_end(_judging(lambda judge: measure(entry, judge, options, composition, on_stage)))
    return Verified(entry, results, entry.elsewhere(here))


async def _judging(work: Callable[[LocalExecutor], Coroutine[None, None, T]]) -> T:
    async with aclosing(LocalExecutor(EngineConfig(judges=1))) as executor:
        return await work(executor)


def _composition(entry: GalleryEntry, terms: EvaluateOptions, on_stage: OnStage) -> tuple[str, tuple[str, ...]] | None:
    """Source and recipes of the fastest composition for the original here; None where none is faster."""
    on_stage("search for recipes")
    with TemporaryDirectory(prefix="pike-") as folder:
        config = RunConfig(evaluate=terms)
        out = Path(folder) / "run"
        result = optimize(entry.task, max_minutes=RECIPE_MINUTES, config=config, out=out, progress=False).result
        return (result.best.source, result.best.recipes) if result.best and result.improved else None
