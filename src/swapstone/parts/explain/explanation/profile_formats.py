# SPDX-License-Identifier: MIT OR Apache-2.0
"""Profiles in the formats of other tools (folded stacks, pprof), and equal names of equal work: functions of two C libraries, calls."""

from __future__ import annotations

import collections
import functools
import gzip
import itertools
import re
from collections.abc import Collection, Mapping, Sequence

from swapstone.core.comparison.profile_difference import NO_CALLERS, NO_STACK, Weights, stacks_of_both
from swapstone.core.model.number_text import fixed
from swapstone.core.model.profile import KERNEL, NAMELESS, OWN_OBJECT, Frame, Profile
from swapstone.parts.explain.model.explanation import KERNEL_LOCKS, NO_PROCESSOR_FRAME

_UNITS = {"ns": "nanoseconds", "1": "count"}


def label(frame: Frame) -> str:
    """Return a frame as folded stacks write it: ``_[k]`` after a kernel function, the object in place of an unknown name."""
    if frame.object == KERNEL:
        return f"{frame.symbol}_[k]"
    if frame.symbol != NAMELESS:
        return frame.symbol.replace(";", ":")
    return f"[{frame.object}]".replace(";", ":") if frame.object != OWN_OBJECT else OWN_OBJECT


def _labelled(baseline: Profile, candidate: Profile) -> list[tuple[str, Weights]]:
    """Return the stacks of either profile as folded stacks write them, with their weights per operation."""
    found = collections.defaultdict[tuple[str, ...], Weights](Weights)
    frames, stacks = stacks_of_both(baseline, candidate)
    labels = [*map(label, frames)]
    for stack, weights in stacks.items():
        found[tuple([labels[number] for number in stack]) or (label(NO_STACK),)].add(weights)
    return [(";".join(stack), found[stack]) for stack in sorted(found)]


def folded(profile: Profile) -> str:
    """Return folded stacks: one per line, frames joined by semicolons, then the weight over the whole run as an integer."""
    return "".join(
        f"{stack} {round(each.baseline * profile.operations)}\n" for stack, each in _labelled(profile, profile)
    )


def folded_difference(baseline: Profile, candidate: Profile) -> str:
    """Return the difference in the format of ``difffolded.pl``: a stack, its weight for the baseline, for the candidate.

    Both weights are scaled to the smaller number of operations of the two profiles.
    """
    operations = max(1.0, min(baseline.operations, candidate.operations))
    return "".join(
        f"{stack} {round(each.baseline * operations)} {round(each.candidate * operations)}\n"
        for stack, each in _labelled(baseline, candidate)
    )


def pprof(baseline: Profile, candidate: Profile | None = None) -> bytes:
    """Return a profile, or the difference of two, as gzip-compressed ``profile.proto`` of pprof, which speedscope.app opens too.

    The message and its numbers of fields are those of https://github.com/google/pprof/blob/main/proto/profile.proto.

    Args:
        baseline: the only profile, whose weights are over the whole run; or the baseline's.
        candidate: of the difference. Samples then have three values: the difference, which is below 0 where there is less, the baseline,
            and the candidate, over the smaller number of operations of the two profiles.
    """
    one = candidate is None
    other = baseline if candidate is None else candidate
    operations = max(1.0, min(baseline.operations, other.operations)) if not one else baseline.operations
    texts, functions, encoded = dict[str, int](), dict[int, int](), functools.cache(_number)

    def text(value: str) -> int:
        return texts.setdefault(value, len(texts))

    text("")  # the first text is empty
    unit = text(_UNITS[baseline.unit])
    kinds = [text(name) for name in ((baseline.kind,) if one else ("difference", "baseline", "candidate"))]
    made = [_field(1, _field(1, kind) + _field(2, unit)) for kind in kinds]
    known, stacks = stacks_of_both(baseline, other)
    known = (*known, NO_STACK)
    for stack, each in stacks.items():
        before, after = (round(weight * operations) for weight in (each.baseline, each.candidate))
        frames = reversed(stack or (len(known) - 1,))
        places = [functions.setdefault(frame, len(functions) + 1) for frame in frames]
        values = (before,) if one else (after - before, before, after)
        packed = [b"".join(map(encoded, numbers)) for numbers in (places, values)]
        made.append(_field(2, _field(1, packed[0]) + _field(2, packed[1])))
    for frame, number in ((known[each], number) for each, number in functions.items()):
        made.append(_field(4, _field(1, number) + _field(4, _field(1, number))))
        made.append(_field(5, _field(1, number) + _field(2, text(label(frame))) + _field(4, text(frame.object))))
    made += [_field(6, value.encode("utf-8", "backslashreplace")) for value in texts]
    return gzip.compress(b"".join(made), mtime=0)


