# SPDX-License-Identifier: MIT OR Apache-2.0
"""The agent's answers: decoded completely or rejected."""

from __future__ import annotations

import re
import zlib

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from swapstone.core.model import WireError, environment_variable, system_file
from swapstone.core.wire import (
    AgentAnswer,
    AgentRefusedError,
    AnswerReader,
    ProcessOutcome,
    decode_answers,
    encode_answer,
    encode_answer_header,
)
from tests.unit.wire.strategies import answers, light

HEADER = encode_answer_header()
WHOLE = AgentAnswer(
    id="7",
    facts=(("wall_ns", 958445), ("nice", -5)),
    interp="/lib/ld musl.so.1",
    objects=("/bin/a", "/lib/b%"),
    observed=((environment_variable("PATH"), "/bin:/x y\n"),),
    absent=(system_file("/no such"),),
    stdout=b"hi there\n",
    stderr=b"\0\xff",
    notes=("left 2 processes running",),
    outcome=ProcessOutcome.ORPHANS,
    code=2,
)


def conversation(*lines: str, end: str = "end 7 exited 0") -> bytes:
    """The output of an agent with these lines in one answer, and a correct line ``end``."""
    body = "".join(f"{line}\n" for line in ("begin 7", *lines)) + f"{end} {len(lines) + 1} "
    return HEADER + f"{body}{zlib.crc32(body.encode()):08x}\n".encode()


def test_an_encoded_answer_has_the_documented_lines() -> None:
    lines = (HEADER + encode_answer(WHOLE)).decode().splitlines()
    assert lines[:-1] == [
        "swapstone-agent 7",
        "begin 7",
        "fact wall_ns 958445",
        "fact nice -5",
        "interp /lib/ld%20musl.so.1",
        "object /bin/a",
        "object /lib/b%25",
        "observed env PATH /bin:/x%20y%0A",
        "absent file /no%20such",
        "out hi%20there%0A",
        "err %00%FF",
        "note left%202%20processes%20running",
    ]
    assert re.fullmatch(r"end 7 orphans 2 11 [0-9a-f]{8}", lines[-1])


def test_observations_that_exist_and_that_do_not_come_in_any_order() -> None:
    (answer,) = decode_answers(conversation("absent env A", "observed env B b", "absent env C"))
    assert answer.absent == (environment_variable("A"), environment_variable("C"))
    assert answer.observed == ((environment_variable("B"), "b"),)


@pytest.mark.slow
@light
@given(st.lists(answers(), max_size=3), st.integers(1, 200))
def test_answers_round_trip_in_pieces_of_any_size(expected: list[AgentAnswer], size: int) -> None:
    data = HEADER + b"".join(map(encode_answer, expected))
    reader = AnswerReader()
    got = [answer for at in range(0, len(data), size) for answer in reader.feed(data[at : at + size])]
    reader.finish()
    assert got == expected


@light
@given(answers(), st.data())
def test_any_truncation_is_an_error(answer: AgentAnswer, data: st.DataObject) -> None:
    whole = HEADER + encode_answer(answer)
    cut = data.draw(st.integers(0, len(whole) - 1))
    if cut == len(HEADER):  # a valid agent without trials
        assert decode_answers(whole[:cut]) == ()
        return
    with pytest.raises(WireError):
        decode_answers(whole[:cut])


@pytest.mark.slow
@light
@given(answers(), st.data())
def test_a_changed_byte_is_an_error(answer: AgentAnswer, data: st.DataObject) -> None:
    whole = bytearray(HEADER + encode_answer(answer))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(WireError):
        decode_answers(bytes(whole))


@light
@given(answers(), st.data())
def test_reordered_lines_are_an_error(answer: AgentAnswer, data: st.DataObject) -> None:
    lines = encode_answer(answer).splitlines(keepends=True)
    shuffled = data.draw(st.permutations(lines))
    if shuffled == lines:
        assert decode_answers(HEADER + b"".join(shuffled)) == (answer,)
        return
    with pytest.raises(WireError):
        decode_answers(HEADER + b"".join(shuffled))


