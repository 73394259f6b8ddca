"""The embedding interface: known values, batching, the cache, the endpoint, bad texts."""

import json
import pickle
import sqlite3
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest

from practicum.errors import InputError, MissingExtra, PracticumError
from practicum.models.embed import (
    EmbeddingCache,
    Encoder,
    EndpointEncoder,
    FolderEncoder,
    FunctionEncoder,
    embed,
    minilm,
    resolve_encoder,
    unit_rows,
)


class Lengths(Encoder):
    """Counts its calls; a vector of the text's length; cuts at five characters."""

    name, batch_size = "lengths", 3

    def __init__(self, version="1"):
        self.version, self.batches = version, []

    @property
    def fingerprint(self):
        return f"lengths {self.version}"

    def encode(self, texts):
        self.batches.append(list(texts))
        return np.array([[len(t[:5]), 1.0] for t in texts]), np.array([len(t) > 5 for t in texts])


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "deep" / "embeddings.sqlite"


# --- the packaged model ---


def packaged():
    pytest.importorskip("transformers")
    pytest.importorskip("tokenizers")
    try:
        return minilm("cpu")
    except MissingExtra as error:
        pytest.skip(str(error))


def test_minilm_gives_the_published_similarities():
    """The example of sentence-transformers' front page, computed there with its own code."""
    texts = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
    x = embed(texts, packaged(), cache=False).vectors
    assert x.shape == (3, 384)
    assert x.dtype == np.float32
    published = [[1.0, 0.6660, 0.1046], [0.6660, 1.0, 0.1411], [0.1046, 0.1411, 1.0]]
    np.testing.assert_allclose(x @ x.T, published, atol=1e-4)


def test_minilm_does_not_depend_on_the_batch_and_counts_truncated_texts():
    texts = ["short", "a much longer text about nothing in particular", "word " * 400]
    together = embed(texts, packaged(), cache=False)
    alone = np.concatenate([embed([t], packaged(), cache=False).vectors for t in texts])
    np.testing.assert_allclose(together.vectors, alone, atol=1e-5)
    assert together.n_truncated == 1


