"""The sources of tasks: KernelBench-format files, suites, callables and live modules."""

from pike.tasks.loaders import load_suite, suite_of
from pike.tasks.loaders.shipped import names as suites
from pike.tasks.modules import from_module
from pike.tasks.resolve import in_suite, resolve
from pike.tasks.suite import SuiteEntry

__all__ = ["SuiteEntry", "from_module", "in_suite", "load_suite", "resolve", "suite_of", "suites"]
