// SPDX-License-Identifier: MIT OR Apache-2.0
//! The mends: corrections of smoltcp's behaviour in this crate that can be switched off by name.

/// Which defects of smoltcp this crate corrects. The default is all; [`Mends::NONE`] is smoltcp as
/// shipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mends {
    /// `ack-beyond-window`: the acknowledgement in a segment beyond the advertised window is
    /// processed. smoltcp's right window edge moves left when the window field is rounded down, and
    /// it drops the acknowledgement in everything beyond the last advertised edge. If that happens
    /// on both sides of a stream in two directions, neither ever sends again.
    pub ack_beyond_window: bool,
}

impl Mends {
    /// All mends.
    pub const ALL: Self = Self {
        ack_beyond_window: true,
    };
    /// smoltcp as shipped.
    pub const NONE: Self = Self {
        ack_beyond_window: false,
    };

    /// Returns the names of the mends that are on, in the order of their introduction.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        [(self.ack_beyond_window, "ack-beyond-window")]
            .into_iter()
            .filter_map(|(on, name)| on.then_some(name))
    }
}

impl Default for Mends {
    fn default() -> Self {
        Self::ALL
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn mends_that_are_on_have_names() {
        assert_eq!(
            Mends::default().names().collect::<Vec<_>>(),
            ["ack-beyond-window"]
        );
        assert_eq!(Mends::NONE.names().count(), 0);
    }
}
