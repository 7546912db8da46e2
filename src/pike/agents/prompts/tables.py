"""Facts in the form of a prompt: the device, a profile, and the scores of solutions.

Knows units and widths. Does not know templates, and adds nothing to the facts.
"""

from collections.abc import Sequence

from pike.core.device import DeviceFacts
from pike.core.step import Solution
from pike.core.verdict.profile import Ceilings, Hotspot, Profile

_MIB = 1 << 20
_COMPILE = frozenset({"compile", "inductor", "reduce_overhead", "max_autotune"})
_SCORE_HEAD = ("| file | ms per call | times as fast | score |", "|---|---|---|---|")


def device_rows(device: DeviceFacts) -> tuple[tuple[str, str], ...]:
    """Name and value of each known fact about the device; unknown ones (0, empty) are left out."""
    kind = f"NVIDIA GPU, {device.name}" if device.is_cuda else f"CPU, {device.name}"
    arch = architecture(device)
    cache = "L2 cache" if device.is_cuda else "Last-level cache"
    shared = f"{device.shared_bytes_per_block} bytes" if device.shared_bytes_per_block else ""
    rows = (
        ("Device", kind),
        ("Compute capability", f"{device.capability} (sm_{arch})" if arch else ""),
        ("Streaming multiprocessors", str(device.multiprocessors or "")),
        ("Threads", "" if device.is_cuda else str(device.threads)),
        ("Vector and matrix units", ", ".join(device.units)),
        ("Memory", f"{device.memory_bytes / (1 << 30):.1f} GiB" if device.memory_bytes else ""),
        (cache, f"{device.l2_bytes / _MIB:.1f} MiB" if device.l2_bytes else ""),
        ("Shared memory of one block, at most", shared),
        ("32-bit registers of one block, at most", str(device.registers_per_block or "")),
        ("Versions", ", ".join(f"{name} {version}" for name, version in device.versions)),
    )
    return tuple((name, value) for name, value in rows if value)


def architecture(device: DeviceFacts) -> str:
    """What follows `sm_` for this device, for example `90a`: from Hopper on, with all of its own instructions."""
    arch = device.capability.replace(".", "")
    return f"{arch}a" if device.capability.partition(".")[0] not in ("", *"5678") else arch


def profile_rows(profile: Profile) -> tuple[tuple[str, str], ...]:
    """Name and value of each known figure of a profile."""
    rows = []
    if profile.busy_share is not None:
        where = "inside operators" if profile.launches is None else "with a kernel running"
        rows.append((f"Share of a call {where}", f"{profile.busy_share:.0%}"))
    if profile.launches is not None:
        rows.append(("Launches from the host in one call", f"{profile.launches:.4g}"))
    rate = _rate(profile.bytes_per_second / 1e9, "GB/s", profile.bandwidth_share)
    moved = f" ({profile.least_bytes / _MIB:.4g} MiB)" if profile.least_bytes else ""
    rows.append((f"Inputs, outputs and weights moved once{moved}, over the time of a call", rate))
    if profile.operations:
        rate = _rate(profile.operations_per_second / 1e9, "GFLOP/s", profile.arithmetic_share)
        what = f"The original's products, convolutions and attention ({profile.operations / 1e9:.4g} GFLOP)"
        rows.append((f"{what}, over the same", rate))
    if profile.ceilings is not None:
        rows.append(("At the device's measured best, that alone takes at least", _least(profile, profile.ceilings)))
    if profile.peak_bytes:
        rows.append(("Most memory in use", f"{profile.peak_bytes / _MIB:,.0f} MiB"))
    return tuple(rows)


def known_rows(known: Sequence[Solution]) -> tuple[tuple[str, str], ...]:
    """What built-in rewrites of this run reach: `torch.compile` alone, and the best composition."""
    valid = [solution for solution in known if solution.candidate.recipes and solution.evaluation.timing]
    compiled = [one for one in valid if len(one.candidate.recipes) == 1 and one.candidate.recipes[0] in _COMPILE]
    rows = (("`torch.compile` alone", compiled), ("The fastest composition of built-in rewrites", valid))
    return tuple((name, _reached(found)) for name, found in rows if found)


def _reached(found: Sequence[Solution]) -> str:
    best = max(found, key=lambda one: one.evaluation.speedup or 0.0)
    names = ", ".join(f"`{name}`" for name in best.candidate.recipes)
    return f"{best.evaluation.candidate_ms:.4g} ms, {best.evaluation.speedup:.2f} times as fast ({names})"


def _least(profile: Profile, ceilings: Ceilings) -> str:
    parts = [(profile.least_bytes, ceilings.bytes_per_second, "memory")]
    parts += [(profile.operations, ceilings.operations_per_second, "arithmetic")]
    return ", ".join(f"{amount / rate * 1e3:.3g} ms of {what}" for amount, rate, what in parts if amount and rate)


def hotspot_table(hotspots: Sequence[Hotspot]) -> str:
    """One line for each hotspot: share, number of times in one call, name."""
    lines = [f"{hotspot.share:6.1%}  {hotspot.calls:7.4g}  {hotspot.name}" for hotspot in hotspots]
    return "\n".join([" share    times  name", *lines])


def score_table(inspirations: Sequence[Solution], seed: Solution | None, reference_ms: float | None) -> str:
    """A Markdown table of the original (if its time is known), the seed, and the others.

    The score is the figure that an evolutionary search ranks by: calls per second.
    """
    rows = [] if reference_ms is None else [_row("the original model", reference_ms, 1.0)]
    rows += [_solved("the solution to improve", seed)] if seed else []
    rows += [_solved(f"solution {number}", other) for number, other in enumerate(inspirations, 1)]
    return "\n".join((*_SCORE_HEAD, *rows))


def _rate(value: float, unit: str, share: float | None) -> str:
    text = f"{value:.3g} {unit}" if value < 1000 else f"{value:,.0f} {unit}"
    return text if share is None else f"{text}, {share:.1%} of what the device can do"


def _solved(name: str, solution: Solution) -> str:
    timing = solution.evaluation.timing
    if timing is None:
        return f"| {name} | refused: {solution.evaluation.status.value} | – | – |"
    return _row(name, timing.candidate_ms, timing.speedup)


def _row(name: str, ms: float, speedup: float) -> str:
    return f"| {name} | {ms:.4g} | {speedup:.2f} | {1000.0 / ms:.4g} |"
