"""What the best solutions are written with, and what their time goes into where there is a profile.

Knows techniques found in sources, and names of kernels. Does not know how sources are read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pike.reporting.figures import look
from pike.reporting.figures.data.code_facts import TECHNIQUES
from pike.reporting.figures.data.records import Attempt, Material
from pike.reporting.figures.drawing import Drawing, Entry, FigureKind, Lack, Sheet, number, sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ORIGINS = (
    ("Triton or Inductor", re.compile(r"triton", re.I)),
    ("library", re.compile(r"cublas|cudnn|cutlass|gemm|xmma|flash|nccl|mkl|onednn|addmm|convolution|linear", re.I)),
    ("torch", re.compile(r"at::|aten::|elementwise|reduce_kernel|memcpy|memset|copy", re.I)),
)
_OWN, _REST = "own kernels and others", "beyond the profile"


def _plan(material: Material) -> tuple[Drawing | Lack, ...]:
    best: dict[str, list[Attempt]] = {}
    for cell, search in material.searches:
        found = search.attempt(search.best)
        if found is not None and found.code is not None:
            best.setdefault(cell.contender, []).append(found)
    if not best:
        lack = "no search has a best candidate with a source"
        return Lack("techniques", lack), Lack("techniques-time", lack)
    rows: list[tuple[Entry, ...]] = []
    for name, solutions in best.items():
        for technique in TECHNIQUES:
            count = sum(one.code is not None and technique in one.code.techniques for one in solutions)
            rows.append((name, technique, count, len(solutions), count / len(solutions)))
    values = sheet("contender technique solutions of share", rows, material.contenders)
    title = "What the best solutions are written with; one may use several"
    size = (6.4, 0.9 + 0.5 * len(TECHNIQUES))
    return Drawing("techniques", title, values, _draw, size), _by_time(material, best)


def _by_time(material: Material, best: dict[str, list[Attempt]]) -> Drawing | Lack:
    rows: list[tuple[Entry, ...]] = []
    for name, solutions in best.items():
        profiles = [one.profile for one in solutions if one.profile and one.profile.hotspots]
        if profiles:
            shares = dict.fromkeys((*(origin for origin, _ in _ORIGINS), _OWN), 0.0)
            for profile in profiles:
                for hotspot in profile.hotspots:
                    shares[_origin(hotspot.name)] += hotspot.share / len(profiles)
            shares[_REST] = max(0.0, 1.0 - sum(shares.values()))
            rows += [(name, origin, len(profiles), share) for origin, share in shares.items()]
    if not rows:
        return Lack("techniques-time", "no best candidate was profiled: search with --set prompt.profile=true")
    values = sheet("contender origin solutions share", rows, material.contenders)
    count = len({row[0] for row in rows})
    title = "Whose kernels the best solutions spend their time in, by names of kernels"
    return Drawing("techniques-time", title, values, _draw_time, (6.4, 1.2 + 0.32 * count))


def _origin(kernel: str) -> str:
    return next((origin for origin, pattern in _ORIGINS if pattern.search(kernel)), _OWN)


def _draw(figure: Figure, sheet: Sheet) -> None:
    axes = figure.subplots()
    names, styles = sheet.names("contender"), look.of_contenders(sheet)
    height = 0.8 / len(names)
    for at, name in enumerate(names):
        places = [place - 0.4 + height * (at + 0.5) for place in range(len(TECHNIQUES))]
        shares = [100.0 * number(row["share"]) for row in sheet.where(contender=name)]
        axes.barh(places, shares, height * 0.9, color=styles[name]["color"], label=name)
    look.named_rows(axes, TECHNIQUES)
    axes.set(xlim=(0, 100), xlabel="% of the best solutions")
    axes.grid(axis="x")
    look.legend(figure, axes)


def _draw_time(figure: Figure, sheet: Sheet) -> None:
    axes = figure.subplots()
    names, origins = sheet.names("contender"), sheet.names("origin")
    colours = dict(zip(origins, ("#E69F00", "#0072B2", "#56B4E9", "#009E73", look.FAINT), strict=True))
    for place, name in enumerate(names):
        left = 0.0
        for row in sheet.where(contender=name):
            width = 100.0 * number(row["share"])
            axes.barh(place, width, 0.6, left=left, color=colours[str(row["origin"])], label=str(row["origin"]))
            left += width
    look.named_rows(axes, names)
    axes.set(xlim=(0, 100), xlabel="% of the time in kernels")
    look.legend(figure, axes)


KIND = FigureKind(
    "techniques", "share of CUDA, Triton, C++, graphs, torch.compile and library calls", _plan, reads_code=True
)
