"""The Flower strategy: what clients send, what the server makes of it."""

import numpy as np
import pytest

pytest.importorskip("flwr")

from practicum.errors import InputError
from practicum.federated._flower import (
    ArrayRecord,
    ClientApp,
    InProcessGrid,
    Message,
    MetricRecord,
    RecordDict,
    run_in_process,
    simulate,
)
from practicum.federated.dkw_certificate import (
    CertifyStrategy,
    RobustCurves,
    certify,
    evaluation_reply,
)

K = 40
RHOS = (0.0, 0.1, 0.2)


def errors():
    rng = np.random.default_rng(0)
    return rng.binomial(200, rng.beta(2, 6, K)) / 200


def client_app(reply=None):
    """Client k reports the k-th error; ``reply`` replaces the answer."""
    app, own = ClientApp(), errors()  # a worker of Ray cannot import this file

    @app.train()
    def train(message, context):
        return Message(
            RecordDict({"arrays": ArrayRecord(), "metrics": MetricRecord({"num-examples": 200})}),
            reply_to=message,
        )

    @app.evaluate()
    def evaluate(message, context):
        k = int(context.node_config["partition-id"])
        return reply(message, k) if reply else evaluation_reply(message, own[k], 200)

    return app


def run(strategy, reply=None):
    run_in_process(strategy, client_app(reply), K, ArrayRecord(), num_rounds=1, timeout=60.0)
    return strategy


def strategy(**options):
    return CertifyStrategy(eps=0.2, fraction_train=0.0, **options)


def test_the_strategy_certifies_what_the_clients_reported():
    done = run(strategy(certify_options={"losses": "01", "divergence": "kl"}))
    expected = certify(errors(), 200, eps=0.2, divergence="kl", losses="01")
    np.testing.assert_array_equal(done.certificate.upper, expected.upper)
    assert done.certificate.mean_upper == pytest.approx(expected.mean_upper)
    report = done.reports[1]
    assert sorted(report["risk"]) == sorted(errors())
    assert report["node"].nunique() == K


def test_a_reply_holds_two_numbers_and_no_arrays():
    seen = []

    def reply(message, k):
        seen.append(evaluation_reply(message, errors()[k], 200))
        return seen[-1]

    run(strategy(), reply)
    assert len(seen) == K
    for message in seen:
        assert [dict(r) for r in message.content.metric_records.values()] == [
            {"error": pytest.approx(message.content["metrics"]["error"]), "num-examples": 200}
        ]
        assert not message.content.array_records
        assert not message.content.config_records


def test_accuracies_are_turned_into_errors():
    done = run(
        strategy(risk_key="accuracy"),
        lambda m, k: evaluation_reply(m, 1 - errors()[k], 200, risk_key="accuracy"),
    )
    np.testing.assert_allclose(
        done.certificate.upper, certify(errors(), 200, eps=0.2).upper, atol=1e-9
    )


def test_training_rounds_go_on_as_in_fedavg():
    done = CertifyStrategy(eps=0.2)
    result = run_in_process(done, client_app(), K, ArrayRecord(), num_rounds=2, timeout=60.0)
    assert sorted(done.reports) == [1, 2]
    assert result.evaluate_metrics_clientapp[2]["error"] == pytest.approx(errors().mean())


def test_curves_give_an_estimate():
    curves = np.minimum(1, errors()[:, None] + np.array(RHOS))
    done = run(
        strategy(curve_key="curve", rhos=RHOS),
        lambda m, k: evaluation_reply(m, errors()[k], 200, curve=curves[k]),
    )
    assert not done.certificate.certified
    expected = certify(
        errors(), eps=0.2, divergence="wasserstein", curves=RobustCurves.of(RHOS, curves)
    )
    np.testing.assert_allclose(done.certificate.upper, expected.upper, atol=1e-9)


def test_a_client_that_dies_or_diverges_is_left_out_with_a_warning():
    def reply(message, k):
        if k == 0:
            raise RuntimeError("out of memory")
        record = MetricRecord({"error": float("nan") if k == 1 else errors()[k], "num-examples": 9})
        return Message(RecordDict({"metrics": record}), reply_to=message)

    with pytest.warns(UserWarning, match="no finite risk from 1 clients"):
        done = run(strategy(), reply)
    assert len(done.reports[1]) == K - 2


def test_bad_input_of_the_strategy_is_refused():
    with pytest.raises(InputError, match="no client has been evaluated yet"):
        _ = strategy().certificate
    with pytest.raises(InputError, match="belong together"):
        strategy(curve_key="curve")
    with pytest.raises(InputError, match="answered num-examples, wer; error, num-examples"):
        run(strategy(), lambda m, k: evaluation_reply(m, 0.1, 5, risk_key="wer"))
    grid = InProcessGrid(ClientApp(), 1)
    request = grid.create_message(RecordDict(), "evaluate", grid.node_ids[0], "1")
    for risk, n in ((-0.1, 5), (float("nan"), 5), (0.1, 0)):
        with pytest.raises(InputError, match="risk is"):
            evaluation_reply(request, risk, n)
    percent = run(strategy(), lambda m, k: evaluation_reply(m, 20.0, 5))
    with pytest.raises(InputError, match="risks reach 20"):
        _ = percent.certificate


def test_it_combines_with_another_strategy():
    from flwr.serverapp.strategy import FedProx

    class Certified(CertifyStrategy, FedProx):
        pass

    done = run(Certified(eps=0.2, fraction_train=0.0, proximal_mu=0.1))
    assert done.certificate.K == K
    assert done.proximal_mu == 0.1


@pytest.mark.slow
def test_the_simulation_engine_gives_the_same_certificate():
    pytest.importorskip("ray")
    simulated, here = strategy(min_evaluate_nodes=K), run(strategy())
    simulate(simulated, client_app(), K, ArrayRecord(), 1)
    np.testing.assert_array_equal(simulated.certificate.upper, here.certificate.upper)
