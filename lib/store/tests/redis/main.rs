//! The store on real servers.

fn main() {}
