"""Contrast, labels, landmarks: what can be checked without a browser."""

import re
from importlib import resources

import pytest

CSS = (resources.files("practicum.web") / "static" / "style.css").read_text()
PAIRS = [
    ("ink", "paper"),
    ("ink", "card"),
    ("soft", "paper"),
    ("soft", "card"),
    ("accent", "paper"),
    ("accent", "card"),
    ("on-accent", "accent"),
    ("paper", "ink"),
    ("good", "goodbg"),
    ("good", "paper"),
    ("bad", "badbg"),
    ("bad", "paper"),
    ("bad", "card"),
    ("mid", "midbg"),
    ("mid", "paper"),
    ("none", "nonebg"),
]


def colours(scheme):
    blocks = re.findall(r":root \{(.*?)\}", CSS, re.S)
    return dict(re.findall(r"--([\w-]+): (#\w+)", blocks[scheme]))


def luminance(colour):
    digits = colour[1:] if len(colour) == 7 else "".join(2 * c for c in colour[1:])
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    r, g, b = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(a, b):
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_computed_as_wcag_says():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#fff") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("ink", "ground"), PAIRS)
def test_text_can_be_read(scheme, ink, ground):
    found = colours(scheme)
    assert contrast(found[ink], found[ground]) >= 4.5


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_the_edges_of_fields_can_be_seen(scheme):
    found = colours(scheme)
    assert contrast(found["edge"], found["paper"]) >= 3


@pytest.mark.parametrize(
    "path", ["/", "/file", "/runs", "/methods/coin", "/methods/coin/compare?path=mine.csv", "/no"]
)
def test_landmarks_and_labels(owner, path):
    html = owner.get(path).text
    for once in ("<h1", "<main", "<header", "<footer", '<html lang="en"', 'href="#main"'):
        assert html.count(once) == 1, once
    ids = re.findall(r'\sid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    fields = re.findall(r"<(?:input|select)\b[^>]*>", html)
    inside = " ".join(re.findall(r"<label>.*?</label>", html, re.S))
    for field in fields:
        named = re.search(r'\sid="([^"]+)"', field)
        labelled = named and f'for="{named[1]}"' in html
        assert labelled or field in inside or "aria-label" in field or "hidden" in field, field


def test_third_party_files_have_their_licence():
    static = resources.files("practicum.web") / "static"
    notice = (static / "NOTICE").read_text()
    for name in [p.name for p in static.iterdir() if p.name.endswith(".min.js")]:
        assert name in notice
