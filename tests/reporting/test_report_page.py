"""The pages: whole, self-contained, and deaf to what candidates write into them."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from report_runs import HOSTILE, attempt, refused, valid

from pike.core.errors import StoreError, UserError
from pike.core.events import Event, RunStarted
from pike.core.step import Role, Step
from pike.reporting import write
from pike.reporting.chart import linear_ticks
from pike.store import Journal


class Page(HTMLParser):
    """The elements and the text of a page; void elements aside, every element must be closed."""

    VOID = frozenset({"meta", "br", "line", "rect", "path", "img"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.words = ""
        self._open: list[str] = []
        self.feed(text)
        assert self._open == [], f"never closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


def page_of(folder: Path, events: list[Event]) -> Page:
    with Journal.create(folder) as journal:
        journal.append(*events)
    path = write(folder)
    assert path == folder / "report.html"
    return Page(path.read_text())


def test_a_finished_run(tmp_path: Path, events: list[Event]) -> None:
    page = page_of(tmp_path / "run", events)
    for words in ("ReLU <plus> one", "2.60×", "2.57 to 2.63", "10.0 ms → 3.85 ms", "Measured again at the end"):
        assert words in page.words
    for heading in ("By query", "By money", "Finalists", "How the winner came about", "Every candidate"):
        assert heading in page.words
    assert page.tags.count("svg") == 3
    assert "fuse everything" in page.words
    assert "503 overloaded" in page.words
    assert "4.2 s" in page.words
    assert "cold start: import, load and first call; 123 MB held" in page.words


def test_candidates_cannot_write_into_the_page(tmp_path: Path, events: list[Event]) -> None:
    page = page_of(tmp_path / "run", events)
    assert page.words.count("alert('owned')") == 3, "source, reason and log are shown as text"
    assert not {"script", "img", "iframe", "object", "link"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on")]


def test_a_hostile_author_stays_text_in_the_charts(tmp_path: Path, started: RunStarted) -> None:
    step = Step(0, Role.OPTIMISE)
    events = attempt(step, "x = 1", valid(1.2))
    hostile = [
        type(e)(e.step_id, type(e.candidate)("c0", "x = 1\x1b[2J\u202e", author='"><script>\u2066'))
        if hasattr(e, "candidate")
        else e
        for e in events
    ]
    page = page_of(tmp_path / "run", [started, *hostile])
    assert "script" not in page.tags
    assert not any(mark in page.words for mark in "\x1b\u202e\u2066")


def test_the_page_needs_no_network(tmp_path: Path, events: list[Event]) -> None:
    page = page_of(tmp_path / "run", events)
    links = [value for name, value in page.attributes if name in ("href", "src")]
    assert links
    assert all(link.startswith("#") for link in links)
    targets = {value for name, value in page.attributes if name == "id"}
    assert {link[1:] for link in links} <= targets
    assert any("default-src 'none'" in value for name, value in page.attributes if name == "content")


def test_every_beginning_of_a_run_has_a_page(tmp_path: Path, events: list[Event]) -> None:
    for length in range(1, len(events) + 1):
        page_of(tmp_path / str(length), events[:length])


def test_without_a_valid_candidate_it_says_so(tmp_path: Path, started: RunStarted) -> None:
    page = page_of(tmp_path / "run", [started, *attempt(Step(0, Role.OPTIMISE), HOSTILE, refused())])
    assert "No valid candidate yet." in page.words
    assert "output 0 is off by 0.5" in page.words
    assert "svg" not in page.tags


def test_a_run_that_cost_nothing_has_no_money_curve(tmp_path: Path, started: RunStarted) -> None:
    page = page_of(tmp_path / "run", [started, *attempt(Step(0, Role.OPTIMISE), "x", valid(0.9), calls=False)])
    assert "By money" not in page.words
    assert "The original stays: no candidate was faster beyond" in page.words
    assert "1.00×" in page.words


def test_an_enormous_speedup_gets_a_logarithmic_axis(tmp_path: Path, started: RunStarted) -> None:
    page = page_of(tmp_path / "run", [started, *attempt(Step(0, Role.OPTIMISE), "x", valid(40.0))])
    assert {"1×", "10×", "20×"} <= set(page.words.split())


def test_a_folder_of_runs_gets_an_index_that_links_to_each(tmp_path: Path, events: list[Event]) -> None:
    for name in ("one", "two words"):
        with Journal.create(tmp_path / name) as journal:
            journal.append(*events)
    (tmp_path / "notes").mkdir()
    path = write(tmp_path)
    assert path == tmp_path / "index.html"
    page = Page(path.read_text())
    assert [value for name, value in page.attributes if name == "href"] == [
        "one/report.html",
        "two%20words/report.html",
    ]
    assert (tmp_path / "two words" / "report.html").exists()


def test_a_folder_without_runs_is_a_user_error(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        write(tmp_path)


def test_a_page_that_cannot_be_written_is_a_boundary_error(tmp_path: Path, events: list[Event]) -> None:
    with Journal.create(tmp_path / "run") as journal:
        journal.append(*events)
    (tmp_path / "run" / "report.tmp").mkdir()
    with pytest.raises(StoreError, match=r"report\.html"):
        write(tmp_path / "run")


@pytest.mark.parametrize("high", [0.003, 0.9, 1.0, 5, 7, 99, 100, 301, 12345.6])
def test_ticks_are_few_and_round(high: float) -> None:
    ticks = linear_ticks(high)
    assert 2 <= len(ticks) <= 7
    assert ticks[0] == 0
    assert ticks[-1] <= high
    assert all(
        re.fullmatch(
            r"[0125]?0*|25?0*|[1-9]0*|75?0*|[1-9]5?0*", f"{t:e}".split("e")[0].replace(".", "").rstrip("0") or "0"
        )
        for t in ticks
    )


@pytest.mark.parametrize("high", [0.5, 1, 3, 10, 300])
def test_ticks_of_counts_are_whole(high: float) -> None:
    ticks = linear_ticks(high, least_step=1.0)
    assert [tick for tick in ticks if tick != int(tick)] == []
    assert len(set(ticks)) == len(ticks) <= 7
