"""What takes part: contenders by name, fixed candidates, and guided searches over recipes.

Knows where candidates come from. Does not know when a cell has its turn or how it is judged.
"""
