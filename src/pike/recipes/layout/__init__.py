"""Recipes that change how data lies in memory, or store what need not be computed at each call."""
