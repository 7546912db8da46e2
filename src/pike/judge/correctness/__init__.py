"""How far an output lies from the right answer, and whether that is near enough."""
