// SPDX-License-Identifier: MIT OR Apache-2.0
/* Implements root_file_system.h for Linux. */
#include "root_file_system.h"

#include "arch.h"
#include "port.h"

enum {
    AT_FDCWD = -100,
    E_PERM = 1,
    E_EXIST = 17,
    CLONE_NEWNS = 0x20000,
    CLONE_NEWUSER = 0x10000000,
    MS_RDONLY = 1,
    MS_REMOUNT = 32,
    MS_BIND = 4096,
    MS_MOVE = 8192,
    MS_REC = 16384,
    MS_PRIVATE = 1 << 18,
};

static int mount(const char *source, const char *where, const char *type, unsigned long flags,
                 const char *options) {
    return (int)SYSCALL5(NR_MOUNT, source, where, type, flags, options);
}

/* Writes "ID ID 1" to a map of user_namespaces(7). */
static int map_identity(const char *path, long id) {
    char text[32], digits[12];
    int used = 0, length = 0;

    do
        digits[length++] = (char)('0' + id % 10);
    while (id /= 10);
    for (int copy = 0; copy < 2; copy++) {
        for (int i = length; i > 0; i--)
            text[used++] = digits[i - 1];
        text[used++] = ' ';
    }
    text[used++] = '1';
    text[used] = 0;
    return port_write_file(path, text);
}

static int unshare_with_user(void) {
    long user = SYSCALL0(NR_GETEUID), group = SYSCALL0(NR_GETEGID);
    int result = (int)SYSCALL1(NR_UNSHARE, CLONE_NEWUSER | CLONE_NEWNS);

    /* Without privilege, the group can be mapped only after setgroups(2) is denied. */
    result = result ? result : port_write_file("/proc/self/setgroups", "deny");
    result = result ? result : map_identity("/proc/self/uid_map", user);
    return result ? result : map_identity("/proc/self/gid_map", group);
}

int port_unshare_mounts(void) {
    int result = (int)SYSCALL1(NR_UNSHARE, CLONE_NEWNS);

    if (result == -E_PERM)
        result = unshare_with_user();
    return result ? result : mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

int port_mount_tmpfs(const char *where, const char *options) {
    return mount("swapstone", where, "tmpfs", 0, options);
}

int port_mount_overlay(const char *where, const char *options) {
    return mount("swapstone", where, "overlay", 0, options);
}

int port_bind(const char *from, const char *to, bool recursive) {
    return mount(from, to, NULL, MS_BIND | (recursive ? MS_REC : 0), NULL);
}

int port_make_read_only(const char *where) {
    /* The flags of statfs(2) and of mount(2): nosuid, nodev, noexec, noatime and nodiratime have equal bits;
     * relatime has other ones. */
    enum { EQUAL = 2 | 4 | 8 | 1024 | 2048, ST_RELATIME = 4096, MS_RELATIME = 1 << 21 };
    struct port_file_system found = {0};
    int result = port_statfs(where, &found);
    unsigned long kept = (found.flags & EQUAL) | (found.flags & ST_RELATIME ? MS_RELATIME : 0);

    return result ? result : mount(NULL, where, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | kept, NULL);
}

int port_mkdir(const char *path, int mode) {
    int result = (int)SYSCALL3(NR_MKDIRAT, AT_FDCWD, path, mode);
    return result == -E_EXIST ? 0 : result;
}

int port_symlink(const char *target, const char *path) {
    return (int)SYSCALL3(NR_SYMLINKAT, target, AT_FDCWD, path);
}

const char *const port_stream_links[PORT_STREAM_LINKS][2] = {{"/proc/self/fd", "/dev/fd"},
                                                             {"/proc/self/fd/0", "/dev/stdin"},
                                                             {"/proc/self/fd/1", "/dev/stdout"},
                                                             {"/proc/self/fd/2", "/dev/stderr"}};

int port_enter_root(const char *mount_point) {
    int result = port_chdir(mount_point);

    result = result ? result : mount(".", "/", NULL, MS_MOVE, NULL);
    result = result ? result : (int)SYSCALL1(NR_CHROOT, ".");
    return result ? result : port_chdir("/");
}
