"""``practicum use visual-memory``: teach a memory, ask it, make it forget, check it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from practicum.study.command import Progress, notes

if TYPE_CHECKING:
    from practicum.models.vision import Encoder
    from practicum.vision.visual_memory.memory import VisualMemory

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Classify images by looking them up; add classes, forget images for good, ask why.",
)

Source = Annotated[
    Path,
    typer.Argument(help="A folder of class folders, a table of paths (and labels), or an image."),
]
Memory = Annotated[Path, typer.Argument(help="The memory's folder, e.g. photos.vm.")]
Out = Annotated[Path | None, typer.Option(help="File to write.", show_default=False)]
Force = Annotated[bool, typer.Option("--force", help="Overwrite what is there.")]
VoteName = Annotated[
    Literal["rank", "softmax", "distance", "plurality"], typer.Option(help="How neighbours decide.")
]
Neighbours = Annotated[
    int | None, typer.Option("-k", min=1, help="Neighbours that vote.", show_default="50, or all")
]
EncoderName = Annotated[
    str,
    typer.Option(help="efficientnet-lite0, pixels, timm:NAME, open_clip:MODEL/DATA or hf:ID."),
]


@app.command()
def add(
    source: Source,
    store: Annotated[Path, typer.Option(help="The memory's folder.")] = Path("memory.vm"),
    encoder: EncoderName = "efficientnet-lite0",
    size: Annotated[
        int | None, typer.Option(min=4, help="Pixels a side.", show_default="the encoder's")
    ] = None,
    crop: Annotated[
        float | None, typer.Option(help="Share of the shorter side kept.", show_default="its own")
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="One label for all; else folders or the table say.")
    ] = None,
    path_column: Annotated[str | None, typer.Option(help="Of a table: the paths.")] = None,
    label_column: Annotated[str | None, typer.Option(help="Of a table: the labels.")] = None,
    origin: Annotated[
        str | None, typer.Option("--source", help="Where these come from, for remove --where.")
    ] = None,
    prefix: Annotated[
        str, typer.Option(help="Put before every id, where two folders use the same names.")
    ] = "",
    half: Annotated[bool, typer.Option("--half", help="A new memory in float16.")] = False,
) -> None:
    """Add labelled images to a memory; it is made if it is not there.

    Example: practicum use visual-memory add photos/ --store photos.vm
    """
    from practicum.data.images import read_images
    from practicum.errors import InputError

    table = read_images(source, path_column=path_column, label_column=label_column)
    if label is None and table.labels is None:
        raise InputError(
            f"{source}: nothing says what is on the {_n(len(table), 'image')}",
            "put each class in a folder of its name, give a table with labels, or --label NAME",
        )
    labels = table.labels if label is None else [label] * len(table)
    where = table.label_source if label is None else "--label"
    meta: dict[str, Any] = {"source": [origin or str(source)] * len(table)}
    meta |= {"group": table.groups} if table.groups else {}
    meta |= {"weight": table.weights} if table.weights else {}
    with _open(store, read_only=False, create=True, dtype="float16" if half else None) as memory:
        made = _encoder(memory, encoder, size, crop)
        names = [f"{prefix}{one}" for one in table.ids]
        _refuse_namesakes(memory, table.paths, names, store)
        known = memory.table.slot_of  # retired and pruned ones too
        fresh = [i for i, one in enumerate(names) if one not in known]
        if not fresh:
            raise InputError(f"{_n(len(table), 'image')}: in {store} already")
        with notes(), Progress("images") as progress:
            ids = memory.add(
                images=[table.paths[i] for i in fresh],
                labels=[labels[i] for i in fresh],
                ids=[names[i] for i in fresh],
                meta={name: [v[i] for i in fresh] for name, v in meta.items()},
                encoder=made,
                progress=progress,
            )
        label_of = dict(zip(names, labels, strict=True))
        classes = sorted({label_of[one] for one in ids})  # not of images that cannot be read
        typer.echo(
            f"{_n(len(ids), 'image')} of {_n(len(classes), 'class')} ({_few(classes)}; labels from "
            f"{where}) "
            f"added to {store} with {made.name}, {made.preprocess.size} px."
        )
        if len(fresh) < len(table):
            there = _n(len(table) - len(fresh), "image")
            typer.echo(f"Left as before: {there} that the memory has under the same id.")
        for why in list(memory.problems.values())[:20]:
            typer.echo(f"  left out {why}")
        held = f"{_n(len(memory), 'image')} of {_n(len(memory.classes_), 'class')}"
        typer.echo(f"The memory holds {held}.")
    typer.echo(f"Next: practicum use visual-memory ask {store} IMAGE")


def _refuse_namesakes(memory: VisualMemory, paths: list[Path], ids: list[str], store: Path) -> None:
    """Another picture under an id that is taken: to pass over it would lose it unseen."""
    from practicum.data.images import file_key
    from practicum.errors import InputError

    others = []
    for path, one in zip(paths, ids, strict=True):
        slot = memory.table.slot_of.get(one)
        # rows that came as vectors have no picture to compare with
        key = None if slot is None else memory.table.keys[slot]
        if key and key != file_key(path):
            others.append(one)
    if others:
        are = "1 image has the id" if len(others) == 1 else f"{len(others):,} images have the ids"
        raise InputError(
            f"{are} of other pictures in {store}: {_few(others)}; nothing was added",
            "--prefix NAME/ makes the ids differ; to replace pictures, remove these ids first",
        )


@app.command()
def ask(
    memory: Memory,
    images: Source,
    k: Neighbours = None,
    vote: VoteName = "rank",
    out: Annotated[
        Path | None, typer.Option(help="A CSV of all answers.", show_default=False)
    ] = None,
    why: Annotated[
        Path | None,
        typer.Option(
            help="One image: the strip of neighbours, .png or .html.",
            show_default="why.png and why.html beside each other",
        ),
    ] = None,
    index: Annotated[
        Literal["exact", "faiss-ivf", "hnsw", "usearch"], typer.Option(help="How to search.")
    ] = "exact",
    force: Force = False,
) -> None:
    """Ask what is on one image, and see why; or on many.

    Example: practicum use visual-memory ask photos.vm q.jpg -k 20 --why why.html
    """
    from practicum.data.images import read_images
    from practicum.errors import InputError

    table = read_images(images)
    with _open(memory, read_only=True, index=index, vote=vote) as held:
        held.encoder = _encoder(held)
        if len(held) == 0:
            raise InputError(f"{memory} is empty", "add images first")
        if len(table) == 1:
            _explain(held, table.paths[0], k, why, force)
            return
        if why is not None:
            raise InputError(f"--why draws one image, {images} holds {len(table)}")
        _answer(held, table, k, out, force)


def _explain(held: VisualMemory, path: Path, k: int | None, why: Path | None, force: bool) -> None:
    from practicum.errors import InputError
    from practicum.study.report import write_atomically

    if why is not None and why.suffix not in (".png", ".html"):
        raise InputError(f"--why {why}: the ending says nothing", "use .png or .html")
    targets = [why] if why else [Path("why.png"), Path("why.html")]
    for target in targets:
        _refuse(target, force)
    found = held.explain([str(path)], k)
    agree, _ = held.confidence([str(path)], k)
    shares = [f"{c} {100 * p:.1f} %" for c, p in list(found.probabilities.items())[:5]]
    typer.echo(f"{path.name}: {found.winner}")
    typer.echo(f"Shares of the vote: {', '.join(shares)} ({found.settings}).")
    typer.echo(
        f"{100 * agree[0]:.0f} % of the neighbours have the most frequent label. "
        f"{_how_far(held, path)}"
    )
    typer.echo(str(found.flip_set))
    typer.echo("Nearest:")
    for row in found.table.head(5).itertuples():
        typer.echo(
            f"  {row.rank}. {row.label}  {100 * row.share:.1f} %  "
            f"distance {row.distance:.3f}  {row.id}"
        )
    for target in targets:
        if target.suffix == ".png":
            write_atomically(target, lambda p: found.plot().save(p, "PNG"))
        else:
            write_atomically(target, lambda p: p.write_text(found.html(), encoding="utf-8"))
        typer.echo(f"Why, as a picture: {target}")


def _how_far(held: VisualMemory, path: Path) -> str:
    """The query's distance from the memory, beside what is usual among the memory's own images."""
    from practicum.vision.visual_memory.hygiene import strangeness

    many = max(1, min(100, len(held) - 1))  # as many others as an image of the memory has
    far = float(held.ood_score([str(path)], many)[0])
    words = f"Mean distance to the nearest {_n(many, 'image')}: {far:.3f}"
    if len(held) < 2:
        return f"{words}."
    own = strangeness(held.neighbours.leave_one_out(many, first=200)[0])
    return (
        f"{words} (the memory's own images, the first {len(own)}, each to the others: "
        f"{own.mean():.3f} on average, {own.max():.3f} at most)."
    )


def _answer(held: VisualMemory, table: Any, k: int | None, out: Path | None, force: bool) -> None:
    import numpy as np
    import pandas as pd

    from practicum.data.images import file_key, load_image
    from practicum.study.report import write_atomically

    target = out or Path("answers.csv")
    _refuse(target, force)
    problems: dict[int, str] = {}
    loaders = [(lambda path=path: load_image(path)) for path in table.paths]
    keys = [file_key(path) for path in table.paths]
    with Progress("images") as progress:
        vectors = held.encoder.encode(loaders, keys, progress=progress, problems=problems)
    kept = [i for i in range(len(table)) if i not in problems]
    if not kept:
        from practicum.errors import InputError

        raise InputError(
            f"none of {_n(len(table), 'image')} can be read: {next(iter(problems.values()))}"
        )
    answers = held.predict(vectors[kept], k)
    sure = held.predict_proba(vectors[kept], k).max(axis=1)
    frame = pd.DataFrame({"image": [table.ids[i] for i in kept], "answer": answers, "share": sure})
    frame["distance"] = held.ood_score(vectors[kept])
    if table.labels is not None:
        truth = np.array([str(table.labels[i]) for i in kept])
        frame["label"] = truth
    write_atomically(target, lambda p: frame.to_csv(p, index=False))
    counts = frame["answer"].value_counts()
    typer.echo(
        f"{_n(len(frame), 'image')}: " + _few([f"{n} {label}" for label, n in counts.items()]) + "."
    )
    for why in list(problems.values())[:20]:
        typer.echo(f"  left out {why}")
    if table.labels is not None:
        right = float((frame["answer"].astype(str) == truth).mean())
        guess = float(pd.Series(truth).value_counts(normalize=True).iloc[0])
        typer.echo(
            f"{100 * right:.1f} % agree with {table.label_source}; always answering the most "
            f"frequent label would agree in {100 * guess:.1f} %. Images that are in the memory "
            "themselves are easy: hold some out."
        )
    typer.echo(f"Answers: {target}")


@app.command()
def remove(
    memory: Memory,
    ids: Annotated[list[str] | None, typer.Argument(help="Images by their ids.")] = None,
    where: Annotated[
        str | None, typer.Option(help="Or a condition, e.g. 'source == alice'.")
    ] = None,
    retire: Annotated[
        bool, typer.Option("--retire", help="Only take them out of searches, erase at compact.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    receipt: Annotated[Path | None, typer.Option(help="Write the receipt as JSON.")] = None,
    force: Force = False,
) -> None:
    """Forget images: overwrite every byte of them, and prove it with a receipt.

    Example: practicum use visual-memory remove photos.vm --where 'source == alice' --receipt r.json
    """
    from practicum.errors import InputError
    from practicum.study.report import write_atomically

    if receipt:
        _refuse(receipt, force)
    if bool(ids) == (where is not None):
        raise InputError("say which images: ids, or --where 'column == value'")
    with _open(memory, read_only=False) as held:
        try:
            slots = held.table.select(ids or None, where, "raise")
        except InputError as error:  # what Python takes, the command line has not
            ending = 'missing="ignore" passes over them'
            see = f"all ids: practicum use visual-memory list {memory} --out rows.csv"
            hint = (error.hint or "").replace(ending, see) or None
            raise InputError(error.message, hint) from error
        if not slots:
            raise InputError(f"no image in {memory} has {where}", "see: ... list MEMORY")
        names = [held.table.ids[s] for s in slots]
        what = "retire" if retire else "erase for good"
        if not yes and not typer.confirm(f"{what} {_n(len(names), 'image')} ({_few(names)})?"):
            typer.echo("Nothing was removed.")
            raise typer.Exit(1)
        with notes():
            done = held.remove(names, erase=not retire)
        typer.echo(str(done).replace("1 rows ", "1 row ", 1) if done.n == 1 else str(done))
        if receipt:
            write_atomically(receipt, lambda p: p.write_text(done.to_json() + "\n"))
            typer.echo(f"Receipt: {receipt}")
    raise typer.Exit(0 if done.verified or retire else 1)


@app.command("list")
def list_rows(
    memory: Memory,
    out: Annotated[Path | None, typer.Option(help="All rows as CSV.", show_default=False)] = None,
    force: Force = False,
) -> None:
    """Say what a memory holds: classes, sources, snapshots; or write all rows.

    Example: practicum use visual-memory list photos.vm --out rows.csv
    """
    from practicum.study.report import write_atomically

    with _open(memory, read_only=True) as held:
        frame = held.frame()
        made = held.store.state.get("encoder")
        typer.echo(
            f"{memory}: {_n(len(frame), 'image')}, {held.store.dim} numbers each "
            f"({held.store.dtype}), {held.store.size() / 1e6:.1f} MB, generation "
            f"{held.store.state['generation']}."
        )
        if made:
            typer.echo(f"Encoder: {made['name']}, {made['size']} px, {made['fingerprint']}.")
        for column, some in (("label", "class"), ("source", "source"), ("group", "group")):
            counts = frame[column].value_counts()
            if len(counts):
                most = _few([f"{v} ({n})" for v, n in counts.items()], 12)
                typer.echo(f"{_n(len(counts), some)}: {most}")
        for name, (when, n) in held.store.snapshots().items():
            typer.echo(f"Snapshot {name}: {_n(n, 'image')}, {when}")
        if out:
            _refuse(out, force)
            write_atomically(out, lambda p: frame.to_csv(p, index=False))
            typer.echo(f"Rows: {out}")


@app.command()
def audit(
    memory: Memory,
    k: Annotated[int, typer.Option("-k", min=1, help="Neighbours that are looked at.")] = 10,
    worst: Annotated[int, typer.Option(min=0, help="How many bad rows to show.")] = 10,
    prune: Annotated[
        Literal["no", "soft", "hard"],
        typer.Option(
            help="soft: trust rows less that mislead; hard: take them out (both undoable)."
        ),
    ] = "no",
    restore: Annotated[bool, typer.Option("--restore", help="Undo prunings.")] = False,
) -> None:
    """Check the files, then the labels: which images mislead their neighbours.

    Example: practicum use visual-memory audit photos.vm --prune soft
    """
    from practicum.errors import InputError

    if restore and prune != "no":
        raise InputError("--restore undoes prunings, --prune prunes: one at a time")
    with _open(memory, read_only=prune == "no" and not restore) as held:
        if restore:
            n = held.restore()
            have = "has its" if n == 1 else "have their"
            typer.echo(f"{_n(n, 'image')} {have} full weight again.")
        wrong = held.audit()
        typer.echo("Files: every vector is as it was added." if not wrong else "Files:")
        for sentence in wrong:
            typer.echo(f"  {sentence}")
        if len(held) > 1:
            _worst(held, k, worst)
        if prune != "no":
            ids = held.prune(prune, k=k)
            one = len(ids) == 1
            done = "weighs less now" if one else "weigh less now"
            if prune == "hard":
                done = "was taken out" if one else "were taken out"
            typer.echo(f"{_n(len(ids), 'image')} {done}; --restore undoes it.")
    raise typer.Exit(1 if wrong else 0)


def _worst(held: VisualMemory, k: int, worst: int) -> None:
    import numpy as np

    k = min(k, len(held) - 1)
    table = held.reliability(k)
    _, slots = held.neighbours.leave_one_out(k)
    own = held.table.codes[held.table.living]
    right = 100 * float((held.table.codes[slots[:, 0]] == own).mean())
    most = 100 * float(np.bincount(own).max() / len(own))
    typer.echo(
        f"Labels: the nearest other image has the same label for {right:.1f} % of {len(held)} "
        f"images (the largest class is {most:.1f} % of them)."
    )
    bad = table[table["wrong"] > table["correct"]]
    are, their = ("is", "its") if len(bad) == 1 else ("are", "their")
    typer.echo(
        f"{_n(len(bad), 'image')} {are} among the {k} nearest of other classes more often than of "
        f"{their} own{':' if len(bad) and worst else '.'}"
    )
    for row in bad.sort_values("wrong", ascending=False, kind="stable").head(worst).itertuples():
        typer.echo(f"  {row.label}  wrong {row.wrong}, right {row.correct}  {row.id}")


@app.command()
def snapshot(
    memory: Memory,
    name: Annotated[str | None, typer.Argument(help="A name to remember today by.")] = None,
    against: Annotated[
        str | None, typer.Option(help="Show what came and went since this snapshot.")
    ] = None,
    drop: Annotated[bool, typer.Option("--drop", help="Forget the snapshot instead.")] = False,
) -> None:
    """Remember what a memory holds now, compare with then, or forget a snapshot.

    Example: practicum use visual-memory snapshot photos.vm monday
    """
    from practicum.errors import InputError

    if name is None and against is None:
        raise InputError("give a name, or --against NAME")
    with _open(memory, read_only=name is None) as held:
        if against is not None:
            change = held.diff(against, "now")
            for what, ids in change.items():
                typer.echo(f"{len(ids)} {what} since {against}: {_few(ids) or 'none'}")
        if name is not None and drop:
            held.store.drop_snapshot(name)
            typer.echo(f"Snapshot {name} forgotten; compact erases rows that only it held.")
        elif name is not None:
            typer.echo(f"Snapshot {name}: {_n(held.snapshot(name), 'image')}.")


@app.command()
def compact(memory: Memory) -> None:
    """Erase retired images that no snapshot holds, and give the space back.

    Example: practicum use visual-memory compact photos.vm
    """
    with _open(memory, read_only=False) as held:
        with notes():
            freed = held.compact()
        typer.echo(f"{freed / 1e6:.2f} MB given back; {_n(len(held), 'image')} left.")


@app.command("export")
def export_rows(
    memory: Memory,
    out: Annotated[Path, typer.Argument(help=".npz, .parquet, .faiss, or .json (official).")],
    force: Force = False,
) -> None:
    """Write the vectors for another program.

    Example: practicum use visual-memory export photos.vm photos.parquet
    """
    from practicum.vision.visual_memory.formats import export

    _refuse(out, force)
    with _open(memory, read_only=True) as held:
        typer.echo(f"{_n(len(held), 'row')}: {export(held, out)}")


@app.command("import")
def import_rows(
    source: Annotated[Path, typer.Argument(help="Vectors of another program's, see the docs.")],
    store: Annotated[Path, typer.Option(help="The memory's folder.")] = Path("memory.vm"),
    labels: Annotated[
        Path | None, typer.Option(help="A table with a column of labels, where the file has none.")
    ] = None,
    label_column: Annotated[str, typer.Option(help="Its column.")] = "label",
    dim: Annotated[int | None, typer.Option(min=1, help="For hnswlib's files.")] = None,
) -> None:
    """Add vectors that other programs made: arrays, Parquet, LAION, FAISS, usearch, hnswlib, Lance.

    Example: practicum use visual-memory import embeddings.npz --store memory.vm
    """
    from practicum.data.table import read_table
    from practicum.errors import InputError
    from practicum.vision.visual_memory.formats import read_vectors

    table = read_vectors(source, dim)
    names = table.labels
    if labels is not None:
        names = read_table(labels, [label_column], numeric=False)[label_column].tolist()
        if len(names) != len(table):
            raise InputError(f"{labels}: {len(names)} labels for the {len(table)} rows of {source}")
    if names is None:
        raise InputError(f"{source} holds no labels", "give a table with --labels FILE")
    with _open(store, read_only=False, create=True) as held, notes():
        ids = held.add(table.vectors, labels=names, ids=table.ids)
        added = f"{_n(len(ids), 'vector')} of {held.store.dim} numbers"
        typer.echo(f"{added} from {table.about}, into {store}.")


@app.command()
def compare(
    source: Annotated[Path, typer.Argument(help="A memory (NAME.vm), or labelled images.")],
    encoder: EncoderName = "efficientnet-lite0",
    size: Annotated[int | None, typer.Option(min=4, help="Pixels a side.")] = None,
    plot: Annotated[Path | None, typer.Option(help="An HTML page of the curves.")] = None,
    force: Force = False,
) -> None:
    """Accuracy of every vote by k, each image asked of all the others.

    With intervals and against a linear probe: practicum compare visual-memory --data photos/.
    Example: practicum use visual-memory compare photos/ --plot votes.html
    """
    import numpy as np

    from practicum.data.images import read_images
    from practicum.errors import InputError
    from practicum.vision.visual_memory.memory import VisualMemory
    from practicum.vision.visual_memory.votes import VOTES, accuracy_curves

    if plot:
        _refuse(plot, force)
    if source.suffix == ".vm":
        held = _open(source, read_only=True)
    else:
        table = read_images(source)
        if table.labels is None:
            raise InputError(f"{source}: the images have no labels", "put classes into folders")
        held = VisualMemory()
        with notes(), Progress("images") as progress:
            held.add(
                images=table.paths, labels=table.labels, ids=table.ids, thumbnails=False,
                encoder=_encoder(held, encoder, size), progress=progress,
            )  # fmt: skip
    if len(held) < 2:
        raise InputError(f"{source}: {_n(len(held), 'image')}", "at least two are needed")
    top = min(100, len(held) - 1)
    d, slots = held.neighbours.leave_one_out(top)
    truth = held.table.codes[held.table.living]
    curves = accuracy_curves(d, held.table.codes[slots], truth)
    guess = 100 * float(np.bincount(truth).max() / len(truth))
    typer.echo(
        f"{len(held)} images of {_n(len(held.classes_), 'class')}, each asked of the others. "
        f"The most frequent class alone: {guess:.1f} %."
    )
    ks = [k for k in (1, 5, 10, 20, 50, 100) if k <= top]
    typer.echo("  vote       " + "".join(f"{f'k={k}':>8}" for k in ks) + "    best")
    for vote in VOTES:
        c = 100 * curves[vote]
        cells = "".join(f"{c[k - 1]:8.1f}" for k in ks)
        typer.echo(f"  {vote:<11}{cells}   {c.max():.1f} % at k={c.argmax() + 1}")
    if plot:
        _plot_curves(curves, plot)
        typer.echo(f"Curves: {plot}")


def _plot_curves(curves: dict[str, Any], plot: Path) -> None:
    import numpy as np

    from practicum.study.plots import colours, new_figure
    from practicum.study.report import write_figures

    figure = new_figure(
        "Accuracy by the number of neighbours, each image asked of all the others.",
        x="neighbours k", y="accuracy, %", log_x=True,
    )  # fmt: skip
    shade = colours(curves)
    for vote, c in curves.items():
        figure.add_scatter(
            x=np.arange(1, len(c) + 1), y=100 * c, name=vote, line={"color": shade[vote]}
        )
    write_figures({"Votes by k": figure}, plot, "Visual memory")


@app.command("compare-erasure")
def compare_erasure(
    rows: Annotated[int, typer.Option(min=100, help="Vectors; half are deleted.")] = 20_000,
    dim: Annotated[int, typer.Option(min=8, help="Numbers a vector.")] = 64,
    store: Annotated[
        list[str] | None, typer.Option(help="Only this store (repeatable).", show_default="all")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The table as CSV.")] = None,
    force: Force = False,
) -> None:
    """What deleting half of the rows leaves in FAISS, usearch, hnswlib and embedded vector stores.

    Stores that are not installed are skipped, with the line that installs them.
    Example: practicum use visual-memory compare-erasure --rows 20000 --out erasure.csv
    """
    from rich.console import Console
    from rich.table import Table

    from practicum.study.report import write_atomically
    from practicum.vision.visual_memory import vector_stores

    if out:
        _refuse(out, force)
    tell = None
    if sys.stderr.isatty():

        def tell(name: str) -> None:
            print(f"{name} ...", file=sys.stderr)

    found = vector_stores.compare_erasure(rows, dim, stores=store, progress=tell)
    table = Table(box=None, pad_edge=False)
    for column in found.columns:
        table.add_column(column, no_wrap=column == "store")
    for row in found.itertuples(index=False):
        table.add_row(*(_cell(value) for value in row))
    typer.echo(
        f"{rows:,} clustered vectors of {dim} numbers, half deleted. recall: of the 10 nearest, "
        "before and after (1 is exact). surviving: deleted vectors, of 20 sampled and seen by the "
        "scan before, whose bytes are still in the store's files; and after the clean-up it offers."
    )
    Console(width=None if sys.stdout.isatty() else 200).print(table)
    if out:
        write_atomically(out, lambda p: found.to_csv(p, index=False))
        typer.echo(f"Table: {out}")


@app.command()
def fetch(
    folder: Annotated[
        Path | None, typer.Option(help="Where to.", show_default="your data folder")
    ] = None,
) -> None:
    """Fetch three sets of emoji by npm (152 MB), with which the study judges V6.

    Example: practicum use visual-memory fetch
    """
    from practicum.vision.visual_memory.datasets import fetch_emoji

    typer.echo(f"Emoji of three vendors: {fetch_emoji(folder)}")
    if folder:
        typer.echo(f"Let the study find them: export PRACTICUM_EMOJI={folder}")


# --- small things --------------------------------------------------------------------------------


def _open(
    path: Path,
    *,
    read_only: bool,
    create: bool = False,
    dtype: str | None = None,
    index: str = "exact",
    vote: str = "rank",
) -> VisualMemory:
    from practicum.errors import InputError
    from practicum.vision.visual_memory.memory import VisualMemory

    if not create and not path.exists():
        import difflib

        there = (
            [p.name for p in path.absolute().parent.glob("*.vm")]
            if path.absolute().parent.is_dir()
            else []
        )
        close = difflib.get_close_matches(path.name, there, n=1)
        hint = (
            f"did you mean {path.parent / close[0]}?"
            if close
            else "make one with: add ... --store NAME.vm"
        )
        raise InputError(f"{path}: there is no such memory", hint)
    return VisualMemory(
        path, dtype=dtype, read_only=read_only, create=create, index=index, vote=vote
    )


def _encoder(
    memory: VisualMemory,
    name: str = "efficientnet-lite0",
    size: int | None = None,
    crop: float | None = None,
) -> Encoder:
    """The memory's own encoder; the one that is named for a new memory."""
    from practicum.errors import InputError
    from practicum.models import vision
    from practicum.vision.visual_memory.intake import check_same_encoder

    made = memory.store.state.get("encoder")
    if made is None:
        if len(memory):
            raise InputError(
                f"{memory.store.path} holds vectors of your own, not of images",
                "ask in Python, with vectors: VisualMemory(...).predict(Q)",
            )
        return vision.get(name, size=size, crop=crop)
    asked = (size not in (None, made["size"])) or (crop not in (None, made["crop"]))
    if asked or name not in ("efficientnet-lite0", made["name"]):
        raise InputError(
            f"the memory was made with {made['name']}, {made['size']} px, crop {made['crop']}",
            "leave --encoder, --size and --crop out, or make another memory",
        )
    encoder = vision.get(made["name"], size=made["size"], crop=made["crop"])
    check_same_encoder(made, encoder)
    return encoder


def _refuse(target: Path, force: bool) -> None:
    from practicum.errors import InputError

    if target.is_dir():
        raise InputError(f"{target} is a folder", "name a file in it")
    if target.exists() and not force:
        raise InputError(f"{target} exists already", "name another file, or use --force")


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "" if value != value else f"{value:.3f}"
    return "" if value is None else str(value)


def _n(count: int, what: str) -> str:
    """``1 image``, ``2 images``, ``3 classes``."""
    many = f"{what}es" if what.endswith("s") else f"{what}s"
    return f"{count} {what if count == 1 else many}"


def _few(names: Any, n: int = 5) -> str:
    names = [str(name) for name in names]
    return ", ".join(names[:n]) + (f" and {len(names) - n} more" if len(names) > n else "")
