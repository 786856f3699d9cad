#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Makes the device of a root in a virtual machine: load.sh IMAGE [TYPE]
#
#   IMAGE  is written to a device in memory (null_blk), which then is /dev/fs-root. Each request takes 100 us.
#   TYPE   mounts it once to find out whether the kernel can
#
# Nothing of the device is in the page cache afterwards. Errors are one line on standard error, with status 1.
set -eu

image=$1
type=${2-}
nullb=/sys/kernel/config/nullb

die() {
    echo "load.sh: $*" >&2
    exit 1
}

[ -d "$nullb" ] || busybox mount -t configfs none /sys/kernel/config || die "the kernel has no configfs"
[ -d "$nullb" ] || die "the kernel has no null_blk with configfs support"
bytes=$(busybox stat -c %s "$image") || die "there is no $image"
busybox mkdir "$nullb/fs-root"
set_device() { echo "$2" >"$nullb/fs-root/$1" || die "null_blk rejects $1=$2"; }
set_device memory_backed 1
set_device blocksize 4096
set_device size "$(((bytes + 1048575) / 1048576))"
set_device irqmode 2
set_device completion_nsec 100000
set_device power 1
# Before Linux 5.19 the device has a number instead of the name of its folder.
[ -b /dev/fs-root ] || busybox ln -s "nullb$(busybox cat "$nullb/fs-root/index")" /dev/fs-root
busybox dd if="$image" of=/dev/fs-root bs=1024k conv=notrunc,fsync 2>/dev/null || die "can't write $bytes bytes to the device"
echo 3 >/proc/sys/vm/drop_caches
[ -z "$type" ] && exit
busybox dmesg -c >/dev/null
said=$(busybox mount -t "$type" -o ro /dev/fs-root /mnt 2>&1) && exit
why=$(busybox dmesg | busybox tail -n 1 | busybox sed 's/^<[0-9]*>//; s/^\[[^]]*\] //')
die "${why:-$said}"
