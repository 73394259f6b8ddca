"""A person's files: roots, uploads, archives, heads of tables."""

import io
import os
import stat
import zipfile

import numpy as np
import pytest

from practicum.errors import InputError
from practicum.web.files import head_of, safe_name


def archive(members, compression=zipfile.ZIP_DEFLATED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as opened:
        for name, content in members.items():
            opened.writestr(name, content)
    return buffer.getvalue()


@pytest.fixture
def upload(owner):
    def send(name, content):
        return owner.post("/upload", params={"name": name}, content=content)

    return send


@pytest.fixture
def nothing_kept(site):
    """Nothing of a refused upload is left."""
    yield
    assert not list(site.files.uploads.rglob("*"))


# --- paths ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["mine.csv", "./mine.csv", "../root/mine.csv", ".", ""])
def test_below_the_root(site, root, text):
    assert site.files.resolve(text).is_relative_to(root)


def test_an_absolute_path(site, root):
    assert site.files.resolve(str(root / "mine.csv")) == root / "mine.csv"


@pytest.mark.parametrize(
    "text",
    [
        "..",
        "../store.sqlite",
        "/etc/passwd",
        "/",
        "sub/../../store.sqlite",
        "~",
        "~nobody-of-that-name/x",
        "mine.csv\0.png",
        "/proc/self/environ",
        "../root-of-another/x",
    ],
)
def test_outside_the_root(site, owner, text):
    with pytest.raises(InputError):
        site.files.resolve(text)
    for page in ("/file", "/methods/coin/compare"):
        answer = owner.get(page, params={"path": text})
        assert answer.status_code == 400
        assert "root:" not in answer.text


def test_a_link_is_followed_before_it_is_judged(site, root):
    (root / "link.csv").symlink_to("/etc/passwd")
    (root / "folder").symlink_to("/etc")
    for text in ("link.csv", "folder/passwd", "folder"):
        with pytest.raises(InputError, match="outside"):
            site.files.resolve(text)
    assert {entry.name for entry in site.files.listing(root)} == {"mine.csv"}


def test_hidden_files_are_not_for_the_page(site, root):
    (root / ".ssh").mkdir()
    (root / ".ssh" / "id").write_text("secret")
    with pytest.raises(InputError, match="outside"):
        site.files.resolve(".ssh/id")
    assert [entry.name for entry in site.files.listing(root)] == ["mine.csv"]


def test_a_file_that_is_not_there(owner):
    answer = owner.get("/file", params={"path": "none.csv"})
    assert answer.status_code == 400
    assert "no such file" in answer.text


def test_a_comparison_outside_the_root_is_not_started(owner, site):
    answer = owner.post("/methods/coin/compare", data={"path": "/etc/passwd", "scale": "smoke"})
    assert answer.status_code == 400
    assert not site.jobs.known


# --- uploads -------------------------------------------------------------------------------------


def test_an_upload_is_looked_at(owner, upload):
    answer = upload("their table.csv", b"a,b\n1,2\n")
    page = owner.get(answer.json()["location"])
    assert "a table of 2 columns, 2 of them numeric" in page.text
    assert "Compare coin on this file" in page.text


def test_the_same_bytes_are_the_same_file(upload, site):
    first, second = (upload("a.csv", b"a,b\n1,2\n").json()["location"] for _ in range(2))
    assert first == second
    assert upload("a.csv", b"a,b\n1,3\n").json()["location"] != first
    assert len(list(site.files.uploads.iterdir())) == 2


def test_uploads_are_for_their_owner_alone(upload, site):
    upload("a.csv", b"a\n1\n")
    assert stat.S_IMODE(site.settings.state.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\data\\my file.csv", "my file.csv"),
        ("..", "data"),
        ("", "data"),
        (".hidden", "hidden"),
        ("a\0b\n.csv", "a_b_.csv"),
        ("größe.csv", "größe.csv"),
        ("x" * 300 + ".csv", "x" * 116 + ".csv"),
    ],
)
def test_names_are_made_safe(name, safe):
    assert safe_name(name) == safe


def test_an_upload_cannot_choose_its_folder(upload, site):
    upload("../../../evil.csv", b"a\n1\n")
    (kept,) = (p for p in site.settings.state.rglob("*.csv"))
    assert kept.parent.parent == site.files.uploads


