"""A person at the page: a real browser, a real server, real processes.

Screenshots go to ``out/web`` (or ``PRACTICUM_SHOTS``) and are meant to be looked at.
"""

import contextlib
import http.client
import http.server
import io
import re
import threading
import zipfile

import pytest

from .conftest import Server, wait

pytestmark = pytest.mark.usefixtures("chromium")
PATIENCE = 120_000  # milliseconds


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One server for the tests that do not harm it; toy trials take a twentieth of a second."""
    started = Server(tmp_path_factory.mktemp("page"), coin_seconds="0.05").start()
    yield started
    started.stop()


@pytest.fixture
def fragile(tmp_path):
    """A server of one's own, to be killed."""
    started = Server(tmp_path, coin_seconds="0.05").start()
    yield started
    if started.process.poll() is None:  # the test has failed
        started.kill()


@pytest.fixture(scope="module")
def wines(server):
    from sklearn.datasets import load_wine

    frame = load_wine(as_frame=True).data.iloc[:, :5]
    frame.to_csv(server.folder / "root" / "wines.csv", index=False)
    return server.folder / "root" / "wines.csv"


class Visitor:
    """A tab that counts clicks and remembers what went wrong in it."""

    def __init__(self, page, server):
        self.page, self.server = page, server
        self.clicks, self.complaints, self.hosts = 0, [], set()
        page.set_default_timeout(PATIENCE)
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.hosts.add(request.url.split("/")[2]))

    def _console(self, message):
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def come_in(self):
        self.page.goto(self.server.address)
        self.page.wait_for_url(self.server.home + "/")
        return self

    def go(self, path):
        self.page.goto(self.server.home + path)

    def click(self, role, name):
        self.clicks += 1
        self.page.get_by_role(role, name=name).first.click()

    def shot(self, shots, name):
        """The whole page, its figures drawn."""
        for words in ("drawing …", "computing the intervals …"):
            self.page.get_by_text(words).wait_for(state="detached")
        for plot in self.page.locator(".plot").all():
            plot.scroll_into_view_if_needed()
            plot.locator(".main-svg").first.wait_for()
        self.page.evaluate("window.scrollTo(0, 0)")
        self.page.screenshot(path=shots / f"{name}.png", full_page=True)


@pytest.fixture
def visit(chromium, server):
    """Tabs of fresh browsers; at the end none has complained or asked anyone else."""
    with contextlib.ExitStack() as stack:
        visitors = []

        def come(of=server, expect=(), **context):
            made = chromium.new_context(viewport={"width": 1200, "height": 900}, **context)
            stack.callback(made.close)
            visitor = Visitor(made.new_page(), of)
            visitors.append((visitor, expect))
            return visitor

        yield come
        for visitor, expect in visitors:
            rest = [c for c in visitor.complaints if not any(word in c for word in expect)]
            assert rest == []
            assert visitor.hosts == {visitor.server.home.removeprefix("http://")}


# --- four clicks ---------------------------------------------------------------------------------


def test_from_home_to_a_verdict(visit, shots):
    tab = visit().come_in()
    tab.shot(shots, "home-before")
    tab.click("link", "Biased coin")
    tab.click("button", "Start the verification")
    tab.page.locator("progress").wait_for()
    tab.page.locator("tbody[sse-swap=trials] tr").first.wait_for()
    assert re.search(
        r"\d+ of 24 trials", tab.page.locator("section[aria-label=Progress]").inner_text()
    )
    tab.page.locator("td .badge.reproduced").first.wait_for()
    assert tab.clicks <= 4
    assert tab.page.locator("#status").inner_text().endswith("done")
    tab.page.locator(".plot .main-svg").first.wait_for()
    tab.shot(shots, "run-verified")
    tab.go("/")
    assert tab.page.locator(".chips .reproduced").count() == 2
    tab.shot(shots, "home-after")


def test_from_home_to_a_comparison_of_ones_own_file(visit, shots, wines):
    tab = visit().come_in()
    with tab.page.expect_file_chooser() as chooser:
        tab.clicks += 1
        tab.page.get_by_label("Upload a file").click()
    chooser.value.set_files(wines)
    tab.page.get_by_text("It looks like a table of 5 columns").wait_for()
    tab.shot(shots, "file")
    tab.click("link", "Compare coin on this file")
    tab.shot(shots, "comparison-form")
    tab.click("button", "Start the comparison")
    tab.page.get_by_text("absolute error: estimate").wait_for()
    assert tab.clicks <= 4
    assert tab.page.locator(".badge.ahead").count() >= 1
    tab.shot(shots, "comparison")
    for name in ("HTML report", "every trial as CSV"):
        with tab.page.expect_download() as download:
            tab.page.get_by_role("link", name=name).click()
        assert download.value.path().stat().st_size > 1000


