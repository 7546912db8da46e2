"""A small program that runs another one and stays the parent of all that it leaves behind, so that nothing gets lost.

Run as `python keeper.py PROGRAM ARGUMENTS`; ends as the program ends. Container tools detach their monitor, which would
otherwise go on when whoever is above dies. Does not know what it runs.
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
    program = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ)
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
    """Kill children until there are none: those of the dead become ours."""
    while True:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            children = file.read().split()
        if not children:
            os._exit(1)
        for child in children:
            os.kill(int(child), signal.SIGKILL)
            os.waitpid(int(child), 0)


if __name__ == "__main__":
    main()
