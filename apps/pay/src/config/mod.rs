//! The configuration: one file, overridden by `HAPAX__…` variables and then by flags.
//!
//! Invariant: every period, bound and address is configuration; nothing in the code knows a demo
//! from a production system. A key that is not known here is refused by name
//! (`an_unknown_key_is_refused_with_its_file_and_name`).

mod periods;
mod secret;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

pub use self::{
    periods::{Periods, Span},
    secret::{SecretError, read_secret},
};

/// What goes before the names of environment variables, as in `HAPAX__LISTEN`.
pub const ENV_PREFIX: &str = "HAPAX";

/// Longest name of a tenant: with the longest order number and benefit it still fits a journal.
const TENANT_BYTES_MAX: usize = 64;

/// Everything that the payment service needs to know at start-up.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where the service listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The address under which the channel reaches the service, without a trailing slash.
    /// Left out, it is made from the address that is really listened on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_url: Option<String>,
    /// Where the records are: `sqlite:FILE`, the file relative to the configuration.
    pub database: String,
    /// Tokens for `Idempotent-Token`.
    pub tokens: Tokens,
    /// Who may call.
    pub tenants: Vec<Tenant>,
    /// Every period.
    #[serde(default)]
    pub periods: Periods,
    /// Every bound.
    #[serde(default)]
    pub bounds: Bounds,
    /// What becomes of money that comes after an order was closed.
    #[serde(default)]
    pub late_money: LateMoney,
    /// The directory that relative paths start from; set when the file is read.
    #[serde(skip)]
    pub home: PathBuf,
}

/// How tokens are signed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tokens {
    /// The file with the signing secret, at least 32 bytes, mode 0600. Or set
    /// `HAPAX__TOKENS__SECRET`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_file: Option<PathBuf>,
    /// The secret itself, from the environment only.
    #[serde(default, skip_serializing)]
    pub secret: Option<secrecy::SecretString>,
    /// Secrets of earlier keys: tokens signed with them are still accepted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub previous_secret_files: Vec<PathBuf>,
    /// Tokens that one user may be given in a minute.
    #[serde(default = "Tokens::per_minute")]
    pub per_minute: u32,
}

impl Tokens {
    /// More than anybody opens checkout pages, few enough that a thief gains nothing.
    const fn per_minute() -> u32 {
        30
    }
}

/// One merchant.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tenant {
    /// The stable name; part of every id, so never change it.
    pub name: String,
    /// The file with the API key, mode 0600.
    pub api_key_file: PathBuf,
    /// Where notices go; without it none are sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice_url: Option<String>,
    /// The file with the secret that signs notices, at least 32 bytes, mode 0600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice_secret_file: Option<PathBuf>,
    /// The merchant's account at Alipay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alipay: Option<Alipay>,
}

/// An account at Alipay: key mode or certificate mode.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alipay {
    /// Address of the gateway.
    pub gateway: String,
    /// The app's number.
    pub app_id: String,
    /// The seller's number; notices for another one are refused.
    pub seller_id: String,
    /// The file with the app's private key, mode 0600.
    pub app_private_key_file: PathBuf,
    /// Key mode: the file with Alipay's public key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alipay_public_key_file: Option<PathBuf>,
    /// Certificate mode: the files with the three certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificates: Option<Certificates>,
}

/// The files of certificate mode.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certificates {
    /// The app's certificate.
    pub app: PathBuf,
    /// Alipay's certificate, pinned.
    pub alipay: PathBuf,
    /// Alipay's root certificates.
    pub root: PathBuf,
}

/// Every bound that an operator may want to move.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Bounds {
    /// Payments and refunds that are asked about at the channel at the same time.
    pub checks_at_once: u16,
    /// Notices to merchants that are on their way at the same time.
    pub sends_at_once: u16,
    /// Rows that one purge removes.
    pub purge_rows: u16,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { checks_at_once: 16, sends_at_once: 16, purge_rows: 500 }
    }
}