def test_a_real_method_on_an_uploaded_table(visit, shots, wines):
    tab = visit().come_in()
    tab.go("/methods/cmi-test")
    tab.shot(shots, "method")
    tab.page.get_by_label("Upload a file").set_input_files(wines)
    tab.page.get_by_label("response").select_option("ash")
    tab.page.get_by_label("candidates").select_option(["alcohol", "malic_acid"])
    tab.shot(shots, "comparison-form-real")
    tab.click("button", "Start the comparison")
    tab.page.get_by_role("heading", name="The arms beside each other").wait_for()
    tab.page.get_by_text("power: runs that reject").first.wait_for()
    page = tab.page.locator("dl").inner_text()
    assert "alcohol,malic_acid" in page
    tab.shot(shots, "comparison-real")


def test_a_real_method_is_verified(visit, shots):
    tab = visit().come_in()
    tab.go("/methods/optimistic-ftrl")
    tab.click("button", "Start the verification")
    tab.page.locator(".claims .badge").first.wait_for()
    tab.shot(shots, "run-verified-real")


# --- cancel, resume, restart ---------------------------------------------------------------------


def start_long(tab):
    """A run of 120 trials, six seconds, in one process."""
    tab.go("/methods/coin")
    tab.page.get_by_text("Seeds, workers, cluster").click()
    tab.page.get_by_label("Seeds a cell").fill("30")
    tab.page.get_by_label("Worker processes").fill("1")
    tab.click("button", "Start the verification")
    tab.page.locator("tbody[sse-swap=trials] tr").first.wait_for()


def test_cancel_and_resume(visit, shots):
    tab = visit().come_in()
    start_long(tab)
    tab.shot(shots, "run-going-on")
    tab.click("button", "Cancel")
    tab.page.get_by_text("It was interrupted.").wait_for()
    tab.shot(shots, "run-interrupted")
    told = tab.page.get_by_text("It was interrupted.").inner_text()
    kept = int(re.search(r"(\d+) of 120 trials are stored", told)[1])
    assert 0 < kept < 120
    tab.click("button", "Resume")
    tab.page.locator("td .badge.reproduced").first.wait_for()
    how = tab.page.locator("dl").inner_text()
    before = int(re.search(r"120 in the grid, 120 stored, (\d+) of them from earlier", how)[1])
    assert before >= kept - 1  # stored times are to the second
    tab.go("/runs")
    for box in tab.page.get_by_role("checkbox").all()[:2]:
        box.check()
    tab.click("button", "Put two ticked runs side by side")
    tab.page.get_by_text("side by side").first.wait_for()
    tab.shot(shots, "side-by-side")


def test_a_run_goes_on_while_the_server_is_gone(visit, fragile):
    tab = visit(of=fragile, expect=["ERR_", "Failed to load", "[object Event]"]).come_in()
    start_long(tab)
    run = tab.page.url
    fragile.kill()
    tab.page.get_by_text("The server does not answer").wait_for()
    fragile.start()  # the same port and token
    tab.page.goto(run)
    tab.page.locator("td .badge.reproduced").first.wait_for()
    assert "120 stored" in tab.page.locator("dl").inner_text()
    fragile.stop()


# --- refused -------------------------------------------------------------------------------------


def test_without_the_token(visit, shots):
    tab = visit(expect=["403"])
    tab.go("/?token=wrong")
    assert "This page is private" in tab.page.locator("main").inner_text()
    tab.shot(shots, "private")
    tab.go("/methods/coin")
    assert "Biased coin" not in tab.page.content()


def test_a_page_of_another_origin_can_do_nothing(visit, server):
    """A page of another port: the same site for cookies, another origin."""
    tab = visit(expect=["CORS", "Failed to load", "404"]).come_in()
    cookies = tab.page.context.cookies()
    assert [(c["sameSite"], c["httpOnly"]) for c in cookies] == [("Strict", True)]
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Nothing) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        elsewhere = f"http://127.0.0.1:{other.server_port}"
        tab.page.goto(elsewhere)
        send = "url => fetch(url, {method: 'POST', credentials: 'include', body: 'scale=smoke'})"
        write = server.home + "/methods/coin/verify"
        assert (
            tab.page.evaluate(f"url => ({send})(url).then(() => 'sent', () => 'no')", write) == "no"
        )
        for origin in (elsewhere, "http://evil.example", "null"):
            headers = {"Origin": origin}
            answer = tab.page.request.post(write, form={"scale": "smoke"}, headers=headers)
            assert answer.status == 403
        other.shutdown()
    tab.hosts.discard(elsewhere.removeprefix("http://"))
    tab.go("/")
    assert tab.page.get_by_text("starting").count() == 0


