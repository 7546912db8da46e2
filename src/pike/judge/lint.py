"""Whether a task tests anything: trivial answers must be refused, and the reference without a part.

Compares each under the strict error budget. Runs trusted code only. Does not know candidates.
"""

import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch

from pike.core.errors import UserError
from pike.core.verdict.evaluation import Tolerance
from pike.core.verdict.lint import LintReport, TrivialAnswer
from pike.judge.child.memory.layout import take_apart
from pike.judge.correctness.compare import Expected, ReferenceErrors, compare, compare_closely, is_real
from pike.judge.prepared_task import PreparedTask
from pike.judge.reference.dropped import Outputs, mutants
from pike.judge.reference.in_process import InProcess
from pike.judge.reference.reference import Inputs

MOST_SECONDS = 120.0
_DRAWS = 3
"""Inputs tried for each dropped part, as many as the judge draws: one may hardly use it."""
_FAR = 1e3
"""An answer so many times over its budget needs no closer look."""
_CURES = {
    "zeros": "its output is zero: check the weights' initialisation",
    "a constant": "its output hardly depends on anything: check the weights' initialisation",
    "the mean answer": "its output hardly depends on the input: scale weights or inputs up",
    "another input's answer": "its output does not depend on the input: draw the inputs at random",
    "a copied input": "it returns its input: there is nothing to compute",
    "shuffled rows": "its rows are all alike: scale weights or inputs up",
}


@dataclass(frozen=True, slots=True)
class _Draw:
    inputs: Inputs
    expected: Expected


Answer = Callable[[_Draw, _Draw], list[torch.Tensor] | None]


def lint(
    subject: InProcess, most_seconds: float = MOST_SECONDS, yield_device: Callable[[], object] = lambda: None
) -> LintReport:
    """Try every trivial answer, then the reference with one part dropped while there is time.

    `yield_device` is called now and then, so that others may time meanwhile.
    """
    started = time.monotonic()
    draws = []
    for _ in range(2):
        draws.append(_drawn(subject))
        yield_device()
    found, untried = list(_trivial(subject, (draws[0], draws[1]))), 0
    for name, outputs in mutants(subject.model, subject.trial):
        yield_device()
        if time.monotonic() - started > most_seconds:
            untried += 1
        else:
            found.append(_mutant(subject, draws, name, outputs))
    return LintReport(subject.task.id, tuple(found), untried)


def look_for_trivial(prepared: PreparedTask, refuse: bool = True) -> None:
    """Try the trivial answers only, which cost two calls of the reference.

    Raises:
        UserError: one would pass, and `refuse` is set; the message says which and what to do.
    """
    draws = _drawn(prepared), _drawn(prepared)
    passing = [answer for answer in _trivial(prepared, draws) if not answer.refused]
    prepared.tests_nothing = bool(passing)
    if passing and refuse:
        words = "; ".join(f"{answer.name} ({answer.reason})" for answer in passing)
        raise UserError(
            f"Task '{prepared.task.id}' tests nothing: the judge would accept {words}. "
            "Repair the task, or judge it as it is with --set evaluate.lint=false"
        )


def _drawn(subject: InProcess) -> _Draw:
    inputs = subject.draw(secrets.randbits(63))
    return _Draw(inputs, replace(subject.expected(inputs), known=ReferenceErrors()))


def _trivial(subject: InProcess, draws: tuple[_Draw, _Draw]) -> Iterator[TrivialAnswer]:
    """Each trivial answer; it is refused if it is wrong for one of the two inputs."""
    if not any(native.numel() for native in draws[0].expected.native):
        return
    for name, answer in _ANSWERS.items():
        wrong = ""
        for this, other in (draws, draws[::-1]):
            outputs = answer(this, other)
            wrong = wrong or (_wrong(subject, this, outputs) if outputs is not None else "does not fit")
        yield TrivialAnswer(name, bool(wrong), wrong or _CURES[name])


def _mutant(subject: InProcess, draws: list[_Draw], name: str, outputs: Outputs) -> TrivialAnswer:
    """The model without a part; it is refused if it is wrong for one input of several."""
    wrong = ""
    for index in range(_DRAWS):
        if index == len(draws):
            draws.append(_drawn(subject))
        answer = outputs(draws[index].inputs)
        wrong = _wrong(subject, draws[index], answer) if answer is not None else "the model does not run without it"
        if wrong:
            break
    return TrivialAnswer(name, bool(wrong), wrong or "this part changes nothing that the judge could see")


def _wrong(subject: InProcess, draw: _Draw, outputs: list[torch.Tensor]) -> str:
    found = compare(outputs, draw.expected, Tolerance.STRICT)
    if found.times < _FAR:
        found = compare_closely(outputs, draw.expected, Tolerance.STRICT, lambda: subject.nearby(draw.inputs))
    return found.wrong


def _filled(native: torch.Tensor) -> torch.Tensor:
    """One number everywhere: the mean of an answer, or its most frequent integer."""
    if not native.numel():
        return native
    flat = native.flatten()
    if not is_real(native):
        return flat.mode().values.expand(native.shape)
    finite = torch.isfinite(flat)
    number = _wide(flat).where(finite, 0.0).sum() / finite.sum() if bool(finite.any()) else flat[0]
    return number.to(native.dtype).expand(native.shape)


def _mean(this: _Draw, other: _Draw) -> list[torch.Tensor] | None:
    """The mean over another answer's rows, in every row."""
    if not any(_has_rows(native) for native in this.expected.native):
        return None
    return [
        _wide(_rows(native)).mean(dim=0).to(native.dtype).expand(native.shape)
        if _has_rows(native) and is_real(native)
        else native
        for native in other.expected.native
    ]


def _copied(this: _Draw, _: _Draw) -> list[torch.Tensor] | None:
    inputs, _ = take_apart((this.inputs.args, this.inputs.kwargs))
    made = []
    for native in this.expected.native:
        fitting = [one for one in inputs if one.shape == native.shape and one.dtype == native.dtype and one.numel()]
        if not fitting:
            return None
        made.append(fitting[0].to(native.device))
    return made


def _shuffled(this: _Draw, _: _Draw) -> list[torch.Tensor] | None:
    if not any(_has_rows(native) for native in this.expected.native):
        return None
    return [
        _rows(native).roll(1, 0).view(native.shape) if _has_rows(native) else native for native in this.expected.native
    ]


def _has_rows(native: torch.Tensor) -> bool:
    """Whether there are several rows, to take the mean of or to shuffle."""
    return native.dim() > 1 and native.numel() > native.shape[-1]


def _rows(native: torch.Tensor) -> torch.Tensor:
    return native.reshape(-1, native.shape[-1])


def _wide(native: torch.Tensor) -> torch.Tensor:
    """Where sums neither overflow nor are missing."""
    return native.to(torch.complex128 if native.is_complex() else torch.float64)


_ANSWERS: dict[str, Answer] = {
    "zeros": lambda this, _: [torch.zeros_like(native) for native in this.expected.native],
    "a constant": lambda _, other: [_filled(native) for native in other.expected.native],
    "the mean answer": _mean,
    "another input's answer": lambda _, other: other.expected.native,
    "a copied input": _copied,
    "shuffled rows": _shuffled,
}
