"""One real campaign on the CPU: three small tasks, real judges, a scripted model that is right and wrong in turns.

Run `python benchmarks/real_campaign.py [--queries N] [--repeats N] [--presets NAME ...] [--out DIR]`; prints
the table and one JSON object with every figure. Strategies that are not in the catalogue are left out and named.
`--instant` takes the verdicts from a hash instead of judges, to try the script. `--thorough` profiles candidates, lets
two models take turns and adds `torch.compile`, so that every figure can be drawn. Needs `pike` with its extra `llm`;
what the models answer is in `benchmarks/campaign/script.toml`. `--pack FILE` keeps the campaign as one archive
(`.tar.xz`) without this machine's paths, as `benchmarks/results_page.py` draws it.
"""

import argparse
import json
import os
import platform
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from pike import search, store
from pike.api.campaigns import Shared, campaign
from pike.cli.compare.campaign import show
from pike.cli.terminal import Terminal
from pike.core.codec import encode
from pike.core.events import event_from_json, event_to_json
from pike.engine.executors.instant import InstantExecutor

HERE = Path(__file__).resolve().parent / "campaign"
PRESETS = ("recipes", "best-of-n", "pike-b", "pike-o:mut,npar,1isl,eo,sl", "stark", "pike-x")


def configuration(chosen: argparse.Namespace, presets: list[str], models: list[str]) -> dict[str, object]:
    return {
        "campaign": {
            "tasks": [str(path) for path in sorted((HERE / "tasks").glob("*.py"))],
            "contenders": [*presets, *["compile"] * chosen.thorough],
            "repeats": chosen.repeats,
            "concurrency": 2,
            "query_cuts": [2, 5, 10, 20],
        },
        "llm": {"coa": models},
        "prompt": {"profile": chosen.thorough},
        "budget": {"queries": chosen.queries},
        "engine": {"concurrency": 2, "finalists": 1, "judges": chosen.judges},
        "evaluate": {"device": "cpu", "max_timing_seconds": chosen.timing_seconds},
    }


def cheap(folder: Path) -> Path:
    """A second model, which gives the same answers for a quarter of the price."""
    text = (HERE / "script.toml").read_text().replace("scripted-campaign", "scripted-cheap")
    text = text.replace('file = "', f'file = "{HERE}/').replace("mtok = 1.0", "mtok = 0.25").replace("= 4.0", "= 1.0")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cheap.toml").write_text(text)
    return folder / "cheap.toml"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--queries", type=int, default=10)
    arguments.add_argument("--repeats", type=int, default=1)
    arguments.add_argument("--presets", nargs="*", default=list(PRESETS))
    arguments.add_argument("--judges", type=int, default=1)
    arguments.add_argument("--timing-seconds", type=float, default=3.0)
    arguments.add_argument("--out", type=Path)
    arguments.add_argument("--instant", action="store_true")
    arguments.add_argument("--thorough", action="store_true")
    arguments.add_argument("--pack", type=Path)
    chosen = arguments.parse_args()
    known = {preset.name for preset in search.presets()}
    presets = [name for name in chosen.presets if name in known]
    out = chosen.out or Path(tempfile.mkdtemp(prefix="real-campaign-"))
    began = time.perf_counter()
    shared = Shared(InstantExecutor() if chosen.instant else None, observer=_Lines())
    models = [f"scripted:{path}" for path in (HERE / "script.toml", *([cheap(out.parent)] if chosen.thorough else []))]
    done = campaign(configuration(chosen, presets, models), out=out, shared=shared)
    show(Terminal(), done.folder, done.figures)
    result = {
        "benchmark": "real_campaign",
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, {platform.system()} {platform.release()}",
        "load_average_at_the_end": os.getloadavg(),
        "left_out": [name for name in chosen.presets if name not in known],
        "seconds": round(time.perf_counter() - began, 1),
        "standings": encode(done.figures.standings),
        "cells": [
            {"task": cell.task, "contender": cell.contender, "state": cell.state.value, "speedup": cell.speedup}
            for cell in done.figures.cells
        ],
    }
    print(json.dumps(result, indent=1))
    if chosen.pack:
        pack(done.folder, chosen.pack)


def pack(campaign: Path, to: Path) -> None:
    """Write a campaign into one archive: its plan, results and journals."""
    now = [0.0]
    with tempfile.TemporaryDirectory() as scratch:
        for path in [*campaign.glob("*.json*"), *campaign.glob("runs/*/result.json")]:
            copy = Path(scratch) / path.relative_to(campaign)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(_without_paths(path.read_text()))
        for run in (campaign / "runs").iterdir():
            now[0] = next(store.read(run)).at_seconds
            with store.Journal.create(Path(scratch) / "runs" / run.name, lambda: now[0]) as journal:
                for entry in store.read(run):
                    now[0], (kind, body) = entry.at_seconds, event_to_json(entry.event)
                    body = json.loads(_without_paths(json.dumps(body)))
                    journal.append(event_from_json(kind, body), durable=False)
        with tarfile.open(to, "w:xz") as archive:
            archive.add(scratch, campaign.name)


def _without_paths(text: str) -> str:
    for folder in (str(HERE.parent.parent), sys.prefix, sys.base_prefix, tempfile.gettempdir()):
        text = text.replace(f"{folder}/", "/")
    return text


class _Lines:
    """Says on stderr which runs have ended."""

    def __init__(self) -> None:
        self._seen: tuple[str, ...] = ()

    def __call__(self, progress: object) -> None:
        events: tuple[str, ...] = getattr(progress, "events", ())
        for line in events[-1:]:
            if events != self._seen:
                sys.stderr.write(f"{line}\n")
        self._seen = events


if __name__ == "__main__":
    main()
