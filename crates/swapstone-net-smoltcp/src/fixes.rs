// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fixes: corrections of smoltcp's behaviour in this crate that can be switched off by name.

/// Which defects of smoltcp this crate corrects. The default is all; [`Fixes::NONE`] is smoltcp as
/// shipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixes {
    /// `ack-beyond-window`: the acknowledgement in a segment beyond the advertised window is
    /// processed. smoltcp's right window edge moves left when the window field is rounded down, and
    /// it drops the acknowledgement in everything beyond the last advertised edge. If that happens
    /// on both sides of a stream in two directions, neither ever sends again.
    pub ack_beyond_window: bool,
}

impl Fixes {
    /// All fixes.
    pub const ALL: Self = Self {
        ack_beyond_window: true,
    };
    /// smoltcp as shipped.
    pub const NONE: Self = Self {
        ack_beyond_window: false,
    };

    /// Returns the names of the fixes that are on, in the order of their introduction.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        [(self.ack_beyond_window, "ack-beyond-window")]
            .into_iter()
            .filter_map(|(on, name)| on.then_some(name))
    }
}

impl Default for Fixes {
    fn default() -> Self {
        Self::ALL
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn fixes_that_are_on_have_names() {
        assert_eq!(
            Fixes::default().names().collect::<Vec<_>>(),
            ["ack-beyond-window"]
        );
        assert_eq!(Fixes::NONE.names().count(), 0);
    }
}
