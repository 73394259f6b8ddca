"""The page's home over stores of 1,000 to 100,000 trials, asked of a real server on loopback.

Thirteen runs, a method each, share the trials. The server is started anew for every store; its
first answer and the median of the 20 that follow are told. Exits with status 1 when one of them
takes 150 ms or more over 100,000 trials.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import http.client
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from practicum import catalog
from practicum.study.evidence import Verdict
from practicum.study.spec import Outcome, Trial
from practicum.study.store import Store

BAR_MS = 150
SIZES = (1_000, 10_000, 100_000)
TOKEN = "a-token-of-the-benchmark"


def fill(path, n):
    """A store of n trials in a run a method."""
    slugs = list(catalog.methods())
    with Store(path) as store:
        for i, slug in enumerate(slugs):
            keys = [f"{slug}-{j}" for j in range(i, n, len(slugs))]
            trials = [Trial(slug, "made", "arm", seed) for seed in range(len(keys))]
            metrics = {"error": 0.5, "seconds": 1.25}
            store.add([(k, Outcome(t, metrics, {}, 0.1)) for k, t in zip(keys, trials)])
            run = store.begin(slug, "verify", "cpu", {}, {"machine": "made"}, keys)
            claims = [claim.id for claim in catalog.get(slug).card.claims]
            store.judge(run, dict.fromkeys(claims, Verdict("reproduced", "made")))
            store.end(run, "done")


def ask(port, path, cookie=""):
    """One GET: milliseconds, and what came."""
    start = time.perf_counter()
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    line.request("GET", path, headers={"Cookie": cookie} if cookie else {})
    answer = line.getresponse()
    body = answer.read()
    line.close()
    return 1e3 * (time.perf_counter() - start), answer, body


def measure(path):
    """First answer and median of 20 more, in milliseconds."""
    command = [sys.executable, "-m", "practicum.web", "--no-browser", "--port", "0"]
    command += ["--store", str(path), "--root", str(path.parent), "--state", str(path.parent / "s")]
    env = {**os.environ, "PRACTICUM_TOKEN": TOKEN}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as server:
        try:
            port = int(re.search(r":(\d+)/", server.stdout.readline())[1])
            _, answer, _ = ask(port, f"/?token={TOKEN}")
            cookie = answer.getheader("Set-Cookie").split(";")[0]
            first, answer, body = ask(port, "/", cookie)
            assert b"cmi-test" in body, answer.status
            later = [ask(port, "/", cookie)[0] for _ in range(20)]
        finally:
            server.terminate()
    return first, statistics.median(later), len(body)


def main():
    took = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for n in SIZES:
            path = Path(folder) / str(n) / "store.sqlite"
            path.parent.mkdir()
            fill(path, n)
            first, later, size = measure(path)
            took = max(first, later)
            print(
                f"home page over {n:>7,} trials: first answer {first:6.1f} ms,"
                f" median of 20 more {later:6.1f} ms, {size / 1e3:.0f} kB"
            )
    if took >= BAR_MS:
        print(f"MISSED: {took:.0f} ms over {SIZES[-1]:,} trials (bar {BAR_MS} ms)")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
