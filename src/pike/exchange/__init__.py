"""Out and in: runs for other tools' stores and loaders, and other tools' runs as journals.

Knows the forms of other tools. Does not carry a run out (`engine`) or judge anything.
"""

from pike.exchange.exporters.exported import Exported
from pike.exchange.exporters.listing import export_run
from pike.exchange.importers.listing import import_from
from pike.exchange.trackers.followers import Followers

__all__ = ["Exported", "Followers", "export_run", "import_from"]
