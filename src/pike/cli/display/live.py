"""Snapshots as they come: a live panel on a terminal, plain lines elsewhere.

Knows when to draw and which lines are new. Does not know how a snapshot looks: a subclass does.
"""

import threading
from typing import Generic, Protocol, Self, TypeVar

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text


class Snapshot(Protocol):
    """What can be watched."""

    @property
    def events(self) -> tuple[str, ...]:
        """The last things that happened, a window of one growing list."""


S = TypeVar("S", bound=Snapshot)


class LiveView(Generic[S]):
    """Shows snapshots from any thread; a context manager and an observer.

    Args:
        console: where to draw; stderr, so that results can be piped.
        refresh_per_second: how often the panel is drawn again.
    """

    def __init__(self, console: Console, refresh_per_second: float) -> None:
        self._console = console
        self._latest: S | None = None
        self._seen: tuple[str, ...] = ()
        self._lock = threading.Lock()
        self._live = Live(
            console=console, get_renderable=self._shown, refresh_per_second=refresh_per_second, transient=True
        )

    def __enter__(self) -> Self:
        if self._console.is_interactive:
            self._live.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._live.stop()

    def __call__(self, progress: S) -> None:
        """Take a snapshot."""
        with self._lock:
            self._latest = progress
            if not self._console.is_interactive:
                new = fresh(self._seen, progress.events)
                # The snapshot is that of the last event; figures of the others are not known any more.
                for line in (*new[:-1], *(self.line(progress, last) for last in new[-1:])):
                    self._console.print(Text(line), soft_wrap=True)
            self._seen = progress.events

    def line(self, progress: S, event: str) -> str:
        """Put an event into words, for output that is no terminal."""
        raise NotImplementedError

    def panel(self, progress: S) -> RenderableType:
        """Draw a snapshot for a terminal."""
        raise NotImplementedError

    def _shown(self) -> RenderableType:
        return Text("the original is examined ...", style="dim") if self._latest is None else self.panel(self._latest)


def last_lines(progress: Snapshot) -> list[Text]:
    """The newest events, for the end of a panel."""
    return [Text(line, style="dim", overflow="ellipsis", no_wrap=True) for line in progress.events[-5:]]


def fresh(seen: tuple[str, ...], now: tuple[str, ...]) -> tuple[str, ...]:
    """The lines at the end of `now` that `seen` lacks; both are windows of one growing list."""
    for overlap in range(min(len(seen), len(now)), 0, -1):
        if seen[-overlap:] == now[:overlap]:
            return now[overlap:]
    return now
