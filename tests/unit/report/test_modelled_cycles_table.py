# SPDX-License-Identifier: MIT OR Apache-2.0
"""The table of modelled cycles in an explanation by instructions."""

from __future__ import annotations

import json

import msgspec
from tests.json_schema import check_printed
from tools.fuzz_seeds import COUNTED_ROW, MODELLED_ROW

from swapstone.core.report.render import html, markdown, terminal
from swapstone.parts.explain.model.instruction_counts import InstructionExplanation
from swapstone.parts.explain.report.instruction_explanation import compared, document_of, notes, summary_of
from swapstone.parts.explain.report.modelled_cycles_table import model_notes, model_rows, model_sentence
from swapstone.parts.explain.report.row_explanation import traced_json

PLAIN = msgspec.json.decode(COUNTED_ROW, type=InstructionExplanation)
FOUND = msgspec.json.decode(MODELLED_ROW, type=InstructionExplanation)
assert FOUND.model is not None
MODEL = FOUND.model
OPERATIONS = (2.0, 2.0)


def test_the_rows_sum_to_the_cycles() -> None:
    assert FOUND.problem() == ""
    assert model_rows(MODEL, OPERATIONS) == [
        ("instructions", "1", "15", "30", "2.000", "+15"),
        ("L1I misses", "20", "1", "1", "1.000", "0"),
        ("L1D misses", "20", "1", "4", "4.000", "+60"),
        ("L2 misses, code", "150", "0.500", "0.500", "1.000", "0"),
        ("L2 misses, data", "150", "0", "2", "", "+300"),
        ("mispredictions", "15", "0.500", "1.50", "3.000", "+15"),
        ("divides, integer 64 bits", "20", "0", "1", "", "+20"),
        ("divides, double precision", "18", "0.500", "0.500", "1.000", "0"),
        ("cycles", "", "146", "556", "3.799", "+410"),
        ("cycles per instruction", "", "9.77", "18.55", "1.899", ""),
        ("loads", "", "4.50", "4.50", "1.000", ""),
        ("stores", "", "2", "2", "1.000", ""),
        ("conditional branches", "", "3", "3", "1.000", ""),
    ]
    assert 15 + 60 + 300 + 15 + 20 == 410


def test_the_sentence_flags_other_behaviour_of_equal_instructions() -> None:
    assert model_sentence(MODEL, OPERATIONS) == "A modelled processor takes 3.8 times the cycles."
    before, after = MODEL.sides
    equal = msgspec.structs.replace(MODEL, sides=(before, msgspec.structs.replace(after, instructions=30)))
    assert model_sentence(equal, OPERATIONS) == (
        "Same instructions, different memory behaviour: a modelled processor takes 3.7 times the cycles."
    )
    assert model_sentence(msgspec.structs.replace(MODEL, sides=(before, before)), OPERATIONS) == (
        "A modelled processor takes as many cycles."
    )
    nothing = msgspec.structs.replace(before, **dict.fromkeys(before.__struct_fields__, 0))
    assert model_sentence(msgspec.structs.replace(MODEL, sides=(nothing, before)), OPERATIONS) == ""
    assert model_rows(msgspec.structs.replace(MODEL, sides=(nothing, nothing)), OPERATIONS) != []


def test_the_notes_say_what_is_not_modelled() -> None:
    text = " ".join(model_notes(MODEL))
    for words in (
        "instruction-level parallelism",
        "prefetching",
        "TLBs",
        "out-of-order",
        "assumptions",
        "predict no time",
    ):
        assert words in text
    assert "L1I 48 KiB 3-way, L1D 32 KiB 2-way, L2 1024 KiB 16-way" in text
    assert "at most 5 % and its modelled cycles by more than 10 %" in text
    assert "Of 2 and 2 instructions DC ZVA" in text
    seen = tuple(msgspec.structs.replace(side, unseen=0) for side in MODEL.sides)
    assert "DC ZVA" not in " ".join(model_notes(msgspec.structs.replace(MODEL, sides=seen)))


def test_every_format_has_the_table_only_if_there_is_a_model() -> None:
    for renderer in (terminal, markdown, html):
        assert "L2 misses, data" in renderer.render(document_of(FOUND, compared(FOUND)))
        assert "L2 misses" not in renderer.render(document_of(PLAIN, compared(PLAIN)))
    assert document_of(FOUND, compared(FOUND)).answer.endswith(
        "-29 % of the difference. A modelled processor takes 3.8 times the cycles."
    )
    assert "takes 3.8 times the cycles" in summary_of(FOUND, []).paragraph
    assert "modelled" not in " ".join([document_of(PLAIN, compared(PLAIN)).answer, *notes(PLAIN)])
    assert check_printed(traced_json("instruction-explanation", FOUND)) == "swapstone-instruction-explanation"
    whole = json.loads(traced_json("instruction-explanation", FOUND))
    fields = {name: value for name, value in whole.items() if name not in {"format", "schema"}}
    assert msgspec.convert(fields, InstructionExplanation) == FOUND


def test_a_flag_comes_first() -> None:
    before, after = MODEL.sides
    equal = msgspec.structs.replace(MODEL, sides=(before, msgspec.structs.replace(after, instructions=30)))
    flagged = msgspec.structs.replace(FOUND, model=equal)
    answer = document_of(flagged, compared(flagged)).answer
    assert answer.startswith(
        "Same instructions, different memory behaviour: a modelled processor takes 3.7 times the cycles. w executes"
    )


def test_contradicting_events_make_the_explanation_unusable() -> None:
    before, after = MODEL.sides
    wrong = msgspec.structs.replace(MODEL, sides=(before, msgspec.structs.replace(after, mispredictions=99)))
    assert "more misses" in msgspec.structs.replace(FOUND, model=wrong).problem()
