"""Items: counts, rules by hand, a person's files, bad input."""

import json
import math
from datetime import date

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from practicum.errors import InputError
from practicum.language.abstract_reasoning import TASKS, make_items, read_items, task_names
from practicum.language.abstract_reasoning.items import PAIRED, SYMBOLIC, base_items, item_record
from practicum.language.abstract_reasoning.number_families import _days
from practicum.language.abstract_reasoning.rules import (
    GENERATORS,
    _official_wave,
    is_subsequence,
    to_base,
    wave,
)


def lines(task, n=40, shots=20, **options):
    """Every question of a set with its answer, as written."""
    return [line for item in make_items(task, n, shots, **options) for line in item.lines]


def test_82_sets_have_9095_items_with_gsm8k():
    counts = {c: sum(t.startswith(f"{c}/") for t in TASKS) for c in ("bc", "ec", "nbr", "sma")}
    assert counts == {"bc": 4, "ec": 16, "nbr": 12, "sma": 7}
    assert len(SYMBOLIC) == 42
    assert len(PAIRED) == 14
    assert len(TASKS) * 96 + 1319 == 9095


@pytest.mark.parametrize("task", TASKS)
def test_every_item_shows_distinct_examples_and_asks_something_else(task):
    for item in make_items(task, n=6, shots=12):
        questions = [question for question, _ in item.lines]
        assert len(item.examples) == 12
        assert len(set(questions)) == 13
        assert item.task == task
        assert item.answer
        assert all(question.split(" ")[-1] == item.query.split(" ")[-1] for question in questions)


def test_the_same_arguments_give_the_same_items_and_seeds_differ():
    assert make_items("ec/var_set", n=3, seed=1) == make_items("ec/var_set", n=3, seed=1)
    assert make_items("ec/var_set", n=3, seed=1) != make_items("ec/var_set", n=3, seed=2)


# --- rules, by hand ------------------------------------------------------------------------------


def rule_of(task, operator, question):
    """The answer that the generator's rule gives to a question, found among many lines."""
    return {q: a for q, a in lines(task, n=400) if operator in q}.get(question)


def test_bit_rules():
    work = {"binary_and": int.__and__, "binary_or": int.__or__, "binary_xor": int.__xor__}
    for question, answer in lines("ec/fixed_bit"):
        parts = question.split(" ")[:-1]
        if parts[0] == "binary_not":
            assert answer == "".join("10"[c == "1"] for c in parts[1])
        else:
            a, name, b = parts
            assert answer == format(work[name](int(a, 2), int(b, 2)), "08b")
    from practicum.language.abstract_reasoning.rules import BITWISE, _bits, _shift

    assert _bits(BITWISE["binary_and"](0b01000110, 0b00011111), 8) == "00000110"
    assert _bits(BITWISE["binary_not"](0b01110000, 0), 8) == "10001111"
    assert _shift("circular_left_shift", "10010110", 3) == "10110100"
    assert _shift("arithmetic_right_shift", "10010110", 3) == "11110010"
    assert _shift("logical_right_shift", "10010110", 3) == "00010010"


def test_bases():
    assert to_base(int("22211", 3) + int("11202010", 3), 3) == "12001221"
    assert to_base(1367, 3) == "1212122"
    for base in (3, 4, 5):
        for question, answer in lines(f"nbr/mul_base{base}"):
            a, _, b, _ = question.split(" ")
            assert int(answer, base) == int(a, base) * int(b, base)
        for question, answer in lines(f"nbr/sub_base{base}"):
            a, _, b, _ = question.split(" ")
            assert int(answer, base) == int(a, base) - int(b, base)


@given(st.integers(-(10**9), 10**9), st.integers(2, 10))
def test_to_base_is_undone_by_int(number, base):
    assert int(to_base(number, base), base) == number


def test_dates_and_subsequences():
    assert _days("[2024, 6, 5]", "[2019, 4, 8]") == "1885"
    assert is_subsequence("axbxc", "abc")
    assert not is_subsequence("axbxc", "acb")
    for question, answer in lines("ec/days", n=3):
        a, b = (json.loads(part) for part in question[:-2].split(" days_between_dates "))
        assert int(answer) == abs((date(*a) - date(*b)).days)


def test_lists_and_sets():
    for question, answer in lines("ec/var_list") + lines("ec/var_list_cnt"):
        if question.startswith("["):
            values, limit = question[:-2].split(" filter ")
            assert json.loads(answer) == [v for v in json.loads(values) if v > int(limit)]
            continue
        rule, _, rest = question[:-2].partition(" ")
        values, got = json.loads(rest), json.loads(answer)
        wanted = {
            "sort": sorted(values),
            "deduplicate": sorted(set(values)),
            "min": min(values),
            "max": max(values),
            "median": sorted(values)[4],
        }
        if rule == "majority":
            most = max(map(values.count, values))
            assert got == [v for v in dict.fromkeys(values) if values.count(v) == most]
        else:
            assert got == wanted[rule]
    for question, answer in lines("ec/var_set"):
        a, rule, b = next(
            (p[0], r, p[1])
            for r in ("intersection", "union", "difference")
            if len(p := question[:-2].split(f" {r} ")) == 2
        )
        a, b, got = (set(json.loads(t.replace("{", "[").replace("}", "]"))) for t in (a, b, answer))
        assert got == getattr(a, rule)(b)


