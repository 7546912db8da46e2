"""`python -m pike`: the command line.

Knows where the command line begins. Does not know any command.
"""

from __future__ import annotations

from pike.cli.main import main

if __name__ == "__main__":
    main()
