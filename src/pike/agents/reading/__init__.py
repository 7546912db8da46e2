"""From the text of an answer to a candidate, a plan or ideas."""
