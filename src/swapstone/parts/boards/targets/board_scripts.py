# SPDX-License-Identifier: MIT OR Apache-2.0
"""The shell scripts that run on a board: POSIX sh with the programs of busybox, of which only `NEEDED` must be there.

Each part of an answer begins with a line of a random word and a name. What follows is content of the board, as it is. No text of a user
is a part of a script, but paths and names of `is_board_path`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

from swapstone.core.model import refuse
from swapstone.core.model.safe_text import safe_excerpt
from swapstone.parts.vm.factors.swap import BOARD_MEMORY_BYTES, BOARD_SWAP_FILE, BOARD_SWAP_MIB

ROOT = ""
"""Before the paths ``/proc``, ``/sys`` and ``/dev`` in the script; another one in tests."""

NO_SWAP = "no-swap"
"""Part of an answer that states why a level can't be set: a word, and details."""

GROUP = "swapstone-board"
"""Name of the memory cgroup of a trial on a board."""

SLACK_MIB = 32
"""Of memory that must remain available to a board."""

FUNCTIONS = r"""
swap_write() { { printf '%s\n' "$2" >"$1"; } 2>/dev/null; }
swap_take() { cat "$1" 2>/dev/null; }
swap_refuse() { refuse no-swap "$1"; }
swap_note() { printf '%s\n' "$1" >>"$folder/swaps" || swap_refuse "state $folder"; }
swap_was() {
    swap_note "was $1"
    former="$former$1
"
}
swap_known() {
    zram= group= control= module= former= swap_boot=
    [ -f "$folder/swaps" ] || return 1
    while read -r swap_key swap_value; do
        case $swap_key in
        boot) swap_boot=$swap_value ;;
        zram) zram=$swap_value ;;
        group) group=$swap_value ;;
        control) control=$swap_value ;;
        module) module=yes ;;
        was) former="$former$swap_value
" ;;
        esac
    done <"$folder/swaps"
    [ "$swap_boot" = "$(boot_id)" ] && return
    zram= group= control= module= former=
    return 1
}
swap_is_own() {
    case $1 in
    */@FILE@) return 0 ;;
    /dev/zram*) [ "${1#/dev/zram}" = "$zram" ] ;;
    *) return 1 ;;
    esac
}
swap_end_group() {
    [ -n "$group" ] && [ -d "$group" ] || return 0
    for _ in 1 2 3 4 5 6; do
        rmdir "$group" 2>/dev/null && return
        while read -r swap_process; do
            kill -9 "$swap_process"
        done <"$group/cgroup.procs" 2>/dev/null
        rmdir "$group" 2>/dev/null && return
        sleep 1
    done
    return 1
}
swap_stop() {
    swap_end_group || return 1
    swap_list=$(cat @ROOT@/proc/swaps 2>/dev/null)
    while read -r swap_name _; do
        swap_is_own "$swap_name" || continue
        swapoff "$swap_name" 2>/dev/null || return 1
    done <<END
$swap_list
END
    [ -z "$zram" ] || swap_write "@ROOT@/sys/block/zram$zram/reset" 1
}
swap_restore() {
    [ -f "$folder/swaps" ] || return 0
    PATH=$PATH:/usr/sbin:/sbin
    if swap_known; then
        swap_stop || return 1
        [ -z "$zram" ] || swap_write @ROOT@/sys/class/zram-control/hot_remove "$zram"
        [ -z "$module" ] || rmmod zram 2>/dev/null
        [ -z "$control" ] || swap_write "$control" -memory
        swap_left=
        swap_list=$(cat @ROOT@/proc/swaps 2>/dev/null)
        while read -r swap_name swap_priority; do
            case $swap_name in /*) ;; *) continue ;; esac
            case $swap_list in *"$swap_name "* | *"$swap_name	"*) continue ;; esac
            case $swap_priority in -*) ;; *) swapon -p "$swap_priority" "$swap_name" 2>/dev/null && continue ;; esac
            swapon "$swap_name" 2>/dev/null || swap_left="${swap_left}was $swap_name $swap_priority
"
        done <<END
$former
END
        if [ -n "$swap_left" ]; then
            printf 'boot %s\n%s' "$(boot_id)" "$swap_left" >"$folder/swaps.part" && mv -f "$folder/swaps.part" "$folder/swaps"
            return 1
        fi
    fi
    rm -f "$folder/@FILE@" "$folder/@FILE@.part" "$folder/swaps"
}
swap_available() {
    swap_found=0
    while read -r swap_key swap_value _; do
        [ "$swap_key" = MemAvailable: ] && swap_found=$swap_value
    done <@ROOT@/proc/meminfo
    echo "$swap_found"
}
swap_former() {
    swap_list=$(cat @ROOT@/proc/swaps 2>/dev/null) || swap_refuse kernel
    swap_used=0
    while read -r swap_name _ _ swap_kib swap_priority; do
        case $swap_name in /*) ;; *) continue ;; esac
        case $swap_name in *[!A-Za-z0-9/._+@:=-]*) swap_refuse "name $swap_name" ;; esac
        swap_used=$((swap_used + swap_kib))
        case $former in *"$swap_name "*) ;; *) swap_was "$swap_name $swap_priority" ;; esac
    done <<END
$swap_list
END
    swap_free=$(swap_available)
    [ "$swap_used" = 0 ] || [ "$swap_free" -gt $((swap_used + @SLACK@ * 1024)) ] || swap_refuse "busy $swap_used $swap_free"
    while read -r swap_name _; do
        case $swap_name in /*) ;; *) continue ;; esac
        swap_why=$(swapoff "$swap_name" 2>&1) || swap_refuse "off $swap_name $swap_why"
    done <<END
$swap_list
END
    swap_free=$(swap_available)
    [ "$swap_free" -gt $(((@SIZE@ + @SLACK@) * 1024 + @LIMIT@ / 1024)) ] || swap_refuse "memory $swap_free"
}
swap_find_top() {
    swap_v1= swap_v2=
    while read -r _ swap_point swap_type swap_options _; do
        case $swap_type in
        cgroup2) swap_v2=@ROOT@$swap_point ;;
        cgroup) case ,$swap_options, in *,memory,*) swap_v1=@ROOT@$swap_point ;; esac ;;
        esac
    done <@ROOT@/proc/mounts
    case " $(cat "$swap_v2/cgroup.controllers" 2>/dev/null) " in
    *' memory '*) swap_knob=memory.max swap_top=$swap_v2 ;;
    *) swap_knob=memory.limit_in_bytes swap_top=$swap_v1 ;;
    esac
    [ -n "$swap_top" ]
}
swap_group() {
    swap_find_top || swap_refuse controller
    case "$swap_knob $(cat "$swap_top/cgroup.subtree_control" 2>/dev/null) " in
    *limit_in_bytes* | *' memory '*) ;;
    *)
        swap_note "control $swap_top/cgroup.subtree_control"
        swap_write "$swap_top/cgroup.subtree_control" +memory || swap_refuse "group $swap_top"
        ;;
    esac
    [ "$group" = "$swap_top/@GROUP@" ] || swap_note "group $swap_top/@GROUP@"
    group=$swap_top/@GROUP@
    rmdir "$group" 2>/dev/null
    mkdir "$group" 2>/dev/null && swap_write "$group/$swap_knob" @LIMIT@ || swap_refuse "group $group"
    swap_limit=$(swap_take "$group/$swap_knob")
    [ "$swap_limit" = @LIMIT@ ] || swap_refuse "limit $swap_limit"
}
swap_add_zram() {
    if ! [ -d @ROOT@/sys/class/zram-control ]; then
        swap_module=
        [ -d @ROOT@/sys/module/zram ] || swap_module=yes
        modprobe zram 2>/dev/null
        [ -d @ROOT@/sys/class/zram-control ] || swap_refuse zram
        [ -z "$swap_module" ] || swap_note module
    fi
    zram=$(swap_take @ROOT@/sys/class/zram-control/hot_add)
    case $zram in '' | *[!0-9]*) swap_refuse "add $zram" ;; esac
    swap_note "zram $zram"
}
swap_zram() {
    [ -n "$zram" ] && [ -d "@ROOT@/sys/block/zram$zram" ] || swap_add_zram
    swap_sys=@ROOT@/sys/block/zram$zram
    swap_write "$swap_sys/comp_algorithm" "$1"
    swap_algorithms=$(swap_take "$swap_sys/comp_algorithm")
    case $swap_algorithms in *"[$1]"*) ;; *) swap_refuse "algorithm $1 $swap_algorithms" ;; esac
    swap_write "$swap_sys/disksize" $((@SIZE@ * 1048576))
    [ "$(swap_take "$swap_sys/disksize")" = $((@SIZE@ * 1048576)) ] || swap_refuse "size $zram"
    for _ in 1 2 3 4 5; do
        [ -e "@ROOT@/dev/zram$zram" ] && break
        sleep 1
    done
    swap_start "@ROOT@/dev/zram$zram"
}
swap_file() {
    swap_path=$folder/@FILE@
    if ! [ -f "$swap_path" ]; then
        swap_why=$(dd if=/dev/zero of="$swap_path.part" bs=1048576 count=@SIZE@ 2>&1) || {
            rm -f "$swap_path.part"
            swap_refuse "space $swap_why"
        }
        mv -f "$swap_path.part" "$swap_path" || swap_refuse "space $folder"
    fi
    swap_start "$swap_path"
}
swap_start() {
    swap_why=$(mkswap "$1" 2>&1) || swap_refuse "start mkswap $1 $swap_why"
    swap_why=$(swapon "$1" 2>&1) || swap_refuse "start swapon $1 $swap_why"
}
swap_set() {
    PATH=$PATH:/usr/sbin:/sbin
    [ "$(id -u)" = 0 ] || swap_refuse user
    for swap_program in mkswap swapoff swapon rmdir; do
        command -v "$swap_program" >/dev/null || swap_refuse "program $swap_program"
    done
    [ -f @ROOT@/proc/swaps ] || swap_refuse kernel
    swap_known || {
        printf 'boot %s\n' "$(boot_id)" >"$folder/swaps.part" && mv -f "$folder/swaps.part" "$folder/swaps" || swap_refuse "state $folder"
    }
    swap_stop || swap_refuse own
    swap_former
    swap_group
    case $1 in
    file) swap_file ;;
    zram:*) swap_zram "${1#zram:}" ;;
    esac
    swap_show "$1"
}
swap_probe() {
    PATH=$PATH:/usr/sbin:/sbin
    for swap_program in mkswap swapoff swapon rmdir; do
        command -v "$swap_program" >/dev/null || { part probe-program; echo "$swap_program"; break; }
    done
    [ -f @ROOT@/proc/swaps ] || part probe-no-swap
    swap_find_top || part probe-no-top
    if [ -d @ROOT@/sys/class/zram-control ]; then part probe-zram; fi
}
swap_show() {
    part swap-devices; cat @ROOT@/proc/swaps
    part swap-limit; swap_take "$group/$swap_knob"
    part swap-group; printf '%s\n' "$group"
    part swap-former; printf '%s' "$former"
    case $1 in zram:*) ;; *) return 0 ;; esac
    part swap-zram; printf '%s\n' "$zram"
    part swap-algorithms; swap_take "@ROOT@/sys/block/zram$zram/comp_algorithm"
    part swap-disksize; swap_take "@ROOT@/sys/block/zram$zram/disksize"
    part swap-mm-stat; swap_take "@ROOT@/sys/block/zram$zram/mm_stat"
}
"""
"""Functions of `swapstone.parts.boards.targets.board_scripts`.

`swap_probe` changes nothing. `swap_set LEVEL` makes the level's device the only one, and a memory cgroup of `BOARD_MEMORY_BYTES`. Before
each change, the file ``swaps`` in the folder has a line that `swap_restore` undoes. A line is the boot, the zram device that was added,
the group, the file that enabled the memory controller, ``module`` if zram was loaded, or a former device with its priority (proc(5),
swapon(8)). What can't be done is refused, which ends the shell and restores.
"""


