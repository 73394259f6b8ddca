"""Our TD3+BC beside d3rlpy's, on the same logs and the same batches (slow: minutes)."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from practicum.models.stacked import single_thread

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))


@pytest.mark.slow
@pytest.mark.skipif(find_spec("d3rlpy") is None, reason="d3rlpy is not installed")
def test_td3bc_returns_what_d3rlpys_does():
    """The interval of the difference over five seeds holds zero, on two logs."""
    import bench_ssar

    with single_thread():
        assert bench_ssar.agreement(steps=2000, seeds=5)
