"""What is kept on disk: the journal of every run with its blobs, and the results of contenders.

Knows files, transactions and locks. Does not know what events mean.
"""

from pike.store.entries import read
from pike.store.journal import Journal
from pike.store.lock import holder
from pike.store.results import append_result, json_lines, read_results, results_in

__all__ = ["Journal", "append_result", "holder", "json_lines", "read", "read_results", "results_in"]
