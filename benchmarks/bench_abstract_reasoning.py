"""What abstract-reasoning costs: generation, maps, the bootstrap, and asking an endpoint.

Peers in this run: a per-character map (as officially), a Python loop over bootstrap draws, and a
loop that asks the same endpoint one prompt after the other. Exits non-zero when 7,776 items (the
9,095 without GSM8K's 1,319, which is read where a file of the user's is named in
``PRACTICUM_GSM8K``) take 5 s or more, when a bootstrap takes 0.1 s, or when a peer is faster.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

from practicum.language.abstract_reasoning import TASKS, evaluate, make_items, read_items
from practicum.language.abstract_reasoning.evaluation import conversation
from practicum.language.abstract_reasoning.items import PAIRED, Item
from practicum.language.abstract_reasoning.metrics import bootstrap_means
from practicum.language.abstract_reasoning.remap import apply_map, draw_map
from practicum.language.abstract_reasoning.solvers import identifiable, solve
from practicum.models.chat import OpenAIChat, Request


def cpu(work: Callable[[], object], repeats: int = 3) -> float:
    """The least CPU time of a few repeats: the machine may be shared."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def generation() -> bool:
    """All generated sets at the published size."""
    from practicum.language.abstract_reasoning.items import _generated
    from practicum.language.abstract_reasoning.rules import _words

    count = 0

    def everything() -> None:
        nonlocal count
        _generated.cache_clear()
        _words.cache_clear()
        count = sum(len(make_items(task)) for task in TASKS)
        if path := os.environ.get("PRACTICUM_GSM8K"):
            count += len(read_items(path)[0])

    spent = cpu(everything, 2)
    print(f"{count:,} items of {len(TASKS)} sets, 50 examples each: {spent:.2f} CPU s (bar: 5)")
    return spent < 5


def per_character(item: Item, symbols: dict[str, str]) -> list[tuple[str, str]]:
    """The map applied a character at a time, as officially."""
    return [
        tuple("".join([symbols.get(c, c) for c in part]) for part in line) for line in item.lines
    ]


def maps() -> bool:
    """Applying a map to an item of 51 lines."""
    items = [item for task in PAIRED for item in make_items(task)[:20]]
    drawn = [draw_map(item, "full", np.random.default_rng(k)) for k, item in enumerate(items)]
    pairs = list(zip(items, drawn, strict=True))
    assert all(
        [tuple(line) for line in per_character(i, m)] == list(apply_map(i, m).lines)
        for i, m in pairs[:40]
    )
    slow = cpu(lambda: [per_character(i, m) for i, m in pairs])
    fast = cpu(lambda: [apply_map(i, m) for i, m in pairs])
    n = len(items)
    print(
        f"a map of an item: a character at a time {1e6 * slow / n:.0f} us, ours "
        f"{1e6 * fast / n:.0f} us  x {slow / fast:.0f}"
    )
    return fast < slow


def bootstrap() -> bool:
    """2,000 draws over 14 sets of 96 items."""
    rng = np.random.default_rng(0)
    values = [rng.choice([-1.0, 0, 1], p=[0.05, 0.6, 0.35], size=96) for _ in range(14)]

    def loop() -> None:
        for _ in range(200):  # a tenth of the draws
            np.mean([rng.choice(v, size=len(v)).mean() for v in values])

    fast, slow = cpu(lambda: bootstrap_means(values, rng)), 10 * cpu(loop, 1)
    print(f"2,000 draws over 14 x 96: loop {slow:.2f} s, ours {fast:.3f} s  x {slow / fast:.0f}")
    return fast < 0.1


class Stub(BaseHTTPRequestHandler):
    """An OpenAI-compatible endpoint that thinks for 20 ms."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(0.02)
        choice = {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": "Answer: The answer is 01."},
        }
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        body = json.dumps(
            {
                "id": "x",
                "object": "chat.completion",
                "created": 0,
                "model": "stub",
                "choices": [choice],
                "usage": usage,
            }
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


def endpoint() -> bool:
    """Items a second of evaluate and of a loop, the same prompts to the same stub."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Stub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/v1"
    n = 60
    with OpenAIChat(url, "stub", concurrency=16) as chat:
        chat.reply([{"role": "user", "content": "warm"}])
        start = time.perf_counter()
        evaluate(chat, "ec/fixed_bit", ["raw", "full"], items=n // 2, maps=1, probe=False)
        ours = time.perf_counter() - start
        start = time.perf_counter()
        for item in make_items("ec/fixed_bit", n, 8, seed=0):
            chat.replies([Request(conversation(item), max_tokens=32)])
        naive = time.perf_counter() - start
    server.shutdown()
    print(
        f"{n} prompts to a stub of 20 ms: loop {n / naive:.0f} a second, evaluate {n / ours:.0f}"
        f"  x {naive / ours:.1f}"
    )
    return ours < naive


def growth() -> None:
    """Solvers, by examples: linear, but for order statistics (all subsets of ten symbols)."""
    print("an item solved, and checked for being determined, by examples (CPU ms)")
    for task in ("ec/fixed_bit", "ec/fixed_bit_shift", "ec/var_list_cnt", "ec/var_set"):
        row = []
        for shots in (8, 24, 50):
            items = make_items(task, 10, shots)
            row.append(cpu(lambda x=items: [(solve(i), identifiable(i)) for i in x], 1) / 10)
        print(
            f"  {task:<20} "
            + " ".join(
                f"{shots}: {1e3 * t:6.1f}" for shots, t in zip((8, 24, 50), row, strict=True)
            )
        )


def main() -> int:
    """Print everything; 1 if a bar is missed."""
    met = [generation(), maps(), bootstrap(), endpoint()]
    growth()
    print("bars:", "met" if all(met) else "MISSED")
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
