"""One event loop in a thread of its own: asynchronous work for callers who are not."""

from __future__ import annotations

import asyncio
import os
import queue
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any


class LoopThread:
    """An event loop that runs in a daemon thread until it is closed or forgotten.

    Notebooks run a loop already and forbid a second one in their thread; this one is elsewhere.

    Examples
    --------
    >>> import asyncio
    >>> loop = LoopThread()
    >>> loop.run(asyncio.sleep(0, "done"))
    'done'
    >>> loop.close()
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        thread = threading.Thread(target=self._loop.run_forever, name="practicum-chat", daemon=True)
        thread.start()
        # the thread knows the loop, not this object: forgetting it ends both
        self.close = weakref.finalize(self, _end, self._loop, thread, os.getpid())

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Wait for one coroutine; an interrupt cancels it."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        finally:
            future.cancel()

    def iterate(self, work: Callable[[], AsyncIterator[Any]]) -> Iterator[Any]:
        """The items of an asynchronous generator as they come; leaving early cancels it."""
        arrived: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()

        async def forward() -> None:
            async for item in work():
                arrived.put(("item", item))

        future = asyncio.run_coroutine_threadsafe(forward(), self._loop)
        future.add_done_callback(lambda _: arrived.put(("end", None)))
        try:
            while (found := arrived.get())[0] == "item":
                yield found[1]
            future.result()
        finally:
            future.cancel()


def _end(loop: asyncio.AbstractEventLoop, thread: threading.Thread, process: int) -> None:
    if os.getpid() != process:
        return  # a fork shares the loop's descriptors: closing them here stops it over there
    loop.call_soon_threadsafe(loop.stop)
    if thread is not threading.current_thread():
        thread.join(timeout=5)
    if not thread.is_alive():
        loop.close()
