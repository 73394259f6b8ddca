"""A memory of labelled vectors: add, remove, ask, explain.

Each method is short; what it stands on lives beside: what a person hands over is checked in
:mod:`intake`, the rows are a :mod:`table` over the :mod:`store`, they are searched by
:mod:`neighbours`, decide by :mod:`votes`, are cleaned by :mod:`pruning` and forgotten by
:mod:`erasing`.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from practicum.errors import InputError
from practicum.vision.visual_memory import erasing, hygiene, intake, pruning
from practicum.vision.visual_memory.derived import check_kind
from practicum.vision.visual_memory.explain import LONGEST, Explanation, FlipSet, flip_set
from practicum.vision.visual_memory.neighbours import Neighbours
from practicum.vision.visual_memory.receipt import Receipt
from practicum.vision.visual_memory.residue import ErasureReport
from practicum.vision.visual_memory.search import normalised
from practicum.vision.visual_memory.store import ALIVE, PRUNED, RETIRED, Row, Store, now
from practicum.vision.visual_memory.table import Labels, Table
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
        check_kind(index)
        self.vote, self.alpha, self.k, self.encoder = vote, alpha, k, encoder
        self.problems: dict[str, str] = {}
        self.store = Store(path, dim, dtype, read_only=read_only, create=create)
        self._table = Table(self.store)
        self.neighbours = Neighbours(self.table, index, random_state)
        if encoder is not None and self.store.state.get("encoder"):
            intake.check_same_encoder(self.store.state["encoder"], encoder)

    # --- what it holds ---------------------------------------------------------------------------

    @property
    def table(self) -> Table:
        """What is known of the rows; a view forgets what the memory forgot since it was taken."""
        if self._table.snapshot is not None:
            self._table.catch_up()
        return self._table

    def __len__(self) -> int:
        return len(self.table.living)

    def __contains__(self, one: str) -> bool:
        return one in self.table.slot_of and bool(self.table.alive[self.table.slot_of[one]])

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
    def ids(self) -> list[str]:
        """The ids of the living rows, in their order."""
        return [one for i in self.table.living if (one := self.table.ids[i]) is not None]

    @property
    def classes_(self) -> np.ndarray:
        """The labels of the living rows, sorted."""
        return self.table.classes

    @property
    def index(self) -> str:
        """What proposes neighbours; may be set."""
        return self.neighbours.kind

    @index.setter
    def index(self, kind: str) -> None:
        self.neighbours.kind = check_kind(kind)

    @property
    def snapshot_name(self) -> str | None:
        """Of the snapshot that this is a view of; see :meth:`at`."""
        return self.table.snapshot

    @property
    def digest(self) -> str:
        """Hex digits that depend on the rows that are there (retired ones too), on nothing else."""
        return self.store.state["digest"]

    def frame(self) -> pd.DataFrame:
        """The rows that are alive: id, label, group, source, time, weight, trust."""
        return self.table.frame()

    def vectors(self, ids: Labels | None = None) -> np.ndarray:
        """Stored vectors of unit length, shape (n, d), of all living rows or of these ids."""
        at = self.table.living if ids is None else np.array(self.table.slots_of(ids), np.intp)
        if self.store.segments is None:
            return np.empty((0, 0), dtype=np.float32)
        return np.asarray(self.store.segments[at])

    # --- adding ----------------------------------------------------------------------------------

    def add(
        self,
        X: Any = None,
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
        X : array, frame or tensor of shape (n, d), optional
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
        self.problems = {}
        keys: list[str] | list[None]
        small: list[bytes | None]
        if images is not None:
            encoder = encoder or self.encoder
            read = intake.encode_images(images, encoder, thumbnails, progress)
            self.problems, kept, n = read.problems, read.kept, len(images)
            X, keys, small = read.vectors, read.keys, read.thumbnails
            ids = self._image_ids(read) if ids is None else intake.picked(ids, kept, n, "ids")
            labels = None if labels is None else intake.picked(labels, kept, n, "labels")
            meta = {
                c: v if isinstance(v, str) else intake.picked(v, kept, n, c)
                for c, v in (meta or {}).items()
            }
        else:
            X = np.asarray(X)
            keys, small = [None] * len(X), [None] * len(X)
        state = self.store.state
        labels = intake.check_labels(labels, len(X), state.get("labels"))
        names = intake.check_ids(ids, len(X), self.table)
        columns = intake.check_meta(meta, len(X))
        intake.check_encoder(encoder, self.table)
        unit = normalised(X, names)
        rows = [
            Row(names[i], labels[i], unit[i], key=keys[i], thumbnail=small[i])
            for i in range(len(names))
        ]
        for name, values in columns.items():
            for row, value in zip(rows, values, strict=True):
                setattr(row, name, value)
        facts = intake.facts_to_note(encoder, labels, state)
        if facts:
            self.store.note(**facts)
        self.table.append(rows)
        return names

    def _image_ids(self, read: intake.Encoded) -> list[str]:
        generation = self.store.state["generation"]
        return [name or f"g{generation}-{i}" for i, name in zip(read.kept, read.names, strict=True)]

    # --- asking ----------------------------------------------------------------------------------

    def _queries(self, Q: Any) -> np.ndarray:
        self.table.sync()
        return intake.query_vectors(Q, self.encoder, self.table)

    def _voters(self, k: int | None) -> int:
        """How many vote: what was asked, or the memory's own as far as there are rows."""
        n = len(self)
        if n == 0:
            raise InputError("the memory is empty", "add rows first")
        if k is None:
            return min(self.k, n)
        whole = isinstance(k, int | np.integer)
        if not whole or not 1 <= k <= n:
            hint = f"expected 1 to {n}" + ("" if whole else ", a whole number")
            raise InputError(f"k={k!r} with {n} rows in the memory", hint)
        return int(k)

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
        names = np.array([one or "" for one in self.table.ids])
        return d, names[slots]

    def _search(self, Q: Any, k: int | None) -> tuple[np.ndarray, np.ndarray]:
        unit = self._queries(Q)
        return self.neighbours.find(unit, self._voters(k))

    def _weights(self, d: np.ndarray, slots: np.ndarray, vote: str | None) -> np.ndarray:
        strength = self.table.strength
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
        winners = vote_curve(self.table.codes[slots], self._weights(d, slots, vote))[:, -1]
        return self.classes_[winners]

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
        return class_scores(self.table.codes[slots], weights, len(self.classes_))

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
        d, slots = self.neighbours.leave_one_out(k or self.k)
        temperature = fit_temperature(
            self._scores(d, slots, vote), self.table.codes[self.table.living]
        )
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
        found = accuracy_curves(
            d,
            self.table.codes[slots],
            self.table.codes_of(y, len(d)),
            votes,
            reliability=self.table.strength[slots],
            alpha=self.alpha,
        )
        rows = [(vote, k, float(found[vote][k - 1])) for vote in votes for k in ks]
        return pd.DataFrame(rows, columns=["vote", "k", "accuracy"])

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
        return confidence(self.table.codes[slots])

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
        unit = self._queries(Q)
        d, _ = self.neighbours.find(unit, self._voters(min(100, len(self)) if k is None else k))
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

        d, slots, k = self._around(q, k)
        first, weights = slots[:, :k], self._weights(d[:, :k], slots[:, :k], vote)
        codes = self.table.codes[first]
        winner = int(vote_curve(codes, weights)[0, -1])
        p = probabilities(class_scores(codes, weights, len(self.classes_)))[0]
        ranked = [c for c in np.argsort(-p, kind="stable") if p[c] > 0]
        labels = self.classes_.tolist()
        total = weights.sum() or 1.0
        table = pd.DataFrame(
            {
                "rank": np.arange(1, k + 1),
                "id": [self.table.ids[s] for s in first[0]],
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
            intake.query_picture(q),
            self.store.thumbnails(first[0]),
        )

    def _around(self, q: Any, k: int | None) -> tuple[np.ndarray, np.ndarray, int]:
        """Many more neighbours of one query than vote: those that would come in."""
        unit = self._queries(q)
        if len(unit) != 1:
            raise InputError(f"{len(unit)} queries, one can be explained at a time")
        k = self._voters(k)
        d, slots = self.neighbours.find(unit, min(max(10 * k, k + LONGEST), len(self)))
        return d, slots, k

    def _flip(self, d: np.ndarray, slots: np.ndarray, k: int, vote: str | None) -> FlipSet:
        removed, winner, new, robust = flip_set(
            d, self.table.codes[slots], k, lambda x, at: self._weights(x, slots[at], vote)
        )
        labels = self.classes_.tolist()
        return FlipSet(
            [str(self.table.ids[slots[i]]) for i in removed],
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
        d, slots, k = self._around(q, k)
        return self._flip(d[0], slots[0], k, vote)

    # --- hygiene ---------------------------------------------------------------------------------

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
        self.table.sync()
        _, slots = self.neighbours.leave_one_out(k)
        return pruning.vote_counts(self.table, slots, self.table.codes[self.table.living])

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
        counts = pruning.vote_counts(self.table, slots, self.table.codes_of(y, len(slots)))
        return counts.sort_values(["wrong", "correct"], ascending=[False, True], kind="stable")

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
        self.store.check_writable()
        at = self.table.living
        if mode == "soft":
            counts = self.reliability(k)
            trust = counts["soft_weight"].to_numpy()
            self.table.set_trust(at, trust)
            return counts["id"][trust < 1].tolist()
        if mode == "hard":
            goes = pruning.misleading(self.reliability(k), rule, threshold)
        elif mode == "score":
            goes = pruning.lowest(self.table, column, 0.1 if threshold is None else threshold)
        else:
            raise InputError(f"mode={mode!r}", 'use "soft", "hard" or "score"')
        if goes.all():
            raise InputError("no row would be left", "raise the threshold")
        ids = [str(self.table.ids[i]) for i in at[goes]]
        if undoable:
            self.table.set_state("prune", at[goes], PRUNED)
        elif ids:
            self.remove(ids)
        return ids

    def restore(self) -> int:
        """Undo prunings: what was taken out returns, every trust is 1; returns how many rows."""
        self._refuse_view()
        return self.table.restore()

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
        self.store.check_writable()
        slots = self.table.select(ids, where, missing)
        last = self.table.last_of_class(slots)
        if last:
            warnings.warn(
                f"no row is left of: {', '.join(map(str, last))}", UserWarning, stacklevel=2
            )
        if erase:
            cache = self.encoder.cache if self.encoder is not None else None
            return erasing.erase(self.table, slots, str(cache.path) if cache else None, last)
        names, before = [str(self.table.ids[s]) for s in slots], self.digest
        self.table.set_state("retire", slots, RETIRED)
        return Receipt(
            len(slots), names, False, {}, before, self.digest, False, now(), last_of_class=last
        )

    def verify_erased(self, what: Labels) -> ErasureReport:
        """Scan every file for vectors, or for ids, that should be gone.

        Parameters
        ----------
        what : array, frame or tensor (n, d), list of vectors, or ids
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
        if intake.are_vectors(what):
            return erasing.verify(self.table, self._queries(what))
        return erasing.verify_ids(self.table, what)

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
        return self.table.remember(name)

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
        view = copy.copy(self)
        view._table = self.table.as_of(name)
        view.neighbours = Neighbours(view.table, self.index, self.neighbours.seed)
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
            "added": [str(self.table.ids[s]) for s in sorted(second - first)],
            "removed": [str(self.table.ids[s]) for s in sorted(first - second)],
        }

    def _at_time(self, name: str) -> list[int]:
        if name == "now":
            return np.flatnonzero(self.table.state == ALIVE).tolist()
        return self.store.snapshot_slots(name)

    def compact(self) -> int:
        """Erase retired rows that no snapshot holds, close the holes; returns bytes given back."""
        self._refuse_view()
        before = self.store.size()
        gone = self.store.unreachable()
        if gone:
            self.remove([str(self.table.ids[s]) for s in gone])
        self.table.compact()
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
