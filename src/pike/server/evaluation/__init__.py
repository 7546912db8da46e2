"""The judge as a service over HTTP: who may submit, how much, and what is answered.

Knows addresses, tokens and sizes. Does not know how anything is queued or judged (`api.service`).
Starting it loads the extra `serve`.
"""
