"""What stands beside a run: checks of the machine, estimates, lint, exports."""
