# SPDX-License-Identifier: MIT OR Apache-2.0
"""The shipped studies are whole, and a broken one is explained."""

from __future__ import annotations

import datetime
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swapstone.core.model import UserError
from swapstone.core.session import study_file
from swapstone.core.session.options import Measuring, Place, Settings, VirtualMachine, Workloads
from swapstone.core.session.request import resolve
from swapstone.core.session.study_file import (
    Study,
    decode_study,
    list_studies,
    load_study,
    studies_dir,
    study_names,
)
from swapstone.core.workloads import find_load, find_suite
from swapstone.parts.published.data import figures

HEAD = b'title = "t"\nquestion = "q?"\nfactor = [{ name = "libc", levels = ["glibc", "musl"] }]\n'
PART = b'[[part]]\nname = "a"\ntitle = "A"\nsuites = ["libc"]\nbudget = "1m"\n'


@pytest.mark.parametrize("name", study_names())
def test_a_shipped_study_names_only_what_exists(name: str) -> None:
    study = load_study(name)
    assert study.question.endswith("?")
    assert study.total_budget_ns > 0
    for each in study.experiments():
        request = each.request(name)
        settings = request.settings
        assert request.factors and (settings.measuring.margin is None or 0 < settings.measuring.margin < 1)
        assert all(find_suite(suite).workloads for suite in settings.workloads.suites)
        assert all(find_load(load) for load in settings.place.loads)
        # A study or a part of this project alone has no published one beside it.
        published = settings.workloads.published
        assert figures(study=published) if published else not each.given.get("published")


def test_musl_vs_glibc_is_there() -> None:
    assert "musl-vs-glibc" in study_names()


@pytest.mark.parametrize(
    ("content", "words", "hint"),
    [
        (b"title = 3", "key title: Expected `str`, got `int`", 'title = "'),
        (b"title = ", "Invalid value", "must be TOML"),
        (b"", "missing required field `title`", 'title = "'),
        (b"\xff", "utf-8", "must be TOML"),
        (b"nonsense = 1", "unknown field `nonsense`", "has all keys"),
        (HEAD + b'budget = "soon"', "key budget: 'soon' is not a duration", 'budget = "14m"'),
        (HEAD + b'duration = "soon"', "key duration: 'soon' is not a duration", 'duration = "'),
        (HEAD + b'margin = "200%"', "key margin: '200%' is no value for --margin", 'margin = "5%"'),
        (HEAD + b'confidence = "12%"', "key confidence: '12%' is no value for --confidence", 'confidence = "95"'),
        (HEAD + b'clock = "solar"', "key clock: there is no clock 'solar'", 'clock = "virtual"'),
        (HEAD.replace(b', "musl"', b""), "key factor[0].levels: libc needs two or more different levels", "levels = ["),
        (HEAD.replace(b'"musl"', b'"glibc"'), "key factor[0].levels: libc needs", "levels = ["),
        (
            HEAD + b'program = { command = "x \'y" }',
            "key program.command: The quotes of command don't match",
            'command = "',
        ),
        (HEAD + b"blocks = -1", "key blocks: --blocks -1 is not between", "blocks = 20"),
        (b'title = "t"\nquestion = "q?"', "key factor: it varies no factor", "[[factor]]"),
        (HEAD + b'suites = ["libc"]\nprogram = { command = "x" }', "measured instead of suites", "suites"),
        (HEAD + b'program = { comand = "x" }', "unknown field `comand`", "[program]"),
        (HEAD + PART + PART, "key part[0].name: two parts have the name 'a'", 'name = "strings"'),
        (HEAD + PART.replace(b'"a"', b'"../a"'), "no name for a part", 'name = "strings"'),
        (HEAD + PART.replace(b'"1m"', b'"soon"'), "key part[0].budget: 'soon' is not a duration", 'budget = "14m"'),
        (HEAD + PART.replace(b'"1m"', b"1"), "key part[0].budget: Expected `str`, got `int`", 'budget = "14m"'),
        (HEAD + PART + b"bugdet = 1", "unknown field `bugdet`", "[[part]]"),
    ],
)
def test_a_broken_study_names_the_file_the_key_and_what_to_write(content: bytes, words: str, hint: str) -> None:
    with pytest.raises(UserError, match=r"mine\.toml is not a study") as caught:
        decode_study(content, "mine.toml")
    assert words in caught.value.message
    assert hint in caught.value.hint


def test_a_part_inherits_what_it_leaves_out() -> None:
    top = (
        b'suites = ["libc"]\nonly = ["b_malloc*"]\nloads = ["idle", "cpu"]\ntarget = "vm"\narchitecture = "arm64"\nclock = "virtual"\n'
        b'margin = "5%"\nconfidence = "90"\nnull = true\nlayouts = 12\nblocks = 7\nbudget = "2m"\nseed = 3\npublished = "p"\n'
    )
    own = b'[[part]]\nname = "b"\ntitle = "B"\nonly = ["b_string*"]\nmargin = "1%"\nbudget = "3m"\nnull = false\nseed = 0\n'
    study = decode_study(HEAD + top + b'[[part]]\nname = "a"\ntitle = "A"\n' + own, "mine.toml")
    first, second = (part.request(part.name) for part in study.parts())
    assert first.factors == second.factors and [choice.factor for choice in first.factors] == ["libc"]
    assert first.settings == Settings(
        workloads=Workloads(suites="libc", only="b_malloc*", published="p"),
        place=Place(target="vm", clock="virtual", loads="idle,cpu"),
        machine=VirtualMachine(architecture="arm64"),
        measuring=Measuring(margin="5%", confidence="90", null=True, layouts=12, blocks=7, budget="2m", seed=3),
    )
    changed = Measuring(margin="1%", confidence="90", null=False, layouts=12, blocks=7, budget="3m", seed=0)
    workloads = Workloads(suites="libc", only="b_string*", published="p")
    assert second.settings == attrs.evolve(first.settings, measuring=changed, workloads=workloads)
    assert study.total_budget_ns == 300 * 10**9


