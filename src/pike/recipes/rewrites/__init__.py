"""Recipes that rewrite a graph with PyTorch's own operators."""
