"""Pictures as people have them, and what is said about those that are none."""

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from practicum.data.images import (
    as_rgb,
    file_key,
    from_arrays,
    load_image,
    pixel_key,
    read_images,
    thumbnail,
)
from practicum.errors import InputError


@pytest.fixture
def tree(tmp_path):
    """Two classes, one of them nested, beside a note and a hidden file."""
    for name in ("cat/1.png", "cat/2.PNG", "deep/dog/3.jpg", "cat/.hidden.png", "cat/notes.txt"):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".txt":
            path.write_text("no picture")
        else:
            Image.new("RGB", (8, 8), "red").save(path)
    return tmp_path / "photos"


def test_a_folder_names_its_classes(tree):
    table = read_images(tree)
    assert table.ids == ["cat/1.png", "cat/2.PNG", "deep/dog/3.jpg"]
    assert table.labels == ["cat", "cat", "dog"]
    assert "folders" in table.label_source


def test_images_beside_the_folders_have_no_label_and_then_nobody_has(tree):
    Image.new("RGB", (8, 8)).save(tree / "loose.png")
    assert read_images(tree).labels is None


def test_one_image(tree):
    table = read_images(tree / "cat/1.png")
    assert len(table) == 1
    assert table.labels is None


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_a_table_of_paths(tree, kind):
    frame = pd.DataFrame(
        {
            "Image": ["cat/1.png", str(tree / "deep/dog/3.jpg")],
            "label": [1, 0],
            "id": ["a", "b"],
            "group": ["x", "y"],
            "weight": [1.0, 0.5],
        }
    )
    path = tree / f"table.{kind}"
    if kind == "csv":
        frame.to_csv(path, index=False)
    elif kind == "parquet":
        frame.to_parquet(path)
    else:
        frame.to_json(path, orient="records", lines=True)
    table = read_images(path)
    assert table.ids == ["a", "b"]
    assert table.labels == ["1", "0"]
    assert table.groups == ["x", "y"]
    assert table.weights == [1.0, 0.5]
    assert [p.name for p in table.paths] == ["1.png", "3.jpg"]


def test_columns_by_name(tree):
    (tree / "t.csv").write_text("where,what,label\ncat/1.png,red,x\n")
    table = read_images(tree / "t.csv", path_column="where", label_column="what")
    assert table.labels == ["red"]
    with pytest.raises(InputError, match="no column 'wher'"):
        read_images(tree / "t.csv", path_column="wher")


TABLES = {
    "no_paths": ("a,b\n1,2\n", "no column of paths"),
    "absent": ("path,label\ncat/1.png,a\ncat/9.png,b\n", r"row 2: there is no file .*9\.png"),
    "unlabelled": ("path,label\ncat/1.png,\n", "column 'label', row 1: an empty cell"),
    "twice": ("path,label\ncat/1.png,a\ncat/1.png,b\n", "row 2: the id .* was taken"),
    "weight": ("path,label,weight\ncat/1.png,a,-1\n", "'weight', row 1: found -1"),
}


@pytest.mark.parametrize("name", TABLES)
def test_bad_input_tables_are_refused_by_row_and_column(tree, name):
    text, message = TABLES[name]
    (tree / f"{name}.csv").write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        read_images(tree / f"{name}.csv")
    assert f"{name}.csv" in str(caught.value)


def test_bad_input_folders_and_files_are_refused(tmp_path):
    with pytest.raises(InputError, match="no image in this folder"):
        read_images(tmp_path)
    with pytest.raises(InputError, match="no such file"):
        read_images(tmp_path / "none")
    (tmp_path / "notes.docx").write_text("x")
    with pytest.raises(InputError, match=r"'\.docx' are no images"):
        read_images(tmp_path / "notes.docx")


def save(path, image, **more):
    image.save(path, **more)
    return path


