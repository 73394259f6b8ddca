"""Practicum: machine-learning papers as software one can use, compare and verify."""

__version__ = "0.1.0"
