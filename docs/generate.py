"""A page for every method: card, docstrings, command line, verdicts and benchmark as they were run.

Nothing here is written by hand: what the page says comes from ``card.toml``, the package's
docstring and public names, the Typer app, ``RESULTS.md`` and ``BENCHMARKS.md``.
"""

from __future__ import annotations

import re
from pathlib import Path

import typer

from practicum import catalog

ROOT = Path(__file__).parents[1]


def write_pages(docs: Path) -> None:
    """``docs/methods/SLUG.md`` and their index, and the pages that are files of the repository."""
    target = docs / "methods"
    target.mkdir(exist_ok=True)
    results, benchmarks = sections(ROOT / "RESULTS.md"), sections(ROOT / "BENCHMARKS.md")
    methods = catalog.methods()
    for stale in target.glob("*.md"):
        stale.unlink()
    for slug, method in methods.items():
        page = method_page(method, results.get(slug, ""), benchmarks.get(slug, ""))
        (target / f"{slug}.md").write_text(page, encoding="utf-8")
    (target / "index.md").write_text(index_page(methods), encoding="utf-8")
    for name in ("RESULTS", "BENCHMARKS", "CONTRIBUTING"):
        source = ROOT / f"{name}.md"
        text = source.read_text(encoding="utf-8") if source.exists() else f"# {name.title()}\n"
        (docs / f"{name.lower()}.md").write_text(_within_docs(text), encoding="utf-8")


def sections(path: Path) -> dict[str, str]:
    """slug -> what stands below the heading that names it; nothing where there is no file."""
    if not path.exists():
        return {}
    parts = re.split(r"^## +(.+)$", path.read_text(encoding="utf-8"), flags=re.M)[1:]
    found = {}
    for heading, body in zip(parts[::2], parts[1::2], strict=True):
        named = re.findall(r"`([a-z0-9-]+)`", heading)
        if named:
            found[named[-1]] = body.strip()
    return found


def index_page(methods: dict[str, catalog.Method]) -> str:
    """All methods by field."""
    lines = ["# Methods", ""]
    for field, title in catalog.FIELDS.items():
        cards = [m.card for m in methods.values() if m.card.field == field]
        if cards:
            lines += [f"## {title}", ""]
            lines += [f"* [{c.title}]({c.slug}.md) (`{c.slug}`): {c.summary}" for c in cards]
            lines.append("")
    lines += ["```{toctree}", ":hidden:", "", *methods, "```", ""]
    return "\n".join(lines)


def method_page(method: catalog.Method, results: str, benchmark: str) -> str:
    """One method, from what it is for to its Python names."""
    card = method.card
    paper = card.paper
    where = f" [arXiv {paper.arxiv}](https://arxiv.org/abs/{paper.arxiv})." if paper.arxiv else ""
    lines = [
        f"# {card.title}",
        "",
        card.summary,
        "",
        f"*{paper.title}*. {', '.join(paper.authors)}. {paper.venue}.{where}",
        "",
        f"Reads {', '.join(card.accepts)}. {_install(card.extras)}",
        "",
    ]
    for title, points in (("Use it when", card.use_when), ("Not when", card.not_when)):
        if points:
            lines += [f"## {title}", "", *(f"* {p}" for p in points), ""]
    lines += ["## In Python", "", _rst(f".. automodule:: {method.module}\n   :no-index:"), ""]
    lines += ["## On the command line", "", *command_lines(method), ""]
    lines += ["## The paper's claims", "", claims(results) or "Not verified yet.", ""]
    if benchmark:
        lines += ["## Cost, against the strongest peer", "", benchmark, ""]
    names = public_names(method)
    if names:
        lines += ["## Public names", ""]
        lines += [
            _rst(f".. autodata:: {n}" if kind == "data" else _documented(n, kind))
            for n, kind in names
        ]
    return "\n".join(lines) + "\n"


def claims(results: str) -> str:
    """The table of RESULTS.md as a paragraph a claim, its evidence below it."""
    lines = []
    evidence = _evidence(results)
    for line in results.splitlines():
        cells = [c.strip().replace("\\|", "|") for c in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) != 4:
            if not line.startswith(("* ", "  * ")):
                lines.append(line)
            continue
        claim, reported, measured, verdict = cells
        if claim == "claim" or not claim.strip("-"):
            continue
        told = f"{verdict}: reported {reported}; measured {measured or '-'}."
        lines += [f"### {claim}", "", told]
        lines += ["", *evidence.get(claim.partition(":")[0], []), ""]
    return "\n".join(lines)


def _evidence(results: str) -> dict[str, list[str]]:
    """Claim -> the lines of RESULTS.md that say what its verdict rests on."""
    found: dict[str, list[str]] = {}
    part: list[str] = []
    for line in results.splitlines():
        if named := re.match(r"\* \*\*(\S+)\*\* ?(.*)", line):
            part = found[named[1]] = [named[2], ""] if named[2] else []
        elif line.startswith("  * "):
            part.append(line[2:])
    return found


def _install(extras: list[str]) -> str:
    return f"Install with `pip install 'practicum[{','.join(extras)}]'`." if extras else ""


def _rst(text: str) -> str:
    return f"```{{eval-rst}}\n{text}\n```"


def _documented(name: str, kind: str) -> str:
    members = "\n   :members:" if kind == "class" else ""
    return f".. auto{kind}:: {name}{members}"


def public_names(method: catalog.Method) -> list[tuple[str, str]]:
    """The names a package offers, with the Sphinx directive's word for each."""
    import importlib
    import inspect

    package = importlib.import_module(method.module)
    found = []
    for name in getattr(package, "__all__", []):
        thing = getattr(package, name)
        if inspect.ismodule(thing):
            continue
        kind = "class" if inspect.isclass(thing) else "function" if callable(thing) else "data"
        found.append((f"{method.module}.{name}", kind))
    return found


def command_lines(method: catalog.Method) -> list[str]:
    """``practicum use SLUG COMMAND``: what each does, its arguments and options."""
    group = typer.main.get_command(method.load_command())
    commands = getattr(group, "commands", {"": group})
    lines = []
    for name, command in commands.items():
        full = f"practicum use {method.slug} {name}".strip()
        lines += [f"### `{full}`", "", _plain(command.help or ""), ""]
        for parameter in command.params:
            record = parameter.opts[0] if parameter.param_type_name == "option" else parameter.name
            about = getattr(parameter, "help", None) or ""
            must = ", required" if parameter.required else ""
            lines.append(f"* `{record}` ({_kind(parameter)}{must}): {about}".rstrip(": "))
        lines.append("")
    return lines


def _kind(parameter: object) -> str:
    kind = getattr(parameter, "type", None)
    choices = getattr(kind, "choices", None)
    return " | ".join(map(str, choices)) if choices else getattr(kind, "name", "text")


def _plain(text: str) -> str:
    """A docstring as Markdown: its example as a block."""
    text = re.sub(r"\n[ \t]+", "\n", text).replace("\b", "").strip()
    block = r"\n```console\n$ \1\n```"
    return re.sub(r"(?:Example: *)?(practicum use .+)$", block, text, flags=re.M)


def _within_docs(text: str) -> str:
    """Links of a file in the root, as seen from docs/."""
    text = re.sub(r"\]\(docs/", "](", text)
    return re.sub(
        r"\]\((RESULTS|CONTRIBUTING|BENCHMARKS)\.md", lambda m: f"]({m[1].lower()}.md", text
    )