/// What becomes of money that comes after an order was closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LateMoney {
    /// It is given back.
    #[default]
    Refund,
    /// It pays the order after all, if nothing else has.
    Reopen,
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unusable(String);

impl Unusable {
    pub(crate) fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }
}

impl Config {
    /// Reads `file` and lays the `HAPAX__…` variables of the environment over it.
    ///
    /// # Errors
    /// [`Unusable`] names the file or variable and the key, and says what is wrong.
    pub fn read(file: &Path) -> Result<Self, Unusable> {
        if !file.is_file() {
            return Err(Unusable::new(format!(
                "there is no configuration at {}; make one with `hapax init`",
                file.display()
            )));
        }
        Self::read_with(file, environment())
    }

    fn read_with(file: &Path, environment: config::Environment) -> Result<Self, Unusable> {
        let written = config::File::from(file).format(config::FileFormat::Toml);
        // What the environment says stays text until its member is known: a secret of digits is
        // no number.
        let read = config::Config::builder().add_source(written).build().and_then(|alone| {
            let is_written = alone.get_table("tokens").is_ok_and(|it| it.contains_key("secret"));
            let both = config::Config::builder().add_source(alone).add_source(environment);
            Ok((is_written, both.build()?.try_deserialize::<Self>()?))
        });
        let (is_secret_written, mut read) = read.map_err(|why| {
            Unusable::new(format!("the configuration {} cannot be used: {why}", file.display()))
        })?;
        if is_secret_written {
            return Err(Unusable::new(format!(
                "the configuration {} holds the key `tokens.secret`, which others may read there; \
                 name a file of mode 0600 in `tokens.secret_file` or set HAPAX__TOKENS__SECRET",
                file.display()
            )));
        }
        read.home = file.parent().unwrap_or_else(|| Path::new(".")).to_owned();
        read.check()?;
        Ok(read)
    }

    /// A path of the configuration as the process must open it.
    pub fn resolve(&self, path: &Path) -> PathBuf {
        self.home.join(path)
    }

    /// The file of the SQLite database.
    ///
    /// # Errors
    /// [`Unusable`] for another kind of database.
    pub fn sqlite_file(&self) -> Result<PathBuf, Unusable> {
        match self.database.strip_prefix("sqlite:") {
            Some(file) if !file.is_empty() && file != ":memory:" => {
                Ok(self.resolve(Path::new(file.trim_start_matches("//"))))
            }
            _ => Err(Unusable::new(
                "the key `database` must be `sqlite:FILE`, such as `sqlite:hapax.db`",
            )),
        }
    }

    fn check(&self) -> Result<(), Unusable> {
        self.sqlite_file()?;
        let mut names: Vec<_> = self.tenants.iter().map(|tenant| tenant.name.as_str()).collect();
        names.sort_unstable();
        if names.is_empty() {
            return Err(Unusable::new("the key `tenants` is empty; add at least one tenant"));
        }
        if let Some([name, _]) = names.array_windows().find(|[left, right]| left == right) {
            return Err(Unusable::new(format!("the tenant {name:?} occurs twice in `tenants`")));
        }
        for tenant in &self.tenants {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            let name = &tenant.name;
            // It is a part of keys and of entities in journals, between slashes.
            if !(1..=TENANT_BYTES_MAX).contains(&name.len()) || !name.bytes().all(is_plain) {
                return Err(Unusable::new(format!(
                    "the tenant {name:?} must be named with 1 to {TENANT_BYTES_MAX} letters, \
                     digits, dots, dashes or underscores"
                )));
            }
            if tenant.notice_url.is_some() && tenant.notice_secret_file.is_none() {
                return Err(Unusable::new(format!(
                    "the tenant {:?} has a `notice_url` and no `notice_secret_file`",
                    tenant.name
                )));
            }
        }
        self.periods.check()
    }
}

