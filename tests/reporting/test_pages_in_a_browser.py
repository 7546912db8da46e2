"""Pages and the dashboard as a person meets them: in a real Chromium, from a real `pike serve`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from report_runs import HOSTILE, LARGE, ORIGINAL_SOURCE, TOKEN, attempt, refused, started_run, valid

from pike.core.events import Asked, Assigned, Proposed
from pike.core.step import Candidate, Role, Step
from pike.store import Journal

sync_api = pytest.importorskip("playwright.sync_api", reason="the browser is driven by playwright")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
AXE = next((path for path in (Path(os.environ.get("AXE", "/none")),) if path.is_file()), None)

TASK = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) + 1


def get_inputs():
    return [torch.randn(64, 64)]


def get_init_inputs():
    return []
"""
FASTER = (
    "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x.relu().add_(1)\n"
)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on the PATH")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    found = browser.new_page(viewport={"width": 1200, "height": 900})
    found.problems = []
    found.on("pageerror", lambda error: found.problems.append(str(error)))
    found.on("dialog", lambda dialog: (found.problems.append(dialog.message), dialog.dismiss()))
    found.on("request", lambda request: found.problems.append(request.url) if "evil" in request.url else None)
    yield found
    found.close()
    assert found.problems == []


def open_report(page: Any, folder: Path, at: str = "") -> None:
    page.goto((folder / "report.html").as_uri() + at)
    page.wait_for_selector("[role=tabpanel]")


def test_the_result_the_trajectory_and_the_diff_of_the_winner(page: Any, runs: Path) -> None:
    open_report(page, runs / "whole")
    assert page.inner_text(".hero .figure") == "2.60×"
    assert "2 candidates refused" in page.get_attribute(".chart", "aria-label")
    assert page.inner_text("tr.in").split("\t")[-1].strip() == "x = 1"
    page.check("#split")
    assert page.locator("table.split td.in").count() == 2
    page.select_option("#compared", "original")
    page.wait_for_selector("td.out >> text=the original")


def test_prompt_answer_and_verdict_are_reached_by_keyboard(page: Any, runs: Path) -> None:
    open_report(page, runs / "whole")
    page.focus("[role=listbox]")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    assert page.inner_text("h3.name").startswith("c1")
    page.focus("#tab-changes")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.get_attribute("#tab-prompt", "aria-selected") == "true"
    assert page.inner_text("[role=tabpanel] > pre") == "prompt"


def test_what_a_hostile_candidate_wrote_is_text(page: Any, runs: Path) -> None:
    open_report(page, runs / "whole", "#c2")
    assert HOSTILE in page.inner_text(".details .why")
    page.click("#tab-source")
    assert "alert('owned')" in page.inner_text(".code")
    page.click("#tab-verdict")
    assert page.locator("img, iframe, [onerror]").count() == 0
    blocked = "const s = document.createElement('script'); s.textContent = 'window.owned = 1'; document.body.append(s)"
    assert page.evaluate(f"{blocked}; window.owned") is None, "the policy admits no other script"


def test_ten_thousand_candidates_are_searched_without_ten_thousand_elements(page: Any, url: str) -> None:
    page.goto(f"{url}/run/large")
    page.wait_for_selector("[role=option]", timeout=30_000)
    assert page.locator("[role=option]").count() < 60
    page.focus("[role=listbox]")
    page.keyboard.press("End")
    page.wait_for_selector(f"h3.name >> text=c{LARGE - 1}")
    page.fill("#search", "blockIdy")
    page.select_option("#status", "build-error")
    page.wait_for_selector(".controls [role=status] >> text=of 10,000 rows")
    assert {"build-error"} == set(page.locator("[role=option] .badge").all_inner_texts())
    page.fill("#search", "")
    page.select_option("#order", "tree")
    assert page.locator("[role=option]").count() < 60


def test_an_event_is_on_the_screen_a_moment_after_its_commit(page: Any, url: str, runs: Path) -> None:
    with Journal.create(runs / "live") as journal:
        journal.append(started_run())
        page.goto(f"{url}/run/live")
        page.wait_for_selector("text=a process works on this run")
        journal.append(*attempt(Step(0, Role.OPTIMISE), ORIGINAL_SOURCE, refused()))
        page.wait_for_selector("[role=option] >> text=wrong-output", timeout=5_000)
        journal.append(*attempt(Step(1, Role.OPTIMISE), ORIGINAL_SOURCE + "y = 2\n", valid(1.7)))
        page.wait_for_selector(".hero .figure >> text=1.70×", timeout=5_000)
        page.goto(url)
        page.wait_for_selector("tr:has-text('live') >> text=running", timeout=20_000)
    page.wait_for_selector("tr:has-text('live') >> text=unfinished", timeout=20_000)


def test_the_page_says_which_worker_has_which_candidate(page: Any, url: str, runs: Path) -> None:
    with Journal.create(runs / "shared-out") as journal:
        journal.append(started_run())
        for number in (0, 1):
            candidate = Candidate(f"c{number}", ORIGINAL_SOURCE)
            journal.append(Asked(Step(number, Role.OPTIMISE)), Proposed(number, candidate))
        page.goto(f"{url}/run/shared-out")
        page.wait_for_selector("text=2 at the judge", timeout=20_000)
        assert page.inner_text("h1 .badge") == "running"
        journal.append(Assigned("c1", "worker 2 on GPU 1"))
        page.wait_for_selector("text=1 waiting for a worker, 1 at a worker", timeout=20_000)
        assert page.inner_text("[aria-label=Workers] tbody tr").split("\t")[:3] == ["worker 2 on GPU 1", "c1", "coa"]


