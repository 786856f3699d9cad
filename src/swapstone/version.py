"""The version of Swapstone."""

__version__ = "0.1.0"
