"""Candidates without an LLM: composable, readable rewrites."""

from pike.recipes.agent import RecipeAgent
from pike.recipes.compose import compose
from pike.recipes.recipe import Recipe, Stage
from pike.recipes.registry import RECIPES

__all__ = ["RECIPES", "Recipe", "RecipeAgent", "Stage", "compose"]
