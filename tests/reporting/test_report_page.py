"""The pages: whole, self-contained, and deaf to what candidates write into them."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from report_runs import HOSTILE, attempt, refused, valid

from pike.core.errors import StoreError, UserError
from pike.core.events import Event, Finished, Judged, RunStarted
from pike.core.step import Role, Step
from pike.core.verdict.evaluation import Effort
from pike.reporting import write
from pike.reporting.view import shell
from pike.store import Journal


class Page(HTMLParser):
    """The elements of a page, its policy, its data, and what it shows of each candidate."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.blocks: dict[str, str] = {}
        self._block: str | None = None
        self.feed(text)
        self.data: dict[str, Any] = json.loads(self.blocks["data"])
        self.words = json.dumps(self.data, ensure_ascii=False)
        self.policy = next(value for name, value in self.attributes if name == "content" and "default-src" in value)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag in ("script", "style"):
            self._block = dict(attrs).get("id") or tag
            self.blocks[self._block] = ""

    def handle_endtag(self, tag: str) -> None:
        self._block = None

    def handle_data(self, data: str) -> None:
        if self._block:
            self.blocks[self._block] += data

    def details(self, name: str) -> dict[str, Any]:
        packed = base64.b64decode(self.blocks[f"chunk-{self.data['where'][name]}"])
        return dict(json.loads(gzip.decompress(packed))[name])

    def row(self, name: str) -> dict[str, Any]:
        return next(row for row in self.data["rows"] if row["id"] == name)


def page_of(folder: Path, events: list[Event]) -> Page:
    with Journal.create(folder) as journal:
        journal.append(*events)
    path = write(folder)
    assert path == folder / "report.html"
    return Page(path.read_text())


def digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_a_finished_run_says_its_result_and_what_it_rests_on_first(tmp_path: Path, events: list[Event]) -> None:
    page = page_of(tmp_path / "run", events)
    found = page.data["result"]
    assert (found["figure"], found["under"]) == ("2.60×", "95 % interval 2.57 to 2.63")
    assert found["lead"] == "10.0 ms → 3.85 ms per call"
    assert found["basis"][0].startswith("Measured again at the end on fresh data: 240 calls in 12 blocks")
    facts = {words: figure for figure, words in page.data["facts"]}
    assert facts["largest error; strict allows 1.0e-05"] == "1.2e-06"
    assert facts["cold start: import, load and first call"] == "4.2 s"
    assert facts["memory that it holds"] == "123 MB"
    assert facts["candidates in 2 rounds, 2 refused"] == "6"
    assert [axis["name"] for axis in page.data["axes"]] == ["queries", "money", "time"]


def test_refused_candidates_have_their_place_and_their_reason(tmp_path: Path, events: list[Event]) -> None:
    page = page_of(tmp_path / "run", events)
    assert page.row("c4")["reason"] == "output 0 is off by 0.5"
    assert page.row("c4")["at"][0] == 4
    assert page.row("c3")["parent"] == "c2"
    assert page.row("step 5")["reason"].endswith("503 overloaded")
    assert [link["id"] for link in page.data["lineage"]] == ["c1", "c6"]


def test_every_step_has_its_prompt_answer_and_verdict(tmp_path: Path, events: list[Event]) -> None:
    page = page_of(tmp_path / "run", events)
    found = page.details("c6")
    assert (found["prompt"], found["answer"], found["system"]) == ("prompt", "text", "system")
    assert "class Model" in found["source"]
    assert dict(map(tuple, found["verdict"]))["largest error"] == "1.2e-06 of 1.0e-05"
    assert page.details("step 0")["prompt"] == "prompt"
    assert "the original" in page.details("original")["source"]


