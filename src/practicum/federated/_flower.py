"""What the federated methods share of Flower: a grid without processes, and two ways to run.

Any ``flwr.serverapp.strategy.Strategy`` with any ``flwr.clientapp.ClientApp`` runs

* in this process (:func:`run_in_process`): deterministic, no start-up, milliseconds a round;
* under Flower's simulation on Ray (:func:`simulate`): many processes on this machine;
* on a deployment (SuperLink and SuperNodes): call ``strategy.start(grid, ...)`` in a ServerApp.

Flower takes seconds to import, so nothing light may import this module at its top.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import Any

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")  # read when flwr is imported

from practicum.errors import InputError, MissingExtra

try:
    from flwr.app import (
        ArrayRecord,
        ConfigRecord,
        Context,
        Error,
        Message,
        MetricRecord,
        RecordDict,
    )
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp
    from flwr.serverapp.strategy import Result, Strategy
except ImportError as missing:
    raise MissingExtra(
        f"the Flower strategies need the package {missing.name!r}, which is not installed",
        "install it with: pip install 'practicum[federated]'",
    ) from missing

__all__ = [
    "ArrayRecord",
    "ClientApp",
    "ConfigRecord",
    "Context",
    "Error",
    "Grid",
    "InProcessGrid",
    "Message",
    "MetricRecord",
    "RecordDict",
    "Result",
    "ServerApp",
    "Strategy",
    "answer_partition",
    "ask_partitions",
    "quiet",
    "run_in_process",
    "simulate",
]

PARTITION = "partition-id"
CLIENT_APP_RAISED = 2  # flwr.common.constant.ErrorCode.CLIENT_APP_RAISED_EXCEPTION


def _ensure_identity() -> None:
    """Messages cannot be created outside a Flower process without an identity; give ours one.

    The class is internal to Flower: versions without it do not need it.
    """
    try:
        from flwr.supercore.task_identity import TaskIdentity
    except ImportError:
        return
    try:
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id  # noqa: B018
    except RuntimeError:
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1


def copy_records(records: RecordDict) -> RecordDict:
    """New dictionaries around the same values: what one receiver changes, no other sees."""
    return RecordDict({name: type(record)(dict(record)) for name, record in records.items()})


class InProcessGrid(Grid):
    """A Flower grid whose nodes are calls in this process.

    Every node has its own context (with state that lasts) and its own copy of a message's records.
    A client app that raises gives an error reply, as on a real grid.

    Parameters
    ----------
    client_app : ClientApp
    n_clients : int
        Nodes; node i gets ``partition-id`` i in its node configuration.
    run_config : mapping, optional
        Given to every node's context.

    Attributes
    ----------
    node_ids : list of int
        Node i's id, in the order of partition ids.

    Examples
    --------
    >>> app = ClientApp()
    >>> @app.query()
    ... def who(message, context):
    ...     answer = ConfigRecord({"id": context.node_config["partition-id"]})
    ...     return Message(RecordDict({"who": answer}), reply_to=message)
    >>> grid = InProcessGrid(app, 3)
    >>> ask = [Message(RecordDict(), node, "query") for node in grid.node_ids]
    >>> [reply.content["who"]["id"] for reply in grid.send_and_receive(ask)]
    [0, 1, 2]
    """

    def __init__(
        self,
        client_app: ClientApp,
        n_clients: int,
        run_config: Mapping[str, Any] | None = None,
    ) -> None:
        if n_clients < 1:
            raise InputError(f"n_clients is {n_clients}; a grid has at least one node")
        _ensure_identity()
        self.client_app = client_app
        # far apart and not 0, 1, 2: whoever takes a node id for a partition id notices at once
        self.node_ids = [1_000_003 * (i + 1) for i in range(n_clients)]
        self._contexts = {
            node_id: Context(
                run_id=1,
                node_id=node_id,
                node_config={PARTITION: i, "num-partitions": n_clients},
                state=RecordDict(),
                run_config=dict(run_config or {}),
            )
            for i, node_id in enumerate(self.node_ids)
        }
        self._numbers = count(1)
        self._replies: dict[str, Message] = {}
        self._run: Any = None

    def set_run(self, run: Any) -> None:
        """Part of Flower's interface; the run is not used here."""
        self._run = run

    @property
    def run(self) -> Any:
        """What :meth:`set_run` was given."""
        return self._run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | int | None = None,
    ) -> Message:
        """A message to one node."""
        return Message(content, dst_node_id, message_type, group_id=group_id, ttl=ttl)

    def get_node_ids(self) -> list[int]:
        """All nodes; none ever leaves."""
        return list(self.node_ids)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        """Answer the messages now; fetch the replies with :meth:`pull_messages`."""
        numbers = []
        for message in messages:
            number = str(next(self._numbers))
            self._replies[number] = self._answer(message)
            self._replies[number].metadata.__dict__["_reply_to_message_id"] = number
            numbers.append(number)
        return numbers

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """The replies to pushed messages, each once."""
        return [self._replies.pop(i) for i in message_ids if i in self._replies]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | int | None = None
    ) -> list[Message]:
        """The replies in the order of the messages."""
        return [self._answer(message) for message in messages]

    def _answer(self, message: Message) -> Message:
        node_id = message.metadata.dst_node_id
        sent = copy_records(message.content)
        received = Message(sent, node_id, message.metadata.message_type)
        try:
            return self.client_app(received, self._contexts[node_id])
        except Exception as error:  # a node's failure must not end the server
            reason = f"{type(error).__name__}: {error}"
            return Message(Error(CLIENT_APP_RAISED, reason), reply_to=received)


