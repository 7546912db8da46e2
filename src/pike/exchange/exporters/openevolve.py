"""`--to openevolve`: a checkpoint that OpenEvolve's loader and visualiser open.

Knows where it stands among the forms. Does not know the checkpoint (`engine.tools.openevolve`).
"""

from pathlib import Path

from pike.core import figures
from pike.exchange.exporters.exported import Exported, replace_folder

FOLDER = "openevolve"


def export(folder: Path, out: Path | None) -> Exported:
    """Write `OUT/checkpoints/checkpoint_N`, by default in `openevolve` inside the run's folder.

    N is the number of queries asked.
    """
    from pike.engine.tools.openevolve import checkpoint_of

    made = checkpoint_of(folder)
    path = (out or folder / FOLDER) / "checkpoints" / f"checkpoint_{made.queries}"
    replace_folder(path, made.write)
    islands = [len(island) for island in made.database.islands]
    programs, best = len(made.database.programs), made.run.best
    sentence = f"{figures.plural(programs, 'program')} on {figures.plural(len(islands), 'island')}, best {best}."
    return Exported("openevolve", str(path), sentence, {"programs": programs, "islands": islands, "best": best})
