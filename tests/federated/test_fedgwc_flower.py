"""On Flower: bit for bit FedAvg, the same arrays everywhere, and clients that fail."""

import contextlib
import doctest
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

from practicum.data.clients import client_data, digits, partition
from practicum.errors import InputError
from practicum.federated.fedgwc import (
    FedGWC,
    LocalSGD,
    LossClusterer,
    initial_arrays,
    softmax_client_app,
)
from practicum.federated.fedgwc.training import Cohort, run_cohorts

flwr = pytest.importorskip("flwr")

from flwr.serverapp.strategy import FedAvg  # noqa: E402

from practicum.federated._flower import (  # noqa: E402
    ArrayRecord,
    ClientApp,
    ConfigRecord,
    Context,
    InProcessGrid,
    Message,
    MetricRecord,
    RecordDict,
    answer_partition,
    ask_partitions,
    run_in_process,
)

K = 6


def federation():
    plan = partition(digits().labels, K, "conflict", n_per_client=80, seed=2)
    return client_data(digits(), plan, n_test=20)


DATA = federation()


def client_app(**options):
    return softmax_client_app(
        lambda client, n: federation().only(client), **{"batch_size": 16, **options}
    )


def arrays_of(result):
    return result.arrays.to_numpy_ndarrays()[0]


def test_anchor_7_with_one_cluster_it_is_fedavg_bit_for_bit():
    ours = run_in_process(FedGWC(fraction_train=1.0), client_app(), K, initial_arrays(DATA), 3)
    average = FedAvg(fraction_train=1.0, fraction_evaluate=0.0, min_available_nodes=K)
    # FedAvg draws an order of the nodes at random, and float sums depend on it
    import random

    draw, random.sample = random.sample, lambda nodes, n: list(nodes)[:n]
    try:
        theirs = run_in_process(
            average,
            client_app(),
            K,
            initial_arrays(DATA),
            3,
            train_config=ConfigRecord({"local-steps": 8}),
        )
    finally:
        random.sample = draw
    np.testing.assert_array_equal(arrays_of(ours), arrays_of(theirs))


def test_the_grid_gives_what_the_fast_engine_gives():
    result = run_in_process(
        FedGWC(fraction_train=0.5, seed=4), client_app(), K, initial_arrays(DATA), 5
    )
    sgd = LocalSGD(DATA, batch_size=16)
    whole = Cohort(np.arange(K), sgd.initial(), 5)
    run_cohorts(sgd, [whole], 3, seed=4)
    np.testing.assert_array_equal(arrays_of(result), whole.model)


ON_RAY = """
import sys
import warnings

import numpy as np

from practicum.data.clients import client_data, digits, partition
from practicum.federated._flower import run_in_process, simulate
from practicum.federated.fedgwc import FedGWC, initial_arrays, softmax_client_app

dies = sys.argv[1:] == ["dies"]
plan = partition(digits().labels, 6, "conflict", n_per_client=80, seed=2)
data = client_data(digits(), plan, n_test=20)


def held_by(client, n):
    if dies and client == 2:
        raise RuntimeError("out of memory")
    return data.only(client)


def run(where):
    strategy = FedGWC(fraction_train=0.5, seed=3)
    app = softmax_client_app(held_by, batch_size=16)
    result = where(strategy, app, 6, initial_arrays(data), 3)
    return result.arrays.to_numpy_ndarrays()[0], result.train_metrics_clientapp, strategy.history_


here, there = run(run_in_process), run(simulate)
np.testing.assert_array_equal(here[0], there[0])
assert here[1] == there[1]
assert here[2].equals(there[2])
assert np.abs(here[0]).max() > 0
assert set(here[2]["status"]) == ({"ok", "failed"} if dies else {"ok"})
"""


@pytest.mark.parametrize("case", ["", pytest.param("dies", marks=pytest.mark.slow)])
def test_anchor_8_ray_gives_the_same_arrays_as_this_process(tmp_path, case):
    """After 3 rounds; in a process of its own, for functions under the type checks of these tests
    cannot be sent to Ray's workers."""
    pytest.importorskip("ray")
    script = tmp_path / "on_ray.py"
    script.write_text(ON_RAY)
    command = [sys.executable, str(script), *([case] if case else [])]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    if "timed out during startup" in done.stderr:
        pytest.skip("Ray gives this machine 30 s to start it, which were not enough")
    assert done.returncode == 0, done.stderr[-3000:]


