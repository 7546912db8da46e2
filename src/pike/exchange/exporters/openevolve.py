"""`--to openevolve`: a checkpoint that OpenEvolve's loader and visualiser open.

Knows where it stands among the forms. Does not know the checkpoint (`engine.tools.openevolve`).
"""

from pathlib import Path

from pike.core import figures
from pike.exchange.exporters.exported import Exported


def export(folder: Path, out: Path | None) -> Exported:
    """Write `OUT/checkpoints/checkpoint_N`, by default in `openevolve` inside the run's folder."""
    from pike.engine.tools.openevolve import export as write

    done = write(folder, out)
    islands = figures.plural(len(done.islands), "island")
    sentence = f"{figures.plural(done.programs, 'program')} on {islands}, best {done.best}."
    counts = {"programs": done.programs, "islands": list(done.islands), "best": done.best}
    return Exported("openevolve", str(done.path), sentence, counts)
