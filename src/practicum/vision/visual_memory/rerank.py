"""Re-ranking: a multimodal language model sees the query and its nearest rows, and decides.

Geirhos et al. 2025 put the 50 nearest images with their labels into the context of a large model
(88.5 % on ImageNet with them, 69.6 % without).  Off unless asked for: any
:class:`~practicum.models.chat.protocol.Chat` that takes images will do; a reply that names no class
of the neighbours leaves the vote as it was and is counted, never guessed at.
"""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from practicum.errors import InputError

if TYPE_CHECKING:
    from practicum.models.chat.protocol import Chat, Message
    from practicum.vision.visual_memory.explain import Explanation

TASK = (
    "Below are labelled images, the most similar first, and then one image without a label. "
    "Similarity may mislead: look at the images. Answer with the one label that fits the last "
    "image, in exactly the words used above, and nothing else."
)


@dataclass(frozen=True)
class Reranked:
    """What the language model made of a decision.

    Attributes
    ----------
    label : label
        Its answer, or the vote's where it gave none that can be used.
    used : bool
        Whether the label is the model's.
    reply : str
        What it said.

    Examples
    --------
    >>> Reranked("cat", True, "cat").label
    'cat'
    """

    label: Any
    used: bool
    reply: str


def rerank_messages(explanation: Explanation) -> list[Message]:
    """The conversation that asks for a label: neighbours with labels and pictures, then the query.

    Parameters
    ----------
    explanation : Explanation
        Of an image, from a memory that keeps thumbnails.

    Raises
    ------
    InputError
        There is no picture of the query or of a neighbour.

    Examples
    --------
    >>> from PIL import Image
    >>> from practicum.models.vision import get
    >>> from practicum.vision.visual_memory import VisualMemory
    >>> memory = VisualMemory(encoder=get("pixels", cache=None))
    >>> _ = memory.add(images=[Image.new("RGB", (9, 9), c) for c in ("red", "blue")],
    ...                labels=["red", "blue"])
    >>> found = rerank_messages(memory.explain(Image.new("RGB", (9, 9), "crimson")))
    >>> [part["type"] for part in found[0]["content"]]
    ['text', 'text', 'image_url', 'text', 'image_url', 'text', 'image_url']
    """
    if explanation.query is None or any(small is None for small in explanation.thumbnails):
        raise InputError(
            "re-ranking needs pictures of the query and of its neighbours",
            "ask with an image, of a memory to which images were added",
        )
    parts: list[dict[str, Any]] = [{"type": "text", "text": TASK}]
    for label, small in zip(explanation.table["label"], explanation.thumbnails, strict=True):
        parts += [{"type": "text", "text": f"Label: {label}"}, _part(small)]
    buffer = io.BytesIO()
    explanation.query.convert("RGB").save(buffer, "JPEG", quality=90)
    parts += [{"type": "text", "text": "The image without a label:"}, _part(buffer.getvalue())]
    return [{"role": "user", "content": parts}]


def _part(jpeg: bytes) -> dict[str, Any]:
    code = base64.b64encode(jpeg).decode()
    return {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{code}"}}


def rerank(explanation: Explanation, chat: Chat, max_tokens: int = 32) -> Reranked:
    """Ask a multimodal model for the label; the vote stands where its answer is none.

    Parameters
    ----------
    explanation : Explanation
    chat : Chat
        One that takes images.
    max_tokens : int

    Raises
    ------
    InputError
        See :func:`rerank_messages`.
    ChatError
        The model cannot be used.

    Examples
    --------
    >>> rerank.__name__
    'rerank'
    """
    reply = chat.reply(rerank_messages(explanation), max_tokens=max_tokens)
    said = reply.text.strip().strip(".\"'").casefold()
    labels = {str(label).casefold(): label for label in explanation.table["label"]}
    if reply.answered and said in labels:
        return Reranked(labels[said], True, reply.text)
    return Reranked(explanation.winner, False, reply.text or reply.error or "")
