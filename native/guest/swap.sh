#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Sets up the swap device of a virtual machine: /swapstone/swap.sh LEVEL RATE SIZE
#
#   LEVEL  flash, an emulated flash (null_blk), or zram:ALGORITHM, compressed memory (zram)
#   RATE   the bandwidth limit of the flash in MiB/s, of reads and writes together (mbps of null_blk)
#   SIZE   the size of each device in MiB
#
# Both devices exist at each level, and the flash is filled, so that the same amount of memory remains. Only the device of
# the level is used for swap. Errors are one line on standard error, with status 1. docs/swap.md has the reasons.
set -eu

level=$1
rate=$2
size=$3
nullb=/sys/kernel/config/nullb
flash=nullb1
zram=/sys/block/zram0

die() {
    echo "swap.sh: $*" >&2
    exit 1
}

case $level in
flash | zram:?*) ;;
*) die "$level is not a level: flash, or zram:ALGORITHM" ;;
esac

free_kib=$(busybox awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo)
[ "$free_kib" -gt $((size * 1024 + 16384)) ] ||
    die "the flash needs $size MiB of memory and 16 MiB must remain, but $((free_kib / 1024)) MiB are available"

# The module creates nullb0 (250 GB, not backed by memory) itself. It stays unused.
[ -d "$nullb" ] || busybox mount -t configfs none /sys/kernel/config || die "the kernel has no configfs"
[ -d "$nullb" ] || die "the kernel has no null_blk with configfs support"
busybox mkdir "$nullb/$flash"
set_flash() { echo "$2" >"$nullb/$flash/$1" || die "null_blk rejects $1=$2"; }
set_flash memory_backed 1
set_flash blocksize 4096
set_flash size "$size"
set_flash irqmode 2
set_flash completion_nsec 100000
set_flash mbps "$rate"
set_flash power 1
[ "$(busybox cat "$nullb/$flash/index")" = 1 ] || die "the flash is not /dev/$flash"

# null_blk allocates a page of memory at the first write to it. Write all pages before the measurement.
busybox dd if=/dev/zero of="/dev/$flash" bs=1024k count="$size" 2>/dev/null || die "can't fill the flash"
busybox sync
echo 3 >/proc/sys/vm/drop_caches

[ -d "$zram" ] || die "the kernel has no zram"
device=$flash
case $level in
zram:*)
    device=zram0
    algorithm=${level#zram:}
    # A kernel without the algorithm returns an error, or keeps its default. So the active algorithm is read back.
    (echo "$algorithm" >"$zram/comp_algorithm") 2>/dev/null || true
    algorithms=$(busybox cat "$zram/comp_algorithm")
    case $algorithms in
    *"[$algorithm]"*) ;;
    *) die "zram has no algorithm $algorithm; it has: $algorithms" ;;
    esac
    ;;
esac
(echo "${size}M" >"$zram/disksize") 2>/dev/null || die "can't set the size of zram to $size MiB"
busybox mkswap "/dev/$device" >/dev/null || die "mkswap /dev/$device failed"
busybox swapon "/dev/$device" || die "swapon /dev/$device failed"
