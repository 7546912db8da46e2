"""`best.py`: the winning candidate as one self-contained file that says what it is.

Knows the header that people read, and the line that `pike.load` reads. Does not know how the
candidate won, and never imports it.
"""

import ast
import json
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from pike.core.codec import decode, encode
from pike.core.errors import UserError, saying
from pike.core.step import Candidate
from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import Evaluation
from pike.store.whole import write_text

MARK = "# pike: "


@dataclass(frozen=True, slots=True)
class Terms:
    """What a best file was judged on; what `pike.load` needs to know.

    Attributes:
        call: the judged call (`pike.engine.output.signature`), None if it cannot be described.
        init_inputs: constructor arguments of `ModelNew` as a Python literal, None if they are none.
        dtypes: the types of the reference's parameters and buffers, None if unknown.
        final: the numbers were measured again at the end of the run.
        evaluation: the verdict, without its log.
        pike_version: the version that wrote the file.
        constants: (place among the call's tensors, digest) of those that the task draws equal every
            time (`pike.engine.output.signature`), None in files of versions that did not look.
        source_sha256: of the task's source, empty in files of earlier versions.
        run: the name of the run's folder, likewise.
        recipes: what the candidate is composed of, empty for a model's answer.
    """

    task: str
    kind: TaskKind
    candidate: str
    call: str | None
    init_inputs: str | None
    dtypes: str | None
    device: str
    final: bool
    evaluation: Evaluation
    pike_version: str
    constants: tuple[tuple[int, str], ...] | None = None
    source_sha256: str = ""
    run: str = ""
    recipes: tuple[str, ...] = ()

    def arguments(self) -> tuple[Any, ...] | None:
        """The constructor arguments of `ModelNew`, None if they are not known."""
        return None if self.init_inputs is None else tuple(ast.literal_eval(self.init_inputs))


def literal(values: tuple[Any, ...]) -> str | None:
    """`values` as a Python literal, None if they cannot be written as one."""
    text = repr(values)
    try:
        return text if ast.literal_eval(text) == values else None
    except (ValueError, SyntaxError):
        return None


def write(path: Path, task: Task, candidate: Candidate, terms: Terms) -> None:
    """Write the file, whole or not at all.

    Raises:
        StoreError: the disk refuses.
    """
    line = MARK + json.dumps(encode(terms))
    header = "\n".join(f"# {text}".rstrip() for text in _header(task, candidate, terms))
    write_text(path, f"{header}\n#\n{line}\n\n{candidate.source.rstrip()}\n")


def read(path: Path) -> Terms:
    """What the file was judged on.

    Raises:
        UserError: there is no such file, or PIKE did not write it.
    """
    with saying(UserError, f"The file {path} cannot be read", "give the best.py of a run"):
        lines = path.read_text().splitlines()
    header = takewhile(lambda line: not line or line.startswith("#"), lines)
    line = next((line for line in header if line.startswith(MARK)), None)
    if line is None:
        raise UserError(f"The file {path} has no '{MARK.strip()}' line in its header: give the best.py of a run")
    try:
        return decode(Terms, json.loads(line.removeprefix(MARK)))
    except ValueError as error:
        raise UserError(
            f"The '{MARK.strip()}' line of {path} cannot be read ({error}): run again for a new one"
        ) from error


def _header(task: Task, candidate: Candidate, terms: Terms) -> list[str]:
    verdict, timing, error = terms.evaluation, terms.evaluation.timing, terms.evaluation.error
    low, high = timing.speedup_ci95 if timing else (0.0, 0.0)
    measured = "measured again on fresh data" if terms.final else "from the search, NOT measured again yet"
    lines = [f"{_line(task.name)}, rewritten by PIKE {terms.pike_version}", ""]
    if timing:
        lines += [
            f"speedup    {timing.speedup:.2f}x (95 % interval {low:.2f} to {high:.2f}), {measured}",
            f"time       {timing.candidate_ms:.4g} ms a call, {timing.reference_ms:.4g} ms before",
        ]
    if timing and timing.worst:
        lines.append(f"least      {timing.worst.speedup:.2f}x, on inputs with {timing.worst.distribution}")
    if error:
        lines.append(
            f"error      at most {error.max_abs:.2g} (allowed {error.budget_max_abs:.2g}), rms {error.rms:.2g}"
        )
    lines += [
        f"precision  {verdict.precision.value}",
        f"tolerance  {verdict.tolerance.value}",
        f"device     {_line(verdict.device)}",
        f"torch      {_line(verdict.torch_version)}",
        f"call       {_line(terms.call or 'not describable')}",
        f"candidate  {candidate.id} by {_line(candidate.author or 'unknown')}: {_line(candidate.note)}",
        f"made from  {_line(task.id)}, source sha256 {terms.source_sha256}, in run {_line(terms.run)}",
        *([f"recipes    {' + '.join(terms.recipes)}"] if terms.recipes else []),
        "licence    Apache-2.0 for lines of PIKE's recipes; lines of the original keep the original's licence",
        "",
        "How to use it (for other calls than the one above the original answers):",
        "    import pike",
        '    model = pike.load("best.py", reference=model)',
    ]
    return lines


def _line(text: str) -> str:
    return " ".join(text.split())
