r"""Models whose memory is known: small decoders trained on ordinary or on remapped symbols.

Eight permutations of four symbols are shown by example, ``o a b ;`` (operator, operand, answer)
eight times, then a query whose operand was among the shots, so that the answer is always
determined. A model trained on the *ordinary* symbols can answer from memory; one whose symbols are
drawn anew for every item has nothing to remember and must look the answer up. :math:`\Delta` must
tell the two apart.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Float, Int

from practicum.errors import InputError
from practicum.models.training import torch
from practicum.models.transformer import Decoder, DecoderConfig, Training, train

DIETS = ("ordinary", "varied", "remapped")
FORMS = ("raw", "full", "operand", "operator")

# what becomes of the four symbols
RULES = {
    "keep": (0, 1, 2, 3),
    "next": (1, 2, 3, 0),
    "last": (3, 0, 1, 2),
    "opposite": (2, 3, 0, 1),
    "swap pairs": (1, 0, 3, 2),
    "mirror": (3, 2, 1, 0),
    "swap ends": (3, 1, 2, 0),
    "swap middle": (0, 2, 1, 3),
}
TABLES = np.array(list(RULES.values()))
SYMBOLS, SHOTS = 60, 8
END = SYMBOLS
VOCAB = SYMBOLS + 1
OPERANDS = np.arange(4)  # the ordinary symbols: four operands, then one operator a rule
OPERATORS = np.arange(4, 4 + len(RULES))
DEFAULT = DecoderConfig(
    vocab=VOCAB, d_model=64, n_layers=2, n_heads=4, mlp="gelu", d_ff=128, smeared=True
)


def rule_items(
    n: int, form: str, rng: np.random.Generator
) -> tuple[Int[np.ndarray, "n t"], Int[np.ndarray, " n"]]:
    """Items as tokens, with ordinary symbols or with some of them drawn anew for every item.

    Parameters
    ----------
    n : int
    form : {"raw", "full", "operand", "operator"}
        Which symbols are replaced; never by one that is still in use in the item.
    rng : numpy.random.Generator
        The same generator state gives the same rules, shots and queries in every form.

    Returns
    -------
    tokens : int array, shape (n, 34)
        Eight shots of four tokens, then operator and operand of the query.
    answers : int array, shape (n,)

    Raises
    ------
    InputError
        If the form is not known.

    Examples
    --------
    >>> tokens, answers = rule_items(5, "full", np.random.default_rng(0))
    >>> tokens.shape, answers.shape
    ((5, 34), (5,))
    """
    if form not in FORMS:
        raise InputError(f"form {form!r} is not known", "use " + ", ".join(FORMS))
    rules = rng.integers(len(RULES), size=n)
    shots, fresh = _shots(n, rng), _distinct(n, 5, rng)
    operands, operators = np.tile(OPERANDS, (n, 1)), OPERATORS[rules][:, None]
    if form == "full":
        operands, operators = fresh[:, :4], fresh[:, 4:]
    elif form == "operand":
        operands = _avoiding(fresh[:, :4].copy(), operators, rng)
    elif form == "operator":
        operators = _avoiding(fresh[:, 4:].copy(), operands, rng)
    return _written(shots, rules, operands, operators)


def _shots(n: int, rng: np.random.Generator) -> np.ndarray:
    """Indices of operands (0 to 3), shape (n, 9); the last is among the others."""
    shown = rng.integers(4, size=(n, SHOTS))
    query = shown[np.arange(n), rng.integers(SHOTS, size=n)]
    return np.concatenate([shown, query[:, None]], axis=1)


def _distinct(n: int, k: int, rng: np.random.Generator) -> np.ndarray:
    """k different symbols a row."""
    return rng.random((n, SYMBOLS)).argpartition(k, axis=1)[:, :k]


def _avoiding(drawn: np.ndarray, taken: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The draws, made anew where they hit a symbol that is taken."""
    while (hit := (drawn[:, :, None] == taken[:, None, :]).any(axis=(1, 2))).any():
        drawn[hit] = _distinct(int(hit.sum()), drawn.shape[1], rng)
    return drawn


