"""Starting the page: what is refused before anything listens."""

import socket
import sys

import pytest

import practicum.web
from practicum.errors import InputError, MissingExtra
from practicum.web.server import main


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "no.such.host.invalid", "192.0.2.1"])
def test_addresses_that_are_refused(host):
    with pytest.raises(InputError):
        practicum.web.serve(host=host, port=0, browser=False)


def test_a_port_that_is_taken():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(InputError, match="cannot listen"):
            practicum.web.serve(port=taken.getsockname()[1], browser=False)


def test_a_root_that_is_no_folder(tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        practicum.web.serve(port=0, roots=[tmp_path / "none"], browser=False)


def test_a_mistake_is_one_line(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["page", "--root", "/no/such", "--port", "0"])
    with pytest.raises(SystemExit, match=r"^error: --root /no/such: there is no such folder$"):
        main()


def test_without_its_packages_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "practicum.web.server", raising=False)
    monkeypatch.delattr(practicum.web, "server", raising=False)
    with pytest.raises(MissingExtra, match="uvicorn"):
        practicum.web.serve()
