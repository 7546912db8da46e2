"""The messages between judge and child, and nothing else.

Knows their layout. Downwards (judge to child) a message is a fixed header and a pickled body: the child trusts the
judge. Upwards it is one fixed 48-byte struct without any variable part: nothing that a candidate can reach is ever
unpickled, parsed or believed. Does not know what the commands do.
"""

from __future__ import annotations

import enum
import pickle
import select
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_DOWN = struct.Struct("<IIQQ")
_UP = struct.Struct("<16sIIQQQ")
UP_BYTES = _UP.size
NONCE_BYTES = 16
_MOST_FDS = 4
_PULSE_SECONDS = 0.1


class Command(enum.IntEnum):
    """What the judge tells the child to do."""

    BUILD = 1
    LOAD = 2
    MAP = 3
    RUN = 4
    NULL = 5
    EXIT = 6
    HELLO = 7
    """Answer once ready for BUILD."""
    SEAL = 8
    """Building is over: from now on no program starts."""
    TWICE = 9
    """RUN with two inputs, keeping the first output alive; the detail says whether the second call took its memory."""
    PROFILE = 10
    """A step of a profile of the calls in between (see `profiling.Step`)."""
    RELEASE = 11
    """Hand back a GPU's memory that is kept for later calls."""


class Reply(enum.IntEnum):
    """What the child may answer; a failure names its kind, its words go to stderr."""

    OK = 1
    BROKEN = 2
    """The candidate raised."""
    OUT_OF_MEMORY = 3
    BAD_CONTRACT = 4
    STUB_BROKEN = 5
    """The stub itself failed before any candidate code could have run."""


@dataclass(frozen=True, slots=True)
class Up:
    """One message from the child.

    Attributes:
        reply: what happened.
        seq: the number of the command that it answers.
        nanoseconds: how long the child says it took; a hint, never a measurement that counts.
        detail: a small number whose meaning depends on the command (how weights were loaded).
    """

    reply: Reply
    seq: int
    nanoseconds: int = 0
    detail: int = 0


class WireClosed(Exception):
    """The other side is gone."""


class WireViolation(Exception):
    """The child sent bytes that no honest stub sends."""


class WireTimeout(Exception):
    """Nothing arrived before the deadline."""


def send_down(sock: socket.socket, command: Command, seq: int, body: Any = None, fds: tuple[int, ...] = ()) -> None:
    """Send one command; file descriptors travel with its header.

    Raises:
        WireClosed: the child is gone.
    """
    data = b"" if body is None else pickle.dumps(body)
    header = _DOWN.pack(command, len(fds), seq, len(data))
    try:
        if fds:
            socket.send_fds(sock, [header], list(fds))
            sock.sendall(data)
        else:
            sock.sendall(header + data)
    except OSError as error:
        raise WireClosed(str(error)) from error


def receive_down(sock: socket.socket) -> tuple[Command, int, Any, tuple[int, ...]]:
    """The next command, its number, its body and the file descriptors that came with it.

    Raises:
        WireClosed: the judge is gone.
    """
    header, fds, _, _ = socket.recv_fds(sock, _DOWN.size, _MOST_FDS)
    if not header:
        raise WireClosed("the judge closed the channel")
    while len(header) < _DOWN.size:
        header += _read(sock, _DOWN.size - len(header))
    command, _, seq, length = _DOWN.unpack(header)
    body = pickle.loads(_read(sock, length)) if length else None
    return Command(command), seq, body, tuple(fds)


def send_up(sock: socket.socket, nonce: bytes, message: Up) -> None:
    """Send one fixed-layout answer."""
    sock.sendall(_UP.pack(nonce, message.reply, 0, message.seq, min(message.nanoseconds, 2**63), message.detail))


def receive_up(
    sock: socket.socket, nonce: bytes, seq: int, deadline: float, on_wait: Callable[[], float] = lambda: 0.0
) -> Up:
    """The answer to command `seq`.

    Args:
        sock: the judge's end.
        nonce: 16 bytes that the stub was given; they guard order, not trust.
        seq: the number that the answer must carry.
        deadline: on `time.monotonic`'s clock.
        on_wait: called ten times a second while nothing arrives; returns the seconds by which the deadline moves.

    Raises:
        WireClosed: the child is gone.
        WireTimeout: the deadline passed.
        WireViolation: wrong nonce, number, code or padding.
    """
    data = b""
    while len(data) < UP_BYTES:
        left = deadline - time.monotonic()
        if left <= 0:
            raise WireTimeout
        if not select.select([sock], [], [], min(left, _PULSE_SECONDS))[0]:
            deadline += on_wait()
            continue
        try:
            part = sock.recv(UP_BYTES - len(data))
        except OSError as error:
            raise WireClosed(str(error)) from error
        if not part:
            raise WireClosed("the child closed the channel")
        data += part
    got_nonce, reply, padding, got_seq, nanoseconds, detail = _UP.unpack(data)
    if got_nonce != nonce or padding or got_seq != seq or reply not in Reply.__members__.values():
        raise WireViolation("the child sent a message that the stub does not send")
    return Up(Reply(reply), got_seq, nanoseconds, detail)


def _read(sock: socket.socket, length: int) -> bytes:
    parts = []
    while length:
        part = sock.recv(min(length, 1 << 20))
        if not part:
            raise WireClosed("the judge closed the channel")
        parts.append(part)
        length -= len(part)
    return b"".join(parts)
