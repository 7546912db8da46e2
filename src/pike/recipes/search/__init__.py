"""Which recipes go together, and which composition to try next."""
