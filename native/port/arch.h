// SPDX-License-Identifier: MIT OR Apache-2.0
/* The parts that depend on the processor: system call numbers, the system call instruction, and the entry
 * point.
 *
 * The numbers are from the kernel's tables: arch/.../syscall*.tbl, and include/uapi/asm-generic/unistd.h for
 * aarch64 and riscv64. tests/unit/agent/test_port.py compares them with the installed kernel headers.
 */
#ifndef PORT_ARCH_H
#define PORT_ARCH_H

#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)

enum {
    NR_READ = 0,
    NR_WRITE = 1,
    NR_CLOSE = 3,
    NR_LSEEK = 8,
    NR_MMAP = 9,
    NR_MUNMAP = 11,
    NR_RT_SIGACTION = 13,
    NR_RT_SIGPROCMASK = 14,
    NR_IOCTL = 16,
    NR_MADVISE = 28,
    NR_GETPID = 39,
    NR_SOCKET = 41,
    NR_CONNECT = 42,
    NR_CLONE = 56,
    NR_EXECVE = 59,
    NR_WAIT4 = 61,
    NR_KILL = 62,
    NR_UNAME = 63,
    NR_FCNTL = 72,
    NR_TRUNCATE = 76,
    NR_CHDIR = 80,
    NR_UMASK = 95,
    NR_PTRACE = 101,
    NR_SYSLOG = 103,
    NR_GETEUID = 107,
    NR_GETEGID = 108,
    NR_GETPPID = 110,
    NR_SETSID = 112,
    NR_GETPGID = 121,
    NR_STATFS = 137,
    NR_GETPRIORITY = 140,
    NR_SETPRIORITY = 141,
    NR_SCHED_GETSCHEDULER = 145,
    NR_PRCTL = 157,
    NR_CHROOT = 161,
    NR_MOUNT = 165,
    NR_REBOOT = 169,
    NR_SCHED_SETAFFINITY = 203,
    NR_SCHED_GETAFFINITY = 204,
    NR_GETDENTS64 = 217,
    NR_CLOCK_GETTIME = 228,
    NR_EXIT_GROUP = 231,
    NR_WAITID = 247,
    NR_OPENAT = 257,
    NR_MKDIRAT = 258,
    NR_SYMLINKAT = 266,
    NR_FCHMODAT = 268,
    NR_PPOLL = 271,
    NR_UNSHARE = 272,
    NR_SIGNALFD4 = 289,
    NR_DUP3 = 292,
    NR_PIPE2 = 293,
    NR_PRLIMIT64 = 302,
    NR_GETCPU = 309,
    NR_FINIT_MODULE = 313,
    NR_RENAMEAT2 = 316,
    NR_CLOSE_RANGE = 436,
};

