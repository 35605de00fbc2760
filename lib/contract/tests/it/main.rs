//! The contract tried on the reference, and on stores that break it.

mod line;
mod model;
mod mutant;
mod places;
mod reference;
