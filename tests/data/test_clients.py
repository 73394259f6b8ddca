"""Dealing images out to clients: kinds of partitions, shifts, readers of IDX and CIFAR files."""

import doctest
import gzip
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from practicum.data import clients as fed
from practicum.errors import InputError

LABELS = np.repeat(np.arange(10), 200)


@pytest.mark.skipif(not fed.DEBIAN_FOLDER.is_dir(), reason="dataset-fashion-mnist not installed")
def test_documented_examples_run():
    done = doctest.testmod(fed)
    assert done.failed == 0 < done.attempted


@given(
    kind=st.sampled_from(["iid", "dirichlet", "two", "mixed", "conflict", "domain"]),
    seed=st.integers(0, 50),
)
@settings(max_examples=30, deadline=None)
def test_no_row_is_held_twice_and_the_draw_is_repeatable(kind, seed):
    plan = fed.partition(LABELS, 6, kind, n_per_client=30, seed=seed)
    again = fed.partition(LABELS, 6, kind, n_per_client=30, seed=seed)
    assert plan.index.shape == (6, 30)
    assert len(np.unique(plan.index)) == 180
    np.testing.assert_array_equal(plan.index, again.index)


def test_two_gives_disjoint_halves_of_the_classes():
    plan = fed.partition(LABELS, 8, "two", n_per_client=50)
    for rows, group in zip(plan.index, plan.groups, strict=True):
        assert set(LABELS[rows] // 5) == {group}


def test_mixed_is_iid_in_one_group_and_skewed_in_the_other():
    plan = fed.partition(np.repeat(np.arange(10), 2000), 40, "mixed", n_per_client=100, seed=3)
    share = [np.bincount(np.repeat(np.arange(10), 2000)[r]).max() / 100 for r in plan.index]
    assert (
        max(np.array(share)[plan.groups == 0]) < 0.3 < np.median(np.array(share)[plan.groups == 1])
    )


def test_conflict_shifts_labels_and_domain_adds_noise_in_one_group():
    images = fed.LabelledImages(np.zeros((2000, 4, 4), np.float32), LABELS, 10, "blank")
    plan = fed.partition(LABELS, 4, "conflict", n_per_client=40)
    data = fed.client_data(images, plan, 10)
    for k in range(4):
        expected = (LABELS[plan.index[k]] + 5 * plan.groups[k]) % 10
        np.testing.assert_array_equal(np.r_[data.train_y[k], data.test_y[k]], expected)
    noisy = fed.client_data(images, fed.partition(LABELS, 4, "domain", n_per_client=40), 10)
    spread = noisy.train_x.std((1, 2))
    assert (spread[noisy.groups == 0] == 0).all()
    np.testing.assert_allclose(spread[noisy.groups == 1], 0.5, atol=0.05)


def test_a_client_gets_the_same_noise_whoever_else_is_there():
    images = fed.digits()
    plan = fed.partition(images.labels, 6, "domain", n_per_client=50)
    first, second = fed.client_data(images, plan, 10), fed.client_data(images, plan, 10)
    np.testing.assert_array_equal(first.train_x, second.train_x)
    alone = first.only(3)
    np.testing.assert_array_equal(alone.train_x[0], first.train_x[3])


def test_dirichlet_limits():
    rng = np.random.default_rng(0)
    assert (fed.class_proportions(5, 10, 0.0, rng).max(1) == 1).all()
    np.testing.assert_allclose(fed.class_proportions(5, 10, 1e6, rng), 0.1, atol=0.01)


def test_affine_shift_is_a_matrix_product_and_a_bias():
    rng = np.random.default_rng(0)
    images = rng.random((5, 6, 6)).astype(np.float32)
    moved = fed.affine_shift(images, 0.2, 0.1, np.random.default_rng(1))
    again = np.random.default_rng(1)
    a = np.eye(6) + 0.2 * again.standard_normal((6, 6))
    b = 0.1 * again.standard_normal((6, 6))
    np.testing.assert_allclose(moved, np.einsum("ij,njk->nik", a, images) + b, atol=1e-5)


def test_blur_keeps_the_mean():
    images = np.random.default_rng(0).random((3, 12, 12)).astype(np.float32)
    np.testing.assert_allclose(fed.blur(images, 1.5).mean((1, 2)), images.mean((1, 2)), atol=0.02)


def test_rows_with_a_client_column_are_split_and_padded():
    client = np.array([0] * 10 + [1] * 4)
    x = np.arange(14, dtype=np.float32)[:, None]
    data = fed.clients_of_rows(x, np.arange(14) % 2, client, test_share=0.3)
    assert data.train_size.tolist() == [7, 3]
    assert data.test_size.tolist() == [3, 1]
    held = np.r_[data.train_x[1, :3, 0], data.test_x[1, :1, 0]]
    assert sorted(held) == [10, 11, 12, 13]
    assert data.class_counts.sum(1).tolist() == [7, 3]


def test_summary_of_clients():
    summary = fed.summarise_clients(np.array([0.0, 1.0]))
    assert (summary["min"], summary["mean"], summary["max"]) == (0, 0.5, 1)


# --- Fashion-MNIST, CIFAR-100 --------------------------------------------------------------------


def idx(array):
    header = struct.pack(">BBBB", 0, 0, 8, array.ndim) + struct.pack(
        f">{array.ndim}I", *array.shape
    )
    return gzip.compress(header + array.astype(np.uint8).tobytes())


def small_set(folder):
    rng = np.random.default_rng(0)
    for part, n in (("train", 6), ("t10k", 4)):
        images = rng.integers(0, 256, (n, 28, 28))
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(idx(images))
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(idx(rng.integers(0, 10, n)))
    return folder


def test_fashion_mnist_is_pooled(tmp_path):
    folder = small_set(tmp_path)
    full = fed.fashion_mnist(28, folder).images
    half = fed.fashion_mnist(14, folder).images
    assert full.shape == (10, 28, 28)
    assert full.max() <= 1
    np.testing.assert_allclose(half, full.reshape(10, 14, 2, 14, 2).mean((2, 4)), atol=1e-6)


@pytest.mark.skipif(not fed.DEBIAN_FOLDER.is_dir(), reason="dataset-fashion-mnist not installed")
def test_the_debian_package_holds_seventy_thousand():
    images = fed.fashion_mnist()
    assert images.images.shape == (70_000, 14, 14)
    assert np.bincount(images.labels).tolist() == [7000] * 10
    assert not images.images.flags.writeable


def test_bad_input_missing_fashion_mnist_says_how_to_install_it(tmp_path):
    with pytest.raises(InputError, match="apt-get install dataset-fashion-mnist"):
        fed.fashion_mnist(14, tmp_path / "nowhere")


DAMAGED = {
    "no gzip": b"not gzip",
    "no idx": gzip.compress(b"not idx at all"),
    "cut off": idx(np.random.default_rng(0).integers(0, 256, (3, 28, 28)))[:900],
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_bad_input_damaged_idx_files_are_named(tmp_path, kind):
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(DAMAGED[kind])
    with pytest.raises(InputError, match="train-images"):
        fed.read_idx(path)


def test_bad_input_idx_shorter_than_declared(tmp_path):
    raw = struct.pack(">BBBBI", 0, 0, 8, 1, 9) + b"abc"
    (tmp_path / "x.gz").write_bytes(gzip.compress(raw))
    with pytest.raises(InputError, match=r"declares \(9,\), but 3"):
        fed.read_idx(tmp_path / "x.gz")


def test_bad_input_cifar_explains_the_layout(tmp_path, monkeypatch):
    monkeypatch.delenv("PRACTICUM_CIFAR100", raising=False)
    with pytest.raises(InputError, match="PRACTICUM_CIFAR100"):
        fed.cifar100()
    with pytest.raises(InputError, match=r"train\.bin"):
        fed.cifar100(tmp_path)
    (tmp_path / "train.bin").write_bytes(b"short")
    with pytest.raises(InputError, match="3,074"):
        fed.cifar100(tmp_path)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fed.partition(LABELS, 0), "0 clients"),
        (lambda: fed.partition(LABELS, 3, "weird"), "weird"),
        (lambda: fed.partition(LABELS - 1, 3), "label -1"),
        (lambda: fed.partition(LABELS.astype(float), 3), "integer label"),
        (lambda: fed.partition(LABELS, 50, "iid", n_per_client=300), "replace=True"),
        (lambda: fed.partition(LABELS, 3, alpha=-1.0), "alpha is -1"),
        (lambda: fed.load_images("mnist"), "mnist"),
        (lambda: fed.summarise_clients(np.array([0.1, np.nan])), r"\[1\]"),
        (lambda: fed.label_counts(np.array([[0, 5]]), 3), "0 to 2"),
        (lambda: fed.add_noise(np.zeros(3), -1.0, np.random.default_rng(0)), "std is -1"),
        (
            lambda: fed.clients_of_rows(
                np.zeros((3, 1), np.float32), np.array([0, 1, 0]), np.array([0, 0, 1])
            ),
            r"clients \[1\] hold fewer than 2",
        ),
    ],
)
def test_bad_input_is_refused_in_a_sentence(call, message):
    with pytest.raises(InputError, match=message):
        call()
