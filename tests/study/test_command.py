"""What the commands of methods share."""

import contextlib
import fcntl
import io
import os
import pty
import struct
import sys
import termios
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest

from practicum.errors import InputError
from practicum.study import command
from practicum.study.command import Progress, notes, refuse_existing


def test_a_warning_is_told_once_and_where_it_is_wanted(capsys):
    for err in (False, True):
        with notes(err):
            warnings.warn("twice", stacklevel=1)
            warnings.warn("twice", stacklevel=1)
            warnings.warn("a library's own business", DeprecationWarning, stacklevel=1)
        told = capsys.readouterr()
        assert (told.err if err else told.out) == "Note: twice\n"
        assert not (told.out if err else told.err)


def test_nothing_is_told_when_the_block_fails(capsys):
    with pytest.raises(InputError), notes():
        refuse_existing([Path()], force=True)  # raises, and says nothing else
    assert capsys.readouterr().out == ""


def test_what_is_there_is_kept(tmp_path):
    there = tmp_path / "a.csv"
    there.write_text("1")
    refuse_existing([None, tmp_path / "b.csv"], force=False)
    refuse_existing([there], force=True)
    with pytest.raises(InputError, match="is there already") as refused:
        refuse_existing([None, there], force=False, option="--overwrite")
    assert "--overwrite" in refused.value.hint
    with pytest.raises(InputError, match="is a folder"):
        refuse_existing([tmp_path], force=True)


# --- progress ------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass only when a test says so."""
    now = SimpleNamespace(seconds=1000.0)
    monkeypatch.setattr(command, "time", SimpleNamespace(monotonic=lambda: now.seconds))
    return now


@contextlib.contextmanager
def terminal(columns=80):
    """A real terminal as standard error; gives what was written to it since the last call."""
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))

    def written():
        try:
            return os.read(ours, 65536).decode()
        except BlockingIOError:
            return ""

    with pytest.MonkeyPatch.context() as patch, os.fdopen(theirs, "w") as stream:
        patch.setattr(sys, "stderr", stream)
        yield written
    os.close(ours)


def visible(text):
    """What a terminal shows of a line that is written over."""
    line = ""
    for part in text.split("\r"):
        line = part + line[len(part) :]
    return line.rstrip()


def test_plain_lines_every_ten_seconds_where_there_is_no_terminal(clock, capsys):
    with Progress("images") as progress:
        for done in range(1, 8):
            clock.seconds += 5
            progress(done, 7)
    told = capsys.readouterr()
    assert told.err == (
        "2 of 7 images, 25 s left\n"  # after 10 s, so 5 s an image
        "4 of 7 images, 15 s left\n"
        "6 of 7 images, 5 s left\n"
    )
    assert told.out == ""


def test_a_slow_step_is_told_when_it_ends_and_the_last_is_no_exception(clock, capsys):
    progress = Progress("steps", 3)
    for seconds in (40, 9.9, 0.1):
        clock.seconds += seconds
        with progress:
            progress()
    assert capsys.readouterr().err == "1 of 3 steps, 80 s left\n3 of 3 steps\n"


def test_short_work_says_nothing(clock, capsys):
    with Progress("images", 100) as progress:
        for _ in range(100):
            clock.seconds += 0.099
            progress()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("done", "total", "at_least", "seconds", "words"),
    [
        (0, 10, False, 30, "0 of 10 fits"),
        (0, 0, False, 30, "0 of 0 fits"),
        (0, 0, True, 30, "0 of at least 0 fits"),
        (3, 0, False, 30, "3 of 3 fits"),
        (12, 10, False, 30, "12 of 12 fits"),
        (3, 8, True, 30, "3 of at least 8 fits"),
        (9, 8, True, 30, "9 of at least 9 fits"),
        (10, 10, False, 30, "10 of 10 fits"),
        (1, 60_000, False, 2.9, "1 of 60,000 fits"),  # nearly all of it was warming up
        (1, 2, False, 3, "1 of 2 fits, 3 s left"),
        (1, 2, False, 119, "1 of 2 fits, 119 s left"),
        (1, 2, False, 120, "1 of 2 fits, 2 min left"),
        (1_500, 3_000_000, False, 36, "1,500 of 3,000,000 fits, 1,199 min left"),
    ],
)
def test_the_words(clock, done, total, at_least, seconds, words):
    progress = Progress("fits", total, at_least)
    clock.seconds += seconds
    progress(done)
    assert str(progress) == words


def test_a_note_stands_before_the_time_left(clock, capsys):
    progress = Progress("steps", 400)
    clock.seconds += 12
    progress(100, note="loss 0.412")
    assert capsys.readouterr().err == "100 of 400 steps, loss 0.412, 36 s left\n"


def test_a_terminal_has_one_line_that_is_written_over_and_cleared(clock):
    seen = ""
    with terminal() as written:
        with Progress("replies") as progress:
            progress(1, 1_000)
            assert written() == ""  # work of an instant does not flicker
            for done, words in (
                (50, "50 of 1,000 replies, 95 s left"),
                (999, "999 of 1,000 replies, 0 s left"),
                (1_000, "1,000 of 1,000 replies"),  # nothing of the longer line is left
            ):
                clock.seconds += 5
                progress(done, 1_000)
                seen += written()
                assert visible(seen) == words
            progress(1_000, 1_000)
            assert written() == ""  # five times a second is enough
        seen += written()
    assert visible(seen) == ""
    assert "\n" not in seen


def test_what_is_printed_between_blocks_has_the_line_to_itself(clock):
    shown = []
    with terminal() as written:
        progress = Progress("messages", 4, at_least=True)
        for _ in range(2):
            with progress:
                clock.seconds += 1
                progress()
                seen = written()
                shown.append(visible(seen))
            assert visible(seen + written()) == ""
        with progress:
            pass
        assert written() == ""  # nothing shown, nothing to clear
    assert shown == ["1 of at least 4 messages", "2 of at least 4 messages"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), InputError("no")], ids=["ctrl-c", "ours"])
def test_the_line_is_cleared_when_the_work_ends_early(clock, error):
    with terminal() as written:
        progress = Progress("images", 9)
        clock.seconds += 1

        def work():
            with progress:
                progress()
                raise error

        with pytest.raises(type(error)):
            work()
        seen = written()
    assert "1 of 9 images" in seen
    assert visible(seen) == ""


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (12, "1 of 3 imag"),  # a twelfth character would begin a new line
        (0, "1 of 3 images"),  # what a new pseudo-terminal says
    ],
)
def test_a_line_is_no_longer_than_the_terminal(clock, columns, words):
    with terminal(columns) as written, Progress("images", 3) as progress:
        clock.seconds += 1
        progress()
        assert visible(written()) == words


class Broken(io.StringIO):
    def write(self, text):
        raise BrokenPipeError(32, "Broken pipe")


def closed():
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.mark.parametrize("stream", [None, closed(), Broken()], ids=["none", "closed", "broken"])
def test_the_work_goes_on_where_nobody_listens(clock, stream):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", stream)
        with Progress("images", 2) as progress:
            for _ in range(2):
                clock.seconds += 60
                progress()
    assert progress.done == 2


def test_the_work_goes_on_when_the_terminal_goes_away(clock):
    with terminal() as written, Progress("images", 2) as progress:
        clock.seconds += 1
        progress()
        assert visible(written()) == "1 of 2 images"
        sys.stderr.close()
        clock.seconds += 1
        progress()
    assert progress.done == 2
