//! In which of the 16384 slots of a cluster a key lives.

/// Slots of every cluster.
pub(super) const SLOTS: usize = 16_384;

/// The slot of the keys that carry `tag` between braces: CRC-16/XMODEM, as Redis defines it.
pub(super) fn of(tag: &[u8]) -> usize {
    let crc = tag.iter().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    });
    usize::from(crc) % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_cluster_specification() {
        assert_eq!(of(b"123456789"), 0x31C3 % SLOTS);
        assert_eq!(of(b"foo"), 12_182);
        assert_eq!(of(b""), 0);
    }
}
