"""Kept results of lint: the user's own in a cache folder, shipped ones beside the suites.

Knows that a result belongs to the digest of a task's text and the precision, so an edited task has
none. Does not know how lint works.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pike
from pike.core.codec import decode, encode
from pike.core.errors import StoreError, saying
from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import Precision
from pike.core.verdict.lint import LintReport
from pike.tasks.loaders import own_files, shipped

SHIPPED = "lint.json"
"""The file in the folder of a shipped suite; `tools/keep_lint.py` writes it."""
PRECISIONS = (Precision.HALF, Precision.TF32, Precision.SAME)
"""Loosest first: an answer that is refused at half precision is refused at narrower budgets too."""


@dataclass(frozen=True, slots=True)
class LintVerdict:
    """What lint found about one task at one precision.

    Attributes:
        answers: how many trivial answers were tried.
        passing: those that would pass.
        untried: how many were not tried for lack of time.
        pike_version: the version that ran lint.
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
    """The part of a report that is kept."""
    passing = tuple(answer.name for answer in report.passing)
    return LintVerdict(
        report.task, precision, report.device, len(report.answers), passing, report.untried, pike.__version__
    )


def known(task: Task, precision: Precision | None = None) -> LintVerdict | None:
    """The kept verdict on a task, by default the one at the loosest precision; may be None."""
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
    path = _path(_key(task, verdict.precision))
    with saying(StoreError, f"The result of the lint cannot be kept in {path.parent}"):
        own_files.write(path, f"{json.dumps(encode(verdict))}\n".encode())


def _key(task: Task, precision: Precision) -> str:
    return f"{hashlib.sha256(task.source.encode()).hexdigest()[:24]}-{precision.value}"


def _read(key: str) -> LintVerdict | None:
    """The user's own, else the shipped one; a damaged file counts as none."""
    try:
        return decode(LintVerdict, json.loads(_path(key).read_text()))
    except (OSError, ValueError):
        return _shipped().get(key)


@cache
def _shipped() -> Mapping[str, LintVerdict]:
    found: dict[str, LintVerdict] = {}
    for path in shipped.FOLDER.glob(f"*/{SHIPPED}"):
        found |= {key: decode(LintVerdict, value) for key, value in json.loads(path.read_text()).items()}
    return found


def _path(key: str) -> Path:
    return own_files.cache_folder("lint") / f"{key}.json"
