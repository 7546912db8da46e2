"""What `best.py` says about itself."""

import hashlib
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from engine_material import IDEAS, TASK, coa

from pike.core.codec import encode
from pike.core.step import Candidate
from pike.core.task import TaskKind
from pike.core.verdict.evaluation import Evaluation, Status, Timing, WorstInputs
from pike.engine.output import best_file
from pike.engine.output.best_file import Terms


def test_the_least_gain_is_told_and_read_again(tmp_path: Path) -> None:
    timing = Timing(2.0, 1.0, 2.0, (1.9, 2.1), 12, 60, 0.0, worst=WorstInputs("outliers", 0.5, (0.4, 0.6)))
    verdict = Evaluation(Status.VALID, timing=timing)
    terms = Terms("demo/tiny", TaskKind.SOURCE, "c0", None, None, None, "cpu", True, verdict, "0")
    best_file.write(tmp_path / "best.py", TASK, Candidate("c0", "class ModelNew: ...\n"), terms)
    assert "least      0.50x, on inputs with outliers" in (tmp_path / "best.py").read_text()
    assert best_file.read(tmp_path / "best.py") == terms
    usual = replace(terms, evaluation=replace(verdict, timing=replace(timing, worst=None)))
    best_file.write(tmp_path / "best.py", TASK, Candidate("c0", "class ModelNew: ...\n"), usual)
    assert "least" not in (tmp_path / "best.py").read_text()


async def test_it_says_what_it_was_made_from_and_runs_by_itself(run, tmp_path: Path) -> None:
    await run([IDEAS, coa("valid 5ms", "good")], queries=3)
    path = tmp_path / "run" / "best.py"
    digest = hashlib.sha256(TASK.source.encode()).hexdigest()
    text = path.read_text()
    assert f"# made from  demo/tiny, source sha256 {digest}, in run run\n" in text
    assert "# licence    Apache-2.0 for lines of PIKE's recipes; lines of the original keep" in text
    assert "# recipes" not in text
    subprocess.run([sys.executable, "-I", str(path)], cwd=tmp_path, check=True, timeout=120)
    terms = best_file.read(path)
    assert (terms.source_sha256, terms.run, terms.recipes) == (digest, "run", ())
    composed = replace(terms, recipes=("channels_last", "compile_default"))
    best_file.write(path, TASK, Candidate("c0", "class ModelNew: ...\n"), composed)
    assert "# recipes    channels_last + compile_default\n" in path.read_text()


def test_a_file_of_an_earlier_version_opens(tmp_path: Path) -> None:
    terms = Terms("demo/tiny", TaskKind.SOURCE, "c0", None, None, None, "cpu", True, Evaluation(Status.TIMEOUT), "0")
    known = {name: value for name, value in encode(terms).items() if name not in ("source_sha256", "run", "recipes")}
    (tmp_path / "best.py").write_text(f"# Tiny\n#\n{best_file.MARK}{json.dumps(known)}\n\nclass ModelNew: ...\n")
    assert best_file.read(tmp_path / "best.py") == terms
