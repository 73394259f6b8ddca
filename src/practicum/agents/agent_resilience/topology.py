"""Who talks to whom, and when: teams as directed graphs with a schedule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import networkx as nx

from practicum.errors import InputError

Aggregate = Literal["last", "plurality"]
NAMES = ("single", "independent", "linear", "flat", "hierarchical")


class Agent(NamedTuple):
    """A member of a team.

    Parameters
    ----------
    name : str
    role : str
        ``analyst``, ``leader`` (neither writes answers by itself), ``coder``, ``peer``, ``worker``
        or ``checker``.
    profile : str
        Its system message.

    Examples
    --------
    >>> Agent("coder", "coder", "You write programs.").role
    'coder'
    """

    name: str
    role: str
    profile: str


PROFILES = {
    "analyst": "You are the analyst of a team. Say in a few sentences how the task is to be "
    "solved. Do not solve it.",
    "coder": "You are the coder of a team. Solve the task. Give the complete solution.",
    "checker": "You are the checker of a team. Check the solution you were given, correct what is "
    "wrong, and give the complete solution.",
    "peer": "You are one of several equal members of a team. Consider what the others proposed, "
    "and give the complete solution you think is right.",
    "worker": "You work for a leader beside a colleague. Consider what your colleague proposed, "
    "and give the complete solution you think is right.",
    "leader": "You lead a team. First brief your workers; when they have answered, compare their "
    "solutions and give the complete solution you think is right.",
    "single": "Solve the task. Give the complete solution.",
}


@dataclass(frozen=True)
class Topology:
    """A directed graph of agents, a schedule, and whose words count.

    A step of the schedule names agents that speak at once; each sees the latest message of every
    agent with an edge to it (and its own) from earlier steps.

    Parameters
    ----------
    name : str
    agents : tuple of Agent
    graph : networkx.DiGraph
        Nodes are agents' names; an edge is "is read by".
    schedule : tuple of tuples of str
    answer : str or tuple of str
        The agent whose last message is the answer; or several, who vote (plurality; ties go to the
        first named).
    producer : str
        Who writes the solution: the agent that is made faulty unless another is named.

    Examples
    --------
    >>> team = Topology.from_name("hierarchical")
    >>> team.calls, team.producer, sorted(team.graph.successors("leader"))
    (6, 'worker 1', ['worker 1', 'worker 2'])
    """

    name: str
    agents: tuple[Agent, ...]
    graph: Any
    schedule: tuple[tuple[str, ...], ...]
    answer: str | tuple[str, ...]
    producer: str

    def __post_init__(self) -> None:
        _validate(self)

    @property
    def calls(self) -> int:
        """Messages of one task, without any defence."""
        return sum(map(len, self.schedule))

    @property
    def answers(self) -> tuple[str, ...]:
        """The agents whose last messages decide."""
        return (self.answer,) if isinstance(self.answer, str) else self.answer

    def agent(self, name: str) -> Agent:
        """The agent of this name.

        Raises
        ------
        InputError
            There is none.
        """
        for agent in self.agents:
            if agent.name == name:
                return agent
        raise InputError(
            f"topology {self.name!r} has no agent {name!r}",
            f"its agents: {', '.join(a.name for a in self.agents)}",
        )

    @classmethod
    def from_name(
        cls,
        name: str,
        k: int | None = None,
        rounds: int | None = None,
        aggregate: Aggregate = "last",
    ) -> Topology:
        """One of the fixed teams.

        Parameters
        ----------
        name : {"linear", "flat", "hierarchical", "single", "independent"}
            ``linear``: analyst -> coder -> checker. ``flat``: peers who all read each other.
            ``hierarchical``: a leader, and workers who read each other. ``independent``: peers who
            read nobody and vote. ``single``: one agent.
        k : int, optional
            Agents: 3 (6 when independent, so that it costs what the others cost).
        rounds : int, optional
            Of the exchange: 2; 1 in a chain.
        aggregate : {"last", "plurality"}
            For ``flat``: the last peer's last message is the answer (and that peer the producer),
            or a vote (the first peer is the producer).

        Raises
        ------
        InputError
            The name is unknown, or a number too small.
        """
        if name not in NAMES:
            raise InputError(f"topology {name!r} is none of {', '.join(NAMES)}")
        least = {"single": 1, "linear": 2, "flat": 2, "hierarchical": 2, "independent": 1}[name]
        k = k or {"single": 1, "independent": 6}.get(name, 3)
        rounds = rounds or (1 if name in ("linear", "single", "independent") else 2)
        if k < least or rounds < 1:
            raise InputError(f"{name} with k={k}, rounds={rounds}: at least {least} and 1")
        if name == "single":
            return _team(name, [("solver", "single")], [], [("solver",)], "solver", "solver")
        if name == "linear":
            return _linear(k, rounds)
        if name == "hierarchical":
            return _hierarchical(k, rounds)
        peers = [f"peer {i + 1}" for i in range(k)]
        if name == "independent":
            members = [(p, "peer") for p in peers]
            return _team(name, members, [], [tuple(peers)], tuple(peers), peers[0])
        last = aggregate == "last"
        return _team(
            "flat, last speaks" if last else "flat, vote",
            [(p, "peer") for p in peers],
            [(a, b) for a in peers for b in peers if a != b],
            [tuple(peers)] * rounds,
            peers[-1] if last else tuple(peers),
            peers[-1] if last else peers[0],
        )

    @classmethod
    def from_graph(
        cls,
        graph: nx.DiGraph,
        schedule: Sequence[Sequence[str]] | None = None,
        *,
        answer: str | Sequence[str] | None = None,
        producer: str | None = None,
        rounds: int | None = None,
        name: str = "own",
    ) -> Topology:
        """A team of one's own.

        Parameters
        ----------
        graph : networkx.DiGraph
            Node attributes ``role`` and ``profile`` are used where they are there.
        schedule : sequence of steps, optional
            Without it: generations of the graph in topological order (nodes that do not depend on
            each other speak at once); in a graph with a cycle all speak at once, ``rounds`` times.
        answer : str or sequence of str, optional
            By default the last node to speak.
        producer : str, optional
            By default the first node that is no analyst and no leader.
        rounds : int, optional
            Needed where the graph has a cycle and no schedule is given.

        Raises
        ------
        InputError
            An unknown node, a cycle without ``rounds``, or no path from the producer to the answer.

        Examples
        --------
        >>> import networkx as nx
        >>> Topology.from_graph(nx.DiGraph([("writer", "editor")])).schedule
        (('writer',), ('editor',))
        """
        if not isinstance(graph, nx.DiGraph) or not graph:
            raise InputError("the graph is a networkx.DiGraph with at least one node")
        if schedule is None:
            schedule = _schedule(graph, rounds)
        members = []
        for node, data in graph.nodes(data=True):
            role = data.get("role", "peer")
            profile = data.get("profile") or PROFILES.get(role, PROFILES["peer"])
            members.append(Agent(str(node), role, profile))
        writers = [a.name for a in members if a.role not in ("analyst", "leader")]
        speaks_last = schedule[-1][-1] if schedule and schedule[-1] else members[-1].name
        return cls(
            name,
            tuple(members),
            nx.relabel_nodes(graph, str),
            tuple(tuple(map(str, step)) for step in schedule),
            answer if isinstance(answer, str) else tuple(answer) if answer else str(speaks_last),
            producer or (writers or [members[0].name])[0],
        )


def _team(
    name: str,
    members: Sequence[tuple[str, str]],
    edges: Sequence[tuple[str, str]],
    schedule: Sequence[tuple[str, ...]],
    answer: str | tuple[str, ...],
    producer: str,
) -> Topology:
    graph = nx.DiGraph()
    graph.add_nodes_from(member for member, _ in members)
    graph.add_edges_from(edges)
    agents = tuple(Agent(member, role, PROFILES[role]) for member, role in members)
    return Topology(name, agents, graph, tuple(schedule), answer, producer)


def _linear(k: int, rounds: int) -> Topology:
    """Analyst, coder, checkers; further rounds go through coder and checkers again."""
    checkers = ["checker"] if k <= 3 else [f"checker {i + 1}" for i in range(k - 2)]
    chain = ["coder", *checkers] if k > 2 else ["coder", "checker"]
    members = [("analyst", "analyst")] if k > 2 else []
    members += [(c, "coder" if c == "coder" else "checker") for c in chain]
    order = [m for m, _ in members]
    edges = list(pairwise(order))
    if rounds > 1:
        edges.append((chain[-1], "coder"))
    schedule = [(m,) for m in order] + [(c,) for c in chain] * (rounds - 1)
    name = "linear" if rounds == 1 else f"linear, {rounds} rounds"
    return _team(name, members, edges, schedule, chain[-1], "coder")


def _hierarchical(k: int, rounds: int) -> Topology:
    workers = tuple(f"worker {i + 1}" for i in range(k - 1))
    edges = [("leader", w) for w in workers] + [(w, "leader") for w in workers]
    edges += [(a, b) for a in workers for b in workers if a != b]
    members = [("leader", "leader"), *((w, "worker") for w in workers)]
    schedule = [("leader",), *[workers] * rounds, ("leader",)]
    return _team("hierarchical", members, edges, schedule, "leader", workers[0])


def _schedule(graph: nx.DiGraph, rounds: int | None) -> list[tuple[str, ...]]:
    if nx.is_directed_acyclic_graph(graph):
        return [tuple(map(str, step)) for step in nx.topological_generations(graph)]
    if rounds is None:
        cycle = " -> ".join(str(a) for a, _ in nx.find_cycle(graph))
        raise InputError(f"the graph has a cycle ({cycle} -> ...)", "give rounds or a schedule")
    return [tuple(map(str, graph.nodes))] * rounds


def _validate(topology: Topology) -> None:
    names = [a.name for a in topology.agents]
    if len(set(names)) < len(names):
        raise InputError(f"topology {topology.name!r}: two agents have the same name")
    used = {*topology.answers, topology.producer, *(n for s in topology.schedule for n in s)}
    if unknown := used - set(names):
        raise InputError(
            f"topology {topology.name!r}: no agent {sorted(unknown)[0]!r}",
            f"its agents: {', '.join(names)}",
        )
    speakers = {n for step in topology.schedule for n in step}
    for name in topology.answers:
        if name not in speakers:
            raise InputError(f"topology {topology.name!r}: {name!r} answers but never speaks")
    if not any(
        name == topology.producer or nx.has_path(topology.graph, topology.producer, name)
        for name in topology.answers
    ):
        raise InputError(
            f"topology {topology.name!r}: no path from the producer {topology.producer!r} to the "
            f"answer ({', '.join(topology.answers)})"
        )
