# SPDX-License-Identifier: MIT OR Apache-2.0
"""The shell scripts that run on a board: POSIX sh with the programs of busybox, of which only `NEEDED` must be there.

Each part of an answer begins with a line of a random word and a name. What follows is content of the board, as it is. No text of a user
is a part of a script, but paths and names of `is_board_path`.
"""

from __future__ import annotations

import re

from swapstone.core.model import UserError
from swapstone.core.model.safe_text import safe_excerpt
from swapstone.parts.boards.targets.board_swap_scripts import swap_functions

NEEDED = ("cat", "chmod", "env", "mkdir", "mv", "rm", "uname")
"""Programs that the board must have."""

_PATH = re.compile(r"/[A-Za-z0-9_.,+=@/-]{1,400}", re.ASCII)

_GOVERNOR = re.compile(r"[a-z][a-z0-9_]{1,14}", re.ASCII)

LOCKS = "${SWAPSTONE_BOARD_LOCKS:-/tmp}/swapstone-board-lock"
"""Begins the paths of locks, which end with the process and its start time. All users of a board must find them there."""

REFUSED = ("locked", "no-proc", "no-folder", "no-exec", "missing", "no-cpufreq", "no-governor")
"""Parts of an answer that state why trials can't run, in the order in which they are checked."""

RT_RUNTIME = "/proc/sys/kernel/sched_rt_runtime_us"
"""How much of each sched_rt_period_us threads of real-time priorities get; -1 for all (Documentation/scheduler/sched-rt-group.rst)."""

SYSTEM_FILES = (
    *("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/self/status", "/proc/pressure/cpu", "/etc/os-release"),
    *("/proc/sys/kernel/random/boot_id", "/proc/sys/kernel/randomize_va_space", "/proc/device-tree/model"),
    *("/sys/hypervisor/type", "/sys/class/dmi/id/sys_vendor", "/sys/class/dmi/id/product_name"),
    *("/sys/devices/system/cpu/intel_pstate/no_turbo", "/sys/devices/system/cpu/cpufreq/boost"),
    *("/sys/devices/system/cpu/smt/active", "/sys/devices/system/cpu/vulnerabilities/*"),
    *("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor", "/sys/kernel/mm/transparent_hugepage/enabled"),
    *("/sys/devices/system/clocksource/clocksource0/current_clocksource", RT_RUNTIME),
)
"""Patterns of files that describe a board."""

CPUFREQ = "/sys/devices/system/cpu/cpu[0-9]*/cpufreq"
"""Pattern of folders with the files of Documentation/admin-guide/pm/cpufreq.rst."""

SENSORS = (
    "/sys/class/thermal/thermal_zone[0-9]*/temp",
    "/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq",
    "/sys/devices/system/cpu/cpu[0-9]*/thermal_throttle/core_throttle_count",
    "/sys/devices/platform/soc/soc:firmware/get_throttled",
)
"""Patterns of files with temperatures in 0.001 degrees Celsius, frequencies in kHz, and counts or bits of throttling.

Sources: Documentation/ABI/testing/sysfs-class-thermal, Documentation/admin-guide/pm/cpufreq.rst, arch/x86/kernel/cpu/mce/therm_throt.c;
the last is of the Raspberry Pi's kernel (drivers/firmware/raspberrypi.c).
"""

