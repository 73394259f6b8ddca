"""An endpoint on loopback that fails on demand, in every way we have seen endpoints fail."""

import json
import threading
import time
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FaultyEndpoint:
    """Plays a script, one fault a request; then it answers.

    A fault is a function of the handler. `seen` holds what was asked and when.
    """

    def __init__(self):
        self.script = deque()
        self.otherwise = answer("4")
        self.models = ["my-model", "other-model"]
        self.seen = []
        self.under_way = self.most_under_way = 0
        self.lock = threading.Lock()
        faults = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # head and body in one packet: else the kernel waits 40 ms between them

            def do_GET(self):
                data = [{"id": name, "max_model_len": 2048} for name in faults.models]
                reply(self, 200, {"object": "list", "data": data})

            def do_POST(self):
                faults.play(self)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.handle_error = lambda *_: None  # clients leave in mid-reply: that is meant
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def play(self, handler):
        body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        with self.lock:
            self.seen.append(
                (time.monotonic(), {k.lower(): v for k, v in handler.headers.items()}, body)
            )
            fault = self.script.popleft() if self.script else self.otherwise
            self.under_way += 1
            self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            fault(handler, body)
        finally:
            with self.lock:
                self.under_way -= 1

    @property
    def times(self):
        return [at for at, _, _ in self.seen]

    @property
    def bodies(self):
        return [body for _, _, body in self.seen]

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def reply(handler, status, body, headers=()):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    handler.send_response(status)
    for name, value in dict(headers).items():
        handler.send_header(name, value)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


def completion(text, **message):
    return {
        "id": "c",
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": text, **message},
            }
        ],
        "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
    }


def answer(text):
    return lambda handler, _: reply(handler, 200, completion(text))


def echo(handler, body):
    """The last message comes back after a moment."""
    time.sleep(0.02)
    reply(handler, 200, completion(body["messages"][-1]["content"]))


def status(number, message="no", headers=(), **fields):
    return lambda handler, _: reply(
        handler, number, {"error": {"message": message, **fields}}, headers
    )


def truncated(handler, _):
    """Whole as HTTP, cut as JSON."""
    reply(handler, 200, json.dumps(completion("4")).encode()[:60])


def not_json(handler, _):
    reply(handler, 200, b"<html>Bad gateway</html>")


def no_choices(handler, _):
    reply(handler, 200, {"choices": None})


def drop(handler, _):
    """The connection ends before a word of reply."""
    handler.close_connection = True
    handler.connection.close()


def cut_body(handler, _):
    """The connection ends within the body."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [')
    handler.wfile.flush()
    handler.close_connection = True
    handler.connection.close()


def dribble(handler, _):
    """Never silent for long, never done."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    for _ in range(40):
        handler.wfile.write(b" ")
        handler.wfile.flush()
        time.sleep(0.05)
    handler.close_connection = True


def slow(seconds):
    def wait(handler, _):
        time.sleep(seconds)
        reply(handler, 200, completion("late"))

    return wait