@pytest.mark.usefixtures("nothing_kept")
def test_too_large_is_refused_before_it_is_read(upload):
    answer = upload("big.csv", b"x" * 200_001)
    assert answer.status_code == 413
    assert "larger than" in answer.json()["error"]


@pytest.mark.usefixtures("nothing_kept")
def test_a_sender_that_does_not_say_how_much_is_counted(owner):
    pieces = (b"x" * 50_000 for _ in range(10))
    answer = owner.post("/upload?name=big.csv", content=pieces)
    assert answer.status_code == 413


@pytest.mark.usefixtures("nothing_kept")
def test_a_sender_that_announces_a_gigabyte_is_refused_at_once(owner):
    read = []

    def pieces():
        for _ in range(3):
            read.append(1)
            yield b"x"

    headers = {"Content-Length": str(1 << 30)}
    answer = owner.post("/upload?name=big.csv", content=pieces(), headers=headers)
    assert answer.status_code == 413


def test_the_disk_is_not_filled(upload, site):
    for i in range(20):
        answer = upload(f"{i}.csv", os.urandom(150_000))
    assert answer.status_code == 413
    assert "the uploads already hold" in answer.json()["error"]
    held = sum(p.stat().st_size for p in site.files.uploads.rglob("*") if p.is_file())
    assert held <= site.settings.max_unpacked


# --- archives ------------------------------------------------------------------------------------


def test_a_zipped_folder_is_a_folder(owner, upload):
    members = {f"outlines/{i}.csv": "x,y\n0,0\n1,0\n1,1\n" for i in range(3)}
    page = owner.get(upload("outlines.zip", archive(members)).json()["location"])
    assert "a folder of 3 files" in page.text


def test_a_zipped_file_is_that_file(owner, upload):
    page = owner.get(upload("one.zip", archive({"one.csv": "a,b\n1,2\n"})).json()["location"])
    assert "a table of 2 columns" in page.text


def test_litter_in_an_archive_is_left_out(upload, site):
    members = {"d/a.csv": "a,b\n1,2\n", "d/.DS_Store": "x", "__MACOSX/d/._a.csv": "x"}
    upload("d.zip", archive(members))
    assert [p.name for p in site.files.uploads.rglob("*") if p.is_file()] == ["a.csv"]


@pytest.mark.usefixtures("nothing_kept")
@pytest.mark.parametrize("name", ["../evil.csv", "/etc/evil.csv", "a/../../evil.csv", "..\\evil"])
def test_an_archive_cannot_leave_its_folder(upload, name):
    answer = upload("a.zip", archive({name: "x"}))
    assert answer.status_code == 400
    assert "outside its folder" in answer.json()["error"]


@pytest.mark.usefixtures("nothing_kept")
def test_a_link_in_an_archive_is_refused(upload):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as opened:
        link = zipfile.ZipInfo("link.csv")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        opened.writestr(link, "/etc/passwd")
    assert upload("a.zip", buffer.getvalue()).status_code == 400


@pytest.mark.usefixtures("nothing_kept")
@pytest.mark.parametrize("name", ["bomb.zip", "bomb.npz"])
def test_a_bomb_is_refused(upload, name):
    bomb = archive({"a.npy": b"\0" * 2_000_000})
    assert len(bomb) < 10_000
    answer = upload(name, bomb)
    assert answer.status_code == 413
    assert "opens to more than" in answer.json()["error"]


@pytest.mark.usefixtures("nothing_kept")
def test_a_bomb_inside_an_archive_is_refused(upload):
    inner = archive({"a.npy": b"\0" * 2_000_000})
    assert upload("outer.zip", archive({"d/inner.npz": inner, "d/b.csv": "a"})).status_code == 413


@pytest.mark.usefixtures("nothing_kept")
def test_a_bomb_that_lies_about_its_size_is_counted(site):
    """The directory says one byte; the member holds more than is allowed."""
    content = archive({"a.csv": b"0" * 2_000_000}).replace(
        (2_000_000).to_bytes(4, "little"), (1).to_bytes(4, "little")
    )

    async def chunks():
        yield content

    import asyncio

    with pytest.raises(InputError):
        asyncio.run(site.files.receive("liar.zip", chunks(), len(content)))


