r"""Will the model do well on a network of clients that nobody has seen? A certificate.

A server has K clients - hospitals, phones, branches. Each returns one number: the error (or bounded
loss) of a fixed model on its private data. Out comes a statement that holds with confidence
1 - delta, at every risk level at once:

    in every network within distance eps of this one, at most q(t) of the clients have risk t or
    more, and the mean risk is at most m.

Distance is chi-square, KL (how differently client kinds are mixed) or Wasserstein (how far the
clients themselves move). The bound is the exact worst case of a ball, in closed form, applied to a
finite-sample bound on the network that was seen; nothing is assumed about the clients except that
they were drawn independently.

When to use it: a deployment decision needs "at most 10 % of the sites in the next group will see an
error above 20 %", and a mean over clients, or a bootstrap interval, says nothing about the bad
clients or about a network that differs. When not: with fewer than about 50 clients; when the
clients are shards of one data set; when the radius was chosen by looking at the target.

Handwritten digits, a logistic regression, 500 clients that each hold digits in a mix of their own,
some through a worse scanner - and a two-line certificate:

>>> from practicum.federated.dkw_certificate import certify, image_fleet
>>> errors, n = image_fleet("digits", model="linear").draw(300, n_clients=500)
>>> certificate = certify(errors, n, eps=0.2, divergence="kl", losses="01")
>>> certificate.quantile(0.10) > 0.05  # the error that at most a tenth of the clients reach
True
>>> print(certificate.sentence(level=0.3))
With confidence 95 %, in every network within KL divergence 0.2 of the one seen, at most ...

How much shift can you afford before a quarter of the clients see an error of 0.3?

>>> from practicum.federated.dkw_certificate import affordable_shift
>>> float(affordable_shift(errors, n, level=0.3, share=0.25, losses="01")[0]) > 0
True

From the command line: ``practicum use dkw-certificate certify risks.csv --eps 0.2 --level 0.3``.
In a Flower server app: ``strategy = CertifyStrategy(eps=0.2, risk_key="error")``, and after the run
``strategy.certificate``.

Where things live: ``certification`` (the functions above), ``certificate`` (what they return),
``bands`` and ``source`` (what K clients and n samples say), ``worst_case`` (the closed forms),
``program`` (the published program, solved exactly), ``robust_curves`` (local adversarial queries),
``shift`` (a diagnostic), ``fleets`` (simulated networks with a known truth), ``flower`` (the
strategy).

Source: Najafi, Mahdizadeh Sani and Farnia, *Certifiably Robust Model Evaluation in Federated
Learning under Meta-Distributional Shifts*, ICML 2025. The closed forms and the bound on the source
network are our own; they are valid where the published program is not (many clients, rare events).
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach(
    __name__,
    submod_attrs={
        "bands": ["dkw_half_width", "dkw_quantile", "risk_upper_limit", "tail_upper"],
        "certificate": ["Certificate"],
        "certification": ["affordable_shift", "certify", "dkw_band"],
        "fleets": ["Fleet", "beta_fleet", "image_fleet", "record_fleet"],
        "flower": ["CertifyStrategy", "evaluation_reply"],
        "program": ["program_bound", "program_constants", "program_optimum", "program_slack"],
        "robust_curves": ["RobustCurves", "local_robust_curve", "robust_mean", "robust_tail"],
        "shift": ["estimate_shift"],
        "worst_case": ["radius_to_reach", "transport_tail", "worst_case_mean", "worst_case_tail"],
    },
)
