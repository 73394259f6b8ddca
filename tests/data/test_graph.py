"""Readers of people's graphs: every form, and every complaint."""

from types import SimpleNamespace

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from practicum.data.graph import (
    Columns,
    TextGraph,
    as_text_graph,
    clean_edges,
    from_networkx,
    from_pyg,
    packages_graph,
    read_graph,
    read_packages,
    related,
    text_graph,
)
from practicum.errors import InputError

NODES = "id,text,label\n7,a cat,pet\nn2,a dog,pet\n900,a rock,thing\n"
EDGES = "src,dst\n7,n2\nn2,900\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "edges.csv").write_text(EDGES)
    return tmp_path


# --- edges ---


def test_edges_are_symmetrised_merged_and_loops_dropped():
    made = clean_edges([[0, 1], [1, 0], [0, 1], [2, 2], [2, 0]], 3)
    assert made.edges.tolist() == [[0, 1], [0, 2]]
    assert (made.n_repeated, made.n_loops) == (2, 1)


def test_both_orientations_of_the_array_are_read():
    rows = np.array([[0, 1], [1, 2], [2, 3]])
    np.testing.assert_array_equal(clean_edges(rows, 4).edges, clean_edges(rows.T, 4).edges)


def test_refuses_two_by_two_as_ambiguous_unless_told():
    with pytest.raises(InputError, match="rows of pairs or two columns"):
        clean_edges([[0, 1], [1, 2]], 3)
    assert len(clean_edges([[0, 1], [1, 2]], 3, rows=True).edges) == 2


@pytest.mark.parametrize(
    ("edges", "wanted"),
    [
        ([[0, 9], [0, 1], [1, 2]], r"edge 0 joins \[0, 9\]; nodes are 0 to 2"),
        ([[0, -1], [0, 1], [1, 2]], "edge 0"),
        ([[0, 1, 2]], "shape"),
        ([["a", "b"]], "node numbers"),
        ([[0.5, 1.0]], "node numbers"),
    ],
)
def test_refuses_edges_that_name_no_node(edges, wanted):
    with pytest.raises(InputError, match=wanted):
        clean_edges(edges, 3)


def test_weights_of_both_directions_are_one_weight():
    made = clean_edges([[0, 1], [1, 0], [1, 2]], 3, [2.0, 3.0, 1.0])
    assert made.weights.tolist() == [3.0, 1.0]
    with pytest.raises(InputError, match="weight -1"):
        clean_edges([[0, 1], [1, 2], [0, 2]], 3, [1.0, -1.0, 1.0])
    with pytest.raises(InputError, match="2 weights for 3 edges"):
        clean_edges([[0, 1], [1, 2], [0, 2]], 3, [1.0, 1.0])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=30))
def test_clean_edges_are_a_set(pairs):
    made = clean_edges(np.array(pairs).reshape(-1, 2), 7, rows=True)
    wanted = {(min(p), max(p)) for p in pairs if p[0] != p[1]}
    assert {tuple(e) for e in made.edges.tolist()} == wanted
    assert len(made.edges) == len(wanted)
    again = clean_edges(made.edges, 7, rows=True)
    assert (again.n_repeated, again.n_loops) == (0, 0)


# --- the graph itself ---


def test_homophily_and_subgraphs():
    graph = text_graph([[0, 1], [1, 2], [2, 3]], list("abcd"), ["x", "x", "y", None])
    assert graph.homophily == 0.5
    assert graph.degrees.tolist() == [1, 2, 2, 1]
    part = graph.keep(np.array([True, True, False, True]))
    assert part.edges.tolist() == [[0, 1]]
    assert part.texts == ("a", "b", "d")
    assert part.without_isolated().ids == ("0", "1")
    assert graph.without_hubs(1).n_edges == 0
    assert "hubs left out" in graph.without_hubs(1).notes[0]


