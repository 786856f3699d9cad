"""The shipped studies are whole, and a broken one is explained."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swapstone.cli.flow import parse_factors
from swapstone.model import UserError
from swapstone.published import figures
from swapstone.session.study_file import decode_study, load_study, studies_dir, study_names
from swapstone.session.values import parse_ratio
from swapstone.workloads import find_load, find_suite

HEAD = b'title = "t"\nquestion = "q?"\nfactor = [{ name = "libc", levels = ["glibc", "musl"] }]\n'
PART = b'[[part]]\nname = "a"\ntitle = "A"\nsuites = ["libc"]\nbudget = "1m"\n'


@pytest.mark.parametrize("name", study_names())
def test_a_shipped_study_names_only_what_exists(name: str) -> None:
    study = load_study(name)
    assert study.question.endswith("?")
    assert study.budget_ns > 0
    for each in study.part or (study,):
        factors = each.factor or study.factor
        assert parse_factors([f"{factor.name}={','.join(factor.levels)}" for factor in factors])
        assert all(find_suite(suite).workloads for suite in each.suites)
        assert parse_ratio(each.margin or study.margin, "margin", 0, 1) > 0
    assert all(find_load(load) for part in study.part for load in part.loads)
    assert figures(study=study.published)


def test_musl_vs_glibc_is_there() -> None:
    assert "musl-vs-glibc" in study_names()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"title = 3", "Expected `str`, got `int`"),
        (b"title = ", "Invalid value"),
        (b"", "missing required field"),
        (b"\xff", "utf-8"),
        (b"nonsense = 1", "unknown field `nonsense`"),
        (HEAD + b'suites = ["libc"]', "not a duration"),
        (HEAD + b'suites = ["libc"]\nbudget = "1m"\nmargin = "200%"', "no value for margin"),
        (b'title = "t"\nquestion = "q?"\nsuites = ["libc"]\nbudget = "1m"', "it varies no factor"),
        (HEAD + b'budget = "1m"', "either `suites` or parts"),
        (HEAD + b'suites = ["libc"]\n' + PART, "either `suites` or parts"),
        (HEAD + b'budget = "1m"\n' + PART, "its parts have the budgets"),
        (HEAD + PART + PART, "two parts have the name 'a'"),
        (HEAD + PART.replace(b'"a"', b'"../a"'), "no name for a part"),
        (HEAD + PART.replace(b'"1m"', b'"soon"'), "'soon' is not a duration"),
        (HEAD + PART.replace(b'["libc"]', b"[]"), "no suites or no loads"),
        (HEAD + PART + b"bugdet = 1", "unknown field `bugdet`"),
    ],
)
def test_a_broken_study_is_explained(content: bytes, words: str) -> None:
    with pytest.raises(UserError, match=r"mine\.toml is not a study") as caught:
        decode_study(content, "mine.toml")
    assert words in caught.value.message


def test_an_unknown_key_is_refused() -> None:
    content = (studies_dir() / "musl-vs-glibc.toml").read_bytes()
    with pytest.raises(UserError, match="unknown field `bugdet`"):
        decode_study(b'bugdet = "1m"\n' + content, "mine.toml")


@given(st.binary(max_size=200))
def test_rubbish_is_a_user_error(content: bytes) -> None:
    with pytest.raises(UserError):
        decode_study(content, "rubbish.toml")


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes((studies_dir() / "musl-vs-glibc.toml").read_bytes())
    assert load_study(str(path)) == load_study("musl-vs-glibc")
    with pytest.raises(UserError, match="There is no file"):
        load_study(str(tmp_path / "absent.toml"))
