"""Local training of a small convolutional network, all clients at once, on a GPU if there is one.

The counterpart of :class:`~practicum.federated.fedgwc.training.LocalSGD` for images in colour: the
network of the published experiments, one copy of the parameters a client, gradients by
``torch.func.vmap``. Parameters travel as one float32 row a client.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from practicum.data.clients import ClientData
from practicum.errors import InputError, MissingExtra

try:
    import torch
    from torch import nn
    from torch.func import functional_call, grad_and_value, vmap
except ImportError as missing:
    raise MissingExtra(
        "the convolutional network needs PyTorch, which is not installed",
        "install it with: pip install 'practicum[torch]'",
    ) from missing


def small_cnn(side: int, channels: int, n_classes: int) -> nn.Module:
    """Two 5 x 5 convolutions of 64 maps, each pooled, then 384-192-classes.

    Parameters
    ----------
    side, channels : int
        Of the images (32 and 3 for CIFAR).
    n_classes : int

    Raises
    ------
    InputError
        Images too small for two convolutions (under 16 pixels).

    Examples
    --------
    >>> sum(p.numel() for p in small_cnn(32, 3, 100).parameters())
    815332
    """
    inner = ((side - 4) // 2 - 4) // 2
    if inner < 1:
        raise InputError(f"images of {side} pixels; two 5 x 5 convolutions need at least 16")
    return nn.Sequential(
        nn.Conv2d(channels, 64, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(64, 64, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64 * inner * inner, 384),
        nn.ReLU(),
        nn.Linear(384, 192),
        nn.ReLU(),
        nn.Linear(192, n_classes),
    )


class LocalCNN:
    """Mini-batch SGD of :func:`small_cnn` on each client's own images.

    Batches are drawn on the CPU from (seed, round, client), as for softmax regression; on a GPU
    sums are ordered differently, so numbers agree to rounding, not to the bit.

    Parameters
    ----------
    data : ClientData
        ``train_x`` of shape (K, n, side * side * channels), in [0, 1].
    channels : int
    steps, batch_size, learning_rate, weight_decay, proximal
        7, 64, 0.01, 4e-4 and 0 in the published configuration.
    augment : bool
        Random crops (padding 4) and horizontal flips.
    seed : int
    device : str, optional
        ``"cuda"`` where available.

    Raises
    ------
    InputError
        The rows are not square images of so many channels.

    Examples
    --------
    >>> from practicum.data.clients import LabelledImages, client_data, partition
    >>> rng = np.random.default_rng(0)
    >>> images = LabelledImages(rng.random((90, 16, 16, 1), np.float32), np.arange(90) % 3, 3, "r")
    >>> data = client_data(images, partition(images.labels, 3, "iid", n_per_client=20), n_test=8)
    >>> cnn = LocalCNN(data, channels=1, steps=2, batch_size=4, device="cpu")
    >>> models, losses = cnn.train(np.stack([cnn.initial()] * 2), np.array([0, 2]), round=0)
    >>> models.shape[0], losses.shape, cnn.accuracy(np.stack([cnn.initial()] * 3)).shape
    (2, (2, 2), (3,))
    """

    def __init__(
        self,
        data: ClientData,
        *,
        channels: int = 3,
        steps: int = 7,
        batch_size: int = 64,
        learning_rate: float = 0.01,
        weight_decay: float = 4e-4,
        proximal: float = 0.0,
        augment: bool = True,
        seed: int = 0,
        device: str | None = None,
    ) -> None:
        pixels = data.train_x.shape[2] // channels
        self.side = round(pixels**0.5)
        if self.side**2 * channels != data.train_x.shape[2]:
            raise InputError(f"{data.train_x.shape[2]} numbers are no square image of {channels}")
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self.channels, self.steps, self.batch_size = channels, steps, batch_size
        self.learning_rate, self.weight_decay = learning_rate, weight_decay
        self.proximal, self.augment, self.seed = proximal, augment, seed
        self.sizes, self._test_size = np.asarray(data.train_size), np.asarray(data.test_size)
        self._x, self._y = self._images(data.train_x), self._labels(data.train_y)
        self._test_x, self._test_y = self._images(data.test_x), self._labels(data.test_y)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self._net = small_cnn(self.side, channels, data.n_classes).to(self.device)
        self._names = [name for name, _ in self._net.named_parameters()]
        self._shapes = [p.shape for p in self._net.parameters()]
        self._splits = [p.numel() for p in self._net.parameters()]
        self.shape = (sum(self._splits),)
        self._gradients = vmap(grad_and_value(self._loss))

    def _images(self, x: np.ndarray) -> torch.Tensor:
        shape = (*x.shape[:2], self.side, self.side, self.channels)
        return torch.from_numpy(x.reshape(shape)).permute(0, 1, 4, 2, 3).to(self.device)

    def _labels(self, y: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(y)).to(self.device)

    def initial(self) -> Float[np.ndarray, " P"]:
        """PyTorch's random initial weights, the same for every client and arm of a seed."""
        parts = [p.detach().reshape(-1) for p in self._net.parameters()]
        return torch.cat(parts).cpu().numpy()

    def _loss(
        self, flat: torch.Tensor, start: torch.Tensor, x: torch.Tensor, y: torch.Tensor
    ) -> torch.Tensor:
        """Cross-entropy; the penalties' gradients are added where the step is taken."""
        return nn.functional.cross_entropy(self._forward(flat, x), y)

    def _forward(self, flat: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        parts = torch.split(flat, self._splits)
        named = zip(self._names, parts, self._shapes, strict=True)
        parameters = {name: part.reshape(shape) for name, part, shape in named}
        return functional_call(self._net, parameters, (x,))

    def train(
        self, models: Float[np.ndarray, "L P"], clients: Int[np.ndarray, " L"], round: int
    ) -> tuple[Float[np.ndarray, "L P"], Float[np.ndarray, "L S"]]:
        """One round of local training; see :class:`LocalSGD`."""
        start = torch.from_numpy(np.ascontiguousarray(models)).to(self.device)
        flat, losses = start.clone(), []
        who = torch.as_tensor(clients, device=self.device)[:, None]
        rngs = [np.random.default_rng([self.seed, round, int(k)]) for k in clients]
        rows = np.stack([self._rows(rng, int(k)) for rng, k in zip(rngs, clients, strict=True)])
        for step in range(self.steps):
            chosen = torch.from_numpy(rows[:, step]).to(self.device)
            x = (
                self._augmented(self._x[who, chosen], rngs)
                if self.augment
                else self._x[who, chosen]
            )
            gradient, loss = self._gradients(flat, start, x, self._y[who, chosen])
            gradient = gradient + self.weight_decay * flat + self.proximal * (flat - start)
            flat = flat - self.learning_rate * gradient
            losses.append(loss)
        return flat.cpu().numpy(), torch.stack(losses, 1).cpu().numpy()

    def _rows(self, rng: np.random.Generator, client: int) -> np.ndarray:
        own, wanted = int(self.sizes[client]), self.steps * self.batch_size
        order = np.concatenate([rng.permutation(own) for _ in range(-(-wanted // own))])
        return order[:wanted].reshape(self.steps, self.batch_size)

    def _augmented(self, x: torch.Tensor, rngs: list[np.random.Generator]) -> torch.Tensor:
        """A random crop and flip for every image: one gather on the padded images."""
        lanes, batch = x.shape[:2]
        moves = np.stack([rng.integers(0, [9, 9, 2], (batch, 3)) for rng in rngs])
        top, left, flip = torch.from_numpy(moves).to(x.device).unbind(-1)
        padded = nn.functional.pad(x, (4, 4, 4, 4))
        line = torch.arange(self.side, device=x.device)
        columns = torch.where(flip[..., None].bool(), line.flip(0), line) + left[..., None]
        rows = line + top[..., None]
        a = torch.arange(lanes, device=x.device)[:, None, None, None]
        b = torch.arange(batch, device=x.device)[None, :, None, None]
        moved = padded.permute(0, 1, 3, 4, 2)[a, b, rows[..., None], columns[..., None, :]]
        return moved.permute(0, 1, 4, 2, 3)

    @torch.no_grad()
    def losses(
        self, models: Float[np.ndarray, "L P"], clients: Int[np.ndarray, " L"]
    ) -> Float[np.ndarray, " L"]:
        """Mean loss of each model on all training data of its client."""
        out = []
        for model, k in zip(models, clients, strict=True):
            own = int(self.sizes[k])
            logits = self._forward(torch.from_numpy(model).to(self.device), self._x[k, :own])
            out.append(float(nn.functional.cross_entropy(logits, self._y[k, :own])))
        return np.array(out)

    @torch.no_grad()
    def accuracy(self, models: Float[np.ndarray, "K P"]) -> Float[np.ndarray, " K"]:
        """Accuracy of each client's model on that client's test data."""
        out = []
        for k, model in enumerate(models):
            own = int(self._test_size[k])
            logits = self._forward(torch.from_numpy(model).to(self.device), self._test_x[k, :own])
            out.append(float((logits.argmax(1) == self._test_y[k, :own]).float().mean()))
        return np.array(out)