def test_odd_modes_become_what_a_person_sees(tmp_path):
    grey16 = Image.fromarray(np.full((4, 4), 65535, dtype=np.uint16))
    wide = Image.fromarray(np.full((4, 4), 32768, dtype=np.int32))
    cases = {
        "grey.png": (Image.new("L", (4, 4), 128), (128, 128, 128)),
        "bilevel.png": (Image.new("1", (4, 4), 1), (255, 255, 255)),
        "grey16.png": (grey16, (255, 255, 255)),
        "wide.tif": (wide, (128, 128, 128)),
        "float.tif": (Image.fromarray(np.full((4, 4), 0.5, dtype=np.float32)), (128, 128, 128)),
        "clear.png": (Image.new("RGBA", (4, 4), (0, 0, 0, 0)), (255, 255, 255)),
        "half.png": (Image.new("RGBA", (4, 4), (255, 0, 0, 128)), (255, 127, 127)),
        "clear_grey.png": (Image.new("LA", (4, 4), (0, 0)), (255, 255, 255)),
        "palette.png": (Image.new("RGB", (4, 4), "blue").convert("P"), (0, 0, 255)),
        "ink.tif": (Image.new("CMYK", (4, 4), (0, 255, 255, 0)), (255, 0, 0)),
    }
    for name, (image, colour) in cases.items():
        found = load_image(save(tmp_path / name, image))
        assert found.mode == "RGB", name
        np.testing.assert_allclose(found.getpixel((1, 1)), colour, atol=1, err_msg=name)


def test_a_photograph_is_turned_as_its_tag_says(tmp_path):
    image = Image.new("RGB", (6, 4), "black")
    image.putpixel((0, 0), (255, 255, 255))
    tag = Image.Exif()
    tag[0x0112] = 6  # the top is on the right
    found = load_image(save(tmp_path / "turned.png", image, exif=tag))
    assert found.size == (4, 6)
    assert found.getpixel((3, 0)) == (255, 255, 255)


def test_corrupt_files_are_refused_by_name(tmp_path):
    good = save(tmp_path / "good.jpg", Image.new("RGB", (64, 64), "green")).read_bytes()
    files = {
        "cut.jpg": good[: len(good) // 2],
        "empty.png": b"",
        "text.png": b"this is no picture",
        "junk.png": b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(InputError, match="not a readable image") as caught:
            load_image(tmp_path / name)
        assert name in str(caught.value)
    with pytest.raises(InputError, match=r"gone\.png"):
        load_image(tmp_path / "gone.png")


def test_a_decompression_bomb_is_refused(tmp_path, monkeypatch):
    path = save(tmp_path / "bomb.png", Image.new("L", (200, 200)))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(InputError, match="too large"):
        load_image(path)


def test_floating_point_pixels_out_of_range_are_refused():
    with pytest.raises(InputError, match="floating-point pixels"):
        as_rgb(Image.fromarray(np.full((2, 2), 1000.0, dtype=np.float32)))
    with pytest.raises(InputError, match="pixels from -1"):
        as_rgb(Image.fromarray(np.full((2, 2), -1.0, dtype=np.float32)))


def test_arrays_of_any_usual_kind():
    for array, colour in (
        (np.full((4, 4), 255, np.uint8), (255, 255, 255)),
        (np.full((4, 4, 1), 1.0), (255, 255, 255)),
        (np.full((4, 4, 3), 257 * 16, np.uint16), (16, 16, 16)),
        (np.full((4, 4), 7, np.int64), (7, 7, 7)),
    ):
        assert from_arrays([array])[0].getpixel((0, 0)) == colour
    for wrong in (np.zeros(3), np.zeros((4, 4, 5)), np.full((2, 2), 3.0), np.full((2, 2), -1)):
        with pytest.raises(InputError, match="image 0"):
            from_arrays([wrong])


def test_keys_follow_the_content(tmp_path):
    a = save(tmp_path / "a.png", Image.new("L", (4, 4), 1))
    b = save(tmp_path / "b.png", Image.new("L", (4, 4), 1))
    c = save(tmp_path / "c.png", Image.new("L", (4, 4), 2))
    assert file_key(a) == file_key(b) != file_key(c)
    assert pixel_key(Image.open(a)) == pixel_key(Image.open(b)) != pixel_key(Image.open(c))
    with pytest.raises(InputError, match="cannot be read"):
        file_key(tmp_path / "none")


def test_thumbnails_keep_the_shape():
    import io

    small = Image.open(io.BytesIO(thumbnail(Image.new("RGB", (300, 100)), 60)))
    assert small.size == (60, 20)
