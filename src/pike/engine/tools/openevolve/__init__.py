"""A run for the tools of OpenEvolve.

Knows how to write a checkpoint from a journal. Does not run anything of OpenEvolve but its
database.
"""

from pike.engine.tools.openevolve.checkpoint import checkpoint_of
from pike.engine.tools.openevolve.history import islands_of

__all__ = ["checkpoint_of", "islands_of"]
