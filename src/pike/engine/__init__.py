"""The wiring: the run loop, the ledger, executors and resume; the only place where rooms meet."""
