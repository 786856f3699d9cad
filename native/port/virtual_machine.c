// SPDX-License-Identifier: MIT OR Apache-2.0
/* Implements virtual_machine.h. QEMU's devices are described in its source: docs/specs/fw_cfg.rst,
 * docs/specs/ivshmem-spec.rst, hw/watchdog/, hw/arm/virt.c and hw/riscv/virt.c. */
#include "virtual_machine.h"

#include "arch.h"
#include "port.h"

enum {
    AT_FDCWD = -100,
    PAGE_BYTES = 4096,
    MOUNT_AGAIN = 32, /* MS_REMOUNT */
    MAP_SHARED_MEMORY = 1,
    PROTECT_READ_WRITE = 3,
    OPEN_CREATE_BOTH = 02 | 0100 | 01000 | 02000000, /* O_RDWR, and as OPEN_CREATE */
    OPEN_CREATE = 01 | 0100 | 01000 | 02000000,      /* O_WRONLY, O_CREAT, O_TRUNC, O_CLOEXEC */
    TCSBRK = 0x5409,
    RND_ADD_ENTROPY = 0x40085203,
    RND_RESEED = 0x5207, /* RNDRESEEDCRNG */
    SYSLOG_READ_ALL = 3,
    OPEN_NONBLOCKING = 04000 | 02000000, /* O_RDONLY, O_NONBLOCK, O_CLOEXEC */
    SEEK_FROM_END = 2,
    INTERNET = 2,       /* AF_INET */
    DATAGRAMS = 2,      /* SOCK_DGRAM */
    SET_FLAGS = 0x8914, /* SIOCSIFFLAGS */
    REBOOT_MAGIC = (int)0xfee1dead,
    REBOOT_MAGIC_2 = 672274793,
    REBOOT_POWER_OFF = 0x4321fedc,
    REBOOT_RESTART = 0x01234567,
};

int port_mount(const char *type, const char *where) {
    return (int)SYSCALL5(NR_MOUNT, type, where, type, 0, NULL);
}

int port_remount(const char *where, const char *options) {
    return (int)SYSCALL5(NR_MOUNT, NULL, where, NULL, MOUNT_AGAIN, options);
}

int port_load_module(const char *path) {
    int fd = port_open_read(path);
    if (fd < 0)
        return fd;
    int result = (int)SYSCALL3(NR_FINIT_MODULE, fd, "", 0);
    port_close(fd);
    return result;
}

int port_start_loopback(void) {
    struct {
        char name[16];
        short flags;
        char rest[22];
    } request = {"lo", 1, {0}}; /* struct ifreq of netdevice(7), IFF_UP */
    int fd = (int)SYSCALL3(NR_SOCKET, INTERNET, DATAGRAMS, 0);

    if (fd < 0)
        return fd;
    int result = (int)SYSCALL3(NR_IOCTL, fd, SET_FLAGS, &request);
    port_close(fd);
    return result;
}

long port_read_kernel_log(char *buffer, size_t size) {
    return SYSCALL3(NR_SYSLOG, SYSLOG_READ_ALL, buffer, size);
}

int port_open_kernel_log(void) {
    int fd = (int)SYSCALL4(NR_OPENAT, AT_FDCWD, "/dev/kmsg", OPEN_NONBLOCKING, 0);

    if (fd >= 0)
        SYSCALL3(NR_LSEEK, fd, 0, SEEK_FROM_END);
    return fd;
}

int port_uname(struct port_utsname *identity) {
    return (int)SYSCALL1(NR_UNAME, identity);
}

static int control_random(int request, const void *argument) {
    int fd = port_open_read("/dev/urandom");

    if (fd < 0)
        return fd;
    int result = (int)SYSCALL3(NR_IOCTL, fd, request, argument);
    port_close(fd);
    return result;
}

