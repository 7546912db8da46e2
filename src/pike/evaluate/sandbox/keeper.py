"""A small program that runs another one and stays the parent of all that it leaves behind, so that nothing gets lost.

Run as `python keeper.py COUNT FAREWELL... PROGRAM ARGUMENTS`; ends as the program ends. Container engines detach what
they start, which would otherwise go on when whoever is above dies. The farewell, a command of COUNT words (0 for none),
is run then, for what belongs to a daemon and cannot be kept. Does not know what it runs.
"""

import ctypes
import os
import signal
import sys

_SUBREAPER, _SIGNAL_WHEN_PARENT_DIES = 36, 1


def main() -> None:
    """Run the program and wait, first for it and then for what it left; when the parent dies, all of that does."""
    libc = ctypes.CDLL(None)
    libc.prctl(_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, _end)
    libc.prctl(_SIGNAL_WHEN_PARENT_DIES, signal.SIGTERM, 0, 0, 0)
    words = sys.argv[2 + int(sys.argv[1]) :]
    program = os.posix_spawnp(words[0], words, os.environ)
    code = 1
    while True:
        try:
            pid, status = os.wait()
        except ChildProcessError:
            sys.exit(code)
        if pid == program:
            ended = os.waitstatus_to_exitcode(status)
            code = 128 - ended if ended < 0 else ended


def _end(*_: object) -> None:
    """Kill children until there are none (those of the dead become ours), and say farewell."""
    _kill_children()
    if farewell := sys.argv[2 : 2 + int(sys.argv[1])]:
        os.waitpid(os.posix_spawnp(farewell[0], farewell, os.environ), 0)
    os._exit(1)


def _kill_children() -> None:
    while True:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            children = file.read().split()
        if not children:
            return
        for child in children:
            os.kill(int(child), signal.SIGKILL)
            os.waitpid(int(child), 0)


if __name__ == "__main__":
    main()