@pytest.mark.slow
def test_a_real_run_is_paused_and_resumed_and_stopped(page: Any, url: str, runs: Path) -> None:
    """Three processes of their own: the one that began the run, and one for each resume."""
    (runs.parent / "task.py").write_text(TASK)
    answers = [{"text": f"```python\n{FASTER}# {n}\n```", "delay_seconds": 0.4} for n in range(40)]
    answers = [{**one, "step": step} for step, one in enumerate(answers)]
    (runs.parent / "script.json").write_text(json.dumps({"answer": answers}))
    search = [
        "--llm",
        f"scripted:{runs.parent / 'script.json'}",
        "--strategy",
        "best-of-n",
        "--query-budget",
        "40",
        "--concurrency",
        "1",
    ]
    quick = ["--device", "cpu", "--set", "evaluate.max_timing_seconds=0.2", "--set", "engine.finalists=1", "--yes"]
    command = [sys.executable, "-m", "pike", "optimize", "task.py", *search, *quick, "--out", str(runs / "real")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    first = subprocess.Popen(command, cwd=runs.parent, env=environment, stderr=subprocess.PIPE, text=True)
    while not (runs / "real" / "journal.sqlite").is_file():
        assert first.poll() is None, first.stderr and first.stderr.read()
        time.sleep(0.1)
    page.goto(f"{url}/run/real#token={TOKEN}")
    page.wait_for_selector("[role=option] >> text=valid", timeout=60_000)
    page.wait_for_selector("[aria-label=Workers] >> text=worker 1", timeout=20_000)
    page.click("text=Pause")
    page.wait_for_selector(".live >> text=No process works on this run.", timeout=60_000)
    assert first.wait(20) == 130
    judged = page.locator("[role=option] >> text=valid").count()
    page.click("text=Resume")
    page.wait_for_selector(".live >> text=Live: a process works on this run.", timeout=60_000)
    page.wait_for_selector("header >> text=resumed 1×", timeout=60_000)
    page.locator("[role=option] >> text=valid").nth(judged + 1).wait_for(timeout=60_000)
    page.click("text=Stop")
    page.wait_for_selector(".live >> text=No process works on this run.", timeout=60_000)
    page.wait_for_selector("button >> text=Resume", timeout=20_000)
    assert "asking stopped: interrupted" in (runs / "real" / "resume.log").read_text()


def test_half_of_the_events_are_on_the_screen_within_a_second_of_their_commit(page: Any, url: str, runs: Path) -> None:
    took = []
    with Journal.create(runs / "prompt") as journal:
        journal.append(started_run())
        page.goto(f"{url}/run/prompt")
        page.wait_for_selector("text=a process works on this run")
        for number in range(7):
            journal.append(*attempt(Step(number, Role.OPTIMISE), ORIGINAL_SOURCE, valid(1.5 + 0.1 * number)))
            committed = time.monotonic()
            page.wait_for_selector(f".hero .figure >> text={1.5 + 0.1 * number:.2f}×", timeout=20_000)
            took.append(time.monotonic() - committed)
    assert median(took) < 1.0, took


def test_runs_are_compared(page: Any, url: str) -> None:
    page.goto(f"{url}/compare?run=whole&run=large")
    page.wait_for_selector("h1 >> text=2 runs compared", timeout=20_000)
    assert page.locator(".chart path.best").count() == 2


def test_a_wrong_token_stops_nothing_and_asks_again(page: Any, url: str, runs: Path) -> None:
    with Journal.create(runs / "held") as journal:
        journal.append(started_run())
        page.goto(f"{url}/run/held#token=wrong")
        page.click("text=Stop")
        page.wait_for_selector("#token")
        assert "token" not in page.url


@pytest.mark.skipif(AXE is None, reason="the variable AXE names no axe.min.js")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_and_labels_pass_axe(browser: Any, runs: Path, url: str, scheme: str) -> None:
    assert AXE is not None
    with Journal.create(runs / f"axe-{scheme}") as journal:
        begun = Asked(Step(0, Role.OPTIMISE)), Proposed(0, Candidate("c0", ORIGINAL_SOURCE))
        journal.append(started_run(), *begun, Assigned("c0", "worker 1 on GPU 0"))
    found = browser.new_page(color_scheme=scheme, bypass_csp=True)
    served = (f"{url}/", f"{url}/compare?run=whole&run=large", f"{url}/run/axe-{scheme}")
    for address in ((runs / "whole" / "report.html").as_uri(), *served):
        found.goto(address)
        found.wait_for_selector(".card", timeout=20_000)
        found.evaluate(AXE.read_text())
        violations = found.evaluate(
            "axe.run().then(result => result.violations.map(one => [one.id, one.nodes[0].html]))"
        )
        assert violations == [], address
    found.close()
