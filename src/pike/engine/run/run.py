"""A whole run: begin it, resume it, or read its result.

Knows what is journalled first, and how a run is taken up again. Does not know its phases
(`phases`).
"""

import asyncio
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

import pike
from pike import store
from pike.core.events import Finished, QuerySent, Resumed, RunStarted
from pike.core.settings.config import RunConfig
from pike.core.task import Task
from pike.core.verdict.evaluation import EvaluationRequest
from pike.core.verdict.profile import Profile
from pike.engine.executors.exploring import Begun
from pike.engine.output import outputs
from pike.engine.output.result import RunResult, result_of
from pike.engine.run.configuration import baseline_sources, resolve, search_terms
from pike.engine.run.phases import Phases
from pike.engine.run.wiring import OpenParts, Wiring, opened
from pike.engine.state import resume
from pike.engine.state.journal_writer import JournalWriter
from pike.engine.state.models import make_strategy
from pike.engine.state.resume import read_state
from pike.engine.state.run_state import RunState
from pike.engine.state.timetable import limit_seconds

PROFILED_SECONDS = 2.0
"""How long the original is timed before it is profiled: its time is known from the preflight."""


async def start(task: Task, config: RunConfig, folder: Path, wiring: Wiring | None = None) -> RunResult:
    """Begin a run in a new folder and carry it out.

    Returns:
        The result; `finished` is False where `resume_run` can continue the run.

    Raises:
        UserError: something in the task or the configuration cannot be used, its original does not
            run, or the folder holds a run already.
        ProviderError: a provider could not be reached at the start.
        InfraError: no judge could be started.
        StoreError: the journal cannot be written; what was written is safe.
    """
    wiring = wiring or Wiring()
    config = resolve(config)
    strategy = make_strategy(config)
    async with opened(task, config, wiring) as parts:
        if parts.agents and parts.agents.recording and config.llm.replay_verdicts:
            parts.agents.recording.require_same(task.id, config)
        baseline_sources(config, task, parts.device)
        limit = limit_seconds(config.engine) or 0.0
        request = EvaluationRequest(task, "", config.evaluate, limit_seconds=limit)
        many = parts.agents is not None and parts.agents.uses_recipes and parts.original is not None
        if many and parts.device.is_cuda:  # on a CPU it would disturb the preflight, which times the original
            parts = replace(parts, explorer=Begun(parts.explorer, task, parts.device, search_terms(config)))
        original_ms = await parts.executor.preflight(request)
        if many:  # their compositions come all at once
            parts.executor.prepare(request)
        original_profile = await _original_profile(task, config, parts) if original_ms is not None else None
        with store.Journal.create(folder) as journal:
            writer = JournalWriter(journal, RunState(), wiring.observer)
            prompts = _prompts_version(config)
            writer.record(
                RunStarted(task, config, parts.device, pike.__version__, original_ms, prompts, original_profile)
            )
            return await Phases(writer, strategy, parts, wiring, folder).conduct()


async def resume_run(folder: Path, wiring: Wiring | None = None) -> RunResult:
    """Continue a run where its journal ends; a finished one is only read.

    Raises:
        UserError: there is no run in `folder`, another process holds it, or this version decides
            otherwise.
        ProviderError: a provider could not be reached at the start.
        InfraError: no judge could be started.
        StoreError: the journal cannot be read or written.
    """
    wiring = wiring or Wiring()
    with store.Journal.open(folder) as journal:
        # Prompts are in the journal for people; the run renders them again where it needs them.
        entries = journal.entries(without_texts=(QuerySent,))
        first = tuple(islice(entries, 1))
        begun = resume.continued(first, folder)
        if isinstance(journal.last().event, Finished):
            return await _read_finished(resume.state_of(tuple(chain(first, entries)), folder), wiring, folder)
        strategy = make_strategy(begun.config)
        writer = JournalWriter(journal, RunState(), wiring.observer)
        resume.rebuild(writer.state, strategy, chain(first, entries), folder)
        async with opened(begun.task, begun.config, wiring) as parts:
            run = Phases(writer, strategy, parts, wiring, folder)
            run.compare_device()
            writer.record(Resumed(pike.__version__))
            run.compare_prompts(_prompts_version(begun.config))
            return await run.conduct()


async def read_result(folder: Path) -> RunResult:
    """The outcome of a run so far, finished or not, read without touching it.

    Raises:
        UserError: there is no run in `folder`, or it has not begun.
    """
    state = read_state(folder)
    return result_of(state, folder, state.seconds)


async def _original_profile(task: Task, config: RunConfig, parts: OpenParts) -> Profile | None:
    """Where the original's time goes, for prompts; in a replay, what the recorded run found."""
    if parts.agents is None or not (config.prompt.profile and config.llm.asks_models):
        return None
    if parts.agents.recording is not None:
        return parts.agents.recording.started.original_profile
    from pike.agents import original_file

    briefly = replace(config.evaluate, max_timing_seconds=min(PROFILED_SECONDS, config.evaluate.max_timing_seconds))
    return (await parts.executor.evaluate(EvaluationRequest(task, original_file(task), briefly, profile=True))).profile


def _prompts_version(config: RunConfig) -> str:
    """The version of the prompts, empty where no model is asked."""
    if not config.llm.asks_models:
        return ""
    from pike.agents import prompts_version

    return prompts_version(config.prompt.folder)


async def _read_finished(state: RunState, wiring: Wiring, folder: Path) -> RunResult:
    """The result of a complete run; writes the files that its last process did not get to write."""
    result = result_of(state, folder, state.seconds, ("The run was finished already; nothing was done",))
    if not outputs.written(folder, result):
        original = await asyncio.to_thread(wiring.load, state.task) if wiring.load else None
        outputs.write(folder, state.task, result, original)
    return result
