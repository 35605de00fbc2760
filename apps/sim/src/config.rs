use std::collections::HashMap;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use crate::cert;
use crate::error::{Error, Kind};
use crate::faults::Faults;
use crate::keys::{Signer, Verifier};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);

/// The channel's own gaps: eight deliveries in 24 hours and 24 minutes.
const SCHEDULE: [Duration; 8] = [
    Duration::ZERO,
    Duration::from_secs(4 * 60),
    Duration::from_secs(10 * 60),
    Duration::from_secs(10 * 60),
    HOUR,
    Duration::from_secs(2 * 60 * 60),
    Duration::from_secs(6 * 60 * 60),
    Duration::from_secs(15 * 60 * 60),
];

/// More deliveries of one notice than any schedule needs.
const SCHEDULE_MAX: usize = 64;

/// Merchant accounts that one simulator serves.
const ACCOUNTS_MAX: usize = 1_000;

/// What a simulator is started with.
///
/// Made by [`Config::new`]; every field may be changed afterwards.
#[derive(Clone)]
pub struct Config {
    /// Where to listen; port 0 takes a free one. The default is `127.0.0.1:0`.
    pub listen: SocketAddr,
    /// What the shown codes point to, for instance `http://192.168.1.5:9000`; without it, the
    /// address that is listened on.
    pub public_url: Option<String>,
    /// Decides which trades the chance rules strike.
    pub seed: u64,
    /// The notice schedule is divided by this; 3600 makes an hour a second.
    pub time_scale: f64,
    /// The channel's private key, PKCS#8 PEM; signs answers and notices.
    pub alipay_private_key_pem: String,
    /// Gaps before each delivery of a notice, before scaling.
    pub notify_schedule: Vec<Duration>,
    /// How long the merchant may take for its answer to a notice; not scaled.
    pub notify_timeout: Duration,
    /// How far a call's `timestamp` may be off; `None` does not look.
    pub timestamp_tolerance: Option<Duration>,
    /// The merchants.
    pub accounts: Vec<Account>,
    /// What goes wrong from the start.
    pub faults: Faults,
}

/// A merchant's app at the channel.
#[derive(Clone, Debug)]
pub struct Account {
    /// The app's number.
    pub app_id: String,
    /// The merchant's number (`seller_id`), 2088….
    pub seller_id: String,
    /// How the app proves who it is.
    pub proof: Proof,
}

/// How an app and the channel prove who they are.
#[derive(Clone, Debug)]
pub enum Proof {
    /// Plain keys.
    Key {
        /// The app's public key, PEM.
        app_public_key_pem: String,
    },
    /// Certificates: calls must carry the right serial numbers, answers carry the channel's.
    Certificates {
        /// The app's certificate, PEM.
        app: String,
        /// The channel's certificate over its own key, PEM.
        alipay: String,
        /// The channel's roots, PEM.
        roots: String,
    },
}

/// An account that was checked and is ready for use.
pub(crate) struct Merchant {
    pub(crate) app_id: Arc<str>,
    pub(crate) seller_id: Arc<str>,
    pub(crate) verifier: Verifier,
    pub(crate) serials: Option<Serials>,
}

/// Serial numbers of certificate mode.
pub(crate) struct Serials {
    pub(crate) app: String,
    pub(crate) alipay: String,
    pub(crate) roots: String,
}

pub(crate) type Merchants = HashMap<String, Arc<Merchant>>;

impl Config {
    /// A configuration on a free loopback port, with the channel's own schedule and no faults.
    #[must_use]
    pub fn new(alipay_private_key_pem: impl Into<String>, account: Account) -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            public_url: None,
            seed: 0,
            time_scale: 1.0,
            alipay_private_key_pem: alipay_private_key_pem.into(),
            notify_schedule: SCHEDULE.to_vec(),
            notify_timeout: Duration::from_secs(5),
            timestamp_tolerance: Some(15 * MINUTE),
            accounts: vec![account],
            faults: Faults::default(),
        }
    }

    /// The gaps as they will be waited for.
    pub(crate) fn gaps(&self) -> Result<Vec<Duration>, Error> {
        let bad =
            |what: &str| Err(Error::new(Kind::Config, format!("use the configuration: {what}")));
        if !(self.time_scale.is_finite() && self.time_scale > 0.0) {
            return bad("time_scale must be above 0");
        }
        if self.notify_schedule.is_empty() || self.notify_schedule.len() > SCHEDULE_MAX {
            return bad("notify_schedule needs 1 to 64 gaps");
        }
        let scaled = self
            .notify_schedule
            .iter()
            .map(|gap| Duration::try_from_secs_f64(gap.as_secs_f64() / self.time_scale));
        scaled.collect::<Result<_, _>>().or_else(|_| bad("time_scale is too small"))
    }

    pub(crate) fn merchants(&self, signer: &Signer) -> Result<Merchants, Error> {
        let bad = |what: String| Error::new(Kind::Config, format!("use the configuration: {what}"));
        if self.accounts.is_empty() || self.accounts.len() > ACCOUNTS_MAX {
            return Err(bad(format!("accounts needs 1 to {ACCOUNTS_MAX} entries")));
        }
        let mut merchants = Merchants::new();
        for account in &self.accounts {
            let Account { app_id, seller_id, .. } = account;
            if app_id.is_empty() || seller_id.is_empty() {
                return Err(bad("app_id and seller_id must not be empty".to_owned()));
            }
            let merchant = account.merchant(signer)?;
            if merchants.insert(app_id.clone(), Arc::new(merchant)).is_some() {
                return Err(bad(format!("the app {app_id} is given twice")));
            }
        }
        Ok(merchants)
    }
}

