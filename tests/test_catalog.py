"""Cards: what is valid, what a person is told when one is not, and how methods are found."""

import copy
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from practicum import catalog
from practicum.catalog import FIELDS, GROUP, Method, read_card
from practicum.errors import CardError, MissingExtra, UnknownMethod

GOOD = """
slug = "coin-two"
title = "Second coin"
field = "stats"
summary = "Another coin."
use_when = ["you have two coins"]
accepts = ["table"]

[paper]
title = "On coins"
authors = ["A. Author"]

[[claims]]
id = "C1"
statement = "heads more often than not"
reported = "70 %"
"""


@pytest.fixture
def card(tmp_path):
    """Write a card: the good one, with lines replaced or added."""

    def write(*changes, text=GOOD):
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "card.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


# --- cards ---------------------------------------------------------------------------------------


def test_a_good_card(card):
    read = read_card(card())
    assert (read.slug, read.paper.venue, read.claims[0].id) == ("coin-two", "ICML 2025", "C1")
    assert (read.extras, read.not_when, read.claims[0].reported_value) == ([], [], None)


@pytest.mark.parametrize(
    "name",
    ["slug", "title", "field", "summary", "use_when", "accepts", "paper", "claims"],
)
def test_a_missing_field_is_named(card, name):
    data = tomllib.loads(GOOD)
    del data[name]
    error = refusal(card(text=dump(data)))
    assert f"field {name}" in error


@pytest.mark.parametrize("name", ["title", "authors"])
def test_a_missing_field_of_the_paper_is_named(card, name):
    data = copy.deepcopy(tomllib.loads(GOOD))
    del data["paper"][name]
    assert f"field paper.{name}" in refusal(card(text=dump(data)))


@pytest.mark.parametrize("name", ["id", "statement", "reported"])
def test_a_missing_field_of_a_claim_is_named(card, name):
    data = copy.deepcopy(tomllib.loads(GOOD))
    del data["claims"][0][name]
    assert f"field claims.0.{name}" in refusal(card(text=dump(data)))


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('slug = "coin-two"', 'slug = "Coin Two"', "field slug"),
        ('slug = "coin-two"', 'slug = "coin_two"', "field slug"),
        ('slug = "coin-two"', 'slug = "-coin"', "field slug"),
        ('slug = "coin-two"', "slug = 2", "field slug"),
        ('title = "Second coin"', 'title = ""', "field title"),
        ('field = "stats"', 'field = "numismatics"', "numismatics"),
        ('accepts = ["table"]', 'accepts = ["coins"]', "field accepts.0"),
        ('accepts = ["table"]', 'accepts = "table"', "field accepts"),
        ('use_when = ["you have two coins"]', 'use_when = [""]', "field use_when.0"),
        ('id = "C1"', 'id = "one"', "field claims.0.id"),
        ('id = "C1"', 'id = "C1"\nreported_value = "much"', "field claims.0.reported_value"),
        ('id = "C1"', 'id = "C1"\nreproted = "x"', "field claims.0.reproted"),
        ('title = "On coins"', 'title = "On coins"\nyear = 2025', "field paper.year"),
        ('summary = "Another coin."', 'summary = "x"\ncolour = "red"', "field colour"),
    ],
)
def test_a_wrong_field_is_named(card, old, new, named):
    assert named in refusal(card((old, new)))


def test_no_claims_are_refused(card):
    data = {**tomllib.loads(GOOD), "claims": []}
    assert "field claims" in refusal(card(text=dump(data)))


def test_two_claims_of_one_id_are_refused(card):
    claim = GOOD[GOOD.index("[[claims]]") :]
    assert "two claims have the same id" in refusal(card(text=GOOD + claim))


def test_several_mistakes_are_counted(card):
    error = refusal(card(('title = "Second coin"', "title = 1"), ('slug = "coin-two"', "slug = 2")))
    assert "(and 1 more)" in error


@pytest.mark.parametrize(
    "text", ["slug = ", "slug = 'a'\nslug = 'b'", "[paper", "just words", "\ufeffslug = 'a'"]
)
def test_what_is_not_toml_is_said_to_be(card, text):
    assert "not valid TOML" in refusal(card(text=text))


def test_a_card_that_is_not_utf_8(tmp_path):
    (tmp_path / "card.toml").write_bytes(b'title = "caf\xe9"')
    assert "not valid TOML" in refusal(tmp_path / "card.toml")


