"""The data folder of PIKE's authors: `full-pike-runs/level_L/RUN/runs/runs/run_N/run/tasks/taskK`.

Knows `output/iter_output/iter_I/attempts/attempt_A` and the JSON files of baselines. Does not know
the population: the parent of a candidate is the one whose source its prompt shows.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pike.core.errors import UserError
from pike.core.events import ImportedFrom
from pike.core.query import Answer
from pike.core.step import ORIGINAL
from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import Status, Tolerance
from pike.exchange.importers.foreign import ForeignCandidate, ForeignRun, ForeignVerdict, number, object_of
from pike.exchange.importers.openevolve import load_json, without_markers
from pike.tasks.loaders import load_suite

TOOL = "PIKE's published search"
BASELINES = "baseline-runtimes"
EAGER = "eager"
_MISSING = (
    "When anything happened, and so the minutes of the search.",
    "What calls cost: there are tokens and no prices.",
    "Intervals, errors within the tolerance, the device and its versions.",
    "The parent where a prompt shows several candidates or none.",
)


def read(source: Path) -> Iterator[ForeignRun] | None:
    """The runs of a data folder, or of a part of it down to one `taskK`; None for another layout."""
    folders = list(_task_folders(source)) if source.is_dir() else []
    return _runs(folders) if folders else None


def _task_folders(source: Path) -> Iterator[Path]:
    for path, folders, _ in os.walk(source):
        if (Path(path) / "output" / "iter_output").is_dir():
            folders.clear()
            yield Path(path).resolve()
        else:
            folders.sort(key=_number)


def _runs(folders: list[Path]) -> Iterator[ForeignRun]:
    untimed = []
    for folder in folders:
        times = _times(folder)
        if times.get(EAGER):
            yield _run(folder, times)
        else:
            untimed.append(folder.name)
    if len(untimed) == len(folders):
        raise UserError(
            f"No file {BASELINES}/*/{EAGER}.json above {folders[0]} times the original of {', '.join(untimed)}: "
            f"put the folder {BASELINES} beside full-pike-runs"
        )


def _run(folder: Path, times: dict[str, float]) -> ForeignRun:
    level, run, part = _place(folder)
    task = _task(folder, level)
    candidates = tuple(_candidates(folder))
    models = [one.answer.model for one in candidates if one.answer]
    return ForeignRun(
        name="-".join(filter(None, (run, part, folder.name))),
        task=task,
        origin=ImportedFrom(TOOL, str(folder), _MISSING),
        strategy=run or "pike",
        original=ForeignVerdict(Status.VALID, times[EAGER]),
        candidates=candidates,
        model=next(filter(None, models), ""),
        baselines=tuple((name, ms) for name, ms in times.items() if name != EAGER),
        ideas=_ideas(folder),
        tolerance=Tolerance.PAPER,
    )


def _place(folder: Path) -> tuple[str, str, str]:
    """The level, the run's name and the run's number, each empty where the path does not say."""
    found = re.search(r"/level_([^/]+)/([^/]+)/runs/runs/(run_\d+)/", f"{folder}/")
    return (found[1], found[2], found[3]) if found else ("", "", "")


def _task(folder: Path, level: str) -> Task:
    """The original beside the run, else the shipped task of that level and number."""
    task, program = _number(folder.name), folder / "initial_program.py"
    id = f"level{level}/{task}" if level else folder.name
    try:
        shipped = load_suite(f"level{level}").find(str(task)).read() if level else None
    except UserError:
        shipped = None
    if program.is_file():
        id = shipped.id if shipped else id
        return Task(id, id, TaskKind.SOURCE, without_markers(program.read_text(encoding="utf-8")), str(program))
    return shipped or Task(id, id, TaskKind.SOURCE, "", str(folder))


def _times(folder: Path) -> dict[str, float]:
    """Milliseconds of each baseline on the task, by name, from the nearest folder of baselines."""
    level, number_ = _place(folder)[0], _number(folder.name)
    for above in folder.parents:
        sets = sorted((above / BASELINES).glob("*")) if (above / BASELINES).is_dir() else []
        named = [path for path in sets if not level or path.name.endswith(f"level_{level}")]
        if named:
            found = {path.stem: _time(load_json(path), number_) for path in sorted(named[0].glob("*.json"))}
            return {name: ms for name, ms in found.items() if ms}
    return {}


def _time(data: Any, task: int) -> float | None:
    for one in data.get("results", []) if isinstance(data, dict) else []:
        if isinstance(one, dict) and task in (one.get("problem_id"), one.get("problem")):
            return number(one.get("runtime"))
    return None


def _ideas(folder: Path) -> tuple[str, ...]:
    path = folder / "output" / "ideas" / "ideas.json"
    found = load_json(path) if path.is_file() else []
    return tuple(str(one) for one in found) if isinstance(found, list) else ()


def _candidates(folder: Path) -> Iterator[ForeignCandidate]:
    """Every attempt in order; the first of an iteration starts from a seed, the others repair it."""
    valid: list[tuple[str, str]] = []
    for iteration in _numbered(folder / "output" / "iter_output", "iter_"):
        before = ""
        for attempt in _numbered(iteration / "attempts", "attempt_"):
            key = f"{iteration.name}/{attempt.name}"
            prompt, source = _text(attempt / "prompt.md"), _text(attempt / "code.py")
            verdict = _verdict(attempt, source)
            yield ForeignCandidate(
                key=key,
                source=source,
                verdict=verdict,
                parent=_parent(prompt, valid),
                repairs=before,
                attempt=_number(attempt.name),
                sample=_number(iteration.name),
                note=key,
                prompt=prompt,
                answer=_answer(attempt),
            )
            if verdict.status is Status.VALID:
                valid.append((key, source.strip()))
            before = key


def _parent(prompt: str, valid: list[tuple[str, str]]) -> str:
    """The one earlier candidate that a prompt shows, the original if it shows none, else unknown."""
    shown = {source: key for key, source in valid if source and source in prompt}
    if len(shown) == 1:
        return next(iter(shown.values()))
    return ORIGINAL if prompt and not shown else ""


def _verdict(attempt: Path, source: str) -> ForeignVerdict:
    """What `metrics_artifacts.json` says; one that is missing or empty means an unfinished attempt."""
    data = _read_object(attempt / "metrics_artifacts.json")
    results = object_of(object_of(data, "artifacts"), "results")
    judged = object_of(results, "eval_results")
    log = "\n".join(filter(None, (str(results.get(key) or "") for key in ("stdout", "stderr"))))
    ms = number(object_of(data, "metrics").get("runtime")) or number(judged.get("runtime"))
    if ms:
        return ForeignVerdict(Status.VALID, ms, log=log)
    if not source:
        return ForeignVerdict(Status.PARSE_ERROR, reason="the answer held no code", log=log)
    if not results:
        return ForeignVerdict(Status.INFRA_ERROR, reason="the data holds no verdict on it")
    if results.get("timed_out"):
        return ForeignVerdict(Status.TIMEOUT, reason="it took longer than 15 minutes", log=log)
    if judged.get("correct") is False:
        apart = f"its outputs differ by {judged.get('max_diff')}"
        return ForeignVerdict(Status.WRONG_OUTPUT, reason=apart, log=log)
    return ForeignVerdict(Status.RUNTIME_ERROR, reason="it did not load, build or run; the log says why", log=log)


def _answer(attempt: Path) -> Answer | None:
    """The answer with its tokens, from the response of Google's or of an OpenAI-like interface."""
    text, raw = _text(attempt / "response.md"), _read_object(attempt / "raw_response.json")
    usage = object_of(raw, "usage_metadata") or object_of(raw, "usage")
    sent = number(usage.get("prompt_token_count")) or number(usage.get("prompt_tokens")) or 0
    both = number(usage.get("total_token_count")) or number(usage.get("total_tokens")) or sent
    if not text and not usage:
        return None
    model = str(raw.get("model_version") or raw.get("model") or "")
    return Answer(text, model=model, input_tokens=int(sent), output_tokens=int(both - sent))


def _read_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file, empty where that is missing or damaged."""
    try:
        return object_of(load_json(path))
    except UserError:
        return {}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _numbered(folder: Path, prefix: str) -> list[Path]:
    found = [path for path in folder.glob(f"{prefix}*") if path.name.removeprefix(prefix).isdigit()]
    return sorted(found, key=lambda path: _number(path.name))


def _number(name: str) -> int:
    found = re.search(r"\d+", name)
    return int(found[0]) if found else 0
