"""Parsing in several threads, while finalizers let others go on in the middle of it."""

import ast
import gc
import sys
import threading
from collections.abc import Callable, Iterator

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


def errors_of(*parsers: Callable[[str], object]) -> list[list[Exception]]:
    """What each of these raises while all of them parse in threads of their own."""
    errors: list[list[Exception]] = [[] for _ in parsers]

    def work(parser: Callable[[str], object], met: list[Exception]) -> None:
        for _ in range(15):
            Cyclic()
            try:
                parser(SOURCE)
            except Exception as error:
                met.append(error)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(parsers, errors, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


@pytest.mark.usefixtures("interrupted")
def test_threads_may_parse_at_once() -> None:
    assert errors_of(parse, parse, parse, parse) == [[], [], [], []]


@pytest.mark.usefixtures("interrupted")
def test_code_that_takes_no_turns_may_parse_too() -> None:
    assert errors_of(parse, ast.parse, ast.parse)[0] == []
