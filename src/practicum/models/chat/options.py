"""The options by which every command of a language method names its model.

A command takes them as they are and opens the model in one line::

    @app.command()
    def run(
        model: ModelOption = "local",
        endpoint: EndpointOption = None,
        api_key_env: ApiKeyEnvOption = "OPENAI_API_KEY",
        concurrency: ConcurrencyOption = 8,
        cache: CacheOption = "default",
    ) -> None:
        with open_chat(model, endpoint=endpoint, cache=cache, api_key_env=api_key_env,
                       concurrency=concurrency) as chat:
            ...
            print(chat.report())
"""

from __future__ import annotations

from typing import Annotated

import typer

EndpointOption = Annotated[
    str | None,
    typer.Option(
        "--endpoint", help="OpenAI-compatible endpoint, for example http://127.0.0.1:8000/v1."
    ),
]
ModelOption = Annotated[
    str,
    typer.Option(
        "--model",
        help="With --endpoint the model's name there; else local (SmolLM2-135M), gguf:FILE, "
        "hf:FOLDER or replay:FILE.",
    ),
]
ApiKeyEnvOption = Annotated[
    str,
    typer.Option(
        "--api-key-env", help="Name of the environment variable that holds the endpoint's key."
    ),
]
ConcurrencyOption = Annotated[
    int, typer.Option("--concurrency", min=1, help="Requests to the endpoint under way at once.")
]
CacheOption = Annotated[
    str,
    typer.Option(
        "--cache",
        help="Where replies are kept: default (shared by all runs), none, or an SQLite file.",
    ),
]
