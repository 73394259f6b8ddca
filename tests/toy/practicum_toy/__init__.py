"""A third-party method: the bias of a coin.

>>> bias([1, 1, 0, 1])
0.75
"""


def bias(flips):
    """Share of heads."""
    return sum(flips) / len(flips)
