"""What a recipe is, and how a composition of recipes becomes a candidate file."""
