//! What a code means on each call: the table, and nothing beside it.
//!
//! Invariant: a code without a row is unknown, never a refusal. Held by
//! `a_code_without_a_row_is_never_a_refusal`.

use super::biz::Method;
use crate::channel::Meaning;

/// What a signed answer amounts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The call ran; the answer has what it found.
    Done,
    /// Surely not done.
    Refused(Meaning),
    /// The channel does not know.
    Undecided,
    /// A refusal that the table does not know.
    Unlisted,
    /// Turned away before the business saw it.
    TurnedAway,
}

/// Which methods a row of the table is about.
const PAY: &[Method] = &[Method::Precreate, Method::PagePay];
const CLOSE: &[Method] = &[Method::Close];
const QUERY: &[Method] = &[Method::Query];
const REFUND: &[Method] = &[Method::Refund];

/// `sub_code` × method → meaning, for answers with code 40004.
const TABLE: &[(&str, &[Method], Meaning)] = &[
    ("ACQ.TRADE_NOT_EXIST", CLOSE, Meaning::NotSeen),
    ("ACQ.TRADE_NOT_EXIST", QUERY, Meaning::NotSeen),
    ("ACQ.TRADE_NOT_EXIST", REFUND, Meaning::Final),
    ("ACQ.TRADE_STATUS_ERROR", CLOSE, Meaning::Ask),
    ("ACQ.TRADE_STATUS_ERROR", REFUND, Meaning::Ask),
    ("ACQ.REASON_TRADE_STATUS_INVALID", CLOSE, Meaning::Ask),
    ("ACQ.REASON_TRADE_STATUS_INVALID", REFUND, Meaning::Ask),
    ("ACQ.REASON_ILLEGAL_STATUS", CLOSE, Meaning::Ask),
    ("ACQ.REASON_ILLEGAL_STATUS", REFUND, Meaning::Ask),
    ("ACQ.TRADE_HAS_SUCCESS", CLOSE, Meaning::Ask),
    ("ACQ.TRADE_HAS_SUCCESS", PAY, Meaning::AlreadyPaid),
    ("ACQ.TRADE_HAS_CLOSE", PAY, Meaning::AlreadyClosed),
    ("ACQ.CONTEXT_INCONSISTENT", PAY, Meaning::Conflict),
    ("ACQ.TRADE_HAS_FINISHED", REFUND, Meaning::Final),
    ("ACQ.SELLER_BALANCE_NOT_ENOUGH", REFUND, Meaning::Later),
    ("ACQ.REASON_TRADE_REFUND_FEE_ERR", REFUND, Meaning::Final),
    ("ACQ.REFUND_AMT_NOT_EQUAL_TOTAL", REFUND, Meaning::Final),
    ("ACQ.DISCORDANT_REPEAT_REQUEST", REFUND, Meaning::Conflict),
    ("ACQ.REASON_TRADE_BEEN_FREEZEN", REFUND, Meaning::Blocked),
    ("ACQ.REASON_TRADE_BEEN_FREEZEN", CLOSE, Meaning::Blocked),
    ("ACQ.BUYER_SELLER_EQUAL", PAY, Meaning::Final),
    ("ACQ.TRADE_BUYER_NOT_MATCH", PAY, Meaning::Final),
    ("ACQ.TOTAL_FEE_EXCEED", PAY, Meaning::Final),
    ("ACQ.ACCESS_FORBIDDEN", PAY, Meaning::Final),
    ("ACQ.EXIST_FORBIDDEN_WORD", PAY, Meaning::Final),
    ("ACQ.INVALID_PARAMETER", PAY, Meaning::Final),
];

/// The channel's own "I do not know", in both of its spellings.
const UNDECIDED: [&str; 2] = ["ACQ.SYSTEM_ERROR", "AQC.SYSTEM_ERROR"];

/// Judges the codes of a signed answer to `method`.
pub(super) fn judge(method: Method, code: &str, sub_code: &str) -> Verdict {
    if UNDECIDED.contains(&sub_code) {
        return Verdict::Undecided;
    }
    match code {
        "10000" => Verdict::Done,
        // 10003: the order was made and is being paid. 20000: the service was not available.
        "10003" | "20000" => Verdict::Undecided,
        "20001" | "40001" | "40002" | "40003" | "40004" | "40005" | "40006" => {
            match listed(method, sub_code) {
                Some(meaning) => Verdict::Refused(meaning),
                None if code == "40004" => Verdict::Unlisted,
                None => turned_away(method, code),
            }
        }
        _ => Verdict::Unlisted,
    }
}

fn listed(method: Method, sub_code: &str) -> Option<Meaning> {
    let row = TABLE.iter().find(|(code, on, _)| *code == sub_code && on.contains(&method));
    row.map(|(_, _, meaning)| *meaning)
}

