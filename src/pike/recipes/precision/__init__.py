"""Recipes that change number formats, and what they may narrow."""
