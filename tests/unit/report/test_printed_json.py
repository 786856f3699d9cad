# SPDX-License-Identifier: MIT OR Apache-2.0
"""Documents that short tests of the command line don't print have their published schemas."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.json_schema import check_printed
from tests.unit.report.test_brief_text import case_of
from tests.unit.report.test_memory_phase_text import fit, variant
from tests.unit.session.test_emulator_findings import image

from swapstone.core.report import study_index
from swapstone.core.report.printed_json import printed_json
from swapstone.core.report.study_index import PartSummary, StudyIndex
from swapstone.parts.vm.artifacts.images import BuiltImage
from swapstone.parts.vm.artifacts.libc_files import LibcImage
from swapstone.parts.vm.session.image_store import image_output
from swapstone.parts.vm.session.memory_fit import encode_fit


@pytest.mark.slow
def test_the_index_of_a_study_has_its_schema() -> None:
    part = study_index.summary(*case_of("latency"), PartSummary(name="latency", title="Latency", state="complete"))
    assert part.sections
    index = StudyIndex(name="s", title="A study", question="What?", folder="f", parts=(part,))
    assert check_printed(study_index.to_json(index)) == "swapstone-study-index"


def test_images_have_their_schemas(tmp_path: Path) -> None:
    printed = image_output(BuiltImage(image(), tmp_path), "generic", as_json=True)
    assert check_printed(printed) == "swapstone-image"
    texts = dict.fromkeys(
        ("image", "architecture", "libc", "libc_version", "compiler", "kernel", "kernel_release", "sdk"), ""
    )
    numbers = dict.fromkeys(("format", "links", "root_bytes", "initrd_bytes", "kernel_bytes"), 1)
    nothing = {"sdk_packages": (), "programs": (), "files": {}, "sha256": {"kernel": "0"}}
    described = msgspec.convert({**texts, **numbers, **nothing}, LibcImage)
    assert check_printed(printed_json("libc-image", image=described)) == "swapstone-libc-image"


def test_the_memory_of_variants_has_its_schema() -> None:
    assert check_printed(encode_fit(fit(variant("glibc"), variant("musl", None)))) == "swapstone-memory-fit"