def _number(value: int) -> bytes:
    """Return a number as protocol buffers encode it: 7 bits a byte, the lowest first; one below 0 as that plus 2^64."""
    value %= 1 << 64
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*found, value))


def _field(number: int, value: int | bytes) -> bytes:
    """Return a field of a message: a number, or bytes after their length."""
    if isinstance(value, int):
        return _number(number << 3) + _number(value)
    return _number(number << 3 | 2) + _number(len(value)) + value


_SAME: Mapping[str, str] = {
    other: name
    for name, others in {
        "accept": "accept4",
        "access": "faccessat faccessat2",
        "clone": "clone3 fork vfork",
        "dup2": "dup3",
        "epoll_wait": "epoll_pwait epoll_pwait2",
        "getdents": "getdents64",
        "link": "linkat",
        "mkdir": "mkdirat",
        "nanosleep": "clock_nanosleep usleep",
        "open": "openat",
        "pipe": "pipe2",
        "poll": "ppoll",
        "pread64": "pread",
        "pwrite64": "pwrite",
        "read": "readv",
        "readlink": "readlinkat",
        "recvfrom": "recv",
        "rename": "renameat renameat2",
        "select": "pselect pselect6",
        "sendto": "send",
        "stat": "newstat fstat newfstat lstat newlstat fstatat newfstatat",
        "symlink": "symlinkat",
        "unlink": "unlinkat",
        "wait4": "waitid",
        "write": "writev",
    }.items()
    for other in others.split()
}
"""Other names of calls, as the kernel's tracepoints and functions and the wrappers of C libraries have them, with the name that stands for
all. readv and writev are among them because streams of musl use these where those of glibc use read and write."""

OR = " or "


def common_call(name: str) -> str:
    """Return the name that stands for a system call and those that do the same work.

    Args:
        name: as in a count, or the joined names of `common_counts`.
    """
    first = name.split(OR, maxsplit=1)[0]
    return _SAME.get(first, first)


_DECORATION = re.compile(
    r"(?:__GI_)?(?:__+)?(?:(?<=_)libc_)?(?:(?:two|three|four)(?:way|byte)_)?(?P<name>_?[A-Za-z]\w*?)"  # musl's twoway_strstr
    r"(?:_(?:avx|evex|s?sse\d?|erms|unaligned|aligned|generic|impl|asimd|mte|sve|zbb|small|back)\w*)?"
)
_ALIASES = {"memmove": "memcpy", "mempcpy": "memcpy", "cfree": "free", "rawmemchr": "memchr", "strchrnul": "strchr"}


def plain_name(symbol: str) -> str:
    """Return a function's name without prefixes and suffixes of its variants: ``strlen`` for ``__strlen_avx2``."""
    found = _DECORATION.fullmatch(symbol)
    name = found["name"] if found else symbol
    return _ALIASES.get(name, name)


_C_LIBRARY = re.compile(r"(?:libc|libpthread|ld-linux[\w-]*|ld-musl-\w+|libc\.musl-\w+)[.\-]?[\d.]*\.so(?:\.\d+)*")
LIBRARY = "C library"
"""Object of the functions of any C library, and label of the frame above them where callers were left out."""

_CALL = re.compile(
    r"(?:__(?:x64|ia32|arm64|riscv|se|do)_(?:compat_)?sys_(?:new)?|do_(?=epoll_p?wait$)|(?:ksys|__sys)_(?=(?:read|write|pread64|pwrite64|lseek|"
    r"recvfrom|sendto|recvmsg|sendmsg|accept4|connect|bind|setsockopt|getsockopt)$))(\w+)"
)
"""Functions of the kernel for system calls; the last ones are called by those, which may be left out where that call is a jump."""

_FAULT = re.compile(r"(?:asm_exc_page_fault|exc_page_fault|el[01]_[di]a|do_page_fault|do_mem_abort|handle_exception)")
_ENTRY = re.compile(
    r"entry_SYSCALL_\w+|do_syscall_64|x64_sys_call|el0t_64_sync\w*|el0_svc\w*|do_el0_svc|invoke_syscall\w*|do_trap_ecall_u|"
    r"syscall_enter_from_user_mode\w*|syscall_exit_to_user_mode\w*|syscall_return_via_sysret|entry_SYSRETQ\w*|ret_from_syscall|entry_INT80\w*"
)
_START = re.compile(
    r"_start|_start_c|__libc_start_main(?:_impl)?|__libc_start_call_main|libc_start_main_stage2|start_thread|start|clone3?|__clone3?|"
    r"_dl_start(?:_user)?|_dlstart(?:_c)?|__dls\w+|"  # the loader's, before the program's
    r"runtime\.(?:rt0_go|main|mstart\d?|goexit)(?:\.abi0)?|"  # Go's: of threads and goroutines
    r"__restore(?:_rt)?"  # the return from a signal's handler, which nothing called
)
_CANCELLABLE = re.compile(r"_*(?:syscall_cp\w*|internal_syscall_cancel|syscall_cancel\w*|syscall)")
FAULTING = Frame(symbol="asm_exc_page_fault", object=KERNEL)

