"""State-adaptive regularisation: how strongly, state by state, a policy is held to the data.

One rule for two families, because CQL's penalty *is* a likelihood: where a policy is the Boltzmann
policy of Q, ``log sum_b exp Q(s,b) - Q(s,a) = -log pi(a|s)`` (Prop. 3.1). A small network beta(s)
replaces the scalar weight. It is moved by

    L(phi) = E[ (log pi(a|s) - C_n(s)) beta_phi(s) ]        (gradient through beta only),

so beta falls where the data's action is likelier than the edge of n standard deviations, C_n, and
rises where it is not. With ``select`` only trusted pairs teach beta; with ``restrict`` only trusted
pairs are held to the data at all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Float, Int

from practicum.errors import InputError
from practicum.models.stacked import StackedAdam, StackedMLP, clip_members
from practicum.models.training import Tensor, torch

POLICY_STD = 0.1  # TD3's deterministic policy is read as a Gaussian of this width
CEILING = 1.5  # beta stays below this multiple of beta_0
BIAS = 0.6931  # log 2: sigmoid = 2/3, so that beta starts at beta_0
EDGE = 0.99999  # actions are kept this far inside (-1, 1) where a tanh is undone
DATA_FLOOR = 10.0  # a data action counts as at most this many standard deviations away (CQL)
CLIP = 0.5  # largest gradient norm of the coefficient network
INCREMENTS = 10  # steps of n from n_start to n_end


def conservative_gap(
    q: Float[Tensor, "*b a"], action: Int[Tensor, "*b"] | int
) -> Float[Tensor, "*b"]:
    """CQL's penalty of a discrete action, ``log sum_b exp Q(s,b) - Q(s,a)``.

    Equal to ``-log pi(a|s)`` for the Boltzmann policy of Q (Prop. 3.1).

    Parameters
    ----------
    q : tensor (..., actions)
    action : int or integer-valued tensor (...)

    Raises
    ------
    IndexError
        An action that is not there.

    Examples
    --------
    >>> round(conservative_gap(torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64), 2).item(), 8)
    0.40760596
    """
    index = torch.as_tensor(action, device=q.device).long().expand(q.shape[:-1]).unsqueeze(-1)
    return q.logsumexp(dim=-1) - q.gather(-1, index).squeeze(-1)


def deterministic_margin(
    policy: Float[Tensor, "s b d"], action: Float[Tensor, "s b d"], n: Float[Tensor, "s"]
) -> Float[Tensor, "s b"]:
    """How far inside the edge of n standard deviations the data's action lies (TD3+BC).

    The policy is read as N(pi(s), 0.1^2 I). Up to the factor 1/(2 0.1^2), taken into the step size,
    ``log pi(a|s) - C_n = (0.1 n)^2 - mean_d min((pi_d - a_d)^2, 1)``.

    Parameters
    ----------
    policy, action : tensor (members, batch, action dimensions), in [-1, 1]
    n : tensor (members,)

    Returns
    -------
    tensor (members, batch): positive lets beta fall, negative lets it rise.

    Raises
    ------
    RuntimeError
        Shapes that do not fit.

    Examples
    --------
    >>> pi, a = torch.full((1, 3, 1), 0.5), torch.tensor([[[0.7], [0.8], [0.6]]])
    >>> margin = deterministic_margin(pi, a, torch.tensor([2.0]))  # at the edge, outside, inside
    >>> (margin[0] * 100).round().int().tolist()
    [0, -5, 3]
    """
    off = (policy - action).square().clamp(max=1.0).mean(dim=-1)
    return (POLICY_STD * n).square().unsqueeze(-1) - off


def tanh_log_density(
    action: Float[Tensor, "*b d"], mean: Float[Tensor, "*b d"], log_std: Float[Tensor, "*b d"]
) -> Float[Tensor, "*b d"]:
    """log density of tanh(N(mean, std^2)) at an action, dimension by dimension.

    Parameters
    ----------
    action : tensor in [-1, 1]; the ends are moved to ±0.99999
    mean, log_std : tensors of the same shape, of the Gaussian before the tanh

    Raises
    ------
    RuntimeError
        Shapes that do not fit.

    Examples
    --------
    >>> z = torch.zeros(1)
    >>> tanh_log_density(z, z, z).item()  # -log sqrt(2 pi): the tanh has slope 1 at 0
    -0.9189385175704956
    """
    raw = torch.atanh(action.clamp(-EDGE, EDGE))
    return gaussian_log_density(raw, mean, log_std) - log_tanh_slope(raw)


def gaussian_log_density(
    x: Float[Tensor, "*b d"], mean: Float[Tensor, "*b d"], log_std: Float[Tensor, "*b d"]
) -> Float[Tensor, "*b d"]:
    """log N(x; mean, std^2), dimension by dimension.

    Parameters
    ----------
    x, mean, log_std : tensors of one shape

    Raises
    ------
    RuntimeError
        Shapes that do not fit.

    Examples
    --------
    >>> z = torch.zeros(1)
    >>> gaussian_log_density(z, z, z).item()
    -0.9189385175704956
    """
    z = (x - mean) * (-log_std).exp()
    return -0.5 * z.square() - log_std - 0.5 * math.log(2 * math.pi)


def log_tanh_slope(raw: Float[Tensor, "*b"]) -> Float[Tensor, "*b"]:
    """log(1 - tanh(x)^2) without cancellation.

    Parameters
    ----------
    raw : tensor
        Before the tanh.

    Raises
    ------
    TypeError
        Not a tensor.

    Examples
    --------
    >>> log_tanh_slope(torch.tensor([0.0, 20.0]))
    tensor([  0.0000, -38.6137])
    """
    return 2 * (math.log(2) - raw - torch.nn.functional.softplus(-2 * raw))


def gaussian_edge(
    mean: Float[Tensor, "s b d"], log_std: Float[Tensor, "s b d"], n: Float[Tensor, "s"] | float
) -> Float[Tensor, "s b d"]:
    """C_n of a tanh-Gaussian policy, dimension by dimension: the lower of its two edges' densities.

    The edges tanh(mean ± n std) are taken no farther than 0.1 n from tanh(mean), and inside
    ±0.99999.

    Parameters
    ----------
    mean, log_std : tensor (members, batch, action dimensions)
    n : tensor (members,) or float

    Raises
    ------
    RuntimeError
        Shapes that do not fit.

    Examples
    --------
    >>> z = torch.zeros(1, 1, 1)
    >>> gaussian_edge(z, z - 4, 1.0).item()  # nearly a plain Gaussian of std exp(-4)
    2.581...
    """
    n = torch.as_tensor(n, dtype=mean.dtype, device=mean.device).reshape(-1, 1, 1)
    centre, reach = mean.tanh(), POLICY_STD * n
    edges = []
    for sign in (1.0, -1.0):
        edge = torch.tanh(mean + sign * n * log_std.exp())
        edge = torch.minimum(torch.maximum(edge, centre - reach), centre + reach)
        edges.append(tanh_log_density(edge, mean, log_std))
    return torch.minimum(*edges)


def gaussian_margin(
    action: Float[Tensor, "s b d"],
    mean: Float[Tensor, "s b d"],
    log_std: Float[Tensor, "s b d"],
    n: Float[Tensor, "s"],
) -> Float[Tensor, "s b"]:
    """``log pi(a|s) - C_n(s)`` of a tanh-Gaussian policy, mean over action dimensions (CQL).

    The data's density counts as at least that of the edge of ten standard deviations.

    Parameters
    ----------
    action, mean, log_std : tensor (members, batch, action dimensions)
    n : tensor (members,)

    Raises
    ------
    RuntimeError
        Shapes that do not fit.

    Examples
    --------
    >>> z = torch.zeros(1, 1, 1)
    >>> gaussian_margin(z, z, z - 3, torch.ones(1)).item() > 0  # at the mode: inside the edge
    True
    """
    density = tanh_log_density(action, mean, log_std)
    density = torch.maximum(density, gaussian_edge(mean, log_std, DATA_FLOOR))
    return (density - gaussian_edge(mean, log_std, n)).mean(dim=-1)


def linear_decay(step: float | int, decay_steps: float | int) -> float:
    """Share of beta kept after ``step`` online steps, ``max(1 - N/N_end, 0)`` (TD3+BC).

    Parameters
    ----------
    step, decay_steps : float
        A negative ``decay_steps`` means no decay.

    Raises
    ------
    ZeroDivisionError
        ``decay_steps`` is zero.

    Examples
    --------
    >>> linear_decay(100_000, 400_000), linear_decay(5e5, 4e5), linear_decay(9, -1)
    (0.75, 0.0, 1.0)
    """
    return 1.0 if decay_steps < 0 else max(1.0 - step / decay_steps, 0.0)


def cosine_decay(step: float | int, decay_steps: float | int) -> float:
    """Share of beta kept after ``step`` online steps, ``cos(pi/2 min(N/N_end, 1))`` (CQL).

    Parameters
    ----------
    step, decay_steps : float
        A negative ``decay_steps`` means no decay.

    Raises
    ------
    TypeError
        Not numbers.

    Examples
    --------
    >>> round(cosine_decay(100_000, 400_000), 5), cosine_decay(400_000, 400_000)
    (0.92388, 0.0)
    """
    if decay_steps < 0:
        return 1.0
    return math.cos(math.pi / 2 * step / decay_steps) if step < decay_steps else 0.0


def scaled_beta_rate(
    updates: int, width: int, lr: float = 3e-8, published_updates: float | int = 5e5
) -> float:
    """Adam's step for beta in a short training: lr x updates x width stays the published one's.

    ``lr (published updates/updates) (512/width)``: at 3e-8 a network of 512 units moves in half a
    million updates only.

    Parameters
    ----------
    updates : int
        Of beta, in the whole training.
    width : int
        Of the coefficient network.
    lr, published_updates : float
        3e-8 over 5e5 (TD3+BC), 1e-8 over 1e6 (CQL).

    Raises
    ------
    ZeroDivisionError
        No updates.

    Examples
    --------
    >>> scaled_beta_rate(500_000, 512), round(scaled_beta_rate(5000, 64), 10)
    (3e-08, 2.4e-05)
    """
    return lr * (published_updates / updates) * (512 / width)


@dataclass(frozen=True)
class Regularization:
    """What holds one member to the data.

    Parameters
    ----------
    beta0 : float
        The weight (1/alpha of TD3+BC, alpha of CQL), where beta starts.
    adaptive : bool
        beta(s) is learned; else it stays ``beta0``.
    select : bool
        Only trusted pairs teach beta.
    restrict : bool
        Only trusted pairs are held to the data.
    n_start, n_end : float
        Edge of the policy, in standard deviations, at first and at most.

    Examples
    --------
    >>> Regularization(beta0=0.4, adaptive=False, select=False, restrict=False)  # TD3+BC, alpha 2.5
    Regularization(beta0=0.4, adaptive=False, select=False, restrict=False, n_start=1.0, n_end=3.0)
    """

    beta0: float | int
    adaptive: bool = True
    select: bool = True
    restrict: bool = True
    n_start: float | int = 1.0
    n_end: float | int = 3.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.beta0) and self.beta0 >= 0):
            raise InputError(f"beta0={self.beta0}: a weight of 0 or more is expected")
        if not 0 < self.n_start <= self.n_end:
            raise InputError(
                f"n_start={self.n_start}, n_end={self.n_end}: 0 < n_start <= n_end is expected"
            )


class ThresholdSchedule:
    """n of every member: raised step by step until the trusted data lie inside the edge.

    Parameters
    ----------
    n_start, n_end : tensor (members,)
    period : int
        Updates between two looks at the mean margin of the (trusted) data since the last one.

    Attributes
    ----------
    n : tensor (members,)
    stopped : bool tensor (members,)
        The mean margin was positive once: n stays for good.

    Examples
    --------
    >>> schedule = ThresholdSchedule(torch.tensor([1.0]), torch.tensor([3.0]), period=1)
    >>> for _ in range(10):
    ...     schedule.see(torch.tensor([[-1.0]]), torch.tensor([[1.0]]))
    >>> schedule.n
    tensor([3.])
    """

    def __init__(self, n_start: Float[Tensor, "s"], n_end: Float[Tensor, "s"], period: int) -> None:
        self.n_start, self.n_end, self.period = n_start, n_end, max(1, period)
        self.raised = torch.zeros_like(n_start)
        self.stopped = torch.zeros_like(n_start, dtype=torch.bool)
        self.seen = 0
        self.total, self.weight = torch.zeros_like(n_start), torch.zeros_like(n_start)

    @property
    def n(self) -> Tensor:
        # from the count, not by adding up: ten increments end at n_end exactly
        share = self.raised / INCREMENTS
        return self.n_start * (1 - share) + self.n_end * share

    def see(self, margin: Float[Tensor, "s b"], counted: Float[Tensor, "s b"]) -> None:
        """One batch of margins; ``counted`` is 1 for the pairs that count (the trusted)."""
        self.seen += 1
        self.total += (margin * counted).sum(dim=1)
        self.weight += counted.sum(dim=1)
        if self.seen % self.period:
            return
        some = self.weight > 0
        self.stopped |= some & (self.total > 0)
        rise = some & ~self.stopped & (self.raised < INCREMENTS)
        self.raised += rise.to(self.raised)
        self.total.zero_()
        self.weight.zero_()


class Coefficient:
    """beta(s) of every member, learned where it is adaptive, its start value elsewhere.

    ``beta(s) = 1.5 beta_0 sigmoid(MLP(s))`` in (0, 1.5 beta_0), from Xavier weights, zero biases
    and a last bias of log 2, so that it starts near beta_0.

    Parameters
    ----------
    rules : sequence of Regularization, one for each member
    seeds : sequence of int
    inputs : int
        Width of a state.
    hidden : sequence of int
    lr : float
    period : int
        Updates between two steps of n.

    Attributes
    ----------
    schedule : ThresholdSchedule
        Of the adaptive members.
    scale : float
        Multiplies every beta: 1 offline, decayed online.
    frozen : bool
        beta is no longer taught (online).

    Examples
    --------
    >>> rules = [Regularization(0.4), Regularization(0.4, adaptive=False)]
    >>> beta = Coefficient(rules, [0, 0], inputs=3, hidden=(64,), lr=1e-5, period=100)
    >>> beta(torch.zeros(2, 32, 3))[:, 0]
    tensor([0.4000, 0.4000])
    """

    def __init__(
        self,
        rules: Sequence[Regularization],
        seeds: Sequence[int],
        inputs: int,
        hidden: Sequence[int],
        lr: float,
        period: int,
        device: torch.device | str = "cpu",
    ) -> None:
        self.rules, self.device = list(rules), torch.device(device)
        self.adaptive = [i for i, rule in enumerate(rules) if rule.adaptive]
        self.beta0 = self._each([rule.beta0 for rule in rules])
        self.restrict = self._each([float(rule.restrict) for rule in rules])
        self.scale: Tensor = torch.ones_like(self.beta0)
        self.frozen = False
        self.index = torch.tensor(self.adaptive, dtype=torch.long, device=self.device)
        if not self.adaptive:
            return
        chosen = [rules[i] for i in self.adaptive]
        self.select = self._each([float(rule.select) for rule in chosen])
        sizes = (inputs, *hidden, 1)
        self.network = StackedMLP(sizes, [seeds[i] for i in self.adaptive], init="xavier")
        with torch.no_grad():
            self.network.biases[-1].fill_(BIAS)
        self.network.to(self.device)
        self.optimizer = StackedAdam(self.network.parameters(), lr)
        ends = [self._each([getattr(r, name) for r in chosen]) for name in ("n_start", "n_end")]
        self.schedule = ThresholdSchedule(*ends, period)

    def _each(self, values: Sequence[float]) -> Tensor:
        return torch.tensor(values, dtype=torch.float32, device=self.device)

    def __call__(self, states: Float[Tensor, "s b d"]) -> Float[Tensor, "s b"]:
        """beta of every state, without gradients."""
        with torch.no_grad():
            beta = self.beta0.unsqueeze(-1).repeat(1, states.shape[1])
            if self.adaptive:
                beta[self.index] = self._learned(states[self.index])
            return beta * self.scale.unsqueeze(-1)

    def _learned(self, states: Tensor) -> Tensor:
        top = CEILING * self.beta0[self.index, None]
        return top * torch.sigmoid(self.network(states).squeeze(-1))

    def weight(
        self, states: Float[Tensor, "s b d"], trusted: Float[Tensor, "s b"]
    ) -> Float[Tensor, "s b"]:
        """What multiplies each pair's pull towards the data: beta(s), and 0 where not trusted."""
        return self(states) * torch.where(self.restrict.unsqueeze(-1) > 0, trusted, 1.0)

    def teach(
        self,
        states: Float[Tensor, "s b d"],
        margin: Float[Tensor, "s b"],
        trusted: Float[Tensor, "s b"],
    ) -> None:
        """One step on mean(margin beta(s) [trusted]), and one look at n."""
        if not self.adaptive or self.frozen:
            return
        counted = torch.where(self.select.unsqueeze(-1) > 0, trusted[self.index], 1.0)
        own = margin[self.index].detach()
        loss = (own * counted * self._learned(states[self.index])).mean(dim=1)
        loss.sum().backward()
        clip_members(self.network.parameters(), CLIP)
        self.optimizer.step()
        self.schedule.see(own, counted)

    @property
    def n(self) -> Float[Tensor, "s"]:
        """n of every member (0 where beta is not learned)."""
        n = torch.zeros_like(self.beta0)
        if self.adaptive:
            n[self.index] = self.schedule.n
        return n

    def select_members(self, members: Sequence[int]) -> Coefficient:
        """The same beta for these members only, to act with or to freeze (no optimiser state)."""
        rules = [self.rules[i] for i in members]
        hidden = self.network.sizes[1:-1] if self.adaptive else (16,)
        inputs = self.network.sizes[0] if self.adaptive else 1
        new = Coefficient(rules, [0] * len(rules), inputs, hidden, 0.0, 1, self.device)
        own = [self.adaptive.index(i) for i in members if i in self.adaptive]
        if own:
            new.network = self.network.select(own)
            new.optimizer = StackedAdam(new.network.parameters(), 0.0)
            new.schedule.raised = self.schedule.raised[own].clone()
            new.schedule.stopped = self.schedule.stopped[own].clone()
        new.scale = self.scale[torch.as_tensor(list(members), device=self.device)].clone()
        return new
