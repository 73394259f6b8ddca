"""Language models behind one protocol: messages in, replies with their cost out.

One conversation or a batch goes in, replies come out in order, with the tokens they took, the
reason they ended and, where asked for, the log-probability of every token. A request that got no
answer after all retries is a :class:`Reply` with ``finish_reason="error"``, to be counted apart
from wrong answers; a model that cannot be used at all raises
:class:`~practicum.errors.ChatError`.

=================  ==============================================================================
`OpenAIChat`       any OpenAI-compatible endpoint: vLLM, Ollama, llama.cpp, hosted
`LocalChat`        the packaged SmolLM2-135M, or any GGUF, in this process
`HFChat`           a local Hugging Face folder; attention maps and hidden states on request
`ReplayChat`       recorded replies: the same numbers in any process, without a model
`FunctionChat`     a Python function in a model's place
`CachedChat`       any of these with an on-disk cache; `report()` says what a run has cost
`open_chat`        any of these from a command line's words; `options` are the words
`ChatServer`       an endpoint on this machine (``python -m practicum.models.chat.serve``)
=================  ==============================================================================

Examples
--------
>>> from practicum.models.chat import CachedChat, FunctionChat, Request
>>> model = FunctionChat(lambda request: str(len(request.messages[-1]["content"])), "counter")
>>> with CachedChat(model, ":memory:") as chat:
...     ask = [Request([{"role": "user", "content": text}]) for text in ("a", "bb", "a")]
...     print([reply.text for reply in chat.replies(ask)], chat.report().hit_rate)
['1', '2', '1'] 0.3333333333333333
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["options"],
    submod_attrs={
        "cache": ["CachedChat", "CountedChat", "Report"],
        "endpoint": ["OpenAIChat"],
        "huggingface": ["Activations", "HFChat"],
        "images": ["image_part"],
        "local": ["LocalChat"],
        "opening": ["open_chat"],
        "protocol": ["Chat", "Message", "Reply", "Request", "Usage"],
        "replay": ["FunctionChat", "ReplayChat"],
        "serve": ["ChatServer"],
    },
)
