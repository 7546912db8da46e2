"""What `import pike` offers and what it costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import pike


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_pike_imports_neither_torch_nor_an_llm_package() -> None:
    code = "import pike, sys; print([m for m in ('torch', 'pydantic_ai', 'transformers', 'rich') if m in sys.modules])"
    assert python(code) == "[]"


def test_the_verbs_do_not_need_torch_in_this_process() -> None:
    code = "import pike, sys; pike.optimize, pike.resume, pike.load; import pike.api; print('torch' in sys.modules)"
    assert python(code) == "False"


def test_what_is_promised_is_there() -> None:
    assert set(pike.__all__) <= set(dir(pike))
    for name in pike.__all__:
        assert getattr(pike, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'optimise'"):
        pike.optimise  # noqa: B018


@pytest.mark.parametrize("first", ["", "import pike.evaluate.client", "import pike.report", "from pike import report"])
def test_a_room_that_shares_its_name_with_a_verb_is_both(first: str) -> None:
    code = f"""
{first}
import pike
from pike.core.errors import UserError
try:
    pike.evaluate("no/such-task", "")
except UserError as error:
    print(error)
try:
    pike.report("/no/such/run")
except UserError:
    from pike.report import write
    from pike.evaluate import client
    print(pike.evaluate.client is client)
"""
    said = python(code).splitlines()
    assert "no/such-task" in said[0]
    assert said[-1] == "True"


def test_python_dash_m_pike_is_the_command_line() -> None:
    done = subprocess.run([sys.executable, "-m", "pike", "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "optimize" in done.stdout