impl Account {
    /// An account in key mode.
    #[must_use]
    pub fn with_key(
        app_id: impl Into<String>,
        seller_id: impl Into<String>,
        app_public_key_pem: impl Into<String>,
    ) -> Self {
        let proof = Proof::Key { app_public_key_pem: app_public_key_pem.into() };
        Self { app_id: app_id.into(), seller_id: seller_id.into(), proof }
    }

    fn merchant(&self, signer: &Signer) -> Result<Merchant, Error> {
        let (verifier, serials) = match &self.proof {
            Proof::Key { app_public_key_pem } => (Verifier::from_pem(app_public_key_pem)?, None),
            Proof::Certificates { app, alipay, roots } => {
                let app = cert::app(app)?;
                let (alipay, key) = cert::alipay(alipay)?;
                if key != signer.public_der()? {
                    let other = "use the Alipay certificate: it is for another key";
                    return Err(Error::new(Kind::Config, other));
                }
                let serials = Serials { app: app.sn, alipay, roots: cert::roots(roots)? };
                (app.verifier, Some(serials))
            }
        };
        if verifier.is_key_of(signer) {
            let mixed_up = format!(
                "use the key of app {}: it is Alipay's own key; give the app's public key",
                self.app_id
            );
            return Err(Error::new(Kind::Config, mixed_up));
        }
        Ok(Merchant {
            app_id: self.app_id.as_str().into(),
            seller_id: self.seller_id.as_str().into(),
            verifier,
            serials,
        })
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("listen", &self.listen)
            .field("public_url", &self.public_url)
            .field("seed", &self.seed)
            .field("time_scale", &self.time_scale)
            .field("alipay_private_key_pem", &"***")
            .field("notify_schedule", &self.notify_schedule)
            .field("notify_timeout", &self.notify_timeout)
            .field("timestamp_tolerance", &self.timestamp_tolerance)
            .field("accounts", &self.accounts)
            .field("faults", &self.faults)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vectors;

    fn config() -> Config {
        let account = Account::with_key("2026", "2088", vectors::key("app_public"));
        Config::new(vectors::key("alipay_private_pkcs8"), account)
    }

    fn refusal(config: &Config) -> String {
        let signer = Signer::from_pem(&config.alipay_private_key_pem).unwrap();
        let gaps = config.gaps().map(|_| ());
        gaps.and_then(|()| config.merchants(&signer).map(|_| ())).unwrap_err().to_string()
    }

    #[test]
    fn the_default_schedule_is_the_channels_own() {
        let gaps = config().gaps().unwrap();
        assert_eq!(gaps.len(), 8);
        assert_eq!(gaps.iter().sum::<Duration>(), 24 * HOUR + 24 * MINUTE);
    }

    #[test]
    fn an_hour_can_be_made_a_second() {
        let mut config = config();
        config.time_scale = 3600.0;
        assert_eq!(config.gaps().unwrap()[4], Duration::from_secs(1));
    }

    #[test]
    fn senseless_configurations_are_refused_with_a_sentence() {
        let mut scale = config();
        scale.time_scale = 0.0;
        assert!(refusal(&scale).contains("time_scale"));
        let mut tiny = config();
        tiny.time_scale = f64::MIN_POSITIVE;
        assert!(refusal(&tiny).contains("too small"));
        let mut schedule = config();
        schedule.notify_schedule.clear();
        assert!(refusal(&schedule).contains("notify_schedule"));
        let mut twice = config();
        twice.accounts.push(twice.accounts[0].clone());
        assert!(refusal(&twice).contains("given twice"));
        let mut nobody = config();
        nobody.accounts.clear();
        assert!(refusal(&nobody).contains("accounts"));
    }

    #[test]
    fn the_channels_key_in_place_of_the_apps_is_noticed() {
        let mut config = config();
        config.accounts = vec![Account::with_key("1", "2", vectors::key("alipay_public"))];
        assert!(refusal(&config).contains("Alipay's own key"));
    }

    #[test]
    fn the_private_key_is_not_printed() {
        assert!(!format!("{:?}", config()).contains("BEGIN PRIVATE"));
    }
}
