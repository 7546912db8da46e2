"""The verbs that need torch and numpy only; modules here import none of the other verbs."""
