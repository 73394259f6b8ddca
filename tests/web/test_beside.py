"""Two runs as a table: the numbers are those of a comparison."""

from types import SimpleNamespace

import pytest

from practicum.study.compare import comparison
from practicum.study.results import Results
from practicum.study.spec import Arm, Measure, Outcome, Scale, Trial
from practicum.web.beside import beside


def run_of(values):
    """As much of a run as the table asks for: one arm, one measure."""
    study = SimpleNamespace(
        arms={"ours": Arm("method", ".")}, measures={"m": Measure("found", "higher")}
    )
    outcomes = [
        Outcome(Trial("lab", "d", "ours", seed), {"m": value}) for seed, value in enumerate(values)
    ]
    return SimpleNamespace(study=study, results=Results(outcomes, Scale()))


@pytest.mark.parametrize("values", [[0.0] * 5, [1.0, 0.0, 1.0, 1.0, 0.0], [0.5, 0.25, 0.7, 0.4]])
def test_a_number_has_the_interval_of_the_comparison(values):
    run = run_of(values)
    (row,) = comparison(run.study, run.results)
    (pair,) = beside(run, run)
    assert str(row.interval) in pair.first
    assert pair.first == pair.second
    assert (pair.shared, pair.difference) == (len(values), "equal to the last bit")


def test_five_noes_are_no_certainty():
    (pair,) = beside(run_of([0.0] * 5), run_of([1.0] * 5))
    assert pair.first == "0 [0, 0.522] n=5"
    assert pair.second == "1 [0.478, 1] n=5"
    assert pair.difference == "1 [-0.167, 1] n=5"


def test_runs_of_different_seeds_share_some():
    (pair,) = beside(run_of([0.1, 0.2, 0.4]), run_of([0.3, 0.5]))
    assert pair.shared == 2
    assert pair.difference.startswith("0.25 [")
