"""What a run has shown: result files and pages, computed from its journal."""
