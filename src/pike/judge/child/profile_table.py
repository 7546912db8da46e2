"""The table of fixed layout in which a child's profile travels to the judge.

No part has a variable length, so reading it runs nothing. Does not know what the numbers mean.
"""

import enum
import struct
from dataclasses import dataclass

MOST_CALLS = 16
MOST_ROWS = 64
NAME_BYTES = 96
_MAGIC = b"pikeprof"
_HEADER = struct.Struct(f"<8sIIIIQQQQ{3 * MOST_CALLS}Q")
_ROW = struct.Struct(f"<{NAME_BYTES}sQQ")
TABLE_BYTES = _HEADER.size + MOST_ROWS * _ROW.size


class ProfileProblem(enum.IntEnum):
    """Why a table has no rows; a number, because a candidate could choose misleading words."""

    NONE = 0
    REFUSED = 1
    """The profiler did not start."""
    BROKEN = 2
    """The profiler failed."""
    NO_KERNELS = 3
    """The profiler ran and saw nothing on the device."""


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """One kernel or operator in all profiled calls; its time is without what it called."""

    name: str
    nanoseconds: int
    count: int


@dataclass(frozen=True, slots=True)
class ProfileTable:
    """What a child says about its own calls; a candidate can write anything into it.

    Attributes:
        spans: nanoseconds of each profiled call, by the child's clock.
        busy: nanoseconds of each call in which at least one kernel or operator ran.
        allocated: bytes that torch held on the device after each call (0 on a CPU).
        rows: largest first, at most 64.
        total: nanoseconds of all kernels or operators, those without a row included.
        launches: what the host started.
        graphs: how many of those were CUDA graphs.
        peak_bytes: the most that torch held on the device.
        problem: why there are no rows.
    """

    spans: tuple[int, ...] = ()
    busy: tuple[int, ...] = ()
    allocated: tuple[int, ...] = ()
    rows: tuple[ProfileRow, ...] = ()
    total: int = 0
    launches: int = 0
    graphs: int = 0
    peak_bytes: int = 0
    problem: ProfileProblem = ProfileProblem.NONE


def pack(table: ProfileTable) -> bytes:
    """The table as `TABLE_BYTES` bytes; rows and calls beyond the caps are left out."""
    rows = table.rows[:MOST_ROWS]
    header = _HEADER.pack(
        _MAGIC,
        min(len(table.spans), MOST_CALLS),
        len(rows),
        table.problem,
        0,
        table.total,
        table.launches,
        table.graphs,
        table.peak_bytes,
        *_filled(table.spans),
        *_filled(table.busy),
        *_filled(table.allocated),
    )
    body = b"".join(
        _ROW.pack(row.name.encode("utf-8", "replace")[:NAME_BYTES], row.nanoseconds, row.count) for row in rows
    )
    return (header + body).ljust(TABLE_BYTES, b"\0")


def unpack(data: bytes) -> ProfileTable:
    """The table that `pack` wrote; raises `ValueError` for any other bytes."""
    if len(data) < TABLE_BYTES:
        raise ValueError("it is too short")
    magic, calls, rows, problem, padding, total, launches, graphs, peak, *rest = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise ValueError("it was not written")
    if calls > MOST_CALLS or rows > MOST_ROWS or padding or problem not in ProfileProblem.__members__.values():
        raise ValueError("it claims what cannot be")
    read = [_ROW.unpack_from(data, _HEADER.size + number * _ROW.size) for number in range(rows)]
    return ProfileTable(
        spans=tuple(rest[:calls]),
        busy=tuple(rest[MOST_CALLS : MOST_CALLS + calls]),
        allocated=tuple(rest[2 * MOST_CALLS : 2 * MOST_CALLS + calls]),
        rows=tuple(ProfileRow(_text(name), nanoseconds, count) for name, nanoseconds, count in read),
        total=total,
        launches=launches,
        graphs=graphs,
        peak_bytes=peak,
        problem=ProfileProblem(problem),
    )


def _filled(numbers: tuple[int, ...]) -> tuple[int, ...]:
    return (*numbers, *(0,) * MOST_CALLS)[:MOST_CALLS]


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("ascii", "replace")