/// A request that the gateway would not take. To a payment that nobody could see yet this is an
/// end; where an earlier copy may have moved money, it proves nothing.
const fn turned_away(method: Method, code: &str) -> Verdict {
    match method {
        Method::Precreate | Method::PagePay => match code.as_bytes() {
            b"40005" => Verdict::Refused(Meaning::Later),
            _ => Verdict::Refused(Meaning::Misconfigured),
        },
        Method::Query | Method::Close | Method::Refund | Method::RefundQuery => Verdict::TurnedAway,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRECREATE: Method = Method::Precreate;
    const ASKED: [Method; 5] =
        [PRECREATE, Method::Query, Method::Close, Method::Refund, Method::RefundQuery];

    #[track_caller]
    fn means(sub_code: &str, rows: &[(Method, Meaning)]) {
        for method in ASKED {
            let expected = rows.iter().find(|(on, _)| *on == method);
            let expected = expected.map_or(Verdict::Unlisted, |(_, m)| Verdict::Refused(*m));
            assert_eq!(judge(method, "40004", sub_code), expected, "{sub_code} on {method:?}");
        }
    }

    #[test]
    fn trade_not_exist_is_unseen_on_close_and_query_and_a_wrong_number_on_refund() {
        means(
            "ACQ.TRADE_NOT_EXIST",
            &[
                (Method::Close, Meaning::NotSeen),
                (Method::Query, Meaning::NotSeen),
                (Method::Refund, Meaning::Final),
            ],
        );
    }

    #[test]
    fn the_three_codes_of_a_wrong_state_say_ask_on_close_and_refund() {
        for code in [
            "ACQ.TRADE_STATUS_ERROR",
            "ACQ.REASON_TRADE_STATUS_INVALID",
            "ACQ.REASON_ILLEGAL_STATUS",
        ] {
            means(code, &[(Method::Close, Meaning::Ask), (Method::Refund, Meaning::Ask)]);
        }
    }

    #[test]
    fn trade_has_success_says_ask_on_close_and_already_paid_on_prepare() {
        means(
            "ACQ.TRADE_HAS_SUCCESS",
            &[(Method::Close, Meaning::Ask), (PRECREATE, Meaning::AlreadyPaid)],
        );
    }

    #[test]
    fn trade_has_close_says_that_the_number_is_spent() {
        means("ACQ.TRADE_HAS_CLOSE", &[(PRECREATE, Meaning::AlreadyClosed)]);
    }

    #[test]
    fn context_inconsistent_is_a_conflict() {
        means("ACQ.CONTEXT_INCONSISTENT", &[(PRECREATE, Meaning::Conflict)]);
    }

    #[test]
    fn system_error_in_either_spelling_is_undecided_on_every_call_and_under_every_code() {
        for sub_code in ["ACQ.SYSTEM_ERROR", "AQC.SYSTEM_ERROR"] {
            for method in ASKED {
                for code in ["10000", "20000", "40004", "40002"] {
                    assert_eq!(judge(method, code, sub_code), Verdict::Undecided);
                }
            }
        }
    }

    #[test]
    fn service_unavailable_is_undecided() {
        for method in ASKED {
            assert_eq!(judge(method, "20000", "isp.unknow-error"), Verdict::Undecided);
            assert_eq!(judge(method, "10003", ""), Verdict::Undecided);
        }
    }

    #[test]
    fn trade_has_finished_ends_a_refund() {
        means("ACQ.TRADE_HAS_FINISHED", &[(Method::Refund, Meaning::Final)]);
    }

    #[test]
    fn an_empty_purse_of_the_seller_delays_a_refund() {
        means("ACQ.SELLER_BALANCE_NOT_ENOUGH", &[(Method::Refund, Meaning::Later)]);
    }

    #[test]
    fn a_refund_above_the_rest_or_in_part_without_a_number_is_final() {
        means("ACQ.REASON_TRADE_REFUND_FEE_ERR", &[(Method::Refund, Meaning::Final)]);
        means("ACQ.REFUND_AMT_NOT_EQUAL_TOTAL", &[(Method::Refund, Meaning::Final)]);
    }

    #[test]
    fn a_refund_number_with_another_amount_is_a_conflict() {
        means("ACQ.DISCORDANT_REPEAT_REQUEST", &[(Method::Refund, Meaning::Conflict)]);
    }

    #[test]
    fn a_frozen_trade_blocks_close_and_refund() {
        means(
            "ACQ.REASON_TRADE_BEEN_FREEZEN",
            &[(Method::Close, Meaning::Blocked), (Method::Refund, Meaning::Blocked)],
        );
    }

    #[test]
    fn what_cannot_be_bought_ends_the_attempt() {
        for code in [
            "ACQ.BUYER_SELLER_EQUAL",
            "ACQ.TRADE_BUYER_NOT_MATCH",
            "ACQ.TOTAL_FEE_EXCEED",
            "ACQ.ACCESS_FORBIDDEN",
            "ACQ.EXIST_FORBIDDEN_WORD",
            "ACQ.INVALID_PARAMETER",
        ] {
            means(code, &[(PRECREATE, Meaning::Final)]);
        }
    }

    #[test]
    fn a_code_without_a_row_is_never_a_refusal() {
        for method in ASKED {
            for sub_code in ["", "ACQ.SOMETHING_NEW", "acq.trade_not_exist"] {
                assert_eq!(judge(method, "40004", sub_code), Verdict::Unlisted);
            }
            for code in ["", "0", "10001", "99999"] {
                assert_eq!(judge(method, code, ""), Verdict::Unlisted);
            }
        }
    }

    #[test]
    fn a_request_turned_away_ends_a_purchase_and_proves_nothing_about_a_refund() {
        for code in ["20001", "40001", "40002", "40003", "40006"] {
            let misconfigured = Verdict::Refused(Meaning::Misconfigured);
            assert_eq!(judge(PRECREATE, code, "isv.invalid-signature"), misconfigured);
            for method in [Method::Query, Method::Close, Method::Refund, Method::RefundQuery] {
                assert_eq!(judge(method, code, "isv.invalid-signature"), Verdict::TurnedAway);
            }
        }
        assert_eq!(judge(PRECREATE, "40005", ""), Verdict::Refused(Meaning::Later));
        assert_eq!(judge(Method::Refund, "40005", ""), Verdict::TurnedAway);
    }

    #[test]
    fn every_row_of_the_table_is_reached() {
        for (code, on, meaning) in TABLE {
            for method in *on {
                assert_eq!(judge(*method, "40004", code), Verdict::Refused(*meaning));
            }
        }
    }
}