/// The `HAPAX__…` variables.
fn environment() -> config::Environment {
    config::Environment::with_prefix(ENV_PREFIX).prefix_separator("__").separator("__")
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    const GOOD: &str = r#"
listen = "127.0.0.1:0"
database = "sqlite:pay.db"
[tokens]
secret_file = "tokens.secret"
[[tenants]]
name = "shop"
api_key_file = "shop.key"
"#;

    fn read(text: &str) -> Result<Config, Unusable> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("hapax.toml");
        std::fs::write(&file, text).unwrap();
        Config::read(&file)
    }

    #[test]
    fn a_small_configuration_is_enough() {
        let config = read(GOOD).unwrap();
        assert_eq!(config.late_money, LateMoney::Refund);
        assert!(config.sqlite_file().unwrap().ends_with("pay.db"));
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_file_and_name() {
        let error = read(&format!("listne = 1\n{GOOD}")).unwrap_err().to_string();
        assert!(error.contains("hapax.toml") && error.contains("listne"), "{error}");
        let nested = format!("{GOOD}\n[tenants.alipya]\nx = 1\n");
        let error = read(&nested).unwrap_err().to_string();
        assert!(error.contains("hapax.toml") && error.contains("alipya"), "{error}");
    }

    #[test]
    fn what_cannot_work_is_refused_in_one_sentence() {
        for (from, to, word) in [
            ("sqlite:pay.db", "postgres://x", "database"),
            ("sqlite:pay.db", "sqlite::memory:", "database"),
            ("name = \"shop\"", "name = \"shop\"\nnotice_url = \"http://x\"", "notice_secret_file"),
            ("127.0.0.1:0", "localhost", "listen"),
            ("name = \"shop\"", "name = \"a/b\"", "a/b"),
            ("name = \"shop\"", &format!("name = \"{}\"", "x".repeat(65)), "64"),
        ] {
            let error = read(&GOOD.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }

    fn with(variables: &[(&str, &str)]) -> Result<Config, Unusable> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("hapax.toml");
        std::fs::write(&file, GOOD).unwrap();
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let variables = variables.iter().map(own).collect();
        Config::read_with(&file, environment().source(Some(variables)))
    }

    #[test]
    fn a_secret_of_digits_in_the_environment_is_kept_digit_by_digit() {
        for secret in ["31415926535897932384626433832795", "0777", "1e5", "true", "1.50", "-0"] {
            let config = with(&[("HAPAX__TOKENS__SECRET", secret)]).unwrap();
            assert_eq!(config.tokens.secret.unwrap().expose_secret(), secret);
        }
    }

    #[test]
    fn what_is_no_text_is_read_from_the_environment_too() {
        let config = with(&[
            ("HAPAX__LISTEN", "127.0.0.1:9"),
            ("HAPAX__TOKENS__PER_MINUTE", "7"),
            ("HAPAX__BOUNDS__PURGE_ROWS", "9"),
            ("HAPAX__PERIODS__LEASE", "3s"),
            ("HAPAX__LATE_MONEY", "reopen"),
        ]);
        let config = config.unwrap();
        assert_eq!(config.listen.port(), 9);
        assert_eq!((config.tokens.per_minute, config.bounds.purge_rows), (7, 9));
        assert_eq!(config.periods.lease.0.as_secs(), 3);
        assert_eq!(config.late_money, LateMoney::Reopen);
        let error = with(&[("HAPAX__TOKENS__PER_MINUTE", "many")]).unwrap_err().to_string();
        assert!(error.contains("per_minute"), "{error}");
    }

    #[test]
    fn a_secret_in_the_file_itself_is_refused() {
        let secret = "ac7de0b29e4f5a6831c2d4e6f8091b3d";
        let written = GOOD.replace("[tokens]", &format!("[tokens]\nsecret = \"{secret}\""));
        let error = read(&written).unwrap_err().to_string();
        assert!(error.contains("`tokens.secret`") && error.contains("HAPAX__TOKENS__SECRET"));
        assert!(!error.contains(secret), "{error}");
    }

    #[test]
    fn a_missing_file_says_how_to_make_one() {
        let error = Config::read(Path::new("no/such/hapax.toml")).unwrap_err().to_string();
        assert!(error.contains("hapax init"), "{error}");
    }
}
