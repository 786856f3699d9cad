# SPDX-License-Identifier: MIT OR Apache-2.0
"""Claims in the text of the pages, each with a check against the page's own numbers.

A check computes from the figures whether the numbers support the claim. Claims are abridged and in English.
"""

from __future__ import annotations

from collections.abc import Callable

from swapstone.model import FrozenStruct
from swapstone.published.data import Figure, baselines, derived, facts, figures
from swapstone.published.derived_figures import latency_tables

MUSL = "openeuler-musl"
RT = "openeuler-preempt-rt"
HTTP = "musl-malloc-slow"
LWIP = "arceos-lwip"
ZRAM = "zram-and-float"


class Outcome(FrozenStruct, frozen=True, kw_only=True):
    """The result of a check: the numbers, and whether they support the claim (None: the page has no numbers for it)."""

    numbers: str
    borne_out: bool | None


class Claim(FrozenStruct, frozen=True, kw_only=True):
    """A claim, where it is, and its check."""

    source: str
    place: str
    words: str
    judge: Callable[[], Outcome]


def _pick(study: str, suite: str, metric: str, level: str, *, condition: str = "", platform: str = "") -> Figure:
    """Return the only figure that matches; condition and platform match by prefix."""
    (figure,) = (
        f
        for f in figures(study, suite)
        if f.metric == metric
        and f.level == level
        and f.condition.startswith(condition)
        and f.platform.startswith(platform)
    )
    return figure


def _fact(source: str, name: str) -> tuple[float, ...]:
    return tuple(float(value) for value in facts()[source, name])


def _memory(kind: str, level: str) -> dict[str, float]:
    suffix = f":{kind}"
    return {
        f.metric.removesuffix(suffix): f.value
        for f in figures("musl-vs-glibc", "libc")
        if f.metric.endswith(suffix) and f.level == level
    }


# The musl page.


def _coremark() -> Outcome:
    rows = [row for row in derived() if row.row.startswith("CoreMark per MHz")]
    stated = int(_fact(MUSL, "clock stated")[0])

    def reproduced(mhz: int) -> int:
        return sum(f"{float(row.a) / mhz:.2f}" == row.printed for row in rows)

    fits = [mhz for mhz in range(stated - 50, stated + 51) if reproduced(mhz) == len(rows)]
    numbers = (
        f"Divided by {stated} MHz, {reproduced(stated)} of the {len(rows)} scores have the printed digits; "
        f"all have them when divided by {' or '.join(map(str, fits)) or 'no whole number'} MHz."
    )
    return Outcome(numbers=numbers, borne_out=reproduced(stated) == len(rows))


def _shell_score() -> Outcome:
    (row,) = (r for r in derived() if r.row == "Shell Scripts (8 concurrent) (musl)" and r.source == MUSL)
    score = 10 * float(row.a) / float(row.b)
    numbers = f"10 x {row.a} / {row.b} = {score:.3f}; the table prints {row.printed}, truncated instead of rounded."
    return Outcome(numbers=numbers, borne_out=f"{score:.1f}" == row.printed)


def _syscall_unit() -> Outcome:
    unit = _pick("musl-vs-glibc", "unixbench", "System Call Overhead", "musl").unit
    (printed,) = facts()[MUSL, "unit of the System Call Overhead baseline"]
    (known,) = (unit for test, _, unit in baselines() if test == "System Call Overhead")
    numbers = f"The results beside it are in {unit}; UnixBench's baseline is in {known}."
    return Outcome(numbers=numbers, borne_out=printed == unit)


def _reclaimable() -> Outcome:
    res, dirty = _memory("res", "glibc"), _memory("dirty", "glibc")
    clean = {name: res[name] - dirty[name] for name in res}
    numbers = (
        "The columns are named dirty: pages that can't be dropped, the opposite of reclaimable. Reclaimable memory is resident "
        f"minus dirty, at most {max(clean.values()):.0f} KiB with glibc, "
        f"where the table prints {min(dirty.values()):.0f} to {max(dirty.values()):.0f}."
    )
    return Outcome(numbers=numbers, borne_out=clean == dirty)


def _kilobytes() -> Outcome:
    values = [f.value for f in figures("musl-vs-glibc", "libc") if f.unit == "KiB"]
    pages = sum(value % 4 == 0 for value in values)
    numbers = (
        f"{pages} of {len(values)} figures are multiples of 4: counts of 4096-byte pages, so the unit is 1024 bytes."
    )
    return Outcome(numbers=numbers, borne_out=pages < len(values))