def _written(
    shots: np.ndarray, rules: np.ndarray, operands: np.ndarray, operators: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Tokens of ``o a b ;`` for every shot; the query stops at its operand."""
    images = np.take_along_axis(operands, TABLES[rules], axis=1)
    a, b = (np.take_along_axis(part, shots, axis=1) for part in (operands, images))
    o = np.broadcast_to(operators, shots.shape)
    tokens = np.stack([o, a, b, np.full_like(shots, END)], axis=2).reshape(len(shots), -1)
    return tokens[:, :-2], b[:, -1]


def training_items(
    n: int, diet: str, rng: np.random.Generator
) -> tuple[Int[np.ndarray, "n t"], Int[np.ndarray, " n"]]:
    """Items of a training diet.

    ``ordinary`` is the raw form. ``varied``, the fairer memory, mixes it half and half with other
    rules that never change either: each of the 60 symbols is an operand of some of them, so that
    none is new as an answer, but what a symbol means can still be remembered. ``remapped`` draws
    all symbols anew for every item.

    Parameters
    ----------
    n : int
    diet : {"ordinary", "varied", "remapped"}
    rng : numpy.random.Generator

    Raises
    ------
    InputError
        If the diet is not known.

    Examples
    --------
    >>> tokens, _ = training_items(2000, "varied", np.random.default_rng(0))
    >>> len(np.unique(tokens))  # all symbols and the end of a shot
    61
    """
    if diet not in DIETS:
        raise InputError(f"diet {diet!r} is not known", "use " + ", ".join(DIETS))
    if diet != "varied":
        return rule_items(n, "full" if diet == "remapped" else "raw", rng)
    half = n // 2
    tokens, answers = rule_items(n - half, "raw", rng)
    more, also = _written(_shots(half, rng), *_others(half, rng))
    return np.concatenate([tokens, more]), np.concatenate([answers, also])


def _others(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Other rules, fixed once for all: a permutation, four operands, an operator."""
    rules, operands, operators = _other_rules()
    chosen = rng.integers(len(operands), size=n)
    return rules[chosen], operands[chosen], operators[chosen][:, None]


@lru_cache(maxsize=1)
def _other_rules() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Thirty rules in which every symbol is twice an operand.

    No operator means two things to one operand, here or among the eight: then there is one truth to
    remember. They belong to the world, not to the trial: the same in every run.
    """
    fixed = np.random.default_rng(60)
    operands = np.concatenate([fixed.permutation(SYMBOLS).reshape(-1, 4) for _ in range(2)])
    taken = {(o, a) for o in OPERATORS.tolist() for a in OPERANDS.tolist()}
    operators = []
    for four in operands.tolist():
        free = [
            o
            for o in fixed.permutation(SYMBOLS).tolist()
            if o not in four and not any((o, a) in taken for a in four)
        ]
        operators.append(free[0])
        taken |= {(free[0], a) for a in four}
    rules = fixed.integers(len(RULES), size=len(operands))
    return rules, operands, np.array(operators)


def train_on_rules(
    diet: str,
    steps: int,
    rng: np.random.Generator,
    *,
    config: DecoderConfig = DEFAULT,
    batch: int = 32,
    lr: float = 3e-3,
    progress: Callable[[int, float], None] | None = None,
) -> tuple[Decoder, Float[np.ndarray, " steps"]]:
    """A decoder trained on one diet from scratch, as a language model of whole items.

    Parameters
    ----------
    diet : {"ordinary", "varied", "remapped"}
    steps, batch : int
    rng : numpy.random.Generator
        Of the weights and of every item.
    config : DecoderConfig
        By default 2 layers of width 64.
    lr : float
        Of AdamW, at its highest.
    progress : callable, optional
        Called with (step, loss).

    Returns
    -------
    network, losses (nats a token)

    Raises
    ------
    InputError
        If the diet is not known or training diverges.

    Examples
    --------
    >>> net, losses = train_on_rules("ordinary", 3, np.random.default_rng(0))
    >>> losses.shape
    (3,)
    """
    network = Decoder(config, seed=rng)

    def batch_of(step: int) -> tuple[torch.Tensor, torch.Tensor]:
        tokens, answers = training_items(batch, diet, rng)
        following = np.concatenate([tokens[:, 1:], answers[:, None]], axis=1)
        return torch.from_numpy(tokens), torch.from_numpy(following)

    losses = train(network, batch_of, Training(steps=steps, lr=lr), progress)
    return network, losses


@torch.inference_mode()
def answers_right(
    network: Decoder, form: str, n: int, rng: np.random.Generator
) -> Bool[np.ndarray, " n"]:
    """Which of n items a network answers rightly, greedily; any token may be the answer.

    Parameters
    ----------
    network : Decoder
    form : {"raw", "full", "operand", "operator"}
    n : int
    rng : numpy.random.Generator
        In the same state for every form, the items are the same and the answers paired.

    Raises
    ------
    InputError
        If the form is not known.

    Examples
    --------
    >>> net = Decoder(DEFAULT, seed=0)
    >>> answers_right(net, "raw", 10, np.random.default_rng(0)).shape
    (10,)
    """
    tokens, answers = rule_items(n, form, rng)
    logits = network.unembed(network.hidden(torch.from_numpy(tokens))[:, -1])
    return logits.argmax(dim=-1).numpy() == answers


def majority_right(form: str, n: int, rng: np.random.Generator) -> Bool[np.ndarray, " n"]:
    """Which items the most frequent answer of their shots gets right: what needs no induction.

    Parameters
    ----------
    form : {"raw", "full", "operand", "operator"}
    n : int
    rng : numpy.random.Generator

    Raises
    ------
    InputError
        If the form is not known.

    Examples
    --------
    >>> rate = majority_right("full", 5000, np.random.default_rng(0)).mean()
    >>> bool(0.4 < rate < 0.5)
    True
    """
    tokens, answers = rule_items(n, form, rng)
    shown = tokens[:, 2::4]
    times = (shown[:, :, None] == shown[:, None, :]).sum(axis=2)
    return shown[np.arange(n), times.argmax(axis=1)] == answers
