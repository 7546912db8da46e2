"""A run in a process of its own that takes Ctrl-C; prints its result as one JSON line."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from engine_material import TASK, config, wiring

from pike import engine


def main() -> None:
    folder, llm, judge_seconds = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    shown = False
    said: dict[str, None] = {}

    def observer(progress: engine.Progress) -> None:
        nonlocal shown
        said.update(dict.fromkeys(progress.events))
        in_hand = any(activity.doing == "build" for activity in progress.active)
        if not shown and in_hand and (progress.counts or judge_seconds > 1):
            shown = True
            print("judging", flush=True)

    parts = wiring(executor=engine.InstantExecutor(delay_seconds=judge_seconds), observer=observer, handle_signals=True)
    result = asyncio.run(engine.start(TASK, config(llm, 40, 4), folder, parts))
    print(json.dumps({**result.flat(), "said": list(said)}), flush=True)


if __name__ == "__main__":
    main()