def _both_measured() -> Outcome:
    times = {f.metric for f in figures("musl-vs-glibc", "libc") if f.unit == "s"}
    memory = set(_memory("virt", "glibc"))
    numbers = (
        f"{len(times)} tests have a time and {len(memory)} have memory. Without a time: {', '.join(sorted(memory - times))}; "
        f"without memory: {', '.join(sorted(times - memory))}, which the memory tables seem to call by another needle."
    )
    return Outcome(numbers=numbers, borne_out=times == memory)


def _index_order() -> Outcome:
    musl = _pick("musl-vs-glibc", "unixbench", "index", "musl").value
    glibc = _pick("musl-vs-glibc", "unixbench", "index", "glibc").value
    return Outcome(numbers=f"{musl} against {glibc}: musl {musl / glibc - 1:+.1%}.", borne_out=musl > glibc)


# The real-time page.


def _between() -> list[Figure]:
    return [f for f in figures("preempt-rt", "cyclictest") if f.metric.endswith("generic/rt")]


def _within() -> dict[tuple[str, str, str], float]:
    return {
        (f.platform, f.level, f.condition.removeprefix("load=")): f.value
        for f in figures("preempt-rt", "cyclictest")
        if f.metric.endswith("loaded/idle")
    }


def _rt_always() -> Outcome:
    rows = _between()
    worse = [f"{f.platform}, {f.condition.split(',')[0]}: {f.printed}" for f in rows if f.value < 1]
    numbers = (
        f"Of {len(rows)} ratios of maxima {len(worse)} is below 1 ({'; '.join(worse)}): there the generic kernel has the smaller "
        "maximum."
    )
    return Outcome(numbers=numbers, borne_out=not worse)


def _rt_stable() -> Outcome:
    table = _within()
    pairs = [(key, table[key], table[key[0], "generic", key[2]]) for key in table if key[1] == "rt"]
    worse = [f"{key[0]}, {key[2]} {rt:g} against {generic:g}" for key, rt, generic in pairs if rt > generic]
    numbers = (
        f"Under load the rt maximum grows up to {max(rt for _, rt, _ in pairs):g} times over idle. In {len(worse)} of {len(pairs)} "
        f"cells it grows more than the generic kernel's: {'; '.join(worse)}."
    )
    return Outcome(numbers=numbers, borne_out=not worse)


def _load_order() -> Outcome:
    table = _within()
    rows = list(dict.fromkeys(key[:2] for key in table))
    network_least = [
        r for r in rows if all(table[*r, "network"] <= table[*r, load] for load in ("cpu", "memory", "io"))
    ]
    cpu_below = [r for r in rows if table[*r, "cpu"] < min(table[*r, "memory"], table[*r, "io"])]
    worst = table["Phytium D2000 (8 cores)", "rt", "network"]
    numbers = (
        f"CPU load is below memory and I/O load in {len(cpu_below)} of {len(rows)} rows; network load is the least in "
        f"{len(network_least)} of {len(rows)}. On the D2000 with rt it multiplies the maximum by {worst:g}, more than memory load."
    )
    return Outcome(numbers=numbers, borne_out=len(network_least) == len(rows) and len(cpu_below) == len(rows))


def _tables_fit() -> Outcome:
    rows = latency_tables(figures())
    off = [row.row for row in rows if not row.agrees]
    numbers = (
        f"{len(off)} of {len(rows)} cells can't come from the same maxima, whatever the rounding: {'; '.join(off)}. "
        "Table 7 is for processors that are not isolated; for table 8 the page does not state it."
    )
    return Outcome(numbers=numbers, borne_out=not off)


def _devices() -> Outcome:
    (stated,) = _fact(RT, "devices in the words")
    shown = sorted({f.platform for f in _between()})
    return Outcome(numbers=f"The tables show {len(shown)}: {', '.join(shown)}.", borne_out=len(shown) == stated)


def _same_board() -> Outcome:
    one, two = _fact(RT, "memory of the D2000 in tables 4 and 10")
    return Outcome(
        numbers=f"Table 4 gives the D2000 {one:g} GB of memory, table 10 gives it {two:g} GB.", borne_out=one == two
    )


