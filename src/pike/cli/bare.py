"""`pike judge` where nothing is installed but torch and numpy: no Typer, no Rich.

Knows the same options as the command. Does not know any other verb.
"""

import argparse
import sys
from pathlib import Path

from pike.api.bare import bundles
from pike.core.errors import BoundaryError, UserError
from pike.core.text.printable import printable


def main() -> None:
    """Run `pike judge` and exit as the whole command line does."""
    parser = argparse.ArgumentParser(prog="pike judge", description="Judge bundles and write their verdicts.")
    parser.add_argument("bundles", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, help="the verdicts of one bundle (default: BUNDLE.verdicts.jsonl)")
    parser.add_argument("--devices", default="", help="all, or cuda:N with commas between")
    parser.add_argument("--judges", type=int, default=0, help="how many judge at once")
    parser.add_argument("--max-minutes", type=float, help="when to stop; the same command goes on later")
    given = vars(parser.parse_args(sys.argv[2:]))
    try:
        found = bundles.judge(**given, on_line=lambda line: print(printable(line), flush=True))
    except (UserError, BoundaryError) as error:
        sys.exit(_fail(str(error), 2 if isinstance(error, UserError) else 3))
    except KeyboardInterrupt:
        sys.exit(_fail("Interrupted", 130))
    print(bundles.summary(found, bundles.verdict_files(given["bundles"], given["out"]).values()))


def _fail(sentence: str, code: int) -> int:
    sys.stderr.write(f"pike: {printable(sentence).rstrip('.')}.\n")
    return code
