"""Runs of other tools as journals marked imported: one file a layout."""
