#!/bin/sh
# Makes a machine swap: /swapstone/swap.sh LEVEL RATE SIZE
#
#   flash               to a slow block device
#   zram:ALGORITHM      to memory that is compressed by that algorithm
#
# RATE is the flash's, in the unit of null_blk's mbps: MiB a second, of reads and writes together. SIZE, in MiB, is that of
# both devices. Whatever the level, both are made, and the flash is filled, so that the memory that is left is the same;
# only the one that was asked for is swapped to.
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
*) die "$level is no level of swap" ;;
esac

free_kib=$(busybox awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo)
[ "$free_kib" -gt $((size * 1024 + 16384)) ] ||
    die "the flash takes $size MiB of memory, and $((free_kib / 1024)) MiB are free: the machine is too small"

# The module's own nullb0, of 250 GB and without content, stays as it is: nothing uses it.
[ -d "$nullb" ] || busybox mount -t configfs none /sys/kernel/config || die "the kernel has no configfs"
[ -d "$nullb" ] || die "the kernel has no null_blk that configfs can set up"
busybox mkdir "$nullb/$flash"
set_flash() { echo "$2" >"$nullb/$flash/$1" || die "null_blk takes no $1=$2"; }
set_flash memory_backed 1
set_flash blocksize 4096
set_flash size "$size"
set_flash irqmode 2
set_flash completion_nsec 100000
set_flash mbps "$rate"
set_flash power 1
[ "$(busybox cat "$nullb/$flash/index")" = 1 ] || die "the flash did not become /dev/$flash"

# What it holds lies in memory, a page for each that was written once: all are, before anything is measured.
busybox dd if=/dev/zero of="/dev/$flash" bs=1024k count="$size" 2>/dev/null || die "the flash can't be filled"
busybox sync
echo 3 >/proc/sys/vm/drop_caches

[ -d "$zram" ] || die "the kernel has no zram"
device=$flash
case $level in
zram:*)
    device=zram0
    algorithm=${level#zram:}
    # A kernel that hasn't an algorithm may refuse it, or stay with the one that it has: what is in force is read back.
    (echo "$algorithm" >"$zram/comp_algorithm") 2>/dev/null || true
    have=$(busybox cat "$zram/comp_algorithm")
    case $have in
    *"[$algorithm]"*) ;;
    *) die "zram has no algorithm $algorithm; it has: $have" ;;
    esac
    ;;
esac
(echo "${size}M" >"$zram/disksize") 2>/dev/null || die "zram can't be made $size MiB large"
busybox mkswap "/dev/$device" >/dev/null || die "/dev/$device can't be prepared"
busybox swapon "/dev/$device" || die "/dev/$device can't be swapped to"