static inline long arch_syscall(long nr, long a, long b, long c, long d, long e, long f) {
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

#define ARCH_PAUSE "pause"

/* x86 I/O ports. Only the first process of a virtual machine uses them. */
#define ARCH_HAS_IO_PORTS 1
enum { NR_IOPERM = 173 };

static inline void arch_outb(uint16_t port, uint8_t value) {
    __asm__ volatile("outb %0, %1" : : "a"(value), "Nd"(port));
}

static inline void arch_outw(uint16_t port, uint16_t value) {
    __asm__ volatile("outw %0, %1" : : "a"(value), "Nd"(port));
}

static inline void arch_outl(uint16_t port, uint32_t value) {
    __asm__ volatile("outl %0, %1" : : "a"(value), "Nd"(port) : "memory");
}

static inline void arch_insb(uint16_t port, void *buffer, size_t size) {
    __asm__ volatile("rep insb" : "+D"(buffer), "+c"(size) : "d"(port) : "memory");
}

#define ARCH_ENTRY                                                                                           \
    ".globl _start\n.type _start,@function\n_start:\n"                                                       \
    "xor %ebp, %ebp\nmov %rsp, %rdi\nand $-16, %rsp\ncall port_start\nhlt\n"

#elif defined(__aarch64__) || (defined(__riscv) && __riscv_xlen == 64)

enum {
    NR_DUP3 = 24,
    NR_FCNTL = 25,
    NR_IOCTL = 29,
    NR_MKDIRAT = 34,
    NR_SYMLINKAT = 36,
    NR_MOUNT = 40,
    NR_STATFS = 43,
    NR_TRUNCATE = 45,
    NR_CHDIR = 49,
    NR_CHROOT = 51,
    NR_FCHMODAT = 53,
    NR_OPENAT = 56,
    NR_CLOSE = 57,
    NR_PIPE2 = 59,
    NR_GETDENTS64 = 61,
    NR_LSEEK = 62,
    NR_READ = 63,
    NR_WRITE = 64,
    NR_PPOLL = 73,
    NR_SIGNALFD4 = 74,
    NR_EXIT_GROUP = 94,
    NR_WAITID = 95,
    NR_UNSHARE = 97,
    NR_CLOCK_GETTIME = 113,
    NR_SYSLOG = 116,
    NR_PTRACE = 117,
    NR_SCHED_GETSCHEDULER = 120,
    NR_SCHED_SETAFFINITY = 122,
    NR_SCHED_GETAFFINITY = 123,
    NR_KILL = 129,
    NR_RT_SIGACTION = 134,
    NR_RT_SIGPROCMASK = 135,
    NR_SETPRIORITY = 140,
    NR_GETPRIORITY = 141,
    NR_REBOOT = 142,
    NR_GETPGID = 155,
    NR_SETSID = 157,
    NR_UNAME = 160,
    NR_UMASK = 166,
    NR_PRCTL = 167,
    NR_GETCPU = 168,
    NR_GETPID = 172,
    NR_GETPPID = 173,
    NR_GETEUID = 175,
    NR_GETEGID = 177,
    NR_SOCKET = 198,
    NR_CONNECT = 203,
    NR_MUNMAP = 215,
    NR_CLONE = 220,
    NR_EXECVE = 221,
    NR_MMAP = 222,
    NR_MADVISE = 233,
    NR_WAIT4 = 260,
    NR_PRLIMIT64 = 261,
    NR_FINIT_MODULE = 273,
    NR_RENAMEAT2 = 276,
    NR_CLOSE_RANGE = 436,
};

#if defined(__aarch64__)

#define ARCH_FW_CFG_ADDRESS 0x09020000 /* of QEMU's machine "virt" */
#define ARCH_PAUSE "yield"

static inline long arch_syscall(long nr, long a, long b, long c, long d, long e, long f) {
    register long x8 __asm__("x8") = nr;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory", "cc");
    return x0;
}

#define ARCH_ENTRY                                                                                           \
    ".globl _start\n.type _start,%function\n_start:\n"                                                       \
    "mov x29, #0\nmov x30, #0\nmov x0, sp\nand sp, x0, #-16\nbl port_start\n"

#else

#define ARCH_PAUSE                                                                                           \
    ".4byte 0x0100000f" /* pause, of the extension Zihintpause; a fence without effect elsewhere */

static inline long arch_syscall(long nr, long a, long b, long c, long d, long e, long f) {
    register long a7 __asm__("a7") = nr;
    register long a0 __asm__("a0") = a;
    register long a1 __asm__("a1") = b;
    register long a2 __asm__("a2") = c;
    register long a3 __asm__("a3") = d;
    register long a4 __asm__("a4") = e;
    register long a5 __asm__("a5") = f;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5) : "memory");
    return a0;
}

#define ARCH_ENTRY                                                                                           \
    ".globl _start\n.type _start,@function\n_start:\n"                                                       \
    ".weak __global_pointer$\n.option push\n.option norelax\nlla gp, __global_pointer$\n.option pop\n"       \
    "mv a0, sp\nandi sp, sp, -16\ntail port_start\n"

#endif

#elif defined(__arm__) && defined(__ARM_EABI__)