@light
@given(st.binary(max_size=300))
def test_random_bytes_are_an_error(noise: bytes) -> None:
    assume(not noise.startswith(HEADER))  # an agent that has conversation no more than who it is
    for data in (noise, HEADER + b"begin 7\n" + noise):
        with pytest.raises(WireError):
            decode_answers(data)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"hello\n", "Line 1 of the agent's output: 'hello' is not the first line"),
        (b"swapstone-agent 1\n", "Line 1 .*first line of an agent, 'swapstone-agent 7'"),
        (conversation("fakt wall_ns 1"), "Line 3 .*'fakt' is no word"),
        (conversation("fact wall 1"), "Line 3 .*no fact named 'wall'"),
        (conversation("observed env A b", "absent env A"), "Line 4 .*the observation 'env A' comes twice"),
        (conversation("observed shell A b"), "Line 3 .*'shell A b' is no observation"),
        (conversation("observed env A"), "Line 3 .*'env A' is no observation"),
        (conversation("absent env A b"), "Line 3 .*'env A b' is no observation"),
        (conversation("observed env A b c"), "Line 3 .*'env A b c' is no observation"),
        (conversation("observed env A %zz"), "Line 3 .*not percent-encoded"),
        (conversation("out x", "observed env A b"), "Line 4 .*'observed' comes after 'out'"),
        (conversation("out x", "absent env A"), "Line 4 .*'absent' comes after 'out'"),
        (conversation("absent env A", "object /a"), "Line 4 .*'object' comes after 'observed'"),
        (conversation("fact pid 1", "fact pid 1"), "Line 4 .*the fact pid comes twice"),
        (conversation("fact wall_ns -1"), "Line 3 .*wall_ns is negative: -1"),
        (conversation("fact wall_ns 1.5"), "Line 3 .*wall_ns is '1.5', not a whole number"),
        (conversation("fact wall_ns 9223372036854775808"), "Line 3 .*wall_ns is 9223372036854775808, outside"),
        (conversation("fact wall_ns 99999999999999999999"), "Line 3 .*out of range"),
        (conversation("fact wall_ns 007"), "Line 3 .*written '007', not 7"),
        (conversation("fact nice 20"), "Line 3 .*nice is 20, outside -20 to 19"),
        (conversation("fact cpus_allowed 0"), "Line 3 .*cpus_allowed is 0, outside 1"),
        (conversation("out %41"), "Line 3 .*not percent-encoded as it should be"),
        (conversation("out %2f"), "Line 3 .*not percent-encoded"),
        (conversation("out a b"), "Line 3 .*not percent-encoded"),
        (conversation("out %"), "Line 3 .*a piece of output has 0 bytes"),
        (conversation("out " + "a" * 513), "Line 3 .*a piece of output has 513 bytes"),
        (conversation("err a", "out b"), "Line 4 .*'out' comes after 'err'"),
        (conversation("interp a", "interp b"), "Line 4 .*second 'interp'"),
        (conversation(end="end 8 exited 0"), "Line 3 .*end of '8' comes inside '7'"),
        (conversation(end="end 7 vanished 0"), "Line 3 .*'vanished' is no way to end"),
        (conversation(end="end 7 exited 256"), "Line 3 .*code of exited is 256, outside 0 to 255"),
        (conversation(end="end 7 orphans 0"), "Line 3 .*code of orphans is 0"),
        (conversation() + b"begin 7\nend 7 exited 0 2 00000000\n", "Line 5 .*has 1 lines and should have 2"),
        (conversation() + b"begin 7\nend 7 exited 0 1 00000000\n", "Line 5 .*checksum is wrong"),
        (conversation() + b"begin 7\nfact pid 1\n", "Line 5 .*stopped inside the answer to 7"),
        (conversation() + b"beg", "Line 4 .*stopped"),
        (conversation() + b"out x\n", "Line 4 .*begins no answer"),
        (conversation() + b"a" * 70_000, "Line 4 .*the line has no end"),
        (b"", "Line 0 .*the agent stopped"),
    ],
)
def test_errors_name_the_line(data: bytes, text: str) -> None:
    with pytest.raises(WireError, match=text):
        decode_answers(data)


