"""Candidates without an LLM: composable, readable rewrites."""

from pike.recipes.framework.recipe import Recipe, RecipeStage
from pike.recipes.registry import RECIPES
from pike.recipes.search.agent import RecipeAgent
from pike.recipes.search.proposals import compose

__all__ = ["RECIPES", "Recipe", "RecipeAgent", "RecipeStage", "compose"]
