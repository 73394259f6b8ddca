"""What the commands of methods share."""

import warnings
from pathlib import Path

import pytest

from practicum.errors import InputError
from practicum.study.command import notes, refuse_existing


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
