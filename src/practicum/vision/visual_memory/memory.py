"""A memory of labelled vectors: add, remove, ask, explain."""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from practicum.data.images import as_rgb, file_key, from_arrays, load_image, pixel_key, thumbnail
from practicum.errors import InputError
from practicum.models.vision import FeatureCache
from practicum.vision.visual_memory import hygiene
from practicum.vision.visual_memory.derived import DerivedIndex, check_kind
from practicum.vision.visual_memory.explain import LONGEST, Explanation, FlipSet, flip_set
from practicum.vision.visual_memory.receipt import Receipt
from practicum.vision.visual_memory.residue import ErasureReport, find_bytes
from practicum.vision.visual_memory.search import SPARE, _distances, nearest, normalised
from practicum.vision.visual_memory.store import (
    ALIVE,
    PRUNED,
    RETIRED,
    SEGMENT,
    SMALL,
    Row,
    Store,
    now,
)
from practicum.vision.visual_memory.votes import (
    VOTES,
    accuracy_curves,
    class_scores,
    confidence,
    fit_temperature,
    probabilities,
    vote_curve,
    vote_weights,
)

if TYPE_CHECKING:
    import pandas as pd

    from practicum.models.vision import Encoder

Labels = Sequence[Any] | np.ndarray
META = ("group", "source", "time", "weight")
PICTURE = 64  # pixels of a kept thumbnail


