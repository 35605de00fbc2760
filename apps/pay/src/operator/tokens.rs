//! Tokens: handing one out by hand, and telling what one is worth.

use serde::Serialize;

use super::{Office, invalid};
use crate::{
    error::Error, flow::token, merchant::PRINCIPAL, order::OrderId, service::open_tokens,
    utc::rfc3339,
};
use hapax::{
    Identity, Principal, Tenant,
    token::{Binding, Checked, Issue, Refused},
};

/// What a token is for.
#[derive(Clone, Debug)]
pub struct TokenUse {
    /// Whose order it is.
    pub tenant: String,
    /// The order.
    pub order_id: String,
    /// Who will use it.
    pub user: String,
    /// In which session.
    pub session: String,
}

/// Whether there is a token.
#[derive(Clone, Debug)]
pub enum TokenIssue {
    /// Here it is.
    Token {
        /// For the user; a secret.
        token: String,
        /// When it stops starting anything.
        expires_at: String,
    },
    /// A payment of this order is being created: a second key could open a second one.
    Unfinished,
}

/// What a token is worth.
#[derive(Clone, Debug, Serialize)]
pub struct TokenCheck {
    /// `fresh`: it may be used. `late`: it finds what it started and starts nothing. Else why it is
    /// refused: `expired`, `foreign`, `forged` or `revoked`.
    pub verdict: &'static str,
    /// The key that it stands for, if it is worth anything.
    pub key: Option<String>,
    /// What became of that key; nothing if it was not used.
    pub used: Option<&'static str>,
}

impl Office {
    /// Issues a token, as the service does, but without its bound for each user.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) for parts that cannot be; [`Kind::Config`] if there
    /// is no secret to sign with; [`Kind::Store`](crate::Kind::Store).
    ///
    /// [`Kind::Config`]: crate::Kind::Config
    pub async fn issue_token(&self, used_for: &TokenUse) -> Result<TokenIssue, Error> {
        let (binding, order_id) = self.bind(used_for)?;
        let (tokens, wait) = (open_tokens(&self.config)?, self.config.periods.wait.0);
        Ok(match token::issue(&self.sql, &tokens, &binding, &order_id, wait).await? {
            Issue::Token { token, expires_at } => TokenIssue::Token {
                token: token.as_str().to_owned(),
                expires_at: rfc3339(expires_at),
            },
            // The bound counts what one process issued: these tokens are the first of this one.
            Issue::Unfinished { .. } | Issue::TooMany { .. } => TokenIssue::Unfinished,
        })
    }

    /// Tells what a token is worth now, and uses nothing up.
    ///
    /// # Errors
    /// Those of [`issue_token`](Self::issue_token).
    pub async fn check_token(&self, text: &str, used_for: &TokenUse) -> Result<TokenCheck, Error> {
        let (binding, _) = self.bind(used_for)?;
        let refused = |why: Refused| TokenCheck { verdict: why.as_str(), key: None, used: None };
        let now = self.sql.now().await?;
        let checked = match open_tokens(&self.config)?.check(text, &binding, now) {
            Ok(checked) => checked,
            Err(why) => return Ok(refused(why)),
        };
        let key = checked.key().clone();
        let merchant = Principal::parse(PRINCIPAL).map_err(invalid)?;
        let identity = Identity::request(binding.tenant, merchant, binding.operation, key.clone());
        let found = self.hapax.look(identity.id()).await?;
        let used = found.record.as_ref().filter(|record| !record.is_reusable(found.now));
        let used = used.map(|record| record.status(found.now).as_str());
        let verdict = match checked {
            Checked::Fresh(_) => "fresh",
            Checked::Late(_) => "late",
        };
        // A late token that has started nothing is refused by the service too.
        Ok(match checked.admit(&found) {
            Ok(_) => TokenCheck { verdict, key: Some(key.as_str().to_owned()), used },
            Err(why) => refused(why),
        })
    }

    fn bind(&self, used_for: &TokenUse) -> Result<(Binding, OrderId), Error> {
        let TokenUse { tenant, order_id, user, session } = used_for;
        if !self.config.tenants.iter().any(|known| known.name == *tenant) {
            return Err(invalid(format!("there is no tenant {tenant:?} in the configuration")));
        }
        let tenant = Tenant::parse(tenant).map_err(invalid)?;
        let order_id = OrderId::parse(order_id)
            .ok_or_else(|| invalid("the order must be 1 to 64 visible ASCII characters"))?;
        let binding = token::binding(&tenant, &order_id, user, session).map_err(invalid)?;
        Ok((binding, order_id))
    }
}