enum {
    NR_READ = 3,
    NR_WRITE = 4,
    NR_CLOSE = 6,
    NR_EXECVE = 11,
    NR_CHDIR = 12,
    NR_LSEEK = 19,
    NR_GETPID = 20,
    NR_MOUNT = 21,
    NR_PTRACE = 26,
    NR_KILL = 37,
    NR_IOCTL = 54,
    NR_UMASK = 60,
    NR_CHROOT = 61,
    NR_GETPPID = 64,
    NR_SETSID = 66,
    NR_REBOOT = 88,
    NR_MUNMAP = 91,
    NR_TRUNCATE = 92,
    NR_GETPRIORITY = 96,
    NR_SETPRIORITY = 97,
    NR_SYSLOG = 103,
    NR_WAIT4 = 114,
    NR_CLONE = 120,
    NR_UNAME = 122,
    NR_GETPGID = 132,
    NR_SCHED_GETSCHEDULER = 157,
    NR_PRCTL = 172,
    NR_RT_SIGACTION = 174,
    NR_RT_SIGPROCMASK = 175,
    NR_MMAP = 192,    /* mmap2: the offset is in units of ARCH_MMAP_UNIT */
    NR_GETEUID = 201, /* geteuid32 */
    NR_GETEGID = 202, /* getegid32 */
    NR_GETDENTS64 = 217,
    NR_MADVISE = 220,
    NR_FCNTL = 221, /* fcntl64 */
    NR_SCHED_SETAFFINITY = 241,
    NR_SCHED_GETAFFINITY = 242,
    NR_EXIT_GROUP = 248,
    NR_CLOCK_GETTIME = 263,
    NR_STATFS = 266, /* statfs64: its second argument is the size of the structure */
    NR_WAITID = 280,
    NR_SOCKET = 281,
    NR_CONNECT = 283,
    NR_OPENAT = 322,
    NR_MKDIRAT = 323,
    NR_SYMLINKAT = 331,
    NR_FCHMODAT = 333,
    NR_PPOLL = 336,
    NR_UNSHARE = 337,
    NR_GETCPU = 345,
    NR_SIGNALFD4 = 355,
    NR_DUP3 = 358,
    NR_PIPE2 = 359,
    NR_PRLIMIT64 = 369,
    NR_FINIT_MODULE = 379,
    NR_RENAMEAT2 = 382,
    NR_CLOSE_RANGE = 436,
};

#define ARCH_STATFS_TAKES_SIZE 1
#define ARCH_MMAP_UNIT 4096
#define ARCH_PAUSE "yield"
#define ARCH_FW_CFG_ADDRESS 0x09020000 /* of QEMU's machine "virt" */

static inline long arch_syscall(long nr, long a, long b, long c, long d, long e, long f) {
    register long r7 __asm__("r7") = nr;
    register long r0 __asm__("r0") = a;
    register long r1 __asm__("r1") = b;
    register long r2 __asm__("r2") = c;
    register long r3 __asm__("r3") = d;
    register long r4 __asm__("r4") = e;
    register long r5 __asm__("r5") = f;
    __asm__ volatile("svc 0" : "+r"(r0) : "r"(r7), "r"(r1), "r"(r2), "r"(r3), "r"(r4), "r"(r5) : "memory");
    return r0;
}

#define ARCH_ENTRY                                                                                           \
    ".syntax unified\n.globl _start\n.type _start,%function\n_start:\n"                                      \
    "mov fp, #0\nmov lr, #0\nmov r0, sp\nbic ip, r0, #15\nmov sp, ip\nbl port_start\n"

#else
#error                                                                                                       \
    "native/port/arch.h does not support this processor: add its system call numbers, arch_syscall and ARCH_ENTRY"
#endif

#ifndef ARCH_MMAP_UNIT
#define ARCH_MMAP_UNIT 1 /* the unit of the file offset of mmap, in bytes */
#endif

#define SYSCALL0(nr) arch_syscall(nr, 0, 0, 0, 0, 0, 0)
#define SYSCALL1(nr, a) arch_syscall(nr, (long)(a), 0, 0, 0, 0, 0)
#define SYSCALL2(nr, a, b) arch_syscall(nr, (long)(a), (long)(b), 0, 0, 0, 0)
#define SYSCALL3(nr, a, b, c) arch_syscall(nr, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define SYSCALL4(nr, a, b, c, d) arch_syscall(nr, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)
#define SYSCALL5(nr, a, b, c, d, e) arch_syscall(nr, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), 0)

#endif
