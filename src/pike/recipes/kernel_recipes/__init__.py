"""Recipes that put kernels of their own into a graph."""
