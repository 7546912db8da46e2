"""Every sample of the corpus, read from its file.

Knows a sample's header: `name: value` lines in the last paragraph of its docstring. Each file in
`attacks` or `honest` is a sample. Does not run anything.
"""

import ast
import functools
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pike.core.task import Task
from pike.core.text.parsing import parse
from pike.core.verdict.evaluation import Effort, Precision
from pike.corpus.tasks import original_of, task_of
from pike.judge.sandbox import Claim

NEUTRAL = "neutral"
"""Expected verdict: accepted at its true time, without a gain."""
REFUSED = "refused"
"""Expected verdict: any status but `valid` and `infra-error`."""
LABELLED = "labelled"
"""Expected verdict: accepted at any speed, with the label that the sample names."""
_NAMES = {
    "rows", "seen", "task", "devices", "bite", "expected", "mechanism", "precision", "effort", "needs", "timeout",
    "memory_gib", "runs", "harness", "gap", "self_test", "slow", "label", "cpus", "profile",
}  # fmt: skip


class SampleKind(StrEnum):
    """The kind of a sample, which is also the name of its folder."""

    ATTACK = "attacks"
    HONEST = "honest"


@dataclass(frozen=True, slots=True)
class CorpusSample:
    """One candidate and the verdict that is expected for it.

    Attributes:
        id: the name of its file.
        kind: attack or honest.
        title: one sentence.
        text: the file, docstring included.
        rows: numbers in the taxonomy of attacks (docs/concepts/threat-model.md); empty for honest
            samples.
        seen: where it is documented; `own` for our own finds.
        mechanism: the part of the judge that answers it.
        task: which of `corpus.tasks` it belongs to.
        devices: `cpu`, `cuda` or both.
        bite: how it fools a naive harness (tests/adversarial); empty for honest samples.
        expected: statuses it may get, `neutral`, `refused` and `labelled` among them.
        precision: the arithmetic that is declared for it.
        effort: the effort that makes the expected verdict certain.
        needs: the claim of the sandbox on which the expected verdict rests, None for none.
        timeout_seconds: the candidate's own time.
        memory_bytes: limit on host memory, 0 for the judge's own.
        runs: how often it must be judged before it shows an effect (persistence).
        harness: options of the naive harness that it needs.
        label: a label that the verdict must have, empty for none.
        gap: why it is not stopped yet, empty if it is.
        self_test: whether `pike doctor --self-test` runs it.
        slow: whether it needs more than ten seconds.
        cpus: how many CPUs it needs to show an effect.
        profile: whether its verdict must have a profile.
    """

    id: str
    kind: SampleKind
    title: str
    text: str
    rows: tuple[int, ...] = ()
    seen: str = ""
    mechanism: str = ""
    task: str = "mlp"
    devices: tuple[str, ...] = ("cpu", "cuda")
    bite: str = ""
    expected: tuple[str, ...] = ("valid",)
    precision: Precision = Precision.SAME
    effort: Effort = Effort.SEARCH
    needs: Claim | None = None
    timeout_seconds: float = 120.0
    memory_bytes: int = 0
    runs: int = 1
    harness: tuple[str, ...] = ()
    label: str = ""
    gap: str = ""
    self_test: bool = False
    slow: bool = False
    cpus: int = 1
    profile: bool = False

    def task_on(self, device: str) -> Task:
        """The task, larger on a GPU."""
        return task_of(self.task, device)

    def source_on(self, device: str) -> str:
        """The candidate's file: the task's model, renamed `Original`, and the sample below it."""
        return f"{original_of(self.task, device)}\n\n{self.text}"


@functools.cache
def catalogue() -> tuple[CorpusSample, ...]:
    """All samples, attacks first, in the order of their names.

    Raises:
        ValueError: the header of a sample holds a name that is unknown.
    """
    here = Path(__file__).parent
    return tuple(_read(path, kind) for kind in SampleKind for path in sorted((here / kind.value).glob("*.py")))


def _read(path: Path, kind: SampleKind) -> CorpusSample:
    text = path.read_text()
    prose, header = _split(ast.get_docstring(parse(text)) or "")
    if unknown := header.keys() - _NAMES:
        raise ValueError(f"The sample {path.name} has unknown header lines: {', '.join(sorted(unknown))}")
    return CorpusSample(
        id=path.stem,
        kind=kind,
        title=prose.partition("\n")[0],
        text=text,
        rows=tuple(int(row) for row in _list(header.get("rows", ""))),
        seen=header.get("seen", "own"),
        mechanism=header.get("mechanism", ""),
        task=header.get("task", "mlp"),
        devices=_list(header.get("devices", "cpu, cuda")),
        bite=header.get("bite", ""),
        expected=_list(header.get("expected", "valid")),
        precision=Precision(header.get("precision", "same")),
        effort=Effort(header.get("effort", "search")),
        needs=Claim[header["needs"].upper()] if "needs" in header else None,
        timeout_seconds=float(header.get("timeout", 120)),
        memory_bytes=int(header.get("memory_gib", 0)) << 30,
        runs=int(header.get("runs", 1)),
        harness=_list(header.get("harness", "")),
        label=header.get("label", ""),
        gap=header.get("gap", ""),
        self_test=header.get("self_test") == "yes",
        slow=header.get("slow") == "yes",
        cpus=int(header.get("cpus", 1)),
        profile=header.get("profile") == "yes",
    )


def _split(docstring: str) -> tuple[str, dict[str, str]]:
    """The prose of a docstring and the header lines in its last paragraph."""
    prose, _, lines = docstring.rpartition("\n\n")
    if not prose:
        return lines.strip(), {}
    pairs = [line.partition(": ") for line in lines.splitlines()]
    return prose.strip(), {name.strip(): value.strip() for name, _, value in pairs}


def _list(value: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in value.split(",") if part.strip())
