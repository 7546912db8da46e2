"""How a verb waits for the engine's coroutines, and what a person sees meanwhile.

Knows event loops, also one that runs already (a notebook), and one line of progress. Does not know
any verb, nor the panel of the command line.
"""

import asyncio
import contextlib
import io
import logging
import sys
import threading
import time
from collections.abc import Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pike.core import figures
from pike.core.text.printable import printable
from pike.engine import Observer, Progress
from pike.exchange import Followers

T = TypeVar("T")
WARNINGS_NAME = "warnings.log"


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end; in another thread where this one runs a loop already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    threads = ThreadPoolExecutor(1, thread_name_prefix="pike")
    outcome = threads.submit(asyncio.run, work)
    threads.shutdown(wait=False)
    return outcome.result()


@contextmanager
def watched(
    observer: Observer | None, progress: bool, folder: Path, track: Sequence[str] = ()
) -> Iterator[Observer | None]:
    """A context that gives the observer of a run: the caller's, or if `progress` a `StatusLine`.

    Warnings of PyTorch and of the model go to the file `warnings.log` in the run's folder. Trackers
    follow the run from its first event on.
    """
    with kept_warnings(folder), Followers(folder, track, _say) as followers, contextlib.ExitStack() as stack:
        seen = observer if observer is not None or not progress else stack.enter_context(StatusLine())
        yield _followed(followers, seen) if track else seen


def _followed(followers: Followers, observer: Observer | None) -> Observer:
    def seen(progress: Progress) -> None:
        followers.begin()
        if observer is not None:
            observer(progress)

    return seen


def _say(sentence: str) -> None:
    sys.stderr.write(printable(f"pike: {sentence}\n"))


class StatusLine:
    """Where a run stands, in one line on stderr.

    On a terminal and in a notebook the line is written over each second. Elsewhere there is a new
    one every ten seconds if something changed.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._in_place = sys.stderr.isatty() or "ipykernel" in sys.modules
        self._latest: Progress | None = None
        self._shown = ""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tick, name="pike-progress", daemon=True)

    def __enter__(self) -> Observer:
        self._thread.start()
        return self._take

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self._thread.join()
        self._show("\n")

    def _take(self, progress: Progress) -> None:
        self._latest = progress

    def _tick(self) -> None:
        while not self._over.wait(1.0 if self._in_place else 10.0):
            self._show("")

    def _show(self, end: str) -> None:
        state = status(self._latest) if self._latest else "" if end else "the original is examined"
        if not state or (state == self._shown and not self._in_place):
            return
        self._shown = state
        text = f"pike: {state}, {figures.duration(time.monotonic() - self._began)}"
        sys.stderr.write(f"\r{text:<110}{end}" if self._in_place else f"{text}\n")
        sys.stderr.flush()


def status(progress: Progress) -> str:
    """Where a run stands, in a few words."""
    tried = figures.plural(progress.candidates, "candidate")
    best = "none valid yet" if progress.best_speedup is None else f"best {figures.times(progress.best_speedup)}"
    return printable(f"{progress.task}: {progress.phase}, {tried}, {best}").replace("\n", " ")


@contextmanager
def kept_warnings(folder: Path) -> Iterator[None]:
    """A context in which warnings of PyTorch and of models go to `warnings.log` in the folder."""
    kept = io.StringIO()
    handler = logging.StreamHandler(kept)
    handler.setLevel(logging.WARNING)
    known = [logging.getLogger(name) for name in tuple(logging.root.manager.loggerDict) if name.startswith("torch")]
    loud = {logger: logger.handlers for logger in known if logger.handlers} | {logging.getLogger("py.warnings"): []}
    for logger in loud:
        logger.handlers = [handler]
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        for logger, handlers in loud.items():
            logger.handlers = handlers
        if kept.getvalue():
            with contextlib.suppress(OSError), (folder / WARNINGS_NAME).open("a") as file:
                file.write(kept.getvalue())