def swap_functions() -> str:
    """Return `FUNCTIONS` with sizes and names."""
    values = {
        "@ROOT@": ROOT,
        "@FILE@": BOARD_SWAP_FILE,
        "@GROUP@": GROUP,
        "@SIZE@": str(BOARD_SWAP_MIB),
        "@LIMIT@": str(BOARD_MEMORY_BYTES),
        "@SLACK@": str(SLACK_MIB),
    }
    return _filled(FUNCTIONS, values)


def _filled(text: str, values: Mapping[str, str]) -> str:
    """Return a text with each name replaced by its value, in the order of the values: one may contain names that follow."""
    return functools.reduce(lambda text, pair: text.replace(*pair), values.items(), text)


NEEDED = ("cat", "chmod", "env", "mkdir", "mv", "rm", "uname")
"""Programs that the board must have."""

_PATH = re.compile(r"/[A-Za-z0-9_.,+=@/-]{1,400}", re.ASCII)

_DEFAULT_FOLDER = '"${XDG_CACHE_HOME:-${HOME:-}/.cache}/swapstone-board"'
"""The shell's words for the folder on a board that the user did not name."""

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
    refuse(
        (
            folder and not is_board_path(folder),
            f"{safe_excerpt(folder, 80)!r} can't be the folder on a board.",
            "Name an absolute path of letters, digits and ._+=@-/: --target ssh:HOST,folder=/data/swapstone",
        ),
        (
            governor and not is_governor(governor),
            f"{safe_excerpt(governor, 80)!r} can't be a frequency governor.",
            "For example: performance",
        ),
    )
    values = {
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
        "@FOLDER@": folder or _DEFAULT_FOLDER,
    }
    return _filled(_OPEN, values).encode()


def step_script(step: str) -> bytes:
    """Return a script for the shell of `open_script`: the functions and commands, and the end of the answer."""
    return f"{{ {step}; }} </dev/null\npart end\n".encode()


def clean_script(word: str, folder: str) -> bytes:
    """Return the script that removes the files on a board; arguments as of `open_script`."""
    text = f"""
word={word}
{_FUNCTIONS.replace("@SENSORS@", "").replace("@CPUFREQ@", CPUFREQ)}{swap_functions()}
folder={folder or _DEFAULT_FOLDER}
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
