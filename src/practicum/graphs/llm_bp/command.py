"""``practicum use llm-bp``: look at a graph, judge its edges, classify its nodes, compare."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure

    from practicum.data.graph import TextGraph
    from practicum.graphs.llm_bp.homophily import Homophily
    from practicum.graphs.llm_bp.model import LLMBP

app = typer.Typer(no_args_is_help=True, add_completion=False)

Graph = Annotated[
    Path | None,
    typer.Option(help="GraphML, GML, a folder with nodes.csv and edges.csv, a Packages file."),
]
Nodes = Annotated[Path | None, typer.Option(help="Table of nodes: id, text, perhaps label.")]
Edges = Annotated[Path | None, typer.Option(help="Table of edges: src, dst, perhaps weight.")]
IdColumn = Annotated[str | None, typer.Option("--id", help="Column of ids (id, or the first).")]
TextColumn = Annotated[str | None, typer.Option("--text", help="Column of texts (text).")]
SrcColumn = Annotated[str | None, typer.Option("--src", help="Column where an edge starts.")]
DstColumn = Annotated[str | None, typer.Option("--dst", help="Column where an edge ends.")]
EncoderName = Annotated[
    str, typer.Option(help="minilm, a folder or sentence-transformers name, or URL#MODEL.")
]
ClassNames = Annotated[
    list[str] | None,
    typer.Option(
        help="Names of the classes, by commas; where a name holds a comma, once for each class."
    ),
]


@app.callback()
def root() -> None:
    """Classes of the nodes of a graph with texts, from class names or a few labels."""


@app.command()
def check(
    graph: Graph = None,
    nodes: Nodes = None,
    edges: Edges = None,
    classes: ClassNames = None,
    id_column: IdColumn = None,
    text_column: TextColumn = None,
    label: Annotated[str | None, typer.Option(help="Column of true classes.")] = None,
    src_column: SrcColumn = None,
    dst_column: DstColumn = None,
) -> None:
    """Look at a graph before anything is embedded: edges, hubs, texts, class names, leaks.

    Example: practicum use llm-bp check --nodes nodes.csv --edges edges.csv --label topic
    """
    import numpy as np

    from practicum.graphs.llm_bp.propagation import HUB
    from practicum.graphs.llm_bp.prototypes import check_class_names, check_leak

    data = _read(graph, nodes, edges, id_column, text_column, label, src_column, dst_column, False)
    names = _names(classes) or data.classes
    degrees = data.degrees
    print(f"Neighbours: median {np.median(degrees):g}, most {degrees.max():,}.")
    if lonely := int((degrees == 0).sum()):
        print(f"{lonely:,} nodes have no edge: their text alone decides.")
    if hubs := int((degrees > HUB).sum()):
        print(f"{hubs:,} nodes have more than {HUB:,} neighbours: use --max-degree {HUB}.")
    texts = data.texts or ()
    empty = sum(not t.strip() for t in texts)
    lengths = [len(t.split()) for t in texts if t.strip()] or [0]
    print(
        f"Texts: {len(texts) - empty:,} of {data.n_nodes:,} nodes, median {np.median(lengths):g} "
        f"words, longest {max(lengths):,} (the packaged encoder reads about 200)."
    )
    if empty:
        print(f"{empty:,} texts are empty: run will refuse them.")
    if not names:
        print("No class names: give --classes, or a column with --label.")
        return
    print(f"Classes: {', '.join(check_class_names(names, descriptive=False))}.")
    if data.labels is None or not (data.labels >= 0).any():
        return
    known = int((data.labels >= 0).sum())
    share = np.bincount(data.labels[data.labels >= 0], minlength=len(data.classes)) / known
    print(
        f"{known:,} nodes have a class; the largest, {data.classes[int(share.argmax())]!r}, has "
        f"{share.max():.0%} of them."
    )
    print(
        f"Of the edges between such nodes {data.homophily:.2f} join equal classes; by chance "
        f"{(share**2).sum():.2f} would."
    )
    if texts and not check_leak(texts, data.labels, data.classes):
        print("No class name stands in more than 20 % of its own texts.")


@app.command()
def homophily(
    graph: Graph = None,
    nodes: Nodes = None,
    edges: Edges = None,
    classes: ClassNames = None,
    judged: Annotated[Path | None, typer.Option(help="A filled-in sheet.")] = None,
    id_column: IdColumn = None,
    text_column: TextColumn = None,
    label: Annotated[
        str | None, typer.Option(help="Column of true classes, to compare with.")
    ] = None,
    src_column: SrcColumn = None,
    dst_column: DstColumn = None,
    encoder: EncoderName = "minilm",
    temperature: Annotated[float, typer.Option(help="Cosines are divided by it.")] = 0.025,
) -> None:
    """How often linked nodes share a class: judged, estimated from texts, and true where known.

    Example: practicum use llm-bp homophily --nodes nodes.csv --edges edges.csv --classes "a,b"
    """
    from practicum.graphs.llm_bp.homophily import estimate_homophily
    from practicum.graphs.llm_bp.model import LLMBP

    data = _read(graph, nodes, edges, id_column, text_column, label, src_column, dst_column)
    names = _classes(classes, data)
    if judged:
        _say_judged(_judged(judged))
    settings: dict[str, Any] = {"adapt": "none", "coupling": "uniform"}
    model = LLMBP(names, encoder, temperature=temperature, **settings).fit(data)
    found = estimate_homophily(model.prior_, data.edges)
    print(
        f"EM, from the texts alone: r = {found.r:.2f} over {found.n_edges:,} edges at temperature "
        f"{temperature:g}; chance agreement {found.chance:.2f}."
    )
    print(EM_WARNING)
    if label is not None and data.homophily == data.homophily:  # not NaN
        print(f"True, by the column {label!r}: {data.homophily:.2f}.")


JUDGE = "Judge a hundred edges to be sure: practicum use llm-bp sheet --help"
EM_WARNING = (
    "EM takes texts about one subject for texts of one class: where linked nodes share a subject "
    f"it is too high. {JUDGE}"
)
WIDE = 0.5  # an interval of r that decides nothing


@app.command()
def sheet(
    out: Annotated[Path, typer.Option(help="The sheet to fill in, a CSV file.")],
    graph: Graph = None,
    nodes: Nodes = None,
    edges: Edges = None,
    n: Annotated[int, typer.Option("--n", help="Edges to judge.", min=1)] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Which random edges.")] = 0,
    id_column: IdColumn = None,
    text_column: TextColumn = None,
    src_column: SrcColumn = None,
    dst_column: DstColumn = None,
) -> None:
    """Write random edges with both texts, for you to say whether the two are of one class.

    Example: practicum use llm-bp sheet --nodes nodes.csv --edges edges.csv --out sheet.csv
    """
    import pandas as pd

    from practicum.errors import InputError
    from practicum.graphs.llm_bp.homophily import edges_to_judge
    from practicum.study.report import write_atomically

    if out.exists():
        raise InputError(f"{out} is there already and may hold answers", "name another --out")
    data = _read(graph, nodes, edges, id_column, text_column, None, src_column, dst_column)
    pairs = edges_to_judge(data.edges, n, seed)
    table = pd.DataFrame(
        {
            "src": [data.ids[i] for i in pairs[:, 0]],
            "dst": [data.ids[j] for j in pairs[:, 1]],
            "src_text": [data.texts[i] for i in pairs[:, 0]],
            "dst_text": [data.texts[j] for j in pairs[:, 1]],
            "same": "",
        }
    )
    print(f"Written: {write_atomically(out, lambda p: table.to_csv(p, index=False))}")
    print(
        f"Fill the column 'same' of its {len(table)} rows with yes or no, then: practicum use "
        f"llm-bp run --judged {out} ..."
    )


@app.command()
def run(
    graph: Graph = None,
    nodes: Nodes = None,
    edges: Edges = None,
    classes: ClassNames = None,
    label: Annotated[
        str | None, typer.Option(help="Column of known classes: used, and kept as they are.")
    ] = None,
    truth: Annotated[
        str | None, typer.Option(help="Column of true classes: only to score against.")
    ] = None,
    homophily: Annotated[
        str, typer.Option(help="auto, labels, em, llm (with --chat), or a share from 0 to 1.")
    ] = "auto",
    chat: Annotated[
        str | None,
        typer.Option(help="Language model that annotates: local, gguf:FILE, a name at --endpoint."),
    ] = None,
    endpoint: Annotated[str | None, typer.Option(help="OpenAI-compatible URL of --chat.")] = None,
    thing: Annotated[str, typer.Option(help="What the texts are, for language models.")] = "text",
    judged: Annotated[
        Path | None, typer.Option(help="A filled-in sheet; goes before --homophily.")
    ] = None,
    coupling: Annotated[str, typer.Option(help="odds, uniform, or paper.")] = "odds",
    encoder: EncoderName = "minilm",
    adapt: Annotated[str, typer.Option(help="subspace, none, or prompt.")] = "subspace",
    average_first: Annotated[
        bool, typer.Option(help="Average neighbours before: where linked nodes agree.")
    ] = False,
    few_shot: Annotated[
        str, typer.Option(help="With --label: prototypes, or logistic (from 5 a class on).")
    ] = "prototypes",
    damping: Annotated[float, typer.Option(help="Share of the old message kept.")] = 0.0,
    rounds: Annotated[int, typer.Option(help="Of messages.", min=0)] = 5,
    max_degree: Annotated[
        int, typer.Option(help="Leave out edges of nodes with more neighbours; 0: none.", min=0)
    ] = 0,
    weights: Annotated[
        bool, typer.Option(help="Edge weights count as so many equal edges.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Which texts are annotated.")] = 0,
    id_column: IdColumn = None,
    text_column: TextColumn = None,
    src_column: SrcColumn = None,
    dst_column: DstColumn = None,
    out: Annotated[Path | None, typer.Option(help="Write id, class, probability as CSV.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write figures as one HTML page.")] = None,
) -> None:
    """Classify every node from class names, or from the labels of some.

    Example: practicum use llm-bp run --nodes n.csv --edges e.csv --classes "games,science,sound"
    """
    from practicum.errors import InputError
    from practicum.graphs.llm_bp.model import LLMBP
    from practicum.study.report import write_atomically, write_figures

    if label and label == truth:
        raise InputError("--label and --truth name one column", "score on what is not shown")
    if few_shot == "logistic" and not label:
        raise InputError(
            "--few-shot logistic learns from labels, and there is no --label",
            "--label COLUMN, or leave --few-shot out",
        )
    data = _read(
        graph, nodes, edges, id_column, text_column, label or truth, src_column, dst_column
    )
    names = _classes(classes, data)
    if not label and not truth and "label" in data.columns:
        print(
            f"Of the column {data.columns['label']!r} only the names of the classes are used; "
            "--label makes its classes known, --truth scores against them."
        )
    found = _judged(judged) if judged else None
    if found:
        _say_judged(found)
    with _options_in_words():
        model = LLMBP(
            names,
            encoder,
            adapt=adapt,
            annotator=_chat(chat, endpoint),
            thing=thing,
            homophily=found or _number_or_word(homophily),
            coupling=coupling,
            n_iter=rounds,
            damping=damping,
            aggregate_first=average_first,
            few_shot=few_shot,
            max_degree=max_degree or None,
            use_weights=weights,
            random_state=seed,
        ).fit(data, y=None if not label else _named(data))
    _say(model, chat, bool(label))
    if label:
        _say_counted(model, data)
    if truth:
        scored = data
        if label:
            scored = _read(
                *(graph, nodes, edges, id_column, text_column, truth, src_column, dst_column),
                tell=False,
            )
        _score(model, scored, truth, data if label else None)
    table = _table(model)
    _counts(model, table)
    if out:
        print(f"Written: {write_atomically(out, lambda p: table.to_csv(p, index=False))}")
    if plot:
        title = f"Classes of {data.name}"
        print(f"Written: {write_figures(_figures(model), plot, title)}")


@app.command()
def compare(
    data: Annotated[
        str, typer.Option(help="debian-apps, debian-roles, wordnet-nouns, scipy-topics, ...")
    ] = "scipy-topics",
    shots: Annotated[str, typer.Option(help="Labels a class, by commas; 0: zero-shot.")] = "0,5",
    seeds: Annotated[int, typer.Option(min=1)] = 5,
    arms: Annotated[
        str, typer.Option(help="By commas.")
    ] = "names,raw,na,lp,sgc,bp,bp-odds,na+bp,lr+bp",
    encoder: EncoderName = "minilm",
) -> None:
    """Compare ways to classify on a graph that is on this machine; yours: practicum compare.

    Example: practicum use llm-bp compare --data debian-apps --shots 0,5 --seeds 10
    """
    from practicum.errors import InputError
    from practicum.graphs.llm_bp.arms import compare_tag
    from practicum.graphs.llm_bp.textgraphs import GRAPHS, load_graph

    if data not in GRAPHS:
        import difflib

        close = difflib.get_close_matches(data, GRAPHS, n=1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(GRAPHS)}"
        raise InputError(f"--data {data}: no such graph", f"{hint}; your own: practicum compare")
    try:
        wanted = [int(k) for k in shots.split(",")]
    except ValueError:
        wanted = [-1]
    if min(wanted) < 0:
        raise InputError(f"--shots {shots}: numbers from 0 by commas, e.g. 0,5")
    graph = load_graph(data)
    print(f"{graph.name}: {_size(graph)}; {len(graph.classes)} classes.")
    print(f"Linked nodes share a class in {graph.homophily:.2f} of the edges.")
    names = [a.strip() for a in arms.split(",") if a.strip()]
    table = compare_tag(graph, arms=names, shots=wanted, seeds=seeds, encoder=encoder)
    mean = table.pivot_table(index="arm", columns="shots", values="accuracy", sort=False)
    sd = table.pivot_table(index="arm", columns="shots", values="accuracy", aggfunc="std")
    print(f"Accuracy on nodes whose class was not shown, mean (sd over {seeds} draws):")
    print("".join(["arm".ljust(12), *(f"{k} labels".rjust(16) for k in mean.columns)]))
    for arm in names:
        cells = [f"{mean.loc[arm, k]:.3f} ({sd.loc[arm, k]:.3f})" if seeds > 1
                 else f"{mean.loc[arm, k]:.3f}" for k in mean.columns]  # fmt: skip
        print("".join([arm.ljust(12), *(c.rjust(16) for c in cells)]))
    print("bp arms know the share of edges within a class from 100 judged edges.")


# --- reading -------------------------------------------------------------------------------------


def _read(
    graph: Path | None,
    nodes: Path | None,
    edges: Path | None,
    id_column: str | None,
    text: str | None,
    label: str | None,
    src: str | None,
    dst: str | None,
    needs_text: bool = True,
    tell: bool = True,
) -> TextGraph:
    """The graph, and one line on what was read."""
    from practicum.data.graph import Columns, read_graph
    from practicum.errors import InputError

    if (graph is None) == (nodes is None) or (graph is not None and edges is not None):
        raise InputError("give --graph, or --nodes with --edges", "practicum use llm-bp run --help")
    if nodes is not None and edges is None:
        raise InputError(f"--nodes {nodes} without --edges", "a table of edges: src, dst")
    columns = Columns(id=id_column, text=text, label=label, src=src, dst=dst)
    data = read_graph(graph or nodes, edges, columns=columns, needs_text=needs_text)
    if not tell:
        return data
    used = ", ".join(f"{k} {v!r}" for k, v in data.columns.items())
    print(f"{data.name}: {_size(data)}" + (f" (columns: {used})." if used else "."))
    return data


def _size(data: TextGraph) -> str:
    return f"{data.n_nodes:,} nodes, {data.n_edges:,} undirected edges"


def _names(classes: list[str] | None) -> tuple[str, ...]:
    """One text is split at its commas; several are a name each, commas and all."""
    given = classes or []
    parts = given[0].split(",") if len(given) == 1 else given
    return tuple(c.strip() for c in parts if c.strip())


def _classes(classes: list[str] | None, data: TextGraph) -> tuple[str, ...]:
    from practicum.errors import InputError

    names = _names(classes) or data.classes
    if not names:
        raise InputError("which classes are there?", '--classes "first,second", or --label COLUMN')
    return names


def _number_or_word(homophily: str) -> str | float:
    from practicum.errors import InputError

    if homophily in ("auto", "labels", "em", "llm"):
        return homophily
    try:
        return float(homophily)
    except ValueError:
        raise InputError(f"--homophily {homophily}", "auto, labels, em, llm, or 0 to 1") from None


def _chat(name: str | None, endpoint: str | None) -> Any:
    from practicum.errors import InputError

    if name is None:
        if endpoint is not None:
            raise InputError(f"--endpoint {endpoint} without a model", "--chat NAME")
        return "names"
    from practicum.models.chat.opening import open_chat

    return open_chat(name, endpoint=endpoint, cache="default")


YES, NO = {"yes", "y", "1", "true", "same"}, {"no", "n", "0", "false", "different"}


def _judged(path: Path) -> Homophily:
    """The share of yes in a filled-in sheet."""
    import numpy as np

    from practicum.data.table import read_table
    from practicum.errors import InputError
    from practicum.graphs.llm_bp.homophily import judged_homophily

    table = read_table(path, numeric=False, missing="keep")
    if "same" not in table:
        found = ", ".join(map(str, table.columns))
        raise InputError(f"{path} has no column 'same'", f"columns: {found}")
    answers = ["" if v != v or v is None else str(v).strip().lower() for v in table["same"]]
    answers = [a.removesuffix(".0") for a in answers]
    stray = [(i, a) for i, a in enumerate(answers) if a and a not in YES | NO]
    if stray:
        row, answer = stray[0]
        raise InputError(f"{path}, column 'same', row {row + 1}: {answer!r}", "yes or no")
    given = [a in YES for a in answers if a]
    if not given:
        raise InputError(f"{path}: no row of the column 'same' is filled in", "yes or no")
    return judged_homophily(np.array(given))


def _say_judged(found: Homophily) -> None:
    from practicum.study.evidence import binomial_interval

    # exact: 1.96 standard errors of twenty times yes would be nothing
    sure = binomial_interval(round(found.r * found.n_edges), found.n_edges)
    print(
        f"Judged: {found.r:.2f} of {found.n_edges} edges are within a class "
        f"(95 %: {sure.low:.2f} to {sure.high:.2f})."
    )


def _named(data: TextGraph) -> list[str | None]:
    return [data.classes[k] if k >= 0 else None for k in data.labels]


OPTIONS = {  # what the estimator says, and what a person types here
    "try damping=0.5 or more rounds": "try --damping 0.5 or more --rounds",
    "a larger samples_per_class or ": "",
    "annotator=a Chat": "--chat NAME",
    "homophily='llm'": "--homophily llm",
    "damping=": "--damping ",
    "few_shot=": "--few-shot ",
    "coupling=": "--coupling ",
    "adapt=": "--adapt ",
}


@contextmanager
def _options_in_words() -> Iterator[None]:
    """Warnings and errors of the estimator, in the words of the command line."""
    from practicum.errors import PracticumError

    def told(text: str) -> str:
        for said, typed in OPTIONS.items():
            text = text.replace(said, typed)
        return text

    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
    except PracticumError as error:
        hint = None if error.hint is None else told(error.hint)
        raise type(error)(told(error.message), hint) from error
    finally:
        for w in caught:
            warnings.warn(told(str(w.message)), w.category, stacklevel=2)


# --- saying --------------------------------------------------------------------------------------


SOURCES = {
    "em": "EM, from the texts",
    "labels": "from the edges of labelled nodes",
    "llm": "judged by the language model",
    "judged": "judged edges",
}


def _say(model: LLMBP, chat: str | None, labelled: bool) -> None:
    annotator = chat or "the nearest class name"
    shown = "labelled nodes" if labelled else f"texts, annotated by {annotator}"
    print(f"Prototypes of {len(model.prototypes_)} classes from {model.n_shown_:,} {shown}.")
    same, diff = model.coupling_
    source = SOURCES.get(model.homophily_source_, model.homophily_source_)
    ratio = f"{same / diff:.3g} to 1" if same >= diff else f"1 to {diff / same:.3g}"
    print(
        f"Homophily r = {model.homophily_:.2f} ({source}), chance agreement {model.chance_:.2f}: "
        f"with coupling {model.coupling!r} an edge weighs equal classes to each other one {ratio}."
    )
    if model.homophily_source_ == "em":
        print(EM_WARNING)


def _say_counted(model: LLMBP, data: TextGraph) -> None:
    """The share within a class where both ends are labelled: counted, with an exact interval.

    The estimate's own standard error knows nothing of labels being few: +-1.96 of it held the
    truth in 35 to 97 % of draws. This interval did in 97 % and more for up to 10 labels a class,
    and in 87 % and more for 20, on six graphs; with more, and as many from rare as from common
    classes, edges of rare classes count too much.
    """
    import numpy as np

    from practicum.study.evidence import binomial_interval

    ends = data.labels[model.graph_.edges]
    ends = ends[(ends >= 0).all(1)]
    if not len(ends):
        print(f"No edge joins two labelled nodes, so r is not checked. {JUDGE}")
        return
    same = int(np.count_nonzero(ends[:, 0] == ends[:, 1]))
    interval = binomial_interval(same, len(ends))
    joined = "1 edge that joins" if len(ends) == 1 else f"{len(ends):,} edges that join"
    print(
        f"Counted: of {joined} two labelled nodes {same:,} within a class; 95 %: r from "
        f"{interval.low:.2f} to {interval.high:.2f}, if nodes were labelled at random."
    )
    if model.homophily_source_ not in ("labels", "em"):
        return
    if not interval.low <= model.homophily_ <= interval.high:
        print(f"The r in use lies outside. {JUDGE}")
    elif interval.high - interval.low > WIDE:
        print(f"That leaves r open. {JUDGE}")


def _score(model: LLMBP, data: TextGraph, column: str, shown: TextGraph | None) -> None:
    """Accuracy beside that of the text alone, on nodes whose class was not shown."""
    import numpy as np

    from practicum.errors import InputError

    number = {c.lower(): i for i, c in enumerate(model.classes_)}
    truth = np.array(
        [number.get(data.classes[k].lower(), -2) if k >= 0 else -1 for k in data.labels]
    )
    if stray := [data.classes[k] for k in np.unique(data.labels[truth == -2])]:
        raise InputError(
            f"column {column!r} holds classes that are not asked for: {', '.join(stray[:5])}",
            f"classes: {', '.join(model.classes_)}",
        )
    test = truth >= 0
    if shown is not None:
        test &= shown.labels < 0
    if not test.any():
        print(f"No node with a class in {column!r} is left to score on.")
        return
    alone = (model.prior_.argmax(1) == truth)[test].mean()
    ours = (model.predict() == truth)[test].mean()
    most = np.bincount(truth[test]).max() / test.sum()
    nearest = _nearest_names(model)
    named = "" if nearest is None else f"nearest class name {(nearest == truth)[test].mean():.3f}; "
    print(
        f"Accuracy on {test.sum():,} nodes of column {column!r}: {ours:.3f}; text alone "
        f"{alone:.3f}; {named}always the largest class {most:.3f}."
    )


def _nearest_names(model: LLMBP) -> Any:
    """The class whose name is nearest to each text: the plain thing, from the cached vectors."""
    from practicum.graphs.llm_bp.prototypes import is_number
    from practicum.models.embed import embed

    texts = model.graph_.texts
    if texts is None or model.adapt == "prompt" or any(map(is_number, model.classes_)):
        return None  # "prompt" embedded other texts; numbers say nothing
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # said when the model embedded them
        x = embed(texts, model.encoder, cache=model.cache).vectors
        names = [c.replace("_", " ") for c in model.classes_]
        return (x @ embed(names, model.encoder, cache=model.cache).vectors.T).argmax(1)


def _table(model: LLMBP) -> pd.DataFrame:
    import pandas as pd

    beliefs, prior = model.predict_proba(), model.prior_
    names = list(model.classes_)
    return pd.DataFrame(
        {
            "id": model.graph_.ids,
            "class": [names[i] for i in beliefs.argmax(1)],
            "probability": beliefs.max(1).round(4),
            "text_alone": [names[i] for i in prior.argmax(1)],
            "text_alone_probability": prior.max(1).round(4),
        }
    )


def _counts(model: LLMBP, table: pd.DataFrame) -> None:
    changed = (table["class"] != table["text_alone"]).mean()
    print(f"{changed:.1%} of the nodes changed class when the graph was seen.")
    width = max(len(c) for c in model.classes_) + 2
    print("class".ljust(width) + "nodes".rjust(9) + "text alone".rjust(12))
    for name in model.classes_:
        now, before = ((table[c] == name).sum() for c in ("class", "text_alone"))
        print(name.ljust(width) + f"{now:,}".rjust(9) + f"{before:,}".rjust(12))


def _figures(model: LLMBP) -> dict[str, Figure]:
    """How certain, and what the graph moved."""
    import numpy as np

    from practicum.study.plots import PALETTE, new_figure

    sure = new_figure(
        "Probability of the predicted class, of all nodes, before and after the graph was seen. "
        "Both are more certain than right: rank by them, do not take them at their word.",
        x="probability",
        y="nodes",
    )
    for name, values, colour in (
        ("text alone", model.prior_.max(1), PALETTE[0]),
        ("with the graph", model.beliefs_.max(1), PALETTE[1]),
    ):
        sure.add_histogram(x=values, name=name, nbinsx=40, opacity=0.6, marker={"color": colour})
    sure.update_layout(barmode="overlay")
    k = len(model.classes_)
    flow = np.zeros((k, k), int)
    np.add.at(flow, (model.prior_.argmax(1), model.beliefs_.argmax(1)), 1)
    moved = new_figure(
        "Nodes by the class their text alone would give (rows) and with the graph (columns); off "
        "the diagonal the graph changed it.",
        height=520,
    )
    names = [c[:26] for c in model.classes_]
    shown = flow.astype(float)
    np.fill_diagonal(shown, np.nan)
    moved.add_heatmap(z=shown, x=names, y=names, colorscale="Blues", text=flow)
    moved.update_yaxes(autorange="reversed", title="text alone")
    moved.update_xaxes(title="with the graph", tickangle=45)
    return {"How certain": sure, "What the graph changed": moved}
