// SPDX-License-Identifier: MIT OR Apache-2.0
//! Buffers for frames, from a pool, so that no memory is allocated per frame.

use alloc::boxed::Box;
use alloc::rc::{Rc, Weak};
use alloc::vec;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::fmt;
use core::ops::{Deref, DerefMut, Range};

/// A pool of buffers of one size.
///
/// It allocates up to `most` buffers. A dropped buffer returns to the pool.
#[derive(Clone)]
pub struct Pool {
    shared: Rc<Shared>,
}

struct Shared {
    size: usize,
    most: usize,
    state: RefCell<State>,
}

struct State {
    free: Vec<Box<[u8]>>,
    made: usize,
}

impl Pool {
    /// Creates a pool.
    ///
    /// `size` is the size of each buffer in bytes; `most` is how many can be in use at once.
    pub fn new(size: usize, most: usize) -> Self {
        let state = RefCell::new(State {
            free: Vec::with_capacity(most),
            made: 0,
        });
        Self {
            shared: Rc::new(Shared { size, most, state }),
        }
    }

    /// Takes a buffer with its full range visible; `None` if all are in use. Its content is
    /// unspecified.
    pub fn take(&self) -> Option<Buffer> {
        let mut state = self.shared.state.borrow_mut();
        let memory = match state.free.pop() {
            Some(memory) => memory,
            None if state.made < self.shared.most => {
                state.made += 1;
                vec![0; self.shared.size].into_boxed_slice()
            }
            None => return None,
        };
        let visible = 0..memory.len();
        Some(Buffer {
            memory: Some(memory),
            visible,
            home: Rc::downgrade(&self.shared),
        })
    }

    /// Returns how many buffers are in use.
    pub fn in_use(&self) -> usize {
        let state = self.shared.state.borrow();
        state.made - state.free.len()
    }

    /// Returns the size of each buffer in bytes.
    pub fn size(&self) -> usize {
        self.shared.size
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "Pool({} of {} x {} bytes)",
            self.in_use(),
            self.shared.most,
            self.shared.size
        )
    }
}

/// A buffer with a visible range. It belongs to a [`Pool`] or owns its memory.
pub struct Buffer {
    memory: Option<Box<[u8]>>,
    visible: Range<usize>,
    home: Weak<Shared>,
}

impl Buffer {
    /// Creates a buffer without a pool from a copy of `bytes`.
    pub fn copied(bytes: &[u8]) -> Self {
        Self {
            memory: Some(bytes.into()),
            visible: 0..bytes.len(),
            home: Weak::new(),
        }
    }

    /// Reduces the visible range to `range` of the current one.
    ///
    /// # Panics
    ///
    /// If the range exceeds the current one.
    pub fn narrow(&mut self, range: Range<usize>) {
        assert!(
            range.start <= range.end && range.end <= self.visible.len(),
            "{range:?} exceeds the visible range"
        );
        self.visible = self.visible.start + range.start..self.visible.start + range.end;
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.memory
            .as_ref()
            .map_or(&[], |memory| &memory[self.visible.clone()])
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Some(memory) => &mut memory[self.visible.clone()],
            None => &mut [],
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let (Some(home), Some(memory)) = (self.home.upgrade(), self.memory.take()) {
            home.state.borrow_mut().free.push(memory);
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Buffer({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_buffers_return_to_the_pool() {
        let pool = Pool::new(4, 2);
        let first = pool.take().unwrap();
        let at = first.as_ptr();
        let second = pool.take().unwrap();
        assert!(pool.take().is_none());
        assert_eq!(pool.in_use(), 2);
        drop(first);
        assert_eq!(pool.in_use(), 1);
        let third = pool.take().unwrap();
        assert_eq!(third.as_ptr(), at);
        drop((second, third));
        assert_eq!(pool.in_use(), 0);
    }

    #[test]
    fn a_buffer_outlives_its_pool() {
        let pool = Pool::new(3, 1);
        let mut buffer = pool.take().unwrap();
        drop(pool);
        buffer.copy_from_slice(b"abc");
        buffer.narrow(1..3);
        assert_eq!(&*buffer, b"bc");
        buffer.narrow(1..1);
        assert!(buffer.is_empty());
    }

    #[test]
    #[should_panic(expected = "exceeds")]
    fn a_hidden_range_stays_hidden() {
        let mut buffer = Buffer::copied(b"abcd");
        buffer.narrow(0..2);
        buffer.narrow(0..3);
    }
}
