"""models.chat against what people write instead, on one stub endpoint in another process.

1. Requests a second: `OpenAIChat` against the sync client in a loop, and against asyncio.gather
   over the async client, bounded alike and unbounded. The stub answers after 50 ms.
2. Cache hits a second: `CachedChat` against joblib.Memory around the same function.

Growth: requests cost a constant each on the client; the wall time of n is about
n (latency / concurrency), or n (client's CPU per request) where that is larger. Cache hits are
one indexed lookup each.
"""

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time

import joblib
import openai

from practicum.models.chat import CachedChat, FunctionChat, OpenAIChat, Reply, Request, Usage

LATENCY_S = 0.05
REPEATS = 3

STUB = f"""
import asyncio, json
BODY = json.dumps({{
    "id": "c", "object": "chat.completion", "created": 0, "model": "m",
    "choices": [{{"index": 0, "finish_reason": "stop",
                 "message": {{"role": "assistant", "content": "4"}}}}],
    "usage": {{"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}},
}}).encode()
HEAD = b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nContent-Length: %d\\r\\n\\r\\n"

async def serve(reader, writer):
    try:
        while True:
            head = await reader.readuntil(b"\\r\\n\\r\\n")
            length = next(int(line.split(b":")[1]) for line in head.split(b"\\r\\n")
                          if line.lower().startswith(b"content-length"))
            await reader.readexactly(length)
            await asyncio.sleep({LATENCY_S})
            writer.write(HEAD % len(BODY) + BODY)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=1000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""


def messages(n):
    return [[{"role": "user", "content": f"What is 2 + {i}?"}] for i in range(n)]


def seconds(work):
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def loop(url, asks):
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
        for ask in asks:
            client.chat.completions.create(model="m", messages=ask, max_tokens=8, temperature=0)


def gather(url, asks, bound):
    async def main():
        slots = asyncio.Semaphore(bound)
        async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:

            async def one(ask):
                async with slots:
                    return await client.chat.completions.create(
                        model="m", messages=ask, max_tokens=8, temperature=0
                    )

            await asyncio.gather(*map(one, asks))

    asyncio.run(main())


def ours(url, asks, concurrency):
    with OpenAIChat(url, "m", concurrency=concurrency) as chat:
        replies = chat.replies([Request(ask, max_tokens=8) for ask in asks])
    assert all(reply.text == "4" for reply in replies)


def requests_per_second(url):
    """Median over rounds of each way on the same requests, the ways taken in turn."""
    n = 400
    ways = {
        "loop over openai.OpenAI": lambda: loop(url, messages(n // 8)),
        "asyncio.gather, 8 at once": lambda: gather(url, messages(n), 8),
        "OpenAIChat, 8 at once": lambda: ours(url, messages(n), 8),
        "asyncio.gather, 64 at once": lambda: gather(url, messages(n), 64),
        "OpenAIChat, 64 at once": lambda: ours(url, messages(n), 64),
        "asyncio.gather, all at once": lambda: gather(url, messages(n), n),
    }
    taken = {name: [] for name in ways}
    for _ in range(REPEATS):
        for name, way in ways.items():
            taken[name].append(seconds(way))
    rates = {
        name: (n // 8 if name.startswith("loop") else n) / statistics.median(times)
        for name, times in taken.items()
    }
    print(f"requests a second (endpoint answers after {LATENCY_S * 1000:.0f} ms)")
    for name, rate in rates.items():
        ratio = rate / rates["loop over openai.OpenAI"]
        print(f"  {name:30} {rate:8.0f}   {ratio:5.1f} x the loop")
    return rates


def growth(url):
    print("wall time of OpenAIChat, 8 at once, by the number of requests")
    for n in (100, 200, 400, 800):
        took = seconds(lambda n=n: ours(url, messages(n), 8))
        print(f"  {n:5} requests {took:6.2f} s   {1000 * took / n:5.2f} ms each")


def hits_per_second():
    """The same 4,000 replies found again by CachedChat and by joblib.Memory."""
    n = 4000
    asks = [Request(ask, max_tokens=8) for ask in messages(n)]
    with tempfile.TemporaryDirectory() as folder:
        model = FunctionChat(lambda request: Reply("4", Usage(10, 1)), "m")
        with CachedChat(model, f"{folder}/chat.sqlite") as chat:
            chat.replies(asks)
            one_by_one = seconds(lambda: [chat.replies([ask]) for ask in asks])
            batch = seconds(lambda: chat.replies(asks))
            assert chat.report().from_cache == 2 * n
        remembered = joblib.Memory(folder, verbose=0).cache(answer)
        few = messages(n // 8)  # joblib is slower: an eighth is enough
        for ask in few:
            remembered(ask, 8, 0.0)
        peer = seconds(lambda: [remembered(ask, 8, 0.0) for ask in few])
    rates = {
        "joblib.Memory": len(few) / peer,
        "CachedChat, one by one": n / one_by_one,
        "CachedChat, as a batch": n / batch,
    }
    print("cache hits a second")
    for name, rate in rates.items():
        print(f"  {name:30} {rate:8.0f}   {rate / rates['joblib.Memory']:5.1f} x joblib.Memory")
    return rates


def answer(messages, max_tokens, temperature):
    return "4"


def main():
    stub = subprocess.Popen([sys.executable, "-c", STUB], stdout=subprocess.PIPE, text=True)
    try:
        url = f"http://127.0.0.1:{int(stub.stdout.readline())}/v1"
        rates = requests_per_second(url)
        growth(url)
    finally:
        stub.terminate()
        stub.wait()
    hits = hits_per_second()
    bars = {
        "at least 5 x the loop": rates["OpenAIChat, 8 at once"]
        >= 5 * rates["loop over openai.OpenAI"],
        "no slower than gather with the same bound (10 % for noise)": rates["OpenAIChat, 8 at once"]
        >= 0.9 * rates["asyncio.gather, 8 at once"],
        "cache hits faster than joblib.Memory": hits["CachedChat, one by one"]
        >= hits["joblib.Memory"],
    }
    for bar, met in bars.items():
        print(f"{'met' if met else 'MISSED'}: {bar}")
    sys.exit(not all(bars.values()))


if __name__ == "__main__":
    main()
