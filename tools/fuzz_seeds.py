# SPDX-License-Identifier: MIT OR Apache-2.0
"""Valid texts that have no encoder in the program: of perf, strace, callgrind and /proc, locks, and explained rows."""

from __future__ import annotations

import json

from tools.plugin_output import paths_file, traced_block, wakeups_file

PERF = b"""\
perf-exec     0/0         0.000000000: PERF_RECORD_COMM: perf-exec:7/7
a prog 7/7     10.000000100: PERF_RECORD_COMM exec: prog:7/7
prog 7/7     10.000000200: PERF_RECORD_MMAP2 7/7: [0x55b95feee000(0x1000) @ 0x2000 fe:00 10018933 2693367313]: r-xp /a b/prog
prog 7/7     10.000000300: PERF_RECORD_FORK(7:8):(7:7)
prog 7/8     10.000000400: PERF_RECORD_SWITCH IN
prog 7/8     10.000000500: cpu-clock:
\tffffffff821f5f83 schedule ([kernel.kallsyms])
\t           1c5c4 operator new(unsigned long) (/usr/lib/libc (x).so)

prog 7/8     10.000000600: PERF_RECORD_SWITCH OUT preempt
prog 7/8     10.000000700: PERF_RECORD_SWITCH OUT
 raw name 7/8 10.000000800: raw_syscalls:sys_enter: NR 202 (1, 2)
prog 7/8     10.000000810: syscalls:sys_enter_getrusage: who: 0x00000000
prog 7/8     10.000000820: swapstone_9:f0: (7f1) a0=64 a1=0x10 caller=0x55b95feee010
prog 7/8     10.000000850: PERF_RECORD_LOST lost 12950
prog 7/8     10.000000900: PERF_RECORD_EXIT(7:8):(6:6)
"""

SCHEDULER = b"""\
prog 7/7 [000] 10.000000300: PERF_RECORD_FORK(7:8):(7:7)
prog 7/7 [000] 10.000000400: sched:sched_switch: prev_comm=p prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=a b next_pid=9 next_prio=0
\tffffffff821facd8 __schedule ([kernel.kallsyms])

a b 9/9 [000] 10.040000400: timer:timer_expire_entry: timer=0xffff888304e73bf8 function=tcp_delack_timer now=4300891297 baseclk=4300891297
\tffffffff8141edf9 call_timer_fn ([kernel.kallsyms])

a b 9/9 [000] 10.040000500: sched:sched_waking: comm=prog pid=7 prio=120 target_cpu=000
\tffffffff813aa9c4 try_to_wake_up ([kernel.kallsyms])
\tffffffff81e695bb net_rx_action ([kernel.kallsyms])
\tffffffff81000e06 asm_sysvec_apic_timer_interrupt ([kernel.kallsyms])
\t            25a7 compute (/tmp/a b)

a b 9/9 [000] 10.050000500: sched:sched_switch: prev_comm=a b prev_pid=9 prev_prio=120 prev_state=R+ ==> next_comm=p next_pid=7 next_prio=0
\tffffffff821facd8 __schedule ([kernel.kallsyms])

"""

PERF_STAT = b"""\
# started on Tue Nov 24 16:01:48 2026

1000000;;cycles:u;66585414;100.00;;
2500000;;instructions;66585414;83.20;2.50;insn per cycle
<not counted>;;branch-misses;0;0.00;;
1000000;;topdown-bad-spec;66585414;100.00;25.0;
"""

ROLLUP = b"""\
55d4b7600000-7ffe0a5e5000 ---p 00000000 00:00 0                          [rollup]
Rss:              131072 kB
AnonHugePages:    129024 kB
FilePmdMapped:      2048 kB
"""

