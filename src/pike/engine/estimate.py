"""What a run will take, before it starts: queries, tokens, money and hours, with the assumptions said.

Knows how a budget becomes calls and evaluations. Does not know prompts (`agents` estimates those) or ask anything of
a provider: prices come from tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pike import search
from pike.core.config import RunConfig
from pike.core.device import DeviceFacts
from pike.core.step import Role
from pike.core.task import Task
from pike.engine.crew import Crew, assemble
from pike.engine.executors.local import judge_count
from pike.engine.models import NONE

FIX_SHARE = 0.45
"""Part of the budgeted queries that repair a candidate; the paper's runs lie between 0.3 and 0.6."""
ANSWER_SECONDS = 120.0
"""From sending a query to the last byte, for a model that thinks."""
BUILD_SECONDS = 45.0
"""Parsing, building and checking one candidate; builds run side by side."""
FINAL_FACTOR = 3.0
"""A finalist is measured about so many times longer than a candidate of the search."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run is expected to take.

    Attributes:
        queries: budgeted queries, at most.
        calls: calls of a model, brainstorming included, retries not.
        input_tokens: of all calls.
        output_tokens: of all calls, thinking included.
        usd: money, None where a price is unknown; 0 without a model.
        hours: wall-clock time.
        models: (role, model) pairs.
        limited_by: which limit of the budget ends the run first: `queries`, `money` or `tokens`.
        assumptions: what this rests on, one sentence each.
    """

    queries: int
    calls: int
    input_tokens: int
    output_tokens: int
    usd: float | None
    hours: float
    models: tuple[tuple[str, str], ...]
    limited_by: str
    assumptions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Bill:
    calls: float = 0.0
    input_tokens: float = 0.0
    output_tokens: float = 0.0
    usd: float | None = 0.0


def estimate(task: Task, config: RunConfig, device: DeviceFacts | None = None) -> Estimate:
    """What a run of `task` under `config` will take.

    Args:
        task: the problem; the length of its source sets the length of prompts.
        config: the budget, the models and the terms.
        device: where candidates will run; only shown in prompts.

    Raises:
        UserError: the strategy, a model's name or the budget cannot be used.
    """
    crew = assemble(config)
    queries = search.most_queries(config.strategy, config.budget)
    bill = _bill(task, config, crew, queries, device or DeviceFacts("cpu", "unknown device"))
    share, limit = _within(config, bill)
    asked = round(queries * share)
    return Estimate(
        queries=asked,
        calls=round(bill.calls * share),
        input_tokens=round(bill.input_tokens * share),
        output_tokens=round(bill.output_tokens * share),
        usd=None if bill.usd is None else bill.usd * share,
        hours=_seconds(config, asked, bill.calls > 0) / 3600.0,
        models=tuple((role.value, name) for role, name in crew.names.items()),
        limited_by=limit,
        assumptions=_assumptions(config, bill),
    )


def _bill(task: Task, config: RunConfig, crew: Crew, queries: int, device: DeviceFacts) -> _Bill:
    counts: Mapping[Role, float] = {
        Role.BRAINSTORM: 1.0,
        Role.OPTIMISE: queries * (1.0 - FIX_SHARE),
        Role.FIX: queries * FIX_SHARE,
    }
    if not crew.clients or crew.recording is not None:
        return _Bill()
    from pike.agents.estimate import estimate as estimate_queries

    bill = _Bill()
    for query in estimate_queries(task, device, config.evaluate):
        name = crew.names[query.role]
        if name == NONE:
            continue
        count, price = counts[query.role], crew.clients[name].price()
        usd = None if price is None else count * price.usd(query.input_tokens, query.output_tokens)
        bill = _Bill(
            bill.calls + count,
            bill.input_tokens + count * query.input_tokens,
            bill.output_tokens + count * query.output_tokens,
            None if usd is None or bill.usd is None else bill.usd + usd,
        )
    return bill


def _within(config: RunConfig, bill: _Bill) -> tuple[float, str]:
    """The part of the queries that the budget pays for, and the limit that binds."""
    shares = {"queries": 1.0}
    if config.budget.usd is not None and bill.usd:
        shares["money"] = config.budget.usd / bill.usd
    if config.budget.tokens is not None and bill.calls:
        shares["tokens"] = config.budget.tokens / (bill.input_tokens + bill.output_tokens)
    limit = min(shares, key=shares.__getitem__)
    return min(1.0, shares[limit]), limit


def _seconds(config: RunConfig, queries: int, asks_models: bool) -> float:
    side_by_side = max(1, config.engine.concurrency)
    asking = queries * ANSWER_SECONDS / side_by_side if asks_models else 0.0
    building = queries * BUILD_SECONDS / min(side_by_side, judge_count(config.engine))
    timing = queries * config.evaluate.max_timing_seconds / 2
    finals = config.engine.finalists * (BUILD_SECONDS + FINAL_FACTOR * config.evaluate.max_timing_seconds)
    # Asking overlaps with judging; the longer of the two decides, and timing is alone on the device.
    return max(asking, building + timing) + finals


def _assumptions(config: RunConfig, bill: _Bill) -> tuple[str, ...]:
    said = [
        f"{BUILD_SECONDS:.0f} s to build and check a candidate, {judge_count(config.engine)} at once; "
        f"up to {config.evaluate.max_timing_seconds:.0f} s to time one, alone on the device",
    ]
    if bill.calls:
        said += [
            f"{FIX_SHARE:.0%} of the queries repair a candidate",
            f"{ANSWER_SECONDS:.0f} s for an answer, {config.engine.concurrency} at once",
            "tokens within a factor of two; no discount for cached prompts",
        ]
    if bill.usd is None:
        said.append("The price of a model is unknown: the money is not estimated, and only a token budget can limit it")
    return tuple(said)
