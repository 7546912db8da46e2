"""What lint found about tasks, kept: the user's own in a cache folder, that of shipped suites beside their files.

Knows how a finding is named, by the digest of the task's text and the precision, so that an edited task has none. Does
not know how lint works.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pike
from pike.core.codec import decode, encode
from pike.core.errors import StoreError
from pike.core.evaluation import Precision
from pike.core.lint import LintReport
from pike.core.task import Task, TaskKind
from pike.tasks.loaders import shipped

SHIPPED = "lint.json"
"""The file in the folder of a shipped suite; `tools/keep_lint.py` writes it."""
PRECISIONS = (Precision.HALF, Precision.TF32, Precision.SAME)
"""The loosest first: what is refused within the error budget of half precision is refused within narrower ones too."""


@dataclass(frozen=True, slots=True)
class LintVerdict:
    """What lint found about one text at one precision.

    Attributes:
        task: the id of the task, for people.
        precision: the arithmetic that candidates might use.
        device: where it was found.
        answers: how many trivial answers were tried.
        passing: those that would pass.
        untried: how many there were no more seconds for.
        pike_version: of the lint.
    """

    task: str
    precision: Precision
    device: str
    answers: int
    passing: tuple[str, ...] = ()
    untried: int = 0
    pike_version: str = ""

    @property
    def sound(self) -> bool:
        """Whether every trivial answer was tried and refused."""
        return not self.passing and not self.untried

    @property
    def words(self) -> str:
        """In a few words, for example `sound at half` or `2 would pass at half`."""
        found = [f"{len(self.passing)} would pass"] if self.passing else []
        found += [f"{self.untried} not tried"] if self.untried else []
        return f"{', '.join(found) or 'sound'} at {self.precision.value}"


def verdict_of(report: LintReport, precision: Precision) -> LintVerdict:
    """What is kept of a report."""
    passing = tuple(answer.name for answer in report.passing)
    return LintVerdict(
        report.task, precision, report.device, len(report.answers), passing, report.untried, pike.__version__
    )


def known(task: Task, precision: Precision | None = None) -> LintVerdict | None:
    """The kept verdict on a task, None where there is none.

    Args:
        task: read from a file or text.
        precision: at which; by default the loosest for which there is one.
    """
    if task.kind is not TaskKind.SOURCE:
        return None
    wanted = (precision,) if precision is not None else PRECISIONS
    found = (_read(_key(task, one)) for one in wanted)
    return next((verdict for verdict in found if verdict is not None), None)


def keep(task: Task, verdict: LintVerdict) -> None:
    """Keep a verdict in the user's cache; does nothing for a live module.

    Raises:
        StoreError: it cannot be written.
    """
    if task.kind is not TaskKind.SOURCE:
        return
    path = _folder() / f"{_key(task, verdict.precision)}.json"
    part = path.with_suffix(f".{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(encode(verdict)) + "\n")
        part.replace(path)
    except OSError as error:
        raise StoreError(f"The result of the lint cannot be kept in {path.parent}: {error}") from error


def write_shipped(suite: str, found: Mapping[str, LintVerdict]) -> Path:
    """Write the verdicts that come with a shipped suite, by key as `keys_of` gives them."""
    path = shipped.FOLDER / suite / SHIPPED
    path.write_text(json.dumps({key: encode(verdict) for key, verdict in found.items()}, indent=1) + "\n")
    forget_shipped()
    return path


def forget_shipped() -> None:
    """Read the verdicts that come with shipped suites anew."""
    _shipped.cache_clear()


def keys_of(task: Task) -> tuple[str, ...]:
    """The keys of all verdicts that there could be on a task."""
    return tuple(_key(task, precision) for precision in PRECISIONS)


def _key(task: Task, precision: Precision) -> str:
    return f"{hashlib.sha256(task.source.encode()).hexdigest()[:24]}-{precision.value}"


def _read(key: str) -> LintVerdict | None:
    """The user's own, else the shipped one; a damaged file counts as none."""
    try:
        return _decoded(json.loads((_folder() / f"{key}.json").read_text()))
    except (OSError, ValueError):
        return _shipped().get(key)


@cache
def _shipped() -> Mapping[str, LintVerdict]:
    found: dict[str, LintVerdict] = {}
    for path in shipped.FOLDER.glob(f"*/{SHIPPED}"):
        found |= {key: _decoded(value) for key, value in json.loads(path.read_text()).items()}
    return found


def _decoded(value: Any) -> LintVerdict:
    return decode(LintVerdict, value)


def _folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "pike" / "lint"
