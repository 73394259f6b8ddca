"""SSAR: offline reinforcement learning that trusts the better part of a log.

You have a log of control data - states, actions, rewards - from drivers of mixed quality, and want
a policy from it without touching the system. One weight decides how closely such a policy is held
to the log: too loose, and the critic is believed where it has seen nothing; too tight, and bad
driving is copied. SSAR (Luo, Xie, Wang, Huang, ICML 2025) changes two things in TD3+BC or CQL:

* **selection**: only the trusted part of the log pulls at the policy - by default the
  better episodes by return, or single actions that a critic finds at least as good as usual
  (``trust="iql"``);
* **adaptivity**: the weight is a small network beta(s), which falls where the policy agrees with
  the trusted data and rises where it does not: a map of how far the critic may be followed.

>>> from practicum.rl.ssar import SSAR, pendulum_mix
>>> log = pendulum_mix("mixed-20", rng=0)  # 100 episodes, 20 of them driven well
>>> agent = SSAR("td3bc", steps=100, hidden=(32, 32), gamma=0.97, seeds=2).fit(log)
>>> actions = agent.predict(log.observations[:5])  # in the log's own units
>>> agent.evaluate("Pendulum-v1", episodes=4).returns.shape  # without an environment: estimate()
(2, 4)
>>> print(agent.trust_report_.describe())
Trusted: ... of 20,000 transitions (... %) in ... of 100 episodes: ...

Your own log comes in through :class:`OfflineDataset` (NPZ, HDF5, Minari, CSV, Parquet, data
frames, D4RL's dictionaries, d3rlpy's ``MDPDataset``) or ``read_offline(...)``; its complaints name
the column and the row. What is cheaper comes first: ``Baseline("filtered-bc")`` clones the trusted
part and needs no critic. In the study of this package most or all of SSAR's gain was selection's,
and a TD3+BC with a tuned alpha was level or ahead where the log covers much; the card says where.

Learners (:class:`TD3BC`, :class:`CQL`, :class:`IQL`, :class:`BehaviourCloning`) train many seeds
and settings as one stack; :func:`compare_arms` puts arms side by side on one log.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["regularizer"],
    submod_attrs={
        "agent": ["SSAR", "Baseline"],
        "cloning": ["BehaviourCloning"],
        "cql": ["CQL"],
        "evaluation": ["evaluate", "random_returns"],
        "experiments": ["Setting", "compare_arms"],
        "fqe": ["fitted_q_evaluation"],
        "iql": ["IQL", "trust_by_advantage"],
        "learner": ["Sizes", "policy_of", "train"],
        "online": ["finetune_online"],
        "pendulum": ["Pendulum", "pendulum_mix"],
        "pointmaze": ["PointMaze", "pointmaze_mix"],
        "regularizer": ["Regularization", "cosine_decay", "linear_decay"],
        "replay": ["Normalizer", "Replay"],
        "td3bc": ["TD3BC"],
        "trust": ["TrustReport", "trust_trajectories"],
    },
)
