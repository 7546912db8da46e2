"""Which source of PIKE runs here.

Knows how to ask git about the package's folder. Does not know where the answer is written.
"""

import subprocess
from pathlib import Path

_SECONDS = 10.0


def commit(folder: Path | None = None) -> str:
    """The commit of the checkout around `folder`, by default the package's own.

    Returns:
        Twelve digits, followed by `-dirty` where tracked files differ; empty without checkout or
        git.
    """
    place = folder or Path(__file__).parent
    head = _git(place, "rev-parse", "HEAD")
    if not head or not _git(place, "ls-files", "."):  # the package may be installed below another checkout
        return ""
    return f"{head[:12]}-dirty" if _git(place, "status", "--porcelain", "--untracked-files=no") else head[:12]


def _git(folder: Path, *words: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
