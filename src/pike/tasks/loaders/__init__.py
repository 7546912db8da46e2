"""Where suites come from: a loader for each kind of place, one file a loader, each listed once in `listing`."""

from pike.tasks.loaders.listing import load_suite, suite_of

__all__ = ["load_suite", "suite_of"]
