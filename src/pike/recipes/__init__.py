"""Candidates without an LLM: composable, readable rewrites."""

from pike.recipes.registry import RECIPES
from pike.recipes.search.agent import RecipeAgent
from pike.recipes.search.proposals import compose

__all__ = ["RECIPES", "RecipeAgent", "compose"]
