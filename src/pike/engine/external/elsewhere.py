"""Candidates that another machine judges: what waits is packed, and its verdicts are told.

Knows which verdicts a run takes. Does not know files (`bundle`), nor how anything is judged
(`judging`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pike import store
from pike.core.device import DeviceFacts
from pike.core.errors import UserError
from pike.core.verdict.evaluation import Effort, Evaluation, EvaluationRequest, OnStage, Requests
from pike.engine.executors.contract import Executor, JudgedElsewhere
from pike.engine.executors.parcel import IN_PARCEL, Parcel, pack
from pike.engine.external.bundle import Verdict, Waiting, read_verdicts, source_digest, write_bundle
from pike.engine.external.status import MoveReply, reply_of
from pike.engine.run.run import resume_run
from pike.engine.run.wiring import Wiring
from pike.engine.state.resume import read_state, state_of
from pike.engine.state.run_state import RunState


class VerdictsElsewhere(Executor):
    """Gives the verdicts that came, and notes what still waits for one.

    Args:
        device: where the verdicts come from.
        verdicts: those that came.
    """

    def __init__(self, device: DeviceFacts, verdicts: Iterable[Verdict] = ()) -> None:
        self.waiting: list[tuple[EvaluationRequest, ...]] = []
        self._device = device
        self._together = {(one.effort is Effort.SEARCH, one.sources): one.evaluations for one in verdicts}
        self._single = {
            (brief, source): evaluation
            for (brief, sources), evaluations in self._together.items()
            for source, evaluation in zip(sources, evaluations, strict=True)
        }

    async def evaluate(self, request: EvaluationRequest, on_stage: OnStage | None = None) -> Evaluation:
        """The verdict that came."""
        return (await self.evaluate_together([request], on_stage))[0]

    async def evaluate_together(self, requests: Requests, on_stage: OnStage | None = None) -> list[Evaluation]:
        """The verdicts that came; finalists take those of the same sessions only."""
        brief, sources = requests[0].effort is Effort.SEARCH, tuple(source_digest(one.source) for one in requests)
        if (brief, sources) in self._together:
            return list(self._together[brief, sources])
        if len(sources) == 1 and (brief, sources[0]) in self._single:
            return [self._single[brief, sources[0]]]
        self.waiting.append(tuple(requests))
        raise JudgedElsewhere

    async def facts(self, device: str) -> DeviceFacts:
        """The device of the verdicts."""
        return self._device

    async def aclose(self) -> None:
        """Nothing to stop."""


@dataclass(frozen=True, slots=True)
class PackedRuns:
    """What was packed.

    Attributes:
        digest: of the whole bundle.
        candidates: by the name of their run, how many wait.
    """

    digest: str
    candidates: dict[str, int]


async def pack_runs(runs: dict[str, Path], out: Path, wiring: Wiring) -> PackedRuns:
    """Write the candidates of several runs that wait for a verdict into one bundle.

    From then on the runs wait for verdicts of another machine.

    Raises:
        UserError: nothing waits, for example because no run's recipes are judged yet, or a task's
            files have changed.
        BoundaryError: as for `resume_run`, or the bundle cannot be written.
    """
    parcels: dict[str, Parcel] = {}
    found: list[Waiting] = []
    early = ""
    for name, folder in runs.items():
        state = read_state(folder)
        if state.finished:
            continue
        if state.config.llm.seed_recipes and not state.steps and not state.solutions:
            early = f"The run in {folder} has not judged its recipes yet: continue it with pike resume {folder}"
            continue
        executor = VerdictsElsewhere(state.device)
        await resume_run(folder, replace(wiring, executor=executor))
        if executor.waiting:
            parcel = pack(state.task)
            parcels[parcel.digest] = parcel
            found += [
                Waiting(
                    name, parcel.digest, state.config.evaluate, tuple(replace(one, task=IN_PARCEL) for one in several)
                )
                for several in executor.waiting
            ]
    if not found:
        where = ", ".join(map(str, runs.values()))
        nothing = f"No candidate waits for a verdict in {where}: answer the prompts of pike ask first"
        raise UserError(early or nothing)
    digest = write_bundle(out, parcels.values(), found)
    counts = {name: sum(len(one.requests) for one in found if one.run == name) for name in runs}
    return PackedRuns(digest, {name: count for name, count in counts.items() if count})


async def tell_verdicts(runs: dict[str, Path], path: Path, wiring: Wiring) -> dict[str, tuple[MoveReply, ...]]:
    """Take verdicts of another machine and carry the runs on; nothing is judged here.

    It may be repeated: a candidate keeps its first verdict.

    Returns:
        The replies to the steps whose candidates have a verdict in the file, by run.

    Raises:
        UserError: the file cannot be used, or a verdict is for something else. Nothing was written
            then.
        BoundaryError: as for `resume_run`.
    """
    head, verdicts = read_verdicts(path)
    by_run: dict[str, list[Verdict]] = {}
    for one in verdicts:
        by_run.setdefault(one.run, []).append(one)
    for name, several in by_run.items():
        if name not in runs:
            known = ", ".join(runs) if "" not in runs else "one run alone"
            raise UserError(f"{path} holds verdicts for the run '{name}', and here is {known}: tell them where it lies")
        _require_fitting(read_state(runs[name]), several, path)
    told = {}
    for name, several in by_run.items():
        if not read_state(runs[name]).finished:
            await resume_run(runs[name], replace(wiring, executor=VerdictsElsewhere(head.device, several)))
        told[name] = _replies(runs[name], several)
    return told


def _require_fitting(state: RunState, verdicts: Sequence[Verdict], path: Path) -> None:
    """Refuse verdicts for something else, before anything is written.

    Raises:
        UserError: they are.
    """
    task = state.task.id
    parcel = pack(state.task).digest
    known = {source_digest(one.candidate.source) for one in state.steps.values() if one.candidate}
    known |= {source_digest(one.candidate.source) for one in state.solutions.values()}
    devices = {one.evaluation.device for one in state.solutions.values() if one.evaluation.valid}
    for verdict in verdicts:
        if verdict.parcel != parcel:
            raise UserError(f"{path} judges another task than '{task}', or other files of it: bundle this run again")
        if verdict.terms != state.config.evaluate:
            raise UserError(f"{path} was judged with other settings than the run on '{task}' has: bundle it again")
        if not known.intersection(verdict.sources) or (verdict.effort is Effort.SEARCH and len(verdict.sources) > 1):
            raise UserError(f"{path} judges a candidate that the run on '{task}' does not have: tell it to its own run")
        for evaluation in verdict.evaluations:
            if evaluation.valid and devices and evaluation.device not in devices:
                raise UserError(
                    f"{path} was judged on {evaluation.device} and earlier candidates on {', '.join(sorted(devices))}, "
                    "and times on them are not comparable: judge the bundle there"
                )


def _replies(folder: Path, verdicts: Sequence[Verdict]) -> tuple[MoveReply, ...]:
    entries = tuple(store.read(folder))
    state = state_of(entries, folder)
    judged = {source for one in verdicts for source in one.sources}
    return tuple(
        reply_of(entries, state, folder, step_id)
        for step_id, step_state in state.steps.items()
        if step_state.candidate and source_digest(step_state.candidate.source) in judged
    )
