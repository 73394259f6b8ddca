"""The key appears nowhere but in the header of a request."""

import logging
import pickle
import traceback

import faulty_endpoint as f
import pytest

from practicum.errors import ChatError
from practicum.models.chat import CachedChat, OpenAIChat, ReplayChat, Request

ASK = [Request([{"role": "user", "content": str(n)}]) for n in range(3)]


def everything_said(error):
    return "".join(traceback.format_exception(error)) + repr(vars(error)) + repr(error.args)


@pytest.mark.parametrize("level", ["all succeed", "wrong key", "fails for good", "refused"])
def test_key_is_in_no_file_error_repr_pickle_or_log(faults, key, tmp_path, caplog, capfd, level):
    """The endpoint itself repeats the key in every message, as some do."""
    caplog.set_level(logging.DEBUG)
    for name in ("openai", "httpx", "httpx2", "httpcore", "httpcore2"):
        caplog.set_level(logging.DEBUG, logger=name)
    if level != "all succeed":
        code = {"wrong key": 401, "fails for good": 500, "refused": 400}[level]
        faults.otherwise = f.status(code, f"bad request with Bearer {key} in it")
    endpoint = OpenAIChat(faults.url, "my-model", retries=1, backoff_s=0.01)
    recording = ReplayChat(tmp_path / "r.jsonl", "record", endpoint)
    said = []
    with CachedChat(recording, tmp_path / "c.sqlite") as chat:
        try:
            replies = chat.replies(ASK)
            said.append(repr(replies))
        except ChatError as error:
            said.append(everything_said(error))
        said += [repr(chat), repr(endpoint), str(chat.report()), repr(chat.report())]
        said += [endpoint.identity, repr(endpoint.__getstate__()), repr(vars(endpoint))]
        said.append(pickle.dumps(endpoint).decode("latin-1"))
        written = [path for path in tmp_path.iterdir() if path.suffix != ".sqlite-shm"]
        said += [path.read_bytes().decode("latin-1") for path in written]
    said += [path.read_bytes().decode("latin-1") for path in tmp_path.iterdir()]
    said += [record.getMessage() for record in caplog.records]
    said += [repr(vars(record)) for record in caplog.records]
    said += capfd.readouterr()
    sent = [headers["authorization"] for _, headers, _ in faults.seen]
    assert set(sent) == {f"Bearer {key}"}  # it was there to be found
    assert caplog.records
    assert not [text[:300] for text in said if key in text]


def test_key_is_no_local_variable_of_a_traceback(faults, key):
    """Programs that log the variables of each frame (Sentry, rich) must not find it."""
    faults.otherwise = f.status(401, "no")
    with OpenAIChat(faults.url, "m") as chat, pytest.raises(ChatError) as caught:
        chat.replies(ASK)
    error = caught.value
    assert error.__cause__ is None
    assert error.__suppress_context__
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    ours = [frame for frame in frames if "practicum" in frame.f_code.co_filename]
    found = [(x.f_code.co_name, n) for x in ours for n, v in x.f_locals.items() if key in repr(v)]
    assert not found
