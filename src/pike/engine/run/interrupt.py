"""Ctrl-C: once to stop cleanly, when answers in flight have come, twice to stop at once.

Knows signals and the running event loop. Does not know how a run stops.
"""

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def interrupts(first: Callable[[], None], again: Callable[[], None]) -> Iterator[None]:
    """Call `first` on the first SIGINT or SIGTERM, `again` on every later one.

    Does nothing outside the main thread. Ctrl-C then ends the process as usual, and the run can
    still be resumed.
    """
    loop = asyncio.get_running_loop()
    seen = 0

    def handle() -> None:
        nonlocal seen
        seen += 1
        (first if seen == 1 else again)()

    in_main_thread = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGINT, signal.SIGTERM) if in_main_thread else ()
    for number in numbers:
        loop.add_signal_handler(number, handle)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
