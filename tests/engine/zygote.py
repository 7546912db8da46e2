"""A process that has imported everything and forks at a word, so that runs can be started and killed cheaply."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


class Zygote:
    def __init__(self) -> None:
        here = Path(__file__).parent
        self.process = subprocess.Popen(
            [sys.executable, str(here / "kill_zygote.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=here,
        )
        assert self.process.stdout
        assert self.process.stdout.readline() == "ready\n"

    def run(self, order: dict[str, Any], kill_after_seconds: float | None = None) -> int:
        """Start or resume a run; the exit code, -9 if it was killed."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps({**order, "kill_after_seconds": kill_after_seconds}) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def close(self) -> None:
        assert self.process.stdin and self.process.stderr
        self.process.stdin.close()
        self.process.wait()
        said = self.process.stderr.read()
        assert not said, said
