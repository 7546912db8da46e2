"""`python -m pike` and `pike`: the command line.

Knows where the command line begins, and that judging a bundle needs less than the rest. Does not
know any command.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and exit."""
    try:
        from pike.cli.main import main as run
    except ModuleNotFoundError as missing:
        if missing.name not in ("typer", "rich") or sys.argv[1:2] != ["judge"]:
            raise
        from pike.cli.bare import main as run
    run()


if __name__ == "__main__":
    main()