def test_what_a_candidate_writes_stays_data(tmp_path: Path, events: list[Event]) -> None:
    page = page_of(tmp_path / "run", events)
    assert page.row("c2")["reason"] == HOSTILE
    assert page.details("c2")["log"] == HOSTILE
    assert not {"img", "iframe", "object", "link"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on") or name in ("src", "href")]
    text = (tmp_path / "run" / "report.html").read_text()
    assert "<script>alert" not in text and HOSTILE not in text


def test_only_the_shipped_script_may_run_and_nothing_is_fetched(tmp_path: Path, events: list[Event]) -> None:
    page = page_of(tmp_path / "run", events)
    assert page.policy.startswith("default-src 'none'; ")
    assert f"script-src {digest(page.blocks['script'])};" in page.policy
    assert f"style-src {digest(page.blocks['style'])};" in page.policy
    assert "unsafe" not in page.policy and "connect-src" not in page.policy


def test_text_that_steers_or_reverses_is_left_out(tmp_path: Path, started: RunStarted) -> None:
    step = Step(0, Role.OPTIMISE)
    events = attempt(step, "x = 1", valid(1.2))
    hostile = [
        type(e)(e.step_id, type(e.candidate)("c0", "x = 1\x1b[2J\u202e", author='"><script>\u2066'))
        if hasattr(e, "candidate")
        else e
        for e in events
    ]
    page = page_of(tmp_path / "run", [started, *hostile])
    assert page.details("c0")["source"] == "x = 1"
    assert page.row("c0")["by"] == '"><script>'


def test_every_beginning_of_a_run_has_a_page(tmp_path: Path, events: list[Event]) -> None:
    for length in range(1, len(events) + 1):
        page_of(tmp_path / str(length), events[:length])


def test_without_a_valid_candidate_it_says_so(tmp_path: Path, started: RunStarted) -> None:
    page = page_of(tmp_path / "run", [started, *attempt(Step(0, Role.OPTIMISE), HOSTILE, refused())])
    assert page.data["result"]["lead"] == "No valid candidate yet."
    assert page.data["best"] == ""


def test_no_winner_is_named_where_the_original_stays(tmp_path: Path, started: RunStarted) -> None:
    events = attempt(Step(0, Role.OPTIMISE), "x", valid(0.9), calls=False)
    page = page_of(tmp_path / "run", [started, *events, Judged("c0", valid(0.9), Effort.FINAL), Finished("c0")])
    assert page.data["result"]["figure"] == "1.00×"
    assert page.data["result"]["lead"].startswith("The original stays")
    assert (page.data["best"], page.data["improved"]) == ("c0", False)
    assert [axis["name"] for axis in page.data["axes"]] == ["queries", "time"], "nothing was paid"


def test_a_folder_of_runs_gets_an_index_that_links_to_each(tmp_path: Path, events: list[Event]) -> None:
    for name in ("one", "two words"):
        with Journal.create(tmp_path / name) as journal:
            journal.append(*events)
    (tmp_path / "notes").mkdir()
    path = write(tmp_path)
    assert path == tmp_path / "index.html"
    runs = Page(path.read_text()).data["runs"]
    assert [run["href"] for run in runs] == ["one/report.html", "two%20words/report.html"]
    assert [(run["said"]["figure"], run["refused"], run["error"]) for run in runs] == [("2.60×", 2, "1.2e-06")] * 2
    assert (tmp_path / "two words" / "report.html").exists()


def test_texts_beyond_what_a_page_holds_are_left_out_and_counted(
    tmp_path: Path, events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell, "CHUNK_CHARACTERS", 0)
    monkeypatch.setattr(shell, "MOST_BYTES", 100)
    page = page_of(tmp_path / "run", events)
    assert page.data["leftOut"] > 0
    assert set(page.data["where"]) == {"original"}


def test_a_folder_without_runs_is_a_user_error(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        write(tmp_path)


def test_a_page_that_cannot_be_written_is_a_boundary_error(tmp_path: Path, events: list[Event]) -> None:
    with Journal.create(tmp_path / "run") as journal:
        journal.append(*events)
    (tmp_path / "run" / "report.html").mkdir()
    with pytest.raises(StoreError, match=r"report\.html"):
        write(tmp_path / "run")