@pytest.mark.usefixtures("nothing_kept")
def test_parquet_of_one_repeated_value_is_refused(upload):
    import pyarrow
    from pyarrow import parquet

    buffer = io.BytesIO()
    table = pyarrow.table({"a": np.zeros(500_000)})
    parquet.write_table(table, buffer, compression="zstd")
    assert len(buffer.getvalue()) < 100_000
    assert upload("a.parquet", buffer.getvalue()).status_code == 413


@pytest.mark.usefixtures("nothing_kept")
@pytest.mark.parametrize("name", ["a.zip", "a.npz", "a.parquet"])
def test_what_is_no_archive_is_said(upload, name):
    answer = upload(name, b"not an archive at all")
    assert answer.status_code == 400
    assert name in answer.json()["error"]


@pytest.mark.usefixtures("nothing_kept")
def test_an_archive_of_very_many_files_is_refused(upload, site):
    object.__setattr__(site.settings, "max_members", 10)
    answer = upload("a.zip", archive({f"{i}": "" for i in range(11)}))
    assert answer.status_code == 413


# --- heads ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "x,y\n1,2\n"),
        ("a.tsv", "x\ty\n1\t2\n"),
        ("semicolons.csv", "x;y\n1;2\n"),
        ("bom.csv", "\ufeffx,y\n1,2\n"),
        ("a.jsonl", '{"x": 1, "y": 2}\n'),
    ],
)
def test_the_columns_of_a_table(tmp_path, name, content):
    (tmp_path / name).write_text(content, encoding="utf-8")
    head = head_of(tmp_path / name)
    assert (head.columns, head.rows) == (["x", "y"], [["1", "2"]])


def test_the_columns_of_parquet(tmp_path):
    import pandas as pd

    pd.DataFrame({"x": [1], "y": [2]}).to_parquet(tmp_path / "a.parquet")
    assert head_of(tmp_path / "a.parquet").columns == ["x", "y"]


def test_what_is_no_table_has_no_columns(tmp_path):
    np.savez(tmp_path / "a.npz", a=np.zeros((2, 2)), b=np.zeros(7))
    assert head_of(tmp_path / "a.npz") is None
    assert head_of(tmp_path) is None
    (tmp_path / "a.png").write_bytes(b"\x89PNG")
    assert head_of(tmp_path / "a.png") is None


def test_a_pickle_is_not_opened(tmp_path, owner, root):
    path = root / "evil.npy"
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    assert head_of(path) is None
    assert owner.get("/file", params={"path": "evil.npy"}).status_code == 200


# --- what is kept --------------------------------------------------------------------------------


def test_uploads_are_listed_and_deleted(owner, upload, site):
    upload("a.csv", b"x,y\n1,2\n")
    upload("pictures.zip", archive({"one.txt": "1" * 500, "two.txt": "2" * 500}))
    page = owner.get("/uploads").text
    assert "a.csv" in page
    assert "pictures" in page
    assert "1000 Bytes" in page
    for kept in site.files.kept():
        answer = owner.post(f"/uploads/{kept.id}/delete")
        assert answer.status_code == 200
        assert answer.url.path == "/uploads"
        assert not kept.path.exists()
    assert "None is kept" in owner.get("/uploads").text
    assert owner.post(f"/uploads/{'0' * 16}/delete").status_code == 200  # gone already


@pytest.mark.parametrize("name", ["..", "%2e%2e", "x", "0" * 15, "0" * 17, "A" * 16])
def test_only_an_upload_is_deleted(owner, upload, site, settings, name):
    upload("a.csv", b"x,y\n1,2\n")
    assert owner.post(f"/uploads/{name}/delete").status_code in (400, 404, 405)
    assert len(site.files.kept()) == 1
    assert settings.state.exists()


def test_a_stranger_deletes_nothing(stranger, upload, site):
    upload("a.csv", b"x,y\n1,2\n")
    (kept,) = site.files.kept()
    assert stranger.post(f"/uploads/{kept.id}/delete").status_code == 403
    assert kept.path.exists()


def test_an_uploaded_file_says_that_it_is_kept(owner, upload):
    where = upload("a.csv", b"x,y\n1,2\n").json()["location"]
    assert 'href="/uploads"' in owner.get(where).text.split("<footer>")[0]