def _throughput() -> Outcome:
    def kept(condition: str) -> dict[str, float]:
        rows = [f for f in figures("preempt-rt", "unixbench") if f.condition == condition]
        level = {(f.metric, f.level): f.value for f in rows}
        return {name: level[name, "rt"] / level[name, "generic"] for name, side in level if side == "rt"}

    single, multi = kept("single task"), kept("multi task")
    pipe = single["Pipe Throughput"]
    below = {
        name: share for name, share in single.items() if share < pipe and not name.startswith(("File Copy", "index"))
    }
    copies = [share for name, share in multi.items() if name.startswith("File Copy")]
    numbers = (
        f"With many tasks file copies keep {min(copies):.0%} to {max(copies):.0%} and the index {multi['index']:.0%} of the generic "
        f"kernel's. With one task {', '.join(f'{name} ({share:.0%})' for name, share in below.items())} lose more than "
        f"pipes ({pipe:.0%})."
    )
    return Outcome(numbers=numbers, borne_out=not below and min(copies) > 0.5)


def _syscall_latency() -> Outcome:
    generic = _pick("preempt-rt", "unixbench", "System Call Overhead", "generic", condition="single task").value
    rt = _pick("preempt-rt", "unixbench", "System Call Overhead", "rt", condition="single task").value
    numbers = (
        "Its source, table 14, is a picture without figures on the page. An iteration of UnixBench takes "
        f"{1e6 / rt - 1e6 / generic:.2f} us longer, which is consistent with the claim."
    )
    return Outcome(numbers=numbers, borne_out=None)


# The page on musl's malloc.


def _http(level: str, platform: str) -> float:
    return _pick("musl-malloc", "http", "requests", level, platform=platform).value


def _round_numbers() -> Outcome:
    claimed = _fact(HTTP, "requests a second in the words")
    measured = [_http(level, machine) for level in ("musl", "mimalloc") for machine in ("Pentium", "AMD")]
    text = "; ".join(f"{m:.0f} for {s:.0f}" for s, m in zip(claimed, measured, strict=True))
    off = max(abs(m / s - 1) for s, m in zip(claimed, measured, strict=True))
    return Outcome(numbers=f"Measured: {text}; up to {off:.0%} off.", borne_out=off < 0.025)


def _newer_machine() -> Outcome:
    connections = _fact(HTTP, "connections of wrk on the two machines")
    threads = _fact(HTTP, "threads of wrk on the two machines")
    gains = {level: _http(level, "AMD") / _http(level, "Pentium") for level in ("musl", "mimalloc")}
    numbers = (
        f"wrk used {connections[1]:.0f} connections and {threads[1]:.0f} threads on the new machine, {connections[0]:.0f} and "
        f"{threads[0]:.0f} on the old one. The gain is {gains['musl']:.0f} times with musl's malloc and "
        f"{gains['mimalloc']:.0f} times with mimalloc, so the processor is not the only cause."
    )
    return Outcome(numbers=numbers, borne_out=connections[0] == connections[1] and threads[0] == threads[1])


def _tenfold() -> Outcome:
    gains = [_http("mimalloc", machine) / _http("musl", machine) for machine in ("Pentium", "AMD")]
    return Outcome(numbers=f"{gains[0]:.1f} times and {gains[1]:.1f} times.", borne_out=min(gains) > 10)


def _below_500() -> Outcome:
    value = _http("musl", "Pentium")
    return Outcome(numbers=f"{value:.2f} requests a second.", borne_out=value < 500)


# The page on lwIP for ArceOS.


def _lwip(suite: str, metric: str, level: str) -> float:
    return _pick("lwip-vs-smoltcp", suite, metric, level).value


def _third() -> Outcome:
    share = _lwip("copies", "memcpy bytes", "lwip zero-copy rx") / _lwip("copies", "memcpy bytes", "smoltcp")
    return Outcome(numbers=f"{share:.3f} of smoltcp's.", borne_out=abs(share - 1 / 3) < 0.05)


def _same_copies() -> Outcome:
    one, two = (_lwip("copies", "memcpy calls", level) for level in ("lwip zero-copy rx", "smoltcp"))
    return Outcome(
        numbers=f"{one:.0f} and {two:.0f} calls (both rounded by the page).", borne_out=abs(one / two - 1) < 0.05
    )