STRACE = b"""\
10 100.000001 execve("/usr/bin/env", ["env"], 0x1) = 0
10 100.000010 execve("/a/prog", ["prog"], 0x1) = 0
11 100.000011 getrusage(RUSAGE_SELF, 0x1) = 0
11 100.000012 getrusage(RUSAGE_CHILDREN, 0x1) = 0
11 100.000013 mmap(NULL, 5) = 0x1
12 100.000014 futex(0x1, FUTEX_WAIT <unfinished ...>
12 100.000016 <... futex resumed>) = 0
11 100.000020 getrusage(RUSAGE_SELF, 0x1) = 0
11 100.000021 getrusage(RUSAGE_CHILDREN, 0x1) = 0
11 100.000022 write(1, ""..., 5) = 5
"""

CALLGRIND = b"""\
events: Ir

ob=(1) /lib/libc.so
fl=(1) ???
fn=(1) malloc
0 100
+3 20
cfn=(2) 0x288a0
calls=7 0
0 5000
* 1
fn=(2)
cob=(2) /a/prog
cfn=(3) main
calls=2 0
-2 9
totals: 5130
"""

CACHEGRIND = b"""\
desc: I1 cache:         32768 B, 64 B, 8-way associative
cmd: /a/prog
events: Ir
fl=./malloc/malloc.c
fn=malloc
3209 17
3321 4
fl=???
fn=(below main)
0 9
summary: 30
"""

OBJDUMP = b"""\

/a/libc.so:     file format elf64-x86-64

Disassembly of section .text:

0000000000001000 <malloc>:
    1000:\tpush   %rbp
    1001:\tmov    %rsp,%rbp
    1004:\tpush   %rbx
    1005:\tsub    $0x18,%rsp
    1009:\tje     1010 <malloc+0x10>
    100b:\tlea    0x11(%rip),%rax        # 1020 <free>
    100e:\tcall   1020 <free>
    1010:\tadd    $0x18,%rsp
    1014:\tpop    %rbx
    1015:\tleave
    1016:\tret
    1020:\tsub    $0x8,%rsp
    1024:\tmov    %rbx,(%rsp)
    1028:\tlea    -0x10(%rsp),%rsp
    102d:\tnotrack jmp *%rax
    1030:\tbnd jmp 1000 <malloc>
"""

BOARD_WORD = "swapstone-0"

BOARD_ANSWER = b"""Welcome

swapstone-0 folder
/home/pi/.cache/swapstone-board

swapstone-0 uname
Linux
6.1.0
#1 SMP
aarch64

swapstone-0 shell

swapstone-0 file /etc/os-release
PRETTY_NAME="Linux of a board"

swapstone-0 root-mounts
/dev/mmcblk0p2 ext4

swapstone-0 root-files
00aa00aa00aa00aa00aa00aa00aa00aa00aa00aa00aa00aa00aa00aa00aa00aa /lib/libc.so.6
1234567 /sbin/init

swapstone-0 file /proc/cpuinfo
processor : 0

swapstone-0 file /proc/self/status
Cpus_allowed_list:\t0-3

swapstone-0 file /sys/class/thermal/thermal_zone0/temp
48312

swapstone-0 end
"""

HOST = b"""\
--- proc/cpuinfo
processor : 0
model name : A processor
microcode : 0x1
flags : fpu hypervisor
--- proc/meminfo
MemTotal:  1024 kB
SwapTotal: 4096 kB
SwapFree: 1024 kB
--- proc/stat
cpu  10 0 20 400 5 0 1 7 0 0
--- proc/pressure/cpu
some avg10=6.50 avg60=0.10 avg300=0.00 total=12345
--- etc/os-release
PRETTY_NAME="A system"
--- sys/kernel/mm/transparent_hugepage/enabled
always [madvise] never
--- sys/devices/system/cpu/smt/active
1
--- proc/sys/kernel/randomize_va_space
2
"""

CONSOLE = b"""\
[    0.5] Run /init as init process
swapstone-init: can't mount /proc: error 2
[    0.6] Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000100
"""

MONITOR = (
    b'{"QMP": {"version": {"qemu": {"major": 8}}, "capabilities": ["oob"]}}',
    b'{"return": {"status": "completed"}}',
    b'{"error": {"class": "GenericError", "desc": "no"}}',
)

