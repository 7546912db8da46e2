"""The gallery: winners of searches that come with PIKE, and their measurement on this machine.

Knows the files of an entry, and what is measured beside a winner. Does not know how an entry was
made (`tools/gallery.py`) or how it is shown (`cli`).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

import pike
from pike import baselines, store, tasks
from pike.core.codec import decode
from pike.core.comparison.contender import Contender, ContenderKind
from pike.core.comparison.results import Provenance, Result, digest, trimmed
from pike.core.device import DeviceFacts
from pike.core.errors import UserError
from pike.core.settings.merging import nearest
from pike.core.task import Task
from pike.core.verdict.evaluation import Effort, EvaluateOptions, Evaluation, EvaluationRequest, OnStage
from pike.engine.executors.contract import Executor, evaluate_finally
from pike.engine.output.commit import commit
from pike.engine.output.result import BEST, RESULT
from pike.judge.candidate_file import parse_problem

FOLDER = Path(pike.__file__).parent / "gallery"
ORIGINAL = "original"
GALLERY, RECIPES, COMPILE = "gallery", "recipes", baselines.COMPILE.name
"""Contenders of the results: the winner, and beside it the best composition of recipes and the compile ways."""
BESIDE = (baselines.Technique.EAGER, baselines.Technique.CUDA_GRAPH, baselines.Technique.COMPILE)
"""The baselines that are measured in the winner's sessions."""


@dataclass(frozen=True, slots=True)
class Discovery:
    """The search that found a winner, with its verdict there: on its task, of the file as it was then.

    Attributes:
        task: the id of the search's task.
        run: the name of its folder.
        author: who wrote the candidate.
        queries: how many were answered in that search.
        date: when the verdict was reached, UTC, ISO 8601.
        device: where it was judged.
        effort: final if the finalists were measured again.
    """

    task: str
    run: str
    strategy: str
    candidate: str
    author: str
    queries: int
    date: str
    device: DeviceFacts
    options: EvaluateOptions
    effort: Effort
    evaluation: Evaluation


@dataclass(frozen=True)
class GalleryEntry:
    """One winner of the gallery.

    Attributes:
        task: its original.
        source: the file with `ModelNew`.
        found: the search that found it.
        results: of the last measurement on the entry's own files: the winner first, then what was
            timed in the same sessions; empty where there was none.
    """

    name: str
    folder: Path
    task: Task
    source: str
    found: Discovery
    results: tuple[Result, ...]

    @cached_property
    def verified(self) -> Result | None:
        """The winner's result, if these very files were measured to the end and it was valid."""
        mine = GALLERY, digest(self.source), digest(self.task.source)
        for one in self.results:
            if (one.contender.name, one.candidate_digest, one.task_digest) == mine:
                return one if one.evaluation and one.evaluation.valid else None
        return None

    @property
    def evaluation(self) -> Evaluation:
        """The verdict that counts: that of the entry's own files, else that of the search."""
        result = self.verified
        return result.evaluation if result and result.evaluation else self.found.evaluation

    def over(self, contender: str) -> float | None:
        """How many times as long the fastest beside it takes whose name begins so; None where unknown."""
        mine = self.verified.evaluation if self.verified else None
        ways = [one for one in self.results if one.contender.name.startswith(contender)]
        times = [one.evaluation.candidate_ms for one in ways if one.evaluation and one.evaluation.candidate_ms]
        return min(times) / mine.candidate_ms if times and mine and mine.candidate_ms else None

    @property
    def device(self) -> DeviceFacts:
        """Where that verdict was reached."""
        return self.verified.provenance.device if self.verified else self.found.device

    @property
    def problem(self) -> str:
        """What is wrong with the file by its text alone, empty if nothing is; nothing is run."""
        return parse_problem(self.source)

    def require(self, here: DeviceFacts) -> None:
        """Refuse a device for which the winner was not made.

        Raises:
            UserError: it has no such GPU.
        """
        made = self.found.device
        if (made.is_cuda, made.capability) != (here.is_cuda, here.capability):
            need = f"an NVIDIA GPU of compute capability {made.capability}" if made.is_cuda else "a CPU"
            raise UserError(
                f"{self.name} cannot be measured on {here.name}: it was made for {need}, such as {made.name}"
            )

    def elsewhere(self, here: DeviceFacts) -> str:
        """What was verified where, if that was not this device with this torch; else empty."""
        known, mine = dict(self.device.versions).get("torch", ""), dict(here.versions).get("torch", "")
        if (self.device.name, known) == (here.name, mine):
            return "" if self.verified else f"{self.name} was measured in its search only, on this device"
        how = "verified" if self.verified else "measured in its search"
        return (
            f"{self.name} was {how} on {self.device.name} with torch {known}, "
            f"and nothing is verified for {here.name} with torch {mine}"
        )


