"""Tables as Markdown and LaTeX, with the best in bold.

Knows how texts are escaped. Does not know what a table says.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_LATEX = (
    {"\\": r"\textbackslash{}", "–": "--", "×": r"$\times$"}
    | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {one: f"\\{one}" for one in "&%$#_{}"}
)


@dataclass(frozen=True, slots=True)
class TextCell:
    """One cell; the best of its row or column is bold."""

    text: str
    bold: bool = False


def markdown(head: Sequence[str], rows: Sequence[Sequence[TextCell]]) -> str:
    """The table in Markdown; all columns but the first are aligned to the right."""
    lines = [_joined(_plain(one) for one in head), _joined(["---", *["---:"] * (len(head) - 1)])]
    lines += [_joined(f"**{_plain(one.text)}**" if one.bold else _plain(one.text) for one in row) for row in rows]
    return "\n".join(lines) + "\n"


def latex(head: Sequence[str], rows: Sequence[Sequence[TextCell]]) -> str:
    """The table as a LaTeX `tabular` for the package `booktabs`."""
    lines = [f"\\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}", "\\toprule"]
    lines += [" & ".join(_escaped(one) for one in head) + r" \\", "\\midrule"]
    for row in rows:
        cells = [f"\\textbf{{{_escaped(one.text)}}}" if one.bold else _escaped(one.text) for one in row]
        lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"]) + "\n"


def _joined(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _plain(text: str) -> str:
    return text.replace("|", "\\|")


def _escaped(text: str) -> str:
    return "".join(_LATEX.get(one, one) for one in text)