int port_seed_random(const char seed[PORT_SEED_BYTES]) {
    struct {
        int bits, size;
        char seed[PORT_SEED_BYTES];
    } entropy = {PORT_SEED_BYTES * 8, PORT_SEED_BYTES, {0}};

    __builtin_memcpy(entropy.seed, seed, PORT_SEED_BYTES);
    return control_random(RND_ADD_ENTROPY, &entropy);
}

int port_reseed_random(void) {
    return control_random(RND_RESEED, NULL);
}

int port_create_file(const char *path) {
    return (int)SYSCALL4(NR_OPENAT, AT_FDCWD, path, OPEN_CREATE, 0600);
}

int port_rename(const char *from, const char *to) {
    return (int)SYSCALL5(NR_RENAMEAT2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int port_chmod(const char *path, int mode) {
    return (int)SYSCALL3(NR_FCHMODAT, AT_FDCWD, path, mode);
}

int port_truncate(const char *path, size_t size) {
    return (int)SYSCALL2(NR_TRUNCATE, path, size);
}

void *port_map_new_file(const char *path, size_t size) {
    int fd = (int)SYSCALL4(NR_OPENAT, AT_FDCWD, path, OPEN_CREATE_BOTH, 0600);
    if (fd < 0)
        return NULL;
    long result = port_truncate(path, size);
    if (result == 0)
        result = arch_syscall(NR_MMAP, 0, (long)size, PROTECT_READ_WRITE, MAP_SHARED_MEMORY, fd, 0);
    port_close(fd);
    return result < 0 && result > -4096 ? NULL : (void *)result;
}

int port_find_pages(const void *memory, size_t pages, uint64_t *addresses) {
    /* Documentation/admin-guide/mm/pagemap.rst: a number for each page of the address space. */
    enum { PAGE_IN_MEMORY = 63, FRAME_BITS = 55 };
    int fd = port_open_read("/proc/self/pagemap");
    if (fd < 0)
        return fd;
    long result = port_lseek(fd, (long)((uintptr_t)memory / PAGE_BYTES * sizeof *addresses));
    for (size_t at = 0, size = pages * sizeof *addresses; result >= 0 && at < size; at += (size_t)result)
        if ((result = port_read(fd, (char *)addresses + at, size - at)) == 0)
            result = -PORT_E_IO;
    port_close(fd);
    for (size_t i = 0; result >= 0 && i < pages; i++) {
        uint64_t frame = addresses[i] & (((uint64_t)1 << FRAME_BITS) - 1);
        if (!(addresses[i] >> PAGE_IN_MEMORY) || !frame)
            result = -PORT_E_IO;
        addresses[i] = frame * PAGE_BYTES;
    }
    return result < 0 ? (int)result : 0;
}

void port_tcdrain(int fd) {
    SYSCALL3(NR_IOCTL, fd, TCSBRK, 1);
}

static _Noreturn void power_off(void) {
    SYSCALL4(NR_REBOOT, REBOOT_MAGIC, REBOOT_MAGIC_2, REBOOT_POWER_OFF, NULL);
    SYSCALL4(NR_REBOOT, REBOOT_MAGIC, REBOOT_MAGIC_2, REBOOT_RESTART, NULL);
    port_exit(1); /* the kernel panics when the first process exits */
}

/* The channel (ivshmem-plain: shared memory backed by a file of the host) is a PCI device of each machine.
 * The kernel assigns the address of its memory (BAR), to which /dev/mem gives access. The devices' slots are
 * those of parts/vm/machine/emulator.py. */
enum {
    OPEN_UNCACHED = 02 | 02000000 | 04010000, /* O_RDWR, O_CLOEXEC, O_SYNC (uncached) */
    WINDOW = 1 << 16,                         /* bytes of a mapping; the largest page size of arm64 */
    SEEK_FROM_START = 0,
    PCI_COMMAND = 4,
    PCI_COMMAND_MEMORY = 2,
    PCI_BAR_0 = 0x10,
    PCI_BAR_2 = 0x18,
    CHANNEL_START = 4096, /* the first 8 bytes hold the number of bytes written, little-endian */
#if defined(ARCH_HAS_IO_PORTS) || defined(ARCH_FW_CFG_ADDRESS)
    CHANNEL_END = PORT_CHANNEL_BYTES,
#else
    ORDER_START = PORT_CHANNEL_BYTES - (4 << 20), /* the order's length, and from the next page on its text */
    CHANNEL_END = ORDER_START,
#endif
};

#define CHANNEL_DEVICE "/sys/bus/pci/devices/0000:00:02.0"

static struct {
    int memory; /* file descriptor of /dev/mem */
    uint64_t address, written;
    /* Mapped windows: the first, and the current one. */
    volatile unsigned char *first, *window;
    uint64_t window_at;
} channel;

/* Maps a window of physical memory. `address` is a multiple of WINDOW. Returns NULL on failure. */
static volatile unsigned char *map_window(uint64_t address) {
    long result = arch_syscall(NR_MMAP, 0, WINDOW, PROTECT_READ_WRITE, MAP_SHARED_MEMORY, channel.memory,
                               (long)(address / ARCH_MMAP_UNIT));
    return result < 0 && result > -4096 ? NULL : (volatile unsigned char *)result;
}

static int open_uncached(const char *path) {
    return (int)SYSCALL4(NR_OPENAT, AT_FDCWD, path, OPEN_UNCACHED, 0);
}

/* Reads or writes the PCI configuration space of a device. */
static long access_config(int fd, long offset, void *bytes, size_t size, bool writes) {
    long result = SYSCALL3(NR_LSEEK, fd, offset, SEEK_FROM_START);
    if (result >= 0)
        result = SYSCALL3(writes ? NR_WRITE : NR_READ, fd, bytes, size);
    return result < 0 ? result : result == (long)size ? 0 : -PORT_E_NOENT;
}

/* Enables memory access to a PCI device and returns the address of one of its BARs. */
static int read_bar_address(const char *path, int bar, uint64_t *address) {
    uint16_t command = 0;
    uint32_t words[2] = {0};
    int fd = open_uncached(path);
    if (fd < 0)
        return fd;
    long result = access_config(fd, PCI_COMMAND, &command, sizeof command, false);
    command |= PCI_COMMAND_MEMORY;
    if (result == 0)
        result = access_config(fd, PCI_COMMAND, &command, sizeof command, true);
    if (result == 0)
        result = access_config(fd, bar, words, sizeof words, false);
    port_close(fd);
    bool is_long = words[0] & 4;
    *address = (words[0] & ~(uint32_t)15) | (is_long ? (uint64_t)words[1] << 32 : 0);
    return result < 0 ? (int)result : *address ? 0 : -PORT_E_NOENT;
}

static int acquire_channel(void) {
    channel.memory = open_uncached("/dev/mem");
    if (channel.memory < 0)
        return channel.memory;
    int result = read_bar_address(CHANNEL_DEVICE "/config", PCI_BAR_2, &channel.address);
    if (result < 0)
        return result;
    channel.window = channel.first = map_window(channel.address);
    return channel.first ? 0 : -PORT_E_NOMEM;
}

/* Returns the mapped window of the channel that contains a byte, or NULL if it can't be mapped. */
static volatile unsigned char *window_of(uint64_t at) {
    uint64_t begin = at - at % WINDOW;

    if (begin == channel.window_at)
        return channel.window;
    if (channel.window != channel.first)
        port_munmap((void *)channel.window, WINDOW);
    channel.window_at = begin;
    return channel.window = begin ? map_window(channel.address + begin) : channel.first;
}

long port_write_channel(const void *data, size_t size) {
    const unsigned char *bytes = data;

    for (size_t i = 0, step; i < size; i += step) {
        uint64_t at = CHANNEL_START + channel.written + i;
        volatile unsigned char *window = at < CHANNEL_END ? window_of(at) : NULL;
        unsigned long word;
        if (!window)
            return at < CHANNEL_END ? -PORT_E_NOMEM : -PORT_E_NOSPC;
        step =
            at % sizeof word || size - i < sizeof word ? 1 : sizeof word; /* arm64 requires aligned access */
        if (step == 1) {
            window[at % WINDOW] = bytes[i];
        } else {
            __builtin_memcpy(&word, bytes + i, sizeof word);
            *(volatile unsigned long *)&window[at % WINDOW] = word;
        }
    }
    channel.written += size;
    for (size_t i = 0; i < sizeof channel.written; i++)
        channel.first[i] = (unsigned char)(channel.written >> 8 * i);
    return (long)size;
}

#if defined(ARCH_HAS_IO_PORTS) || defined(ARCH_FW_CFG_ADDRESS)

/* fw_cfg holds files: one register selects a file, and reads from another return its bytes in order. */
enum {
    FW_CFG_SIGNATURE = 0,
    FW_CFG_DIRECTORY = 0x19,
    FW_CFG_NAME = 56,
    FW_CFG_DMA_READ = 2,
    FW_CFG_DMA_SELECT = 8,
};
static void fw_cfg_select(uint16_t key);
static void fw_cfg_read(void *buffer, size_t size);

/* struct FWCfgFile: an entry of the directory, in big-endian byte order. */
struct fw_cfg_file {
    uint32_t size;
    uint16_t selector, reserved;
    char name[FW_CFG_NAME];
};

/* Returns the size of a file and sets its key. `bytes` is the length of its name with the zero byte. */
static long fw_cfg_find(const char *name, size_t bytes, uint16_t *key) {
    char signature[4];
    uint32_t count;
    struct fw_cfg_file file;

    fw_cfg_select(FW_CFG_SIGNATURE);
    fw_cfg_read(signature, sizeof signature);
    if (__builtin_memcmp(signature, "QEMU", sizeof signature) != 0)
        return -PORT_E_NOENT;
    fw_cfg_select(FW_CFG_DIRECTORY);
    fw_cfg_read(&count, sizeof count);
    for (count = __builtin_bswap32(count); count; count--) {
        fw_cfg_read(&file, sizeof file);
        if (__builtin_memcmp(file.name, name, bytes) != 0)
            continue;
        *key = __builtin_bswap16(file.selector);
        return (long)__builtin_bswap32(file.size);
    }
    return -PORT_E_NOENT;
}

long port_read_order(char *buffer, size_t size) {
    static const char name[] = "opt/swapstone/order";
    uint16_t key;
    long bytes = fw_cfg_find(name, sizeof name, &key);

    if (bytes < 0)
        return bytes;
    if ((size_t)bytes > size)
        return -PORT_E_NOSPC;
    fw_cfg_select(key);
    fw_cfg_read(buffer, (size_t)bytes);
    return bytes;
}

/* struct FWCfgDmaAccess, in big-endian byte order: the device reads the next bytes of the selected file into
 * physical memory. */
static volatile struct {
    uint32_t control, length;
    uint64_t address;
} transfer __attribute__((aligned(16)));
static uint64_t transfer_address;
static uint32_t transfer_select; /* of the first transfer, which selects the file */
static void fw_cfg_start(uint64_t address);

int port_begin_files(void) {
    static const char name[] = "opt/swapstone/files";
    uint16_t key;
    long bytes = fw_cfg_find(name, sizeof name, &key);

    transfer.control = 0; /* its page is in memory now */
    if (bytes < 0)
        return (int)bytes;
    transfer_select = FW_CFG_DMA_SELECT | (uint32_t)key << 16;
    uintptr_t at = (uintptr_t)&transfer;
    int result = port_find_pages((void *)(at - at % PAGE_BYTES), 1, &transfer_address);
    transfer_address += at % PAGE_BYTES;
    return result;
}

int port_receive_page(uint64_t address) {
    transfer.length = __builtin_bswap32(PAGE_BYTES);
    transfer.address = __builtin_bswap64(address);
    transfer.control = __builtin_bswap32(FW_CFG_DMA_READ | transfer_select);
    transfer_select = 0;
    fw_cfg_start(transfer_address);
    return transfer.control ? -PORT_E_IO : 0; /* QEMU clears it before the store has ended */
}

#else

int port_begin_files(void) {
    return -PORT_E_NOENT;
}

int port_receive_page(uint64_t address) {
    (void)address;
    return -PORT_E_IO;
}

#endif

#ifdef ARCH_HAS_IO_PORTS

enum {
    PORT_DEBUG_EXIT = 0xf4,
    PORT_WATCHDOG = 0x443,
    PORT_FW_CFG_SELECT = 0x510,
    PORT_FW_CFG_DATA = 0x511,
    PORT_FW_CFG_DMA = 0x514, /* 8 bytes */
    PORT_FW_CFG_END = 0x51c,
    WATCHDOG_EXPIRE = 15,  /* selects a time-out of 0 s */
    EXIT_SUCCEEDED = 0x20, /* QEMU exits with status 2 * value + 1 */
    EXIT_FAILED = 0x21,
};

/* First I/O port and number of ports of each device. */
static const uint16_t port_ranges[][2] = {
    {PORT_DEBUG_EXIT, 1}, {PORT_WATCHDOG, 1}, {PORT_FW_CFG_SELECT, PORT_FW_CFG_END - PORT_FW_CFG_SELECT}};

static int set_io_permissions(bool on) {
    int result = 0;
    for (size_t i = 0; i < sizeof port_ranges / sizeof *port_ranges && result == 0; i++)
        result = (int)SYSCALL3(NR_IOPERM, port_ranges[i][0], port_ranges[i][1], on);
    return result;
}

static bool acquired; /* without it, an instruction that writes to a port is a fault */

int port_acquire_devices(void) {
    int result = set_io_permissions(true);
    acquired = result == 0;
    return acquired ? acquire_channel() : result;
}

void port_release_devices(void) {
    set_io_permissions(false);
}

void port_request_pause(void) {
    arch_outb(PORT_WATCHDOG, WATCHDOG_EXPIRE);
}

static void fw_cfg_select(uint16_t key) {
    arch_outw(PORT_FW_CFG_SELECT, key);
}

static void fw_cfg_read(void *buffer, size_t size) {
    arch_insb(PORT_FW_CFG_DATA, buffer, size);
}

static void fw_cfg_start(uint64_t address) {
    arch_outl(PORT_FW_CFG_DMA, __builtin_bswap32((uint32_t)(address >> 32)));
    arch_outl(PORT_FW_CFG_DMA + 4, __builtin_bswap32((uint32_t)address));
}

void port_stop_machine(bool failed) {
    if (acquired)
        arch_outb(PORT_DEBUG_EXIT, failed ? EXIT_FAILED : EXIT_SUCCEEDED);
    power_off();
}

#else

/* Machines without I/O ports. The devices are memory-mapped; the watchdog (i6300esb) is a PCI device. */
enum {
    FW_CFG_SELECTOR = 8,
    FW_CFG_DMA = 16,
    WATCHDOG_CONFIG = 0x60,
    WATCHDOG_LOCK = 0x68,
    WATCHDOG_TIMER_1 = 0,
    WATCHDOG_TIMER_2 = 4,
    WATCHDOG_RELOAD = 0xc,
    WATCHDOG_KEY_1 = 0x80,
    WATCHDOG_KEY_2 = 0x86,
    WATCHDOG_1_MHZ = 4, /* ESB_WDT_FREQ; bit 5 is 0: the second time-out triggers the action */
    WATCHDOG_ENABLE = 2,
};

#define WATCHDOG_DEVICE "/sys/bus/pci/devices/0000:00:01.0"

static struct {
    volatile unsigned char *fw_cfg;
    volatile unsigned char *watchdog;
} devices;

int port_acquire_devices(void) {
    uint64_t watchdog;
    int result = acquire_channel();
    if (result == 0)
        result = read_bar_address(WATCHDOG_DEVICE "/config", PCI_BAR_0, &watchdog);
    if (result < 0)
        return result;
#ifdef ARCH_FW_CFG_ADDRESS
    devices.fw_cfg = map_window(ARCH_FW_CFG_ADDRESS);
    if (!devices.fw_cfg)
        return -PORT_E_NOMEM;
#endif
    devices.watchdog = map_window(watchdog - watchdog % WINDOW);
    if (!devices.watchdog)
        return -PORT_E_NOMEM;
    devices.watchdog += watchdog % WINDOW;
    return 0;
}

/* Nothing to do: execve(2) removes the mappings. */
void port_release_devices(void) {}

/* Writes a watchdog register; each write needs the two unlock keys. */
static void write_watchdog(int offset, uint32_t value) {
    volatile uint16_t *key = (volatile uint16_t *)(devices.watchdog + WATCHDOG_RELOAD);

    *key = WATCHDOG_KEY_1;
    *key = WATCHDOG_KEY_2;
    *(volatile uint32_t *)(devices.watchdog + offset) = value;
}

void port_request_pause(void) {
    uint16_t config = WATCHDOG_1_MHZ;
    uint8_t lock = WATCHDOG_ENABLE;
    int fd = open_uncached(WATCHDOG_DEVICE "/config");

    write_watchdog(WATCHDOG_TIMER_1, 1);
    write_watchdog(WATCHDOG_TIMER_2, 1);
    access_config(fd, WATCHDOG_CONFIG, &config, sizeof config, true);
    access_config(fd, WATCHDOG_LOCK, &lock, sizeof lock, true);
    port_close(fd);
}

#ifdef ARCH_FW_CFG_ADDRESS

static void fw_cfg_select(uint16_t key) {
    *(volatile uint16_t *)(devices.fw_cfg + FW_CFG_SELECTOR) = __builtin_bswap16(key);
}

static void fw_cfg_read(void *buffer, size_t size) {
    volatile unsigned long *words = (volatile unsigned long *)devices.fw_cfg;
    unsigned char *at = buffer;

    for (; size >= sizeof *words; size -= sizeof *words) {
        unsigned long word = *words;
        for (size_t i = 0; i < sizeof word; i++)
            *at++ = ((unsigned char *)&word)[i];
    }
    for (; size; size--)
        *at++ = *devices.fw_cfg;
}

static void fw_cfg_start(uint64_t address) {
    volatile uint32_t *words = (volatile uint32_t *)(devices.fw_cfg + FW_CFG_DMA);

    words[0] = __builtin_bswap32((uint32_t)(address >> 32));
    words[1] = __builtin_bswap32((uint32_t)address);
}

#endif

#ifndef ARCH_FW_CFG_ADDRESS

/* Reads from the channel. Returns false if it can't be mapped. */
static bool read_channel(uint64_t from, void *buffer, size_t size) {
    unsigned char *at = buffer;

    for (size_t i = 0; i < size; i++) {
        volatile unsigned char *window = window_of(from + i);
        if (!window)
            return false;
        at[i] = window[(from + i) % WINDOW];
    }
    return true;
}

long port_read_order(char *buffer, size_t size) {
    uint64_t bytes;

    if (!read_channel(ORDER_START, &bytes, sizeof bytes))
        return -PORT_E_NOMEM;
    if (!bytes || bytes > size)
        return bytes ? -PORT_E_NOSPC : -PORT_E_NOENT;
    return read_channel(ORDER_START + CHANNEL_START, buffer, bytes) ? (long)bytes : -PORT_E_NOMEM;
}

#endif

void port_stop_machine(bool failed) {
    (void)failed;
    port_tcdrain(1);
    power_off();
}

#endif
