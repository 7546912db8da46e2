"""Starts processes and kills them: imports everything, then forks for each line on stdin.

A line is JSON: `{"folder": ..., "llm": ..., "queries": ..., "concurrency": ..., "kill_after_seconds": null or number}`
for a run, `{"folder": ..., "campaign": ..., "kill_after_seconds": ...}` with a configuration for a campaign.
Each line is answered by how the process ended. One line on stdout says that the imports are done.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from engine_material import TASK, config, wiring

from pike import agents, engine, search  # noqa: F401 - imported before the fork, not after it
from pike.agents import llm_agent  # noqa: F401
from pike.core.comparison.campaign import CampaignFile
from pike.core.errors import UserError
from pike.engine.schedule.campaign import CampaignWiring, is_campaign, resume_campaign, start_campaign
from pike.engine.schedule.plan import make_plan


async def carry_out(order: dict[str, Any]) -> None:
    folder = Path(order["folder"])
    if "campaign" in order:
        await carry_campaign(order["campaign"], folder)
        return
    try:
        await engine.resume_run(folder, wiring())
    except UserError as error:
        # Not even the first event was written: a user is told to start again, so that is what happens here.
        if "never began" not in str(error) and "no run" not in str(error):
            raise
        await engine.start(TASK, config(order["llm"], order["queries"], order["concurrency"]), folder, wiring())


async def carry_campaign(layer: dict[str, Any], folder: Path) -> None:
    shared = CampaignWiring(engine.InstantExecutor(delay_seconds=0.002), load=None, handle_signals=False)
    if is_campaign(folder):
        await resume_campaign(folder, shared)
    else:
        await start_campaign(make_plan(CampaignFile().put(layer)), folder, shared)


def wait(pid: int, kill_after_seconds: float | None) -> int:
    if kill_after_seconds is not None:
        deadline = time.monotonic() + kill_after_seconds
        while time.monotonic() < deadline:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return status
            time.sleep(0.0005)
        os.kill(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1]


def main() -> None:
    print("ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            try:
                asyncio.run(carry_out(order))
            except BaseException as error:
                sys.stderr.write(f"{type(error).__name__}: {error}\n")
                sys.stderr.flush()
                os._exit(1)
            os._exit(0)
        print(os.waitstatus_to_exitcode(wait(pid, order["kill_after_seconds"])), flush=True)


if __name__ == "__main__":
    main()
