"""A certificate from a Flower run: the strategy collects one number a client and certifies them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Real

from practicum.errors import InputError
from practicum.federated.dkw_certificate.certificate import Certificate
from practicum.federated.dkw_certificate.certification import certify
from practicum.federated.dkw_certificate.robust_curves import RobustCurves

from practicum.federated._flower import Message, MetricRecord, RecordDict  # isort: skip
from flwr.serverapp.strategy import FedAvg  # isort: skip

if TYPE_CHECKING:
    import pandas as pd

RECORD = "metrics"


class CertifyStrategy(FedAvg):
    """Federated averaging that ends with a certificate of the model it has trained.

    Every evaluation round, each client's reply holds its risk and its number of examples; nothing
    else is asked for. :attr:`certificate` is about the model of the last round that was evaluated.
    Rounds are not compared: choosing the best of several certificates would spend delta on each.

    Combine it with another strategy by inheriting from both:
    ``class Certified(CertifyStrategy, FedProx): ...``.

    Parameters
    ----------
    eps : float
        Radius, as in :func:`certify`.
    risk_key : str
        Where the replies' MetricRecord holds the risk, in [0, 1]. ``"accuracy"`` is understood as
        one minus the risk.
    curve_key : str, optional
        Where it holds the robust curve, for ``divergence="wasserstein"`` without ``lipschitz``.
    rhos : sequence of float, optional
        The grid of the curves, from 0.
    certify_options : dict, optional
        Further arguments of :func:`certify` (``divergence``, ``delta``, ``losses``, ...).
    **fedavg : Any
        Arguments of ``flwr.serverapp.strategy.FedAvg``. Set ``min_evaluate_nodes`` to the number
        of clients you expect: by default Flower goes on as soon as two have connected.

    Attributes
    ----------
    reports : dict of int to pandas.DataFrame
        Round -> one row a client: node, risk, n.

    Examples
    --------
    A fixed model, evaluated once by fifty clients in this process:

    >>> from practicum.federated._flower import ArrayRecord, ClientApp, run_in_process
    >>> app = ClientApp()
    >>> @app.evaluate()
    ... def evaluate(message, context):
    ...     k = context.node_config["partition-id"]
    ...     return evaluation_reply(message, risk=(k % 10) / 50, n=200)
    >>> strategy = CertifyStrategy(eps=0.2, fraction_train=0.0)
    >>> _ = run_in_process(strategy, app, 50, ArrayRecord(), num_rounds=1, timeout=60.0)
    >>> round(strategy.certificate.at(0.3), 3)
    0.236
    """

    def __init__(
        self,
        *,
        eps: float,
        risk_key: str = "error",
        curve_key: str | None = None,
        rhos: Sequence[float | int] | None = None,
        certify_options: dict[str, Any] | None = None,
        **fedavg: Any,
    ) -> None:
        super().__init__(**fedavg)
        if (curve_key is None) != (rhos is None):
            raise InputError("curve_key and rhos belong together: name both or neither")
        self.eps, self.risk_key = eps, risk_key
        self.curve_key, self.rhos = curve_key, rhos
        self.certify_options = dict(certify_options or {})
        self.reports: dict[int, pd.DataFrame] = {}
        self.curves: dict[int, list[list[float]]] = {}

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Keep every client's risk, then average the metrics as FedAvg does."""
        replies = list(replies)
        self._collect(server_round, [m for m in replies if not m.has_error()])
        return super().aggregate_evaluate(server_round, replies)

    def _collect(self, server_round: int, replies: list[Message]) -> None:
        import pandas as pd

        rows, curves, silent = [], [], []
        for reply in replies:
            node, record = reply.metadata.src_node_id, self._metrics(reply)
            risk = float(record[self.risk_key])  # type: ignore[arg-type]
            risk = 1 - risk if self.risk_key == "accuracy" else risk
            if not math.isfinite(risk):
                silent.append(node)
                continue
            rows.append({"node": node, "risk": risk, "n": int(record[self.weighted_by_key])})  # type: ignore[arg-type]
            if self.curve_key is not None:
                curves.append(list(record[self.curve_key]))  # type: ignore[arg-type]
        if silent:
            warnings.warn(
                f"round {server_round}: no finite risk from {len(silent)} clients "
                f"({', '.join(map(str, silent[:5]))}); they are left out, which is valid only if "
                "failing has nothing to do with the risk",
                UserWarning,
                stacklevel=3,
            )
        if rows:
            self.reports[server_round] = pd.DataFrame(rows)
            self.curves[server_round] = curves

    def _metrics(self, reply: Message) -> MetricRecord:
        wanted = [self.risk_key, self.weighted_by_key]
        wanted += [self.curve_key] if self.curve_key is not None else []
        for record in reply.content.metric_records.values():
            if all(key in record for key in wanted):
                return record
        there = sorted({k for r in reply.content.metric_records.values() for k in r})
        raise InputError(
            f"node {reply.metadata.src_node_id} answered {', '.join(there) or 'nothing'}; "
            f"{', '.join(wanted)} expected",
            "build it with evaluation_reply(message, risk, n), or name risk_key=",
        )

    @property
    def certificate(self) -> Certificate:
        """The certificate of the model that was evaluated last.

        Raises
        ------
        InputError
            No round has been evaluated yet, or as in :func:`certify`.
        """
        if not self.reports:
            raise InputError("no client has been evaluated yet", "run the strategy first")
        last = max(self.reports)
        report, options = self.reports[last], dict(self.certify_options)
        sizes: np.ndarray | None = report["n"].to_numpy()
        if self.curve_key is not None:
            options.setdefault("divergence", "wasserstein")
            options["curves"] = RobustCurves.of(
                list(self.rhos or ()), self.curves[last], report["node"].astype(str).tolist()
            )
        if options.get("unbounded"):
            sizes = None
        options.setdefault("clients", [f"node {node}" for node in report["node"]])
        return certify(report["risk"].to_numpy(), sizes, eps=self.eps, **options)


def evaluation_reply(
    message: Message,
    risk: float,
    n: int,
    *,
    curve: Real[np.ndarray, " R"] | Sequence[float | int] | None = None,
    risk_key: str = "error",
) -> Message:
    """What a client answers: its risk, its number of examples, its robust curve if asked for.

    Parameters
    ----------
    message : flwr.app.Message
        The request, as ``@app.evaluate()`` receives it.
    risk : float
    n : int
        Examples behind the risk.
    curve : array, shape (R,), optional
        From :func:`local_robust_curve`, sent under the key ``"curve"``.
    risk_key : str

    Raises
    ------
    InputError
        The risk is negative or not a number, or n below 1.

    Examples
    --------
    >>> from practicum.federated._flower import ClientApp, InProcessGrid
    >>> grid = InProcessGrid(ClientApp(), 1)
    >>> request = grid.create_message(RecordDict(), "evaluate", grid.node_ids[0], "1")
    >>> dict(evaluation_reply(request, 0.1, 200).content["metrics"])
    {'error': 0.1, 'num-examples': 200}
    """
    if not risk >= 0 or n < 1:
        raise InputError(f"risk is {risk} on {n} examples; a risk of at least 0 on at least one")
    metrics: dict[str, Any] = {risk_key: float(risk), "num-examples": int(n)}
    if curve is not None:
        metrics["curve"] = [float(v) for v in np.asarray(curve)]
    return Message(RecordDict({RECORD: MetricRecord(metrics)}), reply_to=message)
