"""Who may ask what."""

import re

import pytest

from practicum.web.gate import HEADERS

from .conftest import HOME, TOKEN

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
WRITES = ["/methods/coin/verify", "/methods/coin/compare", "/upload?name=a.csv"]


def test_without_a_token_there_is_nothing_to_see(stranger):
    for path in ("/", "/runs", "/methods/coin", "/file?path=mine.csv", "/jobs/x/log", "/nothing"):
        answer = stranger.get(path)
        assert answer.status_code == 403
        assert "coin" not in answer.text


@pytest.mark.parametrize("token", ["", "wrong", TOKEN[:-1], TOKEN + "x", "é"])
def test_a_wrong_token_opens_nothing(stranger, token):
    answer = stranger.get("/", params={"token": token})
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


def test_the_token_becomes_a_strict_cookie_and_leaves_the_address(stranger):
    answer = stranger.get(f"/runs?token={TOKEN}&slug=coin")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert TOKEN not in cookie
    assert re.search(r'content="0;url=(.*?)"', answer.text)[1] == "/runs?slug=coin"
    assert stranger.get("/runs?slug=coin").status_code == 200


def test_the_way_on_from_the_token_stays_here(stranger):
    answer = stranger.get(f"{HOME}//evil.example/x?token={TOKEN}")
    assert 'url=/evil.example/x"' in answer.text


def test_a_cookie_of_another_server_is_none(stranger):
    stranger.cookies.set("practicum-8765", "0" * 64)
    assert stranger.get("/").status_code == 403


def test_a_token_does_not_write(stranger):
    answer = stranger.post(
        f"/methods/coin/verify?token={TOKEN}", headers={"Origin": HOME}, data={"scale": "smoke"}
    )
    assert answer.status_code == 403


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8765", "127.0.0.1:80", ""])
def test_a_name_that_only_points_here_is_refused(owner, host):
    assert owner.get("/", headers={"Host": host}).status_code == 400
    assert owner.get("/static/style.css", headers={"Host": host}).status_code == 400


@pytest.mark.parametrize("host", ["localhost:8765", "127.0.0.1:8765", "[::1]:8765"])
def test_this_machine_has_three_names(stranger, host):
    assert stranger.get("/", headers={"Host": host}).status_code == 403  # known, but no cookie


@pytest.mark.parametrize("path", WRITES)
@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "http://127.0.0.1:9999", "https://127.0.0.1:8765", None],
)
def test_a_write_must_come_from_here(owner, site, path, origin):
    headers = {**FORM, "Origin": origin} if origin else FORM
    if origin is None:
        del owner.headers["Origin"]
    assert owner.post(path, content="scale=smoke", headers=headers).status_code == 403
    assert not site.jobs.known


def test_what_a_browser_calls_cross_site_is_refused(owner):
    answer = owner.post(WRITES[0], content="", headers={**FORM, "Sec-Fetch-Site": "same-site"})
    assert answer.status_code == 403


def test_a_get_changes_nothing(owner, site):
    for path in ("/methods/coin/verify", "/upload", "/jobs/x/cancel"):
        assert owner.get(path).status_code in (404, 405)
    assert not site.jobs.known


def test_a_form_is_small(owner):
    answer = owner.post(WRITES[0], content=b"x" * (1 << 21), headers=FORM)
    assert answer.status_code == 413


def test_every_answer_carries_the_policy(owner, stranger):
    answers = [
        owner.get("/"),
        owner.get("/nothing"),
        owner.get("/static/page.js"),
        owner.get("/static/plotly.min.js"),
        stranger.get("/runs"),
        stranger.get("/", headers={"Host": "evil.example"}),
    ]
    for answer in answers:
        for name, value in HEADERS.items():
            assert answer.headers[name] == value
    assert "unsafe" not in HEADERS["Content-Security-Policy"]


def test_pages_are_not_kept_by_the_browser(owner):
    assert owner.get("/").headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("path", ["/", "/file", "/runs", "/methods/coin", "/nothing"])
def test_no_page_has_a_script_or_style_in_it_or_from_elsewhere(owner, path):
    html = owner.get(path).text
    assert not re.search(r"<script(?![^>]*\bsrc=)(?![^>]*application/json)", html)
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", html)
    assert not re.search(r'(?:src|href|action)="(?:https?:)?//', html)


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/openapi.json"])
def test_there_is_no_description_for_machines(owner, path):
    assert owner.get(path).status_code == 404


def test_static_files_stay_in_their_folder(owner):
    for path in ("/static/../gate.py", "/static/%2e%2e/gate.py", "/static/..%2fgate.py"):
        assert owner.get(path).status_code == 404
