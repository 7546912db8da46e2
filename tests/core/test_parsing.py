"""Parsing in several threads, while finalizers let others go on in the middle of it."""

import gc
import sys
import threading
from collections.abc import Iterator

import pytest

from pike.core.text.parsing import parse

SOURCE = "\n".join(f"a{number} = [1, (2, {{3: f(x, *y)}})]" for number in range(300))


class Cyclic:
    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        for _ in range(50):
            pass


@pytest.fixture
def interrupted() -> Iterator[None]:
    """Threads take turns and garbage is collected all the time."""
    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(50)
    yield
    sys.setswitchinterval(interval)
    gc.set_threshold(*threshold)


@pytest.mark.usefixtures("interrupted")
def test_threads_may_parse_at_once() -> None:
    errors: list[Exception] = []

    def work() -> None:
        for _ in range(15):
            Cyclic()
            try:
                parse(SOURCE)
            except Exception as error:
                errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
