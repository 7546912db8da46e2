"""The page of a campaign as plain values: standings, trajectories, and every run with its state.

Knows the words of the page. Does not know how the figures are computed (`campaign`).
"""

from typing import Any

from pike.core import figures
from pike.core.codec import encode
from pike.reporting.campaign import CampaignFigures, CellFigures
from pike.reporting.standings import FAST, Axis, Spread, Standing


def campaign_view(title: str, found: CampaignFigures, links: dict[str, str]) -> dict[str, Any]:
    """Everything that the page of a campaign shows.

    Args:
        title: its name.
        found: its figures.
        links: the page of each run that has one, by the name of its folder.
    """
    states = [cell.state.value for cell in found.cells]
    spend, limit = found.spend, found.campaign
    return {
        "kind": "campaign",
        "title": title,
        "state": "finished" if found.finished else "unfinished",
        "facts": [
            [figures.count(len(states)), ", ".join(f"{states.count(one)} {one}" for one in dict.fromkeys(states))],
            [figures.count(spend.queries), "queries" + (f" of {limit.queries:,}" if limit.queries else "")],
            [figures.usd(spend.usd), "spent" + (f" of {figures.usd(limit.usd)}" if limit.usd is not None else "")],
            [figures.duration(found.seconds), "with at least one run open"],
        ],
        "fast": [f"fast_{p:g}" for p in FAST],
        "standings": [_standing(one) for one in found.standings],
        "trajectories": encode(found.trajectories),
        "ends": {Axis.QUERIES.value: _most(found, "queries"), Axis.USD.value: _most(found, "usd")},
        "cells": [_cell(cell, links) for cell in found.cells],
        "notes": list(found.notes),
        "pike": found.pike_version,
    }


def _most(found: CampaignFigures, name: str) -> float:
    return max((float(getattr(cell.run.spend, name)) for cell in found.cells if cell.run), default=0.0)


def _standing(one: Standing) -> dict[str, Any]:
    cut = one.cut
    at = "at the end" if cut.axis is None else f"${cut.at:g}" if cut.axis is Axis.USD else f"{cut.at:g} queries"
    return {
        "contender": one.contender,
        "cut": at,
        "clamped": one.clamped.value,
        "row": [
            _spread(one.clamped),
            _spread(one.unclamped) if one.unclamped else figures.NOTHING,
            *(f"{share.value:.0%}" for _, share in one.fast),
            figures.count(one.failed),
            f"{one.reached:,} of {one.runs:,}",
        ],
    }


def _spread(spread: Spread) -> str:
    several = len(spread.by_repeat) > 1
    return figures.times(spread.value) + (f" ({spread.low:.2f} to {spread.high:.2f})" if several else "")


def _cell(cell: CellFigures, links: dict[str, str]) -> dict[str, Any]:
    run = cell.run
    return {
        "task": cell.task,
        "contender": cell.contender,
        "repeat": cell.repeat + 1,
        "state": cell.state.value,
        "reason": cell.reason,
        "speedup": cell.speedup,
        "queries": run.spend.queries if run else None,
        "usd": figures.usd(run.spend.usd if run else None),
        "candidates": run.candidates if run else None,
        "time": figures.duration(run.seconds if run else None),
        "href": links.get(cell.folder, ""),
    }
