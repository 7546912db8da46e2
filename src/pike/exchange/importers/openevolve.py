"""Checkpoints of OpenEvolve: `metadata.json` beside `programs/ID.json`.

Knows their files, also those of the authors' fork and of `pike export --to openevolve`. Does not
need the package. A checkpoint holds the population, so programs that left it are missing.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pike.core.errors import UserError
from pike.core.events import ImportedFrom
from pike.core.query import Answer
from pike.core.step import ORIGINAL
from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import Status
from pike.exchange.importers.foreign import ForeignCandidate, ForeignRun, ForeignVerdict, number, object_of

TOOL = "OpenEvolve"
ERROR, METADATA = "error", "metadata.json"
_MARKERS = ("# EVOLVE-BLOCK-START", "# EVOLVE-BLOCK-END")
_MISSING = (
    "Programs that had left the population when the checkpoint was written.",
    "Intervals, errors against the original, the device and its versions.",
    "Tokens and money.",
)


def read(source: Path) -> Iterator[ForeignRun] | None:
    """The run of a checkpoint, or of the newest one of an output folder; None for another layout."""
    checkpoint = _checkpoint(source)
    return None if checkpoint is None else iter([_run(checkpoint)])


def load_json(path: Path) -> Any:
    """The content of a JSON file.

    Raises:
        UserError: it cannot be read or is no JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be imported ({error}): it is damaged or no JSON") from error


def programs_of(checkpoint: Path) -> list[dict[str, Any]]:
    """The programs of a checkpoint in the order in which they were found."""
    found = [load_json(path) for path in sorted((checkpoint / "programs").glob("*.json"))]
    usable = [one for one in found if isinstance(one, dict) and isinstance(one.get("code"), str) and one.get("id")]
    return sorted(usable, key=lambda one: (number(one.get("iteration_found")) or 0, number(one.get("timestamp")) or 0))


def checkpoints_in(folder: Path) -> list[Path]:
    """The checkpoints in an output folder, oldest first."""
    numbered = [path for path in folder.glob("checkpoint_*") if path.name.rpartition("_")[2].isdigit()]
    found = [path for path in numbered if (path / "programs").is_dir()]
    return sorted(found, key=lambda path: int(path.name.rpartition("_")[2]))


def without_markers(code: str) -> str:
    """A program without the lines that mark what may evolve."""
    lines = [line for line in code.splitlines() if line.strip() not in _MARKERS]
    return "\n".join(lines).strip("\n") + "\n"


def _checkpoint(source: Path) -> Path | None:
    if (source / "programs").is_dir() and (source / METADATA).is_file():
        return source
    found = [*checkpoints_in(source), *checkpoints_in(source / "checkpoints")] if source.is_dir() else []
    return found[-1] if found else None


def _run(checkpoint: Path) -> ForeignRun:
    programs = programs_of(checkpoint)
    roots = [one for one in programs if not one.get("parent_id")]
    if not roots:
        raise UserError(f"{checkpoint} holds no program without a parent, so that its original is unknown")
    origin = load_json(checkpoint / "pike.json") if (checkpoint / "pike.json").is_file() else {}
    name = f"{checkpoint.resolve().parent.parent.name}-{checkpoint.resolve().name}"
    task = str(origin.get("task") or f"openevolve/{name}")
    return ForeignRun(
        name=name,
        task=Task(task, task, TaskKind.SOURCE, without_markers(roots[0]["code"]), str(checkpoint)),
        origin=ImportedFrom(TOOL, str(checkpoint.resolve()), _MISSING),
        strategy=str(origin.get("strategy") or "openevolve"),
        original=verdict_of(roots[0].get("metrics")),
        candidates=tuple(_candidates(programs, roots[0], _islands(checkpoint / METADATA))),
        model=next(filter(None, map(_author, programs)), ""),
    )


def _islands(path: Path) -> dict[str, int]:
    """The island of each program; a copy that migrated is a program of its own."""
    islands = object_of(load_json(path)).get("islands") if path.is_file() else None
    return {str(name): number for number, names in enumerate(islands or ()) for name in names}


def _candidates(
    programs: list[dict[str, Any]], root: dict[str, Any], islands: dict[str, int]
) -> Iterator[ForeignCandidate]:
    """All programs but the original and the copies that migration made."""
    names = _names({str(one["id"]): one for one in programs}, root)
    for one in programs:
        key = str(one["id"])
        if names[key] != key:
            continue
        system, prompt, answer = _dialogue(one)
        yield ForeignCandidate(
            key=key,
            source=without_markers(one["code"]),
            verdict=verdict_of(one.get("metrics")),
            parent=names.get(str(one.get("parent_id")), ""),
            sample=int(number(one.get("iteration_found")) or 0),
            note=_note(one),
            system=system,
            prompt=prompt,
            answer=answer,
            at_seconds=number(one.get("timestamp")) or None,
            island=islands.get(key),
        )


def _names(by_id: dict[str, dict[str, Any]], root: dict[str, Any]) -> dict[str, str]:
    """The program that each program is: itself, what it is a copy of, or the original.

    A copy has the code of its parent, and may be listed before it.
    """
    names = {}
    for key, one in by_id.items():
        name, seen = key, {key}
        while (parent := str(one.get("parent_id"))) in by_id and by_id[parent]["code"] == one["code"]:
            if parent in seen:
                break
            name, one = parent, by_id[parent]
            seen.add(parent)
        names[key] = ORIGINAL if one["code"] == root["code"] else name
    return names


def verdict_of(metrics: Any) -> ForeignVerdict:
    """What the metrics of a program say; `runtime` and `runtime_ms` are milliseconds."""
    known = object_of(metrics)
    ms = number(known.get("runtime_ms")) or number(known.get("runtime"))
    score = number(known.get("combined_score"))
    failed = known.get(ERROR)
    if failed or (not ms and not score):
        return ForeignVerdict(Status.RUNTIME_ERROR, reason=str(failed or "it has no score"), score=score)
    return ForeignVerdict(Status.VALID, ms, number(known.get("speedup")), score)


def _author(program: dict[str, Any]) -> str:
    return str(object_of(program, "metadata").get("author") or "")


def _note(program: dict[str, Any]) -> str:
    changes = program.get("changes_description") or object_of(program, "metadata").get("changes")
    first = str(changes or "").strip().partition("\n")[0]
    return f"{program['id']}: {first}".rstrip(": ")


def _dialogue(program: dict[str, Any]) -> tuple[str, str, Answer | None]:
    """System prompt, prompt and answer, as far as the checkpoint logged them."""
    first = object_of(next(iter(object_of(program, "prompts").values()), None))
    responses = first.get("responses") or []
    answer = Answer(str(responses[-1]), model=_author(program)) if responses else None
    return str(first.get("system") or ""), str(first.get("user") or ""), answer