_FUNCTIONS = r"""
part() { printf '\n%s %s\n' "$word" "$1"; }
show() {
    for each in "$@"; do
        [ -f "$each" ] && [ -r "$each" ] && { part "file $each"; cat "$each"; }
    done 2>/dev/null </dev/null
}
start_of() {
    { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
    set -- ${stat##*) }
    [ $# -ge 20 ] && echo "${20}"
}
refuse() { part "$1"; printf '%s\n' "$2"; part end; exit 3; }
sample() { show @SENSORS@; }
clean_up() { restore; chmod -R u+rwX "$scratch"; rm -rf "$scratch" "$folder/load-$session"; rm -f "$mine" "$agent" "$agent"-load*; }
boot_id() { cat /proc/sys/kernel/random/boot_id; }
restore() {
    swap_restore
    [ -f "$folder/governors" ] || return 0
    while read -r file name; do
        case $file in
        boot) [ "$name" = "$(boot_id)" ] || break ;;
        *) printf '%s\n' "$name" >"$file" ;;
        esac
    done <"$folder/governors" 2>/dev/null
    rm -f "$folder/governors"
}
govern() {
    wanted=$1
    set -- @CPUFREQ@/scaling_governor
    [ -f "$1" ] || refuse no-cpufreq "$1"
    {
        printf 'boot %s\n' "$(boot_id)"
        for file in "$@"; do
            name=
            read -r name <"$file"
            printf '%s %s\n' "$file" "$name"
        done
    } >"$folder/governors.part" && mv -f "$folder/governors.part" "$folder/governors" || refuse no-folder "no space left in $folder"
    for file in "$@"; do
        { printf '%s\n' "$wanted" >"$file"; } 2>/dev/null
        name=
        read -r name <"$file"
        [ "$name" = "$wanted" ] && continue
        known=$(cat "${file%/*}/scaling_available_governors" 2>/dev/null)
        refuse no-governor "$(id -u) ${name:-unknown} $known"
    done
    part governors; cat "$folder/governors"
}
ready() {
    { rm -rf "$scratch" || { chmod -R u+rwX "$scratch"; rm -rf "$scratch"; }; } 2>/dev/null
    mkdir "$scratch" 2>/dev/null || part not-cleared
}
end_process() {
    kill "$1" || return 1
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        [ -d "/proc/$1" ] || return 0
        sleep 1
    done
    kill -9 "$1"
}
"""

_LOCK = r"""
start=$(start_of $$)
locks=@LOCKS@
mine=$locks-$$-$start
session=@SESSION@ scratch=$folder/scratch-@SESSION@ agent=$folder/agent-@SESSION@
rm -f "$mine"
(umask 022; set -C; printf '%s %s\n' "$session" '@OWNER@' >"$mine") || refuse no-folder "$mine can't be written"
for lock in "$locks"-*-*; do
    [ -f "$lock" ] && [ "$lock" != "$mine" ] || continue
    name=${lock#"$locks"-}
    other=${name%%-*} began=${name#*-}
    case $other$began in *[!0-9]*) continue ;; esac
    if [ "$(start_of "$other")" != "$began" ]; then
        rm -f "$lock"
    elif read -r theirs owner <"$lock" && [ "$theirs" = "$session" ]; then
        end_process "$other"
        rm -f "$lock"
    else
        rm -f "$mine"
        refuse locked "$other $owner"
    fi
done 2>/dev/null </dev/null
"""

_OPEN = r"""
export LC_ALL=C
umask 077
word=@WORD@
@FUNCTIONS@
[ -r /proc/self/stat ] || refuse no-proc 'no /proc/self/stat'
for program in @NEEDED@; do
    command -v "$program" >/dev/null || refuse missing "$program"
done
folder=@FOLDER@
case $folder in /*) ;; *) folder=/tmp/swapstone-$(id -u) ;; esac
why=$(mkdir -p "$folder/files" 2>&1) || refuse no-folder "$why"
@LOCK@
trap 'trap "" HUP INT TERM PIPE; clean_up 2>/dev/null' EXIT
trap 'exit 3' HUP INT TERM
for file in "$folder"/agent-*; do
    [ -f "$file" ] && read -r old <"$file" || continue
    case $old in '' | *[!0-9]*) ;; *)
        case $(cat "/proc/$old/cmdline") in */swapstone-agent*) end_process "$old" ;; esac ;;
    esac
    rm -f "$file"
done 2>/dev/null </dev/null
chmod -R u+rwX "$folder"/scratch-* 2>/dev/null
rm -rf "$folder"/scratch-* "$folder"/load-*
why=$(printf '#!/bin/sh\nexit 7\n' 2>&1 >"$folder/files/.try" && chmod 700 "$folder/files/.try" 2>&1) || refuse no-folder "$why"
[ -s "$folder/files/.try" ] || refuse no-folder "no space left in $folder"
why=$("$folder/files/.try" 2>&1)
[ $? = 7 ] || refuse no-exec "$why"
rm -f "$folder/files/.try"
restore
@GOVERN@
ready
part folder; printf '%s\n' "$folder"
part uname; uname -s; uname -r; uname -v; uname -m
part shell; dd if=/proc/self/exe bs=64 count=1 2>/dev/null </dev/null
part user; id -u
part disk; df -Pk "$folder" 2>/dev/null </dev/null
show @SYSTEM@
sample
part end
"""