class Nothing(http.server.BaseHTTPRequestHandler):
    """Somebody else's page."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>x</title>")

    def log_message(self, *_):
        pass


def test_a_path_outside_the_roots(visit, shots):
    tab = visit(expect=["400"]).come_in()
    for path in ("/etc/passwd", "../../../../etc/passwd", "../store.sqlite"):
        tab.go("/file")
        tab.page.get_by_label("or name one on this machine").fill(path)
        tab.click("button", "Look at it")
        tab.page.get_by_text("outside the folders that this page may read").wait_for()
    tab.shot(shots, "outside")


def test_uploads_that_are_refused(visit, shots):
    tab = visit(expect=["413", "400"]).come_in()
    told = tab.page.locator(".upload-told")
    big = {"name": "big.csv", "mimeType": "text/csv", "buffer": b"1,2\n" * 1_000_000}
    tab.page.get_by_label("Upload a file").set_input_files(files=[big])
    told.get_by_text("larger than 2 MB").wait_for()
    tab.shot(shots, "too-large")
    bomb = {"name": "bomb.zip", "mimeType": "application/zip", "buffer": three_gigabytes()}
    tab.page.get_by_label("Upload a file").set_input_files(files=[bomb])
    told.get_by_text("opens to more than 2,048 MB").wait_for()
    assert announced(tab, 1 << 30) == 413


def three_gigabytes():
    """A small archive that says it opens to 3 GB."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("zeros.csv", b"0" * 2_000_000)
    true, said = ((size).to_bytes(4, "little") for size in (2_000_000, 3_000_000_000))
    return buffer.getvalue().replace(true, said)


def announced(tab, size):
    """The answer to an upload of so many bytes, none of which is sent."""
    connection = http.client.HTTPConnection("127.0.0.1", tab.server.port, timeout=30)
    connection.putrequest("POST", "/upload?name=big.csv")
    connection.putheader("Content-Length", str(size))
    connection.putheader("Origin", tab.server.home)
    cookies = tab.page.context.cookies()
    connection.putheader("Cookie", "; ".join(f"{c['name']}={c['value']}" for c in cookies))
    connection.endheaders()
    status = connection.getresponse().status
    connection.close()
    return status


# --- looks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "context"),
    [
        ("dark", {"color_scheme": "dark"}),
        ("narrow", {"viewport": {"width": 360, "height": 740}}),
    ],
)
def test_dark_and_narrow(chromium, server, shots, wines, name, context):
    wide = {"viewport": {"width": 1200, "height": 900}}
    made = chromium.new_context(**{**wide, **context})
    tab = Visitor(made.new_page(), server).come_in()
    run = wait(lambda: last_run(tab))
    paths = {
        "home": "/",
        "method": "/methods/coin",
        "run": run,
        "file": f"/file?path={wines}",
        "form": f"/methods/cmi-test/compare?path={wines}",
        "runs": "/runs",
    }
    for what, path in paths.items():
        tab.go(path)
        tab.page.wait_for_load_state("networkidle")
        tab.shot(shots, f"{what}-{name}")
        width, window = tab.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert width <= window, f"{path} is {width} wide"
    assert tab.complaints == []
    made.close()


def last_run(tab):
    """The newest finished verification, of the tests before this one."""
    tab.go("/runs")
    row = tab.page.locator("tr", has_text="done").filter(has_text="verify").first
    return row.locator("a").first.get_attribute("href") if row.count() else None


def test_with_the_keyboard_alone(visit):
    tab = visit().come_in()
    tab.page.keyboard.press("Tab")
    assert tab.page.evaluate("document.activeElement.textContent") == "Skip to the content"
    tab.page.keyboard.press("Enter")
    assert tab.page.evaluate("document.activeElement.id") == "main"
    tab.page.get_by_label("Search").focus()
    tab.page.keyboard.type("biased coin")
    tab.page.wait_for_url("**q=biased%20coin**")  # the last of several answers is shown
    tab.page.get_by_text("1 method ").wait_for()
    for _ in range(4):  # past the filters
        tab.page.keyboard.press("Tab")
    assert tab.page.evaluate("document.activeElement.textContent") == "Biased coin"
    tab.page.keyboard.press("Enter")
    tab.page.get_by_role("heading", name="Biased coin").wait_for()
