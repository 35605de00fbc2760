//! The house rules that no other tool checks, each in its own file with its planted faults.
//!
//! Invariant: each rule here is run on the whole tree (`every_rule_file_is_in_the_list`) and finds
//! the faults planted in its own tests.

mod arrows;
mod bans;
mod code_map;
mod faces;
mod finding;
mod graph;
mod imports;
mod kinds;
mod leftovers;
mod lexer;
mod links;
mod manifests;
mod markdown;
mod modules;
mod places;
mod proofs;
mod pure;
mod readmes;
mod report;
mod rust;
mod sizes;
mod sql;
mod tree;

pub(crate) use report::report;
