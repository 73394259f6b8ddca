"""What every endpoint needs: whether it is this machine, and messages without the key."""

from __future__ import annotations

import ipaddress
import os
from urllib.parse import urlsplit


def is_loopback(url: str) -> bool:
    """Whether a URL leads to this machine, which no proxy of the environment can reach.

    Examples
    --------
    >>> is_loopback("http://127.0.0.1:8000/v1"), is_loopback("https://api.openai.com/v1")
    (True, False)
    """
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def without_key(text: str, variable: str) -> str:
    """No server's message brings the key in this environment variable into an error or a log."""
    key = os.environ.get(variable, "").strip()
    return text.replace(key, "[key]") if key else text