# --- which node is which client ------------------------------------------------------------------


def answer_partition(app: ClientApp) -> ClientApp:
    """Let a client app tell the server its ``partition-id`` (``query.partition``).

    Node ids are random and change between runs, partition ids do not: whatever a server remembers
    about clients must be keyed by the latter. On a deployment the id comes from the SuperNode's
    ``--node-config "partition-id=3"``.

    Examples
    --------
    >>> app = answer_partition(ClientApp())
    >>> grid = InProcessGrid(app, 2)
    >>> list(ask_partitions(grid, grid.node_ids).values())
    [0, 1]
    """

    @app.query("partition")
    def partition(message: Message, context: Context) -> Message:
        answer = ConfigRecord({PARTITION: int(context.node_config[PARTITION])})
        return Message(RecordDict({"partition": answer}), reply_to=message)

    return app


def ask_partitions(
    grid: Grid,
    node_ids: Iterable[int],
    timeout: float | int | None = 600,
    *,
    strict: bool = True,
) -> dict[int, int]:
    """Partition id of every node that knows its own; the others are left out.

    Parameters
    ----------
    grid : Grid
    node_ids : iterable of int
    timeout : float, optional
        Seconds to wait for the answers.
    strict : bool
        False: nodes that say nothing within the timeout are left out too.

    Returns
    -------
    dict of node id to partition id

    Raises
    ------
    InputError
        Some nodes have not answered at all within the timeout.
    """
    ask = [
        Message(RecordDict(), node_id, "query.partition", group_id="partition")
        for node_id in node_ids
    ]
    replies = list(grid.send_and_receive(ask, timeout=timeout))
    if strict and len(replies) < len(ask):
        raise InputError(
            f"{len(ask) - len(replies)} of {len(ask)} clients have not told their partition id "
            f"within {timeout:g} s",
            "are their SuperNodes running? raise the timeout if they are slow to start",
        )
    return {
        reply.metadata.src_node_id: int(reply.content["partition"][PARTITION])
        for reply in replies
        if reply.has_content()
    }


