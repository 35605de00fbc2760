//! The memory's locks and outbox hold their contract, and what breaks it is found.

mod bent_locks;
mod bent_outbox;

mod locks {
    use hapax_contract::locks::Memory;

    hapax_contract::locks_suite!(Memory::new());
}

mod outbox {
    use hapax_contract::outbox::Memory;

    hapax_contract::outbox_suite!(Memory::new());
}

/// Whether a case fails on this subject, as it should.
fn is_refused(case: impl FnOnce()) -> bool {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(case)).is_err()
}
