"""Re-ranking by a language model that sees the neighbours."""

import numpy as np
import pytest
from PIL import Image

from practicum.errors import InputError
from practicum.models.chat.protocol import Chat, Reply
from practicum.models.vision import get
from practicum.vision.visual_memory import VisualMemory, rerank, rerank_messages


class Says(Chat):
    """Answers always the same, and keeps what it was asked."""

    name = "says"

    def __init__(self, text, **more):
        self.answer, self.asked = Reply(text, **more), []

    def replies(self, requests):
        self.asked += requests
        return [self.answer for _ in requests]


@pytest.fixture
def explanation():
    memory = VisualMemory(encoder=get("pixels", cache=None))
    colours = ["red", "darkred", "blue"]
    memory.add(images=[Image.new("RGB", (9, 9), c) for c in colours], labels=["Red", "Red", "Blue"])
    return memory.explain(Image.new("RGB", (9, 9), "tomato"), k=3)


def test_the_model_decides(explanation):
    chat = Says(' "blue". ')
    found = rerank(explanation, chat)
    assert (found.label, found.used) == ("Blue", True)
    parts = chat.asked[0].messages[0]["content"]
    assert sum(part["type"] == "image_url" for part in parts) == 4
    assert [p["text"] for p in parts if p["type"] == "text"][1] == "Label: Red"


def test_an_answer_that_is_none_leaves_the_vote(explanation):
    assert rerank(explanation, Says("a green one")).label == "Red"
    assert not rerank(explanation, Says("a green one")).used
    failed = rerank(explanation, Says("", finish_reason="error", error="timed out"))
    assert (failed.label, failed.used, failed.reply) == ("Red", False, "timed out")


def test_bad_input_without_pictures_is_refused():
    memory = VisualMemory()
    memory.add(np.eye(2), labels=["a", "b"])
    with pytest.raises(InputError, match="needs pictures"):
        rerank_messages(memory.explain(np.ones(2), k=1))