def test_labels_by_name_and_by_number():
    by_name = text_graph([[0, 1]] * 3, labels=["b", "a"])
    assert by_name.classes == ("a", "b")
    assert by_name.labels.tolist() == [1, 0]
    by_number = text_graph([[0, 1]] * 3, labels=np.array([1, -1]), classes=["a", "b"])
    assert by_number.labels.tolist() == [1, -1]
    from_floats = text_graph([[0, 1]] * 3, labels=[3.0, float("nan")])
    assert from_floats.classes == ("3",)
    with pytest.raises(InputError, match="'c' is none of the classes"):
        text_graph([[0, 1]] * 3, labels=["a", "c"], classes=["a", "b"])


def test_merged_edges_are_warned_of_with_counts():
    with pytest.warns(UserWarning, match="1 repeated or reversed edges merged, 1 self-loops"):
        graph = text_graph([[0, 1], [0, 1], [1, 1]], ["a", "b"])
    assert graph.notes


def test_refuses_lengths_that_disagree():
    with pytest.raises(InputError, match="texts 2, labels 3"):
        text_graph([[0, 1]] * 3, ["a", "b"], ["x", "y", "x"])
    with pytest.raises(InputError, match="to know its nodes"):
        text_graph([[0, 1]] * 3)


# --- objects ---


def test_scipy_adjacency_counts_an_edge_once_and_says_nothing():
    graph = as_text_graph(csr_array([[0, 1, 0], [1, 0, 2], [0, 0, 0]]), ["a", "b", "c"])
    assert graph.edges.tolist() == [[0, 1], [1, 2]]
    assert graph.weights.tolist() == [1.0, 2.0]
    assert not graph.notes
    with pytest.raises(InputError, match="square"):
        as_text_graph(csr_array([[0, 1, 0]]), ["a"])


def test_networkx_graphs_with_attributes():
    made = nx.DiGraph()
    made.add_node("p", text="a cat", label="pet")
    made.add_node("q", text="a dog", label="pet")
    made.add_edge("q", "p", weight=2)
    graph = from_networkx(made)
    assert (graph.ids, graph.weights.tolist(), graph.classes) == (("p", "q"), [2.0], ("pet",))
    made.add_node("r")
    with pytest.raises(InputError, match="1 of 3 nodes have no attribute 'text': r"):
        from_networkx(made)
    with pytest.raises(InputError, match="did you mean 'label'"):
        from_networkx(made, columns=Columns(label="lable"))


def test_pyg_data_without_pyg():
    torch = pytest.importorskip("torch")
    data = SimpleNamespace(
        edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]),
        y=torch.tensor([0, 1, 1]),
        raw_texts=["a", "b", "c"],
        num_nodes=3,
        label_names=["x", "y"],
    )
    graph = from_pyg(data)
    assert (graph.n_edges, graph.classes, graph.labels.tolist()) == (2, ("x", "y"), [0, 1, 1])
    # two edges are two columns here, never two rows
    small = SimpleNamespace(edge_index=np.array([[0, 1], [2, 2]]))
    assert from_pyg(small, ["a", "b", "c"]).edges.tolist() == [[0, 2], [1, 2]]
    with pytest.raises(InputError, match=r"\(2, edges\)"):
        from_pyg(SimpleNamespace(edge_index=np.zeros((3, 2), int)), ["a"])
    with pytest.raises(InputError, match="no edge_index"):
        from_pyg(SimpleNamespace())


def test_what_is_no_graph_is_refused():
    with pytest.raises(InputError, match="cannot be made of int"):
        as_text_graph(7)
    graph = text_graph([[0, 1]] * 3, ["a", "b"])
    with pytest.raises(InputError, match="3 texts for 2 nodes"):
        as_text_graph(graph, ["a", "b", "c"])
    assert isinstance(as_text_graph(graph, labels=["x", "y"]), TextGraph)


# --- files ---


