"""For all tests: drawing examples may take its time, because machines are busy."""

import contextlib

with contextlib.suppress(ImportError):  # on a bare machine with a GPU, tests that draw none still run
    from hypothesis import HealthCheck, settings

    settings.register_profile("pike", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("pike")