def test_an_empty_card(card):
    assert "field slug" in refusal(card(text=""))


def test_a_card_that_is_not_there(tmp_path):
    assert "cannot be read (No such file" in refusal(tmp_path / "card.toml")


def test_a_folder_in_the_place_of_a_card(tmp_path):
    assert "cannot be read (Is a directory)" in refusal(tmp_path)


def refusal(path):
    """The message of the CardError: one that names the file."""
    with pytest.raises(CardError) as caught:
        read_card(path)
    assert str(path) in caught.value.message
    return caught.value.message


def dump(data):
    """Enough TOML for a card."""
    lines = []
    for key, value in data.items():
        if not isinstance(value, dict) and key != "claims":
            lines.append(f"{key} = {value!r}")
    if data.get("claims") == []:
        lines.append("claims = []")
    for key in ("paper",):
        if key in data:
            lines += [f"[{key}]", *(f"{k} = {v!r}" for k, v in data[key].items())]
    for claim in data.get("claims", []):
        lines += ["[[claims]]", *(f"{k} = {v!r}" for k, v in claim.items())]
    return "\n".join(lines)


# --- finding methods -----------------------------------------------------------------------------


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install third-party methods: folders on the path and their entry points."""
    monkeypatch.syspath_prepend(str(tmp_path))
    points = []
    monkeypatch.setattr(catalog, "entry_points", lambda group: points if group == GROUP else [])

    def install(package, card=GOOD, target=None, **files):
        folder = tmp_path.joinpath(*package.split("."))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "__init__.py").touch()
        if card is not None:
            (folder / "card.toml").write_text(card)
        for name, text in files.items():
            (folder / f"{name}.py").write_text(text)
        points.append(EntryPoint("coin-two", package if target is None else target, GROUP))
        return folder

    yield install
    for name in [n for n in sys.modules if n.startswith("third_")]:
        del sys.modules[name]


def test_the_toy_is_found_through_its_entry_point():
    method = catalog.get("coin")
    assert method.card.title == "Biased coin"
    assert method.module == "practicum_toy"
    assert method.load_study().slug == "coin"
    assert method.load_command() is not None


def test_a_third_party_method_stands_beside_the_others(install):
    built_in = [m.slug for m in catalog._built_in()]
    folder = install("third_coin")
    assert catalog.methods()["coin-two"] == Method(
        read_card(folder / "card.toml"), folder, "third_coin"
    )
    assert set(catalog.methods()) == {*built_in, "coin-two"}


def test_a_method_deep_in_a_package(install):
    install("third_company.methods.coin")
    assert catalog.get("coin-two").module == "third_company.methods.coin"


def test_methods_come_in_the_order_of_fields_and_then_of_titles():
    cards = [m.card for m in catalog.methods().values()]
    order = [(list(FIELDS).index(c.field), c.title) for c in cards]
    assert order == sorted(order)


def test_a_slug_taken_twice_names_both_folders(install):
    first, second = install("third_a"), install("third_b")
    with pytest.raises(CardError, match="'coin-two' is taken") as caught:
        catalog.methods()
    assert str(first) in caught.value.message
    assert str(second) in caught.value.message


@pytest.mark.parametrize(
    "target",
    [
        "third_nowhere",
        "third_nowhere.coin",
        "third_coin.study",
        "third_coin:app",
        "third-coin",
        ".x",
        "",
    ],
)
def test_an_entry_point_that_leads_nowhere_is_named(install, target):
    install("third_coin", target=target, study="")
    with pytest.raises(CardError) as caught:
        catalog.methods()
    assert "'coin-two'" in caught.value.message
    assert GROUP in caught.value.message


@pytest.mark.parametrize("text", ["import third_nowhere", "1 / 0", "def ("])
def test_an_entry_point_into_a_broken_package_is_named(install, tmp_path, text):
    """``find_spec("a.b")`` imports ``a``, which may raise anything."""
    install("third_broken.coin")
    (tmp_path / "third_broken" / "__init__.py").write_text(text)
    with pytest.raises(CardError) as caught:
        catalog.methods()
    assert "'coin-two'" in caught.value.message


def test_a_third_party_card_that_is_missing_or_wrong_is_named(install):
    folder = install("third_coin", card="slug = 1")
    with pytest.raises(CardError, match="third_coin"):
        catalog.methods()
    (folder / "card.toml").unlink()
    with pytest.raises(CardError, match="cannot be read"):
        catalog.methods()


def test_listing_imports_no_method(install):
    install("third_coin", study="1 / 0", command="1 / 0")
    catalog.methods()
    assert "third_coin" not in sys.modules


def test_every_built_in_card_sits_in_the_folder_of_its_field():
    for method in catalog._built_in():
        assert method.card.field == method.folder.parent.name
        assert method.module == f"practicum.{method.card.field}.{method.folder.name}"


# --- asking for one ------------------------------------------------------------------------------


def test_a_name_that_is_nearly_right_is_answered_with_the_right_one():
    with pytest.raises(UnknownMethod, match="there is no method 'coni'") as caught:
        catalog.get("coni")
    assert "coin" in caught.value.hint


def test_a_name_like_no_other_is_answered_with_the_list():
    with pytest.raises(UnknownMethod) as caught:
        catalog.get("zzzzzzzz")
    assert caught.value.hint == "see: practicum list"


# --- loading -------------------------------------------------------------------------------------

STUDY = """
from practicum.study import Study
class {name}(Study):
    trials = run = figures = on = lambda *_: None
