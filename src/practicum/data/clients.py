"""Labelled images, and ways to deal them out to the clients of a federation.

Three steps, each usable alone: load images (:func:`fashion_mnist`, :func:`digits`, or your own
arrays), decide who holds which rows and how each client's data are distorted
(:func:`partition`), and cut them out (:func:`client_data`).

>>> images = digits()
>>> plan = partition(images.labels, 12, "conflict", n_per_client=60, seed=0)
>>> clients = client_data(images, plan, n_test=20)
>>> clients.train_x.shape, clients.test_y.shape
((12, 40, 64), (12, 20))
>>> plan.groups.tolist()  # the planted groups: half the clients call every class by another name
[0, 1, 1, 0, 1, 0, 0, 0, 1, 1, 0, 1]
"""

from __future__ import annotations

import gzip
import math
import os
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float, Int, Real

from practicum.errors import InputError

PartitionKind = Literal["iid", "dirichlet", "two", "mixed", "conflict", "domain"]
ImageSet = Literal["fashion-mnist", "digits"]

DEBIAN_FOLDER = Path("/usr/share/datasets/fashion-mnist")
FILES = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
IDX_UBYTE = 8  # the type code of unsigned bytes in an IDX header
MOST_AXES = 32  # of an array that every version of NumPy takes


@dataclass(frozen=True)
class LabelledImages:
    """Images with one label each.

    Attributes
    ----------
    images : float32, shape (n, height, width) or (n, height, width, channels), in [0, 1]
    labels : int64, shape (n,), in 0 .. n_classes - 1
    n_classes : int
    name : str
    """

    images: np.ndarray
    labels: np.ndarray
    n_classes: int
    name: str

    @property
    def flat(self) -> Float[np.ndarray, "n d"]:
        """The images as rows."""
        return self.images.reshape(len(self.images), -1)


def read_idx(path: str | Path) -> np.ndarray:
    """Read one gzipped IDX file of bytes (the format of MNIST and its successors).

    Parameters
    ----------
    path : str or Path
        ``*-ubyte.gz``.

    Returns
    -------
    numpy.ndarray of uint8, with the shape that the header declares.

    Raises
    ------
    InputError
        The file is missing, not gzip, not IDX, or shorter than its header says.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "two-ubyte.gz"
    >>> _ = path.write_bytes(gzip.compress(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9])))
    >>> read_idx(path).tolist()
    [7, 9]
    """
    path = Path(path)
    try:
        raw = gzip.decompress(path.read_bytes())
    except FileNotFoundError as error:
        raise InputError(f"{path}: there is no such file", _HOW_TO_INSTALL) from error
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: cannot be read as gzip ({error})", _HOW_TO_INSTALL) from error
    if len(raw) < 8 or raw[:2] != b"\0\0" or raw[2] != IDX_UBYTE:
        raise InputError(f"{path}: not an IDX file of bytes", _HOW_TO_INSTALL)
    start = 4 + 4 * raw[3]
    if raw[3] > MOST_AXES or len(raw) < start:
        raise InputError(f"{path}: not an IDX file of bytes", _HOW_TO_INSTALL)
    shape = struct.unpack(f">{raw[3]}I", raw[4:start])
    if len(raw) - start != math.prod(shape):
        raise InputError(
            f"{path}: the header declares {shape}, but {len(raw) - start} bytes follow",
            "the file is cut off; install it again",
        )
    return np.frombuffer(raw, np.uint8, offset=start).reshape(shape)


_HOW_TO_INSTALL = (
    "on Debian and Ubuntu: apt-get install dataset-fashion-mnist; elsewhere download the four "
    "*-ubyte.gz files of Fashion-MNIST into one folder and name it with folder="
)


