"""How smoothly the page of a run with many candidates scrolls in a real Chromium.

Writes an invented run, serves it with `pike serve`, and turns the list for some seconds. Prints
frames a second, the longest gap between two frames, and how long the page took to come.

    python benchmarks/report_scale.py --candidates 10000
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from pike.reporting import write
from pike.store import Journal

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "reporting"))
from report_runs import large_run

SCROLL = """async (seconds) => {
  const list = document.querySelector('[role=listbox]'), gaps = [];
  let last = performance.now();
  const end = last + 1000 * seconds;
  while (last < end) {
    list.scrollTop = (list.scrollTop + 400) % (list.scrollHeight - list.clientHeight);
    const now = await new Promise(requestAnimationFrame);
    gaps.push(now - last);
    last = now;
  }
  gaps.sort((a, b) => a - b);
  return {frames_per_second: gaps.length / seconds, longest_gap_ms: gaps[gaps.length - 1],
          gap_ms_99: gaps[Math.floor(0.99 * gaps.length)], elements: list.querySelectorAll('[role=option]').length};
}"""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--candidates", type=int, default=10_000)
    arguments.add_argument("--seconds", type=float, default=5.0)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "runs" / "large"
        with Journal.create(run) as journal:
            journal.append(*large_run(given.candidates))
        began = time.monotonic()
        size = write(run).stat().st_size
        found = {"candidates": given.candidates, "write_seconds": time.monotonic() - began, "page_bytes": size}
        command = [sys.executable, "-m", "pike", "serve", str(run.parent), "--port", "0"]
        server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ)
        assert server.stderr is not None
        url = server.stderr.readline().split(" at ")[1].split("/;")[0]
        try:
            for name, address in {"file": (run / "report.html").as_uri(), "served": f"{url}/run/large"}.items():
                found[name] = _look(address, given.seconds)
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(20)
    print(json.dumps(found, indent=2))


def _look(address: str, seconds: float) -> dict[str, float]:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        began = time.monotonic()
        page.goto(address)
        page.wait_for_selector("[role=option]", timeout=60_000)
        shown = time.monotonic() - began
        page.locator("[role=listbox]").scroll_into_view_if_needed()
        found = page.evaluate(SCROLL, seconds)
        browser.close()
        return {"shown_after_seconds": shown, **found}


if __name__ == "__main__":
    main()
