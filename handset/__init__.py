"""Kelter handset: a voice headset that reports exactly what the person was played."""

__version__ = "0.1.0"
