// SPDX-License-Identifier: MIT OR Apache-2.0
//! Corrections of a stack's behaviour that can be switched off by name, to compare a stack as it is
//! shipped with the same stack corrected.

use core::fmt;

/// A correction of a stack's behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fix {
    /// Its name: lower-case words with hyphens.
    pub name: &'static str,
    /// What happens without it.
    pub reason: &'static str,
}

/// Which fixes of a stack are on.
#[derive(Clone, Copy)]
pub struct Fixes {
    table: &'static [Fix],
    off: u32,
}

impl Fixes {
    /// All fixes of a stack on. The table has at most 32.
    pub const fn all(table: &'static [Fix]) -> Self {
        assert!(table.len() <= 32);
        Self { table, off: 0 }
    }

    /// All fixes of a stack off: the stack as shipped.
    pub const fn none(table: &'static [Fix]) -> Self {
        assert!(table.len() <= 32);
        Self {
            table,
            off: u32::MAX,
        }
    }

    /// Switches a fix off by its name; `None` if the stack has no such fix.
    pub fn without(self, name: &str) -> Option<Self> {
        let at = self.table.iter().position(|fix| fix.name == name)?;
        Some(Self {
            off: self.off | 1 << at,
            ..self
        })
    }

    /// Returns the fixes that a text selects: an empty one all, `shipped` none, `without-NAME` all but
    /// one.
    pub fn parse(table: &'static [Fix], text: &str) -> Option<Self> {
        match text {
            "" => Some(Self::all(table)),
            "shipped" => Some(Self::none(table)),
            _ => Self::all(table).without(text.strip_prefix("without-")?),
        }
    }

    /// Returns whether the fix with this index in the table is on.
    pub const fn on(&self, at: usize) -> bool {
        self.off >> at & 1 == 0
    }

    /// Returns a number whose bit N is set if the fix with the index N is on.
    pub const fn bits(&self) -> u32 {
        !self.off & ((1u64 << self.table.len()) - 1) as u32
    }

    /// Returns the names of the fixes that are on, in the order of the table.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let on = *self;
        self.table
            .iter()
            .enumerate()
            .filter_map(move |(at, fix)| on.on(at).then_some(fix.name))
    }
}

impl fmt::Debug for Fixes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_set().entries(self.names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const TABLE: &[Fix] = &[
        Fix {
            name: "one",
            reason: "a",
        },
        Fix {
            name: "other",
            reason: "b",
        },
    ];

    fn names(text: &str) -> Option<Vec<&'static str>> {
        Fixes::parse(TABLE, text).map(|fixes| fixes.names().collect())
    }

    #[test]
    fn fixes_are_selected_by_name() {
        assert_eq!(names(""), Some(Vec::from(["one", "other"])));
        assert_eq!(names("shipped"), Some(Vec::new()));
        assert_eq!(names("without-one"), Some(Vec::from(["other"])));
        assert_eq!(names("without-"), None);
        assert_eq!(names("one"), None);
        let none = Fixes::none(TABLE);
        assert!(!none.on(0) && !none.on(1) && Fixes::all(TABLE).on(1));
        assert_eq!((none.bits(), Fixes::all(TABLE).bits()), (0, 3));
    }
}
