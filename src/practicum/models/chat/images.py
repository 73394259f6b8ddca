"""Images in messages."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from practicum.errors import InputError

STARTS = {  # what a file begins with -> its media type
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


def image_part(image: str | Path | bytes, detail: str | None = None) -> dict[str, Any]:
    """An image as part of a message's content, its bytes in a data URL.

    Parameters
    ----------
    image : str, Path or bytes
        A PNG, JPEG, GIF or WebP file or its bytes; an ``http(s)`` URL is handed on as it is, for
        the endpoint to fetch.
    detail : {"low", "high", "auto"}, optional
        How closely to look, for endpoints that know the word.

    Raises
    ------
    InputError
        No such file, or not an image of these kinds.

    Examples
    --------
    >>> part = image_part(b"GIF89a...")
    >>> part["image_url"]["url"]
    'data:image/gif;base64,R0lGODlhLi4u'
    >>> message = {"role": "user", "content": [{"type": "text", "text": "What is this?"}, part]}
    """
    if isinstance(image, str) and image.startswith(("http://", "https://", "data:image/")):
        url = image
    else:
        url = _data_url(image)
    return {"type": "image_url", "image_url": {"url": url} | ({"detail": detail} if detail else {})}


def _data_url(image: str | Path | bytes) -> str:
    if isinstance(image, bytes):
        content, named = image, "the image"
    else:
        path = Path(image).expanduser()
        named = str(path)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    kind = next((kind for start, kind in STARTS.items() if content.startswith(start)), None)
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        kind = "image/webp"
    if kind is None:
        raise InputError(f"{named} is not a PNG, JPEG, GIF or WebP", "convert it to one of these")
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
