"""The options of a search as records: one part for each decision, and every part in its kinds.

Knows the dials, their ranges, and which parts exclude each other. Does not know how a part acts
(`pike.search.assemble` builds it) nor which preset uses which (`pike.search.presets`).
"""