SYSTEM_CALL = "__x64_sys_"
"""Start of the common name of the kernel's function for a system call."""

LEAST_LOST = 0.02
"""Share of a profile in stacks of the C library without callers from which callers are left out on both sides."""


def aligned_label(frame: Frame) -> str:
    """Return a frame of aligned stacks as text: ``syscall:write``, ``page fault``, or as in other profiles."""
    if frame == FAULTING:
        return "page fault"
    if frame.object == KERNEL and (call := _CALL.fullmatch(frame.symbol)):
        return f"syscall:{call[1]}"
    return label(frame)


@functools.lru_cache(maxsize=1)  # a row is explained and drawn
def aligned(before: Profile, after: Profile) -> tuple[Profile, Profile, tuple[str, ...]]:
    """Give equal work of two C libraries equal stacks.

    The entry into the kernel and the wrapper of a system call are one frame; a function of the C library has the same name whatever its
    version for a processor; start-up code is left out. Where one side's stacks end in the C library without their callers (musl has no
    unwind tables), both sides' are drawn from the outermost of its functions on.

    Args:
        before: the baseline's.
        after: the candidate's.

    Returns:
        Both, and what was done to them, as sentences.
    """
    followed = before.kind == "instructions"  # the emulator's plugin follows all calls
    lost = [0.0 if followed else _lost(each) for each in (before, after)]
    cut = max(lost) >= LEAST_LOST
    notes = [
        "System calls are one frame with the wrapper of the C library, whose functions have the name that all C libraries use.",
    ]
    if cut:
        shares = " and ".join(f"{fixed(100 * share, 0)} %" for share in lost)
        notes.append(
            f"{shares} of the two sides end in the C library without callers. So stacks that end there are drawn without "
            f"callers on both sides, under [{LIBRARY}], and the kernel's below it without its functions too: they "
            "are in the graphs of one side."
        )
    calls = {
        frame.symbol
        for each in (before, after)
        for frame in map(_common, each.frames)
        if frame and _CALL.fullmatch(frame.symbol)
    }
    change = functools.partial(canonical, cut=cut, calls=calls)
    other = _other_files(before, after)
    notes += [f"Functions of {name} count as those of the same names in {now}." for name, now in other.items()]

    def renamed(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
        return change([Frame(symbol=each.symbol, object=other.get(each.object, each.object)) for each in frames])

    return _entered(before.mapped(renamed if other else change)), _entered(after.mapped(change)), tuple(notes)


def _other_files(before: Profile, after: Profile) -> dict[str, str]:
    """Return the files that the baseline alone has, with the file that the candidate alone has and that has most of its functions."""
    sides: list[dict[str, set[str]]] = []
    for profile in (before, after):
        found = collections.defaultdict[str, set[str]](set)
        for frame in profile.frames:
            if frame.symbol != NAMELESS and frame.object not in {KERNEL, OWN_OBJECT} and not is_library(frame):
                found[frame.object].add(frame.symbol)
        sides.append(found)
    shared = {
        (name, now): len(symbols & others)
        for name, symbols in sides[0].items()
        for now, others in sides[1].items()
        if name not in sides[1] and now not in sides[0]
    }
    pairs: dict[str, str] = {}
    for name, now in sorted(shared, key=lambda pair: (-shared[pair], pair)):
        if shared[name, now] and name not in pairs and now not in pairs.values():
            pairs[name] = now
    return pairs


def _entered(profile: Profile) -> Profile:
    """Return the profile in which entries into the kernel belong to the system call that the same callers make most.

    A stack of syscall(2) that ends at the entry does not show which call it is.
    """
    if not any(is_library(frame) and _CANCELLABLE.fullmatch(frame.symbol) for frame in profile.frames):
        return profile
    made: dict[tuple[Frame, ...], collections.Counter[Frame]] = {}
    for frames, weight in profile.weighted():
        place = next((n for n, frame in enumerate(frames) if frame.object == KERNEL), len(frames))
        for call in frames[place : place + 1]:
            if _CALL.fullmatch(call.symbol):
                made.setdefault(frames[:place], collections.Counter())[call] += weight  # type: ignore[assignment]

    def change(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
        most = (
            made.get(frames[:-1])
            if frames and is_library(frames[-1]) and _CANCELLABLE.fullmatch(frames[-1].symbol)
            else None
        )
        return (*frames[:-1], most.most_common(1)[0][0]) if most else frames

    return profile.mapped(change)


def have_other_libraries(before: Profile, after: Profile) -> bool:
    """Return whether both profiles have a C library, and none in common."""
    first, second = ({frame.object for frame in each.frames if is_library(frame)} for each in (before, after))
    return bool(first and second) and first.isdisjoint(second)


def _lost(profile: Profile) -> float:
    """Return the share of a profile in stacks that begin in the C library, with no function of the program."""
    lost = 0.0
    for frames, weight in profile.weighted():
        user = [frame for frame in frames if frame.object != KERNEL]
        if user and all(is_library(frame) and not _START.fullmatch(frame.symbol) for frame in user):
            lost += weight
    return lost / profile.total if profile.total else 0.0


def is_library(frame: Frame) -> bool:
    """Return whether a function is one of a C library."""
    return frame.object == LIBRARY or _C_LIBRARY.fullmatch(frame.object) is not None


def canonical(frames: Sequence[Frame], *, cut: bool, calls: Collection[str] = ()) -> tuple[Frame, ...]:
    """Return a stack with canonical frames.

    Args:
        frames: the outermost first.
        cut: whether the callers of the C library are left out.
        calls: functions of the kernel for system calls; a stack that ends in the wrapper of one, or at the entry, is of that call.
    """
    user = [frame for frame in frames if frame.object != KERNEL]
    kernel = _kernel([frame for frame in frames if frame.object == KERNEL])
    user = _without_start(user)
    inner = list(itertools.takewhile(is_library, reversed(user)))
    callers, library = user[: len(user) - len(inner)], [common_name(frame) for frame in reversed(inner)]
    inside = bool(library) or (bool(kernel) and _CALL.fullmatch(kernel[0].symbol) is not None)
    if kernel and (call := _CALL.fullmatch(kernel[0].symbol)):
        while library and _is_wrapper(library[-1], call[1]):
            library.pop()
    else:  # samples in the wrapper, and at the entry into the kernel, are of the wrapper
        while len(library) > 1 and _CANCELLABLE.fullmatch(library[-1].symbol):
            library.pop()
        if (
            library
            and not kernel
            and (name := f"{SYSTEM_CALL}{common_call(library[-1].symbol.removesuffix('64'))}") in calls
        ):
            library[-1:], kernel = [], [Frame(symbol=name, object=KERNEL)]
    if cut and inside:
        callers = [NO_CALLERS]
        library = [frame for frame in library if frame != callers[0]] if not kernel else []
    return (*callers, *library, *kernel) or tuple(frames[-1:])


def _without_start(user: list[Frame]) -> list[Frame]:
    """Return functions without start-up code above the program, of which some may have no name."""
    first = 0
    for number, frame in enumerate(user, 1):
        if _START.fullmatch(frame.symbol):
            first = number
        elif frame.symbol != NAMELESS:
            break
    return user[first:] or user[-1:]


def _kernel(frames: Sequence[Frame]) -> list[Frame]:
    common = (frame for frame in map(_common, frames) if frame is not None)
    return [frame for frame, _ in itertools.groupby(common)]


@functools.lru_cache(maxsize=1 << 14)
def _common(frame: Frame) -> Frame | None:
    """Return a frame of the kernel by the name that is common to all machines; None for the entry into the kernel."""
    if _ENTRY.fullmatch(frame.symbol):
        return None
    if call := _CALL.fullmatch(frame.symbol):
        return Frame(symbol=f"{SYSTEM_CALL}{common_call(call[1])}", object=KERNEL)
    return FAULTING if _FAULT.fullmatch(frame.symbol) else frame


def common_name(frame: Frame) -> Frame:
    """Return a function of a C library by the name that is common to all; others are unchanged."""
    return Frame(symbol=plain_name(frame.symbol), object=LIBRARY) if is_library(frame) else frame


def _is_wrapper(frame: Frame, call: str) -> bool:
    """Return whether a function of the C library only makes a system call."""
    name = frame.symbol
    same = name.removesuffix("64").removesuffix("_nocancel")
    return name == "[unknown]" or common_call(same) == call or _CANCELLABLE.fullmatch(name) is not None


def waiting_stack(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """Return the stack of a waiting thread without the scheduler's functions: in the kernel the system call or fault, and a lock of it.

    Time without a processor has no stack: what the thread was about to do is no reason for it.
    """
    if NO_PROCESSOR_FRAME in frames:
        return (NO_PROCESSOR_FRAME,)
    kernel = [frame for frame in frames if frame.object == KERNEL]
    entered = [frame for frame in kernel if _CALL.fullmatch(frame.symbol) or _FAULT.fullmatch(frame.symbol)]
    locks = [frame for frame in kernel if frame.symbol.startswith(KERNEL_LOCKS)]
    return (*(frame for frame in frames if frame.object != KERNEL), *entered, *locks[:1])
