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


def test_importing_pike_takes_less_than_50_ms() -> None:
    code = "import time; start = time.perf_counter(); import pike; print(time.perf_counter() - start)"
    assert min(float(python(code)) for _ in range(5)) < 0.05


def test_python_dash_m_pike_is_the_command_line() -> None:
    done = subprocess.run([sys.executable, "-m", "pike", "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "optimize" in done.stdout
