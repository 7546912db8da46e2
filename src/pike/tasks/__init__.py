"""Where problems come from: KernelBench-format files, suites, importable callables and live modules."""

from pike.tasks.modules import from_module
from pike.tasks.resolve import resolve
from pike.tasks.shipped import in_suite, suites

__all__ = ["from_module", "in_suite", "resolve", "suites"]
