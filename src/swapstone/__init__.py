"""Swap one part of an embedded Linux stack, hold everything else still, and know what it costs."""

__version__ = "0.1.0"