GATE = b"""\
build = "make -s -j{jobs}"
programs = ["prog"]
paths = ["*.c", "Makefile"]
data = "bench"
fail = { instructions = "1%|5000000", syscalls = "0", size = "2KiB" }
[run.small]
command = "./prog {data}/small"
fail = { own_code = "0.3%" }
timeout = "10s"
[[accept]]
run = "small"
metric = "instructions"
size = "3%"
reason = "checks its input"
"""

LAB = (
    b'{"address":"127.0.0.1","port":2222,"user":"root","source":"NetworkService","config":"","strategy":"ShellStrategy","state":"shell",'
    b'"drivers":["SSHDriver"],"resources":["NetworkService"],"coordinator":"","image":"/lab/kernel","root_image":"/lab/root"}'
)

_DIGEST = b'"' + b"0f" * 32 + b'"'
STORED_TRIAL = (
    b'{"swapstone":"0.1.0","emulator":"0f","emulator_version":"QEMU emulator version 7.2","machine":{"cpu":"Nehalem"},'
    b'"kernel":%s,"initrd":%s,"order":%s,"received":%s}' % ((_DIGEST,) * 4)
)
STORED_RUN = b'\n{"end":"finished","reason":"","output":"c3dhcHN0b25l","console":"ok","counts":[]}'

PACKAGES = b"""\
Package: one
Version: 1:2.0-1+b2
Pre-Depends: libc6 (>= 2.36)
Depends: a:any (>= 1), b | c,
 d
Size: 1234
SHA256: 9af0

Package: two
Version: 1
Size: 5
SHA256: aa
"""

BUILD_OUTPUT = b"""\
prog.c:1:10: fatal error: zlib.h: No such file or directory
/usr/bin/ld: cannot find -lssl: No such file or directory
Package 'libpng', required by 'virtual:world', not found
error[E0463]: can't find crate for `core`
  = help: consider downloading the target with `rustup target add armv7-unknown-linux-musleabihf`
"""

MAKEFILE = b"""\
CFLAGS = -O2 -Iinclude \\
  -DVERSION=\\"1\\"  # a comment
LDFLAGS += -Wl,-z,now $(OTHER)
all: prog
"""

OPTIONS = (
    b"duration 1.5h\nage 30d\nratio 2%\nconfidence 99.9\nparameter N=1..100/10\nvary env:THREADS=1,8\nfail-if maxrss=worse:10%\n"
    b"metric req/s[1/s,higher]=regex:Requests/sec: +([0-9.]+)\nread regex:(?P<requests>[0-9]+) in (?P<seconds>[0-9.]+)\n"
    b"factor swap=flash:20,zram:lz4\nfactor libc=glibc,musl\n",
)

FAKE = b"""\
seed = 7

[[behaviour]]
wall_ns = 1000
noise = 0.02

[[behaviour]]
workload = "b_*"
variant = "libc=musl*"
wall_ns = 2000
faults = [{ kind = "crash", probability = 0.5, trials = ["3-*"] }]
"""

IMAGE_LOCK = b"""\
version = 1

[unavailable]
"armhf" = "no kernel"

[[packages]]
architecture = "amd64"
name = "one"
version = "1.0-1"
sha256 = "9af0"
size_bytes = 1234
needs = ["libc.so.6"]
objects = { "libc.so.6" = "lib/libc.so.6" }
"""

SOURCE_LOCK = b"""\
[mimalloc]
version = "2.1.2"
kind = "debian"
package = "mimalloc"
file = "mimalloc_2.1.2.orig.tar.gz"
sha256 = "9af0"
"""

PRINTED = b"run 1\nRequests/sec:   1234.5\ntotal: 3e2 ms\n"

