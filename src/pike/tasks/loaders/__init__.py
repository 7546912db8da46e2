"""The places that suites come from: one loader per kind of place, listed in `listing`."""

from pike.tasks.loaders.listing import load_suite, suite_of

__all__ = ["load_suite", "suite_of"]
