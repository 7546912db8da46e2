"""A program on a terminal that remembers every screen it showed."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pyte

COLUMNS, LINES = 110, 50


class Shown:
    """A process whose three streams are a terminal."""

    def __init__(self, command: Sequence[str], folder: Path, **environment: str) -> None:
        main, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        given = os.environ | {"TERM": "xterm-256color"} | environment
        streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
        self.process = subprocess.Popen(command, cwd=folder, env=given, start_new_session=True, **streams)
        os.close(theirs)
        self.raw = b""
        self.screens: list[str] = []
        self._screen = pyte.Screen(COLUMNS, LINES)
        self._reader = threading.Thread(target=self._read, args=(main,), daemon=True)
        self._reader.start()

    @property
    def text(self) -> str:
        """What it shows by now."""
        return self.screens[-1] if self.screens else ""

    def until(self, seen: Callable[[str], object], seconds: float = 60.0) -> str:
        """The first screen that fulfils a condition."""
        late, looked = time.monotonic() + seconds, 0
        while True:
            ended = not self._reader.is_alive()
            for screen in self.screens[looked:]:
                looked += 1
                if seen(screen):
                    return screen
            assert not ended and time.monotonic() < late, f"it never showed that, but at last:\n{self.text}"
            time.sleep(0.02)

    def end(self, seconds: float = 60.0) -> int:
        """Wait for its end; gives the exit code."""
        code = self.process.wait(seconds)
        self._reader.join(seconds)
        return code

    def _read(self, main: int) -> None:
        stream = pyte.ByteStream(self._screen)
        while True:
            try:
                read = os.read(main, 65536)
            except OSError:  # the other end is closed
                break
            if not read:
                break
            self.raw += read
            stream.feed(read)
            self.screens.append("\n".join(line.rstrip() for line in self._screen.display).rstrip())
        os.close(main)
