"""An evaluation service on another machine as an executor: its wire, its connection, its workers.

Knows the HTTP interface from the outside. Does not know how the service keeps its queue
(`engine/service`).
"""