class PromptGrid(Grid):
    """A running Flower grid, asked for replies every 20 ms and given up when told so.

    Flower's own grid looks every few seconds, and goes on waiting after the simulation behind it
    has died: the process then never ends.

    Parameters
    ----------
    grid : Grid
    stopped : threading.Event
        Set when no reply will come any more.

    Examples
    --------
    >>> from threading import Event
    >>> inner = InProcessGrid(answer_partition(ClientApp()), 2)
    >>> sorted(ask_partitions(PromptGrid(inner, Event()), inner.node_ids).values())
    [0, 1]
    """

    def __init__(self, grid: Grid, stopped: threading.Event) -> None:
        self._grid, self._stopped = grid, stopped

    def set_run(self, run: Any) -> None:
        """Passed on."""
        self._grid.set_run(run)

    @property
    def run(self) -> Any:
        """Passed on."""
        return self._grid.run

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        """Passed on."""
        return self._grid.create_message(*args, **kwargs)

    def get_node_ids(self) -> Iterable[int]:
        """Passed on."""
        return self._grid.get_node_ids()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Passed on."""
        return self._grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Passed on."""
        return self._grid.pull_messages(message_ids)

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | int | None = None
    ) -> list[Message]:
        """The replies that come within the timeout.

        Raises
        ------
        RuntimeError
            The simulation behind the grid has stopped.
        """
        waiting = set(self.push_messages(messages))
        end = math.inf if timeout is None else time.monotonic() + timeout
        replies: list[Message] = []
        while waiting:
            new = list(self.pull_messages(waiting))
            replies += new
            waiting -= {m.metadata.reply_to_message_id for m in new}
            if not waiting or time.monotonic() > end:
                break
            if self._stopped.wait(0.02):
                raise RuntimeError("the simulation has stopped; see its log")
        return replies


# --- running -------------------------------------------------------------------------------------


@contextlib.contextmanager
def quiet(level: int = logging.WARNING) -> Iterator[None]:
    """Flower logs every round; show warnings and errors only (or what ``level`` says)."""
    logger = logging.getLogger("flwr")
    before = logger.level
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.setLevel(before)


def run_in_process(
    strategy: Strategy,
    client_app: ClientApp,
    n_clients: int,
    initial_arrays: ArrayRecord,
    num_rounds: int,
    *,
    run_config: Mapping[str, Any] | None = None,
    **start: Any,
) -> Result:
    """Run a strategy with its clients in this process.

    Parameters
    ----------
    strategy, client_app, n_clients
        As for Flower's simulation.
    initial_arrays : ArrayRecord
    num_rounds : int
    run_config : mapping, optional
        What ``context.run_config`` holds at the clients.
    **start
        Passed on to ``strategy.start``.

    Returns
    -------
    flwr.serverapp.strategy.Result
    """
    grid = InProcessGrid(client_app, n_clients, run_config)
    with quiet():
        return strategy.start(grid, initial_arrays, num_rounds, **start)


def simulate(
    strategy: Strategy,
    client_app: ClientApp,
    n_clients: int,
    initial_arrays: ArrayRecord,
    num_rounds: int,
    *,
    cpus: int = 2,
    **start: Any,
) -> Result:
    """The same under Flower's simulation engine: clients in Ray workers of one CPU each.

    Parameters
    ----------
    cpus : int
        Ray workers. Flower asks Ray for as many actors as fit.
    **start
        Passed on to ``strategy.start``.

    Raises
    ------
    MissingExtra
        Ray is not installed.
    """
    import warnings
    from importlib.util import find_spec

    if find_spec("ray") is None:
        raise MissingExtra(
            "Flower's simulation needs Ray, which is not installed",
            "install it with: pip install 'practicum[federated,ray]'",
        )
    from flwr.simulation import run_simulation

    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    server, stopped = ServerApp(), threading.Event()
    results: list[Result] = []

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        own = PromptGrid(grid, stopped)
        results.append(strategy.start(own, initial_arrays, num_rounds, **start))

    def other_news(record: logging.LogRecord) -> bool:
        """`flwr run` is meant for projects on disk; this function is the way from Python."""
        return "run_simulation" not in record.getMessage()

    backend = {
        "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        "init_args": {"num_cpus": cpus, "include_dashboard": False, "log_to_driver": False},
    }
    logger = logging.getLogger("flwr")
    logger.addFilter(other_news)
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            run_simulation(server, client_app, n_clients, backend_config=backend)
        finally:
            stopped.set()
            logger.removeFilter(other_news)
    if not results:
        raise RuntimeError("Flower's simulation ended without a result; see its log")
    return results[0]
