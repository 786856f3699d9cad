// SPDX-License-Identifier: MIT OR Apache-2.0
//! The suite.

use crate::context::Test;

mod checksums;
mod connect;
mod data;
mod datagrams;
mod discovery;
mod duplex;
mod end;
mod exhausted;
mod fixes;
mod fixes_waiting;
mod floods;
mod hosts;
mod limits;
mod malformed;
mod names;
mod offload;
mod reordering;
mod scale;
mod streams;
mod timestamps;
mod waiting;
mod window;
mod without_fixes;

/// All tests in the order of the table.
pub(crate) fn all() -> impl Iterator<Item = &'static Test> {
    let lists = [
        connect::TESTS,
        data::TESTS,
        window::TESTS,
        end::TESTS,
        datagrams::TESTS,
        hosts::TESTS,
        discovery::TESTS,
        duplex::TESTS,
        checksums::TESTS,
        malformed::TESTS,
        limits::TESTS,
        exhausted::TESTS,
        offload::TESTS,
        waiting::TESTS,
        streams::TESTS,
        fixes::TESTS,
        fixes_waiting::TESTS,
        without_fixes::TESTS,
        reordering::TESTS,
        timestamps::TESTS,
        floods::TESTS,
        names::TESTS,
        scale::TESTS,
    ];
    lists.into_iter().flatten()
}

/// Finds a test by name.
pub(crate) fn named(name: &str) -> Option<&'static Test> {
    all().find(|test| test.name == name)
}
