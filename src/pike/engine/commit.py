"""Which source of PIKE runs here.

Knows how to ask git about the folder that the package lies in. Does not know what the answer is written into.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

_SECONDS = 10.0


def commit(folder: Path | None = None) -> str:
    """The commit of the checkout around `folder` (the package's own by default), `-dirty` behind it where tracked files
    differ from it; empty where there is no checkout or no git."""
    place = folder or Path(__file__).parent
    head = _git(place, "rev-parse", "HEAD")
    if not head or not _git(place, "ls-files", "."):  # the package may be installed below somebody else's checkout
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