@lru_cache(maxsize=4)
def fashion_mnist(side: int = 14, folder: str | Path | None = None) -> LabelledImages:
    """Fashion-MNIST, 70,000 grey images of clothes in ten classes (60,000 train, then 10,000 test).

    Read from Debian's package ``dataset-fashion-mnist`` (Expat licence) or a folder of your own.

    Parameters
    ----------
    side : {28, 14, 7}
        28 as published; 14 and 7 are means over blocks of 2 x 2 and 4 x 4 pixels.
    folder : str or Path, optional
        Holds ``train-images-idx3-ubyte.gz`` and its three siblings;
        default ``/usr/share/datasets/fashion-mnist``.

    Raises
    ------
    InputError
        The files are not there (the hint says how to install them) or damaged.

    Examples
    --------
    >>> images = fashion_mnist()
    >>> images.images.shape, images.n_classes
    ((70000, 14, 14), 10)
    """
    if side not in (28, 14, 7):
        raise InputError(f"side is {side}; Fashion-MNIST is read at 28, 14 or 7 pixels")
    folder = Path(folder) if folder else DEBIAN_FOLDER
    train_x, train_y, test_x, test_y = (read_idx(folder / f"{name}-ubyte.gz") for name in FILES)
    raw = np.concatenate([train_x, test_x])
    block = 28 // side
    pooled = raw.reshape(len(raw), side, block, side, block).mean((2, 4), dtype=np.float32)
    labels = np.concatenate([train_y, test_y]).astype(np.int64)
    return LabelledImages(_frozen(pooled / np.float32(255)), _frozen(labels), 10, "fashion-mnist")


@lru_cache(maxsize=1)
def digits() -> LabelledImages:
    """The 1,797 handwritten digits (8 x 8) that ship with scikit-learn: the instant fallback.

    Raises
    ------
    Nothing: the data are part of scikit-learn.

    Examples
    --------
    >>> digits().images.shape
    (1797, 8, 8)
    """
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = (bunch.images / 16).astype(np.float32)
    return LabelledImages(_frozen(images), _frozen(bunch.target.astype(np.int64)), 10, "digits")


