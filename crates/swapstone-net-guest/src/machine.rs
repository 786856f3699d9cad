// SPDX-License-Identifier: MIT OR Apache-2.0
//! QEMU's riscv64 `virt`: clock, interrupts, devices and power-off.

use core::arch::{asm, global_asm};
use core::fmt::Write;
use core::panic::PanicInfo;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU64, Ordering};

use swapstone_net::{Instant, Platform};
use swapstone_net_virtio::VirtioNet;
use virtio_drivers::device::rng::VirtIORng;
use virtio_drivers::transport::mmio::{MmioTransport, VirtIOHeader};
use virtio_drivers::transport::{DeviceType, Transport};

use crate::memory::Flat;
use crate::uart::Uart;

global_asm!(include_str!("entry.s"));

/// The network device, with 256 buffers per queue.
pub type Card = VirtioNet<Flat, MmioTransport<'static>, 256>;

/// The eight virtio-mmio slots; slot n has interrupt n + 1.
const VIRTIO: usize = 0x1000_1000;
const VIRTIO_SIZE: usize = 0x1000;
const VIRTIO_PLACES: usize = 8;
/// The interrupt status and acknowledge registers of a virtio device (virtio 1.2, 4.2.2).
const VIRTIO_INTERRUPTS: usize = 0x60;
const VIRTIO_SEEN: usize = 0x64;
/// The interrupt controller (PLIC): priorities, and the registers of hart 0 in machine mode.
const PLIC: usize = 0x0c00_0000;
const PLIC_ENABLED: usize = PLIC + 0x2000;
const PLIC_THRESHOLD: usize = PLIC + 0x20_0000;
const PLIC_CLAIM: usize = PLIC_THRESHOLD + 4;
/// The timer's compare register (CLINT).
const TIMER: usize = 0x0200_4000;
/// The clock runs at 10 MHz: 10 ticks per microsecond.
const TICKS: u64 = 10;
/// The device that ends QEMU ("sifive_test"), and its values.
const END: usize = 0x10_0000;
const PASS: u32 = 0x5555;
const FAIL: u32 = 0x3333;
/// `mie`: timer and external interrupts of machine mode.
const INTERRUPTS: usize = 1 << 7 | 1 << 11;

fn read(address: usize) -> u32 {
    // SAFETY: only registers of the memory map above are read.
    unsafe { ptr::read_volatile(address as *const u32) }
}

fn write(address: usize, value: u32) {
    // SAFETY: only registers of the memory map above are written, which changes no memory.
    unsafe { ptr::write_volatile(address as *mut u32, value) };
}

/// Ends QEMU with exit status 0 or 1.
pub fn end(well: bool) -> ! {
    write(END, if well { PASS } else { FAIL | 1 << 16 });
    loop {
        // SAFETY: it waits for an interrupt, and none is handled.
        unsafe { asm!("wfi") };
    }
}

/// The devices of the machine.
pub struct Devices {
    /// The network device.
    pub card: MmioTransport<'static>,
    /// The entropy source.
    pub random: MmioTransport<'static>,
    /// The clock that waits for the network device.
    pub platform: Virt,
}

/// Finds the devices.
///
/// # Safety
///
/// Call it once: each device must have one owner.
pub unsafe fn devices() -> Result<Devices, &'static str> {
    let (mut card, mut random) = (None, None);
    for place in 0..VIRTIO_PLACES {
        let base = VIRTIO + place * VIRTIO_SIZE;
        let header = NonNull::new(base as *mut VirtIOHeader).ok_or("an address of 0")?;
        // SAFETY: each slot has the registers of a virtio device.
        let Ok(found) = (unsafe { MmioTransport::new(header, VIRTIO_SIZE) }) else {
            continue; // the slot is empty
        };
        match found.device_type() {
            DeviceType::Network => card = Some((found, place)),
            DeviceType::EntropySource => random = Some(found),
            _ => {}
        }
    }
    let (card, place) = card.ok_or("there is no virtio-net card")?;
    Ok(Devices {
        card,
        random: random.ok_or("there is no virtio-rng, and ports must not be guessed")?,
        platform: Virt::new(place),
    })
}

/// Returns 32 unpredictable bytes.
pub fn seed(random: MmioTransport<'static>) -> virtio_drivers::Result<[u8; 32]> {
    let mut source = VirtIORng::<Flat, _>::new(random)?;
    let mut seed = [0; 32];
    let mut have = 0;
    while have < seed.len() {
        have += source.request_entropy(&mut seed[have..])?;
    }
    Ok(seed)
}

/// What `minstret` advanced by while the hart waited.
static WAITED: AtomicU64 = AtomicU64::new(0);

fn retired() -> u64 {
    let count: u64;
    // SAFETY: it reads a counter.
    unsafe { asm!("csrr {}, minstret", out(reg) count) };
    count
}

/// Returns the number of instructions since the machine was started, without waits.
///
/// Under `-icount` QEMU's `minstret` is the virtual clock, which also runs while the hart waits.
/// Without `-icount` it counts ticks of the host.
pub fn instructions() -> u64 {
    retired().wrapping_sub(WAITED.load(Ordering::Relaxed))
}

/// The clock, and waiting for the interrupt of the network device. Interrupts wake the hart and are
/// not handled.
pub struct Virt {
    card: usize,
}

impl Virt {
    fn new(place: usize) -> Self {
        let source = place + 1;
        write(PLIC + 4 * source, 1);
        write(PLIC_ENABLED, 1 << source);
        write(PLIC_THRESHOLD, 0);
        // SAFETY: mstatus.MIE is clear, so this only selects what ends a wait.
        unsafe { asm!("csrw mie, {}", in(reg) INTERRUPTS) };
        Self {
            card: VIRTIO + place * VIRTIO_SIZE,
        }
    }
}

/// Returns the microseconds since the machine was started.
pub fn now() -> Instant {
    let ticks: u64;
    // SAFETY: it reads a counter.
    unsafe { asm!("rdtime {}", out(reg) ticks) };
    Instant::from_micros(ticks / TICKS)
}

impl Platform for Virt {
    fn now(&mut self) -> Instant {
        now()
    }

    fn wait(&mut self, until: Option<Instant>) {
        let end = until.map_or(u64::MAX, |until| until.micros().saturating_mul(TICKS));
        // SAFETY: the timer's compare register; wfi returns at an interrupt, which is not handled.
        unsafe {
            ptr::write_volatile(TIMER as *mut u64, end);
            let before = retired();
            asm!("wfi");
            WAITED.fetch_add(retired().wrapping_sub(before), Ordering::Relaxed);
        }
        loop {
            let source = read(PLIC_CLAIM);
            if source == 0 {
                return;
            }
            write(self.card + VIRTIO_SEEN, read(self.card + VIRTIO_INTERRUPTS));
            write(PLIC_CLAIM, source);
        }
    }
}

/// Called by the entry code for exceptions.
#[unsafe(no_mangle)]
extern "C" fn trapped(cause: usize, at: usize, value: usize) -> ! {
    panic!("a trap: mcause {cause:#x}, mepc {at:#x}, mtval {value:#x}");
}

#[panic_handler]
fn panicked(info: &PanicInfo<'_>) -> ! {
    let _ = writeln!(Uart, "swapstone-net-guest: {info}");
    end(false);
}
