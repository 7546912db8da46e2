"""The cost of a run before it starts: queries, tokens, money and hours, with the assumptions.

Knows how a budget becomes calls and evaluations: it asks the strategy, and tells it made-up
outcomes. Does not know prompts (`agents` estimates those) and asks no provider: prices come from
tables.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import fmean

from pike import search
from pike.core.device import DeviceFacts
from pike.core.settings.config import NONE, RunConfig
from pike.core.step import Candidate, Outcome, Role, Step
from pike.core.task import Task
from pike.core.verdict.evaluation import Evaluation, Status, Timing
from pike.engine.executors.local import judge_count
from pike.engine.run.agents import Agents, assemble
from pike.engine.run.configuration import resolve
from pike.engine.state.models import pairs
from pike.engine.state.run_state import prompt_terms

REFUSED_SHARE = 0.45
"""Part of the candidates that are refused; in the paper, 0.3 to 0.6 of the queries repair one."""
DRY_QUERIES = 300
"""The most queries of a tried strategy; figures of a larger budget are extrapolated."""
ANSWER_SECONDS = 120.0
"""From sending a query to the last byte, for a model that thinks."""
BUILD_SECONDS = 45.0
"""Parsing, building and checking one candidate; builds run side by side."""
FINAL_FACTOR = 3.0
"""How many times longer a finalist is measured than a candidate of the search."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The expected cost of a run.

    Attributes:
        queries: budgeted queries, at most; candidates where recipes write them.
        calls: calls of a model, brainstorming included, retries not.
        input_tokens: of all calls.
        output_tokens: of all calls, thinking included.
        usd: money, None where a price is unknown; 0 without a model.
        hours: wall-clock time.
        models: (role, model) pairs of the roles that will be asked, one for each model of a role.
        limited_by: the limit that ends the run first: `queries`, `money`, `tokens` or `hours`.
        assumptions: one sentence each.
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
    """The expected cost of a run of `task` under `config`.

    Raises:
        UserError: the strategy, a model's name or the budget cannot be used.
    """
    config = resolve(config)
    agents = assemble(config)
    queries = search.most_queries(config.strategy, config.budget) or config.budget.queries
    counts = _counts(config, queries)
    bill = _bill(task, config, agents, counts, device or DeviceFacts("cpu", "unknown device"))
    share, limit = _within(config, bill)
    asked = round(queries * share)
    hours, most = _seconds(config, asked, bill.calls > 0) / 3600.0, config.engine.max_hours
    if most is not None and hours > most:
        hours, limit = most, "hours"
    return Estimate(
        queries=asked,
        calls=round(bill.calls * share),
        input_tokens=round(bill.input_tokens * share),
        output_tokens=round(bill.output_tokens * share),
        usd=None if bill.usd is None else bill.usd * share,
        hours=hours,
        models=pairs(config.llm, counts),
        limited_by=limit,
        assumptions=_assumptions(config, bill, counts),
    )


def _counts(config: RunConfig, queries: int) -> Mapping[Role, float]:
    """How often each role is asked in a run of `queries`, free queries included."""
    budget = replace(config.budget, queries=min(config.budget.queries, DRY_QUERIES))
    strategy = search.make(config.strategy, budget, config.engine.run_seed)
    steps = [call for call in search.drive(strategy, _made_up) if isinstance(call, Step)]
    paid = Counter(step.role for step in steps if step.queries)
    free = Counter(step.role for step in steps if not step.queries)
    growth = queries / paid.total() if queries > DRY_QUERIES and paid else 1.0
    return {role: paid[role] * growth + free[role] for role in Role if paid[role] or free[role]}


def _made_up(step: Step) -> Outcome:
    """A typical outcome; among any few consecutive steps, about the same share is refused."""
    if step.role is Role.BRAINSTORM:
        return Outcome(step.id, ideas=("an idea",))
    if step.role is Role.PLAN:
        return Outcome(step.id, text="a plan")
    place = step.id * _GOLDEN % 1.0
    source = f"candidate {step.id}"
    if place < REFUSED_SHARE:
        return Outcome(step.id, Candidate(f"c{step.id}", source, step.seed), Evaluation(Status.BUILD_ERROR, "made up"))
    timing = Timing(2.0, 1.0 + place, 2.0 / (1.0 + place), (0.9, 2.1), 10, 100, 0.01)
    return Outcome(step.id, Candidate(f"c{step.id}", source, step.seed), Evaluation(Status.VALID, timing=timing))


_GOLDEN = 0.6180339887498949
"""Any number of its multiples, modulo 1, spreads evenly over the unit interval."""


def _bill(task: Task, config: RunConfig, agents: Agents, counts: Mapping[Role, float], device: DeviceFacts) -> _Bill:
    if not agents.clients or agents.recording is not None:
        return _Bill()
    from pike.agents import estimate as estimate_queries

    bill = _Bill()
    for query in estimate_queries(task, device, config.evaluate, prompt_terms(config)):
        names, count = agents.names[query.role], counts.get(query.role, 0.0)
        if names == (NONE,) or not count:
            continue
        prices = [agents.clients[name].price() for name in names]
        written = config.llm.output_tokens(query.output_tokens)
        each = [price.usd(query.input_tokens, written) for price in prices if price is not None]
        usd = count * fmean(each) if len(each) == len(prices) else None
        bill = _Bill(
            bill.calls + count,
            bill.input_tokens + count * query.input_tokens,
            bill.output_tokens + count * written,
            None if usd is None or bill.usd is None else bill.usd + usd,
        )
    return replace(bill, usd=0.0) if config.llm.costs_nothing else bill


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


def _assumptions(config: RunConfig, bill: _Bill, counts: Mapping[Role, float]) -> tuple[str, ...]:
    said = [
        f"{BUILD_SECONDS:.0f} s to build and check a candidate, {judge_count(config.engine)} at once; "
        f"up to {config.evaluate.max_timing_seconds:.0f} s to time one, alone on the device"
    ]
    if bill.calls:
        calls = ", ".join(f"{role.value} {count:.0f}" for role, count in counts.items())
        said += [
            f"{REFUSED_SHARE:.0%} of the candidates are refused; calls by role before any other limit: {calls}",
            f"{ANSWER_SECONDS:.0f} s for an answer, {config.engine.concurrency} at once",
            "tokens within a factor of two; no discount for cached prompts",
        ]
        if any(len(config.llm.models(role)) > 1 for role in counts):
            said.append("of several models of a role, each is asked equally often")
    if bill.usd is None:
        said.append("The price of a model is unknown: the money is not estimated, and only a token budget can limit it")
    return tuple(said)
