"""The verb of a machine that only judges: judge.

Needs torch and numpy only, so it imports no other verb. Does not know the runs that the candidates
come from.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from pike.core import figures
from pike.core.errors import UserError
from pike.core.settings.config import EngineConfig
from pike.engine.external.bundle import SUFFIX, Verdict
from pike.engine.external.judging import JudgedBundles, judge_bundles

MOST_JUDGES = 1_000
"""No limit but that of the machine."""


def judge(
    bundles: str | Path | Sequence[str | Path],
    out: str | Path | None = None,
    *,
    devices: str = "",
    judges: int = 0,
    max_minutes: float | None = None,
    on_line: Callable[[str], None] = lambda _: None,
) -> JudgedBundles:
    """Judge bundles and write their verdicts as they come; a second call goes on where one ended.

    >>> judged = pike.api.bare.bundles.judge("mine.bundle", devices="all")  # doctest: +SKIP

    Args:
        bundles: one or more files that `pike bundle` wrote.
        out: the file of verdicts of one bundle, or a folder for those of several; by default they
            lie beside the bundles.
        devices: GPUs that judge side by side: `all`, or `cuda:N` with commas between.
        judges: how many judge at once, 0 for as many as this machine bears.
        max_minutes: when to stop; what is being judged then is judged by the next call.
        on_line: told one line for each verdict.

    Raises:
        UserError: a bundle, a device or a file of verdicts cannot be used, or a task cannot be
            judged here; the verdicts on others are written then.
        BoundaryError: no judge could be started, or the disk refuses.
    """
    paths = [Path(one) for one in ([bundles] if isinstance(bundles, str | Path) else bundles)]
    files = [(path, verdicts_path(path, out)) for path in paths]
    if len({file for _, file in files}) < len(files):
        raise UserError(f"The verdicts of several bundles would lie in {files[0][1]}: give --out an existing folder")
    names = tuple(filter(None, (one.strip() for one in devices.split(","))))
    engine = EngineConfig(devices=names, judges=judges, concurrency=MOST_JUDGES)

    def tell(verdict: Verdict, judged: int, total: int) -> None:
        for source, one in zip(verdict.sources, verdict.evaluations, strict=True):
            said = figures.times(one.speedup) if one.valid else one.reason.partition("\n")[0]
            on_line(f"{judged}/{total} {verdict.run} {source[:8]} {one.status.value}: {said}".replace("  ", " "))

    seconds = None if max_minutes is None else 60.0 * max_minutes
    found = asyncio.run(judge_bundles(files, engine, seconds=seconds, on_verdict=tell))
    if found.unusable:
        raise UserError(f"{found.unusable[0]} ({found.judged} of {found.total} have verdicts, which are kept)")
    return found


def verdicts_path(bundle: Path, out: str | Path | None) -> Path:
    """Where verdicts go: into the file or the existing folder `out`, or beside the bundle."""
    folder = bundle.parent if out is None else Path(out)
    return folder / f"{bundle.name}.verdicts{SUFFIX}" if folder.is_dir() else folder


def summary(judged: JudgedBundles) -> str:
    """How far judging came, and what is next."""
    left = judged.total - judged.judged
    rest = f"{left} not yet: repeat the command" if left else "pike tell RUN VERDICTS goes on"
    return f"{judged.judged} of {judged.total} have verdicts, {rest}."
