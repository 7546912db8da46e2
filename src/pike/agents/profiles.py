"""A profile in the words of a prompt: a few rows of figures, and a table of what runs.

Knows units and widths. Does not know templates, and adds nothing to what the judge recorded.
"""

from __future__ import annotations

from collections.abc import Sequence

from pike.core.profile import Hotspot, Profile

_MIB = 1 << 20


def profile_rows(profile: Profile) -> tuple[tuple[str, str], ...]:
    """Name and value of each figure that is known."""
    rows = []
    if profile.busy_share is not None:
        where = "inside operators" if profile.launches is None else "with a kernel running"
        rows.append((f"Share of a call {where}", f"{profile.busy_share:.0%}"))
    if profile.launches is not None:
        rows.append(("Launches from the host in one call", f"{profile.launches:.4g}"))
    rate = _rate(profile.bytes_per_second / 1e9, "GB/s", profile.bandwidth_share)
    rows.append(("Inputs, outputs and weights moved once, over the time of a call", rate))
    if profile.operations:
        rate = _rate(profile.operations_per_second / 1e9, "GFLOP/s", profile.arithmetic_share)
        rows.append(("The original's products, convolutions and attention, over the same", rate))
    if profile.peak_bytes:
        rows.append(("Most memory in use", f"{profile.peak_bytes / _MIB:,.0f} MiB"))
    return tuple(rows)


def hotspot_table(hotspots: Sequence[Hotspot]) -> str:
    """One line for each: share, how often in one call, name."""
    lines = [f"{hotspot.share:6.1%}  {hotspot.calls:7.4g}  {hotspot.name}" for hotspot in hotspots]
    return "\n".join([" share    times  name", *lines])


def _rate(value: float, unit: str, share: float | None) -> str:
    text = f"{value:.3g} {unit}" if value < 1000 else f"{value:,.0f} {unit}"
    return text if share is None else f"{text}, {share:.1%} of what the device can do"
