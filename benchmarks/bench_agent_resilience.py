"""agent-resilience: rounds asked together against one call after the other, and what it costs.

1. A team on an endpoint that takes 20 ms a call: our lock step (all turns that do not wait for each
   other go out at once) against plain asyncio with the same number of calls under way, one episode
   after the other as a script would; the same calls, the same answers.
2. Simulated episodes a second, and programs run against programs taken from the cache.
3. Injections a second, by rule.

Exits with status 1 when lock step is not at least twice as fast as episode after episode.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import asyncio
import random
import sys
import time

from practicum.agents.agent_resilience import (
    AutoInject,
    SimTeam,
    Topology,
    arithmetic,
    humaneval,
    run_resilience,
)
from practicum.agents.agent_resilience.team import Setting, play
from practicum.agents.agent_resilience.voices import ChatVoice
from practicum.models.chat.protocol import Chat, Reply

BAR = 2.0
LATENCY = 0.02
CONCURRENCY = 8


class Endpoint(Chat):
    """Answers after 20 ms, eight at once: an endpoint without the network."""

    name = "endpoint"

    def __init__(self):
        self.calls = 0

    def replies(self, requests):
        return asyncio.run(self._all(requests))

    async def _all(self, requests):
        gate = asyncio.Semaphore(CONCURRENCY)

        async def one():
            async with gate:
                await asyncio.sleep(LATENCY)
            self.calls += 1
            return Reply("The answer is 7.")

        return list(await asyncio.gather(*(one() for _ in requests)))


def bench_rounds():
    print(
        f"Calls of {1e3 * LATENCY:.0f} ms, {CONCURRENCY} at once: episode after episode / lock step"
    )
    tasks, worst = arithmetic(8), 1e9
    for name in ("linear", "flat", "hierarchical"):
        team = Topology.from_name(name)
        one, together = Endpoint(), Endpoint()
        start = time.perf_counter()
        single = {}
        for task in tasks:
            single |= play(team, [task], [0], Setting(), ChatVoice(one))
        theirs = time.perf_counter() - start
        start = time.perf_counter()
        done = play(team, tasks, [0], Setting(), ChatVoice(together))
        ours = time.perf_counter() - start
        assert {k: e.answer for k, e in done.items()} == {k: e.answer for k, e in single.items()}
        assert one.calls == together.calls
        worst = min(worst, theirs / ours)
        print(
            f"  {name:<13} {one.calls:3d} calls: {theirs:6.2f} s / {ours:6.2f} s ="
            f" {theirs / ours:5.1f} x, {together.calls / ours:5.0f} calls/s"
        )
    print("  critical path of one task: linear k calls, flat `rounds` calls, whatever k is\n")
    return worst


def bench_simulation():
    print("Simulated teams on 10 HumanEval problems, AutoInject, both defences:")
    tasks, sim = humaneval(10), SimTeam()
    for seeds in (2, 8):
        before, start = sim.judge.runs, time.perf_counter()
        result = run_resilience(
            Topology.from_name("hierarchical"),
            tasks,
            sim,
            AutoInject(1.0, 0.2),
            defence=("challenger", "inspector"),
            seeds=range(seeds),
        )
        took = time.perf_counter() - start
        ran = sim.judge.runs - before
        share = sim.judge.hits / (sim.judge.hits + sim.judge.runs)
        print(
            f"  {seeds} seeds: {len(result.frame):4d} episodes in {took:6.2f} s "
            f"({len(result.frame) / took:6.0f} a second), {ran} programs run, "
            f"{100 * share:.0f} % of outcomes from the cache"
        )
    sim.close()
    print("  grows with distinct programs first (each runs once), then with episodes\n")


def bench_injection():
    print("Injections by rule:")
    for lines in (10, 40, 160):
        text = "\n".join(f"x{i} = x{i - 1} + {i}" for i in range(1, lines + 1))
        inject, start, n = AutoInject(1.0, 0.2), time.perf_counter(), 0
        while time.perf_counter() - start < 0.5:
            inject.message(text, random.Random(n), "code")
            n += 1
        print(f"  {lines:4d} lines: {1e3 * 0.5 / n:7.2f} ms a message")
    print("  about the square of the lines: each edit is checked by parsing the whole program")


def main():
    worst = bench_rounds()
    bench_simulation()
    bench_injection()
    if worst < BAR:
        print(f"MISSED: lock step only {worst:.1f} x (bar {BAR:g} x)")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
