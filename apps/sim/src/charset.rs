use std::borrow::Cow;

use encoding_rs::GBK;

/// The charset of a call or of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Charset {
    Utf8,
    Gbk,
}

impl Charset {
    pub(crate) fn parse(name: &[u8]) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        match name.as_slice() {
            b"utf-8" | b"utf8" => Some(Self::Utf8),
            b"gbk" | b"gb2312" => Some(Self::Gbk),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Utf8 => "utf-8",
            Self::Gbk => "GBK",
        }
    }

    /// Reads bytes; `None` if they are not text in this charset.
    pub(crate) fn decode(self, bytes: &[u8]) -> Option<String> {
        match self {
            Self::Utf8 => String::from_utf8(bytes.to_vec()).ok(),
            Self::Gbk => {
                GBK.decode_without_bom_handling_and_without_replacement(bytes).map(Cow::into_owned)
            }
        }
    }

    /// Writes text; a character that GBK lacks becomes a numeric reference.
    pub(crate) fn encode(self, text: &str) -> Vec<u8> {
        match self {
            Self::Utf8 => text.as_bytes().to_vec(),
            Self::Gbk => GBK.encode(text).0.into_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_survives_both_charsets_and_foreign_bytes_do_not_pass() {
        for charset in [Charset::Utf8, Charset::Gbk] {
            let bytes = charset.encode("会员 100%");
            assert_eq!(charset.decode(&bytes).as_deref(), Some("会员 100%"));
        }
        assert_eq!(Charset::Utf8.decode(&Charset::Gbk.encode("会员")), None);
        assert_eq!(Charset::Gbk.decode(&[0xff, 0xff]), None);
    }

    #[test]
    fn charset_names_are_taken_in_any_case() {
        assert_eq!(Charset::parse(b"UTF-8"), Some(Charset::Utf8));
        assert_eq!(Charset::parse(b"gbk"), Some(Charset::Gbk));
        assert_eq!(Charset::parse(b"latin1"), None);
    }
}
