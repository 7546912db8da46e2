"""The reference as it is.

self_test: yes
"""


class ModelNew(Original):
    pass
