"""The messages between judge and child, and nothing else.

Downwards a body is pickled, because the child trusts the judge. Upwards each message is one fixed
struct: nothing that a candidate can reach is ever unpickled or parsed.
"""

import enum
import pickle
import re
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

DIAGNOSTIC = re.compile(r"\b(error|fatal)\b[^:]*:", re.IGNORECASE)
"""A line in which a compiler says what is wrong."""


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
    """Building is over: from now on no program and no process starts."""
    TWICE = 9
    """RUN with two inputs; the detail says whether the second call reused the first output."""
    PROFILE = 10
    """A step of a profile of the calls in between (see `profiling.ProfileStep`)."""
    RELEASE = 11
    """Hand back a GPU's memory that is kept for later calls."""
    HELD = 12
    """The detail says how many bytes of a GPU torch holds in the child."""


class ChildReply(enum.IntEnum):
    """What the child may answer; the words of a failure go to stderr."""

    OK = 1
    BROKEN = 2
    """The candidate raised."""
    OUT_OF_MEMORY = 3
    BAD_CONTRACT = 4


@dataclass(frozen=True, slots=True)
class ChildMessage:
    """One message from the child.

    Attributes:
        reply: what happened.
        seq: the number of the command that it answers.
        nanoseconds: how long the child says it took; a hint that never counts.
        detail: a number whose meaning depends on the command, for example how weights were loaded.
    """

    reply: ChildReply
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
        WireViolation: it does not read what it is sent, and the socket's own time limit is over.
    """
    data = b"" if body is None else pickle.dumps(body)
    header = _DOWN.pack(command, len(fds), seq, len(data))
    try:
        if fds:
            socket.send_fds(sock, [header], list(fds))
            sock.sendall(data)
        else:
            sock.sendall(header + data)
    except BlockingIOError as error:
        raise WireViolation("the child answered commands that it did not read") from error
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


def send_up(sock: socket.socket, nonce: bytes, message: ChildMessage) -> None:
    """Send one fixed-layout answer."""
    sock.sendall(_UP.pack(nonce, message.reply, 0, message.seq, min(message.nanoseconds, 2**63), message.detail))


def receive_up(
    sock: socket.socket, nonce: bytes, seq: int, deadline: float, on_wait: Callable[[], float] = lambda: 0.0
) -> ChildMessage:
    """The answer to command `seq`, with the nonce that the stub was given.

    Args:
        deadline: on `time.monotonic`'s clock.
        on_wait: called ten times a second while nothing arrives; returns the seconds by which the
            deadline moves.

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
    if got_nonce != nonce or padding or got_seq != seq or reply not in ChildReply.__members__.values():
        raise WireViolation("the child sent a message that the stub does not send")
    return ChildMessage(ChildReply(reply), got_seq, nanoseconds, detail)


def _read(sock: socket.socket, length: int) -> bytes:
    parts = []
    while length:
        part = sock.recv(min(length, 1 << 20))
        if not part:
            raise WireClosed("the judge closed the channel")
        parts.append(part)
        length -= len(part)
    return b"".join(parts)
