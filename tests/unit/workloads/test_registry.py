# SPDX-License-Identifier: MIT OR Apache-2.0
import re
import tomllib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from swapstone.core.manifests import shipped_parts
from swapstone.core.model import ALL_PROCESSORS, Cpus, Source, UserError, Workload
from swapstone.core.model.directories import share_dir
from swapstone.core.session.request import find_workloads
from swapstone.core.workloads import all_suites, find_suite, find_workload
from swapstone.parts.build.artifacts.workload_build import EMPTY_PROGRAMS, Inputs, inputs_of
from swapstone.parts.build.subjects.bundled import MOST_PASSES
from swapstone.parts.net.model.crate import Crate
from swapstone.parts.own.suites.server import Package
from swapstone.parts.published.report.throughput import page_rows
from swapstone.parts.published.suites import throughput
from swapstone.parts.vm.artifacts.image_catalog import find_part
from swapstone.parts.vm.suites.latency import ImageTool

SOURCES = share_dir() / "native" / "workloads"
DOCS = Path(__file__).parents[3] / "docs"
PAGES = [
    *sorted(DOCS.glob("workloads*.md")),
    *filter(Path.exists, (DOCS / f"{part.name}.md" for part in shipped_parts())),
]
"""The pages of workloads, and those of parts that have one."""
DOCUMENT = "".join(path.read_text() for path in PAGES)
ALL = [workload for suite in all_suites() for workload in suite.workloads]
CRATES = [(workload, workload.origin) for workload in ALL if isinstance(workload.origin, Crate)]
TOOLS = [(workload, workload.origin) for workload in ALL if isinstance(workload.origin, ImageTool)]
SOURCED = [(workload, workload.origin) for workload in ALL if isinstance(workload.origin, Source)]
EVERY = [workload for workload in ALL if isinstance(workload.origin, Source | Package)]
PUBLISHED = [
    "b_malloc_sparse",
    "b_malloc_bubble",
    "b_malloc_tiny1",
    "b_malloc_tiny2",
    "b_malloc_big1",
    "b_malloc_big2",
    "b_malloc_thread_stress",
    "b_malloc_thread_local",
    "b_string_strstr(abcd)",
    "b_string_strstr(azby)",
    "b_string_strstr(ac)",
    "b_string_strstr(aaac)",
    "b_string_strstr(aaaaac)",
    "b_string_memset",
    "b_string_strchr",
    "b_string_strlen",
    "b_pthread_createjoin_serial1",
    "b_pthread_createjoin_serial2",
    "b_pthread_create_serial1",
    "b_pthread_uselesslock",
    "b_pthread_createjoin_minimal1",
    "b_pthread_createjoin_minimal2",
    "b_stdio_putcgetc",
    "b_stdio_putcgetc_unlocked",
    "b_regex_compile",
    "b_regex_search",
    "b_regex_search#2",
]


def names(found: Iterable[tuple[str, Workload]]) -> list[str]:
    return [workload.name for _, workload in found]


def test_suite_libc_has_the_names_of_the_published_comparison() -> None:
    assert [workload.name for workload in find_suite("libc").workloads] == PUBLISHED


def test_declared_sources_are_those_in_the_folder() -> None:
    declared = {origin.file for _, origin in SOURCED} | {"harness.c", "empty.c"}
    assert {path.name for path in SOURCES.glob("*.c")} == declared


def test_declared_companions_are_those_in_the_folder() -> None:
    declared = {companion for workload, _ in SOURCED for companion in inputs_of(workload).companions}
    assert {f"companions/{path.name}" for path in SOURCES.glob("companions/*.c")} == declared


def test_each_table_of_inputs_is_of_a_program_and_names_known_packages() -> None:
    tables = tomllib.loads((SOURCES.parent / "workloads.toml").read_text())
    built = {name for workload, origin in SOURCED for name in (origin.file, workload.name)}
    assert set(tables) <= built | {program.name for program in EMPTY_PROGRAMS}
    assert all(
        inputs_of(workload) != Inputs() for workload, origin in SOURCED if {origin.file, workload.name} & {*tables}
    )
    packages = {name for table in tables.values() for name in table.get("packages", ())}
    assert packages == set(tomllib.loads((SOURCES.parent / "companions.toml").read_text()))


