// SPDX-License-Identifier: MIT OR Apache-2.0
//! An in-memory device with counted buffers.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use swapstone_net::buffer::Pool;
use swapstone_net::device::{Checksum, Device, DeviceLimits, Frame, Full, Outgoing};

use crate::frames::{self, Heard};

/// The size of a buffer, and their number.
const SIZE: usize = 1600;
const MOST: usize = 64;

/// The state of the wire.
pub struct Line {
    pub pool: Pool,
    inbox: VecDeque<Frame>,
    /// The stack's last TCP segments, for responses of the peer.
    pub heard: Heard,
    /// The transmit queue is full.
    pub full: bool,
    pub offload: bool,
    pub taken: u64,
    pub sent: u64,
}

/// The device; the script controls its other end.
#[derive(Clone)]
pub struct Wire(pub Rc<RefCell<Line>>);

impl Wire {
    pub fn new(offload: bool) -> Self {
        Self(Rc::new(RefCell::new(Line {
            pool: Pool::new(SIZE, MOST),
            inbox: VecDeque::new(),
            heard: Heard::default(),
            full: false,
            offload,
            taken: 0,
            sent: 0,
        })))
    }

    /// Delivers a frame; without a free buffer it is lost.
    pub fn arrive(&self, frame: &[u8], checksum: Checksum) {
        let mut line = self.0.borrow_mut();
        let size = frame.len().min(SIZE);
        if let Some(mut buffer) = line.pool.take() {
            // At the end of the buffer, so that AddressSanitizer detects reads beyond the frame.
            buffer.narrow(SIZE - size..SIZE);
            buffer.copy_from_slice(&frame[..size]);
            line.inbox.push_back(Frame {
                bytes: buffer,
                checksum,
                segment: None,
            });
        }
    }

    /// Discards frames that were not received yet.
    pub fn clear(&self) {
        let waiting = std::mem::take(&mut self.0.borrow_mut().inbox);
        drop(waiting);
    }
}

impl Device for Wire {
    fn limits(&self) -> DeviceLimits {
        let offload = self.0.borrow().offload;
        DeviceLimits {
            address: frames::SUBJECT_MAC,
            mtu: 1500,
            checksum_offload: offload,
            segments: if offload { 60_000 } else { 0 },
            largest_received: 1500,
        }
    }

    fn receive(&mut self) -> Option<Frame> {
        let mut line = self.0.borrow_mut();
        let frame = line.inbox.pop_front()?;
        line.taken += 1;
        Some(frame)
    }

    fn transmit(&mut self, frame: Outgoing<'_>) -> Result<(), Full> {
        let mut line = self.0.borrow_mut();
        if line.full {
            return Err(Full);
        }
        let whole = frame.parts.concat();
        assert!(
            whole.len() <= 1514 || frame.segmentation.is_some(),
            "{} bytes leave",
            whole.len()
        );
        line.sent += 1;
        line.heard.note(&whole);
        Ok(())
    }
}
