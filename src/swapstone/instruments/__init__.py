"""Running baseline and candidate of a row again, under instruments: never together with measured trials."""

from swapstone.instruments.acquire import INSTRUMENTS, Asked, acquire
from swapstone.instruments.subject import Region, Subject

__all__ = ["INSTRUMENTS", "Asked", "Region", "Subject", "acquire"]
