"""Batches for stacked members: several data sets at once, states normalised, trust bits along."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float32

from practicum.data.offline import OfflineDataset
from practicum.errors import InputError
from practicum.models.stacked import Streams
from practicum.models.training import Tensor, torch

STD_FLOOR = 1e-3  # added to every standard deviation, as the published code does


class Batch(NamedTuple):
    """One batch for every member; states are normalised, actions in [-1, 1].

    ``going`` is 0 where the episode ended by itself (nothing lies beyond), else 1: a time limit
    is no end. ``trusted`` is 1 for pairs the policy should stay close to.
    """

    states: Float[Tensor, "s b ds"]
    actions: Float[Tensor, "s b da"]
    rewards: Float[Tensor, "s b"]
    next_states: Float[Tensor, "s b ds"]
    going: Float[Tensor, "s b"]
    trusted: Float[Tensor, "s b"]


@dataclass(frozen=True)
class Normalizer:
    """Means and standard deviations (with 1e-3 added) of states.

    Parameters
    ----------
    mean, std : float32 array (ds,)

    Examples
    --------
    >>> Normalizer.of(np.array([[0.0], [2.0]], np.float32))(np.array([[1.0]], np.float32))
    array([[0.]], dtype=float32)
    """

    mean: Float32[np.ndarray, "ds"]
    std: Float32[np.ndarray, "ds"]

    @classmethod
    def of(cls, observations: Float32[np.ndarray, "n ds"]) -> Normalizer:
        """Of the rows of a data set."""
        exact = observations.astype(np.float64)
        mean, std = exact.mean(axis=0), exact.std(axis=0) + STD_FLOOR
        return cls(mean.astype(np.float32), std.astype(np.float32))

    def __call__(self, observations: Float[np.ndarray, "... ds"]) -> Float32[np.ndarray, "... ds"]:
        return ((np.asarray(observations, np.float32) - self.mean) / self.std).astype(np.float32)


class Replay:
    """Draws a batch for every member from its own data set.

    Parameters
    ----------
    datasets : sequence of OfflineDataset
    of : sequence of int
        The data set of each member.
    seeds : sequence of int
        Of each member's draws: members with one seed and equally long data sets get the same rows.
    trusted : sequence of bool array (n,), or None (all), optional
        Trust bits, one array for each member.
    batch : int
    reward_scale : float
    normalizers : sequence of Normalizer, optional
        One for each data set; of its observations unless given.
    room : int
        Transitions that can be added for each member (online training).
    keep : sequence of bool array, optional
        Rows of each member's data set that stay in its buffer (only with ``room``).

    Examples
    --------
    >>> from practicum.rl.ssar.pendulum import pendulum_mix
    >>> data = pendulum_mix("mixed-20", episodes=10, rng=np.random.default_rng(0))
    >>> Replay([data], of=[0, 0], seeds=[1, 2], batch=32).sample().states.shape
    torch.Size([2, 32, 3])
    """

    def __init__(
        self,
        datasets: Sequence[OfflineDataset],
        of: Sequence[int],
        seeds: Sequence[int],
        *,
        trusted: Sequence[Bool[np.ndarray, "_"] | None] | None = None,
        batch: int = 256,
        reward_scale: float | int = 1.0,
        normalizers: Sequence[Normalizer] | None = None,
        room: int = 0,
        keep: Sequence[Bool[np.ndarray, "_"]] | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        if not len(of) == len(seeds):
            raise InputError(f"{len(of)} members by their data sets, {len(seeds)} by their seeds")
        self.batch, self.reward_scale, self.device = batch, reward_scale, torch.device(device)
        self.normalizers = list(normalizers or (Normalizer.of(d.observations) for d in datasets))
        self.of, self.streams = list(of), Streams(seeds, device)
        self.ds, self.da = datasets[0].observations.shape[1], datasets[0].actions.shape[1]
        masks = list(trusted) if trusted is not None else [None] * len(of)
        tables = [self._table(d, norm) for d, norm in zip(datasets, self.normalizers, strict=True)]
        if room:
            own = [tables[k] if keep is None else tables[k][keep[s]] for s, k in enumerate(of)]
            blank = np.zeros((room, tables[0].shape[1]), np.float32)
            parts, of = [np.concatenate([rows, blank]) for rows in own], range(len(own))
            self.size = torch.tensor([len(rows) for rows in own])
            masks = [
                None if m is None else np.append(m if keep is None else m[keep[s]], np.ones(room))
                for s, m in enumerate(masks)
            ]
        else:
            parts = tables
            self.size = torch.tensor([len(tables[k]) for k in of])
        starts = np.cumsum([0, *map(len, parts)])
        self.offset = torch.tensor([int(starts[k]) for k in of], device=self.device)
        self.rows = torch.as_tensor(np.concatenate(parts), device=self.device)
        self._trust(masks, [len(parts[k]) for k in of])

    def _table(self, data: OfflineDataset, norm: Normalizer) -> Float32[np.ndarray, "n w"]:
        """A data set as one matrix: a batch is then one gather."""
        columns = [
            norm(data.observations),
            data.actions,
            (data.rewards * np.float32(self.reward_scale))[:, None],
            norm(data.next_observations),
            (~data.terminals).astype(np.float32)[:, None],
        ]
        return np.concatenate(columns, axis=1).astype(np.float32)

    def _trust(self, masks: Sequence[np.ndarray | None], lengths: Sequence[int]) -> None:
        for member, (mask, length) in enumerate(zip(masks, lengths, strict=True)):
            if mask is not None and len(mask) != length:
                raise InputError(
                    f"member {member}: {len(mask)} trust bits for {length} transitions"
                )
        self.trust_offset = torch.tensor(np.cumsum([0, *lengths[:-1]]), device=self.device)
        bits = [
            np.ones(length, bool) if mask is None else np.asarray(mask, bool)
            for mask, length in zip(masks, lengths, strict=True)
        ]
        self.trust = torch.as_tensor(np.concatenate(bits), device=self.device)

    def sample(self) -> Batch:
        """The next batch of every member."""
        index = self.streams.integers(self.size, self.batch)
        flat = (index + self.offset[:, None]).reshape(-1)
        rows = self.rows.index_select(0, flat).unflatten(0, (len(self.of), self.batch))
        s, a, r, s2, going = rows.split([self.ds, self.da, 1, self.ds, 1], dim=-1)
        bits = self.trust[index + self.trust_offset[:, None]].to(torch.float32)
        # own blocks: a product on a strided view would round by its alignment
        s, a, s2 = s.contiguous(), a.contiguous(), s2.contiguous()
        return Batch(s, a, r.squeeze(-1), s2, going.squeeze(-1), bits)

    def add(
        self,
        observations: Float[np.ndarray, "s ds"],
        actions: Float[np.ndarray, "s da"],
        rewards: Float[np.ndarray, "s"],
        next_observations: Float[np.ndarray, "s ds"],
        terminals: Bool[np.ndarray, "s"],
    ) -> None:
        """One more transition for every member (needs ``room``); it counts as trusted."""
        norms = [self.normalizers[k] for k in self.of]
        rows = np.concatenate(
            [
                np.stack([norm(o) for norm, o in zip(norms, observations, strict=True)]),
                actions,
                (rewards * self.reward_scale)[:, None],
                np.stack([norm(o) for norm, o in zip(norms, next_observations, strict=True)]),
                (~terminals)[:, None],
            ],
            axis=1,
        ).astype(np.float32)
        at = self.offset + self.size.to(self.device)
        self.rows[at] = torch.as_tensor(rows, device=self.device)
        self.size += 1

    def mean_std(self) -> tuple[Float[np.ndarray, "s 1 ds"], Float[np.ndarray, "s 1 ds"]]:
        """Each member's normalisation, to act on raw observations (members, n, ds)."""
        norms = [self.normalizers[k] for k in self.of]
        return np.stack([n.mean for n in norms])[:, None], np.stack([n.std for n in norms])[:, None]
