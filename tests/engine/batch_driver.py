"""A run whose model answers through a batch API that a fake server at an address plays; may be killed."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

from engine_material import TASK, config, wiring

from pike import engine, llm
from pike.core.settings.config import LlmConfig
from pike.llm import vendors
from pike.llm.provider import BatchClient

MODEL = "batch:anthropic:claude-opus-4-6"


def play(root: str) -> None:
    """Put the server in the place of every provider."""
    vendors.VENDORS = tuple(replace(vendor, base_url=root) for vendor in vendors.VENDORS)


def connect(name: str, settings: LlmConfig) -> BatchClient:
    """The client, which looks at its batches often."""
    client = llm.connect(name, settings)
    assert isinstance(client, BatchClient)
    client.gather_seconds, client.poll_seconds = 0.2, 0.05
    return client


async def run(folder: Path) -> engine.RunResult:
    """Begin the run, or go on with it."""
    parts = wiring(connect=connect)
    if folder.exists():
        return await engine.resume_run(folder, parts)
    return await engine.start(TASK, config(MODEL, 8, 4, strategy="best-of-n"), folder, parts)


if __name__ == "__main__":
    play(sys.argv[2])
    asyncio.run(run(Path(sys.argv[1])))
