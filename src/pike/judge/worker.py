"""A judge process: reads requests on stdin and writes verdicts to stdout, one JSON object a line.

Started as `python -m pike.judge.worker`; `client` is the other end. Does not judge.
"""

import json
import os
import queue
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any, TextIO

from pike.core.codec import decode, encode
from pike.core.errors import InfraError, UserError
from pike.core.verdict.evaluation import EvaluationRequest
from pike.judge.child.guard import close_memory
from pike.judge.process.fork_server import fork_server
from pike.judge.process.leftovers import ENDING, sweep
from pike.judge.processes import kill_strays

if TYPE_CHECKING:
    from pike.judge.judge import Judge


def main() -> None:
    """Serve requests until stdin ends."""
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what the task prints goes to stderr
    asked = os.fdopen(os.dup(0))
    sys.stdin = open(os.devnull)  # noqa: SIM115, a task's `input()` takes no request, its `exit()` closes nothing
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the engine's to handle
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    os.environ["TORCH_WARM_POOL"] = "0"  # the judge compiles nothing, and what inductor starts would be in its tree
    close_memory()
    fork_server().start()
    from pike.judge.judge import Judge  # takes a second, as the start of the template does

    sweep()
    judge = Judge()
    requests: queue.Queue[str] = queue.Queue()
    busy = threading.Event()
    threading.Thread(target=listen, args=(asked, requests, busy), daemon=True).start()
    try:
        first = True
        while line := requests.get():
            request = json.loads(line)
            if first and request["op"] == "share":  # wants no answer
                judge.share_caches(request["folder"], request["key"])
                continue
            first = False
            busy.set()
            answer = _serve(judge, request, channel)
            kill_strays(judge.keep_pids() | fork_server().pids)
            busy.clear()  # before the answer, because the client may close at once
            _send(channel, answer)
    finally:
        judge.close()
        fork_server().close()
        kill_strays(set())


def listen(asked: TextIO, requests: queue.Queue[str], busy: threading.Event) -> None:
    """Pass requests on. When they end, end too, even in the middle of an evaluation."""
    for line in asked:
        requests.put(line)
    requests.put("")
    if busy.is_set():
        os.execv(ENDING[0], ENDING)


def _serve(judge: "Judge", request: dict[str, Any], channel: TextIO) -> dict[str, Any]:
    try:
        if request["op"] == "release":
            judge.release()
            return {}
        if request["op"] == "facts":
            return {"facts": encode(judge.facts(request["device"]))}
        if request["op"] == "gpus":
            return {"gpus": judge.gpu_count()}
        wanted = [decode(EvaluationRequest, one) for one in request["requests"]]
        if request["op"] == "lint":
            return {"lint": encode(judge.lint(wanted[0].task, wanted[0].options))}
        if request["op"] == "preflight":
            return {"original_ms": judge.preflight(wanted[0])}
        found = judge.evaluate_together(wanted, lambda stage: _send(channel, {"stage": stage}))
        return {"evaluations": [encode(one) for one in found]}
    except (UserError, InfraError) as error:
        answer = {"user_error" if isinstance(error, UserError) else "infra_error": str(error)}
    try:
        judge.release()  # not earlier: while an error is handled, its frames keep everything alive
    except RuntimeError:  # the device failed, and fails this process for good
        _send(channel, {**answer, "ends": "soon"})
        os.execv(ENDING[0], ENDING)
    return answer


def _send(channel: TextIO, message: dict[str, Any]) -> None:
    channel.write(json.dumps(message) + "\n")
    channel.flush()


if __name__ == "__main__":
    main()