def cifar100(folder: str | Path | None = None) -> LabelledImages:
    """Your copy of CIFAR-100 (binary version): 60,000 colour images, 100 classes.

    Parameters
    ----------
    folder : str or Path, optional
        ``cifar-100-binary``, which holds ``train.bin`` and ``test.bin``; default: what the
        environment variable ``PRACTICUM_CIFAR100`` names.

    Raises
    ------
    InputError
        No folder is named, a file is missing, or its size is no multiple of 3,074 bytes.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name in ("train.bin", "test.bin"):
    ...     _ = (folder / name).write_bytes(bytes([0, 7]) + bytes(3072))
    >>> cifar100(folder).images.shape, cifar100(folder).labels.tolist()
    ((2, 32, 32, 3), [7, 7])
    """
    folder = folder or os.environ.get("PRACTICUM_CIFAR100")
    layout = (
        "unpack cifar-100-binary.tar.gz (binary version; nothing is unpickled) and name the folder "
        "that holds train.bin and test.bin in PRACTICUM_CIFAR100"
    )
    if not folder:
        raise InputError("CIFAR-100 is not bundled", layout)
    records = []
    for name in ("train.bin", "test.bin"):
        path = Path(folder) / name
        if not path.is_file():
            raise InputError(f"{path}: there is no such file", layout)
        raw = np.fromfile(path, np.uint8)
        if len(raw) == 0 or len(raw) % 3074:
            raise InputError(
                f"{path}: {len(raw)} bytes, not a multiple of 3,074 (two labels, 3 x 32 x 32)",
                layout,
            )
        records.append(raw.reshape(-1, 3074))
    rows = np.concatenate(records)
    pixels = rows[:, 2:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    images = pixels.astype(np.float32) / np.float32(255)
    return LabelledImages(images, rows[:, 1].astype(np.int64), 100, "cifar-100")


def load_images(name: ImageSet) -> LabelledImages:
    """One of the bundled sets by name: ``fashion-mnist`` (14 x 14) or ``digits`` (8 x 8).

    Raises
    ------
    InputError
        No set has this name, or its files are not installed.

    Examples
    --------
    >>> load_images("digits").name
    'digits'
    """
    if name == "digits":
        return digits()
    if name == "fashion-mnist":
        return fashion_mnist()
    raise InputError(f"no image set {name!r}", f"there are {', '.join(get_args(ImageSet))}")


def _frozen(array: np.ndarray) -> np.ndarray:
    """Read-only: loaders are cached, and a caller must not change what others get."""
    array.setflags(write=False)
    return array


# --- who holds what ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Partition:
    """Who holds which rows, and how each client's data differ from the pool.

    Attributes
    ----------
    index : int, shape (K, n)
        Row numbers of the pool, in random order within a client.
    groups : int, shape (K,)
        The planted groups (all 0 where the kind plants none).
    label_offset : int, shape (K,)
        Added to every label of the client, modulo ``n_classes``.
    noise_std : float, shape (K,)
        Standard deviation of the Gaussian noise on the client's images.
    n_classes : int
    kind : str
    seed : int
    """

    index: np.ndarray
    groups: np.ndarray
    label_offset: np.ndarray
    noise_std: np.ndarray
    n_classes: int
    kind: str
    seed: int

    @property
    def n_clients(self) -> int:
        """K."""
        return len(self.index)


def class_proportions(
    n_clients: int, n_classes: int, alpha: float, rng: np.random.Generator
) -> Float[np.ndarray, "clients classes"]:
    """Label shift: one draw of class proportions a client from a symmetric Dirichlet (Hsu 2019).

    Parameters
    ----------
    n_clients, n_classes : int
    alpha : float
        Concentration: 0 gives one class a client, 0.1 is harsh, 1000 nearly uniform.
    rng : numpy.random.Generator

    Raises
    ------
    InputError
        ``alpha`` is negative or not a number.

    Examples
    --------
    >>> class_proportions(3, 10, 0.1, np.random.default_rng(0)).sum(axis=1).round(6).tolist()
    [1.0, 1.0, 1.0]
    """
    if not alpha >= 0:
        raise InputError(f"alpha is {alpha}; the Dirichlet concentration is at least 0")
    if alpha < 1e-3:  # numpy's gamma draws underflow to 0/0 below; the limit is one class
        return np.eye(n_classes)[rng.integers(n_classes, size=n_clients)]
    return rng.dirichlet(np.full(n_classes, float(alpha)), size=n_clients)


def partition(
    y: Int[np.ndarray, " n"],
    n_clients: int,
    kind: PartitionKind = "dirichlet",
    *,
    alpha: float = 0.1,
    n_per_client: int = 300,
    noise_std: float = 0.5,
    replace: bool = False,
    seed: int = 0,
) -> Partition:
    """Deal the rows of a labelled pool out to clients.

    Parameters
    ----------
    y : int array, shape (n,)
        Labels of the pool, 0 .. C-1.
    n_clients : int
    kind : {"iid", "dirichlet", "two", "mixed", "conflict", "domain"}
        * ``iid``: every client alike;
        * ``dirichlet``: class proportions of each client from Dirichlet(``alpha``);
        * ``two``: half the clients hold the lower half of the classes, half the upper;
        * ``mixed``: half are IID, half Dirichlet(``alpha``);
        * ``conflict``: all IID, half the clients shift their labels by C/2;
        * ``domain``: all IID, half the clients have noise of ``noise_std`` on their images.
    alpha : float
        Dirichlet concentration.
    n_per_client : int
        Rows a client (train and test together).
    noise_std : float
        In units of the pixels.
    replace : bool
        Draw with replacement (many clients from a small pool: clients are then independent draws
        from their class proportions); otherwise no row is held twice.
    seed : int

    Returns
    -------
    Partition

    Raises
    ------
    InputError
        Labels that are not 0 .. C-1, or more rows of a class asked for than there are.

    Examples
    --------
    >>> plan = partition(digits().labels, 10, "two", n_per_client=50)
    >>> sorted(np.unique(plan.groups).tolist()), plan.index.shape
    ([0, 1], (10, 50))
    """
    labels = _check_labels(y)
    if n_clients < 1 or n_per_client < 1:
        raise InputError(f"{n_clients} clients of {n_per_client} rows; both are at least 1")
    if kind not in get_args(PartitionKind):
        raise InputError(
            f"no partition {kind!r}", f"there are {', '.join(get_args(PartitionKind))}"
        )
    rng = np.random.default_rng([seed, get_args(PartitionKind).index(kind)])
    n_classes = int(labels.max()) + 1
    planted = kind not in ("iid", "dirichlet")
    groups = rng.permutation(np.arange(n_clients) % 2) if planted else np.zeros(n_clients, int)
    proportions = _proportions(kind, groups, n_classes, alpha, rng)
    counts = np.stack([rng.multinomial(n_per_client, p) for p in proportions])
    return Partition(
        index=_draw_rows(labels, counts, replace, rng),
        groups=groups,
        label_offset=groups * (n_classes // 2) if kind == "conflict" else np.zeros_like(groups),
        noise_std=groups * float(noise_std) if kind == "domain" else np.zeros(n_clients),
        n_classes=n_classes,
        kind=kind,
        seed=seed,
    )


def _check_labels(y: np.ndarray) -> np.ndarray:
    labels = np.asarray(y)
    if labels.ndim != 1 or len(labels) == 0 or labels.dtype.kind not in "iu":
        raise InputError(
            f"y has shape {labels.shape} and type {labels.dtype}; one integer label a row expected"
        )
    if labels.min() < 0:
        raise InputError(f"y holds the label {labels.min()}; labels are 0 .. C-1")
    return labels


def _proportions(
    kind: str, groups: np.ndarray, n_classes: int, alpha: float, rng: np.random.Generator
) -> np.ndarray:
    """Class proportions of every client, shape (K, C)."""
    uniform = np.full((len(groups), n_classes), 1 / n_classes)
    if kind == "two":
        upper = np.arange(n_classes) >= n_classes // 2
        member = upper[None, :] == groups[:, None].astype(bool)
        return member / member.sum(1, keepdims=True)
    if kind in ("dirichlet", "mixed"):
        skewed = class_proportions(len(groups), n_classes, alpha, rng)
        return np.where(groups[:, None] == 1, skewed, uniform) if kind == "mixed" else skewed
    return uniform


def _draw_rows(
    labels: np.ndarray, counts: np.ndarray, replace: bool, rng: np.random.Generator
) -> np.ndarray:
    """Row numbers with these class counts, shuffled within each client; shape (K, n)."""
    parts: list[list[np.ndarray]] = [[] for _ in counts]
    for label in range(counts.shape[1]):
        pool = np.flatnonzero(labels == label)
        wanted = int(counts[:, label].sum())
        if wanted and (len(pool) == 0 or (wanted > len(pool) and not replace)):
            raise InputError(
                f"class {label} has {len(pool)} rows, the clients need {wanted}",
                "use fewer clients, a smaller n_per_client, or replace=True",
            )
        drawn = rng.choice(pool, wanted, replace=replace) if wanted else pool[:0]
        for own, rows in zip(parts, np.split(drawn, np.cumsum(counts[:, label])[:-1]), strict=True):
            own.append(rows)
    return np.stack([rng.permutation(np.concatenate(own)) for own in parts])


# --- cutting the data out ------------------------------------------------------------------------


@dataclass(frozen=True)
class ClientData:
    """The data of K clients as stacked arrays, ready for batched training.

    Clients with fewer rows than the largest are padded; the sizes say how many rows are theirs.

    Attributes
    ----------
    train_x : float32, shape (K, n_train, d)
    train_y : int64, shape (K, n_train)
    test_x : float32, shape (K, n_test, d)
    test_y : int64, shape (K, n_test)
    train_size, test_size : int, shape (K,)
    groups : int, shape (K,)
        The planted or declared groups; all 0 where there are none.
    n_classes : int
    """

    train_x: np.ndarray
    train_y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray
    train_size: np.ndarray
    test_size: np.ndarray
    groups: np.ndarray
    n_classes: int

    @property
    def n_clients(self) -> int:
        """K."""
        return len(self.train_x)

    @property
    def class_counts(self) -> Int[np.ndarray, "clients classes"]:
        """Training labels of each client, counted."""
        own = zip(self.train_y, self.train_size, strict=True)
        return np.stack([np.bincount(y[:n], minlength=self.n_classes) for y, n in own])

    def only(self, client: int) -> ClientData:
        """The data of one client: what its machine holds in a real federation."""
        one = slice(client, client + 1)
        arrays = (self.train_x, self.train_y, self.test_x, self.test_y)
        sizes = (self.train_size, self.test_size, self.groups)
        return ClientData(*(a[one] for a in (*arrays, *sizes)), self.n_classes)


def client_data(images: LabelledImages, plan: Partition, n_test: int = 100) -> ClientData:
    """Cut every client's data out of the pool and distort them as the plan says.

    Parameters
    ----------
    images : LabelledImages
    plan : Partition
    n_test : int
        The last ``n_test`` rows of each client are its test data.

    Raises
    ------
    InputError
        ``n_test`` leaves nothing to train on.

    Examples
    --------
    >>> plan = partition(digits().labels, 4, "iid", n_per_client=30)
    >>> client_data(digits(), plan, n_test=10).train_x.dtype
    dtype('float32')
    """
    n = plan.index.shape[1]
    if not 0 <= n_test < n:
        raise InputError(f"n_test is {n_test} of {n} rows a client; 0 to {n - 1} expected")
    x = images.flat[plan.index]
    noisy = np.flatnonzero(plan.noise_std)
    for k in noisy:
        rng = np.random.default_rng([plan.seed, 1, int(k)])
        x[k] = add_noise(x[k], float(plan.noise_std[k]), rng)
    y = (images.labels[plan.index] + plan.label_offset[:, None]) % plan.n_classes
    cut = n - n_test
    return ClientData(
        np.ascontiguousarray(x[:, :cut]),
        np.ascontiguousarray(y[:, :cut]),
        np.ascontiguousarray(x[:, cut:]),
        np.ascontiguousarray(y[:, cut:]),
        np.full(plan.n_clients, cut),
        np.full(plan.n_clients, n_test),
        plan.groups,
        plan.n_classes,
    )


def clients_of_rows(
    x: Float[np.ndarray, "n d"],
    y: Int[np.ndarray, " n"],
    client: Int[np.ndarray, " n"],
    *,
    groups: Int[np.ndarray, " clients"] | None = None,
    test_share: float = 0.3,
    seed: int = 0,
) -> ClientData:
    """A table with a client for each row (a column of sites, users, devices), split and stacked.

    Parameters
    ----------
    x : array, shape (n, d)
    y : int array, shape (n,)
        Labels 0 .. C-1.
    client : int array, shape (n,)
        Who holds the row, 0 .. K-1.
    groups : int array, shape (K,), optional
        A known grouping of the clients.
    test_share : float
        Share of each client's rows kept for testing (at least one row, chosen at random).
    seed : int

    Raises
    ------
    InputError
        A client with fewer than two rows (one to train on, one to test), or numbering with gaps.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> data = clients_of_rows(rng.random((9, 2)), np.arange(9) % 3, np.arange(9) % 3)
    >>> data.train_x.shape, data.test_size.tolist()
    ((3, 2, 2), [1, 1, 1])
    """
    labels = _check_labels(y)
    counts = np.bincount(np.asarray(client))
    if (counts < 2).any():
        few = np.flatnonzero(counts < 2)[:5].tolist()
        raise InputError(
            f"clients {few} hold fewer than 2 rows", "each needs one to train on and one to test"
        )
    rng = np.random.default_rng([seed, 2])
    test_size = np.clip(np.round(test_share * counts).astype(int), 1, counts - 1)
    train_size = counts - test_size
    n_clients, d = len(counts), x.shape[1]
    shapes = ((n_clients, train_size.max()), (n_clients, test_size.max()))
    train_x, test_x = (np.zeros((*shape, d), np.float32) for shape in shapes)
    train_y, test_y = (np.zeros(shape, np.int64) for shape in shapes)
    for k in range(n_clients):
        rows = rng.permutation(np.flatnonzero(client == k))
        test, train = rows[: test_size[k]], rows[test_size[k] :]
        train_x[k, : len(train)], train_y[k, : len(train)] = x[train], labels[train]
        test_x[k, : len(test)], test_y[k, : len(test)] = x[test], labels[test]
    known = np.zeros(n_clients, int) if groups is None else np.asarray(groups)
    n_classes = int(labels.max()) + 1
    return ClientData(train_x, train_y, test_x, test_y, train_size, test_size, known, n_classes)


# --- feature shift -------------------------------------------------------------------------------


def add_noise(
    x: Float[np.ndarray, "..."], std: float, rng: np.random.Generator
) -> Float[np.ndarray, "..."]:
    """Feature shift: Gaussian noise of standard deviation ``std`` on every pixel.

    Raises
    ------
    InputError
        ``std`` is negative.

    Examples
    --------
    >>> add_noise(np.zeros((2, 3), np.float32), 0.1, np.random.default_rng(0)).dtype
    dtype('float32')
    """
    if not std >= 0:
        raise InputError(f"std is {std}; a standard deviation is at least 0")
    return x + rng.standard_normal(x.shape, dtype=np.float32).astype(x.dtype) * x.dtype.type(std)


def blur(images: Float[np.ndarray, "n h w"], radius: float) -> Float[np.ndarray, "n h w"]:
    """Feature shift: Gaussian blur of standard deviation ``radius`` pixels.

    Raises
    ------
    InputError
        ``radius`` is negative.

    Examples
    --------
    >>> blur(np.ones((1, 4, 4), np.float32), 1.0).round(3).max()
    np.float32(1.0)
    """
    from scipy.ndimage import gaussian_filter

    if not radius >= 0:
        raise InputError(f"radius is {radius}; it is at least 0 pixels")
    return gaussian_filter(images, sigma=(0, radius, radius))


def affine_shift(
    images: Float[np.ndarray, "n h w"],
    matrix_std: float,
    bias_std: float,
    rng: np.random.Generator,
) -> Float[np.ndarray, "n h w"]:
    """Feature shift of one client: ``A @ image + B``, A = I + N(0, matrix_std), B = N(0, bias_std).

    One A (h x h) and one B (h x w) are drawn and applied to all of the client's images.

    Raises
    ------
    InputError
        A standard deviation is negative.

    Examples
    --------
    >>> x = np.ones((2, 3, 3), np.float32)
    >>> bool((affine_shift(x, 0.0, 0.0, np.random.default_rng(0)) == x).all())
    True
    """
    if not (matrix_std >= 0 and bias_std >= 0):
        raise InputError(f"standard deviations {matrix_std} and {bias_std}; both are at least 0")
    _, h, w = images.shape
    a = np.eye(h) + matrix_std * rng.standard_normal((h, h))
    b = bias_std * rng.standard_normal((h, w))
    return a.astype(images.dtype) @ images + b.astype(images.dtype)


# --- per-client numbers --------------------------------------------------------------------------


def label_counts(
    y: Int[np.ndarray, "clients n"], n_classes: int
) -> Int[np.ndarray, "clients classes"]:
    """How often each client holds each class.

    Raises
    ------
    InputError
        A label lies outside 0 .. n_classes - 1.

    Examples
    --------
    >>> label_counts(np.array([[0, 0, 2], [1, 1, 1]]), 3).tolist()
    [[2, 0, 1], [0, 3, 0]]
    """
    if y.size and (y.min() < 0 or y.max() >= n_classes):
        raise InputError(f"labels from {y.min()} to {y.max()}; 0 to {n_classes - 1} expected")
    offsets = np.arange(len(y))[:, None] * n_classes
    return np.bincount((y + offsets).ravel(), minlength=len(y) * n_classes).reshape(-1, n_classes)


def summarise_clients(values: Real[np.ndarray, " clients"]) -> Mapping[str, float]:
    """What one number a client (its accuracy, its risk) looks like over the federation.

    A mean hides the clients that are served badly, so the spread and the lower tail come along.

    Parameters
    ----------
    values : array, shape (K,)

    Returns
    -------
    dict with ``mean``, ``std``, ``min``, ``p10``, ``median``, ``p90``, ``max``

    Raises
    ------
    InputError
        No client, or a client without a number.

    Examples
    --------
    >>> summarise_clients(np.array([0.5, 0.7, 0.9]))["mean"].round(3)
    np.float64(0.7)
    """
    x = np.asarray(values, dtype=float)
    if not len(x) or not np.isfinite(x).all():
        bad = np.flatnonzero(~np.isfinite(x)).tolist()
        raise InputError(f"no finite number for the clients {bad}" if len(x) else "no client")
    p10, median, p90 = np.percentile(x, [10, 50, 90])
    return {
        "mean": x.mean(),
        "std": x.std(),
        "min": x.min(),
        "p10": p10,
        "median": median,
        "p90": p90,
        "max": x.max(),
    }
