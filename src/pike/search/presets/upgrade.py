"""Options of older journals: one flat table of dials, written as the tagged parts of today.

Knows the flat dials and the part that each belongs to. Does not know presets. A dial that the
chosen parts did not use is dropped, as it decided nothing.
"""

from collections.abc import Mapping
from typing import Any

Flat = Mapping[str, Any]

MOVED = {
    "queries_per_round": "pacing.samples",
    "round_end": "pacing.quorum",
    "top_k": "selection.k",
    "diversity": "selection.distinct",
    "per_branch": "selection.distinct",
    "archive_size": "library.size",
    "evolution": "library",
    "fix_attempts": "repair.attempts",
    "fix_order": "repair.order",
    "fixer": "repair.fixer",
    "repair_share": "repair.share",
    "debug_temperature": "repair.fixer.temperature",
    "shown": "inspiration.count",
}
"""Where a dial is found today whose name is another one now."""

_LATER = {
    "pacing": "rounds",
    "library": "pool",
    "archive_size": 0,
    "selection": "top-k",
    "inspiration": "none",
    "repair": "immediate",
    "fixer": "efa",
    "roles": "optimise",
    "scope": "any",
    "writer": "models",
    "recipe_seeds": False,
}
"""Dials that the first journals did not have, when `pike-b` was the only strategy."""


_WORDS = {"wording": "published", "failures": 0, "profile": False}
"""Options that no journal had while all prompts were worded alike."""


_WHOLE = {"pacing", "library", "selection", "repair", "writer", "recipe_seeds"}
"""Keys that only options with every value written out have."""


def upgraded(options: Flat) -> Flat:
    """The options of a journal in today's form; options in that form stay as they are."""
    if not {"queries_per_round", "top_k", "fix_attempts"} <= options.keys():  # an older version wrote all dials out
        return {**_WORDS, **options} if options.keys() >= _WHOLE else options
    flat = {**_LATER, **options}
    return {
        **_WORDS,
        "pacing": _pacing(flat),
        "library": _library(flat),
        "selection": _selection(flat),
        "inspiration": _inspiration(flat),
        "repair": _repair(flat),
        "roles": _taken("roles", flat, {"plan-code": ("plan_temperature", "code_temperature")}),
        "scope": _taken("scope", flat, {"adaptive": ("plateau",)}),
        **{name: flat[name] for name in ("ideas", "temperature", "max_output_tokens", "writer", "recipe_seeds")},
    }


def _taken(part: str, flat: Flat, dials: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """The part of the same name, with the dials that its kind kept."""
    kind = flat[part]
    return {"kind": kind, **{name: flat[name] for name in dials.get(kind, ())}}


def _pacing(flat: Flat) -> dict[str, Any]:
    if flat["pacing"] == "steady":
        first = flat["first_attempts"] if flat["selection"] in ("top-k", "weighted") else 0
        return {"kind": "steady", "in_flight": flat["in_flight"], "first_attempts": first}
    return {
        "kind": "rounds",
        "samples": flat["queries_per_round"],
        "quorum": flat["quorum"] if flat["round_end"] == "quorum" else 1.0,
        "budget_check": flat["budget_check"],
    }


def _library(flat: Flat) -> dict[str, Any]:
    if flat["library"] == "evolution":
        dials = {name: value for name, value in flat["evolution"].items() if name not in _SHOWN_BY_ISLANDS}
        return {"kind": "islands", **dials}
    if flat["library"] == "tree":
        return {"kind": "tree"}
    return {"kind": "pool", "memory": flat["memory"], "size": flat["archive_size"], "duplicates": flat["duplicates"]}


_SHOWN_BY_ISLANDS = ("top", "inspirations")


def _selection(flat: Flat) -> dict[str, Any]:
    kind, seeding = flat["selection"], flat["seeding"]
    if kind == "top-k":
        distinct = flat["per_branch"] if flat["diversity"] == "distinct" else 0
        return {"kind": kind, "k": flat["top_k"], "distinct": distinct, "seeding": seeding}
    if kind == "weighted":
        return {"kind": kind, "k": flat["top_k"], "seeding": seeding}
    if kind == "last":
        return {"kind": "latest", "from_admitted": seeding != "original"}
    if kind == "ratio":
        elites = 0 if flat["library"] == "evolution" else flat["top_k"]
        return _taken("selection", flat, {kind: ("exploration", "exploitation")}) | {"elites": elites, "rest": "island"}
    return _taken("selection", flat, {"epsilon-greedy": ("epsilon", "root_children", "failing_children")})


def _inspiration(flat: Flat) -> dict[str, Any]:
    kind = flat["inspiration"]
    if kind == "windows":
        return {"kind": kind, "leaders": flat["shown"], "relatives": flat["relatives"]}
    if kind == "top":
        return {"kind": "fastest", "count": flat["shown"]}
    if kind == "library" and flat["library"] == "evolution":
        shown = {"top": 3, "inspirations": 2, **flat["evolution"]}
        return {"kind": "drawn", "top": shown["top"], "others": shown["inspirations"]}
    return {"kind": "drawn", "top": flat["shown"], "others": 0} if kind == "library" else {"kind": "none"}


def _repair(flat: Flat) -> dict[str, Any]:
    kind, attempts = flat["repair"], flat["fix_attempts"]
    if kind == "none" or not attempts:
        return {"kind": "none"}
    fixer = {"kind": flat["fixer"]}
    if flat["fixer"] == "debug":
        fixer["temperature"] = flat["debug_temperature"]
    repair = {"attempts": attempts, "fixer": fixer}
    if kind == "deferred" and flat["selection"] in ("epsilon-greedy", "last"):
        return {"kind": "chosen", **repair}
    repair |= {"kind": kind, "order": flat["fix_order"]}
    return repair | {"share": flat["repair_share"]} if kind == "deferred" else repair
