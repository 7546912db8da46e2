"""A judge process: requests in on stdin, verdicts out on its own channel, one JSON object a line.

Started as `python -m pike.evaluate.worker`. Both ends are trusted (`client` is the other one). Knows how to keep the
channel clean when a task prints, and how to leave nothing behind. Works with the standard library, numpy and torch.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import sys
import threading
from typing import Any, TextIO

from pike.core.codec import decode, encode
from pike.core.errors import UserError
from pike.core.evaluation import EvaluationRequest
from pike.evaluate import ending
from pike.evaluate.judge import Judge
from pike.evaluate.launch import sweep
from pike.evaluate.processes import become_subreaper, kill_strays

_IDLE_SECONDS = 1.0
"""How often a judge without work looks whether somebody needs the memory that it keeps."""


def main() -> None:
    """Serve requests until stdin ends."""
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever the task prints goes to stderr
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the engine's to handle
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    os.environ["TORCH_WARM_POOL"] = "0"  # the judge compiles nothing, and what inductor starts would be in its tree
    become_subreaper()
    sweep()
    judge = Judge()
    requests: queue.Queue[str] = queue.Queue()
    busy = threading.Event()
    threading.Thread(target=_listen, args=(requests, busy), daemon=True).start()
    try:
        while line := _next(requests, judge):
            busy.set()
            answer = _serve(judge, json.loads(line), channel)
            kill_strays(judge.keep_pids())
            busy.clear()  # whoever has the answer may close at once
            _send(channel, answer)
    finally:
        judge.close()
        kill_strays(set())


def _next(requests: queue.Queue[str], judge: Judge) -> str:
    """The next request, empty when there will be none; meanwhile a device's memory is left to whoever needs it all."""
    while True:
        judge.make_room()
        with contextlib.suppress(queue.Empty):
            return requests.get(timeout=_IDLE_SECONDS)


def _listen(requests: queue.Queue[str], busy: threading.Event) -> None:
    """Pass requests on; when nobody is left to answer to, end even in the middle of an evaluation."""
    for line in sys.stdin:
        requests.put(line)
    requests.put("")
    if busy.is_set():
        os.execv(ending.COMMAND[0], ending.COMMAND)


def _serve(judge: Judge, request: dict[str, Any], channel: TextIO) -> dict[str, Any]:
    try:
        if request["op"] == "facts":
            return {"facts": encode(judge.facts(request["device"]))}
        wanted = decode(EvaluationRequest, request["request"])
        if request["op"] == "lint":
            return {"lint": encode(judge.lint(wanted.task, wanted.options))}
        return {"evaluation": encode(judge.evaluate(wanted, lambda stage: _send(channel, {"stage": stage})))}
    except UserError as error:
        words = str(error)
    judge.forget()  # only now: an error that is being handled keeps everything alive that its frames hold
    return {"user_error": words}


def _send(channel: TextIO, message: dict[str, Any]) -> None:
    channel.write(json.dumps(message) + "\n")
    channel.flush()


if __name__ == "__main__":
    main()
