"""The state of a run: its journal folded, its money and progress, and how a run is read back."""
