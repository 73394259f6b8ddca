"""One small valid invocation of every command, the files it reads, and its mutants.

The folder of a method's files is made once a session and copied for each invocation, which runs
inside the copy: so a line is what a person would type, and whatever it leaves behind can be seen.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click
import mutations
import numpy as np
import pandas as pd
import typer

from practicum import catalog, cli
from practicum.cli.app import app

# --- files ---------------------------------------------------------------------------------------


def _cmi_files(folder: Path) -> None:
    rng = np.random.default_rng(0)
    age, luck = rng.normal(40, 10, 80), rng.normal(size=80)
    degree = rng.choice(["none", "school"], 80)
    wage = 0.2 * age + (degree == "school") + rng.normal(size=80)
    columns = {"wage": wage, "degree": degree, "luck": luck, "age": age, "firm": np.arange(80) // 4}
    pd.DataFrame(columns).round(3).to_csv(folder / "pay.csv", index=False)
    images = rng.normal(size=(70, 4, 4))
    np.savez(folder / "digits.npz", images=images, labels=(images[:, 0, 0] > 0).astype(int))


def _shape_files(folder: Path) -> None:
    (folder / "shapes").mkdir()
    for i in range(4):
        xy = np.random.default_rng(i).normal(size=(12, 2)).round(3)
        np.savetxt(
            folder / "shapes" / f"s{i}.csv", xy, delimiter=",", header="x,y", comments="", fmt="%g"
        )
    for name, i in (("a.csv", 0), ("b.csv", 1)):
        (folder / name).write_bytes((folder / "shapes" / f"s{i}.csv").read_bytes())


def _federation_files(folder: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [
        (t, c, s, round(float(1 + (c % 2) / 2 + rng.normal() / 10), 4))
        for t in range(16)
        for c in range(6)
        for s in range(2)
    ]
    frame = pd.DataFrame(rows, columns=["round", "client", "step", "loss"])
    frame.to_csv(folder / "losses.csv", index=False)
    counts = [(c, k, int(rng.integers(1, 20))) for c in range(6) for k in range(3)]
    frame = pd.DataFrame(counts, columns=["client", "class", "count"])
    frame.to_csv(folder / "counts.csv", index=False)
    groups = pd.DataFrame({"client": range(6), "group": [0, 1, 0, 1, 0, 1]})
    groups.to_csv(folder / "groups.csv", index=False)
    x = rng.normal(size=(160, 3)).round(3)
    sites = pd.DataFrame(x, columns=["u", "v", "w"])
    sites["site"] = np.repeat(np.arange(4), 40)
    sites["team"] = sites["site"] % 2
    sites["y"] = np.where(x[:, 0] > 0, "up", "down")
    sites.to_csv(folder / "sites.csv", index=False)


def _risk_files(folder: Path) -> None:
    rng = np.random.default_rng(0)
    n = rng.integers(100, 400, 40)
    for name in ("later.csv", "risks.csv"):
        errors = (rng.binomial(n, rng.beta(2, 8, 40)) / n).round(4)
        frame = pd.DataFrame({"client": [f"s{k}" for k in range(40)], "error": errors, "n": n})
        frame.to_csv(folder / name, index=False)
    rows = [
        (c, rho, e + rho / 4) for c, e in zip(frame["client"], frame["error"]) for rho in (0, 1)
    ]
    pd.DataFrame(rows, columns=["client", "rho", "value"]).to_csv(
        folder / "curves.csv", index=False
    )


def _graph_files(folder: Path) -> None:
    words = ["tree leaf forest", "river sea water", "tree root", "rain water", "leaf wood", "lake"]
    label = ["plants", "waters"] * 3
    frame = pd.DataFrame({"id": list("abcdef"), "text": words, "label": label})
    frame.to_csv(folder / "nodes.csv", index=False)
    edges = pd.DataFrame({"src": list("aceabd"), "dst": list("ceadbf"), "weight": 1})
    edges.to_csv(folder / "edges.csv", index=False)
    (folder / "graph").mkdir()
    for name in ("nodes.csv", "edges.csv"):
        (folder / "graph" / name).write_bytes((folder / name).read_bytes())
    sheet = pd.DataFrame({"src": list("ace"), "dst": list("cea"), "same": ["yes", "no", "yes"]})
    sheet.to_csv(folder / "sheet.csv", index=False)


def _stream_files(folder: Path) -> None:
    costs = np.random.default_rng(0).uniform(0.5, 1.5, (30, 3)).round(3)
    frame = pd.DataFrame(costs, columns=["a", "b", "c"])
    frame["day"] = pd.date_range("2026-01-01", periods=30).strftime("%Y-%m-%d")
    frame.to_csv(folder / "costs.csv", index=False)


def _auction_files(folder: Path) -> None:
    rng = np.random.default_rng(0)
    values = pd.DataFrame({"value": rng.uniform(0, 100, 60).round(2), "kind": ["p", "q"] * 30})
    values.to_csv(folder / "values.csv", index=False)
    bids = pd.DataFrame({"bid": rng.uniform(1, 50, 60).round(2)})
    bids.to_csv(folder / "bids.csv", index=False)


def _log_files(folder: Path) -> None:
    run("use ssar sample mixed-20 --episodes 5 --out log.npz", folder)
    run(
        "use ssar fit log.npz --env none --steps 2 --seeds 1 --hidden 4 --batch 8 --trust all"
        " --against none --force --device cpu --out model.safetensors",
        folder,
    )


def _bit_files(folder: Path) -> None:
    rng = np.random.default_rng(0)
    votes = pd.DataFrame(rng.integers(0, 2, (60, 4)), columns=list("abcd"))
    votes.to_csv(folder / "votes.csv", index=False)
    holes = votes.astype(object).mask(rng.random(votes.shape) < 0.2)
    holes.iloc[:5].to_csv(folder / "holes.csv", index=False)
    run("use discrete-markov fit votes.csv --steps 2 --hidden 4 --layers 1 --device cpu", folder)


def _collapse_files(folder: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(40, 2)).round(3), columns=["x", "y"])
    frame.to_csv(folder / "data.csv", index=False)
    (folder / "notes.txt").write_text("\n\n".join(f"the day {i} was long" for i in range(30)))


def _item_files(folder: Path) -> None:
    from practicum.language.abstract_reasoning.evaluation import evaluate
    from practicum.language.abstract_reasoning.items import make_items, read_items
    from practicum.models.chat import FunctionChat, ReplayChat

    told = ReplayChat(
        folder / "replies.jsonl", "record", FunctionChat(lambda request: "The answer is 1.")
    )
    items = make_items("ec/var_set", 2, 2, 0, "ours")
    report = evaluate(told, items, ["raw", "full"], items=2, shots=2, maps=1)
    report.settings["tasks"] = "ec/var_set"
    for name in ("one.json", "two.json"):
        (folder / name).write_text(json.dumps(report.to_json()), encoding="utf-8")
    run(
        "use abstract-reasoning items --tasks ec/var_set --items 2 --shots 2 --out own.jsonl",
        folder,
    )
    own, _ = read_items(folder / "own.jsonl")
    evaluate(told, own, ["raw", "full"], items=2, shots=2, maps=1)


def _team_files(folder: Path) -> None:
    run(
        "use agent-resilience run --tasks arithmetic:2 --topology linear --seeds 1 --out r.json",
        folder,
    )
    lines = [
        {
            "task_id": "t",
            "step": s,
            "sender": "coder",
            "receivers": ["tester"],
            "content": "x = 1\n",
        }
        for s in range(3)
    ]
    (folder / "trace.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
    tasks = [{"id": f"t{i}", "prompt": f"{i} + 1 =", "answer": str(i + 1)} for i in range(2)]
    (folder / "tasks.jsonl").write_text("".join(json.dumps(x) + "\n" for x in tasks))


def _photo_files(folder: Path) -> None:
    from PIL import Image

    rng = np.random.default_rng(0)
    for label, base in (("dark", 40), ("light", 180)):
        (folder / "photos" / label).mkdir(parents=True)
        for i in range(4):
            pixels = (base + rng.integers(0, 40, (8, 8, 3))).astype(np.uint8)
            Image.fromarray(pixels).save(folder / "photos" / label / f"{i}.png")
    one = folder / "photos" / "dark" / "0.png"
    (folder / "new.png").write_bytes(one.read_bytes())
    np.savez(
        folder / "rows.npz",
        vectors=rng.normal(size=(6, 4)),
        labels=["a", "b"] * 3,
        ids=list("uvwxyz"),
    )
    run("use visual-memory add photos --store memory.vm --encoder pixels --size 8", folder)
    run("use visual-memory snapshot memory.vm monday", folder)


# --- lines ---------------------------------------------------------------------------------------

WRITES = ("--out", "--plot", "--html", "--losses", "--receipt", "--why", "--markdown", "--csv",
          "--parquet")  # fmt: skip


@dataclass(frozen=True)
class Command:
    """A valid line; ``slow``: seconds rather than milliseconds, so that accepted mutants cost."""

    slug: str
    line: str
    slow: bool = False

    @property
    def words(self) -> list[str]:
        return shlex.split(self.line)

    @property
    def id(self) -> str:
        return f"{self.slug} {self.words[2] if self.words[0] == 'use' else 'on a file'}"


FILES: dict[str, Callable[[Path], None]] = {
    "cmi-test": _cmi_files,
    "procrustes-wasserstein": _shape_files,
    "fedgwc": _federation_files,
    "dkw-certificate": _risk_files,
    "llm-bp": _graph_files,
    "optimistic-ftrl": _stream_files,
    "auction-bne": _auction_files,
    "ssar": _log_files,
    "discrete-markov": _bit_files,
    "model-collapse": _collapse_files,
    "abstract-reasoning": _item_files,
    "agent-resilience": _team_files,
    "visual-memory": _photo_files,
}

LINES: dict[str, list[str]] = {
    "cmi-test": [
        "test pay.csv --response wage --candidates degree --given age --out t.html",
        "image digits.npz --box 0:2,0:2 --rows 70 --out i.html",
        "example even.csv --rows 60",
    ],
    "procrustes-wasserstein": [
        "distance a.csv b.csv --init pca --out laid.csv --plot d.html",
        "barycenter shapes --init pca --support 6 --out mean.csv --plot b.html",
        "matrix shapes --init pca --out D.csv",
    ],
    "fedgwc": [
        "cluster losses.csv --min-co-samples 1 --out g.csv --plot c.html",
        "score counts.csv groups.csv",
        "run --data sites.csv --client site --label y --rounds 8 --out o.csv --losses l.csv",
    ],
    "dkw-certificate": [
        "certify risks.csv --eps 0.1 --level 0.3 --plot p.html --out c.json",
        "certify risks.csv --eps 0.1 --divergence wasserstein --curves curves.csv --out c.csv",
        "band risks.csv --prob 0.8 --plot p.html --out b.csv",
        "afford risks.csv --level 0.5",
        "shift risks.csv later.csv",
        "simulate --clients 20 --samples 20",
    ],
    "llm-bp": [
        "check --nodes nodes.csv --edges edges.csv --label label",
        "homophily --nodes nodes.csv --edges edges.csv --classes plants,waters --judged sheet.csv",
        "sheet --nodes nodes.csv --edges edges.csv --out s.csv",
        "run --nodes nodes.csv --edges edges.csv --classes plants,waters --out o.csv --plot p.html",
        "compare --data scipy-topics --shots 5 --seeds 1 --arms lp",
    ],
    "optimistic-ftrl": [
        "run costs.csv --columns a,b,c --out o.csv --plot p.html",
        "compare costs.csv --columns a,b,c --arms recursive,ogd --hints none --out t.csv",
    ],
    "auction-bne": [
        "solve values.csv --bidders 3 --method closed_form --out equilibrium.csv",
        "values bids.csv --bidders 3 --out v.csv",
        "compare values.csv --bidders 2 --methods closed_form --seeds 1 --out m.csv",
    ],
    "ssar": [
        "sample mixed-20 --episodes 2 --out s.npz",
        "trust log.npz --out e.csv --plot t.html",
        "fit log.npz --env none --steps 2 --seeds 1 --hidden 4 --batch 8 --trust all --against none"
        " --device cpu --out m.safetensors",
        "evaluate model.safetensors --env Pendulum-v1 --episodes 1 --device cpu --out v.csv",
        "beta model.safetensors log.npz --device cpu --out b.csv --plot b.html",
        "build Pendulum-v1 --steps 400 --transitions 200 --levels random --hidden 4 --device cpu",
    ],
    "discrete-markov": [
        "fit votes.csv --steps 2 --hidden 4 --layers 1 --device cpu --out m.safetensors",
        "sample model.safetensors -n 5 --nfe 2 --device cpu --out s.csv",
        "impute model.safetensors holes.csv --draws 2 --nfe 2 --rounds 1 --device cpu --out i.csv",
        "rate model.safetensors votes.csv --device cpu --out r.csv",
    ],
    "model-collapse": [
        "run data.csv --model gaussian --generations 2 --seeds 1 --workflow replace --out r.json",
        "value data.csv --model gaussian --real 10 --synth 5 --seeds 1 --out v.json",
        "run notes.txt --generations 2 --seeds 1 --workflow replace --out r.json",
    ],
    "abstract-reasoning": [
        "run --model replay:replies.jsonl --tasks ec/var_set --items 2 --shots 2 --maps 1"
        " --kinds raw,full --out r.json --plot p.html",
        "run --model replay:replies.jsonl --data own.jsonl --items 2 --shots 2 --maps 1"
        " --kinds raw,full",
        "compare one.json two.json",
        "items --tasks ec/var_set --items 2 --shots 3 --out i.jsonl",
        "power --sets 2",
    ],
    "agent-resilience": [
        "run --tasks tasks.jsonl --topology linear --seeds 1 --out o.json",
        "critical --tasks arithmetic:2 --topology linear --seeds 1",
        "report r.json --html r.html",
        "thread r.json --out t.html",
        "inject trace.jsonl --faulty coder --kind code --pm 1 --pe 1 --out i.jsonl --html i.html",
    ],
    "visual-memory": [
        "add photos --store other.vm --encoder pixels --size 8",
        "ask memory.vm new.png -k 3 --why w.html",
        "ask memory.vm photos -k 3 --out a.csv",
        "remove memory.vm dark/0.png --yes --receipt r.json",
        "list memory.vm --out l.csv",
        "audit memory.vm -k 2 --worst 1",
        "snapshot memory.vm --against monday",
        "compact memory.vm",
        "export memory.vm e.npz",
        "import rows.npz --store rows.vm",
        "compare photos --encoder pixels --size 8 --plot v.html",
        "compare-erasure --rows 100 --dim 8 --store faiss-flat --out e.csv",
    ],
}


# accepted, these take a second or more
SLOW = {("llm-bp", "compare")}
SLOW_VALUES = ("--tasks=humaneval:", "--model=hf:.",
               "--init=gw", "--endpoint=http://127.0.0.1:9/v1", "--encoder=nonsense")  # fmt: skip

# what compare reads, by method
COMPARED = {
    "cmi-test": "pay.csv",
    "procrustes-wasserstein": "shapes",
    "fedgwc": "sites.csv",
    "dkw-certificate": "risks.csv",
    "llm-bp": "graph",
    "optimistic-ftrl": "costs.csv",
    "auction-bne": "values.csv",
    "ssar": "log.npz",
    "discrete-markov": "votes.csv",
    "model-collapse": "data.csv",
    "abstract-reasoning": "own.jsonl",
    "agent-resilience": "tasks.jsonl",
    "visual-memory": "photos",
}


def commands(slug: str) -> list[Command]:
    """Every command of a method, compare last."""
    used = [
        Command(slug, f"use {slug} {line}", (slug, line.split()[0]) in SLOW) for line in LINES[slug]
    ]
    compare = (
        f"compare {slug} --data {COMPARED[slug]} --scale smoke --seeds 2 --jobs 1 -q --out c.html"
    )
    return [*used, Command(slug, compare, slow=True)]


# --- running -------------------------------------------------------------------------------------


class TooLong(BaseException):
    """No ``except Exception`` of ours may swallow the alarm."""


@dataclass
class Done:
    code: int
    out: str
    err: str
    crash: str = ""
    left: list[str] = field(default_factory=list)  # files that were not there before


def run(line: str | list[str], folder: Path, seconds: float = 60, memory: float = 6e9) -> Done:
    """``practicum LINE`` in this process, inside ``folder``, by the entry point that people run.

    ``memory``: address space in bytes beyond what the process has: giants fail, and do not swap.
    """
    import contextlib
    import io
    import resource
    import signal
    import sys
    import threading
    import traceback
    import warnings

    words = shlex.split(line) if isinstance(line, str) else line
    home = folder.parent / "home"
    home.mkdir(exist_ok=True)
    own = {
        "PRACTICUM_STORE": str(home / "store.sqlite"),
        "PRACTICUM_CHAT_CACHE": str(home / "chat.sqlite"),
        "MINARI_DATASETS_PATH": str(home / "minari"),
        "XDG_CACHE_HOME": str(home / "cache"),
    }
    before = os.getcwd(), sys.argv, dict(os.environ), threading.excepthook
    out, err = io.StringIO(), io.StringIO()
    code: Any = 0
    crash = ""

    def ring(*_: Any) -> None:
        raise TooLong

    limits = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    handler = signal.signal(signal.SIGALRM, ring)
    try:
        os.environ.update(own)
        os.chdir(folder)
        sys.argv = ["practicum", *words]
        resource.setrlimit(resource.RLIMIT_AS, (used + int(memory), limits[1]))
        signal.setitimer(signal.ITIMER_REAL, seconds)
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            warnings.catch_warnings(),
        ):
            cli.main()
    except SystemExit as stop:
        code = stop.code
    except TooLong:
        crash = f"still running after {seconds} s"
    except BaseException as error:
        crash = "".join(traceback.format_exception(error, limit=-4))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        resource.setrlimit(resource.RLIMIT_AS, limits)
        os.chdir(before[0])
        sys.argv = before[1]
        os.environ.clear()
        os.environ.update(before[2])
        threading.excepthook = before[3]
    return Done(code if isinstance(code, int) else int(code is not None), out.getvalue(),
                err.getvalue(), crash)  # fmt: skip


# --- mutants -------------------------------------------------------------------------------------

EACH = int(os.environ.get("PRACTICUM_FUZZ_EACH", "12"))  # damaged copies of a file; more to explore
PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b55")
HUGE = str(10**30)
NUMBERS = {
    "int": ("0", "-1", "nan", "1e308", HUGE, "", "x"),
    "float": ("0", "-1", "nan", "inf", "1e308", "-1e-320", HUGE, "", "x"),
}
WORDS = ("", " ", "nonsense", ",", "a,a", "0", "-1", "nan", HUGE, "[", "é" * 40)
# what the words of an option are made of, and a little beyond
ODD = {
    "--set": (
        "ball:nan",
        "ball:inf",
        "ball:-1",
        "ball:0",
        "ball:",
        "ball:1e308",
        "box:1:0",
        "box:nan:1",
        "box:0:1e308",
        "l1:1e-320",
        "capped-simplex:0.1",
        "capped-simplex:nan",
    ),
    "--hints": (
        "mean:0",
        "mean:-1",
        "mean:²",
        "mean:9" + "9" * 40,
        "48",
        "7D",
        "--5",
        "-0",
        "recorded",
        "adversarial",
        "99999999999D",
        "NaT",
        "none,none",
    ),
    "--rule": ("known_path", "et", "observed_path"),
    "--loss": ("squared", "quantile", "logistic", "log-wealth", "prices", "absolute"),
    "--bidders": ("1", "2,3", "2,", "1e3", "3000000000", "100000"),
    "--prior": ("uniform:0,1", "uniform:nan,1"),
    "--low": ("nan", "inf", "1e308", "1,2,3", "data", "1"),
    "--high": ("nan", "-inf", "-1", "1e-320", "1,2,3"),
    "--box": ("0:0,0:2", "-1:2,0:2", "0:9,0:9", "0:2", "a:b,c:d", "0:4,0:4", "0:2:1,0:2"),
    "--real": ("1", "2", "1,1", "1e3", "39", "5000000000"),
    "--synth": ("1", "0,0", "1e3", "-5,5", "5000000000"),
    "--shots": ("1e3", "100000000", "²"),
    "--tasks": (
        "arithmetic:0",
        "arithmetic:-1",
        "arithmetic:²",
        "humaneval:0",
        "humaneval:99999999",
        "humaneval:",
        "ec/",
        "ec/var_set,ec/var_set",
        "sr,sr/nothing",
        "paired",
    ),
    "--where": ("label", "label ==", "label == nobody", "== x", "label < 3", "label == dark or 1"),
    "--columns": ("a,a", "a", "a,nope", "day", "x", "x,x", "a,b,c,day"),
    "--candidates": ("degree,degree", "*", "wage", "reg_*", "age", "firm"),
    "--given": ("*", "age,age", "wage", "degree"),
    "--ignore": ("*", "wage", "age"),
    "--response": ("wage,wage", "*", "degree", "wage,luck"),
    "--groups": ("firm", "wage", "degree"),
    "--env": ("Pendulum-v999", "CartPole-v1", "none", "ALE/Pong-v5", "module:Env-v0"),
    "--homophily": ("inf", "2", "1e308", "llm", "labels", "em", "1", "0.5"),
    "--classes": ("plants", "plants,plants", "plants,waters,stones", "PLANTS,plants"),
    "--label": ("label", "id", "text", "LABEL"),
    "--truth": ("label", "id"),
    "--kinds": ("raw,raw", "full", "raw,operator", "raw,nothing"),
    "--alphabet": ("a", "aaaa", "ab", " " * 40, "🙂" * 40),
    "--column": ("client", "n", "error", "value", "kind", "CLIENT"),
    "--n-column": ("client", "n", "error"),
    "--client-column": ("client", "n", "error"),
    "--group": ("kind", "value", "team", "y", "SO"),
    "--client": ("site", "y", "u", "team"),
    "--scenario": ("conflict", "two", "domain", "dirichlet", "iid"),
    "--estimator": ("centred", "comovement", "ema"),
    "--view": ("row",),
    "--arms": ("lp,lp", "recursive", "joint", "hedge,centre", "ogd,ogd"),
    "--methods": ("closed_form,closed_form", "ode"),
    "--against": ("none", "bc,bc", "filtered-bc", "iql"),
    "--device": ("cuda", "cpu:9", "meta", "mps", "cpu"),
    "--namespace": ("../x", "a b", "/abs", "..", "x/y/z"),
    "--levels": ("random,random", "expert"),
    "--task": ("t", "t,t", "arithmetic/0"),
    "--arm": ("vanilla", "vanilla, defended", "faulty"),
    "--topology": ("linear,linear", "flat-vote", "hierarchical"),
    "--faulty": ("coder", "tester"),
    "--grader": ("numeric", "exact", "code"),
    "--defence": ("challenger", "inspector", "challenger,challenger"),
    "--method": ("union", "program", "traj", "all", "ode"),
    "--init": ("global", "gw", "fiedler", "random", "identity"),
    "--weights": ("x", "y", "2", "-1"),
    "--obs": ("observations", "actions", "x,y"),
    "--act": ("actions", "observations"),
    "--reward": ("rewards", "observations"),
    "--terminal": ("terminals", "rewards"),
    "--episode": ("rewards", "timeouts"),
    "--index": ("faiss-ivf", "hnsw", "usearch"),
    "--encoder": ("pixels",),
    "--against-snapshot": (),
    "--store": ("memory.vm", "photos", "new.png"),
    "--losses": ("01", "bounded"),
    "--divergence": ("kl", "wasserstein"),
    "--few": ("drop", "keep"),
    "--endpoint": ("http://127.0.0.1:9/v1", "ftp://x", "http://"),
    "--model": ("local:", "replay:", "replay:missing.jsonl", "gguf:new.png", "hf:.", "gaussian"),
    "--cache": ("none", "folder/none.sqlite", "data.csv"),
}
RESULTS = ("even.csv", "e.npz")  # written, though arguments

Prepare = Callable[[Path], None]


@dataclass(frozen=True)
class Mutant:
    command: Command
    name: str
    words: tuple[str, ...]
    prepare: Prepare | None = None
    slow: bool = False

    @property
    def id(self) -> str:
        return f"{self.command.id}: {self.name}"


def options(command: Command) -> list[click.Parameter]:
    """What Typer made of the command's signature."""
    if command.words[0] == "compare":
        return [p for p in _command("compare").params if p.name != "help"]
    slug, name = command.words[1:3]
    group: Any = typer.main.get_command(catalog.get(slug).load_command())
    return [p for p in group.commands[name].params if p.name != "help"]


