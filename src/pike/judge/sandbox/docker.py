"""Docker: a daemon starts the containers, so their processes do not descend from the judge.

Its image holds only the links between the system's folders and is named after its content.
"""

import hashlib
import io
import os
import tarfile
import time
from pathlib import Path

from pike.judge.sandbox.container import Container, ask, listed, quoted, run_options
from pike.judge.sandbox.filesystem import Mount, MountMode, engine_mounts, links
from pike.judge.sandbox.level import FIRST_PROCESS, SandboxSpec

_BLANK, _NUMBER = "blank", "number"
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY")
"""Variables that docker's client adds from the user's settings, passwords included."""
_CREATED_SECONDS = 2.0
_PROGRAM = ("docker", "--log-level", "error")
_REMOVE = ("rm", "--force", "--volumes")


class Docker(Container):
    """`docker run`, for users who may speak to a daemon on this machine."""

    name = "docker"

    def prepare(self) -> str:
        """Import the image, unless the daemon has it."""
        image, content = links_image(SandboxSpec("/", (), False))
        if ask(_PROGRAM, "image", "inspect", image).returncode == 0:
            return ""
        done = ask(_PROGRAM, "import", "-", image, given=content)
        return "" if done.returncode == 0 else done.stderr.decode(errors="replace").strip()[-200:]

    def run(self, variant: tuple[str, ...], spec: SandboxSpec, root: Path) -> list[str]:
        """The image of links is the root; `root` holds the container's number and a blank file."""
        blank = root / _BLANK
        blank.touch(mode=0)
        own = ["--pull", "never", "--cidfile", str(root / _NUMBER), "--user", f"{os.geteuid()}:{os.getegid()}"]
        for name in _PROXIES:
            own += ["--env", f"{name}=", "--env", f"{name.lower()}="]
        for mount in (*engine_mounts(spec), Mount("/sys/fs/cgroup", MountMode.EMPTY)):
            own += mount_option(mount, str(blank))
        return [*_PROGRAM, *variant, "run", *run_options(spec, root.name), *own, links_image(spec)[0], *FIRST_PROCESS]

    def cleanup_command(self, name: str) -> tuple[str, ...]:
        """The daemon must be told."""
        return (*_PROGRAM, *_REMOVE, name)

    def names(self) -> list[str]:
        """What `docker ps` lists."""
        return listed(_PROGRAM)

    def remove(self, root: Path) -> None:
        """Wait a little: a client that was killed early may have asked for a container already."""
        deadline = time.monotonic() + (0.0 if (root / _NUMBER).exists() else _CREATED_SECONDS)
        while root.name not in self.names():
            if time.monotonic() >= deadline:
                return
            time.sleep(0.05)
        ask(_PROGRAM, *_REMOVE, root.name)


def mount_option(mount: Mount, blank: str) -> tuple[str, str]:
    """An option and its value for one mount; `blank` is the path of a file without any rights."""
    if mount.mode is MountMode.EMPTY:
        return "--tmpfs", f"{mount.path}:ro,size=64k"
    # The owner of the blank file cannot change its rights: it is mounted read-only, without capabilities.
    source = blank if mount.mode is MountMode.BLANK else mount.source
    fields = ["type=bind", f"source={source}", f"destination={mount.path}"]
    fields += [] if mount.mode is MountMode.WRITE else ["readonly"]
    return "--mount", quoted(fields)


def links_image(spec: SandboxSpec) -> tuple[str, bytes]:
    """The image's name, which holds the digest of its content, and that content."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for path, target in sorted(links(spec).items()):
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            archive.addfile(entry)
    return f"pike-links:{hashlib.sha256(content.getvalue()).hexdigest()}", content.getvalue()
