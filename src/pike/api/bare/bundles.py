"""The verb of a machine that only judges: judge.

Needs torch and numpy only, so it imports no other verb. Does not know the runs that the candidates
come from.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
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
        out: the file of verdicts of a single bundle; otherwise they lie beside the bundles.
        devices: GPUs that judge side by side: `all`, or `cuda:N` with commas between.
        judges: how many judge at once, 0 for as many as this machine bears.
        max_minutes: when to stop; what is being judged then is judged by the next call.
        on_line: told one line for each verdict.

    Raises:
        UserError: a bundle, a device or a file of verdicts cannot be used, and nothing is judged;
            or a task cannot be judged here, and the verdicts on others are written.
        BoundaryError: no judge could be started, or the disk refuses.
    """
    files = verdict_files(bundles, out)
    names = tuple(filter(None, (one.strip() for one in devices.split(","))))
    engine = EngineConfig(devices=names, judges=judges, concurrency=MOST_JUDGES)

    def tell(bundle: Path, verdict: Verdict, judged: int, total: int) -> None:
        words = [f"{judged}/{total}", bundle.name if len(files) > 1 else "", verdict.run]
        for source, one in zip(verdict.sources, verdict.evaluations, strict=True):
            said = figures.times(one.speedup) if one.valid else one.reason.partition("\n")[0]
            on_line(" ".join(filter(None, [*words, source[:8], f"{one.status.value}: {said}"])))

    seconds = None if max_minutes is None else 60.0 * max_minutes
    found = asyncio.run(judge_bundles(files, engine, seconds=seconds, on_verdict=tell))
    if found.unusable:
        why = "; ".join(found.unusable)
        raise UserError(f"{why} ({found.judged} of {found.total} have verdicts, which are kept)")
    return found


def verdict_files(bundles: str | Path | Sequence[str | Path], out: str | Path | None = None) -> dict[Path, Path]:
    """The file of verdicts of each bundle: `out`, or one beside it.

    Raises:
        UserError: a bundle is given twice, or `out` with several.
    """
    paths = [Path(one) for one in ([bundles] if isinstance(bundles, str | Path) else bundles)]
    if len({path.resolve() for path in paths}) < len(paths):
        raise UserError("A bundle is given twice: name each once")
    if out is not None and len(paths) > 1:
        raise UserError("--out is for the verdicts of one bundle: leave it out, and those of several lie beside them")
    return {path: Path(out) if out else path.parent / f"{path.name}.verdicts{SUFFIX}" for path in paths}


def summary(judged: JudgedBundles, files: Iterable[Path]) -> str:
    """How far judging came, where the verdicts are, and what is next."""
    left = judged.total - judged.judged
    rest = f"{left} not yet: repeat the command" if left else "pike tell RUN with them goes on"
    return f"{judged.judged} of {judged.total} have verdicts in {', '.join(map(str, files))}, {rest}."
