//! Texts that lack one guard each.

/// A text that lacks one guard, and the guard.
pub(super) struct Bend {
    pub(super) guard: String,
    pub(super) text: String,
}

/// Every text that lacks one guard of `text`: a condition, a choice of one, a lock, or the clause
/// that makes a second insert harmless.
pub(super) fn bends(name: &str, text: &str) -> Vec<Bend> {
    let lines: Vec<&str> = text.lines().collect();
    let guards = (0..lines.len()).flat_map(|at| guard(name, &lines, at));
    guards.map(|guard| guard.taken_from(&lines)).collect()
}

/// A guard: its lines, and what becomes of the line after it.
struct Guard {
    from: usize,
    to: usize,
    /// What stands in its place.
    instead: Option<String>,
    /// The word that the next line begins with, and the one that it then must begin with.
    next: Option<(&'static str, &'static str)>,
}

fn guard(name: &str, lines: &[&str], at: usize) -> Vec<Guard> {
    let Some(line) = lines.get(at).map(|line| line.trim()) else { return Vec::new() };
    let next = lines.get(at + 1).map_or("", |line| line.trim());
    let is_alone_in_group = at > 0 && lines[at - 1].trim_end().ends_with('(');
    let plain = |next| vec![Guard { from: at, to: end(lines, at), instead: None, next }];
    if line.starts_with("AND ") || line.starts_with("OR ") {
        return if end(lines, at) == usize::MAX { Vec::new() } else { plain(None) };
    }
    if is_alone_in_group && next.starts_with("OR ") {
        return plain(Some(("OR ", "")));
    }
    if line.starts_with("WHERE ") && line != "WHERE true" {
        let after = lines.get(end(lines, at).saturating_add(1)).map_or("", |line| line.trim());
        return plain(after.starts_with("AND ").then_some(("AND ", "WHERE ")));
    }
    if line.starts_with("ON CONFLICT ") && line.ends_with(" DO NOTHING") {
        return plain(None);
    }
    // A purge locks so that two of them need not wait for each other: no record depends on it.
    if line.starts_with("FOR UPDATE") && !name.ends_with("_PURGE") && name != "PURGE" {
        let mut guards = plain(None);
        if line.contains(" SKIP LOCKED") {
            let instead = Some(line.replace(" SKIP LOCKED", ""));
            guards.push(Guard { from: at, to: at, instead, next: None });
        }
        return guards;
    }
    Vec::new()
}

/// The line on which the parentheses of the one at `at` are closed.
fn end(lines: &[&str], at: usize) -> usize {
    let mut open = 0_i32;
    for (place, line) in lines.iter().enumerate().skip(at) {
        for letter in line.chars() {
            open += match letter {
                '(' => 1,
                ')' => -1,
                _ => 0,
            };
        }
        match open {
            0 => return place,
            // It closes a group that began before it.
            ..0 => return usize::MAX,
            _ => {}
        }
    }
    usize::MAX
}

impl Guard {
    fn taken_from(self, lines: &[&str]) -> Bend {
        let to = std::cmp::min(self.to, lines.len() - 1);
        let mut left: Vec<String> = Vec::new();
        for (at, line) in lines.iter().enumerate() {
            match () {
                () if at == self.from && self.instead.is_some() => {
                    left.extend(self.instead.clone());
                }
                () if (self.from..=to).contains(&at) => {}
                () if at == to + 1 => left.push(match self.next {
                    Some((word, other)) => line.replacen(word, other, 1),
                    None => (*line).to_owned(),
                }),
                () => left.push((*line).to_owned()),
            }
            // The guard was the end of its statement.
            let is_end = at == to && line.ends_with(';') && self.instead.is_none();
            if let Some(last) = left.last_mut().filter(|_| is_end) {
                last.push(';');
            }
        }
        let first = lines[self.from].trim();
        let dots = if self.instead.is_some() {
            " (waits)"
        } else if to > self.from {
            " …"
        } else {
            ""
        };
        Bend { guard: format!("{first}{dots}"), text: left.join("\n") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_guard_is_taken_away_alone() {
        let text = "SELECT 1\nFROM t\nWHERE a = 1\n    AND NOT EXISTS (\n        SELECT 1\n        \
                    WHERE b\n    )\n    AND (\n        c\n        OR d\n    )\n\
                    FOR UPDATE SKIP LOCKED;\nUPDATE t\nWHERE e = 1;\nSELECT 2";
        let guards: Vec<_> = bends("X", text).into_iter().map(|bend| bend.guard).collect();
        assert_eq!(
            guards,
            [
                "WHERE a = 1",
                "AND NOT EXISTS ( …",
                "WHERE b",
                "AND ( …",
                "c",
                "OR d",
                "FOR UPDATE SKIP LOCKED;",
                "FOR UPDATE SKIP LOCKED; (waits)",
                "WHERE e = 1;",
            ]
        );
        let bent: Vec<_> = bends("X", text).into_iter().map(|bend| bend.text).collect();
        assert!(bent[0].starts_with("SELECT 1\nFROM t\n    WHERE NOT EXISTS ("), "{}", bent[0]);
        assert!(bent[4].contains("AND (\n        d\n    )"), "{}", bent[4]);
        assert!(bent[6].contains("    );\nUPDATE t"), "{}", bent[6]);
        assert!(bent[7].contains("FOR UPDATE;\nUPDATE"), "{}", bent[7]);
        assert!(bent[8].ends_with("UPDATE t;\nSELECT 2"), "{}", bent[8]);
        assert_eq!(bends("PURGE", text).len(), 7, "a purge's lock is no guard");
    }
}
