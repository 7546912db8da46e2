"""`python -m pike.exchange.trackers RUN TRACKER`: follow a run until standard input ends.

Knows that a tracker in a process of its own can neither slow nor break a run. Does not know any
tracker (`follow`).
"""

import os
import select
import sys
import time
from pathlib import Path

from pike.exchange.trackers.follow import follow

POLL_SECONDS = 1.0


def _input_is_open() -> bool:
    """Wait a moment; False once standard input has ended."""
    readable, _, _ = select.select([sys.stdin], [], [], POLL_SECONDS)
    return not readable or bool(os.read(sys.stdin.fileno(), 1))


def main(folder: str, name: str, out: str = "") -> int:
    """Follow a run whose journal has begun; the last line of output says how it ended."""
    began = time.monotonic()
    try:
        where = follow(Path(folder), name, Path(out) if out else None, _input_is_open)
    except Exception as error:  # the boundary: a tracker raises anything
        print(f"{type(error).__name__}: {error}".partition("\n")[0], flush=True)
        return 1
    print(f"{where.address}, followed for {time.monotonic() - began:.0f} s", flush=True)
    return 0


sys.exit(main(*sys.argv[1:]))
