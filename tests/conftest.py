"""What all tests share."""

from hypothesis import HealthCheck, settings

# No test depends on how fast the machine is.
settings.register_profile("dubhe", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("dubhe")
