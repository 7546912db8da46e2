"""Child processes: how they are started, held, watched and ended."""