def _command(name: str) -> click.Command:
    group: Any = typer.main.get_command(app)
    return group.commands[name]


def mutants(command: Command, given: Path) -> Iterator[Mutant]:
    """Every mutant of a line, in a fixed order; ``given`` holds the files it reads."""
    refused = [*_of_inputs(command, given), *_of_outputs(command)]
    others = [Mutant(command, "as it is", tuple(command.words))]
    if command.words[0] == "compare":  # a study each: its own options once, the methods' elsewhere
        others += _of_options(command) if command.slug == "dkw-certificate" else []
        others += _of_contents(command, given, EACH // 3)
        refused += _of_method_options(command)
    else:
        others += [*_of_options(command), *_of_contents(command, given)]
    for mutant in others:
        yield replace(mutant, slow=command.slow or mutant.words[-1] in SLOW_VALUES)
    for mutant in refused:
        often = any(word in mutant.name for word in ACCEPTED)
        yield replace(mutant, slow=command.slow and often)


ACCEPTED = ("cut", "first line", "new folder", "ending", "bad")  # some of these, by some commands


def _of_method_options(command: Command) -> Iterator[Mutant]:
    """Of the words of ``-o``; their values are tried without a run, in the tests."""
    for text in ("nonsense", "nonsense=1", "=", "=1", ""):
        yield Mutant(command, f"-o {text}", (*command.words, "-o", text))


def _of_options(command: Command) -> Iterator[Mutant]:
    for param in options(command):
        flag = param.opts[-1]
        if getattr(param, "is_flag", False) or flag in WRITES or param.param_type_name != "option":
            continue
        kind = param.type
        if isinstance(kind, click.types.IntParamType):
            values: tuple[str, ...] = NUMBERS["int"]
        elif isinstance(kind, click.types.FloatParamType):
            values = NUMBERS["float"]
        elif isinstance(kind, click.Choice):
            values = ("", "nonsense")
        elif isinstance(kind, click.Path):
            values = ("", "nowhere.csv")
        else:
            values = WORDS
        values += ODD.get(flag, ())
        for value in values:
            if not (value or flag.startswith("--")):
                continue  # -k without a value would take the next word
            # the last of a repeated option holds, or all do: both are worth a try
            yield Mutant(command, f"{flag}={value}", (*command.words, f"{flag}={value}"
                         if flag.startswith("--") else f"{flag}{value}"))  # fmt: skip


def _of_inputs(command: Command, given: Path) -> Iterator[Mutant]:
    words = command.words
    for place, word in enumerate(words):
        if place < 3 or words[place - 1] in WRITES or not (given / word).exists():
            continue

        def instead(name: str, content: bytes | None, word: str = word) -> Mutant:
            return Mutant(command, f"{word} {name}", tuple(words), _put(word, content))

        other = [*words[:place], f"missing{Path(word).suffix}", *words[place + 1 :]]
        yield Mutant(command, f"{word} missing", tuple(other))
        yield Mutant(command, f"{word} unnamed", (*words[:place], "", *words[place + 1 :]))
        yield instead("empty", b"")
        yield instead("a picture", PNG)
        yield instead("a sentence", b"Once there was a file.\n")
        yield instead("zeros", bytes(4096))
        yield instead("an empty folder", None)
        yield Mutant(command, f"{word} a pipe", tuple(words), _pipe(word))
        if os.geteuid():  # root reads everything
            yield Mutant(command, f"{word} unreadable", tuple(words), _unreadable(word))
        if (given / word).is_dir():
            for inside in sorted(p for p in (given / word).rglob("*") if p.is_file())[:6]:
                name = str(inside.relative_to(given))
                data = inside.read_bytes()
                for how, content in (("empty", b""), ("cut", data[: len(data) // 2]), ("bad", PNG)):
                    yield Mutant(command, f"{name} {how}", tuple(words), _put(name, content))
        else:
            data = (given / word).read_bytes()
            yield instead("cut", data[: len(data) // 2])
            yield instead("its first line", data.split(b"\n")[0] + b"\n")


def _of_contents(command: Command, given: Path, each: int = EACH) -> Iterator[Mutant]:
    """Copies of every file that a line reads, damaged by :mod:`mutations`."""
    for word in command.words[3:]:
        if not (given / word).is_file():
            continue
        data = (given / word).read_bytes()
        made = mutations.mutants(data, seed=zlib.crc32(command.line.encode()), n=each)
        for k, (name, content) in enumerate(made):
            change = _put(word, content)
            yield Mutant(command, f"{word} {name} {k}", tuple(command.words), change)


def _of_outputs(command: Command) -> Iterator[Mutant]:
    words = command.words
    for place, word in enumerate(words):
        if not (words[place - 1] in WRITES or word in RESULTS):
            continue
        end = Path(word).suffix
        option = words[place - 1] if words[place - 1] in WRITES else "OUT"

        def instead(
            name: str,
            value: str,
            prepare: Prepare | None = None,
            place: int = place,
            option: str = option,
        ) -> Mutant:
            made = (*words[:place], value, *words[place + 1 :])
            return Mutant(command, f"{option} {name}", made, prepare)

        yield instead("a folder", f"folder{end}", _put(f"folder{end}", None))
        yield instead("in a file", f"file.txt/x{end}", _put("file.txt", b"mine"))
        yield instead("where nothing is written", f"/proc/x{end}")
        yield instead("a pipe", f"pipe{end}", _pipe(f"pipe{end}"))
        yield instead("empty", "")
        yield instead("without ending", "result")
        yield instead("of another ending", "result.docx")
        yield instead("too long", "x" * 300 + end)
        yield instead("in a new folder", f"new/er/x{end}")


def _clear(path: Path) -> None:
    import shutil

    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _put(name: str, content: bytes | None) -> Prepare:
    def prepare(folder: Path) -> None:
        _clear(folder / name)
        if content is None:
            (folder / name).mkdir(parents=True)
        else:
            (folder / name).write_bytes(content)

    return prepare


def _unreadable(name: str) -> Prepare:
    return lambda folder: (folder / name).chmod(0)


def _pipe(name: str) -> Prepare:
    def prepare(folder: Path) -> None:
        _clear(folder / name)
        os.mkfifo(folder / name)

    return prepare


# --- judging -------------------------------------------------------------------------------------

RUBBISH = re.compile(r"Traceback|object at 0x|<class|Error\(|np\.(float|int|str|array)")
MAY_FAIL = {"audit", "remove", "verify", "compare"}  # exit status 1 means something there


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of every file."""
    return {
        str(p.relative_to(folder)): (p.stat().st_size, p.stat().st_mtime_ns)
        for p in folder.rglob("*")
        if p.is_file()
    }


def complaints(done: Done, before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]],
               words: tuple[str, ...]) -> list[str]:  # fmt: skip
    """What is wrong with how an invocation ended."""
    if done.crash:
        return [done.crash]
    found = []
    lines = done.err.splitlines()
    errors = [line for line in lines if line.startswith("error: ")]
    usage = any("Error" in line for line in lines) and "Usage:" in done.err
    if done.code == 2 and len(errors) + usage != 1:
        found.append(f"{len(errors)} error lines: {done.err!r}")
    if done.code not in ((0, 1, 2) if set(words) & MAY_FAIL else (0, 2)):
        found.append(f"exit status {done.code}: {done.err[-500:]!r}")
    for line in errors:
        if len(line) > 700 or len(line) < 15:
            found.append(f"an error of {len(line)} characters: {line[:200]!r}")
    if rubbish := RUBBISH.search(done.err):
        found.append(f"{rubbish.group()!r} in {done.err[-500:]!r}")
    new = {name for name in after if after[name] != before.get(name)}
    if done.code == 2 and (kept := {n for n in new if ".vm/" not in n}):
        found.append(f"refused, but wrote {sorted(kept)}: {done.err[-300:]!r}")
    if empty := [n for n in new if after[n][0] == 0 and Path(n).name not in ("journal", "lock")]:
        found.append(f"empty files {empty}")
    if hidden := [n for n in new if Path(n).name.startswith(".")]:
        found.append(f"temporary files {hidden}")
    if lost := {n for n in set(before) - set(after) if ".vm/" not in n}:
        found.append(f"deleted {lost}")
    return found
