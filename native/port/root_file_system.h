// SPDX-License-Identifier: MIT OR Apache-2.0
/* The calls of mount(2), unshare(2) and chroot(2) that give a process another root file system. As in port.h,
 * a call that fails returns a negative errno.
 */
#ifndef PORT_ROOT_FILE_SYSTEM_H
#define PORT_ROOT_FILE_SYSTEM_H

#include <stdbool.h>

/* Moves this process to a mount namespace of its own, whose mounts don't propagate to others. Without
 * CAP_SYS_ADMIN it is moved to a user namespace too, in which user and group keep their numbers. */
int port_unshare_mounts(void);
int port_mount_tmpfs(const char *where, const char *options);
/* `options` names lowerdir, upperdir and workdir: Documentation/filesystems/overlayfs.rst. */
int port_mount_overlay(const char *where, const char *options);
/* MS_BIND, with all mounts below it if `recursive`. */
int port_bind(const char *from, const char *to, bool recursive);
/* Makes a bind mount read-only and keeps its other flags, which a user namespace may not clear. */
int port_make_read_only(const char *where);
int port_mkdir(const char *path, int mode); /* no error if there is a file of that name */
int port_symlink(const char *target, const char *path);
/* Links in /dev, each with its target, by which programs open their standard streams. */
enum { PORT_STREAM_LINKS = 4 };
extern const char *const port_stream_links[PORT_STREAM_LINKS][2];
/* Makes a mount point the root of this process: MS_MOVE to /, then chroot(2). pivot_root(2) does not work
 * where the root is an initramfs. */
int port_enter_root(const char *mount_point);

#endif
