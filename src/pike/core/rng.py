"""Named random streams from one run seed.

Knows how to derive independent generators by name. Does not know the secret seeds of the judge,
which come from the operating system and never from the run seed.
"""

import hashlib
import random


def stream(run_seed: int, name: str) -> random.Random:
    """An independent generator for `name`: the same seed and name always give the same stream."""
    digest = hashlib.sha256(f"{run_seed}:{name}".encode()).digest()
    return random.Random(int.from_bytes(digest[:16], "big"))
