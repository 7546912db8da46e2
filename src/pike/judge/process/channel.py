"""The judge's end of the wire to one child: an inherited socket pair, or a socket in its folder.

Keeps commands for a child that has not connected yet. Does not know what they mean.
"""

import contextlib
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pike.judge.child.wire import ChildMessage, Command, WireClosed, WireTimeout, receive_up, send_down
from pike.judge.sandbox import CHANNEL

_PULSE_SECONDS = 0.1
_SEND_SECONDS = 5
"""An honest child reads each command before it answers, so that the next one always finds room."""
_PEER = struct.Struct("=iII")
_Sent = tuple[Command, int, Any, tuple[int, ...]]


class Channel:
    """The judge's end; the child connects to `address`."""

    def __init__(self, folder: Path, inherited: bool, send_seconds: int = _SEND_SECONDS) -> None:
        self._patience = struct.pack("@ll", send_seconds, 0)
        self._lock, self._closed = threading.Lock(), threading.Event()
        self._waiting: list[_Sent] = []
        self._sock: socket.socket | None = None
        self._theirs: socket.socket | None = None
        self.peer = 0
        """The process that connected, as the kernel says; 0 if the other end was inherited."""
        if inherited:
            self._sock, self._theirs = socket.socketpair()
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, self._patience)
            self.address = str(self._theirs.fileno())
            """The child's argument: the number of its descriptor, or a path."""
        else:
            self.address = str(folder / CHANNEL)
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(self.address)
            listener.listen(1)
            threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The descriptors that the child must inherit."""
        return (self._theirs.fileno(),) if self._theirs else ()

    def started(self) -> None:
        """Close the child's end here, after the child inherited it."""
        if self._theirs:
            self._theirs.close()
            self._theirs = None

    def send(self, command: Command, seq: int, body: Any, fds: tuple[int, ...]) -> None:
        """See `child.wire.send_down`. Before the child has connected, the command is kept for it.

        Raises:
            WireClosed: the child is gone.
            WireViolation: it does not read what it is sent.
        """
        with self._lock:
            if self._sock is None:
                self._waiting.append((command, seq, body, fds))
            else:
                send_down(self._sock, command, seq, body, fds)

    def receive(
        self, nonce: bytes, seq: int, deadline: float, on_wait: Callable[[], float], alive: Callable[[], bool]
    ) -> ChildMessage:
        """See `child.wire.receive_up`; `alive` says whether an unconnected child still runs.

        Raises:
            WireClosed, WireTimeout, WireViolation: see there.
        """
        while self._sock is None:
            if time.monotonic() > deadline:
                raise WireTimeout
            if not alive():
                raise WireClosed("the child ended before it connected")
            time.sleep(_PULSE_SECONDS / 10)
            deadline += on_wait()
        return receive_up(self._sock, nonce, seq, deadline, on_wait)

    def has_answered(self) -> bool:
        """Whether `receive` would find something at once."""
        return self._sock is not None and bool(select.select([self._sock], [], [], 0.0)[0])

    def close(self) -> None:
        """Close both ends."""
        self._closed.set()
        self.started()
        with self._lock:
            if self._sock is not None:
                self._sock.close()

    def _accept(self, listener: socket.socket) -> None:
        listener.settimeout(_PULSE_SECONDS)
        with listener, contextlib.suppress(OSError):
            while not self._closed.is_set():
                with contextlib.suppress(TimeoutError):
                    sock, _ = listener.accept()
                    os.unlink(self.address)
                    sock.setblocking(True)
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, self._patience)
                    self._connected(sock)
                    return

    def _connected(self, sock: socket.socket) -> None:
        with self._lock, contextlib.suppress(WireClosed):  # the next `receive` finds out
            self.peer = _PEER.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))[0]
            self._sock = sock
            for sent in self._waiting:
                send_down(sock, *sent)
