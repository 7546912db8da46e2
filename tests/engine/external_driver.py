"""Tells one answer after the other to a run with external answers until it is killed; says when it begins each."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from engine_material import wiring

from pike import engine
from pike.engine.external import external_run
from pike.engine.external.answers import as_answer


async def main(folder: Path, first: int) -> None:
    for number in range(first, first + 50):
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
        source = f"# pike-instant: valid {50 - number}ms\nclass ModelNew:\n    mark = {number}\n"
        parts = wiring(executor=engine.InstantExecutor(delay_seconds=0.01))
        await external_run.tell(folder, as_answer(source), parts)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
