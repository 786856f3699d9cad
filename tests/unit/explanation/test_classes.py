# SPDX-License-Identifier: MIT OR Apache-2.0
"""The table of classes, on symbols of both C libraries."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from swapstone.core.model import UserError
from swapstone.core.model.profile import KERNEL, OWN_OBJECT, Frame, Profile, Stack
from swapstone.parts.explain.explanation.cost_classes import (
    CostClasses,
    decode_classes,
    load_classes,
    without_clone_suffixes,
)
from swapstone.parts.explain.instruments.symbol_tables import table_of
from swapstone.parts.explain.model.explanation import Count

GLIBC, MUSL = "libc.so.6", "libc.so"

COUNTS = (("copies", "bytes copied"), ("allocations", "of 128 B or less"))


def stack(*names: str, place: str = GLIBC) -> list[Frame]:
    return [Frame(symbol=name.removesuffix("[k]"), object=KERNEL if name.endswith("[k]") else place) for name in names]


@pytest.fixture(scope="module")
def classes() -> CostClasses:
    return load_classes()


@pytest.mark.parametrize(
    ("place", "names", "expected"),
    [
        (
            GLIBC,
            "malloc _int_malloc _int_free sysmalloc unlink_chunk.constprop.0 __libc_calloc __GI___libc_free tcache_init",
            "allocator",
        ),
        (
            MUSL,
            "malloc __libc_malloc_impl alloc_slot get_meta nontrivial_free __malloc_alloc_meta __libc_free calloc",
            "allocator",
        ),
        ("libmimalloc.so.2.0", "_mi_page_malloc anything_at_all", "allocator"),
        (OWN_OBJECT, "mi_free _mi_malloc_generic je_malloc", "allocator"),
        (
            GLIBC,
            "__memmove_avx_unaligned_erms __memset_avx2_unaligned_erms __strlen_avx2 __strstr_sse2_unaligned memcpy",
            "copies and strings",
        ),
        (
            MUSL,
            "memcpy memset strlen strstr twoway_strstr fourbyte_strstr __stpcpy __strchrnul memchr",
            "copies and strings",
        ),
        (
            GLIBC,
            "___pthread_mutex_lock __lll_lock_wait pthread_mutex_unlock@@GLIBC_2.2.5 __GI___lll_lock_wake",
            "locks",
        ),
        (
            MUSL,
            "__lock __unlock __pthread_mutex_lock pthread_mutex_unlock __timedwait_cp __tl_lock __lockfile",
            "locks",
        ),
        (GLIBC, "__pthread_create_2_1 start_thread clone3 allocate_stack", "threads and processes"),
        (MUSL, "__pthread_create pthread_join __clone start", "threads and processes"),
        (GLIBC, "re_search_internal transit_state_mb", "regular expressions"),
        (MUSL, "tre_tnfa_run_parallel regcomp", "regular expressions"),
        (GLIBC, "_IO_putc __overflow fwrite", "input and output"),
        (MUSL, "__stdio_write putc getc_unlocked", "input and output"),
        (GLIBC, "__madvise __munmap __brk", "system calls"),
        (MUSL, "madvise munmap __syscall_ret", "system calls"),
        ("ld-linux-x86-64.so.2", "do_lookup_x whatever", "start-up and loading"),
        (GLIBC, "never_heard_of", "C library, other"),
        (OWN_OBJECT, "my_function malloc_of_mine [unknown]", "own code"),
        (MUSL, "[unknown]", "unnamed"),
    ],
)
def test_functions_of_both_c_libraries(classes: CostClasses, place: str, names: str, expected: str) -> None:
    found = {name: classes.of(stack(name.split("@@")[0], place=place))[0] for name in names.split()}
    assert found == dict.fromkeys(names.split(), expected)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("memset", "asm_exc_page_fault[k]", "exc_page_fault[k]", "clear_page_erms[k]"), ("page faults", "")),
        (
            ("munmap", "entry_SYSCALL_64_after_hwframe[k]", "do_syscall_64[k]", "__x64_sys_munmap[k]"),
            ("system calls", "munmap"),
        ),
        (("f", "do_syscall_64[k]", "__x64_sys_futex[k]", "futex_wake[k]"), ("locks", "futex")),
        (("f", "el0t_64_sync[k]", "el0_svc[k]", "__arm64_sys_mmap[k]"), ("system calls", "mmap")),
        (("read", "do_syscall_64[k]", "__x64_sys_read[k]", "vfs_read[k]"), ("system calls", "read")),
        (("madvise", "entry_SYSCALL_64_after_hwframe[k]", "do_syscall_64[k]"), ("system calls", "madvise")),
        (("f", "entry_SYSCALL_64_after_hwframe[k]"), ("system calls", "entry and exit")),
        (("f", "asm_sysvec_apic_timer_interrupt[k]", "arch_do_signal_or_restart[k]", "x[k]"), ("signals", "")),
        (("raise", "do_syscall_64[k]", "arch_do_signal_or_restart[k]", "get_signal[k]"), ("signals", "")),
        (("f", "__restore_rt", "do_syscall_64[k]", "__do_sys_rt_sigreturn[k]", "y[k]"), ("signals", "")),
        (("f", "__restore_rt", "entry_SYSCALL_64_after_hwframe[k]"), ("signals", "")),
        (("f", "__restore_rt"), ("signals", "")),
        (("kill", "do_syscall_64[k]", "__x64_sys_kill[k]", "send_signal_locked[k]"), ("system calls", "kill")),
        # musl makes calls that can be cancelled by functions between the wrapper and the kernel
        (("read", "__syscall_cp", "__syscall_cp_asm", "entry_SYSCALL_64[k]"), ("system calls", "read")),
        (("readv", "__syscall_cp_c", "__syscall_cp_asm"), ("system calls", "read")),
        (("__clone3", "do_syscall_64[k]", "__x64_sys_clone3[k]", "kernel_clone[k]"), ("system calls", "clone")),
        (("__clone", "do_syscall_64[k]", "__x64_sys_clone[k]", "kernel_clone[k]"), ("system calls", "clone")),
        (("fork", "do_syscall_64[k]", "__x64_sys_fork[k]"), ("system calls", "clone")),
        (("epoll_wait", "do_syscall_64[k]", "__x64_sys_epoll_pwait[k]"), ("system calls", "epoll_wait")),
        (("stat", "do_syscall_64[k]", "__x64_sys_newfstatat[k]"), ("system calls", "stat")),
        (("f", "asm_sysvec_apic_timer_interrupt[k]", "x[k]"), ("interrupts", "")),
        (("f", "something_else[k]"), ("kernel, other", "")),
        (("malloc", "never_heard_of"), ("allocator", "")),
        ((), ("unnamed", "")),
        (
            (
                "read",
                "do_syscall_64[k]",
                "ksys_read[k]",
                "_copy_to_iter[k]",
                "asm_exc_page_fault[k]",
                "clear_page_erms[k]",
            ),
            ("page faults", "in read"),
        ),
    ],
)
def test_stacks(classes: CostClasses, names: tuple[str, ...], expected: tuple[str, str]) -> None:
    assert classes.of(stack(*names)) == expected


def test_the_entry_of_a_call_belongs_to_the_call_that_its_callers_make(classes: CostClasses) -> None:
    put, other = stack("main", place=OWN_OBJECT), stack("other", place=OWN_OBJECT)
    writev = stack("do_syscall_64[k]", "__x64_sys_writev[k]")
    entry = stack("entry_SYSCALL_64_after_hwframe[k]")
    of_musl = stack("__stdio_write", place=MUSL)  # the call is inline: no frame has its name
    by_number = stack("syscall")
    getppid, futex = stack("__x64_sys_getppid[k]"), stack("__x64_sys_futex[k]")
    stacks = [
        ([*put, *of_musl, *writev], 3.0, ("system calls", "write")),
        ([*put, *of_musl, *entry], 9.0, ("system calls", "write")),
        ([*other, *of_musl, *entry], 1.0, ("system calls", "write")),  # by its innermost function alone
        ([*put, *by_number, *getppid], 1.0, ("system calls", "getppid")),
        ([*other, *by_number, *futex], 2.0, ("locks", "futex")),
        ([*put, *by_number, *entry], 1.0, ("system calls", "getppid")),
        ([*other, *by_number], 1.0, ("locks", "futex")),
        ([*stack("never_heard_of"), *entry], 1.0, ("system calls", "entry and exit")),
    ]
    frames = list(dict.fromkeys(frame for found, _, _ in stacks for frame in found))
    profile = Profile(
        kind="on-cpu",
        unit="ns",
        operations=1.0,
        frames=tuple(frames),
        stacks=tuple(Stack(frames=tuple(map(frames.index, found)), weight=weight) for found, weight, _ in stacks),
    )
    assert classes.of_stacks(profile) == [expected for _, _, expected in stacks]


@pytest.mark.parametrize("path", ["/usr/lib/x86_64-linux-musl/libc.so", "/lib/x86_64-linux-gnu/libc.so.6"])
def test_exported_allocating_and_copying_functions_are_all_in_the_table(classes: CostClasses, path: str) -> None:
    if not Path(path).is_file():
        pytest.skip(f"{path} is not there")
    listed = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True).stdout
    exported = {line.split()[-1].split("@")[0] for line in listed.splitlines()}
    wanted = {"malloc", "free", "calloc", "realloc", "memalign", "aligned_alloc", "posix_memalign"}
    copies = {
        "memcpy",
        "memmove",
        "memset",
        "memchr",
        "memcmp",
        "strlen",
        "strcpy",
        "strstr",
        "strchr",
        "strcmp",
        "stpcpy",
        "strdup",
    }
    assert wanted | copies <= exported
    assert {classes.of(stack(name))[0] for name in wanted} == {"allocator"}
    assert {classes.of(stack(name))[0] for name in copies} == {"copies and strings"}


def test_callers_of_the_program_do_not_decide_the_class(classes: CostClasses) -> None:
    begin = stack("start_thread")
    assert classes.of([*begin, *stack("compute", place=OWN_OBJECT)])[0] == "own code"
    assert classes.of([*begin, *stack("compute", place=OWN_OBJECT), *stack("never_heard_of")])[0] == "C library, other"
    assert (
        classes.of([*begin, *stack("compute", place=OWN_OBJECT), *stack("malloc", "never_heard_of")])[0] == "allocator"
    )
    assert classes.of(begin)[0] == "threads and processes"


def test_rules_of_the_user_come_first(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[[rule]]\nclass = "arena"\nwhere = "user"\npattern = "(my|our)_malloc|malloc"\ndetail = "\\\\1"\n')
    mine = load_classes(file)
    assert mine.of(stack("our_malloc")) == ("arena", "our")
    assert mine.of(stack("free")) == ("allocator", "")


def test_the_wording_of_a_class_can_be_replaced(tmp_path: Path, classes: CostClasses) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[[class]]\nname = "allocator"\nsentence = "{variant}: {functions}"\ncounts = ["copies: bytes*"]\n')
    ours, mine = classes.named("allocator"), load_classes(file).named("allocator")
    assert mine.worded("musl", "", "free") == "musl: free"
    assert ours.worded("musl", "", "free") == "musl spends more time in its allocator (free)"
    copied, freed = (Count(group=group, name=name, baseline=1.0, candidate=2.0) for group, name in COUNTS)
    assert mine.has_count(copied, ()) and not mine.has_count(freed, ())
    assert ours.has_count(freed, ()) and not ours.has_count(copied, ())


def test_a_class_without_wording_names_its_functions_or_details(classes: CostClasses) -> None:
    kind = classes.named("clock")
    assert kind.worded("musl", "gettime", "clock_gettime") == "musl spends more time in clock (clock_gettime)"
    assert kind.worded("musl", "gettime", "") == "musl spends more time in clock (gettime)"


def test_counts_of_the_details_are_evidence(classes: CostClasses) -> None:
    def has(cause: str, group: str, name: str, *details: str) -> bool:
        return classes.named(cause).has_count(Count(group=group, name=name, baseline=1.0, candidate=2.0), details)

    assert has("system calls", "system calls", "mmap", "mmap") and not has(
        "system calls", "system calls", "read", "mmap"
    )
    assert has("waiting", "system calls", "epoll_pwait", "epoll_wait")
    assert has("locks", "system calls", "futex", "mmap") and has("locks", "faults", "minor faults", "page faults")
    assert not has("locks", "faults", "minor faults", "mmap") and not has("locks", "switches", "involuntary switches")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "[[rule]]\nclass = 'a'\n",
            "{file} can't be read as a table of classes: Object missing required field `where`",
        ),
        ("[[rule]]\nclass='a'\nwhere='user'\npattern='('\n", "its regular expression is invalid"),
        ("[[rule]]\nclass='a'\nwhere='user'\npattern='x'\ncolour='red'\n", "unknown field `colour`"),
        ("[[rule]]\nclass='a'\nwhere='user'\npattern='x'\ndetail='\\1'\n", "names a group"),
        ("[[rule]]\nclass=1\nwhere='user'\npattern='x'\n", "Expected `str`, got `int` - at `$.rule[0].class`"),
        ("other = 1\n", "unknown field `other`"),
        ("[[class]]\nsentence='x'\n", "missing required field `name`"),
        ("[[class]]\nname='a'\ncolour='red'\n", "unknown field `colour`"),
        ("[[class]]\nname='a'\nsentence='{whose}'\n", "unknown placeholder {{whose}}"),
        ("[[class]]\nname='a'\nsentence='{'\n", "Single '{{' encountered in format string - at `$.class[0]`"),
        ("[[class]]\nname='a'\ncounts='faults'\n", "Expected `array`, got `str` - at `$.class[0].counts`"),
        ("[[class]]\nname='a'\nfunctions='no'\n", "Expected `bool`, got `str`"),
        ("nonsense", "can't be read"),
    ],
)
def test_invalid_tables_are_user_errors(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(UserError) as caught:
        load_classes(file)
    assert words.format(file=file) in caught.value.message
    assert "[[rule]]" in caught.value.hint


def test_static_functions_of_a_stripped_musl_have_names() -> None:
    library = Path("/usr/lib/x86_64-linux-musl/libc.so")
    if not library.with_name("libc.a").is_file():
        pytest.skip("musl-dev is not installed")
    table = table_of(library)
    assert table is not None
    exported = subprocess.run(["nm", "-D", str(library)], capture_output=True, text=True, check=True).stdout
    for name in ("alloc_slot", "get_meta", "nontrivial_free"):
        assert f" {name}\n" not in exported
        address = table.address(name)
        assert address is not None
        assert table.name_at(address + 5) == name


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ('[[rule]]\nclass = "a"\nwhere = "user"\npattern = "(a)"\ndetail = "\\\\2"', "names a group"),
        ('[[rule]]\nclass = "a"\nwhere = "user"\npattern = "(a)"\ndetail = "\\\\g<b>"', "names a group"),
        ('[[rule]]\nclass = "a"\nwhere = "user"\npattern = "a{99999999999999999999}"', "is invalid"),
        ('[[class]]\nname = "a"\nsentence = "{variant:>9999999999}"', "a placeholder with a format"),
        ('[[class]]\nname = "a"\nsentence = "{variant!x}"', "a placeholder with a format"),
    ],
)
def test_an_entry_that_fails_only_when_it_is_used_is_refused(entry: str, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        decode_classes(entry.encode(), "mine")


@pytest.mark.parametrize(
    ("symbol", "plain"),
    [
        ("f.constprop.0.isra.1.cold", "f"),
        ("f.0.part", "f.0"),
        ("f.part.12", "f"),
        (".part", ""),
        ("part", "part"),
        ("f.partial", "f.partial"),
        ("f" + ".part.0" * 20_000, "f"),
    ],
)
def test_suffixes_of_clones_are_removed(symbol: str, plain: str) -> None:
    assert without_clone_suffixes(symbol) == plain
