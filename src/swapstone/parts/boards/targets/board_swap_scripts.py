# SPDX-License-Identifier: MIT OR Apache-2.0
"""The shell functions that set the swap device of a board for a trial and limit the trial's memory. See docs/boards.md."""

from __future__ import annotations

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
    replaced = {
        "@ROOT@": ROOT,
        "@FILE@": BOARD_SWAP_FILE,
        "@GROUP@": GROUP,
        "@SIZE@": str(BOARD_SWAP_MIB),
        "@LIMIT@": str(BOARD_MEMORY_BYTES),
        "@SLACK@": str(SLACK_MIB),
    }
    text = FUNCTIONS
    for name, value in replaced.items():
        text = text.replace(name, value)
    return text
