# SPDX-License-Identifier: MIT OR Apache-2.0
"""Small programs that misbehave, compiled once for a test session."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.shared import Shared

SOURCES: dict[str, str] = {
    # prints the layout of its stack, its arguments and its environment
    "shows": r"""
        #include <stdio.h>
        #include <stdint.h>
        #include <string.h>
        int main(int argc, char **argv, char **env) {
            char **last = env; int n = 0;
            while (*last) { last++; n++; }
            char *end = n ? last[-1] + strlen(last[-1]) : argv[argc - 1] + strlen(argv[argc - 1]);
            printf("%d %d %ld %d\n", argc, n, (long)(end - argv[0]), (int)((uintptr_t)argv % 16));
            for (int i = 1; i < argc; i++) { fwrite(argv[i], 1, strlen(argv[i]), stdout); putchar(0); }
            for (int i = 0; i < n; i++) { fwrite(env[i], 1, strlen(env[i]), stdout); putchar(0); }
            return 0;
        }""",
    # its second thread ends the process
    "threads": r"""
        #include <pthread.h>
        #include <stdlib.h>
        #include <unistd.h>
        static void *other(void *unused) { (void)unused; usleep(20000); exit(7); }
        int main(void) { pthread_t t; pthread_create(&t, 0, other, 0); for (;;) pause(); }""",
    # its main thread ends long before the process
    "early": r"""
        #include <pthread.h>
        #include <unistd.h>
        #include <stdlib.h>
        static void *other(void *unused) { (void)unused; usleep(300000); exit(0); }
        int main(void) { pthread_t t; pthread_create(&t, 0, other, 0); pthread_exit(0); }""",
    # leaves a child, and a process in another session that holds the output open
    "leaves": r"""
        #include <unistd.h>
        int main(void) {
            if (fork() == 0) { pause(); }
            if (fork() == 0) { setsid(); if (fork() == 0) { for (;;) pause(); } for (;;) pause(); }
            usleep(50000);
            return 3;
        }""",
    # a daemon: the parent ends; the child holds the output open and ignores all signals that it can ignore
    "daemon": r"""
        #include <signal.h>
        #include <unistd.h>
        int main(void) {
            if (fork()) _exit(0);
            setsid();
            if (fork()) _exit(0);
            for (int s = 1; s < 32; s++) signal(s, SIG_IGN);
            for (;;) { write(1, "still here\n", 11); usleep(10000); }
        }""",
    # holds the processes above it: MODE (attach, seize, stop), the number of them, and "daemon" if it becomes one
    "holds": r"""
        #include <signal.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/ptrace.h>
        #include <unistd.h>
        static int parent(int pid) {
            char path[40], text[600], *rest; int above = 0;
            snprintf(path, sizeof path, "/proc/%d/stat", pid);
            FILE *file = fopen(path, "r");
            if (file && fgets(text, sizeof text, file) && (rest = strrchr(text, ')'))) sscanf(rest, ") %*c %d", &above);
            return above;
        }
        int main(int argc, char **argv) {
            int above[2] = {getppid(), parent(getppid())};
            sigset_t all;
            sigfillset(&all);
            sigprocmask(SIG_SETMASK, &all, 0); /* else SIGCHLD of its tracee stops it for the agent, which is stopped */
            if (argc > 3 && fork() == 0) { setsid(); if (fork()) _exit(0); }
            else if (argc > 3) for (;;) pause();
            for (int i = atoi(argv[2]) - 1; i >= 0; i--) {
                if (strcmp(argv[1], "stop") == 0) kill(above[i], SIGSTOP);
                else if (strcmp(argv[1], "attach") == 0) ptrace(PTRACE_ATTACH, above[i], 0, 0);
                else { ptrace(PTRACE_SEIZE, above[i], 0, 0); ptrace(PTRACE_INTERRUPT, above[i], 0, 0); }
            }
            fclose(fopen("held", "w"));
            for (;;) pause();
        }""",
    # an endless chain: every process forks another and ends
    "chain": r"""
        #include <unistd.h>
        int main(void) { if (fork() == 0) for (;;) { usleep(2000); if (fork()) _exit(0); } usleep(30000); return 0; }""",
    # stops itself and never receives SIGCONT
    "stops": r"""
        #include <signal.h>
        int main(void) { raise(SIGSTOP); return 0; }""",
    # receives signals that it handles, while it is traced
    "signals": r"""
        #include <signal.h>
        #include <unistd.h>
        static volatile int seen;
        static void count(int s) { (void)s; seen++; }
        int main(void) {
            signal(SIGUSR1, count); signal(SIGCHLD, count);
            for (int i = 0; i < 5; i++) kill(getpid(), SIGUSR1);
            if (fork() == 0) _exit(0);
            while (seen < 6) usleep(1000);
            return seen;
        }""",
    # executes another program from a second thread
    "swaps": r"""
        #include <pthread.h>
        #include <unistd.h>
        static void *other(void *arg) { char **argv = arg; execl(argv[1], argv[1], (char *)0); _exit(99); }
        int main(int argc, char **argv) { (void)argc; pthread_t t; pthread_create(&t, 0, other, argv); for (;;) pause(); }""",
    # executes its arguments with ptrace forbidden, as in many containers
    "untraced": r"""
        #include <errno.h>
        #include <linux/filter.h>
        #include <linux/seccomp.h>
        #include <stddef.h>
        #include <sys/prctl.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        int main(int argc, char **argv) {
            struct sock_filter filter[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ptrace, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
            };
            struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
            (void)argc;
            if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 99;
            execv(argv[1], argv + 1);
            return 98;
        }""",
    "empty": "int main(void) { return 0; }",
    "crash": r"""
        #include <signal.h>
        int main(void) { raise(SIGSEGV); return 0; }""",
    # does a fixed amount of work and prints its duration in ns
    "works": r"""
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        #include <time.h>
        int main(int argc, char **argv) {
            long rounds = atol(argv[argc - 1]);
            struct timespec begin, end;
            clock_gettime(CLOCK_MONOTONIC, &begin);
            for (long i = 1; i <= rounds; i++) { char *p = malloc(i * 37 % 5000 + 1); memset(p, 1, i % 30); free(p); }
            clock_gettime(CLOCK_MONOTONIC, &end);
            printf("%ld\n", (end.tv_sec - begin.tv_sec) * 1000000000 + end.tv_nsec - begin.tv_nsec);
            return 0;
        }""",
    # is idle 200 times
    "naps": "#include <unistd.h>\nint main(void) { for (int i = 0; i < 200; i++) usleep(500); return 0; }",
    # never ends
    "spins": 'int main(void) { for (;;) __asm__ volatile(""); }',
    # makes its kernel panic
    "panics": r"""
        #include <fcntl.h>
        #include <unistd.h>
        int main(void) { return write(open("/proc/sysrq-trigger", O_WRONLY), "c", 1) != 1; }""",
    # floods the console of its machine
    "floods": r"""
        #include <fcntl.h>
        #include <string.h>
        #include <unistd.h>
        int main(void) {
            static char line[4096]; int fd = open("/dev/console", O_WRONLY);
            memset(line, 'y', sizeof line);
            for (;;) if (write(fd, line, sizeof line) < 0) return 1;
        }""",
    # prints 1 GiB
    "prints": r"""
        #include <string.h>
        #include <unistd.h>
        int main(void) {
            static char line[4096];
            memset(line, 'y', sizeof line);
            for (int i = 0; i < 1 << 18; i++) if (write(1, line, sizeof line) < 0) return 1;
            return 0;
        }""",
    # prints its argument in MiB, of all byte values, to standard output and then to standard error if there is a second argument
    "emits": r"""
        #include <stdlib.h>
        #include <unistd.h>
        int main(int argc, char **argv) {
            static unsigned char block[65536];
            for (unsigned i = 0; i < sizeof block; i++) block[i] = (unsigned char)(i * 167 + i / 256);
            for (int fd = 1; fd < argc; fd++)
                for (long i = 0; i < 16 * atol(argv[1]); i++)
                    for (size_t at = 0; at < sizeof block;) {
                        long size = write(fd, block + at, sizeof block - at);
                        if (size <= 0) return 1;
                        at += (size_t)size;
                    }
            return 0;
        }""",
    # sets the flag of a warning in its kernel's taints
    "taints": r"""
        #include <fcntl.h>
        #include <unistd.h>
        int main(void) { return write(open("/proc/sys/kernel/tainted", O_WRONLY), "512\n", 4) != 4; }""",
    # as many threads as its argument count to 5 million
    "counts": r"""
        #include <pthread.h>
        #include <stdlib.h>
        static void *count(void *unused) { for (volatile long i = 0; i < 5000000; i++); return unused; }
        int main(int argc, char **argv) {
            pthread_t threads[8]; int number = atoi(argv[argc - 1]);
            for (int i = 0; i < number; i++) pthread_create(&threads[i], 0, count, 0);
            for (int i = 0; i < number; i++) pthread_join(threads[i], 0);
            return 0;
        }""",
    # allocates memory until the kernel kills it
    "hoards": r"""
        #include <stdlib.h>
        #include <string.h>
        int main(void) { for (;;) { char *p = malloc(1 << 20); if (!p) return 1; memset(p, 1, 1 << 20); } }""",
}


def build(folder: Path, name: str, *options: str, compiler: str = "cc") -> Path:
    """Compile one of `SOURCES` into `folder`, once for each compiler and set of options; return the program's path."""
    program = folder / f"{name}-{compiler}{''.join(options)}"
    if not program.exists():
        source = folder / f"{name}.c"
        source.write_text(SOURCES[name])
        subprocess.run([compiler, "-w", "-O1", *options, "-o", program, source, "-lpthread"], check=True)
    return program


ON_EACH_TARGET = ("empty", "crash")
IN_MACHINES = ("works", "empty", "naps", "spins", "panics", "floods", "prints", "emits", "taints", "counts", "hoards")


def contract_programs(shared: Shared, compiler: str = "cc") -> dict[str, Path]:
    """Return the programs of the contract tests, made by a compiler, each in a folder of its own.

    Returns:
        By name: dynamically linked ones for each target; by name and ``-static``: static ones for virtual machines.
    """
    options = dict[str, tuple[str, ...]](dict.fromkeys(ON_EACH_TARGET, ())) | {
        f"{name}-static": ("-static",) for name in IN_MACHINES
    }

    def fill(top: Path) -> None:
        for name, given in options.items():
            (top / name).mkdir()
            build(top / name, name.removesuffix("-static"), *given, compiler=compiler)

    top = shared.folder(f"contract-programs-{compiler}", fill)
    return {
        name: build(top / name, name.removesuffix("-static"), *given, compiler=compiler)
        for name, given in options.items()
    }