def test_names_and_programs_are_unique() -> None:
    assert [name for name, count in Counter(workload.name for workload in EVERY).items() if count > 1] == []
    assert len({(workload.origin, workload.arguments, workload.load_generator) for workload in EVERY}) == len(EVERY)


def test_image_tools_need_a_machine_and_have_one_leading_metric() -> None:
    assert [tool.name for tool, _ in TOOLS if tool.machine is None] == []
    assert [tool.name for tool, _ in TOOLS if sum(metric.leads for metric in tool.metrics) != 1] == []


def test_programs_of_crates_have_one_leading_metric() -> None:
    assert {origin.package for _, origin in CRATES} == {"swapstone-net-bench"}
    for workload, _ in CRATES:
        assert workload.machine is None
        assert sum(metric.leads for metric in workload.metrics) == 1
        assert workload.arguments == ("trial", "--work", workload.name)


def test_descriptions_of_netstack_workloads_state_the_amounts_of_the_source() -> None:
    source = (share_dir() / "crates" / "swapstone-net-bench" / "src" / "trial" / "works.rs").read_text()
    amounts = re.findall(r'name: "([a-z-]+)",.*?amount: ([0-9_]+),', source, re.DOTALL)
    assert [name for name, _ in amounts] == [workload.name for workload, _ in CRATES]
    descriptions = {workload.name: workload.description for workload, _ in CRATES}
    for name, amount in amounts:
        number = int(amount.replace("_", ""))
        text = f"{number // 10**6} MB" if "bulk" in name else str(number)
        description = descriptions[name.replace("-tuned", "-plain")]
        assert re.search(rf"\b{text}\b", description), name


def test_every_header_is_used() -> None:
    texts = "".join(path.read_text() for path in [*SOURCES.glob("*.c"), *SOURCES.glob("*.h")])
    assert [path.name for path in SOURCES.glob("*.h") if f'#include "{path.name}"' not in texts] == []


def test_waiting_workloads_lead_with_wall_time_and_others_with_cpu_time() -> None:
    for workload in EVERY:
        leading = [metric.name for metric in workload.metrics if metric.leads]
        if isinstance(workload.origin, Source) and workload.origin.harness:
            assert leading == (["wall"] if workload.waits else ["cpu"]), workload.name
        else:
            assert len(leading) == 1, workload.name
        assert len({metric.name for metric in workload.metrics}) == len(workload.metrics), workload.name


def test_only_threaded_workloads_use_all_processors() -> None:
    threaded = {Path(origin.file).stem for workload, origin in SOURCED if "-pthread" in inputs_of(workload).libraries}
    alone = [(workload, origin) for workload, origin in SOURCED if workload.parameter("tasks") in {None, "1"}]
    assert threaded == {Path(origin.file).stem for workload, origin in alone if workload.cpus is Cpus.ALL}
    assert {stem for stem in threaded if stem.startswith("b_")} == {
        Path(name).stem for name in PUBLISHED if "thread" in name
    }