def _much_less() -> Outcome:
    lwip = _lwip("allocations", "alloc bytes", "lwip pools + preallocated queues")
    smoltcp = _lwip("allocations", "alloc bytes", "smoltcp")
    share = 1 - lwip / smoltcp
    return Outcome(numbers=f"{lwip:.0f} against at least {smoltcp:.0f} bytes: {share:.1%} less.", borne_out=share > 0.1)


def _stacks() -> Outcome:
    (stack,) = _fact(LWIP, "stack of a thread")
    total = _lwip("allocations", "alloc bytes", "lwip zero-copy rx")
    share = 1000 * stack / total
    numbers = (
        f"1000 requests with 0x{int(stack):x} bytes each make {share:.0%} of the {total:.0f} bytes counted. "
        f"0x{int(stack) * 16:x} would make {16 * share:.1%}: a zero seems to be missing."
    )
    return Outcome(numbers=numbers, borne_out=share > 0.5)


def _queues() -> Outcome:
    calls = [_lwip("allocations", "alloc calls", level) for level in ("lwip pools", "lwip pools + preallocated queues")]
    sizes = [_lwip("allocations", "alloc bytes", level) for level in ("lwip pools", "lwip pools + preallocated queues")]
    numbers = f"{calls[1] - calls[0]:+.0f} calls, {sizes[1] - sizes[0]:+.0f} bytes."
    return Outcome(numbers=numbers, borne_out=abs(sizes[1] / sizes[0] - 1) < 0.01)


def _send_buffer() -> Outcome:
    window, buffer = _fact(LWIP, "TCP_WND and TCP_SND_BUF")
    return Outcome(numbers=f"The page sets them to {buffer:.0f} and {window:.0f} bytes.", borne_out=window == buffer)


def _as_fast() -> Outcome:
    tests = sorted({f.suite for f in figures("lwip-vs-smoltcp")})
    numbers = (
        f"The page has counts of {' and '.join(tests)}, and the command line of a load test, but no rates or failures."
    )
    return Outcome(numbers=numbers, borne_out=None)


# The page on zram, and on float.


def _swap_out(level: str) -> list[float]:
    return [f.value for f in figures("zram-vs-flash", "vmstat") if f.level == level and f.metric.startswith("swap out")]


def _active(series: list[float]) -> list[float]:
    """Return a series from its first value above zero."""
    return series[next(i for i, value in enumerate(series) if value) :]


def _swap_unit() -> Outcome:
    printed = [_pick("zram-vs-flash", "vmstat", "mean swap out, as printed", level) for level in ("flash", "zram")]
    column = [sum(_active(_swap_out(f.level))) / len(_active(_swap_out(f.level))) for f in printed]
    text = " and ".join(f"{f.printed} is KiB, {f.value / 1024:.1f} MiB a second" for f in printed)
    numbers = (
        f"vmstat counts KiB by default, and its columns average {column[0]:.0f} and {column[1]:.0f}: {text}. "
        "The claim is too small by a factor of 1024."
    )
    return Outcome(
        numbers=numbers, borne_out=all(abs(f.value / 1024 / c - 1) < 0.01 for f, c in zip(printed, column, strict=True))
    )


def _swap_mean() -> Outcome:
    parts, same = [], []
    for level in ("flash", "zram"):
        printed = _pick("zram-vs-flash", "vmstat", "mean swap out, as printed", level).value
        series = _active(_swap_out(level))
        held = _fact(ZRAM, f"swpd with {level}")
        parts.append(
            f"{level}: swap out averages {sum(series) / len(series):.0f}, printed is {printed:.0f} = "
            f"{held[-1]:.0f} in use at the end / {len(held)} s, truncated"
        )
        same.append(round(sum(series) / len(series)) == printed)
    return Outcome(numbers="; ".join(parts) + ".", borne_out=all(same))


def _every_second() -> Outcome:
    flash, zram = max(_swap_out("flash")), max(_swap_out("zram"))
    numbers = (
        f"One line of the flash run has {flash:.0f} KiB, {flash / zram:.1f} times the fastest line of zram. Either flash was faster "
        "in that second, or the line covers more than one second; then the mean over lines is not a rate."
    )
    return Outcome(numbers=numbers, borne_out=flash <= zram)


