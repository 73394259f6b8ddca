"""Logged control data for offline reinforcement learning, from the files people have.

An :class:`OfflineDataset` holds transitions (s, a, r, s', done), one episode after the other.  It
is read from NPZ, HDF5 (D4RL's layout, d3rlpy's ``MDPDataset``), Minari, tables (CSV, Parquet), data
frames, dictionaries of arrays and d3rlpy's objects; :func:`read_offline` picks the reader.  Nothing
is unpickled.  What cannot be used is refused by name; what was changed or looks odd is warned of
and kept in ``notes``.

Where things live: ``dataset`` (the class and its readers), ``files`` (NPZ, HDF5), ``minari_sets``,
``columns`` (of data frames), ``checks`` (shapes, bounds, episodes), ``names`` (of arrays).

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> states = rng.normal(size=(1201, 3))
>>> data = OfflineDataset.from_arrays(
...     states[:-1], rng.uniform(-2, 2, (1200, 1)), rng.normal(size=1200), np.zeros(1200),
...     timeouts=np.arange(1200) % 100 == 99, next_observations=states[1:],
...     action_bounds=(-2, 2), name="noise")
>>> len(data), data.returns().shape, data.episode_lengths().max().item()
(1200, (12,), 100)
"""

from practicum.data.offline.dataset import OfflineDataset, read_offline
from practicum.data.offline.minari_sets import flat_observations
from practicum.data.offline.names import RL_EXTRA, near_file

__all__ = ["RL_EXTRA", "OfflineDataset", "flat_observations", "near_file", "read_offline"]