def test_a_running_federation_is_split_and_each_group_gets_its_model():
    strategy = FedGWC(fraction_train=0.5, local_steps=2, fraction_evaluate=1.0, seed=1)
    run_in_process(strategy, client_app(learning_rate=0.2), K, initial_arrays(DATA), 150)
    groups = {frozenset(members) for members in strategy.clusters_.values()}
    assert groups == {frozenset(np.flatnonzero(DATA.groups == g).tolist()) for g in (0, 1)}
    first, second = (int(np.flatnonzero(DATA.groups == g)[0]) for g in (0, 1))
    models = [strategy.model_for(k).to_numpy_ndarrays()[0] for k in (first, second)]
    assert not np.array_equal(*models)
    matrix = strategy.interaction_
    assert np.isnan(matrix[first, second])
    assert np.isfinite(matrix[first, first])
    history = strategy.history_
    assert set(history.columns) == {"round", "cluster", "client", "reward", "loss", "n", "status"}
    assert set(history["cluster"]) == {"0", "0-0", "0-1"}
    whole, *halves = strategy.plot_tree().data
    last = int(history.loc[history["cluster"] == "0", "round"].max())
    assert (whole.x[0], whole.x[1]) == (0, last)
    assert {(bar.x[0], bar.x[1]) for bar in halves} == {(last, 150)}
    # what it logged tells the same story offline
    assert LossClusterer(2).fit(strategy.loss_log_).labels_.shape == (K,)


def failing(app, when):
    """The app with a failure: 'dies', 'nan' or 'inf' for client 2 in some rounds."""
    honest = app._registered_funcs["train.default"]
    broken = answer_partition(ClientApp())

    @broken.train()
    def train(message: Message, context: Context) -> Message:
        reply = honest(message, context)
        if context.node_config["partition-id"] == 2 and message.content["config"][
            "server-round"
        ] in (2, 3):
            if when == "dies":
                raise RuntimeError("out of memory")
            metrics = next(iter(reply.content.metric_records.values()))
            if when == "loss":
                metrics["train-losses"] = [float("nan")] * 8
            if when == "arrays":
                bad = np.full(arrays_of_reply(reply).shape, np.inf, np.float32)
                reply.content["arrays"] = ArrayRecord([bad])
        return reply

    return broken


def arrays_of_reply(reply):
    return next(iter(reply.content.array_records.values())).to_numpy_ndarrays()[0]


@pytest.mark.parametrize(
    ("when", "status"), [("dies", "failed"), ("loss", "diverged"), ("arrays", "diverged")]
)
def test_a_client_that_dies_or_diverges_does_not_stop_the_run(when, status):
    """Client 2 fails in the second and third of four rounds."""
    strategy = FedGWC(fraction_train=1.0)
    app = failing(client_app(), when)
    with pytest.warns(UserWarning, match=rf"left out client 2 \({status}: "):
        result = run_in_process(strategy, app, K, initial_arrays(DATA), 4)
    assert np.isfinite(arrays_of(result)).all()
    history = strategy.history_
    bad = history[history["status"] != "ok"]
    assert bad[["round", "client"]].to_numpy().tolist() == [[2, 2], [3, 2]]
    assert set(bad["status"]) == {status}
    assert [result.train_metrics_clientapp[i]["left-out"] for i in range(1, 5)] == [0, 1, 1, 0]
    assert history[history["status"] == "ok"].groupby("round").size().tolist() == [6, 5, 5, 6]


