//! The toy's own money: whole fen.

const MAX: i64 = 10_000_000_000;

pub(crate) fn parse(text: &str) -> Option<i64> {
    let (yuan, fen) = text.split_once('.').unwrap_or((text, "00"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(yuan) || !digits(fen) || fen.len() > 2 {
        return None;
    }
    let fen: i64 = format!("{fen:0<2}").parse().ok()?;
    let amount = yuan.parse::<i64>().ok()? * 100 + fen;
    (1..=MAX).contains(&amount).then_some(amount)
}

pub(crate) fn text(fen: i64) -> String {
    format!("{}.{:02}", fen / 100, fen % 100)
}
