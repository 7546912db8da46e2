"""Batches of prompts and answers: files named after their steps, for a run or a campaign's runs.

Knows how the files are called, which step each is for, and that runs of a campaign go on side by
side. Does not know which answers are taken (`answers`) or the order of a move (`external_run`).
"""

import asyncio
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pike.core.errors import UserError, saying
from pike.core.query import Answer
from pike.engine.executors.choice import executor_of
from pike.engine.external import external_run
from pike.engine.external.answers import read_answer
from pike.engine.external.elsewhere import PackedRuns, VerdictsElsewhere, pack_runs
from pike.engine.external.external_run import is_run
from pike.engine.external.status import MoveReply, Question
from pike.engine.run.external_answers import external_roles
from pike.engine.run.wiring import Wiring
from pike.engine.schedule.shared import SharedOriginals
from pike.engine.state.resume import read_state
from pike.store import campaigns

_LOG = logging.getLogger(__name__)

PROMPT = "step-{step}.prompt.md"
"""The file of a prompt; it is never read as an answer, so both may lie in one folder."""
_PROMPT = re.compile(r"step-\d+\.prompt\.md")
_ANSWER = re.compile(r"step-(\d+)\.(?:py|md|txt)")


@dataclass(frozen=True, slots=True)
class AnswerFile:
    """A file with the answer to one step."""

    step: int
    path: Path
    answer: Answer


ToldFile = tuple[AnswerFile, MoveReply]
"""A file with what became of its answer."""
Told = dict[str, tuple[ToldFile, ...]]
"""The same for each run, by its name; a run that stands alone has an empty one."""


def runs_of(folder: Path) -> dict[str, Path]:
    """The runs that have begun in a campaign by name, or under an empty name the run itself."""
    if not campaigns.is_campaign(folder):
        return {"": folder}
    names = [cell.folder for cell in campaigns.read_plan(folder).cells() if cell.contender.searches]
    return {name: run for name in names if is_run(run := campaigns.run_folder(folder, name))}


async def ask_runs(folder: Path, wiring: Wiring | None = None) -> dict[str, tuple[Question, ...]]:
    """The prompts that may be in flight, by run; runs that are finished or ask models have none.

    Raises:
        UserError: `folder` holds no run that can be asked.
    """
    asked, refused = {}, UserError(f"No prompt waits for an answer in {folder}: continue with pike resume {folder}")
    for name, run in runs_of(folder).items():
        state = read_state(run)
        # A single run that cannot be asked says itself why.
        if not name or (not state.finished and external_roles(state.config.llm)):
            try:
                asked[name] = await external_run.ask_all(run, wiring)
            except UserError as error:
                refused = error
                if name:
                    _LOG.warning("%s has no prompt: %s", name, error)
    asked = {name: several for name, several in asked.items() if several}
    if not asked:
        raise refused
    return asked


async def tell_runs(folder: Path, answers: Path, wiring: Wiring, author: str = "") -> Told:
    """Take a folder of answers; what becomes of each file, by run.

    Raises:
        UserError: the folder cannot be read, or as for `external_run.tell_all`.
        BoundaryError: as for `external_run.tell_all`; the other runs were carried on.
    """
    runs = runs_of(folder)
    files = read_answers(answers, runs, author)
    if "" in runs:
        return {"": await _tell(folder, files[""], wiring)}
    plan = campaigns.read_plan(folder)
    most = asyncio.Semaphore(plan.campaign.concurrency)
    owner = wiring.executor or executor_of(plan.run.engine)
    load = SharedOriginals(wiring.load, plan.campaign.concurrency).load if wiring.load else None
    # Ctrl-C cancels all runs at once: each holds its answers by then.
    shared = replace(wiring, executor=owner, load=load, handle_signals=False)

    async def in_turn(name: str) -> tuple[ToldFile, ...]:
        async with most:
            return await _tell(runs[name], files[name], shared)

    try:
        found = await asyncio.gather(*map(in_turn, files), return_exceptions=True)
    finally:
        if wiring.executor is None:
            await owner.aclose()
    told: Told = {}
    for name, one in zip(files, found, strict=True):
        if isinstance(one, BaseException):
            raise one
        told[name] = one
    return told


async def bundle_runs(folder: Path, answers: Path | None, out: Path, wiring: Wiring, author: str = "") -> PackedRuns:
    """Take a folder of answers without judging them, and pack every candidate that waits for a verdict.

    Raises:
        UserError: as for `tell_runs` and `pack_runs`, or `folder` holds no run with external answers.
        BoundaryError: as for `pack_runs`; answers that were taken are safe.
    """
    runs = {name: run for name, run in runs_of(folder).items() if external_roles(read_state(run).config.llm)}
    if not runs:
        raise UserError(
            f"No run in {folder} is answered by hand, so nothing waits for another machine: pike resume {folder}"
        )
    shared = replace(wiring, load=SharedOriginals(wiring.load, len(runs)).load) if wiring.load else wiring
    for name, files in (read_answers(answers, runs, author) if answers else {}).items():
        device = read_state(runs[name]).device
        await _tell(runs[name], files, replace(shared, executor=VerdictsElsewhere(device)))
    return await pack_runs(runs, out, shared)


async def _tell(run: Path, files: tuple[AnswerFile, ...], wiring: Wiring) -> tuple[ToldFile, ...]:
    replies = await external_run.tell_all(run, {file.step: file.answer for file in files}, wiring)
    return tuple(zip(files, replies, strict=True))


def write_prompts(folder: Path, questions: Mapping[str, tuple[Question, ...]]) -> tuple[Path, ...]:
    """Write the prompts of each run into its own folder.

    Raises:
        UserError: a file cannot be written.
    """
    written = []
    for name, several in questions.items():
        for question in several:
            written.append(path := folder / name / PROMPT.format(step=question.step.id))
            with saying(UserError, f"The prompt cannot be written to {path}"):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(question.text)
    return tuple(written)


def read_answers(folder: Path, runs: Mapping[str, Path], author: str = "") -> dict[str, tuple[AnswerFile, ...]]:
    """The answers of each run, in the order of their steps; a run without answers is left out.

    Raises:
        UserError: `folder` holds no answers, a file's name names no step, a folder's name no run,
            two files answer one step, or a file cannot be read.
    """
    found: dict[str, tuple[AnswerFile, ...]] = {}
    if not folder.is_dir():
        raise UserError(f"There is no folder of answers at {folder}")
    if "" not in runs:
        for one in _visible(folder):
            if one.name not in runs or not one.is_dir():
                raise UserError(f"{one} is no folder of a run of this campaign; its runs are {', '.join(runs)}")
            found[one.name] = _answers_in(one, author)
    else:
        found[""] = _answers_in(folder, author)
    found = {name: several for name, several in found.items() if several}
    if not found:
        raise UserError(f"{folder} holds no answers: name each file after its prompt, for example step-0.py")
    return found


def _answers_in(folder: Path, author: str) -> tuple[AnswerFile, ...]:
    found: dict[int, AnswerFile] = {}
    for path in _visible(folder):
        if _PROMPT.fullmatch(path.name):
            continue
        named = _ANSWER.fullmatch(path.name)
        if named is None:
            raise UserError(
                f"{path} names no step: call a candidate file step-N.py, and any other answer step-N.md or step-N.txt"
            )
        step = int(named[1])
        if step in found:
            raise UserError(f"{found[step].path} and {path.name} answer the same step: keep one of them")
        found[step] = AnswerFile(step, path, replace(read_answer(path), model=author))
    return tuple(found[step] for step in sorted(found))


def _visible(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