EVIDENCE = (
    b'{"differs":true,"ledger_metric":"wall","missing":[],'
    b'"place":{"baseline":"libc=glibc","candidate":"libc=musl","load":"idle","metric":"wall","suite":"libc","workload":"w"},"references":[{"metrics":[["wall",1000.0],["cpu",900.0]],'
    b'"program_sha256":"","recorded":1000.0,"runs":5,"time_ns":1000.0,"variant":"libc=glibc"},'
    b'{"metrics":[["wall",3000.0],["cpu",2000.0]],'
    b'"program_sha256":"","recorded":3100.0,"runs":5,"time_ns":3100.0,"variant":"libc=musl"}],"runs":[{"amounts":[],'
    b'"command":"c","instrument":"on-cpu","notes":[],'
    b'"operations":10.0,"overhead":1.5,"passing":null,"profile":{"frames":[{"object":"[program]","symbol":"pass"}],'
    b'"kind":"on-cpu","notes":[],"operations":10.0,"stacks":[{"frames":[0],"weight":100.0}],'
    b'"unit":"ns"},"tool":"t","variant":"libc=glibc"},{"amounts":[],"command":"c","instrument":"on-cpu","notes":[],'
    b'"operations":10.0,"overhead":1.5,"passing":null,"profile":{"frames":[{"object":"[program]","symbol":"pass"},'
    b'{"object":"libc.so","symbol":"free"},{"object":"[kernel]","symbol":"__x64_sys_munmap"},'
    b'{"object":"libc.so","symbol":"[unknown]"}],"kind":"on-cpu","notes":[],"operations":10.0,"stacks":[{"frames":[0],'
    b'"weight":50.0},{"frames":[0,1,2],"weight":40.0},{"frames":[3],"weight":10.0}],"unit":"ns"},"tool":"t","variant":"libc=musl"},'
    b'{"amounts":[],"command":"c","instrument":"off-cpu","notes":[],'
    b'"operations":10.0,"overhead":1.5,"passing":{"cpu_ns":0.0,"most_threads":1,"ready_ns":0.0,"running_ns":95.0,"waits":{"frames":[{"object":"[program]","symbol":"pass"},'
    b'{"object":"[kernel]","symbol":"__x64_sys_clock_nanosleep"}],"kind":"off-cpu","notes":[],'
    b'"operations":10.0,"stacks":[{"frames":[0,1],"weight":5.0}],'
    b'"unit":"ns"},"wall_ns":1000.0},"profile":null,"tool":"t","variant":"libc=glibc"},{"amounts":[],'
    b'"command":"c","instrument":"off-cpu","notes":[],'
    b'"operations":10.0,"overhead":1.5,"passing":{"cpu_ns":0.0,"most_threads":1,"ready_ns":10.0,"running_ns":60.0,"waits":{"frames":[{"object":"[program]","symbol":"pass"},'
    b'{"object":"[kernel]","symbol":"__x64_sys_clock_nanosleep"}],"kind":"off-cpu","notes":[],'
    b'"operations":10.0,"stacks":[{"frames":[0,1],"weight":30.0}],'
    b'"unit":"ns"},"wall_ns":1000.0},"profile":null,"tool":"t","variant":"libc=musl"}],"unit":"ns"}'
)
"""Of an explained row: profiles of both sides, on and off the processor."""


