"""What a speedup is compared with."""