TASKS = 8
THREADS = {
    **dict.fromkeys((name for name in PUBLISHED if "thread" in name), 2),
    "b_pthread_uselesslock": 1,  # one thread, while the main one waits for it
    "mutex_contended": 2,
    "condvar_pingpong": 2,
    **{f"{name} (8 tasks)": TASKS for name, _ in page_rows()},
    **{f"http(c={connections},t=1)": 2 for connections in (1, 10, 100, 250)},  # with the load generator
    **{f"http(c={connections},t=cores)": ALL_PROCESSORS for connections in (1, 10, 100, 250)},
    "http(paced)": 2,
    "redis_set(200kB)": 2,
    **dict.fromkeys(("http-keepalive", "http-churn", "ab", "bulk-in", "bulk-out", "udp-in", "round-trip"), 2),
    **{
        workload.name: ALL_PROCESSORS for workload in find_suite("unix").workloads if workload.parameter("tasks") == "n"
    },
    **{
        workload.name: ALL_PROCESSORS
        for workload in find_suite("core").workloads
        if workload.parameter("threads") == "n"
    },
    **dict.fromkeys(("fixes-churn", "fixes-bulk-in", "fixes-bulk-out", "fixes-round-trip"), 2),
    **dict.fromkeys(("clients-keepalive", "clients-churn"), 2),
    **dict.fromkeys(("link-out", "link-in"), 2),
    **dict.fromkeys(("bare-keepalive", "bare-churn", "bare-ab"), 2),
    **dict.fromkeys(
        ("counts-plain", "counts-tuned", "counts-client-plain", "counts-client-tuned"), 1
    ),  # their numbers are exact on any number of processors
}
"""The processors that a workload needs, of all that may use several or have a load generator."""


def test_workloads_that_may_use_several_processors_declare_how_many_they_need() -> None:
    several = {work.name: work.threads for work in ALL if work.cpus is Cpus.ALL or work.load_generator}
    assert several == THREADS
    assert {work.threads for work in ALL if work.name not in several} == {1}


def test_a_report_of_max_passes_fits_the_output_limit() -> None:
    line = len("pass 1234567890 1234567890 1234567890 12345 0 12345 12345\n")
    assert MOST_PASSES * line < 64 * 1024


def test_patterns_select_in_the_order_of_the_registry() -> None:
    found = find_workloads(["libc"], ["b_string_str*(a?*c)", "b_malloc_big1", "b_regex_search#2"])
    assert names(found) == [
        "b_malloc_big1",
        "b_string_strstr(aaac)",
        "b_string_strstr(aaaaac)",
        "b_regex_search#2",
    ]
    assert {suite for suite, _ in found} == {"libc"}


def test_parentheses_and_number_signs_are_literal() -> None:
    assert names(find_workloads(["libc"], ["b_string_strstr(ac)"])) == ["b_string_strstr(ac)"]
    assert names(find_workloads(["libc"], ["b_regex_search"])) == ["b_regex_search"]


def test_without_patterns_all_workloads_of_the_suites_are_selected() -> None:
    assert len(find_workloads(["libc"])) == 27
    both = find_workloads(["libc-extra", "libc", "libc"])
    assert names(both) == [workload.name for name in ("libc", "libc-extra") for workload in find_suite(name).workloads]
    assert {suite for suite, _ in both} == {"libc", "libc-extra"}


def test_throughput_workloads_exist_for_one_and_eight_tasks() -> None:
    works = [workload.name for workload in find_suite("throughput").workloads]
    assert works[1::2] == [f"{name} (8 tasks)" for name in works[::2]]
    assert works[::2] == [name for name, _ in page_rows()]
    several = [workload for workload in find_suite("throughput").workloads if workload.name.endswith(" (8 tasks)")]
    assert {(workload.cpus, workload.waits) for workload in several} == {(Cpus.ALL, True)}


def test_image_parts_of_a_workload_do_not_restrict_its_target() -> None:
    using = {workload.name: workload for workload in EVERY if workload.parts and not workload.load_generator}
    assert set(using) == {f"shell_scripts({n}){tasks}" for n in (1, 8) for tasks in ("", " (8 tasks)")}
    assert {find_part(part).name for workload in using.values() for part in workload.parts} == {"busybox"}
    assert {workload.machine for workload in using.values()} == {None}
    servers = [workload for workload in EVERY if workload.load_generator]
    assert {(workload.parts, workload.machine) for workload in servers} == {(("busybox",), None)}


def test_a_workload_is_found_by_its_exact_name() -> None:
    assert find_workload("libc", "b_regex_search#2").arguments == ("2",)
    with pytest.raises(UserError) as caught:
        find_workload("libc", "b_regex_*")
    assert caught.value.message == "There is no workload named 'b_regex_*'."