def evidence_by_run(runs: int = 5) -> bytes:
    """Return `EVIDENCE` with everything kept apart by run, and with a remedy that was tried."""
    content = json.loads(EVIDENCE)
    for reference in content["references"]:
        reference["values"] = [[name, [value + n for n in range(runs)]] for name, value in reference["metrics"]]
    for run in content["runs"]:
        passing = run["passing"]
        for profile in (run["profile"], passing and passing["waits"]):
            if profile:
                weights = [[n, stack["weight"] / runs] for n, stack in enumerate(profile["stacks"])]
                profile["runs"] = [{"samples": 9, "weights": weights} for _ in range(runs)]
        if passing:
            passing["runs"] = [{"running_ns": 20.0, "ready_ns": 2.0, "cpu_ns": 20.0} for _ in range(runs)]
    waits = [
        {"reason": reason, "whose": "", "waits": 2.0, "total_ns": 500.0, "short_ns": 100.0, "long_ns": 300.0}
        for reason in ("delayed ACK", "lock", "hand-off")
    ]
    for variant in ("libc=glibc", "libc=musl"):
        given = {"tool": "t", "variant": variant, "command": "c", "operations": 1.0, "overhead": 1.0}
        counts = [{"group": "hardware", "name": name, "value": 5.0} for name in ("cycles", "instructions", "slots")]
        content["runs"] += [
            {**given, "instrument": "waits", "waits": waits, "taken": [{"whose": "hog", "total_ns": 7.0}]},
            {**given, "instrument": "hardware", "amounts": counts},
        ]
    times = {"faster": [10.0, 11.0], "slower": [30.0, 31.0], "placebo": [29.0, 32.0], "remedied": [12.0, 12.0]}
    content["remedies"] = [{"name": "a", "text": "b", "calls": 7, **{name: 4 * some for name, some in times.items()}}]
    return json.dumps(content, sort_keys=True).encode()


WAKEUPS = (
    wakeups_file(
        [
            traced_block(0x401000, [b"\x48\x89\xf8", b"\xc3"]),
            traced_block((1 << 64) - 4096, [b"\xfa", b"\xe8\0\0\0\0"]),
        ],
        [(2, 2), (1, 2), (0, 3)],
        base=0x400000,
        marks=3,
        cycle=2,
        maximum=4104,
        cut=1,
    ),
    wakeups_file(writes=[(0x10, 3, 4096, 4096, 4104, 8), (0x14, 1, 0, 0, 0, 0)]),
)
"""Of the emulator's plugin in its mode for wake-ups."""

CALL_PATHS = (
    paths_file(
        [
            traced_block(0x401000, [b"\x48\x89\xf8", b"\xe8\0\0\0\0"]),
            traced_block((1 << 64) - 4096, [b"\xfa", b"\xe8\0\0\0\0"]),
        ],
        [(0, 1), (1, 1), (2, 2), (0, 0)],
        [(0, 1, 2, 3), (2, 1, 1, 5), (3, 2, 2, 7), (4, 2, 2, 1)],
        begins=4,
        windows=1,
        full=1,
        deep=2,
    ),
)
"""Of the emulator's plugin in its mode for call paths."""

KALLSYMS = (
    b"ffffffff81000000 T _text\nffffffff81000000 T startup_64\nffffffffc0000010 t zram_make\t[zram]\n",
    b"c0008000 T _text\n",
)

TASKS = (
    b"swapstone-tasks 1\nroots 1\ntasks 2\ncopied 1\nfull 0\nforeign 0\ntask_switches 3\nuser_instructions 40\nrep_turns 0\n"
    b"syscalls 3\nuser_faults 1\nkernel_faults 0\nuncertain_instructions 0\ncalls.execve 1\nkernel.execve 50\nkernel_instructions 90\n"
    b"call_instructions 50\nfault_instructions 20\ninterrupt_instructions 10\nend\n"
)
"""Of the emulator's plugin in its mode for tasks."""