def _some_cpu() -> Outcome:
    flash, zram = _fact(ZRAM, "system time with flash"), _fact(ZRAM, "system time with zram")
    steady = zram[1:]
    numbers = (
        f"System time is {min(steady):.0f} to {max(steady):.0f} % in every full second of zram: the processor is saturated. With flash "
        f"it averages {sum(flash) / len(flash):.0f} %."
    )
    return Outcome(numbers=numbers, borne_out=max(steady) < 50)


def _zram_faster() -> Outcome:
    zram = _pick("zram-vs-flash", "vmstat", "mean swap out, as printed", "zram").value
    flash = _pick("zram-vs-flash", "vmstat", "mean swap out, as printed", "flash").value
    return Outcome(numbers=f"{zram / flash:.2f} times, on the means.", borne_out=zram > flash)


def _soft_faster() -> Outcome:
    levels = sorted({f.platform for f in figures("float-abi")})
    numbers = f"The plot is a picture without figures; the page's only number is for {', '.join(levels)}."
    return Outcome(numbers=numbers, borne_out=None)


_TABLE: tuple[tuple[str, str, str, Callable[[], Outcome]], ...] = (
    (MUSL, "CoreMark", "the scores are per MHz, of a Raspberry Pi at 600 MHz", _coremark),
    (MUSL, "UnixBench", "musl's score against the baseline in Shell Scripts (8 concurrent) is 990.6", _shell_score),
    (MUSL, "UnixBench", "the baseline of System Call Overhead is in lpm", _syscall_unit),
    (MUSL, "UnixBench", "the system with musl scores higher", _index_order),
    (MUSL, "libc-bench, third memory table", "this is memory that the system can reclaim", _reclaimable),
    (MUSL, "libc-bench, memory tables", "the columns are in KB", _kilobytes),
    (MUSL, "libc-bench", "the tests are for time and for memory", _both_measured),
    (RT, "before table 7", "under all five loads the rt kernel is the better one for real time", _rt_always),
    (RT, "after table 8", "under load the rt kernel stays fairly stable", _rt_stable),
    (RT, "before table 8", "CPU load matters less than I/O and memory load, network load least", _load_order),
    (RT, "tables 7 and 8", "both are ratios of the same peak latencies", _tables_fit),
    (RT, "before table 8", "four devices were compared", _devices),
    (RT, "tables 4 and 10", "both describe the D2000", _same_board),
    (RT, "conclusion", "the patch has some effect on local throughput, mainly on pipes and file copies", _throughput),
    (RT, "conclusion", "the effect on the latency of system calls is mostly within 2 us", _syscall_latency),
    (
        HTTP,
        "newer machines",
        "from 400 to 14000 with musl's malloc, from 16000 to 160000 with mimalloc",
        _round_numbers,
    ),
    (HTTP, "end", "ten years of processors brought a huge improvement", _newer_machine),
    (HTTP, "newer machines", "over ten times better with mimalloc", _tenfold),
    (HTTP, "start", "fewer than 500 queries a second", _below_500),
    (LWIP, "copies", "after the change, about a third of the bytes that smoltcp copies", _third),
    (LWIP, "copies", "about as many copies as smoltcp", _same_copies),
    (LWIP, "allocations", "in total markedly fewer bytes than smoltcp", _much_less),
    (
        LWIP,
        "allocations",
        "the totals are large because each request starts a thread with a stack of 0x4000 bytes",
        _stacks,
    ),
    (LWIP, "allocations", "preallocating the queues brings little", _queues),
    (LWIP, "other optimisations", "TCP_SND_BUF should equal TCP_WND", _send_buffer),
    (LWIP, "results, at the top", "in the end as fast as smoltcp, and more stable", _as_fast),
    (ZRAM, "zram and flash", "on average 23830 and 47325 bytes a second are swapped out", _swap_unit),
    (ZRAM, "zram and flash", "these are averages of the swap-out rate", _swap_mean),
    (
        ZRAM,
        "zram and flash",
        "vmstat wrote one line a second, and RAM is much faster to write than flash",
        _every_second,
    ),
    (ZRAM, "conclusion", "zram uses some CPU time", _some_cpu),
    (ZRAM, "conclusion", "swapping out to zram is faster on the whole", _zram_faster),
    (ZRAM, "float on the BeagleBone", "softfp and hard run slower than soft", _soft_faster),
)


def claims() -> tuple[Claim, ...]:
    """Return every claim of the pages that can be checked against their numbers."""
    return tuple(Claim(source=source, place=place, words=words, judge=judge) for source, place, words, judge in _TABLE)
