"""Figures of time: where that of a run goes, and that of a candidate."""
