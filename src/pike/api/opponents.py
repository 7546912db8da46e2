"""What there is to beat: eager PyTorch and `torch.compile` on a model, judged like any candidate.

Knows how a target and options become a measurement. Does not know how it is made (`engine`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

from pike.api.options import Options, compose_config
from pike.api.targets import task_of, words_for
from pike.core.evaluation import Effort
from pike.engine.opponents import Baseline, Measured, measure_baselines

__all__ = ["Baseline", "Measured", "baselines"]


def baselines(
    target: Any,
    names: Sequence[str] | None = None,
    *,
    example_inputs: Any = None,
    effort: Effort = Effort.FINAL,
    **options: Unpack[Options],
) -> tuple[Measured, ...]:
    """The verdicts on the baselines of a model.

    Args:
        target: as for `optimize`.
        names: which ones, for example `eager`, `compile`, `compile:max-autotune`; None for all that are distinct
            on the device.
        example_inputs: for a module.
        effort: how much measuring; thorough by default, as for the result of a run.
        **options: `device`, `tolerance`, `precision`, `config` and `settings` count here; see `Options`.

    Raises:
        UserError: the target, an option or a name cannot be used.
        InfraError: the judge died.
    """
    config = compose_config(words_for(target), options)
    with tempfile.TemporaryDirectory(prefix="pike-") as folder:
        return measure_baselines(task_of(target, example_inputs, Path(folder)), config.evaluate, names, effort)