"""


def test_the_study_is_the_one_class_written_in_the_module(install):
    install("third_coin", study=STUDY.format(name="Mine"))
    assert catalog.get("coin-two").load_study().__name__ == "Mine"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", 0),
        ("from practicum.study import Study\nclass Half(Study): pass", 0),
        (STUDY.format(name="One") + STUDY.format(name="Two"), 2),
    ],
    ids=["none", "an abstract one", "two"],
)
def test_no_study_or_two_are_refused(install, text, found):
    folder = install("third_coin", study=text)
    with pytest.raises(CardError, match=f"one Study class expected, {found} found") as caught:
        catalog.get("coin-two").load_study()
    assert str(folder / "study.py") in caught.value.message


@pytest.mark.parametrize("part", ["study", "command"])
def test_a_missing_package_is_answered_with_the_line_that_installs_it(install, part):
    card = GOOD.replace("accepts", 'extras = ["torch", "meshes"]\naccepts')
    install("third_coin", card=card, **{part: "import third_missing.deep"})
    with pytest.raises(MissingExtra, match="coin-two needs the package 'third_missing'") as caught:
        getattr(catalog.get("coin-two"), f"load_{part}")()
    assert caught.value.hint == "install it with: pip install 'practicum[torch,meshes]'"


def test_the_methods_own_words_about_a_missing_package_are_kept(install):
    own = "from practicum.errors import MissingExtra\nraise MissingExtra('no GPU', 'buy one')"
    install("third_coin", study=own)
    with pytest.raises(MissingExtra, match="no GPU"):
        catalog.get("coin-two").load_study()


def test_our_own_mistake_is_not_blamed_on_a_missing_package(install):
    card = GOOD.replace("accepts", 'extras = ["torch"]\naccepts')
    install("third_coin", card=card, study="import practicum.nowhere")
    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        catalog.get("coin-two").load_study()


def test_a_mistake_inside_the_method_is_not_blamed_on_a_missing_package(install):
    """``from .distances import far`` where the module is called ``distance``."""
    card = GOOD.replace("accepts", 'extras = ["torch"]\naccepts')
    install("third_coin", card=card, study="from .distances import far")
    with pytest.raises(ModuleNotFoundError, match=r"third_coin\.distances"):
        catalog.get("coin-two").load_study()


def test_a_method_without_a_command_is_a_card_error(install):
    install("third_coin")
    with pytest.raises(CardError, match=r"command"):
        catalog.get("coin-two").load_command()


def test_cards_lie_where_the_package_is():
    assert Path(catalog.__file__).parent in catalog._built_in()[0].folder.parents


def test_methods_that_read_a_kind_of_data_the_likeliest_kind_first():
    first, *rest = catalog.reading(("tasks", "table"))
    assert "tasks" in first.card.accepts
    best = ["table" if "tasks" not in m.card.accepts else "tasks" for m in (first, *rest)]
    assert best == sorted(best, key=["tasks", "table"].index)
    assert {m.slug for m in (first, *rest)} == {
        m.slug for m in catalog.methods().values() if {"tasks", "table"} & set(m.card.accepts)
    }
    assert catalog.reading(()) == []
