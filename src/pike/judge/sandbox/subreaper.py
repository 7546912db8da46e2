"""A small program that runs another one and stays the parent of all processes that it leaves
behind.

Run as `python subreaper.py COUNT CLEANUP... PROGRAM ARGUMENTS`; ends as the program ends. Container
engines detach the processes that they start, which would outlive a dead judge. When the parent
dies, this program kills them and runs the cleanup, a command of COUNT words (0 for none), for
containers that a daemon holds. Does not know what it runs.
"""

import ctypes
import os
import signal
import sys

_SUBREAPER, _SIGNAL_WHEN_PARENT_DIES = 36, 1


def main() -> None:
    """Run the program; wait for it, and then for the processes that it left."""
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
    """Kill children until there are none (those of the dead become ours), and run the cleanup."""
    _kill_children()
    if cleanup := sys.argv[2 : 2 + int(sys.argv[1])]:
        os.waitpid(os.posix_spawnp(cleanup[0], cleanup, os.environ), 0)
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
