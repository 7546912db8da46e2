"""Figures of how a search went: repairs, steps, the tree, the models."""