def test_without_a_budget_it_is_one_minute_a_variant() -> None:
    study = decode_study(HEAD, "mine.toml")
    assert study.total_budget_ns == 120 * 10**9
    assert study.request("x").settings.measuring.budget is None


def test_a_study_of_an_own_program(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("")
    program = b'[program]\ncommand = "./prog -n \'a b\'"\ninput = "in"\nenv = { A = "1" }\ntimeout = "5s"\npin = true\n'
    own = decode_study(HEAD + program, "mine.toml").request("x", str(tmp_path)).own
    assert own is not None
    assert own.arguments == (str(tmp_path / "prog"), "-n", "a b")
    assert (own.stdin, own.environment, own.timeout_ms) == (str(tmp_path / "in"), (("A", "1"),), 5000)
    built = b'[program]\ncommand = "./p"\nsource = "s"\nbuild = "make"\nlibraries = ["zlib", "xz"]\n'
    own = decode_study(HEAD + built, "mine.toml").request("x", str(tmp_path)).own
    assert own is not None and own.libraries == ("zlib", "xz")
    two = b'title = "t"\nquestion = "q?"\n[program]\nprograms = { old = "./a", new = "./b" }\n'
    request = decode_study(two, "mine.toml").request("x", str(tmp_path))
    assert [(choice.factor, choice.levels) for choice in request.factors] == [("program", ("old", "new"))]


def test_a_study_of_an_own_server(tmp_path: Path) -> None:
    program = (
        b'[program]\nserver = "./s {port}"\nload_generator = "./client {port} {connections}"\n'
        b'connections = [1, 10]\nread = "wrk"\n'
    )
    (tmp_path / "client").write_text("#!/bin/sh\n")
    (tmp_path / "client").chmod(0o755)
    own = decode_study(HEAD + program, "mine.toml").request("x", str(tmp_path)).own
    assert own is not None
    assert [each.connections for each in own.load_generators] == [1, 10]
    assert {each.command[0] for each in own.load_generators} == {str(tmp_path / "client")}


def test_a_study_of_a_server_with_a_configuration_file(tmp_path: Path) -> None:
    program = (
        b'[program]\nserver = "{program} -c {template}"\nprograms = { old = "./s1", new = "./s2" }\n'
        b'template = "nginx.conf"\nload_generator = "./client {port}"\nread = "wrk"\n'
    )
    (tmp_path / "nginx.conf").write_text("listen {address}:{port};")
    (tmp_path / "client").write_text("#!/bin/sh\n")
    (tmp_path / "client").chmod(0o755)
    study = decode_study(b'title = "t"\nquestion = "q?"\n' + program, "mine.toml")
    own = study.request("x", str(tmp_path)).own
    assert own is not None
    assert [each.template for each in own.load_generators] == ["listen {address}:{port};"]
    (tmp_path / "nginx.conf").write_text("listen 80;")
    with pytest.raises(UserError, match=r"nginx\.conf has no \{port\}"):
        study.request("x", str(tmp_path))


def test_an_own_program_in_a_part_replaces_the_suites_of_the_top() -> None:
    part = b'[[part]]\nname = "own"\ntitle = "Own"\n[part.program]\ncommand = "/bin/true"\n'
    study = decode_study(HEAD + b'suites = ["libc"]\nonly = ["b_*"]\n' + PART + part, "mine.toml")
    bundled, own = study.parts()
    assert (bundled.settings.workloads.suites, bundled.own) == (("libc",), None)
    assert own.settings.workloads == Workloads() and own.own == {"command": "/bin/true"}


def test_a_bad_file_among_the_studies_is_listed_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "good.toml").write_bytes(HEAD)
    (tmp_path / "bad.toml").write_bytes(b"title = 3")
    monkeypatch.setattr(study_file, "studies_dir", lambda: tmp_path)
    found = dict(list_studies())
    bad = found["bad"]
    assert isinstance(bad, UserError) and bad.message.startswith("bad.toml is not a study: key title")
    assert isinstance(found["good"], Study)


def test_an_unknown_key_is_refused() -> None:
    content = (studies_dir() / "musl-vs-glibc.toml").read_bytes()
    with pytest.raises(UserError, match="unknown field `bugdet`"):
        decode_study(b'bugdet = "1m"\n' + content, "mine.toml")


@given(st.binary(max_size=200))
def test_random_bytes_are_a_user_error(content: bytes) -> None:
    with pytest.raises(UserError):
        decode_study(content, "random.toml")


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes((studies_dir() / "musl-vs-glibc.toml").read_bytes())
    assert load_study(str(path)) == load_study("musl-vs-glibc")
    with pytest.raises(UserError, match="There is no file"):
        load_study(str(tmp_path / "absent.toml"))


def test_a_part_has_the_duration_of_its_wake_ups() -> None:
    part = HEAD + b'suites = ["latency"]\nonly = ["wakeup"]\nduration = "100ms"\ntarget = "host"'
    request = decode_study(part, "mine.toml").request("mine")
    assert (
        request.settings.measuring.duration == datetime.timedelta(milliseconds=100) and resolve(request).wakeups == 1000
    )
