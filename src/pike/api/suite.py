"""The verb for suites: all kinds of contenders on many tasks, in one table.

Knows how targets and options become cells. Does not carry them out (`engine.schedule`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pike.api.campaigns import Shared, campaign_file, plan_usd
from pike.api.judging import judge_once
from pike.api.options import ConfigSource, ModelNames, compose_config, given, names_of
from pike.api.targets import ExampleInputs, Target, task_for_now, words_for
from pike.api.waiting import kept_warnings, run_to_end
from pike.core.comparison.results import Result
from pike.core.verdict.evaluation import Effort, Evaluation, EvaluationRequest
from pike.engine.schedule.contenders.candidates import candidate_of
from pike.engine.schedule.contenders.histories import Histories
from pike.engine.schedule.contenders.naming import contenders_named
from pike.engine.schedule.scheduler import CampaignWiring
from pike.engine.schedule.suite import SuitePlan, Survey, run_suite
from pike.reporting.results import Column, ResultsTable, tables

__all__ = ["Column", "ResultsTable", "SuitePlan", "Survey", "baseline", "plan_usd", "suite"]


def suite(
    survey: Survey,
    *,
    llm: ModelNames | None = None,
    device: str | None = None,
    devices: str | Sequence[str] | None = None,
    executor: str | None = None,
    tolerance: str | None = None,
    config: str | Path | Mapping[str, Any] | None = None,
    settings: Sequence[str] = (),
    on_result: Callable[[Result], None] = lambda _: None,
    go_on: Callable[[SuitePlan], bool] = lambda _: True,
    shared: Shared | None = None,
) -> tuple[ResultsTable, ...]:
    """Measure contenders on many tasks, and keep every result as soon as it is there.

    The same call continues an interrupted suite: results in the folder are not measured again if
    candidate, task, kind of device, versions and terms are the same. `pike.report(survey.out)`
    writes the leaderboard.

    >>> survey = pike.Survey(("level3-pike",), Path("runs/level3"), ("recipes", "compile"))
    >>> tables = pike.suite(survey)  # doctest: +SKIP

    Args:
        survey: what is measured, and where results are kept.
        llm: the model of the strategies that name none of their own, or several.
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        devices: as for `optimize`.
        executor: as for `optimize`.
        tolerance: the rule of correctness, `strict` or `paper`.
        config: a TOML file, or what one holds, as for a campaign; `survey` can name the tables in
            `campaign.contenders`.
        settings: `a.b=c` settings, which win over everything else.
        on_result: told each new result.
        go_on: shown the plan; nothing is measured if it says no.
        shared: parts that are not the real ones.

    Returns:
        A table for each suite and precision.

    Raises:
        UserError: a target, an option or a contender cannot be used.
        BoundaryError: no judge could be started, or the disk refuses.
    """
    options = {"device": device, "tolerance": tolerance}
    named = [f"evaluate.{name}={value}" for name, value in options.items() if value is not None]
    named += [f"engine.executor={executor}"] if executor else []
    named += [f"engine.devices={names_of(devices)}"] if devices else []
    file = campaign_file(config or {}, llm=llm, settings=[*named, *settings])
    own = {one["name"]: one for one in file.campaign.contenders if isinstance(one, Mapping) and "name" in one}
    chosen = tuple(own.get(name, name) if isinstance(name, str) else name for name in survey.contenders)
    survey = replace(survey, contenders=chosen or file.campaign.contenders)
    shared = shared or Shared()
    wiring = CampaignWiring(executor=shared.executor, observer=shared.observer, on_result=on_result)
    with kept_warnings(survey.out):
        return tables(run_to_end(run_suite(survey, file.run, wiring, go_on)))


def baseline(
    target: Target,
    name: str,
    *,
    example_inputs: ExampleInputs | None = None,
    device: str | None = None,
    tolerance: str | None = None,
    precision: str | None = None,
    config: ConfigSource | None = None,
    settings: Sequence[str] = (),
) -> Evaluation:
    """Judge one baseline of a model as thoroughly as the result of a run.

    The options mean what they mean for `evaluate`.

    >>> eager = pike.baseline(model, "eager", example_inputs=example, settings=quick)
    >>> eager.speedup  # doctest: +SKIP
    1.0

    Args:
        target: as for `optimize`.
        example_inputs: for a module, as for `optimize`.
        name: for example `eager`, `compile`, `compile:max-autotune`.

    Raises:
        UserError: the target, an option or the name cannot be used.
    """
    options = given(locals())
    terms = compose_config(words_for(target), options).evaluate
    (contender,) = contenders_named([name], {})
    with task_for_now(target, example_inputs) as task:
        source = candidate_of(contender, task, terms.precision, Histories()).source
        return run_to_end(judge_once(EvaluationRequest(task, source, terms, Effort.FINAL)))
