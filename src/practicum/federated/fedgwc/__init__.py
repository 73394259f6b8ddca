"""Clusters of federated clients, found from nothing but the losses they report.

What it does
    One global model is mediocre for everybody when clients hold contradictory data; one model a
    client has too little to learn from. The losses that clients report anyway tell groups apart:
    the model of each round favours the clients that trained just before, so the losses of a group
    rise and fall together. :class:`LossClusterer` reads groups from a log of losses, offline;
    :class:`FedGWC` is the Flower strategy that splits a running federation and trains a model a
    group. :func:`wasserstein_adjusted_silhouette` grades any clustering of clients by the class
    imbalance of their data, without knowing true groups.

When to use it
    You run a federation on Flower (or have kept its loss log) and suspect groups; you do not want
    to ship several models to every client (IFCA) or to need every client in every round (CFL).

When not
    Fewer than three clients a round; fewer rounds than it takes the median pair of clients to meet
    ten times (K = 24, m = 6: about 190); groups whose images differ in noise alone, which rewards
    do not show (k-means of how the loss falls within a round does: ``baselines.descent_groups``).

What is published and what is ours
    ``estimator="ema"`` is the published procedure (Gaussian rewards, moving average, perception
    affinity, Davies-Bouldin rule). ``"centred"`` takes an unbiased mean of the same rewards and
    removes both partners' levels; ``"joint"``, the default, adds the co-movement of losses.

A log in, groups out, on real data: digits, where half the clients call every class by another name.

>>> from practicum.data.clients import client_data, digits, partition
>>> from practicum.federated.fedgwc import LocalSGD, LossClusterer, federated_loss_log
>>> plan = partition(digits().labels, 12, "conflict", n_per_client=100)
>>> trainer = LocalSGD(client_data(digits(), plan, 20), batch_size=16, learning_rate=0.1)
>>> log = federated_loss_log(trainer, rounds=150, per_round=4)
>>> groups = LossClusterer().fit(log.to_frame()).labels_
>>> bool((groups == plan.groups).all() or (groups == 1 - plan.groups).all())
True

How good is a grouping by class imbalance (two lines on any clustering)?

>>> from practicum.federated.fedgwc import wasserstein_adjusted_silhouette
>>> two = client_data(digits(), partition(digits().labels, 12, "two", n_per_client=60), 20)
>>> counts = two.class_counts
>>> -1 <= wasserstein_adjusted_silhouette(counts, groups) <= 1
True

From the command line: ``practicum use fedgwc cluster losses.csv`` for the log of a past run,
``practicum use fedgwc run --data sites.csv --client site --label y`` to try it on a table.

On Flower, with any client app that adds its losses to its reply (``train-losses``, beside
``num-examples``), call ``FedGWC(fraction_train=0.25).start(grid, arrays, 400)`` in a ``ServerApp``;
then read ``strategy.clusters_``, ``strategy.model_for(partition_id)`` and, for a picture of who was
split off when, ``strategy.plot_tree()``.

Where things live: ``losses`` (the log, the reward), ``interaction`` (matrices), ``grouping``
(groups from a matrix or a log), ``tree`` (the clusters of a running federation) and ``tree_plot``,
``strategy`` (Flower), ``scores``; ``training`` and ``cnn`` (the fast engine), ``baselines``,
``experiments``, ``federations``, ``owndata`` and ``checks`` (what is compared, on what).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "losses": ["LossLog", "as_loss_log", "gaussian_rewards", "read_loss_log"],
        "interaction": [
            "PublishedInteraction",
            "centred_interaction",
            "comovement",
            "joint_interaction",
            "perception_affinity",
            "published_interaction",
            "reward_interaction",
        ],
        "grouping": [
            "LossClusterer",
            "count_groups",
            "interaction_groups",
            "SplitEvidence",
            "published_split",
            "split_by_losses",
            "split_evidence",
        ],
        "scores": [
            "imbalance_distances",
            "read_class_counts",
            "wasserstein_adjusted_davies_bouldin",
            "wasserstein_adjusted_silhouette",
        ],
        "training": ["LocalSGD", "federated_loss_log"],
        "tree": ["ClusterTree", "train_tree"],
        "strategy": ["FedGWC", "initial_arrays", "softmax_client_app"],
    },
)
