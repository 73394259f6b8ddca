"""``practicum use coin``."""

import typer

from practicum.errors import InputError

app = typer.Typer()


@app.callback()
def root() -> None:
    """Biases of coins."""


@app.command()
def flip(heads: int, flips: int) -> None:
    """Print the bias. Example: practicum use coin flip 7 10"""
    if flips <= 0:
        raise InputError(f"flips is {flips}, at least one is needed", "flip the coin")
    print(heads / flips)