class VisualMemory:
    """Labelled vectors, and decisions by their nearest neighbours.

    Nothing is trained: a class is taught by adding rows and forgotten by removing them.

    Parameters
    ----------
    path : str or Path, optional
        A folder ``NAME.vm``, made if it is not there; without it everything is in memory.
    dim : int, optional
        Numbers a vector; taken from the first rows.
    dtype : {"float32", "float16"}, optional
        How vectors are stored; float16 halves the disk and costs about 1e-4 in distance.
    index : {"exact", "faiss-ivf", "hnsw", "usearch"}
        What proposes neighbours. All but ``exact`` are approximate, built when first needed and
        again after every change; distances and order are always computed from the rows.
    vote : {"rank", "softmax", "distance", "plurality"}
    alpha : float
        Of the rank vote ``1 / (rank + alpha)``, ranks from 0.
    k : int
        Neighbours that vote; all rows where there are fewer.
    encoder : Encoder, optional
        See :func:`practicum.models.vision.get`; needed for images.
    read_only : bool
        Any number of readers may be open beside the one writer.
    random_state : int
        Seed of approximate indexes.

    Raises
    ------
    InputError
        See :class:`~practicum.vision.visual_memory.store.Store`.

    Examples
    --------
    >>> memory = VisualMemory()
    >>> memory.add(np.array([[1, 0], [0.9, 0.1], [0, 1.0]]), labels=["cat", "cat", "dog"])
    ['g0-0', 'g0-1', 'g0-2']
    >>> memory.predict(np.array([[1, 0.1]]), k=1).tolist()
    ['cat']
    """

    def __init__(
        self,
        path: str | Path | None = None,
        dim: int | None = None,
        dtype: str | None = None,
        *,
        index: str = "exact",
        vote: str = "rank",
        alpha: float = 2.0,
        k: int = 50,
        encoder: Encoder | None = None,
        read_only: bool = False,
        create: bool = True,
        random_state: int = 0,
    ) -> None:
        vote_weights(np.zeros((1, 1)), vote, alpha=alpha)  # refuses what is not known
        if k < 1:
            raise InputError(f"k={k}: at least 1")
        self.index, self.vote, self.alpha, self.k = check_kind(index), vote, alpha, k
        self.encoder, self.random_state = encoder, random_state
        self.problems: dict[str, str] = {}
        self.snapshot_name: str | None = None
        self.store = Store(path, dim, dtype, read_only=read_only, create=create)
        self._load()
        if encoder is not None and self.store.state.get("encoder"):
            self._same_encoder(encoder)

    # --- state -----------------------------------------------------------------------------------

    def _load(self) -> None:
        """The columns of all rows, by slot."""
        rows = self.store.rows()
        m = self.store.state["next"]
        self.ids: list[str | None] = [None] * m
        self._labels: list[Any] = [None] * m
        self._meta: dict[str, list[Any]] = {
            name: [None] * m for name in ("group", "source", "time")
        }
        self._keys: list[str | None] = [None] * m
        self._weight, self._trust = np.ones(m), np.ones(m)
        self._state = np.zeros(m, dtype=np.int8)
        for slot, one, label, group, source, when, weight, trust, state, key, _ in rows:
            self.ids[slot], self._labels[slot], self._keys[slot] = one, label, key
            self._meta["group"][slot], self._meta["source"][slot] = group, source
            self._meta["time"][slot] = when
            self._weight[slot], self._trust[slot], self._state[slot] = weight, trust, state
        self._slot = {one: slot for slot, one in enumerate(self.ids) if one is not None}
        self._refresh()

    def _refresh(self) -> None:
        """What follows from the columns: who is alive, the classes, their codes."""
        if self.snapshot_name is None:
            self._alive = self._state == ALIVE
        else:
            self._alive = np.zeros(len(self.ids), dtype=bool)
            self._alive[self.store.snapshot_slots(self.snapshot_name)] = True
        there = sorted({self._labels[i] for i in np.flatnonzero(self._alive)})
        self._codes = np.full(len(self.ids), -1, dtype=np.intp)
        code = {label: i for i, label in enumerate(there)}
        for i in np.flatnonzero(self._alive):
            self._codes[i] = code[self._labels[i]]
        self.classes_ = np.array(there) if there else np.array([], dtype=str)
        self._derived: DerivedIndex | None = None
        self._own: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def _sync(self) -> None:
        """A reader looks whether the writer has changed anything."""
        if self.store.read_only and self.store.changed():
            self._load()

    def __len__(self) -> int:
        return int(self._alive.sum())

    def __contains__(self, one: str) -> bool:
        return one in self._slot and bool(self._alive[self._slot[one]])

    def __enter__(self) -> VisualMemory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        where = self.store.path or "in memory"
        return f"<VisualMemory {where}: {len(self)} rows, {len(self.classes_)} classes>"

    def close(self) -> None:
        """Give the writer's lock back."""
        self.store.close()

    @property
    def digest(self) -> str:
        """Hex digits that depend on the rows that are there (retired ones too), on nothing else."""
        return self.store.state["digest"]

    def frame(self) -> pd.DataFrame:
        """The rows that are alive: id, label, group, source, time, weight, trust."""
        import pandas as pd

        at = np.flatnonzero(self._alive)
        columns = {"id": [self.ids[i] for i in at], "label": [self._labels[i] for i in at]}
        columns |= {name: [values[i] for i in at] for name, values in self._meta.items()}
        return pd.DataFrame(columns | {"weight": self._weight[at], "trust": self._trust[at]})

    def vectors(self, ids: Labels | None = None) -> np.ndarray:
        """Stored vectors of unit length, shape (n, d), of all living rows or of these ids."""
        at = np.flatnonzero(self._alive) if ids is None else np.array(self._slots_of(ids), np.intp)
        if self.store.segments is None:
            return np.empty((0, 0), dtype=np.float32)
        return np.asarray(self.store.segments[at])

    # --- adding ----------------------------------------------------------------------------------

    def add(
        self,
        X: np.ndarray | None = None,
        *,
        images: Sequence[Any] | None = None,
        labels: Labels | None = None,
        ids: Labels | None = None,
        meta: Mapping[str, Any] | None = None,
        encoder: Encoder | None = None,
        thumbnails: bool = True,
        progress: Callable[[int, int], None] | None = None,
    ) -> list[str]:
        """Add rows; on return they are on the disk.

        Parameters
        ----------
        X : array of shape (n, d), optional
            Vectors of your own; they are normalised.
        images : sequence, optional
            Instead of X: paths, Pillow images or arrays. Files that cannot be read are left out
            with a warning, and named in ``problems``.
        labels : sequence of str or of int
            One a row.
        ids : sequence of str, optional
            Unique; the paths for files, numbers otherwise.
        meta : mapping, optional
            ``group``, ``source``, ``time``, ``weight`` -> one value a row.
        encoder : Encoder, optional
            That of the memory by default. With X: the one these vectors were made with.
        thumbnails : bool
            Keep a small picture of each image for explanations.
        progress : callable, optional
            ``progress(done, to_do)`` while images are encoded.

        Returns
        -------
        list of str
            The ids of the rows added.

        Raises
        ------
        InputError
            Both or neither of X and images; another width or encoder than the memory's; labels
            that are missing, fractional or of another type; an id that is taken; NaN or zero
            vectors; no image could be read.
        """
        self._refuse_view()
        if (X is None) == (images is None):
            raise InputError("give either vectors X or images", "memory.add(X, labels=...)")
        encoder = encoder or (self.encoder if images is not None else None)
        self.problems = {}
        if images is not None:
            X, kept, keys, small, names = self._encode(images, encoder, thumbnails, progress)
            ids = names if ids is None else [str(ids[i]) for i in kept]
            given = list(labels) if labels is not None else None
            labels = None if given is None else _picked(given, kept, len(images), "labels")
            meta = {k: _picked(list(v), kept, len(images), k) for k, v in (meta or {}).items()}
        else:
            X = np.asarray(X)
            keys, small = [None] * len(X), [None] * len(X)
        labels = self._check_labels(labels, len(X))
        ids = self._check_ids(ids, len(X))
        meta = _check_meta(meta, len(X))
        self._check_encoder(encoder, images is not None)
        unit = normalised(X, ids)
        rows = [
            Row(
                ids[i],
                labels[i],
                unit[i],
                meta["group"][i],
                meta["source"][i],
                meta["time"][i],
                meta["weight"][i],
                keys[i],
                small[i],
            )
            for i in range(len(ids))
        ]
        self._note_encoder(encoder, labels)
        self.store.append(rows)
        self._load_new(rows)
        return list(ids)

    def _load_new(self, rows: Sequence[Row]) -> None:
        first = len(self.ids)
        for i, row in enumerate(rows):
            self.ids.append(row.id)
            self._labels.append(row.label)
            self._keys.append(row.key)
            self._slot[row.id] = first + i
            for name, value in (("group", row.group), ("source", row.source), ("time", row.time)):
                self._meta[name].append(value)
        self._weight = np.concatenate([self._weight, [row.weight for row in rows]])
        self._trust = np.concatenate([self._trust, np.ones(len(rows))])
        self._state = np.concatenate([self._state, np.full(len(rows), ALIVE, np.int8)])
        self._refresh()

    def _encode(self, images, encoder, thumbnails, progress):
        """Vectors, positions that could be read, content hashes, thumbnails, names."""
        if encoder is None:
            raise InputError(
                "images need an encoder", "VisualMemory(..., encoder=practicum.models.vision.get())"
            )
        names = [str(x) if isinstance(x, str | Path) else None for x in images]
        problems: dict[int, str] = {}
        loaders, keys = [], []
        for i, image in enumerate(images):
            loader, key = _loader(image, i, problems)
            loaders.append(loader)
            keys.append(key)
        vectors = encoder.encode(loaders, keys, progress=progress, problems=problems)
        small: list[bytes | None] = [None] * len(images)
        if thumbnails:
            for i, load in enumerate(loaders):
                if i not in problems:
                    small[i] = _thumbnail(load, i, problems)
        kept = [i for i in range(len(images)) if i not in problems]
        self.problems = {names[i] or f"image {i}": why for i, why in sorted(problems.items())}
        if problems:
            few = "; ".join(list(self.problems.values())[:3])
            more = f"; and {len(problems) - 3} more" if len(problems) > 3 else ""
            if not kept:
                raise InputError(f"none of {len(images)} images can be read: {few}{more}")
            warnings.warn(
                f"left out {len(problems)} of {len(images)} images: {few}{more}",
                UserWarning,
                stacklevel=3,
            )
        generation = self.store.state["generation"]
        ids = [names[i] or f"g{generation}-{i}" for i in kept]
        return vectors[kept], kept, [keys[i] for i in kept], [small[i] for i in kept], ids

    def _check_labels(self, labels: Labels | None, n: int) -> list[str | int]:
        if labels is None:
            raise InputError("labels are missing", "give one label a row: labels=[...]")
        found = [x.item() if isinstance(x, np.generic) else x for x in labels]
        if len(found) != n:
            raise InputError(f"{len(found)} labels for {n} rows")
        for i, x in enumerate(found):
            if isinstance(x, bool) or not isinstance(x, str | int):
                raise InputError(
                    f"label {i} is {x!r} ({type(x).__name__})",
                    "labels are text or whole numbers; numbers with a fraction are no classes",
                )
        kinds = {type(x).__name__ for x in found}
        own = self.store.state.get("labels")
        if len(kinds | {own} - {None}) > 1:
            raise InputError(
                f"labels of types {', '.join(sorted(kinds | {own} - {None}))} in one memory",
                "make them all text, or all whole numbers",
            )
        return found

    def _check_ids(self, ids: Labels | None, n: int) -> list[str]:
        if ids is None:
            generation = self.store.state["generation"]
            return [f"g{generation}-{i}" for i in range(n)]
        found = [str(one) for one in ids]
        if len(found) != n:
            raise InputError(f"{len(found)} ids for {n} rows")
        seen: set[str] = set()
        for one in found:
            if one in seen or one in self._slot:
                where = "twice in this batch" if one in seen else self._holder(one)
                raise InputError(f"the id {one!r} is {where}", "ids are unique")
            seen.add(one)
        return found

    def _holder(self, one: str) -> str:
        state = self._state[self._slot[one]]
        words = {ALIVE: "in the memory", RETIRED: "in the memory, retired", PRUNED: "pruned"}
        return words.get(int(state), "in the memory") + " already"

    def _check_encoder(self, encoder: Encoder | None, images: bool) -> None:
        own = self.store.state.get("encoder")
        if not len(self._slot) and not own:
            return
        if encoder is not None and own:
            self._same_encoder(encoder)
        elif own:
            raise InputError(
                f"the memory was made with {own['name']} ({own['fingerprint']}), the vectors say "
                "not with what",
                "pass encoder=... if they are its",
            )
        elif encoder is not None:
            raise InputError(
                "the memory holds vectors of your own, not of an encoder",
                "vectors of two makers cannot be compared: use another memory",
            )

    def _same_encoder(self, encoder: Encoder) -> None:
        own = self.store.state["encoder"]
        if own["fingerprint"] != encoder.fingerprint:
            raise InputError(
                f"the memory was made with {own['name']} ({own['fingerprint']}), "
                f"this is {encoder.name} ({encoder.fingerprint})",
                "weights and preprocessing must be the same: size, crop and network",
            )

    def _note_encoder(self, encoder: Encoder | None, labels: Sequence[Any]) -> None:
        facts: dict[str, Any] = {}
        if encoder is not None and not self.store.state.get("encoder"):
            facts["encoder"] = encoder_facts(encoder)
        if encoder is not None and encoder.cache is not None:
            paths, own = self.store.state.get("caches", []), str(encoder.cache.path.absolute())
            facts |= {"caches": [*paths, own]} if own not in paths else {}
        if not self.store.state.get("labels") and labels:
            facts["labels"] = type(labels[0]).__name__
        if facts:
            self.store.note(**facts)

    # --- asking ----------------------------------------------------------------------------------

    def _queries(self, Q: Any) -> np.ndarray:
        self._sync()
        if isinstance(Q, np.ndarray) or (
            isinstance(Q, Sequence) and len(Q) and isinstance(Q[0], float | int | list | tuple)
        ):
            Q = np.asarray(Q)
            vectors = Q[None] if Q.ndim == 1 else Q
        else:
            images = [Q] if isinstance(Q, str | Path) or not isinstance(Q, Sequence) else list(Q)
            if self.encoder is None:
                raise InputError("images need an encoder", "VisualMemory(..., encoder=...)")
            if self.store.state.get("encoder"):
                self._same_encoder(self.encoder)
            elif len(self._slot):
                raise InputError("the memory holds vectors of your own: ask with vectors")
            pairs = [_loader(image, i, None) for i, image in enumerate(images)]
            vectors = self.encoder.encode([a for a, _ in pairs], [b for _, b in pairs])
        if self.store.dim is not None and vectors.ndim == 2 and vectors.shape[1] != self.store.dim:
            raise InputError(self.store._width(vectors.shape[1]), "ask with its own kind of vector")
        return normalised(vectors)

    def _k(self, k: int | None) -> int:
        """The number of voters: what was asked, or the memory's own as far as there are rows."""
        n = len(self)
        if n == 0:
            raise InputError("the memory is empty", "add rows first")
        if k is None:
            return min(self.k, n)
        if not 1 <= k <= n:
            raise InputError(f"k={k} with {n} rows in the memory", f"expected 1 to {n}")
        return int(k)

    def _neighbours(self, unit: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        alive = None if self._alive.all() else self._alive
        if self.index == "exact":
            return nearest(unit, self.store.segments, k, alive=alive)
        slots = self._index().propose(unit, k + SPARE)
        if slots.shape[1] < k:
            return nearest(unit, self.store.segments, k, alive=alive)
        slots = np.sort(slots, axis=1)
        d = _distances(unit, self.store.segments, slots)
        d[slots < 0] = np.inf
        order = np.argsort(d, axis=1, kind="stable")[:, :k]
        d, slots = np.take_along_axis(d, order, 1), np.take_along_axis(slots, order, 1)
        for i in np.flatnonzero(np.isinf(d).any(axis=1)):  # the graph did not reach enough rows
            d[i : i + 1], slots[i : i + 1] = nearest(
                unit[i : i + 1], self.store.segments, k, alive=alive
            )
        return d, slots

    def _index(self) -> DerivedIndex:
        """The approximate index of this very generation: from memory, the disk, or built now."""
        if self._derived is not None:
            return self._derived
        generation, folder = self.store.state["generation"], None
        if self.store.path and self.snapshot_name is None:
            folder = self.store.path / "derived"
            self._derived = DerivedIndex.load(self.index, self.store.dim, folder, generation)
        if self._derived is None:
            at = np.flatnonzero(self._alive)
            made = DerivedIndex(self.index, self.store.dim, self.random_state)
            self._derived = made.build(self.store.segments[at], at)
            if folder and not self.store.read_only:
                made.save(folder, generation)
        return self._derived

    def kneighbors(self, Q: Any, k: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The nearest rows.

        Parameters
        ----------
        Q : array (n, d) or (d,), or images
        k : int, optional

        Returns
        -------
        distances : array (n, k), ``1 - cosine``, ascending
        ids : array of str (n, k)

        Raises
        ------
        InputError
            k out of range, an empty memory, queries of another width.
        """
        d, slots = self._search(Q, k)
        names = np.array([one or "" for one in self.ids])
        return d, names[slots]

    def _search(self, Q: Any, k: int | None) -> tuple[np.ndarray, np.ndarray]:
        unit = self._queries(Q)
        return self._neighbours(unit, self._k(k))

    def _weights(self, d: np.ndarray, slots: np.ndarray, vote: str | None) -> np.ndarray:
        strength = self._weight * self._trust
        plain = bool((strength == 1).all())
        return vote_weights(
            d, vote or self.vote, alpha=self.alpha, reliability=None if plain else strength[slots]
        )

    def predict(self, Q: Any, k: int | None = None, vote: str | None = None) -> np.ndarray:
        """The winning label of each query, in the type the labels were given in.

        Parameters
        ----------
        Q : array (n, d) or (d,), or images
        k : int, optional
        vote : str, optional

        Raises
        ------
        InputError
            See :meth:`kneighbors`.
        """
        d, slots = self._search(Q, k)
        return self.classes_[vote_curve(self._codes[slots], self._weights(d, slots, vote))[:, -1]]

    def predict_proba(self, Q: Any, k: int | None = None, vote: str | None = None) -> np.ndarray:
        """Shares of the vote, tempered by :meth:`calibrate`; columns as in ``classes_``.

        Parameters
        ----------
        Q, k, vote : see :meth:`predict`

        Raises
        ------
        InputError
            See :meth:`kneighbors`.
        """
        d, slots = self._search(Q, k)
        scores = self._scores(d, slots, vote)
        return probabilities(scores, self.store.state.get("temperature", 1.0))

    def _scores(self, d: np.ndarray, slots: np.ndarray, vote: str | None) -> np.ndarray:
        weights = self._weights(d, slots, vote)
        return class_scores(self._codes[slots], weights, len(self.classes_))

    def calibrate(self, k: int | None = None, vote: str | None = None) -> float:
        """Fit one temperature by leave-one-out on the memory's own rows, and keep it.

        Parameters
        ----------
        k, vote : see :meth:`predict`

        Raises
        ------
        InputError
            Fewer than two rows.
        """
        self._refuse_view()
        k = min(k or self.k, len(self) - 1)
        d, slots = self._leave_one_out(k)
        at = np.flatnonzero(self._alive)
        temperature = fit_temperature(self._scores(d, slots, vote), self._codes[at])
        self.store.note(temperature=temperature)
        return temperature

    def curve(
        self,
        Q: Any,
        y: Labels,
        ks: Iterable[int] = range(1, 101),
        votes: Sequence[str] = VOTES,
    ) -> pd.DataFrame:
        """Accuracy for every vote and k, from one search.

        Parameters
        ----------
        Q : array (n, d), or images
        y : sequence
            True labels; one that the memory does not know counts as an error.
        ks : iterable of int
        votes : sequence of str

        Returns
        -------
        pandas.DataFrame with columns vote, k, accuracy (0..1)

        Raises
        ------
        InputError
            See :meth:`kneighbors`.
        """
        import pandas as pd

        ks = sorted(set(ks))
        d, slots = self._search(Q, ks[-1] if ks else None)
        truth = self.codes_of(y, len(d))
        strength = self._weight * self._trust
        found = accuracy_curves(
            d, self._codes[slots], truth, votes, reliability=strength[slots], alpha=self.alpha
        )
        rows = [(vote, k, float(found[vote][k - 1])) for vote in votes for k in ks]
        return pd.DataFrame(rows, columns=["vote", "k", "accuracy"])

    def codes_of(self, y: Labels, n: int | None = None) -> np.ndarray:
        """Labels as positions in ``classes_``, -1 for classes that are not there."""
        if n is not None and len(y) != n:
            raise InputError(f"{len(y)} labels for {n} queries")
        code = {label: i for i, label in enumerate(self.classes_.tolist())}
        plain = [x.item() if isinstance(x, np.generic) else x for x in y]
        return np.array([code.get(x, -1) for x in plain], dtype=np.intp)

    def confidence(self, Q: Any, k: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Agreement of the neighbours: plurality share, and ``1 - entropy / log2 k``; each 0..1.

        Parameters
        ----------
        Q, k : see :meth:`predict`

        Raises
        ------
        InputError
            See :meth:`kneighbors`.
        """
        _, slots = self._search(Q, k)
        return confidence(self._codes[slots])

    def ood_score(self, Q: Any, k: int | None = None, stat: str = "mean") -> np.ndarray:
        """How far a query is from all that is known: mean or median distance to k rows (100).

        Parameters
        ----------
        Q : array (n, d), or images
        k : int, optional
            100, or all rows where there are fewer.
        stat : {"mean", "median"}

        Raises
        ------
        InputError
            See :meth:`kneighbors`.
        """
        d, _ = self._search(Q, min(100, len(self)) if k is None else k)
        return hygiene.strangeness(d, stat)

    # --- why -------------------------------------------------------------------------------------

    def explain(self, q: Any, k: int | None = None, vote: str | None = None) -> Explanation:
        """One decision: its rows with ranks, weights and shares, and what would turn it round.

        Parameters
        ----------
        q : array (d,), or one image
        k, vote : see :meth:`predict`

        Raises
        ------
        InputError
            More than one query; see :meth:`kneighbors`.
        """
        import pandas as pd

        unit = self._queries(q)
        if len(unit) != 1:
            raise InputError(f"{len(unit)} queries, one can be explained at a time")
        k = self._k(k)
        d, slots = self._neighbours(unit, min(max(10 * k, k + LONGEST), len(self)))
        first, weights = slots[:, :k], self._weights(d[:, :k], slots[:, :k], vote)
        codes = self._codes[first]
        winner = int(vote_curve(codes, weights)[0, -1])
        p = probabilities(class_scores(codes, weights, len(self.classes_)))[0]
        ranked = [c for c in np.argsort(-p, kind="stable") if p[c] > 0]
        labels = self.classes_.tolist()
        total = weights.sum() or 1.0
        table = pd.DataFrame(
            {
                "rank": np.arange(1, k + 1),
                "id": [self.ids[s] for s in first[0]],
                "label": [labels[c] for c in codes[0]],
                "distance": d[0, :k],
                "weight": weights[0],
                "share": weights[0] / total,
            }
        )
        return Explanation(
            table,
            labels[winner],
            {labels[c]: float(p[c]) for c in ranked},
            self._flip(d[0], slots[0], k, vote),
            f"{vote or self.vote} vote of {k} neighbours",
            _query_picture(q),
            self.store.thumbnails(first[0]),
        )

    def _flip(self, d: np.ndarray, slots: np.ndarray, k: int, vote: str | None) -> FlipSet:
        removed, winner, new, robust = flip_set(
            d, self._codes[slots], k, lambda x, at: self._weights(x, slots[at], vote)
        )
        labels = self.classes_.tolist()
        return FlipSet(
            [self.ids[slots[i]] for i in removed],
            labels[winner],
            None if new is None else labels[new],
            robust,
        )

    def counterfactual(self, q: Any, k: int | None = None, vote: str | None = None) -> FlipSet:
        """The fewest rows, found greedily, whose removal flips the decision.

        Parameters
        ----------
        q, k, vote : see :meth:`explain`

        Raises
        ------
        InputError
            See :meth:`explain`.
        """
        unit = self._queries(q)
        if len(unit) != 1:
            raise InputError(f"{len(unit)} queries, one can be explained at a time")
        k = self._k(k)
        d, slots = self._neighbours(unit, min(max(10 * k, k + LONGEST), len(self)))
        return self._flip(d[0], slots[0], k, vote)

    # --- hygiene ---------------------------------------------------------------------------------

    def _leave_one_out(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Distances and slots of the k neighbours of every living row, itself left out."""
        if len(self) < 2:
            raise InputError(f"{len(self)} rows in the memory", "at least two are needed")
        if k not in self._own:
            at = np.flatnonzero(self._alive)
            k = min(k, len(self) - 1)
            unit = normalised(self.store.segments[at])
            d, slots = self._neighbours(unit, k + 1)
            slots, d = hygiene.without_self(slots, d, at)
            self._own[k] = d, slots
        return self._own[k]

    def reliability(self, k: int = 10, kind: str = "loo") -> pd.DataFrame:
        """How often each row was a neighbour of a row of another class, and of its own.

        Parameters
        ----------
        k : int
            Neighbours that are looked at.
        kind : {"loo"}
            Leave-one-out on the memory itself; see :meth:`blame` for queries of your own.

        Returns
        -------
        pandas.DataFrame with columns id, label, wrong, correct, soft_weight; in order of rows

        Raises
        ------
        InputError
            Fewer than two rows.
        """
        if kind != "loo":
            raise InputError(f"kind={kind!r}", 'use "loo", or blame(Q, y)')
        _, slots = self._leave_one_out(min(k, len(self) - 1))
        return self._counts(slots, self._codes[np.flatnonzero(self._alive)])

    def blame(self, Q: Any, y: Labels, k: int | None = None) -> pd.DataFrame:
        """Rows by how often they misled labelled queries, the worst first.

        Parameters
        ----------
        Q : array (n, d), or images
        y : sequence of labels
        k : int, optional

        Raises
        ------
        InputError
            See :meth:`kneighbors`.
        """
        _, slots = self._search(Q, k)
        table = self._counts(slots, self.codes_of(y, len(slots)))
        return table.sort_values(["wrong", "correct"], ascending=[False, True], kind="stable")

    def _counts(self, slots: np.ndarray, truth: np.ndarray) -> pd.DataFrame:
        import pandas as pd

        right = self._codes[slots] == truth[:, None]
        wrong, correct = hygiene.count_votes(slots, right, len(self.ids))
        at = np.flatnonzero(self._alive)
        return pd.DataFrame(
            {
                "id": [self.ids[i] for i in at],
                "label": [self._labels[i] for i in at],
                "wrong": wrong[at],
                "correct": correct[at],
                "soft_weight": hygiene.soft_weights(wrong[at]),
            }
        )

    def prune(
        self,
        mode: Literal["soft", "hard", "score"] = "soft",
        *,
        threshold: float | None = None,
        column: str | Labels = "weight",
        k: int = 10,
        rule: Literal["balance", "wrong"] = "balance",
        undoable: bool = True,
    ) -> list[str]:
        """Trust rows less that mislead their neighbours, or take them out.

        Parameters
        ----------
        mode : {"soft", "hard", "score"}
            ``soft`` weighs each row by ``1.75 / (1 + wrong)``; ``hard`` takes out rows with
            ``wrong - correct >= threshold`` (rule "balance", 1 by default) or with
            ``wrong >= threshold`` (rule "wrong", the paper's with k=100 and 128); ``score`` takes
            out the lowest share ``threshold`` (0.1 by default) by ``column``.
        threshold : float, optional
        column : str or sequence
            ``weight``, or a score of your own for each living row in their order.
        k : int
            Neighbours that are looked at.
        rule : {"balance", "wrong"}
        undoable : bool
            False erases what is taken out.

        Returns
        -------
        list of str
            The rows that were weighed less or taken out.

        Raises
        ------
        InputError
            An unknown mode, or nothing would be left.
        """
        self._refuse_view()
        at = np.flatnonzero(self._alive)
        if mode == "soft":
            table = self.reliability(k)
            trust = table["soft_weight"].to_numpy()
            less = trust < 1
            self._set_trust(at, trust)
            return table["id"][less].tolist()
        if mode == "hard":
            goes = self._mislead(k, threshold, rule)
        elif mode == "score":
            goes = self._lowest(column, 0.1 if threshold is None else threshold, at)
        else:
            raise InputError(f"mode={mode!r}", 'use "soft", "hard" or "score"')
        if goes.all():
            raise InputError("no row would be left", "raise the threshold")
        ids = [self.ids[i] for i in at[goes]]
        if undoable:
            self.store.update("prune", {int(s): {"state": PRUNED} for s in at[goes]})
            self._state[at[goes]] = PRUNED
            self._refresh()
        elif ids:
            self.remove(ids)
        return ids

    def _mislead(self, k: int, threshold: float | None, rule: str) -> np.ndarray:
        table = self.reliability(k)
        if rule == "balance":
            limit = 1 if threshold is None else threshold
            return (table["wrong"] - table["correct"] >= limit).to_numpy()
        if rule == "wrong":
            limit = 128 if threshold is None else threshold
            return (table["wrong"] >= limit).to_numpy()
        raise InputError(f"rule={rule!r}", 'use "balance" or "wrong"')

    def _lowest(self, column: str | Labels, share: float, at: np.ndarray) -> np.ndarray:
        if not 0 < share < 1:
            raise InputError(f"threshold={share}: expected a share between 0 and 1")
        if isinstance(column, str):
            if column != "weight":
                raise InputError(f"there is no column {column!r} of scores", "weight, or an array")
            scores = self._weight[at]
        else:
            scores = np.asarray(column, dtype=float)
        if scores.shape != at.shape or not np.isfinite(scores).all():
            raise InputError(f"scores of shape {scores.shape}, expected {at.shape} finite numbers")
        goes = np.zeros(len(at), dtype=bool)
        goes[np.argsort(scores, kind="stable")[: int(share * len(at))]] = True
        return goes

    def _set_trust(self, at: np.ndarray, trust: np.ndarray) -> None:
        changed = np.flatnonzero(self._trust[at] != trust)
        changes = {int(at[i]): {"trust": float(trust[i])} for i in changed}
        if changes:
            self.store.update("prune softly", changes)
            self._trust[at] = trust

    def restore(self) -> int:
        """Undo prunings: what was taken out returns, every trust is 1; returns how many rows."""
        self._refuse_view()
        back = np.flatnonzero(
            (self._state == PRUNED) | ((self._state == ALIVE) & (self._trust != 1))
        )
        if back.size:
            self.store.update("restore", {int(s): {"state": ALIVE, "trust": 1.0} for s in back})
            self._state[back], self._trust[back] = ALIVE, 1.0
            self._refresh()
        return int(back.size)

    # --- forgetting ------------------------------------------------------------------------------

    def remove(
        self,
        ids: Labels | None = None,
        where: str | Mapping[str, Any] | None = None,
        *,
        erase: bool = True,
        missing: Literal["raise", "ignore"] = "raise",
    ) -> Receipt:
        """Forget rows.

        Afterwards every prediction is, to the last bit, that of a memory that never held them.

        Parameters
        ----------
        ids : sequence of str, optional
        where : str or mapping, optional
            ``"source == alice"``, ``"label != cat"`` or ``{"source": "alice"}``.
        erase : bool
            Overwrite their bytes in every file that is managed here (segments, SQLite, derived
            indexes, snapshots, the encoder's cache of features) and scan the files for what is
            left. False only retires the rows; :meth:`compact` erases them later.
        missing : {"raise", "ignore"}
            What to do about ids that are not there.

        Returns
        -------
        Receipt

        Raises
        ------
        InputError
            An unknown id, column or condition; a read-only memory or a view of a snapshot.

        Warns
        -----
        UserWarning
            The last row of a class is removed.
        """
        self._refuse_view()
        self.store._writable()
        slots = self._select(ids, where, missing)
        names = [self.ids[s] for s in slots]
        before, last = self.digest, self._last_of_class(slots)
        if last:
            warnings.warn(
                f"no row is left of: {', '.join(map(str, last))}", UserWarning, stacklevel=2
            )
        if not erase:
            if slots:
                self.store.update("retire", {s: {"state": RETIRED} for s in slots})
                self._state[slots] = RETIRED
                self._refresh()
            return Receipt(
                len(slots), names, False, {}, before, self.digest, False, now(), last_of_class=last
            )
        return self._erase(slots, names, before, last)

    def _erase(self, slots: list[int], names: list[str], before: str, last: list[Any]) -> Receipt:
        patterns = self._patterns(slots)
        files = self._forget_features(slots)
        if slots and self.store.path:
            numbers = sorted({s // SEGMENT for s in slots})
            files |= {self.store.segments.path(i).name: "rows zeroed in place" for i in numbers}
            files |= {f"derived/{p.name}": "zeroed and deleted" for p in self._derived_files()}
            files["meta.sqlite"] = "rows deleted, file rewritten"
        held = self.store.erase(slots) if slots else []
        self._blank(slots)
        report = self._scan(patterns)
        found = {hit[0] for hit in report.hits}  # in files too large to be rewritten every time
        if found:
            if any(Path(name).name == "meta.sqlite" for name in found):
                self.store.vacuum()
            for cache in self._feature_caches():
                if str(cache.path) in found:
                    cache.vacuum()
            report = self._scan(patterns)
        clean = report.clean
        if not self.store.path:
            clean = not slots or not np.any(self.store.segments[np.array(slots, dtype=np.intp)])
        return Receipt(
            len(slots), names, True, files, before, self.digest, clean, now(), held, last, report
        )

    def _blank(self, slots: Sequence[int]) -> None:
        for slot in slots:
            self._slot.pop(self.ids[slot], None)
            self.ids[slot] = self._labels[slot] = self._keys[slot] = None
            for values in self._meta.values():
                values[slot] = None
        self._state[list(slots)] = 0
        self._weight[list(slots)] = self._trust[list(slots)] = 1.0
        self._refresh()

    def _patterns(self, slots: Sequence[int]) -> list[bytes]:
        """Everything of the rows that a file could still hold."""
        if not slots:
            return []
        rows = np.asarray(self.store.segments[np.array(slots, dtype=np.intp)])
        found = [row.tobytes() for row in rows]
        if rows.dtype != np.float32:  # derived indexes hold float32
            found += [row.astype("<f4").tobytes() for row in rows]
        found += [small for small in self.store.thumbnails(slots) if small]
        keys = [self._keys[s] for s in slots if self._keys[s]]
        for cache in self._feature_caches():
            found += [v.astype("<f4").tobytes() for v in cache.get(keys).values()]
        return [p for p in dict.fromkeys(found) if len(p) >= 8]

    def _forget_features(self, slots: Sequence[int]) -> dict[str, str]:
        """The caches of features that images of this memory went through."""
        keys, done = [self._keys[s] for s in slots if self._keys[s]], {}
        for cache in self._feature_caches() if keys else []:
            n = cache.erase(keys)
            if n:
                if cache.path.stat().st_size <= SMALL:
                    cache.vacuum()
                done[str(cache.path)] = f"{n} cached vectors deleted"
        return done

    def _feature_caches(self) -> list[FeatureCache]:
        """Those that exist: wherever they were when images were added, and the encoder's own."""
        paths = list(self.store.state.get("caches", []))
        if self.encoder is not None and self.encoder.cache is not None:
            paths.append(str(self.encoder.cache.path))
        return [FeatureCache(Path(p)) for p in dict.fromkeys(paths) if Path(p).is_file()]

    def _derived_files(self) -> list[Path]:
        folder = self.store.path / "derived" if self.store.path else None
        return sorted(folder.glob("*")) if folder and folder.is_dir() else []

    def _scan(self, patterns: Sequence[bytes]) -> ErasureReport:
        """All files; a vector that a remaining row has too is no trace of an erased one."""
        files = self.store.files()
        if files:
            files += [cache.path for cache in self._feature_caches()]
        report = find_bytes(files, patterns)
        hits = [hit for hit in report.hits if not self._is_a_row(hit)]
        return ErasureReport(hits, report.files, report.patterns, len(report.hits) - len(hits))

    def _is_a_row(self, hit: tuple[str, int, int]) -> bool:
        segments, path = self.store.segments, Path(hit[0])
        names = [p.name for p in segments.files()] if segments else []
        if path.name not in names or hit[1] % segments.row_bytes:
            return False
        slot = names.index(path.name) * SEGMENT + hit[1] // segments.row_bytes
        return slot < len(self.ids) and self.ids[slot] is not None

    def verify_erased(self, what: Labels) -> ErasureReport:
        """Scan every file for vectors, or for ids, that should be gone.

        Parameters
        ----------
        what : array (n, d), or ids
            Vectors as they were added; they are normalised and rounded as the store does. Ids of
            fewer than 8 bytes are only looked up, not searched for as bytes.

        Returns
        -------
        ErasureReport
            Rows that are still there count as hits.

        Raises
        ------
        InputError
            Vectors of another width.
        """
        if isinstance(what, np.ndarray) and what.dtype.kind in "fiu":
            unit = self._queries(what)
            stored = unit.astype(self.store.segments.dtype)
            patterns = [row.tobytes() for row in stored]
            if stored.dtype != np.float32:
                patterns += [row.astype("<f4").tobytes() for row in stored]
            return find_bytes(self.store.files(), list(dict.fromkeys(patterns)))
        ids = [what] if isinstance(what, str) else [str(one) for one in what]
        words = [one.encode() for one in ids if len(one.encode()) >= 8]
        report = find_bytes(self.store.files(), words)
        there = [
            ("the memory", self._slot[one], i) for i, one in enumerate(ids) if one in self._slot
        ]
        return ErasureReport([*there, *report.hits], report.files, len(ids))

    def _last_of_class(self, slots: Sequence[int]) -> list[Any]:
        gone, living = set(slots), {}
        for i in np.flatnonzero(self._alive):
            living[self._labels[i]] = living.get(self._labels[i], False) or i not in gone
        return [label for label, left in living.items() if not left]

    def _slots_of(self, ids: Labels, missing: str = "raise") -> list[int]:
        ids = [ids] if isinstance(ids, str) else [str(one) for one in ids]
        unknown = [one for one in ids if one not in self._slot]
        if unknown and missing != "ignore":
            close = difflib.get_close_matches(unknown[0], self._slot, n=1)
            hint = f"did you mean {close[0]!r}? " if close else ""
            more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
            raise InputError(
                f"not in the memory: {', '.join(map(repr, unknown[:5]))}{more}",
                f'{hint}missing="ignore" passes over them',
            )
        return list(dict.fromkeys(self._slot[one] for one in ids if one in self._slot))

    def _select(
        self, ids: Labels | None, where: str | Mapping[str, Any] | None, missing: str
    ) -> list[int]:
        if missing not in ("raise", "ignore"):
            raise InputError(f"missing={missing!r}", 'use "raise" or "ignore"')
        if (ids is None) == (where is None):
            raise InputError("say which rows: either ids or where")
        if ids is not None:
            return self._slots_of(ids, missing)
        if isinstance(where, str):
            where, equal = _condition(where)
        else:
            equal = True
        columns = {"id": self.ids, "label": self._labels, **self._meta}
        for name in where:
            if name not in columns:
                raise InputError(f"there is no column {name!r}", f"columns: {', '.join(columns)}")
        found = []
        for slot in self._slot.values():
            hit = all(str(columns[n][slot]) == str(v) for n, v in where.items())
            if hit == equal:
                found.append(slot)
        return sorted(found)

    # --- time ------------------------------------------------------------------------------------

    def snapshot(self, name: str) -> int:
        """Remember under a name which rows are alive; returns how many.

        Parameters
        ----------
        name : str

        Raises
        ------
        InputError
            The name is taken.
        """
        self._refuse_view()
        return self.store.snapshot(name)

    def at(self, name: str) -> VisualMemory:
        """The memory as a snapshot has it (without what was erased since), for asking only.

        Parameters
        ----------
        name : str

        Raises
        ------
        InputError
            There is no such snapshot.
        """
        self.store.snapshot_slots(name)
        view = object.__new__(VisualMemory)
        view.__dict__.update(self.__dict__)
        view.snapshot_name = name
        view._refresh()
        return view

    def _refuse_view(self) -> None:
        if self.snapshot_name is not None:
            raise InputError(
                f"this is the snapshot {self.snapshot_name!r}, which cannot be changed",
                "change the memory itself: erasing there erases here too",
            )

    def diff(self, a: str, b: str = "now") -> dict[str, list[str]]:
        """Rows that came and went between two snapshots; ``now`` is the living memory.

        Parameters
        ----------
        a, b : str

        Returns
        -------
        dict with ``added`` and ``removed``: ids

        Raises
        ------
        InputError
            There is no such snapshot.
        """
        first, second = ({*self._at_time(name)} for name in (a, b))
        return {
            "added": [self.ids[s] for s in sorted(second - first)],
            "removed": [self.ids[s] for s in sorted(first - second)],
        }

    def _at_time(self, name: str) -> list[int]:
        if name == "now":
            return np.flatnonzero(self._state == ALIVE).tolist()
        return self.store.snapshot_slots(name)

    def compact(self) -> int:
        """Erase retired rows that no snapshot holds, close the holes; returns bytes given back."""
        self._refuse_view()
        before = self.store.size()
        gone = self.store.unreachable()
        if gone:
            self.remove([self.ids[s] for s in gone])
        self.store.compact()
        self._load()
        return before - self.store.size()

    def export(self, path: str | Path, k: int = 100) -> Path:
        """Write the living rows for another program; see :func:`formats.export`."""
        from practicum.vision.visual_memory.formats import export

        return export(self, path, k)

    def audit(self) -> list[str]:
        """What is wrong with the files, in sentences; empty if nothing is.

        Every stored vector is read and compared with the digest taken when it was added.

        Raises
        ------
        InputError
            A file cannot be read.
        """
        from practicum.vision.visual_memory.audit import audit

        return audit(self)


def encoder_facts(encoder: Encoder) -> dict[str, Any]:
    """What is kept of an encoder with the vectors it made.

    Parameters
    ----------
    encoder : Encoder

    Raises
    ------
    AttributeError
        It is none.

    Examples
    --------
    >>> from practicum.models.vision import get
    >>> encoder_facts(get("pixels", cache=None))["name"]
    'pixels'
    """
    how = encoder.preprocess
    return {
        "name": encoder.name,
        "fingerprint": encoder.fingerprint,
        "dim": encoder.dim,
        "size": getattr(how, "size", None),
        "crop": getattr(how, "crop", None),
    }


def _loader(image: Any, i: int, problems: dict[int, str] | None) -> tuple[Callable[[], Any], str]:
    """How an image is loaded, and the hash of its content."""
    if isinstance(image, str | Path):
        try:
            return (lambda: load_image(image)), file_key(image)
        except InputError as error:
            if problems is None:
                raise
            problems[i] = error.message

            def fail() -> Any:
                raise InputError(problems[i])

            return fail, ""
    picture = from_arrays([image])[0] if isinstance(image, np.ndarray) else as_rgb(image)
    return (lambda: picture), pixel_key(picture)


def _thumbnail(load: Callable[[], Any], i: int, problems: dict[int, str]) -> bytes | None:
    try:
        return thumbnail(load(), PICTURE)
    except InputError as error:  # its vector came from the cache, the file has gone bad since
        problems[i] = error.message
        return None


def _query_picture(q: Any) -> Any:
    if isinstance(q, str | Path):
        return load_image(q)
    if isinstance(q, Sequence) and len(q) == 1:
        return _query_picture(q[0])
    return as_rgb(q) if hasattr(q, "convert") else None


def _picked(values: list[Any], kept: Sequence[int], n: int, what: str) -> list[Any]:
    if len(values) != n:
        raise InputError(f"{len(values)} {what} for {n} images")
    return [values[i] for i in kept]


def _check_meta(meta: Mapping[str, Any] | None, n: int) -> dict[str, list[Any]]:
    given = dict(meta or {})
    for name in given:
        if name not in META:
            raise InputError(f"there is no column {name!r}", f"columns: {', '.join(META)}")
    found: dict[str, list[Any]] = {}
    for name in META:
        values = given.get(name)
        if values is None:
            found[name] = [1.0 if name == "weight" else None] * n
            continue
        values = [values] * n if isinstance(values, str) else list(values)
        if len(values) != n:
            raise InputError(f"{len(values)} values of {name!r} for {n} rows")
        if name == "weight":
            found[name] = [_weight(i, v) for i, v in enumerate(values)]
        else:
            found[name] = [None if v is None else str(v) for v in values]
    return found


def _weight(i: int, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not (np.isfinite(number) and number >= 0):
        raise InputError(f"weight {i} is {value!r}, expected a number of 0 or more")
    return number


def _condition(text: str) -> tuple[dict[str, str], bool]:
    """``column == value`` or ``column != value``."""
    match = re.fullmatch(r"\s*(\w+)\s*(==|!=|=)\s*(.+?)\s*", text)
    if not match:
        raise InputError(f"the condition {text!r} is not understood", "write: source == alice")
    value = match[3].strip("\"'")
    return {match[1]: value}, match[2] != "!="
