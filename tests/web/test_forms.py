"""What a person chose, and how a comparison's options are asked for."""

from typing import Annotated, Literal

import pytest

from practicum import catalog
from practicum.errors import InputError
from practicum.study.compare import Option, options_of
from practicum.web import forms


class Fake:
    @classmethod
    def on(
        cls,
        source,
        *,
        target: Annotated[str | None, "column Y"] = None,
        given: Annotated[list[str] | None, "columns Z"] = None,
        rest: Annotated[tuple[str, ...], "the columns to use"] = ("a", "b"),
        kind: Annotated[Literal["even", "odd"], "shape"] = "odd",
        strict: Annotated[bool, "refuse"] = False,
        n: Annotated[int, "how many"] = 5,
        width: Annotated[float | None, "of the kernel"] = None,
        word: Annotated[str, "anything"] = "x",
    ):
        pass


def asked(columns=("a", "b"), given=()):
    found = forms.questions(options_of(Fake), list(columns), dict(given))
    return {question.name: question for question in found}


def test_each_kind_of_option_has_its_widget():
    widgets = {name: question.widget for name, question in asked().items()}
    assert widgets == {
        "target": "column",
        "given": "columns",
        "rest": "columns",
        "kind": "choice",
        "strict": "choice",
        "n": "number",
        "width": "number",
        "word": "text",
    }


def test_without_columns_their_names_are_typed():
    assert asked(columns=())["target"].widget == "text"


def test_defaults_and_choices_are_shown():
    questions = asked()
    assert questions["kind"].choices == ("even", "odd")
    assert questions["strict"].choices == ("true", "false")
    assert {q.name: q.default for q in questions.values()} == {
        "target": "",
        "given": "",
        "rest": "a,b",
        "kind": "odd",
        "strict": "false",
        "n": "5",
        "width": "",
        "word": "x",
    }


def test_what_was_chosen_before_is_chosen_again():
    assert asked(given={"given": "a,b"})["given"].values == ["a", "b"]


@pytest.mark.parametrize("slug", ["coin", "cmi-test"])
def test_a_real_signature_is_read(slug):
    study = catalog.get(slug).load_study()
    questions = forms.questions(options_of(study), ["a", "b"], {})
    assert {"column", "columns"} & {question.widget for question in questions}
    assert all(question.about for question in questions)


def test_only_what_differs_is_sent():
    known = options_of(Fake)
    fields = {
        "option.target": ["y"],
        "option.given": ["a", "b"],
        "option.kind": ["odd"],
        "option.n": [""],
        "option.strict": ["true"],
        "option.unknown": ["1"],
    }
    assert forms.chosen_options(fields, known) == {"target": "y", "given": "a,b", "strict": "true"}


def test_columns_whose_names_hold_commas_cannot_be_several():
    known = {"given": Option("given", list[str], None, "columns")}
    with pytest.raises(InputError, match="comma"):
        forms.chosen_options({"option.given": ["a,b", "c"]}, known)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("scale", "huge"),
        ("engine", "cloud"),
        ("jobs", "0"),
        ("jobs", "-1"),
        ("jobs", "two"),
        ("seeds", "1e9"),
        ("seeds", "1000000"),
        ("seeds", "٣a"),
    ],
)
def test_what_a_field_takes_is_said(name, value):
    with pytest.raises(InputError, match=name):
        forms.order_from("coin", "verify", {name: [value]})


def test_an_empty_form_is_the_smallest_run():
    order = forms.order_from("coin", "verify", {})
    assert (order.scale, order.jobs, order.seeds, order.engine) == ("smoke", 1, None, "local")
