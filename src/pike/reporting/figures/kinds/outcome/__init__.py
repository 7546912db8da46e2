"""Figures of what contenders reached: speedups, trajectories, tables, spread."""