MALFORMED = {
    "no losses": ({"num-examples": 5}, None, "has the metrics num-examples"),
    "no step": ({"num-examples": 5, "train-losses": []}, None, "train-losses is empty"),
    "no data": ({"num-examples": 0, "train-losses": [1.0] * 8}, None, "num-examples is 0"),
    "few steps": ({"num-examples": 5, "train-losses": [1.0] * 3}, None, "3 losses .* report 8"),
    "shape": ({"num-examples": 5, "train-losses": [1.0] * 8}, (2, 2), r"arrays of shapes \[\(2, 2"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_one_client_with_a_malformed_reply_is_left_out(case):
    """Client 0 answers first: what the others send must not be judged by it."""
    metrics, shape, message = MALFORMED[case]
    honest = client_app()._registered_funcs["train.default"]
    app = answer_partition(ClientApp())

    @app.train()
    def train(message: Message, context: Context) -> Message:
        reply = honest(message, context)
        if context.node_config["partition-id"] == 0:
            reply.content["metrics"] = MetricRecord(dict(metrics))
            if shape:
                reply.content["arrays"] = ArrayRecord([np.zeros(shape, np.float32)])
        return reply

    strategy = FedGWC(fraction_train=1.0)
    with pytest.warns(UserWarning, match=rf"left out client 0 \(failed: .*{message}"):
        result = run_in_process(strategy, app, K, initial_arrays(DATA), 2)
    assert np.isfinite(arrays_of(result)).all()
    assert strategy.history_.query("status == 'ok'")["client"].unique().tolist() == [1, 2, 3, 4, 5]


class Churn(InProcessGrid):
    """One node leaves after the first round and comes back by another id; one says nothing."""

    rounds = 0

    def send_and_receive(self, messages, *, timeout=None):
        messages = list(messages)
        self.rounds += any(m.metadata.message_type == "train" for m in messages)
        if self.rounds == 1 and self.node_ids[5] < 10**9:
            old = self.node_ids[5]
            self.node_ids[5] = old + 10**9
            self._contexts[old + 10**9] = self._contexts.pop(old)
            self.node_ids.append(77)
        known = [m for m in messages if m.metadata.dst_node_id in self._contexts]
        return super().send_and_receive(known, timeout=timeout)


def test_nodes_that_leave_come_back_or_stay_silent_do_not_stop_the_run():
    strategy = FedGWC(fraction_train=1.0)
    grid = Churn(client_app(), K)
    with pytest.warns(UserWarning, match=r"round 1: left out client 5 \(failed: no reply\)"):
        strategy.start(grid, initial_arrays(DATA), 3)
    status = strategy.history_.pivot(index="round", columns="client", values="status")
    assert status[5].tolist() == ["failed", "ok", "ok"]
    assert set(status.columns) == set(range(6))


def test_a_round_in_which_everybody_fails_keeps_the_model():
    app = answer_partition(ClientApp())

    @app.train()
    def train(message: Message, context: Context) -> Message:
        raise RuntimeError("no power")

    strategy = FedGWC(fraction_train=1.0)
    with pytest.warns(UserWarning, match="left out client 0"):
        result = run_in_process(strategy, app, K, initial_arrays(DATA), 2)
    assert (arrays_of(result) == 0).all()


def test_messages_do_not_share_dictionaries():
    """Flower's own strategies once sent one dictionary to all clients (flwr issue 2704)."""
    app = answer_partition(ClientApp())
    seen = []

    @app.train()
    def train(message: Message, context: Context) -> Message:
        config = message.content["config"]
        seen.append("mine" in config)
        config["mine"] = context.node_config["partition-id"]
        metrics = MetricRecord({"train-losses": [1.0], "num-examples": 1})
        content = RecordDict({"arrays": message.content["arrays"], "metrics": metrics})
        return Message(content, reply_to=message)

    strategy = FedGWC(fraction_train=1.0)
    run_in_process(strategy, app, K, initial_arrays(DATA), 2)
    assert not any(seen)


@pytest.mark.parametrize("aggregation", ["fairavg", "fedopt"])
def test_other_aggregations(aggregation):
    equal = run_in_process(FedGWC(1.0), client_app(), K, initial_arrays(DATA), 2)
    other = run_in_process(
        FedGWC(1.0, aggregation=aggregation), client_app(), K, initial_arrays(DATA), 2
    )
    # all clients are of one size, and a server step of length 1 is the average
    np.testing.assert_allclose(arrays_of(equal), arrays_of(other), atol=1e-6)
    slow = run_in_process(
        FedGWC(1.0, aggregation="fedopt", server_lr=0.5), client_app(), K, initial_arrays(DATA), 1
    )
    full = run_in_process(FedGWC(1.0), client_app(), K, initial_arrays(DATA), 1)
    np.testing.assert_allclose(arrays_of(slow), 0.5 * arrays_of(full), atol=1e-6)


def test_documented_examples_of_the_grid_run():
    from practicum.federated import _flower

    done = doctest.testmod(_flower)
    assert done.failed == 0 < done.attempted


def test_node_ids_are_not_partition_ids():
    grid = InProcessGrid(client_app(), 4)
    assert list(ask_partitions(grid, reversed(grid.node_ids)).values()) == [3, 2, 1, 0]
    assert set(grid.node_ids).isdisjoint(range(4))


# --- bad input -----------------------------------------------------------------------------------


def test_bad_input_an_app_that_does_not_know_its_partition_is_warned_about():
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        metrics = MetricRecord({"train-losses": [1.0], "num-examples": 1})
        content = RecordDict({"arrays": message.content["arrays"], "metrics": metrics})
        return Message(content, reply_to=message)

    with pytest.warns(UserWarning, match="wrap the app in answer_partition"):
        run_in_process(FedGWC(1.0), app, 4, initial_arrays(DATA), 1)


def test_bad_input_a_reply_without_losses_is_refused():
    app = answer_partition(ClientApp())

    @app.train()
    def train(message: Message, context: Context) -> Message:
        metrics = MetricRecord({"loss": 1.0, "num-examples": 1})
        content = RecordDict({"arrays": message.content["arrays"], "metrics": metrics})
        return Message(content, reply_to=message)

    with pytest.raises(InputError, match=r"loss, num-examples.*FedGWC needs train-losses"):
        run_in_process(FedGWC(1.0), app, 4, initial_arrays(DATA), 1)


def test_bad_input_arguments_are_refused_in_a_sentence():
    with pytest.raises(InputError, match="above 0"):
        FedGWC(fraction_train=0.0)
    with pytest.raises(InputError, match="without a step"):
        FedGWC(local_steps=0)
    with pytest.raises(InputError, match="fedavg, fairavg, fedopt"):
        FedGWC(aggregation="median")
    with pytest.raises(InputError, match="no estimator 'magic'"):
        FedGWC(estimator="magic")
    with pytest.raises(InputError, match="view is 'diagonal'"):
        FedGWC(view="diagonal")
    with pytest.raises(InputError, match="has not run yet"):
        FedGWC().plot_tree()
    strategy = FedGWC(1.0)
    with pytest.raises(InputError, match="has not run yet"):
        strategy.model_for(0)
    run_in_process(strategy, client_app(), K, initial_arrays(DATA), 1)
    with pytest.raises(InputError, match="use partition ids"):
        strategy.model_for(1_000_003)


def test_bad_input_two_clients_are_too_few():
    with pytest.raises(InputError, match="2 clients connected"):
        run_in_process(FedGWC(1.0, connect_timeout=0.1), client_app(), 2, initial_arrays(DATA), 1)


# --- a deployment --------------------------------------------------------------------------------

APP = {
    "pyproject.toml": """
        [project]
        name = "loopback"
        version = "1.0.0"
        description = "FedGWC on loopback"
        license = "Apache-2.0"
        dependencies = []
        [tool.flwr.app]
        publisher = "practicum"
        [tool.flwr.app.components]
        serverapp = "loopback.server:app"
        clientapp = "loopback.client:app"
        [tool.flwr.app.config]
        result = ""
    """,
    "loopback/__init__.py": "",
    "loopback/data.py": """
        from practicum.data.clients import client_data, digits, partition

        plan = partition(digits().labels, 3, "conflict", n_per_client=60)
        data = client_data(digits(), plan, 20)
    """,
    "loopback/client.py": """
        from loopback.data import data
        from practicum.federated.fedgwc import softmax_client_app

        app = softmax_client_app(lambda client, n: data.only(client), batch_size=16)
    """,
    "loopback/server.py": """
        import numpy as np
        from flwr.serverapp import ServerApp
        from loopback.data import data
        from practicum.federated.fedgwc import FedGWC, initial_arrays

        app = ServerApp()

        @app.main()
        def main(grid, context):
            strategy = FedGWC(fraction_train=1.0, n_clients=3)
            result = strategy.start(grid, initial_arrays(data), 3)
            np.save(context.run_config["result"], result.arrays.to_numpy_ndarrays()[0])
    """,
}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextlib.contextmanager
def started(program, *arguments, env, log):
    """A program of Flower's, stopped with everything it started."""
    command = [str(Path(sys.executable).parent / program), *map(str, arguments)]
    with log.open("w") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, env=env, start_new_session=True
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


def wait_for(port, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.2)
    raise TimeoutError(f"nothing listens on port {port}")


@pytest.mark.slow
def test_a_superlink_and_three_supernodes_on_loopback_give_the_same_arrays(tmp_path):
    for name, text in APP.items():
        path = tmp_path / "app" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    link, home = free_port(), tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "loopback"\n[superlink.loopback]\n'
        f'address = "127.0.0.1:{link}"\ninsecure = true\n'
    )
    scripts = str(Path(sys.executable).parent)
    env = {
        **os.environ,
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "OMP_NUM_THREADS": "1",
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
    }
    result = tmp_path / "result.npy"
    with contextlib.ExitStack() as stack:
        stack.enter_context(
            started(
                "flower-superlink",
                "--insecure",
                "--port",
                link,
                "--disable-runtime-dependency-installation",
                env=env,
                log=tmp_path / "link.log",
            )
        )
        wait_for(link)
        for i in range(3):
            stack.enter_context(
                started(
                    "flower-supernode",
                    "--insecure",
                    "--superlink",
                    f"127.0.0.1:{link}",
                    "--port",
                    free_port(),
                    "--node-config",
                    f"partition-id={i} num-partitions=3",
                    env=env,
                    log=tmp_path / f"node{i}.log",
                )
            )
        done = subprocess.run(
            [
                f"{scripts}/flwr",
                "run",
                str(tmp_path / "app"),
                "loopback",
                "--stream",
                "--run-config",
                f'result="{result}"',
            ],
            env=env,
            capture_output=True,
            text=True,
            timeout=300,
        )
    assert result.exists(), done.stdout + done.stderr
    data = client_data(digits(), partition(digits().labels, 3, "conflict", n_per_client=60), 20)
    app = softmax_client_app(lambda client, n: data.only(client), batch_size=16)
    here = run_in_process(FedGWC(fraction_train=1.0), app, 3, initial_arrays(data), 3)
    np.testing.assert_array_equal(np.load(result), arrays_of(here))
