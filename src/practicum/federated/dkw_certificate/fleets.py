"""Simulated networks whose truth is known: to plan a study, and to test a certificate.

A :class:`Fleet` is a law over clients, given by many equally likely clients of one or several
kinds. Clients are drawn from it independently, so the share of clients at or above a level is known
exactly, in the network that is sampled and in one that mixes the kinds differently.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from jaxtyping import Float, Int, Real
from scipy import stats

from practicum.data.clients import (
    LabelledImages,
    affine_shift,
    class_proportions,
    load_images,
)
from practicum.errors import InputError, MissingExtra
from practicum.federated.dkw_certificate.worst_case import (
    FDivergence,
    check_divergence,
    transport_tail,
    worst_case_tail,
)

if TYPE_CHECKING:
    import pandas as pd

ModelName = Literal["linear", "mlp", "cnn"]
Predictor = Callable[[np.ndarray], np.ndarray]

SOURCE_MIX, TARGET_MIX = (0.8, 0.2), (0.5, 0.5)  # mild and severe clients
MILD_ALPHA, SEVERE_ALPHA = 5.0, 0.4  # Dirichlet concentrations of the class proportions
CLASSES_OF_A_NUMBER = 10  # a numeric target with more values is cut at its median
FEWEST_RECORDS = 40


@dataclass(frozen=True, eq=False)  # arrays have no single truth value
class Fleet:
    """A law over clients: kinds of clients, each with the true risks of equally likely members.

    Attributes
    ----------
    name : str
    risks : tuple of arrays
        True risks in [0, 1], one array a kind.
    mix : tuple of float
        Shares of the kinds in the source network.
    target_mix : tuple of float
        Shares of the kinds in the network to come.

    Raises
    ------
    InputError
        Risks outside [0, 1], or shares that do not fit the kinds or do not sum to one.

    Examples
    --------
    >>> fleet = Fleet("two kinds", (np.array([0.1]), np.array([0.4])), (0.8, 0.2), (0.5, 0.5))
    >>> fleet.tail([0.05, 0.3]), fleet.target_tail([0.3])
    (array([1. , 0.2]), array([0.5]))
    >>> round(fleet.radius("chi2"), 4), round(fleet.radius("kl"), 4)
    (0.5625, 0.2231)
    >>> errors, sizes = fleet.draw(100, n_clients=4, rng=np.random.default_rng(0))
    >>> errors.round(2).tolist(), sizes.tolist()
    ([0.1, 0.15, 0.13, 0.03], [100, 100, 100, 100])
    """

    name: str
    risks: tuple[np.ndarray, ...]
    mix: tuple[float, ...]
    target_mix: tuple[float, ...]

    def __post_init__(self) -> None:
        for risks in self.risks:
            if not len(risks) or not (np.abs(risks - 0.5) <= 0.5 + 1e-9).all():
                raise InputError(f"{self.name}: a kind's risks are none or leave [0, 1]")
        for name, mix in (("mix", self.mix), ("target_mix", self.target_mix)):
            if len(mix) != len(self.risks) or min(mix) < 0 or not abs(sum(mix) - 1) < 1e-9:
                raise InputError(
                    f"{name} is {mix}; a share for each of {len(self.risks)} kinds expected",
                    "shares are at least 0 and sum to 1",
                )

    def tail(
        self, levels: Real[np.ndarray, " G"] | Sequence[float | int]
    ) -> Float[np.ndarray, " G"]:
        """P(R >= level) in the source network."""
        return self._mixed(levels, self.mix)

    def target_tail(
        self, levels: Real[np.ndarray, " G"] | Sequence[float | int]
    ) -> Float[np.ndarray, " G"]:
        """P(R >= level) when the kinds are mixed as in the target network."""
        return self._mixed(levels, self.target_mix)

    def _mixed(self, levels: object, mix: tuple[float, ...]) -> np.ndarray:
        grid = np.asarray(levels, dtype=float)
        total = np.zeros(grid.shape)
        for share, risks in zip(mix, self.risks, strict=True):
            below = np.searchsorted(np.sort(risks), grid, "left")
            total += share * (len(risks) - below) / len(risks)
        return total

    def worst_tail(
        self, levels: Real[np.ndarray, " G"] | Sequence[float | int], eps: float, divergence: str
    ) -> Float[np.ndarray, " G"]:
        """The largest P(R >= level) in the ball around the source; Wasserstein: mean rise eps."""
        if divergence != "wasserstein":
            return worst_case_tail(np.minimum(self.tail(levels), 1.0), eps, divergence)
        values = np.concatenate(self.risks)
        shares = [np.full(len(r), m / len(r)) for m, r in zip(self.mix, self.risks, strict=True)]
        return transport_tail(values, levels, eps, np.concatenate(shares))

    def radius(self, divergence: FDivergence) -> float:
        """Divergence of the target's mix from the source's: the ball that holds the target."""
        check_divergence(divergence)
        p, q = np.array(self.mix), np.array(self.target_mix)
        if divergence == "chi2":
            return float(((q - p) ** 2 / p).sum())
        return float((q * np.log(q / p)).sum())

    def draw(
        self, n: int | None, *, n_clients: int = 500, rng: np.random.Generator | None = None
    ) -> tuple[Float[np.ndarray, " K"], Int[np.ndarray, " K"] | None]:
        """Independent clients, and their error rates on n samples each (None: exact risks).

        n independent samples with 0-1 losses give a binomial number of errors; it is drawn as such.

        Raises
        ------
        InputError
            Fewer than one sample or client.
        """
        for name, number in (("n", n), ("n_clients", n_clients)):
            if number is not None and number < 1:
                raise InputError(f"{name} is {number}; at least 1 expected")
        rng = rng or np.random.default_rng(0)
        kind = rng.choice(len(self.mix), size=n_clients, p=self.mix)
        place = rng.random(n_clients)
        sizes = np.array([len(r) for r in self.risks])[kind]
        member = (place * sizes).astype(int)
        risks = np.empty(n_clients)
        for k, own in enumerate(self.risks):
            risks[kind == k] = own[member[kind == k]]
        if n is None:
            return risks, None
        return rng.binomial(n, risks) / n, np.full(n_clients, n)


def beta_fleet(a: float = 2.0, b: float = 6.0, members: int = 20_000) -> Fleet:
    """Clients whose risk follows a Beta law, as ``members`` equally likely quantiles of it.

    Parameters
    ----------
    a, b : float
    members : int

    Raises
    ------
    InputError
        Parameters that are not positive.

    Examples
    --------
    >>> beta_fleet().tail([0.25, 0.5]).round(3)
    array([0.445, 0.062])
    """
    if not (a > 0 and b > 0 and members >= 1):
        raise InputError(f"a={a}, b={b}, members={members}; positive numbers expected")
    risks = stats.beta(a, b).ppf((np.arange(members) + 0.5) / members)
    return Fleet(f"Beta({a:g}, {b:g})", (risks,), (1.0,), (1.0,))


def image_fleet(
    data: str = "fashion-mnist",
    *,
    model: ModelName = "mlp",
    n_clients: int = 500,
    matrix_std: float = 0.15,
    bias_std: float = 0.1,
    seed: int = 0,
    folder: str | Path | None = None,
) -> Fleet:
    """A classifier of images, and clients of two kinds that it serves well and badly.

    Mild clients have class proportions from Dirichlet(5). Severe ones have Dirichlet(0.4) and see
    every image as ``A @ image + B`` with A = I + N(0, matrix_std), B = N(0, bias_std) of their own.
    The source network is 80 % mild, the target 50 %: chi-square 0.5625, KL 0.2231. A client's
    true risk is its error rate over the held-out images, weighted by its class proportions.

    Parameters
    ----------
    data : {"fashion-mnist", "digits", "cifar10"}
        Fashion-MNIST from Debian's package, the digits of scikit-learn, or your own CIFAR-10.
    model : {"linear", "mlp", "cnn"}
        Logistic regression, one hidden layer of 64, or the paper's three convolutions (PyTorch).
    n_clients : int
        Members of each kind.
    matrix_std, bias_std : float
    seed : int
    folder : str or Path, optional
        For CIFAR-10: holds ``cifar-10-batches-bin``.

    Raises
    ------
    InputError
        The images are not installed (the hint says how), or no such data or model.

    Examples
    --------
    >>> fleet = image_fleet("digits", model="linear", n_clients=50)
    >>> bool(fleet.risks[0].mean() < fleet.risks[1].mean())  # severe clients are served worse
    True
    """
    if model not in get_args(ModelName):
        raise InputError(f"no model {model!r}", f"there are {', '.join(get_args(ModelName))}")
    images = cifar10(folder) if data == "cifar10" else load_images(data)
    rng = np.random.default_rng([seed, len(images.labels)])
    order = rng.permutation(len(images.labels))
    n_pool = min(1000, len(order) // 2)
    pool, train = order[:n_pool], order[n_pool : n_pool + 20_000]
    predict = _trained(model, images.images[train], images.labels[train], images.n_classes, seed)
    x, y = images.images[pool], images.labels[pool]
    mild = _mixed_risks(predict(x) != y, y, n_clients, MILD_ALPHA, images.n_classes, rng)
    severe = np.empty(n_clients)
    for k in range(n_clients):
        wrong = predict(_shifted(x, matrix_std, bias_std, rng)) != y
        severe[k] = _mixed_risks(wrong, y, 1, SEVERE_ALPHA, images.n_classes, rng)[0]
    return Fleet(images.name, (mild, severe), SOURCE_MIX, TARGET_MIX)


def record_fleet(
    frame: pd.DataFrame, target: str | None = None, *, n_clients: int = 500, seed: int = 0
) -> Fleet:
    """Your own table of records, spread over clients: what would a certificate say?

    Half the records train a logistic regression for ``target``, the other half are the pool. Mild
    clients mix the classes by Dirichlet(5), severe ones by Dirichlet(0.4) and with every numeric
    column off by half a standard deviation, in a direction of their own (a sensor, a laboratory).

    Parameters
    ----------
    frame : pandas.DataFrame
        Numeric columns are features.
    target : str, optional
        The last column by default. A number with more than ten values is cut at its median.
    n_clients : int
        Members of each kind.
    seed : int

    Raises
    ------
    InputError
        Fewer than 40 records, no numeric column besides the target, or a single class.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> record_fleet(load_wine(as_frame=True).frame, n_clients=20).name
    'records by target'
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    target = target or str(frame.columns[-1])
    x, y, n_classes = _features_and_classes(frame, target)
    rng = np.random.default_rng([seed, len(frame)])
    order = rng.permutation(len(y))
    train, pool = order[: len(y) // 2], order[len(y) // 2 :]
    if len(set(y[train].tolist())) < 2:
        raise InputError(f"column {target!r}: one class only in half the records, two expected")
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    model.fit(x[train], y[train])
    spread = x.std(axis=0)
    mild = _mixed_risks(
        model.predict(x[pool]) != y[pool], y[pool], n_clients, MILD_ALPHA, n_classes, rng
    )
    severe = np.empty(n_clients)
    for k in range(n_clients):
        off = 0.5 * spread * rng.choice([-1.0, 1.0], size=x.shape[1])
        wrong = model.predict(x[pool] + off) != y[pool]
        severe[k] = _mixed_risks(wrong, y[pool], 1, SEVERE_ALPHA, n_classes, rng)[0]
    return Fleet(f"records by {target}", (mild, severe), SOURCE_MIX, TARGET_MIX)


def _features_and_classes(frame: pd.DataFrame, target: str) -> tuple[np.ndarray, np.ndarray, int]:
    if target not in frame:
        raise InputError(f"no column {target!r}", f"columns: {', '.join(map(str, frame.columns))}")
    if len(frame) < FEWEST_RECORDS:
        raise InputError(f"{len(frame)} records; at least {FEWEST_RECORDS} are needed")
    features = frame.drop(columns=target).select_dtypes("number")
    if not features.shape[1]:
        raise InputError(f"no numeric column besides {target!r}")
    values = frame[target]
    if values.dtype.kind in "iuf" and values.nunique() > CLASSES_OF_A_NUMBER:
        values = values > values.median()
    classes, y = np.unique(values.astype(str), return_inverse=True)
    if len(classes) < 2:
        raise InputError(f"column {target!r} holds one value only; two classes expected")
    return features.to_numpy(dtype=float), y, len(classes)


def _mixed_risks(
    wrong: np.ndarray,
    y: np.ndarray,
    n_clients: int,
    alpha: float,
    n_classes: int,
    rng: np.random.Generator,
) -> Float[np.ndarray, " n_clients"]:
    """Error rates of clients with Dirichlet class proportions, from errors on a common pool."""
    counts = np.bincount(y, minlength=n_classes)
    by_class = np.bincount(y, weights=wrong, minlength=n_classes) / np.maximum(counts, 1)
    proportions = class_proportions(n_clients, n_classes, alpha, rng) * (counts > 0)
    return proportions @ by_class / np.maximum(proportions.sum(axis=1), 1e-12)


def _shifted(
    x: np.ndarray, matrix_std: float, bias_std: float, rng: np.random.Generator
) -> np.ndarray:
    """The affine shift of one client; every colour channel alike."""
    if x.ndim == 3:
        return affine_shift(x, matrix_std, bias_std, rng)
    stream = rng.bit_generator.random_raw()
    channels = [
        affine_shift(x[..., c], matrix_std, bias_std, np.random.default_rng(stream))
        for c in range(x.shape[-1])
    ]
    return np.stack(channels, axis=-1)


# --- the models ----------------------------------------------------------------------------------


def _trained(model: str, x: np.ndarray, y: np.ndarray, n_classes: int, seed: int) -> Predictor:
    if model == "cnn":
        return _trained_cnn(x, y, n_classes, seed)
    if model == "linear":
        from sklearn.linear_model import LogisticRegression

        fitted = LogisticRegression(max_iter=300)
    else:
        from sklearn.neural_network import MLPClassifier

        epochs = max(8, 160_000 // len(x))  # about 800 steps however small the data
        fitted = MLPClassifier(
            (64,), batch_size=200, max_iter=epochs, n_iter_no_change=epochs, random_state=seed
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # stopping early is meant
        fitted.fit(x.reshape(len(x), -1), y)
    return lambda images: fitted.predict(images.reshape(len(images), -1))


def _trained_cnn(x: np.ndarray, y: np.ndarray, n_classes: int, seed: int) -> Predictor:
    """Three convolutions (32, 64, 128), a hidden layer of 128; SGD .01, momentum .9, 5 epochs."""
    try:
        import torch
        from torch import nn
    except ImportError as error:
        raise MissingExtra(
            "model='cnn' needs PyTorch", "install it with: pip install 'practicum[torch]'"
        ) from error
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for width in (32, 64, 128):
        layers += [nn.LazyConv2d(width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2, ceil_mode=True)]
    net = nn.Sequential(
        *layers, nn.Flatten(), nn.LazyLinear(128), nn.ReLU(), nn.Linear(128, n_classes)
    ).to(device)

    def batch(images: np.ndarray) -> torch.Tensor:
        images = images[..., None] if images.ndim == 3 else images
        return torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2))).to(device)

    inputs, labels = batch(x), torch.from_numpy(y.astype(np.int64)).to(device)
    net(inputs[:2])  # gives the lazy layers their shapes
    optimiser = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(5):
        for rows in torch.randperm(len(labels), generator=generator).split(100):
            optimiser.zero_grad()
            rows = rows.to(device)
            nn.functional.cross_entropy(net(inputs[rows]), labels[rows]).backward()
            optimiser.step()

    @torch.no_grad()
    def predict(images: np.ndarray) -> np.ndarray:
        return net(batch(images.astype(np.float32))).argmax(1).cpu().numpy()

    return predict


def cifar10(folder: str | Path | None) -> LabelledImages:
    """Your own copy of CIFAR-10 in its binary version (the Python version is pickled: not read).

    Parameters
    ----------
    folder : str or Path
        Holds ``cifar-10-batches-bin/data_batch_1.bin`` to ``_5.bin`` and ``test_batch.bin``.

    Raises
    ------
    InputError
        The files are not there or have another size.
    """
    root = Path(folder or ".") / "cifar-10-batches-bin"
    names = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]
    rows = []
    for name in names:
        try:
            raw = np.fromfile(root / name, np.uint8)
        except OSError as error:
            raise InputError(
                f"{root / name}: cannot be read ({error.strerror})",
                "CIFAR-10, binary version: unpack cifar-10-binary.tar.gz, and name the folder that "
                "holds cifar-10-batches-bin",
            ) from error
        if not len(raw) or len(raw) % 3073:
            raise InputError(f"{root / name}: {len(raw)} bytes; a multiple of 3073 expected")
        rows.append(raw.reshape(-1, 3073))
    data = np.concatenate(rows)
    images = data[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1).astype(np.float32) / 255
    return LabelledImages(images, data[:, 0].astype(np.int64), 10, "cifar10")
