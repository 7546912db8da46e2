"""Compare two strategies on two tasks under one budget, and read the table.

Shows `pike.campaign` with its configuration as a mapping; a TOML file holds the same. The campaign can
be killed at any time and carried on with `pike.campaign(resume=FOLDER)`. Without a language model, as
here, recipes write the candidates. Takes about five minutes. Arguments are settings, for example
`budget.queries=2`.
"""

import sys
from pathlib import Path

import pike

STUDY = {
    "campaign": {
        "tasks": [str(Path(__file__).parent / "models" / "row_by_row.py"), "demo/gpt_block:small"],
        "contenders": ["pike-b", "best-of-n"],
        "query_cuts": [2, 4],
    },
    "budget": {"queries": 4},
    "llm": {"coa": "none"},
}


def main(settings: list[str]) -> None:
    """Run the campaign and print each strategy's geometric mean."""
    study = pike.campaign(STUDY, settings=settings)
    for row in study.figures.standings:
        if row.cut.axis is None:  # the figures at the end of the runs, not those at equal budget
            print(f"{row.contender:<12} {row.clamped.value:.2f}x, {row.failed} of {row.runs} runs failed")
    print(f"figures: {study.folder / 'campaign.json'}")


if __name__ == "__main__":
    main(sys.argv[1:])
