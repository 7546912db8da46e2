"""What models send in place of a file: each has its own words, in the verdict and on the run's page."""

from __future__ import annotations

from pathlib import Path

from engine_material import TASK, answer, config, wiring, write_script

from pike import engine
from pike.api.outputs import report

WHOLE = answer("valid 4ms", "whole")
HALF = WHOLE[: WHOLE.index("mark = ")]
HELPER = "```python ops.py\ndef helper():\n    return 1\n```\n"
DIFF = "```diff\n--- a/model.py\n+++ b/model.py\n@@ -1 +1 @@\n-class Model: ...\n+class ModelNew: ...\n```"
SENT = [
    (
        {"text": HALF, "finish": "length"},
        "the answer was cut off by the output limit before its code block was complete",
    ),
    ({"text": "I cannot help.", "finish": "refused"}, "tester declined to answer"),
    ({"text": "  \n"}, "the answer is empty"),
    ({"text": "", "finish": "length"}, "the answer is empty (it was cut off by the output limit)"),
    ({"text": HELPER + WHOLE.replace("import torch\n", "import torch\nimport ops\n")}, "the answer holds two files"),
    ({"text": DIFF}, "the answer is a diff: the whole file is needed"),
    ({"text": "Fuse the layers and use Triton."}, "the answer holds no code"),
]


async def test_each_unusable_answer_is_named_on_the_page_and_costs_one_query(tmp_path: Path) -> None:
    script = write_script(tmp_path / "s.json", [{"step": number, **line} for number, (line, _) in enumerate(SENT)])
    run = tmp_path / "run"
    result = await engine.start(TASK, config(script, len(SENT), strategy="best-of-n"), run, wiring())
    assert (result.finished, result.spend.queries, result.best) == (True, len(SENT), None)
    page = report(run).read_text()
    for line, words in SENT:
        assert words in page, line


async def test_ideas_that_did_not_come_are_named_on_the_page_and_the_search_goes_on_without(tmp_path: Path) -> None:
    lines = [{"role": "iba", "text": "## The original", "finish": "length"}, {"role": "coa", "text": WHOLE}]
    said: list[str] = []
    run, script = tmp_path / "run", write_script(tmp_path / "s.json", lines)
    watched = wiring(observer=lambda progress: said.extend(progress.events))
    result = await engine.start(TASK, config(script, 1), run, watched)
    assert result.best is not None
    why = "the answer holds no list of ideas (it was cut off by the output limit)"
    assert why in report(run).read_text()
    assert f"c0: {why}" in said