def entries(folder: Path = FOLDER) -> tuple[GalleryEntry, ...]:
    """Every entry, by name."""
    return tuple(_read(path.parent) for path in sorted(folder.glob(f"*/{RESULT}")))


def chosen(names: Sequence[str]) -> tuple[GalleryEntry, ...]:
    """The entries of these names, all if there is none.

    Raises:
        UserError: there is no such entry.
    """
    known = {one.name: one for one in entries()}
    for name in names:
        if name not in known:
            raise UserError(f"The gallery has no '{name}'{nearest(name, known)}")
    return tuple(known[name] for name in dict.fromkeys(names or known))


def keep(path: Path, results: Sequence[Result]) -> None:
    """Append results to a file, a JSON line each.

    Raises:
        UserError: its name would not be read again.
        StoreError: the disk refuses.
    """
    if path.suffix != ".jsonl":
        raise UserError(f"Results are lines of JSON: give --out a name that ends with .jsonl, not '{path.name}'")
    for one in results:
        store.append_result(path, one)


async def measure(
    entry: GalleryEntry,
    executor: Executor,
    options: EvaluateOptions,
    recipes: tuple[str, tuple[str, ...]] | None = None,
    on_stage: OnStage | None = None,
) -> tuple[Result, ...]:
    """Judge a winner as the finalist of a run, in the same sessions as the baselines, which share compilers' caches.

    Args:
        entry: whose winner is judged, on the terms of its search but for the device.
        executor: the judges.
        options: where it is judged.
        recipes: source and recipes of a composition to measure with them.
        on_stage: told each stage.

    Returns:
        The winner's result, then those of what stood beside it.
    """
    device, task = await executor.facts(options.device), entry.task
    rows: list[tuple[Contender, str, tuple[str, ...]]] = [(Contender(GALLERY, ContenderKind.RUN), entry.source, ())]
    rows += [(Contender(RECIPES, ContenderKind.RECIPES), *recipes)] if recipes else []
    for one in baselines.for_device(device.is_cuda):
        if one.technique in BESIDE:
            written = baselines.source(one, task, options.precision)
            rows.append((Contender(one.name, ContenderKind.BASELINE), written, ()))
    requests = []
    for contender, source, _ in rows:
        is_baseline = contender.kind is ContenderKind.BASELINE  # these share what they compile
        effort, caches = (Effort.BESIDE, contender.kind.value) if is_baseline else (Effort.FINAL, "")
        requests.append(EvaluationRequest(task, source, options, effort, caches=caches))
    found = await evaluate_finally(executor, requests, on_stage)
    command, date = f"pike gallery verify {entry.name}", datetime.now(UTC).isoformat(timespec="seconds")
    terms = replace(options, device=device.device)
    place = Provenance(device, terms, Effort.FINAL, pike.__version__, commit(), command, date, shared_caches=True)
    blank = Result(task.id, digest(task.source), terms.precision, rows[0][0], place, missing="not measured yet")
    return tuple(
        replace(
            blank,
            contender=contender,
            candidate_digest=digest(source),
            evaluation=trimmed(verdict),
            missing="",
            recipes=used,
            beside="" if source == entry.source else GALLERY,
            provenance=replace(place, effort=request.effort),
        )
        for (contender, source, used), request, verdict in zip(rows, requests, found, strict=True)
    )


def _read(folder: Path) -> GalleryEntry:
    try:
        original, source = (folder / ORIGINAL).read_text().strip(), (folder / BEST).read_text()
        found = decode(Discovery, json.loads((folder / RESULT).read_text())["found"])
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"The gallery's files in {folder} cannot be read ({error}): install PIKE again") from error
    results = store.results_in([folder / RESULT])
    return GalleryEntry(folder.name, folder, tasks.resolve(original), source, found, results)
