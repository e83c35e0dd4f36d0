"""The machine is shared: an example that waits for its turn is not slow."""

from hypothesis import settings

settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")
