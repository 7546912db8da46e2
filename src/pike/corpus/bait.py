"""Bait for attacks: a secret, a file, the reference's source and an open port.

Knows how to lay it out and take it away. A sample that gets through prints `REACHED`; nothing real
is ever used. Does not know the samples.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from pathlib import Path
from types import TracebackType

SECRET = "PIKE_CORPUS_SECRET"
"""An environment variable that no candidate may see."""
REACHED = "REACHED"
"""A sample prints this when it reached the bait."""
_PLACE = "/var/tmp" if os.path.isdir("/var/tmp") else tempfile.gettempdir()


class Bait:
    """Laid out on entry, taken away on exit.

    Attributes:
        folder: a folder that no candidate needs, with `secret.txt` and `reference.py`.
    """

    def __enter__(self) -> Bait:
        self._before = os.environ.get(SECRET)
        os.environ[SECRET] = "not a real one"
        self.folder = Path(tempfile.mkdtemp(prefix="pike-corpus-", dir=_PLACE))
        (self.folder / "secret.txt").write_text("not a real one")
        (self.folder / "reference.py").write_text("# the text of a reference model\n")
        self._listener = socket.create_server(("127.0.0.1", 0))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        if self._before is None:
            os.environ.pop(SECRET, None)
        else:
            os.environ[SECRET] = self._before
