"""What one quietly faulty agent costs a team of language models, and what wins it back.

What it does
    A team is a graph of agents with a schedule, and tasks with a grader. One agent is made faulty:
    `AutoInject` corrupts a controlled share of what it says (lines of code by mutations of the
    syntax tree, sentences by wrong numbers and opposites, or by a model), `AutoTransform` rewrites
    its profile, `RoutingFault` loses its messages. `run_resilience` measures the accuracy lost,
    and how much two defences win back: the Challenger (everybody may doubt the last message and
    have it redone once) and the Inspector (an agent outside the team rewrites what looks wrong).
    `criticality` makes each agent faulty in turn: which one should you guard?

When to use it
    You ship a pipeline (LangGraph, AG2 / AutoGen, your own) and ask what happens if one agent is
    wrong and sounds right; you choose between a chain, peers, a vote and a leader; you want to know
    whether a reviewing agent pays. `wrap` makes a node of your own graph faulty.

When not
    To learn how good a model is: without a model agents are simulated, which shows what passing
    messages and redundancy do, no more. For faults of tools (time-outs, broken JSON).

A chain whose coder is sabotaged, with simulated agents on sums; no model needed:

>>> from practicum.agents.agent_resilience import AutoTransform, SimTeam, Topology
>>> from practicum.agents.agent_resilience import arithmetic, run_resilience
>>> team, agents = Topology.from_name("linear"), SimTeam(skill=0.8, fix=0.9, sensitivity=0.9)
>>> result = run_resilience(team, arithmetic(40), agents, AutoTransform(),
...                         defence=("challenger", "inspector"), seeds=range(2))
>>> result.drop[0] > 0.02, result.recovery[0] > 0.3, result.injected_edits["faulty"]
(True, True, 80)

A node of your own graph, made faulty (``node.tampering.edits`` says whether anything landed):

>>> from practicum.agents.agent_resilience import AutoInject, wrap
>>> node = wrap(lambda state: {"messages": ["All tests pass"]}, AutoInject(1.0, 1.0))
>>> node({}), node.tampering.edits
({'messages': ['None tests pass']}, 1)

With a real model: ``run_resilience(team, humaneval(40), open_chat("NAME", endpoint=URL), ...)``
(see :mod:`practicum.models.chat`), or ``practicum use agent-resilience run --endpoint URL --model
NAME``. Programs of models run in :mod:`practicum.sandbox`, where their tests are out of reach.

What is published and what is ours
    The two faults, the two defences, recovery and the three kinds of teams are the paper's; the
    schedules, the deterministic injectors and the simulated agents are ours. The published code of
    AutoInject breaks untouched lines that hold a comma; ``AutoInject(compat="official")`` does too.

Where things live: ``topology`` (teams), ``tasks`` (tasks and graders), ``edits`` (wrong versions),
``faults``, ``voices`` (a model's or simulated agents), ``team`` (the engine, results), ``wrapping``
(LangGraph, AG2), ``traces`` (recorded threads, the viewer), ``records`` (files), ``facts``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "edits": ["Edit", "mutants"],
        "faults": ["AutoInject", "AutoTransform", "Fault", "Injection", "RoutingFault"],
        "tasks": ["ProgramJudge", "Task", "arithmetic", "grade", "humaneval", "read_tasks"],
        "team": ["Result", "criticality", "recovery", "run_resilience"],
        "topology": ["Agent", "Topology"],
        "traces": ["TraceMessage", "inject_trace", "read_trace", "thread_html"],
        "voices": ["ChatVoice", "Posted", "SimTeam", "Turn", "Voice"],
        "wrapping": ["Tampering", "ag2_middleware", "wrap"],
    },
)
