"""Small files as people have them, one for each kind of data a card may accept."""

import json
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


def graph(folder: Path) -> Path:
    """GraphML of functions of the standard library: first lines, linked within a module."""
    import inspect
    import math
    import os.path
    import random
    import statistics

    import networkx as nx

    made = nx.Graph()
    topics = {
        math: "mathematics",
        os.path: "file paths",
        random: "random numbers",
        statistics: "statistics",
    }
    for module, topic in topics.items():
        pages = {
            f"{module.__name__}.{name}": inspect.getdoc(function).split("\n")[0]
            for name, function in inspect.getmembers(module, callable)
            if not name.startswith("_") and inspect.getdoc(function)
        }
        for name, text in pages.items():
            made.add_node(name, text=text, label=topic)
        nx.add_path(made, pages)
    path = folder / "functions.graphml"
    nx.write_graphml(made, path)
    return path


def trajectories(folder: Path) -> Path:
    """An NPZ of 30 walks of 50 steps: a point pushed to the origin, well or at random."""
    rng = np.random.default_rng(0)
    walks, steps = 30, 50
    x = rng.uniform(-1, 1, (walks, 2))
    rows = {name: [] for name in ("observations", "actions", "rewards", "next_observations")}
    for _ in range(steps):
        noise = rng.uniform(-1, 1, (walks, 2))
        action = np.where(np.arange(walks)[:, None] % 3 == 0, np.clip(-2 * x, -1, 1), noise)
        following = np.clip(x + 0.2 * action, -2, 2)
        values = (x, action, -np.linalg.norm(following, axis=1), following)
        for name, value in zip(rows, values, strict=True):
            rows[name].append(value)
        x = following
    arrays = {  # one walk after the other, as logs are
        name: np.stack(values, axis=1).reshape(walks * steps, -1) for name, values in rows.items()
    }
    arrays["rewards"] = arrays["rewards"][:, 0]
    ends = np.tile(np.arange(steps) == steps - 1, walks)
    path = folder / "walks.npz"
    np.savez(path, **arrays, terminals=np.zeros_like(ends), timeouts=ends)
    return path


def tasks(folder: Path) -> Path:
    """JSON lines of forty small sums, with worked examples."""
    path = folder / "sums.jsonl"
    rng = np.random.default_rng(0)
    lines = []
    for i in range(40):
        pairs = rng.choice(100, size=9, replace=False)
        worked = [[f"{p // 10} + {p % 10} =", str(p // 10 + p % 10)] for p in pairs.tolist()]
        (query, answer), examples = worked[-1], worked[:-1]
        record = {"id": f"sum-{i}", "examples": examples, "query": query, "answer": answer}
        lines.append(json.dumps(record | {"operator_symbols": ["+"]}))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def images(folder: Path) -> Path:
    """A folder of 120 handwritten digits as PNG, a folder inside for each of three classes."""
    from PIL import Image
    from sklearn.datasets import load_digits

    digits = load_digits()
    target = folder / "digits"
    for label in range(3):
        (target / str(label)).mkdir(parents=True, exist_ok=True)
        for i, pixels in enumerate(digits.images[digits.target == label][:40]):
            picture = Image.fromarray((pixels * 15).astype(np.uint8)).resize((32, 32))
            picture.save(target / str(label) / f"{i:03d}.png")
    return target


@pytest.fixture
def sample(tmp_path):
    """``sample(kind)`` writes a small real file (or folder) of that kind."""
    makers = {
        m.__name__: m for m in (table, text, points, mesh, images, graph, trajectories, tasks)
    }
    return lambda kind: makers[kind](tmp_path)