def test_folder_of_tables_with_gaps_in_ids(folder):
    graph = read_graph(folder)
    assert graph.ids == ("7", "n2", "900")
    assert graph.edges.tolist() == [[0, 1], [1, 2]]
    assert graph.columns == {
        "id": "id", "text": "text", "label": "label", "src": "src", "dst": "dst",
    }  # fmt: skip
    assert read_graph(folder / "nodes.csv", folder / "edges.csv").homophily == 0.5


def test_integer_ids_read_as_floats_still_match(tmp_path):
    """A column of integers with a gap elsewhere becomes float: 3 must still be 3."""
    (tmp_path / "nodes.csv").write_text("id,text\n1,a\n3,b\n10,c\n")
    (tmp_path / "edges.csv").write_text("source,target,w\n1,3,2\n10.0,3,1\n")
    graph = read_graph(tmp_path)
    assert graph.edges.tolist() == [[0, 1], [1, 2]]
    assert graph.weights.tolist() == [2.0, 1.0]


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "tsv"])
def test_other_tables(folder, kind):
    frame = pd.read_csv(folder / "nodes.csv", dtype={"id": str})
    path = folder / f"n.{kind}"
    if kind == "parquet":
        frame.to_parquet(path)
    elif kind == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_csv(path, sep="\t", index=False)
    assert read_graph(path, folder / "edges.csv").ids == ("7", "n2", "900")


@pytest.mark.parametrize("kind", ["graphml", "gml", "gexf"])
def test_graph_files(tmp_path, kind):
    made = nx.Graph()
    made.add_node("p", text="a cat", category="pet")  # label is the node's name in GML and GEXF
    made.add_node("q", text="a rock", category="thing")
    made.add_edge("p", "q")
    path = tmp_path / f"g.{kind}"
    getattr(nx, f"write_{kind}")(made, path)
    graph = read_graph(path)
    assert (graph.n_edges, len(graph.texts), graph.name) == (1, 2, "g")
    columns = Columns(label="category")
    assert read_graph(path, columns=columns).classes == ("pet", "thing")


def test_edge_list_needs_texts_from_elsewhere(tmp_path):
    path = tmp_path / "g.edgelist"
    path.write_text("1 2\n2 3\n")
    with pytest.raises(InputError, match="no attribute 'text'"):
        read_graph(path)
    assert as_text_graph(path, ["a", "b", "c"]).n_edges == 2


def test_named_columns_go_before_usual_names(folder):
    (folder / "nodes.csv").write_text("key,body,topic\n7,x,pet\nn2,y,pet\n900,z,thing\n")
    graph = read_graph(folder, columns=Columns(id="key", text="body", label="topic"))
    assert graph.classes == ("pet", "thing")


# --- bad input ---


def complaint(folder, nodes=NODES, edges=EDGES, **columns):
    (folder / "nodes.csv").write_text(nodes)
    (folder / "edges.csv").write_text(edges)
    with pytest.raises(InputError) as caught:
        read_graph(folder, columns=Columns(**columns))
    return str(caught.value)


def test_refuses_unknown_ids_naming_the_first_five(tmp_path):
    rows = "".join(f"7,x{i}\n" for i in range(8))
    said = complaint(tmp_path, edges="src,dst\n" + rows)
    assert "8 edges name nodes that are not among the nodes" in said
    assert "'x0', 'x1', 'x2', 'x3', 'x4' and 3 more" in said
    assert "edges.csv" in said


def test_refuses_empty_texts_with_the_row(tmp_path):
    said = complaint(tmp_path, nodes="id,text\n7,a\nn2,\n900,b\n")
    assert "column 'text', row 2: an empty text (1 of 3 nodes)" in said
    assert read_graph(tmp_path, needs_text=False).texts == ("a", "", "b")


def test_refuses_repeated_and_empty_ids(tmp_path):
    assert "'7' is there twice" in complaint(tmp_path, nodes="id,text\n7,a\n7,b\nn2,c\n900,d\n")
    assert "row 2: an empty id" in complaint(tmp_path, nodes="id,text\n7,a\n,b\n")


