"""From a step to the prompt of a role."""