COUNTED_ROW = (
    b'{"record":"r","chain":"c","swapstone":"0","created":"now","emulator":"QEMU","region":"passes","notes":["counted"],'
    b'"place":{"baseline":"libc=glibc","candidate":"libc=musl","load":"idle","metric":"wall","suite":"libc","workload":"w"},'
    b'"sides":[{"variant":"libc=glibc","trial":"t","run":"r","output":"o","program_sha256":"","operations":2.0,"instructions":30,'
    b'"clock_ns":28,"repeated":0,"lost":1,"arm":{"kinds":[["vadd.f32",2],["integer",8]],"load_runs":1,"helper_calls":0},'
    b'"profile":{"frames":[{"symbol":"__x64_sys_brk","object":"[kernel]"}],"kind":"instructions","unit":"1","operations":2.0,'
    b'"stacks":[{"frames":[0],"weight":29.0}]}},{"variant":"libc=musl","trial":"t","run":"r","output":"o","program_sha256":"",'
    b'"operations":2.0,"instructions":60,"clock_ns":55,"repeated":0,"lost":0,'
    b'"profile":{"frames":[{"symbol":"strlen","object":"libc.so"},{"symbol":"__x64_sys_brk","object":"[kernel]"}],"kind":"instructions",'
    b'"unit":"1","operations":2.0,"stacks":[{"frames":[0],"weight":40.0},{"frames":[1],"weight":20.0}]}}],'
    b'"events":[{"group":"system calls","name":"brk","baseline":1.0,"candidate":0.5}],"no_paths":"none"}'
)
"""Of a row on the exact clock: the instructions of both sides by function."""


def paths_of_row() -> bytes:
    """Return the same row with its instructions by call path."""
    content = json.loads(COUNTED_ROW) | {"no_paths": ""}
    names = (("main", "__x64_sys_brk"), ("main", "strlen", "[unknown]"))
    objects = {"main": "[program]", "strlen": "libc.so"}
    notes = ((), ("Calls that found no room: 2. Their functions are below [callers not kept].",))
    for side, functions, weights, each in zip(content["sides"], names, ((29.0,), (40.0, 20.0)), notes, strict=True):
        side["profile"] |= {
            "frames": [{"symbol": name, "object": objects.get(name, "[kernel]")} for name in functions],
            "stacks": [{"frames": [0, place + 1], "weight": weight} for place, weight in enumerate(weights)],
            "notes": each,
        }
    return json.dumps(content, sort_keys=True).encode()


PATHS_OF_ROW = paths_of_row()

WAKEUP_ROW = (
    b'{"record":"r","chain":"c","swapstone":"0","created":"now","emulator":"QEMU",'
    b'"place":{"baseline":"kernel=rt","candidate":"kernel=generic","load":"memory","metric":"max","suite":"latency","workload":"cyclictest"},'
    b'"sides":[{"variant":"kernel=rt","trial":"0001/latency","run":"r","output":"o","latency_ns":1000,"cycle":2,"cycles":9,"equal":2,'
    b'"instructions":1200,"phases":[0,200,600,400],"ended_by":["preempt_schedule_irq","asm_sysvec_apic_timer_interrupt"],'
    b'"profile":{"frames":[{"symbol":"release_pages","object":"[kernel]"},{"symbol":"asm_sysvec_apic_timer_interrupt","object":"[kernel]"}],'
    b'"kind":"instructions","unit":"1","operations":1.0,"stacks":[{"frames":[0],"weight":200.0},{"frames":[1],"weight":1000.0}]}},'
    b'{"variant":"kernel=generic","trial":"0002/latency","run":"r","output":"o","latency_ns":9000,"cycle":1,"cycles":9,"equal":1,'
    b'"instructions":9500,"phases":[0,300,9000,200],"ended_by":["__cond_resched","tlb_batch_pages_flush"],'
    b'"locks":[["_raw_spin_lock",3]],"disabled":{"begins":"a","ends":"b","modules":["","m"],"instructions":7},'
    b'"profile":{"frames":[{"symbol":"tlb_finish_mmu","object":"[kernel]"},{"symbol":"tlb_batch_pages_flush","object":"[kernel]"},'
    b'{"symbol":"release_pages","object":"[kernel]"},{"symbol":"[unknown]","object":"zram"},{"symbol":"__schedule","object":"[kernel]"}],'
    b'"kind":"instructions","unit":"1","operations":1.0,"stacks":[{"frames":[0,1],"weight":100.0},{"frames":[0,1,2],"weight":9000.0},'
    b'{"frames":[0,1,2,3],"weight":300.0},{"frames":[4],"weight":100.0}]}}]}'
)
"""Of a row of latencies on the exact clock: the paths of the worst wake-ups."""
