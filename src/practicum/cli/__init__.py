"""The command line: commands (app), what all of them refuse (guard), how it speaks (console)."""

from practicum.cli.app import main

__all__ = ["main"]
