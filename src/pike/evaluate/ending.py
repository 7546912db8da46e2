"""The end of a judge whom nobody listens to any more: its children are killed, its folders and groups removed.

Runs in the judge's place, under its process id (`os.execv`): no thread of the judge is left that could go on making
what is removed here. Needs no torch, so that it is over in a moment.
"""

from __future__ import annotations

import os
import sys

from pike.evaluate.launch import sweep
from pike.evaluate.processes import kill_strays

COMMAND = (sys.executable, "-m", "pike.evaluate.ending")


def main() -> None:
    """Clean up, and end as a judge does that gave no answer."""
    kill_strays(set())
    sweep(os.getpid())
    sys.exit(1)


if __name__ == "__main__":
    main()
