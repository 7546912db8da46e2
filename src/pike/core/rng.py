"""Named random streams from one run seed.

Knows how to derive independent generators by name. Does not know the secret seeds of the judge: those come
from the operating system and are never derived from the run seed.
"""

from __future__ import annotations

import hashlib
import random


def stream(run_seed: int, name: str) -> random.Random:
    """An independent generator for `name`: the same seed and name always give the same stream."""
    digest = hashlib.sha256(f"{run_seed}:{name}".encode()).digest()
    return random.Random(int.from_bytes(digest[:16], "big"))