def test_a_refused_plan_raises_its_own_error() -> None:
    with pytest.raises(AgentRefusedError, match="refuses line 9 of its plan: the line begins with no known word"):
        decode_answers(b"error 9 the%20line%20begins%20with%20no%20known%20word\n")


@pytest.mark.parametrize(("length", "read"), [(1 << 16, True), ((1 << 16) + 1, False)])
def test_the_longest_line(length: int, read: bool) -> None:
    line = "object /".ljust(length, "a")
    reader = AnswerReader()
    reader.feed(HEADER + b"begin 7\n")
    if read:
        assert reader.feed(line.encode()) == ()  # its end may follow
        (answer,) = decode_answers(conversation(line))
        assert [len(path) for path in answer.objects] == [length - len("object ")]
        return
    with pytest.raises(WireError, match=r"Line 3 .*the line has no end"):
        reader.feed(line.encode())
    with pytest.raises(WireError, match=r"Line 3 .*the line is too long"):
        decode_answers(conversation(line))


@pytest.mark.parametrize("name", ["nice", "agent_nice"])
def test_the_highest_nice_value(name: str) -> None:
    assert decode_answers(conversation(f"fact {name} 19"))[0].facts == ((name, 19),)
    for lines in ([f"fact {name} 20"], ["fact pid 3", f"fact {name} 20"]):
        with pytest.raises(WireError, match=f"{name} is 20, outside -20 to 19"):
            decode_answers(conversation(*lines))


def test_a_reader_refuses_input_after_an_error() -> None:
    reader = AnswerReader()
    with pytest.raises(WireError):
        reader.feed(b"hello\n")
    with pytest.raises(WireError, match="can't be read after an error"):
        reader.feed(conversation())


def test_text_that_is_not_utf8_is_decoded_with_escapes() -> None:
    (answer,) = decode_answers(conversation("object /a%FF"))
    assert answer.objects == ("/a\\xff",)


NONCE, OTHER = "0123456789abcdef" * 2, "f" * 32


def test_the_nonce_is_the_first_line_of_an_answer() -> None:
    lines = encode_answer(WHOLE, NONCE).decode().splitlines()
    assert lines[:3] == ["begin 7", f"nonce {NONCE}", "fact wall_ns 958445"]


@pytest.mark.slow
@light
@given(st.lists(st.tuples(answers(), st.sampled_from(["", NONCE, OTHER])), max_size=3), st.integers(1, 200))
def test_each_answer_has_the_nonce_of_its_request(expected: list[tuple[AgentAnswer, str]], size: int) -> None:
    reader = AnswerReader()
    reader.feed(HEADER)
    got: list[AgentAnswer] = []
    for answer, nonce in expected:
        data = encode_answer(answer, nonce)
        got += [each for at in range(0, len(data), size) for each in reader.feed(data[at : at + size], nonce)]
    reader.finish()
    assert got == [answer for answer, _ in expected]