def test_minilm_fingerprint_needs_no_torch():
    packaged()
    code = (
        "import sys; from practicum.models.embed import minilm; "
        "assert len(minilm().fingerprint) == 16; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# --- embedding ---


def test_order_is_kept_repetitions_are_embedded_once_and_batches_hold_one_length():
    model = Lengths()
    texts = ["ccc", "a", "bb", "a", "dddd", "eeeeeee"]
    made = embed(texts, model, cache=False)
    assert (made.vectors[:, 0] / made.vectors[:, 1]).round().tolist() == [3, 1, 2, 1, 4, 5]
    assert model.batches == [["a", "bb", "ccc"], ["dddd", "eeeeeee"]]
    assert (made.n_computed, made.n_truncated) == (5, 1)
    np.testing.assert_allclose(np.linalg.norm(made.vectors, axis=1), 1, rtol=1e-6)


def test_cache_answers_the_second_time_and_knows_the_model(cache):
    first = embed(["a", "toolong"], Lengths(), cache=cache)
    again, model = Lengths(), Lengths()
    second = embed(["toolong", "a", "new"], model, cache=cache)
    assert model.batches == [["new"]]
    np.testing.assert_array_equal(second.vectors[1], first.vectors[0])
    assert second.n_truncated == 1, "a cut text is counted from the cache too"
    other = Lengths("2")
    embed(["a"], other, cache=cache)
    assert other.batches == [["a"]]
    assert again.batches == []


def test_cache_holds_no_text(cache):
    embed(["a secret sentence"], Lengths(), cache=cache)
    assert b"secret" not in cache.read_bytes()


def test_interrupted_run_keeps_what_was_done(cache, monkeypatch):
    monkeypatch.setattr("practicum.models.embed.CHUNK", 2)

    class Breaks(Lengths):
        def encode(self, texts):
            if len(self.batches) == 2:
                raise KeyboardInterrupt
            return super().encode(texts)

    texts = [c * n for n in (1, 2) for c in "abc"]
    with pytest.raises(KeyboardInterrupt):
        embed(texts, Breaks(), cache=cache)
    model = Lengths()
    assert embed(texts, model, cache=cache).n_computed == 2
    assert sum(map(len, model.batches)) == 2


def test_processes_share_the_cache(cache):
    """Four at once, each wants all texts; nothing is lost and nothing locks."""
    code = """
import sys, numpy as np
from practicum.models.embed import FunctionEncoder, embed
slow = FunctionEncoder(lambda t: np.array([[len(x), 1.0] for x in t]), fingerprint="v1")
texts = [f"text {i}" * (1 + i % 7) for i in range(5000)]
print(embed(texts, slow, cache=sys.argv[1]).vectors.sum())
"""
    runs = [
        subprocess.Popen([sys.executable, "-c", code, cache], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    out = {run.communicate(timeout=60)[0] for run in runs}
    assert [run.returncode for run in runs] == [0] * 4
    assert len(out) == 1
    with sqlite3.connect(cache) as db:
        assert db.execute("SELECT count(*) FROM vectors").fetchone() == (5000,)


def test_functions_are_cached_only_under_a_fingerprint(cache):
    calls = []
    count = lambda texts: calls.append(1) or np.ones((len(texts), 2))  # noqa: E731
    for _ in range(2):
        embed(["a"], count, cache=cache)
    assert len(calls) == 2
    assert not cache.exists()
    for _ in range(2):
        embed(["a"], FunctionEncoder(count, fingerprint="v1"), cache=cache)
    assert len(calls) == 3


def test_progress_counts_texts():
    seen = []
    embed(["a", "b", "c", "d"], Lengths(), cache=False, progress=lambda *n: seen.append(n))
    assert seen == [(3, 4), (4, 4)]


def test_nothing_to_embed():
    assert len(embed([], Lengths(), cache=False).vectors) == 0


def test_cache_folder_is_the_users(monkeypatch, tmp_path):
    monkeypatch.setenv("PRACTICUM_CACHE", str(tmp_path))
    embed(["a"], Lengths())
    assert (tmp_path / "embeddings.sqlite").is_file()


# --- which encoder ---


def test_names_are_resolved(tmp_path):
    made = resolve_encoder("http://localhost:1234/v1#some-model")
    assert isinstance(made, EndpointEncoder)
    assert (made.url, made.model) == ("http://localhost:1234/v1", "some-model")
    with pytest.raises(InputError, match="names no model"):
        resolve_encoder("http://localhost:1234/v1")
    with pytest.raises(InputError, match="int"):
        resolve_encoder(3)
    assert isinstance(resolve_encoder("minilm"), FolderEncoder)


def test_other_models_need_sentence_transformers():
    try:
        import sentence_transformers  # noqa: F401
    except ImportError:
        with pytest.raises(MissingExtra, match="pip install sentence-transformers"):
            resolve_encoder("some-org/some-model")


def test_folder_without_its_files_is_refused(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(InputError, match=r"no config\.json"):
        resolve_encoder(tmp_path)


def test_folder_that_pools_otherwise_is_refused(tmp_path):
    for name in FolderEncoder.FILES:
        (tmp_path / name).write_text("{}")
    (tmp_path / "1_Pooling").mkdir()
    pooling = {"pooling_mode_max_tokens": True, "pooling_mode_mean_tokens": False}
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    with pytest.raises(InputError, match="pools by max_tokens"):
        FolderEncoder(tmp_path)


def _folder(path, pooling=None, modules=(), **files):
    for name in FolderEncoder.FILES:
        (path / name).write_text("{}")
    (path / "1_Pooling").mkdir()
    (path / "1_Pooling" / "config.json").write_text(json.dumps(pooling or {}))
    types = [{"type": f"sentence_transformers.models.{name}"} for name in modules]
    (path / "modules.json").write_text(json.dumps(types))
    for name, content in files.items():
        (path / f"{name}.json").write_text(json.dumps(content))
    return path


@pytest.mark.parametrize("mode", ["cls", ["cls"]])
def test_the_pooling_that_newer_versions_write_is_read(tmp_path, mode):
    """sentence-transformers 6 names the mode; its folder is not one of the mean."""
    assert FolderEncoder(_folder(tmp_path, {"pooling_mode": mode})).first_token


@pytest.mark.parametrize("mode", ["lasttoken", ["cls", "mean"]])
def test_other_poolings_of_newer_versions_are_refused(tmp_path, mode):
    with pytest.raises(InputError, match="pools by"):
        FolderEncoder(_folder(tmp_path, {"pooling_mode": mode}))


def test_a_folder_with_a_further_layer_is_refused(tmp_path):
    """Without its dense layer the vectors would be those of another model."""
    modules = ("Transformer", "Pooling", "Dense", "Normalize")
    with pytest.raises(InputError, match="Dense"):
        FolderEncoder(_folder(tmp_path, {"pooling_mode_mean_tokens": True}, modules))


def test_the_limit_is_the_tokenizers_where_the_folder_names_none(tmp_path):
    """RoBERTa has 514 positions and takes 512 tokens."""
    where = _folder(
        tmp_path,
        config={"max_position_embeddings": 514},
        tokenizer_config={"model_max_length": 512},
    )
    assert FolderEncoder(where).max_tokens == 512


# --- an endpoint ---


@pytest.fixture
def server():
    pytest.importorskip("openai")
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append((self.path, self.headers["Authorization"], body))
            status = 404 if body["model"] == "absent" else 200
            data = [  # out of order on purpose
                {"object": "embedding", "index": i, "embedding": [float(len(t)), 1.0]}
                for i, t in reversed(list(enumerate(body["input"])))
            ]
            usage = {"prompt_tokens": 1, "total_tokens": 1}
            reply = {"object": "list", "data": data, "model": body["model"], "usage": usage}
            if status != 200:
                reply = {"error": {"message": "no such model"}}
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(reply).encode())

        def log_message(self, *args):
            pass

    made = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{made.server_port}/v1", asked
    made.shutdown()


def test_endpoint_is_asked_in_batches_with_the_key_from_the_environment(server, monkeypatch, cache):
    url, asked = server
    monkeypatch.setenv("MY_KEY", "sk-very-secret")
    model = EndpointEncoder(url, "m", key_env="MY_KEY", max_characters=4, batch_size=2)
    made = embed(["a", "bbb", "cccccc"], model, cache=cache)
    assert (made.vectors[:, 0] / made.vectors[:, 1]).round().tolist() == [1, 3, 4]
    assert made.n_truncated == 1
    assert [len(body["input"]) for _, _, body in asked] == [2, 1]
    assert asked[0][:2] == ("/v1/embeddings", "Bearer sk-very-secret")
    assert b"sk-very-secret" not in cache.read_bytes()
    assert "secret" not in model.fingerprint


def test_endpoint_that_refuses_is_one_line(server):
    url, _ = server
    with pytest.raises(PracticumError, match=r"absent: .*no such model"):
        embed(["a"], EndpointEncoder(url, "absent"), cache=False)


def test_endpoint_that_is_not_there_is_one_line(monkeypatch):
    model = EndpointEncoder("http://127.0.0.1:9/v1", "m")
    monkeypatch.setattr(
        EndpointEncoder, "_client", _client_without_retries("http://127.0.0.1:9/v1")
    )
    with pytest.raises(PracticumError, match="is the server up"):
        embed(["a"], model, cache=False)


def _client_without_retries(url):
    openai = pytest.importorskip("openai")
    return openai.OpenAI(base_url=url, api_key="none", max_retries=0, timeout=5)


def test_endpoint_on_this_machine_is_asked_without_the_proxy(server, monkeypatch):
    """A proxy of the environment cannot reach it."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert embed(["a"], EndpointEncoder(server[0], "m"), cache=False).vectors.shape == (1, 2)


def test_endpoint_goes_to_workers_after_it_was_asked(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    model = EndpointEncoder(server[0], "m")
    first = embed(["a"], model, cache=False).vectors
    text = pickle.dumps(model)
    assert b"secret" not in text
    assert (embed(["a"], pickle.loads(text), cache=False).vectors == first).all()


def test_endpoint_that_repeats_the_key_does_not_bring_it_into_the_error(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "no such model")  # what this server's error says
    with pytest.raises(PracticumError) as caught:
        embed(["a"], EndpointEncoder(server[0], "absent"), cache=False)
    assert "[key]" in caught.value.message
    assert "no such model" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("url", ["ftp://x/v1", "localhost", "http://user:word@host/v1"])
def test_refuses_urls_that_are_none_or_hold_a_password(url):
    with pytest.raises(InputError):
        EndpointEncoder(url, "m")


# --- bad input ---


@pytest.mark.parametrize(
    ("texts", "wanted"),
    [
        (["a", ""], "text 1 is an empty text; 1 of 2"),
        (["  ", "a", "\n"], "numbers 0, 2"),
        ([float("nan"), "a"], "nan, not a text"),
        ([None], "None, not a text"),
        ("one string", "a list of strings"),
    ],
)
def test_refuses_texts_that_are_none(texts, wanted):
    with pytest.raises(InputError, match=wanted):
        embed(texts, Lengths(), cache=False)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (lambda texts: np.ones(len(texts)), "shape"),
        (lambda texts: np.ones((len(texts) + 1, 2)), "shape"),
        (lambda texts: np.zeros((len(texts), 2)), "is zero"),
        (lambda texts: np.full((len(texts), 2), np.nan), "not finite"),
    ],
)
def test_refuses_encoders_that_return_no_vectors(value, wanted):
    with pytest.raises(InputError, match=wanted):
        embed(["a", "b"], value, cache=False)


def test_refuses_a_cache_that_is_something_else(tmp_path):
    path = tmp_path / "embeddings.sqlite"
    path.write_bytes(b"this is no database at all" * 100)
    with pytest.raises(PracticumError, match="PRACTICUM_CACHE"):
        EmbeddingCache(path, "x")


def test_unit_rows_names_the_row():
    with pytest.raises(InputError, match="row 1 is zero"):
        unit_rows(np.array([[1.0, 0.0], [0.0, 0.0]]))
