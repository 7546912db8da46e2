"""What a program printed, cut down to what its author can mend. The logs are of real judgements, shortened."""

from agents_material import make, refused

from pike.agents.prompts.prompting import render
from pike.agents.prompts.tracebacks import own_part
from pike.core.step import Role
from pike.core.verdict.evaluation import Status

RAISED = """weights: load_state_dict refused, so the same random seed has to do
Traceback (most recent call last):
  File "/home/x/pike/src/pike/judge/child/__main__.py", line 68, in _answer
    nanoseconds, detail = _obey(stub, command, body, fds)
                          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/home/x/.venv/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1789, in _call_impl
    return forward_call(*args, **kwargs)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/var/tmp/pike-15371-d7stxzs0/candidate.py", line 7, in forward
    return helper(x[0])
           ^^^^^^^^^^^^
NameError: name 'undefined_name' is not defined
NameError: name 'undefined_name' is not defined
"""
COMPILED = """Traceback (most recent call last):
  File "/home/x/.venv/lib/python3.11/site-packages/torch/utils/cpp_extension.py", line 2893, in _run_ninja_build
    subprocess.run(
subprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit status 1.

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/home/x/pike/src/pike/judge/child/stub.py", line 107, in build
    self.module = _import_file(order.path)
  File "<frozen importlib._bootstrap>", line 241, in _call_with_frames_removed
  File "/var/tmp/pike-15907-nmr8oa29/candidate.py", line 3, in <module>
    ext = load_inline("x", cpp_sources="...", functions=["f"])
  File "/home/x/.venv/lib/python3.11/site-packages/torch/utils/cpp_extension.py", line 2285, in load_inline
    return _jit_compile(
RuntimeError: Error building extension 'x': [1/2] c++ -isystem /home/x/.venv/include -fPIC -c main.cpp
/var/tmp/pike-15907-r7xyg6w2/now/extensions/x/main.cpp:2:43: error: 'y' was not declared in this scope
    2 | torch::Tensor f(torch::Tensor x) { return y; }
In file included from /home/x/.venv/lib/python3.11/site-packages/torch/include/torch/all.h:10,
                 from /home/x/.venv/lib/python3.11/site-packages/torch/include/torch/extension.h:6,
                 from /var/tmp/pike-15907-r7xyg6w2/now/extensions/x/main.cpp:1:
/home/x/.venv/lib/python3.11/site-packages/torch/include/ATen/core/interned_strings.h:351:1: note: declared here
"""


def test_of_a_traceback_the_candidates_own_frames_and_one_error_are_left():
    assert own_part(RAISED) == (
        "weights: load_state_dict refused, so the same random seed has to do\n"
        "Traceback (most recent call last):\n"
        '  File "candidate.py", line 7, in forward\n'
        "    return helper(x[0])\n"
        "           ^^^^^^^^^^^^\n"
        "NameError: name 'undefined_name' is not defined"
    )


def test_a_compilers_errors_stay_and_the_machinery_around_them_goes():
    shown = own_part(COMPILED)
    assert 'File "candidate.py", line 3, in <module>' in shown
    assert "x/main.cpp:2:43: error: 'y' was not declared" in shown
    assert "return y; }" in shown
    for noise in ("ninja", "_jit_compile", "stub.py", "frozen", "included from", "/home", "/var", "-isystem"):
        assert noise not in shown


def test_other_output_is_left_as_it_is():
    text = "step 1: 3 ms\nstep 1: 3 ms\n/usr/include/x.h: missing\n  from here on"
    assert own_part(text) == text


def test_a_repair_reads_the_error_once_and_no_hint_that_does_not_fit():
    reason = "NameError: name 'undefined_name' is not defined"
    failing = refused(Status.BUILD_ERROR, reason, f"--- stderr ---\n{RAISED}")
    user = render(make(Role.FIX, failing=failing)).user
    assert user.count("name 'undefined_name' is not defined") == 1
    why = user.partition("## Why it was refused")[2].partition("Captured output")[0]
    assert "extension" not in why
    broken = refused(Status.BUILD_ERROR, "RuntimeError: Error building extension 'x'", f"--- stderr ---\n{COMPILED}")
    why = render(make(Role.FIX, failing=broken)).user.partition("## Why it was refused")[2]
    assert "does not compile" in why.partition("Captured output")[0]


def test_a_crash_is_not_called_an_exception():
    crashed = refused(Status.RUNTIME_ERROR, "the process was killed by SIGSEGV")
    assert "The process crashed" in render(make(Role.FIX, failing=crashed)).user
    raised = refused(Status.RUNTIME_ERROR, "ValueError: 3")
    assert "`forward` raised an error" in render(make(Role.FIX, failing=raised)).user
