"""The engine docker: its daemon starts containers, so their processes descend from nobody that the judge started.

Knows what docker calls things, and the image that it needs: nothing but the links between the system's folders, made
here and named after its content. Does not know what every engine is asked for.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path

from pike.evaluate.sandbox.engine import FIRST, How, Mount, ask, common, links, listed, mounts, quoted
from pike.evaluate.sandbox.level import Cell

_BLANK, _NUMBER = "blank", "number"
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY")
"""Variables that docker's client adds from the user's settings, with whatever password is in them."""
_CREATED_SECONDS = 2.0


_PROGRAM = ("docker", "--log-level", "error")
_REMOVE = ("rm", "--force", "--volumes")


@dataclass(frozen=True, slots=True)
class Docker:
    """`docker run`, for whoever may speak to a daemon on this machine."""

    name: str = "docker"
    variants: tuple[tuple[str, ...], ...] = ((),)

    def prepare(self) -> str:
        """The image, unless the daemon has it."""
        image, content = _image(Cell("/", (), False))
        if ask(_PROGRAM, "image", "inspect", image).returncode == 0:
            return ""
        done = ask(_PROGRAM, "import", "-", image, given=content)
        return "" if done.returncode == 0 else done.stderr.decode(errors="replace").strip()[-200:]

    def run(self, variant: tuple[str, ...], cell: Cell, root: Path) -> list[str]:
        """The root is the image of links; the folder holds the container's number and what stands for hidden files."""
        blank = root / _BLANK
        blank.touch(mode=0)
        own = ["--pull", "never", "--cidfile", str(root / _NUMBER), "--user", f"{os.geteuid()}:{os.getegid()}"]
        for name in _PROXIES:
            own += ["--env", f"{name}=", "--env", f"{name.lower()}="]
        for mount in (*mounts(cell), Mount("/sys/fs/cgroup", How.EMPTY)):
            own += _written(mount, str(blank))
        return [*_PROGRAM, *variant, "run", *common(cell, root.name), *own, _image(cell)[0], *FIRST]

    def farewell(self, name: str) -> tuple[str, ...]:
        """The daemon must be told."""
        return (*_PROGRAM, *_REMOVE, name)

    def names(self) -> list[str]:
        """What `docker ps` lists."""
        return listed(_PROGRAM)

    def remove(self, root: Path) -> None:
        """A client that was killed early may have asked for a container that the daemon is still making."""
        deadline = time.monotonic() + (0.0 if (root / _NUMBER).exists() else _CREATED_SECONDS)
        while root.name not in self.names():
            if time.monotonic() >= deadline:
                return
            time.sleep(0.05)
        ask(_PROGRAM, *_REMOVE, root.name)


def _written(mount: Mount, blank: str) -> tuple[str, str]:
    if mount.how is How.EMPTY:
        return "--tmpfs", f"{mount.place}:ro,size=64k"
    # Nobody may read it, and whoever owns it cannot change that: it is mounted read-only, and no capability is left.
    source = blank if mount.how is How.BLANK else mount.source
    fields = ["type=bind", f"source={source}", f"destination={mount.place}"]
    fields += [] if mount.how is How.WRITE else ["readonly"]
    return "--mount", quoted(fields)


def _image(cell: Cell) -> tuple[str, bytes]:
    """The image's name, which holds the digest of its content, and that content."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for path, target in sorted(links(cell).items()):
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            archive.addfile(entry)
    return f"pike-links:{hashlib.sha256(content.getvalue()).hexdigest()}", content.getvalue()