@pytest.mark.parametrize(
    ("nonce", "written", "text"),
    [
        ("", [NONCE], "does not have the nonce"),
        ("", ["", NONCE], "does not have the nonce"),
        (NONCE, [""], "does not have the nonce"),
        (NONCE, [OTHER], "does not have the nonce"),
        (NONCE, [OTHER, NONCE], "does not have the nonce"),
        (NONCE, [NONCE, NONCE], "more than one answer to one trial"),
        (NONCE, [NONCE, ""], "more than one answer to one trial"),
    ],
)
def test_other_nonces_and_further_answers_are_errors(nonce: str, written: list[str], text: str) -> None:
    with pytest.raises(WireError, match=text) as caught:
        AnswerReader().feed(HEADER + b"".join(encode_answer(WHOLE, each) for each in written), nonce)
    assert "`swapstone docs wire`" in caught.value.hint


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ([f"nonce {NONCE}", f"nonce {NONCE}"], "Line 4 .*a second or an invalid 'nonce'"),
        (["nonce "], "Line 3 .*a second or an invalid 'nonce'"),
        ([f"nonce {NONCE[:-1]}"], "Line 3 .*a second or an invalid 'nonce'"),
        ([f"nonce {NONCE.upper()}"], "Line 3 .*a second or an invalid 'nonce'"),
        ([f"nonce {NONCE} "], "Line 3 .*a second or an invalid 'nonce'"),
        (["fact pid 1", f"nonce {NONCE}"], "Line 4 .*'nonce' comes after 'fact'"),
    ],
)
def test_invalid_lines_with_a_nonce_are_errors(lines: list[str], text: str) -> None:
    with pytest.raises(WireError, match=text):
        AnswerReader().feed(conversation(*lines), NONCE)


@pytest.mark.parametrize("more", [b"b", b"begin 7\n", b"\n"])
def test_bytes_after_the_answer_with_a_nonce_are_an_error(more: bytes) -> None:
    answer = HEADER + encode_answer(WHOLE, NONCE)
    assert AnswerReader().feed(answer, NONCE) == (WHOLE,)
    with pytest.raises(WireError, match=r"goes on after its answer|begins no answer"):
        AnswerReader().feed(answer + more, NONCE)


FACTS = ("fact wall_ns 958445", "fact pid 3", "fact nvcsw 0", "fact stops 2")


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ((*FACTS, "fact pid 3"), "Line 7 .* the fact pid comes twice"),
        (("fact pid 3", "fact pid 3"), "Line 4 .* the fact pid comes twice"),
        ((*FACTS, "fact absent 3", "fact minflt 1"), "Line 7 .* no fact named 'absent'"),
        (("fact wall_ns 007", *FACTS[1:]), "Line 3 .* is written '007', not 7"),
        ((*FACTS, "fact nice 20"), "Line 7 .* nice is 20, outside -20 to 19"),
        ((*FACTS, "fact nice -21"), "Line 7 .* nice is -21, outside -20 to 19"),
        ((*FACTS, "fact minflt -1"), "Line 7 .* minflt is negative"),
        ((*FACTS, "fact minflt 9223372036854775808"), "Line 7 .* outside 0 to"),
        ((*FACTS, "fact minflt 1 2"), "Line 7 .* not a whole number"),
        ((*FACTS, "fact minflt"), "Line 7 .* not a whole number"),
        (("interp /a", *FACTS), "Line 4 .* 'fact' comes after 'interp'"),
        ((*FACTS, "interp /a", "fact minflt 1"), "Line 8 .* 'fact' comes after 'interp'"),
        ((*FACTS, "nonce " + "0" * 32), "Line 7 .* 'nonce' comes after 'fact'"),
    ],
)
def test_facts_that_arrive_together_are_checked_one_by_one(lines: tuple[str, ...], text: str) -> None:
    with pytest.raises(WireError, match=text):
        decode_answers(conversation(*lines))


def test_facts_that_arrive_together_keep_their_order() -> None:
    lines = (*FACTS[:2], "fact nice -20", *FACTS[2:], "fact minflt 9223372036854775807")
    (answer,) = decode_answers(conversation(*lines))
    assert [f"fact {name} {value}" for name, value in answer.facts] == list(lines)


def test_facts_outside_an_answer_are_an_error() -> None:
    with pytest.raises(WireError, match=r"Line 2 .* begins no answer"):
        decode_answers(HEADER + b"fact pid 3\nfact stops 2\n")
