"""Whether a candidate's lines are largely those of another run's winner.

Knows the runs beside a run and what a telling line is. Refuses nothing: two authors may have the
same thought, and a label says where to look.
"""

import functools
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from pike.core.step import Candidate, Solution
from pike.core.verdict.evaluation import Evaluation
from pike.engine.output.result import BEST
from pike.store.schema import FILE_NAME

BORROWED = "lines-of-another-run"
"""How the label begins; the name of the run follows."""
_MOST_BYTES = 1 << 20
_LEAST_LINES, _LEAST_CHARACTERS, _LARGELY = 8, 12, 0.8


class BorrowedLines:
    """Compares candidates with the winners of the runs beside the one in `folder`."""

    def __init__(self, folder: Path, original: str, solutions: Mapping[str, Solution]) -> None:
        self._folder, self._original, self._solutions = folder.resolve(), original, solutions

    def labelled(self, candidate: Candidate, verdict: Evaluation) -> Evaluation:
        """The verdict, with a label if four fifths of the candidate's telling lines are another's.

        The original's lines and those that recipes wrote tell nothing: every run has them.
        """
        mine = set(_telling(candidate.source)) - set(_telling(self._original))
        for known in self._solutions.values():
            mine -= set(_telling(known.candidate.source)) if known.candidate.recipes else set()
        if not verdict.valid or candidate.recipes or len(mine) < _LEAST_LINES:
            return verdict
        for name, theirs in self._others():
            if len(mine & theirs) >= _LARGELY * len(mine):
                return replace(verdict, labels=(*verdict.labels, f"{BORROWED}: {name}"))
        return verdict

    def _others(self) -> Iterator[tuple[str, frozenset[str]]]:
        if (self._folder.parent / FILE_NAME).exists():  # the runs beside a bucket are of the same winner
            return
        for name in sorted(os.listdir(self._folder.parent)):  # strings: a campaign has hundreds of runs
            path = os.path.join(self._folder.parent, name, BEST)
            with suppress(OSError):
                found = os.stat(path)
                if name != self._folder.name and stat.S_ISREG(found.st_mode) and found.st_size <= _MOST_BYTES:
                    yield name, _lines(path, found.st_mtime_ns, found.st_size)


@functools.lru_cache(maxsize=4096)
def _lines(path: str, _changed_ns: int, _bytes: int) -> frozenset[str]:
    """What tells in a winner, read again only after a change."""
    return frozenset(_telling(Path(path).read_text(errors="replace")))


def still_borrowed(again: Evaluation, first: Evaluation) -> Evaluation:
    """A second verdict on a candidate with the label that the first one had."""
    kept = tuple(label for label in first.labels if label.startswith(BORROWED))
    return replace(again, labels=(*again.labels, *kept))


def _telling(source: str) -> Iterator[str]:
    """The lines that say something: no comments, imports or very short ones."""
    for line in (line.strip() for line in source.splitlines()):
        if len(line) >= _LEAST_CHARACTERS and not line.startswith(("#", "import ", "from ", '"""')):
            yield line