def test_refuses_columns_that_are_not_there_with_a_suggestion(tmp_path):
    assert "did you mean 'text'" in complaint(tmp_path, text="txet")
    assert "which column holds the texts" in complaint(tmp_path, nodes="id,foo\n7,1\n")
    assert "weight" in complaint(tmp_path, edges="src,dst,weight\n7,n2,much\n")


def test_refuses_what_is_not_there(tmp_path, folder):
    with pytest.raises(InputError, match="did you mean"):
        read_graph(folder / "node.csv", folder / "edges.csv")
    with pytest.raises(InputError, match="where are the edges"):
        read_graph(folder / "nodes.csv")
    (folder / "edges.csv").unlink()
    with pytest.raises(InputError, match=r"no edges\.csv in it"):
        read_graph(folder)
    junk = tmp_path / "junk.graphml"
    junk.write_text("<graphml")
    with pytest.raises(InputError, match="not readable as graphml"):
        read_graph(junk)


# --- Debian ---

INDEX = """\
Package: vim
Source: vim-source (2:9)
Section: editors
Description: Vi IMproved
 longer text
Tag: role::program,
 use::editing
Depends: vim-common (= 2), libc6:any | musl

Package: vim-common
Source: vim-source
Section: non-free/editors
Description: common files

Package: libc6
Section: libs
Description: C library
"""


def test_package_index(tmp_path):
    path = tmp_path / "Packages"
    path.write_text(INDEX)
    index = read_packages(path)
    assert index["vim"]["Description"] == "Vi IMproved"
    assert index["vim"]["Tag"] == "role::program, use::editing"
    assert related(index["vim"]) == ["vim-common", "libc6"]
    graph = read_graph(path)
    assert graph.ids == ("libc6", "vim", "vim-common")
    assert graph.edges.tolist() == [[0, 1], [1, 2]]
    assert graph.classes == ("editors", "libs")
    within = packages_graph(index, same_source=True)
    assert within.edges.tolist() == [[1, 2]]
    with pytest.raises(InputError, match="no Package field"):
        read_packages(["hello"])
    with pytest.raises(InputError, match="relation 'Needs'"):
        related(index["vim"], ["Needs"])
    with pytest.raises(InputError, match="no package"):
        packages_graph(index, labels={"emacs": "editors"})


# --- the forms of the field ----------------------------------------------------------------------


def test_both_directions_of_an_undirected_graph_are_no_repetition(recwarn):
    one_way = np.array([[0, 1], [1, 2], [2, 0], [2, 3]])
    both = np.concatenate([one_way, one_way[:, ::-1]])
    graph = from_pyg(SimpleNamespace(edge_index=both.T), list("abcd"))
    assert graph.n_edges == 4
    assert not graph.notes
    assert not recwarn.list
    assert clean_edges(np.concatenate([both, both[:3]]), 4).n_repeated == 3
    assert clean_edges(both[:6], 4).n_repeated == 2  # some are there once, some twice
    half = len(both) // 2
    uneven = clean_edges(both, 4, [5.0] * half + [1.0] * half)
    assert uneven.n_repeated == half  # a direction of a weight of its own is more than a habit
    assert (uneven.weights == 5).all()


def test_numeric_classes_keep_their_numbers_beyond_ten():
    y = np.arange(24) % 12
    graph = from_pyg(SimpleNamespace(edge_index=np.array([[0, 1, 2], [1, 2, 0]]), y=y), ["t"] * 24)
    assert graph.labels.tolist() == y.tolist()
    assert graph.classes == tuple(map(str, range(12)))


def test_an_adjacency_matrix_is_told_how_to_come():
    with pytest.raises(InputError) as error:
        clean_edges(np.eye(5, dtype=int), 5)
    assert "csr_array" in error.value.hint
