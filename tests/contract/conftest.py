"""Small files as people have them, one for each kind of data a card may accept."""

from pathlib import Path

import numpy as np
import pytest


def table(folder: Path) -> Path:
    """A CSV of 178 wines, six numeric columns and a text column."""
    from sklearn.datasets import load_wine

    frame = load_wine(as_frame=True).data.iloc[:, :6]
    frame["cultivar"] = [f"c{i % 3}" for i in range(len(frame))]
    path = folder / "wines.csv"
    frame.to_csv(path, index=False)
    return path


def text(folder: Path) -> Path:
    """Plain English text of about 60,000 characters."""
    from pydoc_data.topics import topics

    path = folder / "notes.txt"
    path.write_text("\n\n".join(topics.values())[:60_000], encoding="utf-8")
    return path


def points(folder: Path) -> Path:
    """A folder of twelve small outlines as CSV, two kinds of them."""
    target = folder / "outlines"
    target.mkdir(exist_ok=True)
    angles = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    for i in range(12):
        rng = np.random.default_rng(i)
        radius = 1 + (0.5 * np.cos(3 * angles) if i % 2 else 0.4 * np.cos(angles) ** 3)
        xy = radius[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        xy += 0.02 * rng.standard_normal(xy.shape)
        name = f"{'clover' if i % 2 else 'drop'}_{i}.csv"
        np.savetxt(target / name, xy, delimiter=",", header="x,y", comments="")
    return target


def mesh(folder: Path) -> Path:
    """A folder of six small PLY meshes."""
    import trimesh

    target = folder / "meshes"
    target.mkdir(exist_ok=True)
    for i in range(6):
        extents = (1, 2, 3) if i % 2 else (1, 1, 4)
        solid = trimesh.creation.box(extents=extents).subdivide()
        solid.export(target / f"box_{i}.ply")
    return target


@pytest.fixture
def sample(tmp_path):
    """``sample(kind)`` writes a small real file (or folder) of that kind."""
    makers = {"table": table, "text": text, "points": points, "mesh": mesh}
    return lambda kind: makers[kind](tmp_path)