def test_functions_have_one_set_of_parameters_within_an_item():
    for item in make_items("sma/linear", n=20):
        x, y = (
            np.array(v, dtype=float)
            for v in zip(*[(q.split()[1], a) for q, a in item.lines], strict=True)
        )
        slope, intercept = np.polyfit(x, y, 1)
        assert np.allclose(slope * x + intercept, y)
        assert 1 <= round(slope) <= 9
        assert 1 <= round(intercept) <= 9


def test_officially_every_line_has_its_own_parameters():
    """Found in the released items too: no line of 96 x 7 sets goes through all examples."""
    fits = 0
    for item in make_items("sma/linear", n=20, compat="official"):
        points = [(int(q.split()[1]), int(a)) for q, a in item.lines]
        fits += any(all(a * x + b == y for x, y in points) for a in range(10) for b in range(10))
    assert fits == 0


@pytest.mark.parametrize("kind", ["square_wave", "triangle_wave", "sawtooth_wave"])
def test_waves_agree_with_floating_point_away_from_their_jumps(kind):
    for x in range(1, 100):
        for tenths in range(1, 10):
            exact, rounded = wave(kind, x, tenths), _official_wave(kind, x, tenths)
            at_jump = x * tenths % 10 in (0, 5)
            assert abs(exact - rounded) < 1e-9 or at_jump, (x, tenths)
    assert wave("square_wave", 10, 1) == 1.0  # sin(2 pi) rounds below zero


def test_variable_operands_are_shorter():
    lengths = {len(q.split(" ")[0]) for q, _ in lines("ec/var_str", n=60)}
    assert len(lengths) > 10
    assert max(lengths) <= 40


def test_official_items_may_show_fewer_examples():
    counts = {len(i.examples) for i in make_items("ec/var_bit", n=60, compat="official")}
    assert min(counts) < 10
    assert max(counts) == 50
    assert {len(i.examples) for i in make_items("ec/var_bit", n=60)} == {50}


def test_bases_of_ones_own_differ_in_nothing_but_the_base():
    ten, three = (base_items("add", b, n=5, shots=4, seed=3, digits=3) for b in (10, 3))
    for item in ten:
        a, _, b, _ = item.query.split(" ")
        assert int(item.answer) == int(a) + int(b)
        assert "hint" not in item.meta
    assert all("base 3" in item.meta["hint"] for item in three)


# --- a person's own ------------------------------------------------------------------------------


def written(tmp_path, *records):
    path = tmp_path / "mine.jsonl"
    path.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in records))
    return path


def test_items_survive_being_written_and_read(tmp_path):
    made = make_items("ec/fixed_bit", n=5, shots=6)
    read, notes = read_items(written(tmp_path, *map(item_record, made)))
    assert [(i.examples, i.query, i.answer, i.operator, i.rule) for i in read] == [
        (i.examples, i.query, i.answer, i.operator, i.rule) for i in made
    ]
    assert notes.sentences() == []


def test_gsm8k_is_read_as_it_is(tmp_path):
    record = {"question": "How many?", "answer": "16 - 3 = <<16-3=13>>13\n#### 1,300"}
    item = read_items(written(tmp_path, record))[0][0]
    assert item.answer == "1300"
    assert item.meta["answer"] == "number"


def test_a_query_among_the_examples_is_dropped_and_counted(tmp_path):
    good = {"examples": [["1 @ 1 =", "2"]], "query": "1 @ 2 =", "answer": "3"}
    leak = {"examples": [["1 @ 1 =", "2"], ["1 @ 1 =", "2"]], "query": "1 @ 1 =", "answer": "2"}
    items, notes = read_items(written(tmp_path, good, leak))
    assert len(items) == 1
    assert notes.leaks == 1
    assert notes.duplicates == 1


BAD = {
    "not JSON": ["{"],
    "expected a JSON object": ["[1]"],
    "no query": [{"answer": "1"}],
    "no answer": [{"query": "1"}],
    "contradict each other: 'a' is answered '1' and '2'": [
        {"query": "q", "answer": "1", "examples": [["a", "1"], ["a", "2"]]}
    ],
    "examples must be a list": [{"query": "q", "answer": "1", "examples": "x"}],
    "not [question, answer]": [{"query": "q", "answer": "1", "examples": [["a"]]}],
    "operator_symbols must be": [{"query": "q", "answer": "1", "operator_symbols": [1]}],
    "no item is left": [{"query": "q", "answer": "1", "examples": [["q", "1"]]}],
}


@pytest.mark.parametrize("words", BAD)
def test_bad_input_names_the_line(words, tmp_path):
    with pytest.raises(InputError) as caught:
        read_items(written(tmp_path, *BAD[words]))
    assert words in str(caught.value)
    assert "mine.jsonl" in str(caught.value)


def test_bad_input_of_generated_sets():
    with pytest.raises(InputError, match=r"did you mean ec/var_set or sr/var_set/full"):
        make_items("var_set")
    with pytest.raises(InputError, match="shots=0"):
        make_items("bc/add", shots=0)
    with pytest.raises(InputError, match="items=0"):
        make_items("bc/add", n=0)
    with pytest.raises(InputError, match="GSM8K, which is not bundled"):
        task_names("ma")
    with pytest.raises(InputError, match="categories: bc"):
        task_names("zzzzzz")
    with pytest.raises(InputError, match="too few operands"):
        base_items("add", 3, 1, 40, 0, digits=1)


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(sorted(GENERATORS)), st.integers(1, 50), st.integers(0, 10**6))
def test_any_set_size_and_seed_can_be_generated(task, shots, seed):
    item = make_items(task, n=1, shots=shots, seed=seed)[0]
    assert len(item.examples) == shots
    assert math.isfinite(float(item.answer)) if item.meta.get("answer") == "number" else True
