"""What a run leaves: its result, `best.py` and the files beside them."""
