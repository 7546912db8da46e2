"""`--to kernelbench`: a folder in the layout of KernelBench's repository.

Knows its names of files, results and baselines. Does not know its judge: verdicts are PIKE's. Sample
0 is the best candidate, because KernelBench's analysis reads that sample alone.
"""

import json
import math
import re
from itertools import islice
from pathlib import Path
from typing import Any

from pike import store
from pike.core import figures
from pike.core.errors import UserError
from pike.core.events import RunStarted
from pike.core.task import TaskKind
from pike.core.verdict.evaluation import Evaluation, Status
from pike.exchange.exporters.exported import MARK, Exported, replace_folder
from pike.reporting import ReportedCandidate, RunSummary, summarise

FOLDER = "kernelbench"
COMPILED = frozenset(set(Status) - {Status.PARSE_ERROR, Status.BUILD_ERROR, Status.LOAD_ERROR})
"""Statuses of candidates that were built and loaded."""
BASELINE = "baseline_time_torch.json"


def export(folder: Path, out: Path | None) -> Exported:
    """Write the folder `OUT/kernelbench`, by default inside the run's folder."""
    summary = summarise(folder)
    if summary.task.kind is not TaskKind.SOURCE or not summary.task.source:
        raise UserError(f"The task of {folder} is no KernelBench-format file: optimise one to export it in that form")
    path = (out or folder) / FOLDER
    level, problem, name = _place(summary)
    run = re.sub(r"\W+", "_", folder.resolve().name)
    samples = _samples(summary)

    def write(draft: Path) -> None:
        _save(draft / "KernelBench" / f"level{level}" / name, summary.task.source)
        runs = draft / "runs" / run
        for number, one in enumerate(samples):
            _save(runs / f"level_{level}_problem_{problem}_sample_{number}_kernel.py", one.candidate.source)
        results = [_result(number, one) for number, one in enumerate(samples)]
        _save_json(runs / "eval_results.json", {str(problem): results})
        hardware = draft / "results" / "timing" / _hardware(summary)
        _save_json(hardware / BASELINE, {f"level{level}": {name: _original(summary, folder)}})
        _save_json(draft / MARK, {"task": summary.task.id, "run_name": run, "level": level, "problem_id": problem})

    replace_folder(path, write)
    sentence = f"Problem {problem} of level {level} with {figures.plural(len(samples), 'sample')} under runs/{run}."
    counts = {"level": level, "problem_id": problem, "run_name": run, "hardware": _hardware(summary)}
    return Exported("kernelbench", str(path), sentence, counts | {"samples": len(samples)})


def _place(summary: RunSummary) -> tuple[int, int, str]:
    """Level, problem and file name: those of the task's id, else level 1 and problem 1."""
    suite, _, stem = summary.task.id.rpartition("/")
    level, number = re.search(r"level_?(\d+)", suite), re.match(r"(\d+)(?:_|$)", stem)
    words = re.sub(r"\W+", "_", stem[number.end() :] if number else stem).strip("_") or "task"
    problem = int(number[1]) if number else 1
    return int(level[1]) if level else 1, problem, f"{problem}_{words}.py"


def _samples(summary: RunSummary) -> list[ReportedCandidate]:
    """Candidates with a source and a verdict, the best in front, the others in order."""
    judged = [one for one in summary.entrants if one.candidate.source and one.verdict]
    return sorted(judged, key=lambda one: one != summary.best)


def _result(number: int, one: ReportedCandidate) -> dict[str, Any]:
    verdict = one.verdict
    assert verdict is not None
    return {
        "sample_id": number,
        "compiled": verdict.status in COMPILED,
        "correctness": verdict.valid,
        "metadata": {"candidate": one.candidate.id, "status": verdict.status.value, "reason": verdict.reason},
        "runtime": _runtime(verdict),
        "runtime_stats": _stats(_runtime(verdict), verdict) if verdict.valid else {},
    }


def _runtime(verdict: Evaluation) -> float:
    """Milliseconds, as their baselines have them; -1 for a refused candidate.

    An imported candidate may have a speedup and no time: the original then takes 1 ms.
    """
    timing = verdict.timing
    if timing is None:
        return -1.0
    return 1.0 / timing.speedup if math.isnan(timing.candidate_ms) else timing.candidate_ms


def _original(summary: RunSummary, folder: Path) -> dict[str, Any]:
    """The original's time in the best candidate's sessions, else that of the preflight."""
    verdict = summary.best.verdict if summary.best else None
    event = next(islice(store.read(folder), 1)).event
    known = verdict.timing.reference_ms if verdict and verdict.timing else math.nan
    preflight = (event.original_ms if isinstance(event, RunStarted) else None) or 1.0
    return _stats(preflight if math.isnan(known) else known, verdict)


def _stats(ms: float, verdict: Evaluation | None) -> dict[str, Any]:
    """A time in the form of their statistics; PIKE keeps the median and no minimum or deviation."""
    device = verdict.device if verdict else ""
    trials = verdict.timing.calls if verdict and verdict.timing else 0
    return {"mean": ms, "num_trials": trials, "hardware": device, "device": ""}


def _hardware(summary: RunSummary) -> str:
    return re.sub(r"\W+", "_", summary.device.name).strip("_") or "unknown"


def _save(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _save_json(path: Path, value: Any) -> None:
    _save(path, json.dumps(value, indent=4) + "\n")