def default_folder() -> str:
    """Return the shell's words for the folder on a board that the user did not name."""
    return '"${XDG_CACHE_HOME:-${HOME:-}/.cache}/swapstone-board"'


def is_governor(name: str) -> bool:
    """Return whether a text can be the name of a frequency governor (CPUFREQ_NAME_LEN is 16)."""
    return bool(_GOVERNOR.fullmatch(name))


def is_board_path(path: str) -> bool:
    """Return whether a path is absolute and has only characters that mean themselves in a script and in a linker's option."""
    return bool(_PATH.fullmatch(path)) and ".." not in path.split("/") and "," not in path


def open_script(word: str, session: str, owner: str, folder: str, governor: str = "") -> bytes:
    """Return the script of the shell that lasts as long as the connection: it takes the lock and describes the board.

    Args:
        word: begins the parts of the answers: random letters and digits.
        session: identifies the user of the lock: random letters and digits, the same after a lost connection.
        owner: of the lock, for other users: letters, digits and ``@._-``.
        folder: a path of `is_board_path`, or empty for the default.
        governor: of the processors' frequency during the session, a name of `is_governor`; empty to leave it alone. The former ones
            are in the file ``governors`` in the folder until the session's end, or the next session's beginning, restores them.

    Raises:
        UserError: the folder or the governor has another form.
    """
    if folder and not is_board_path(folder):
        raise UserError(
            f"{safe_excerpt(folder, 80)!r} can't be the folder on a board.",
            "Name an absolute path of letters, digits and ._+=@-/: --target ssh:HOST,folder=/data/swapstone",
        )
    if governor and not is_governor(governor):
        raise UserError(f"{safe_excerpt(governor, 80)!r} can't be a frequency governor.", "For example: performance")
    replaced = {
        "@FUNCTIONS@": _FUNCTIONS + swap_functions(),
        "@LOCK@": _LOCK,
        "@GOVERN@": f"govern {governor}" if governor else "",
        "@CPUFREQ@": CPUFREQ,
        "@SENSORS@": " ".join(SENSORS),
        "@SYSTEM@": " ".join(SYSTEM_FILES),
        "@NEEDED@": " ".join(NEEDED),
        "@LOCKS@": LOCKS,
        "@WORD@": word,
        "@SESSION@": session,
        "@OWNER@": re.sub(r"[^A-Za-z0-9@._-]", "_", owner)[:100],
        "@FOLDER@": folder or default_folder(),
    }
    text = _OPEN
    for name, value in replaced.items():
        text = text.replace(name, value)
    return text.encode()


def step_script(step: str) -> bytes:
    """Return a script for the shell of `open_script`: the functions and commands, and the end of the answer."""
    return f"{{ {step}; }} </dev/null\npart end\n".encode()


def clean_script(word: str, folder: str) -> bytes:
    """Return the script that removes the files on a board; arguments as of `open_script`."""
    text = f"""
word={word}
{_FUNCTIONS.replace("@SENSORS@", "").replace("@CPUFREQ@", CPUFREQ)}{swap_functions()}
folder={folder or default_folder()}
case $folder in /*) ;; *) folder=/tmp/swapstone-$(id -u) ;; esac
locks={LOCKS}
for lock in "$locks"-*-*; do
    [ -f "$lock" ] || continue
    name=${{lock#"$locks"-}}
    other=${{name%%-*}} began=${{name#*-}}
    case $other$began in *[!0-9]*) continue ;; esac
    if [ "$(start_of "$other")" = "$began" ]; then
        read -r _ owner <"$lock"
        refuse locked "$other $owner"
    fi
    rm -f "$lock"
done 2>/dev/null </dev/null
part folder; printf '%s\\n' "$folder"
restore
if [ -d "$folder/files" ]; then
    part size; du -sk "$folder" 2>/dev/null </dev/null
    chmod -R u+rwX "$folder"/scratch-* 2>/dev/null
    why=$(rm -rf "$folder/files" "$folder"/scratch-* "$folder"/load-* "$folder"/agent-* 2>&1) || {{ part failed; printf '%s\\n' "$why"; }}
    rmdir "$folder" 2>/dev/null
fi
part end
"""
    return text.encode()
