"""The first process of a sandbox with PID namespace: runs one program and takes in orphans.

Run as `python first_process.py PROGRAM ARGUMENTS`. It ends as the program ends, and the namespace
with it. The candidate has the same user and capabilities, so this process closes its memory first.
Imports nothing of the package: it runs without its paths. Does not know what it runs.
"""

import ctypes
import os
import sys

_SET_DUMPABLE = 4


def main() -> None:
    """Close the memory, run the program, and wait for it."""
    ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0)
    program = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # the judge sees the end of the program by its descriptors
    while True:
        pid, status = os.wait()
        if pid == program:
            code = os.waitstatus_to_exitcode(status)
            os._exit(128 - code if code < 0 else code)


if __name__ == "__main__":
    main()
