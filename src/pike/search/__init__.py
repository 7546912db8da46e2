"""What to try next: pure ask/tell strategies and their presets."""