def test_an_unknown_suite_is_an_error_with_similar_names() -> None:
    with pytest.raises(UserError) as caught:
        find_suite("libc-extras")
    assert caught.value.message == "There is no suite named 'libc-extras'."
    assert "Did you mean 'libc-extra'" in caught.value.hint


def test_a_pattern_without_a_match_is_an_error_with_similar_names() -> None:
    with pytest.raises(UserError) as caught:
        find_workloads(["libc"], ["b_malloc_big1", "b_malloc_sparze"])
    assert caught.value.message == "There is no workload named 'b_malloc_sparze'."
    assert "Did you mean 'b_malloc_sparse'" in caught.value.hint


def test_a_pattern_that_matches_in_another_suite_names_that_suite() -> None:
    with pytest.raises(UserError) as caught:
        find_workloads(["libc"], ["memcpy(*)"])
    assert caught.value.message == "No workload named 'memcpy(*)' is in suite libc."
    assert caught.value.hint == "Suite libc-extra has it: add `--suite libc-extra`."


def test_the_documentation_lists_processors_and_leading_metric() -> None:
    lines = [line for line in DOCUMENT.splitlines() if line.startswith("| ")]
    for workload in (work for work in ALL if not isinstance(work.origin, ImageTool)):
        rows = [line for line in lines if f"`{workload.name}`" in line]
        assert len(rows) == 1, workload.name
        cells = [cell.strip() for cell in rows[0].strip("|").split(" | ")]
        (leading,) = (metric.name for metric in workload.metrics if metric.leads)
        assert cells[-2:] == ["all" if workload.cpus is Cpus.ALL else "1", leading], workload.name


def test_a_display_name_holds_no_value_that_is_not_a_parameter() -> None:
    for workload in ALL:
        stem, _, bracketed = workload.name.partition("(")
        if bracketed:
            assert workload.parameters, workload.name
        assert len(dict(workload.parameters)) == len(workload.parameters)
        assert all(name.isidentifier() and value for name, value in workload.parameters), stem


@pytest.mark.parametrize(
    ("suite", "name", "parameters"),
    [
        ("libc", "b_string_strstr(abcd)", {"pattern": "abcd"}),
        ("libc-extra", "memcpy(4096)", {"block_bytes": "4096"}),
        ("throughput", "file_copy(256)", {"block_bytes": "256", "tasks": "1"}),
        ("throughput", "file_copy(256) (8 tasks)", {"block_bytes": "256", "tasks": "8"}),
        ("throughput", "shell_scripts(8)", {"scripts": "8", "tasks": "1"}),
        ("swap", "fill (50 % random)", {"random_percent": "50"}),
        ("swap", "touch (sequential, 1.25)", {"order": "sequential", "memory_ratio": "1.25"}),
        ("server", "http(c=100,t=cores)", {"connections": "100", "threads": "cores"}),
        ("server", "http(paced)", {"connections": "32", "threads": "1", "requests_per_s": "1000"}),
        ("server", "redis_set(200kB)", {"connections": "10", "value_bytes": "200000"}),
    ],
)
def test_parameters_are_named_pairs(suite: str, name: str, parameters: dict[str, str]) -> None:
    workload = find_workload(suite, name)
    assert dict(workload.parameters) == parameters
    assert workload.parameter("no_such_parameter") is None
    assert all(workload.parameter(key) == value for key, value in parameters.items())


def test_several_tasks_share_the_other_parameters_with_one_task() -> None:
    several = [workload for workload in find_suite("throughput").workloads if workload.parameter("tasks") == "8"]
    assert len(several) * 2 == len(find_suite("throughput").workloads)
    for workload in several:
        single = find_workload("throughput", workload.name.removesuffix(throughput.SEVERAL))
        assert dict(single.parameters) == {**dict(workload.parameters), "tasks": "1"}
