"""The child process: a loop that obeys the judge until it is told to exit or the judge is gone.

Started as `python -m pike.judge.child SOCKET NONCE_HEX MEMORY_BYTES FILE_BYTES FILTER EXPENDABLE
WRITABLE`, or forked with the same arguments (`template`). SOCKET is an inherited descriptor's
number or a path, WRITABLE a list of folders (empty for all). Failures are explained on stderr.
"""

import contextlib
import ctypes
import os
import resource
import signal
import socket
import sys
import traceback
from typing import Any

import torch

from pike.judge.child import guard, seccomp
from pike.judge.child.memory.layout import ContractBroken
from pike.judge.child.stub import Stub
from pike.judge.child.wire import DIAGNOSTIC, ChildMessage, ChildReply, Command, WireClosed, receive_down, send_up

_MOST_LINES = 120
_OUT_OF_MEMORY_WORDS = ("out of memory", "can't allocate memory", "cannot allocate memory", "bad_alloc")


def main(template: int = 0) -> None:
    """Serve commands on the socket; the filter keeps signals from the process `template`, too."""
    die_with_parent()
    sock = _channel(sys.argv[1])
    sock.set_inheritable(False)
    nonce = bytes.fromhex(sys.argv[2])
    _limit(int(sys.argv[3]), int(sys.argv[4]))
    if int(sys.argv[5]):
        judge = os.getppid()
        seccomp.install(seccomp.from_the_start({judge, -judge, -os.getpgid(judge), template, -template, -1} - {0}))
    expendable = bool(int(sys.argv[6]))
    # A candidate is closed to other candidates only if the judge, which watches it, has root's right to look.
    guard.close_memory(not expendable or guard.give_up_root())
    if expendable:
        _die_first()
    if sys.argv[7]:
        guard.confine(sys.argv[7].split(os.pathsep))
    del sys.argv[1:]
    stub = Stub()
    while True:
        try:
            command, seq, body, fds = receive_down(sock)
        except WireClosed:
            return
        if command is Command.EXIT:
            return
        send_up(sock, nonce, _answer(stub, command, seq, body, fds))


def _channel(address: str) -> socket.socket:
    if address.isdigit():
        return socket.socket(fileno=int(address))
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(address)
    return sock


def _answer(stub: Stub, command: Command, seq: int, body: Any, fds: tuple[int, ...]) -> ChildMessage:
    try:
        nanoseconds, detail = _obey(stub, command, body, fds)
        return ChildMessage(ChildReply.OK, seq, nanoseconds, detail)
    except ContractBroken as error:
        sys.stderr.write(f"contract: {error}\n")
        reply = ChildReply.BAD_CONTRACT
    except BaseException as error:  # a candidate may raise anything, SystemExit included
        _explain(error)
        reply = ChildReply.OUT_OF_MEMORY if _is_out_of_memory(error) else ChildReply.BROKEN
    sys.stdout.flush()
    sys.stderr.flush()
    return ChildMessage(reply, seq)


def _obey(stub: Stub, command: Command, body: Any, fds: tuple[int, ...]) -> tuple[int, int]:
    if command is Command.RUN:
        return stub.run(body), 0
    if command is Command.TWICE:
        return 0, int(stub.run_twice())
    if command is Command.NULL:
        return stub.rest(body), 0
    if command is Command.HELLO:
        stub.hello(body)
    elif command is Command.BUILD:
        stub.build(body)
    elif command is Command.LOAD:
        return 0, stub.load(body)
    elif command is Command.MAP:
        stub.map(body, fds)
    elif command is Command.PROFILE:
        stub.profile(body, fds)
    elif command is Command.RELEASE:
        stub.release()
    elif command is Command.HELD:
        return 0, stub.held_bytes()
    elif command is Command.SEAL:
        inductor: Any = sys.modules.get("torch._inductor.config")
        if inductor:
            inductor.compile_threads = 1  # its workers have ended, and it would wait for their answers for ever
        seccomp.install(seccomp.once_built())
    return 0, 0


def _explain(error: BaseException) -> None:
    """Write the traceback to stderr, long ones cut; the verdict quotes the last line."""
    lines = "".join(traceback.format_exception(error)).splitlines()
    if len(lines) > _MOST_LINES:
        lines = [*lines[: _MOST_LINES // 2], f"[... {len(lines) - _MOST_LINES} lines ...]", *lines[-_MOST_LINES // 2 :]]
    words = str(error).strip().splitlines() or [""]
    # A compiler's message stands behind the command that was run.
    said = next((f"{words[0][:60]} ... {word.strip()}" for word in words[1:] if DIAGNOSTIC.search(word)), words[0])
    sys.stderr.write("\n".join(lines) + f"\n{type(error).__name__}: {said}\n")


def _is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(word in str(error).lower() for word in _OUT_OF_MEMORY_WORDS)


def _limit(memory_bytes: int, file_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory_bytes:
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    if file_bytes:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))


def _die_first() -> None:
    """If the machine runs out of memory, the kernel kills this process and not the judge."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


def die_with_parent() -> None:
    """Let the kernel kill this process when its parent ends."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL, 0, 0, 0)


if __name__ == "__main__":
    main()
