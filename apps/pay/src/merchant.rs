//! The merchants: who may call, where their notices go, and their accounts at the channels.
//!
//! Invariant: an API key is compared by its digest and in constant time, and a merchant is found
//! by nothing else (`only_the_whole_key_opens_the_door`).

use std::{collections::HashMap, fmt, sync::Arc};

use aws_lc_rs::{constant_time, digest};
use secrecy::{ExposeSecret, SecretString};

use crate::{
    channel::{
        Channel,
        alipay::{
            Account, Alipay, Certificate, Gateway, Keys, Patience, PrivateKey, Protocol, PublicKey,
            RootSerial,
        },
    },
    config::{self, Config, read_secret},
    error::{Error, Kind},
    order::ChannelKind,
};
use hapax::{Tenant, token::check_secret};

/// The stable subject under which a tenant's own back end uses keys; part of every id.
pub const PRINCIPAL: &str = "merchant";

/// Where the channel sends its notices, below the public address.
pub(crate) const NOTIFY_PATH: &str = "/v1/notify/alipay";

/// One merchant.
pub(crate) struct Merchant {
    pub(crate) tenant: Tenant,
    api_key: [u8; 32],
    pub(crate) notices: Option<NoticeTarget>,
    alipay: Option<AlipayAccount>,
}

/// Where a merchant is told what happened.
pub(crate) struct NoticeTarget {
    pub(crate) url: String,
    pub(crate) secret: SecretString,
}

struct AlipayAccount {
    app_id: String,
    channel: Arc<dyn Channel>,
}

impl Merchant {
    /// The merchant's account at a channel.
    pub(crate) fn channel(&self, kind: ChannelKind) -> Option<Arc<dyn Channel>> {
        match kind {
            ChannelKind::Alipay => self.alipay.as_ref().map(|account| Arc::clone(&account.channel)),
        }
    }
}

impl fmt::Debug for Merchant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Merchant").field("tenant", &self.tenant).finish_non_exhaustive()
    }
}

/// All merchants of the configuration.
#[derive(Debug)]
pub(crate) struct Merchants {
    all: Vec<Arc<Merchant>>,
    by_name: HashMap<Tenant, Arc<Merchant>>,
    by_app: HashMap<String, Arc<Merchant>>,
}

impl Merchants {
    /// Reads keys and secrets and tries them out; `public_url` is where channels reach us.
    ///
    /// # Errors
    /// [`Kind::Config`] names the tenant and what to do.
    pub(crate) fn read(config: &Config, public_url: &str) -> Result<Self, Error> {
        let mut merchants =
            Self { all: Vec::new(), by_name: HashMap::new(), by_app: HashMap::new() };
        for tenant in &config.tenants {
            let merchant = Merchant::read(config, tenant, public_url).map_err(|why| {
                let op = "set up a tenant";
                Error::caused(Kind::Config, op, format!("tenant {:?}: {why:#}", tenant.name))
            })?;
            let merchant = Arc::new(merchant);
            merchants.tell_apart(&merchant)?;
            if let Some(account) = &merchant.alipay {
                merchants.by_app.insert(account.app_id.clone(), Arc::clone(&merchant));
            }
            merchants.by_name.insert(merchant.tenant.clone(), Arc::clone(&merchant));
            merchants.all.push(merchant);
        }
        Ok(merchants)
    }

    /// Refuses a merchant who would be taken for an earlier one.
    fn tell_apart(&self, merchant: &Merchant) -> Result<(), Error> {
        let has_key = self.all.iter().any(|known| known.api_key == merchant.api_key);
        let app_id = merchant.alipay.as_ref().map(|account| account.app_id.as_str());
        let what = match app_id.filter(|app_id| self.by_app.contains_key(*app_id)) {
            _ if has_key => "API key",
            Some(_) => "`app_id`",
            None => return Ok(()),
        };
        let tenant = &merchant.tenant;
        let why = format!("tenant {tenant}: its {what} is another tenant's; give it its own");
        Err(Error::caused(Kind::Config, "set up a tenant", why))
    }

    /// Every merchant.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Merchant>> {
        self.all.iter()
    }

    /// The merchant of this name.
    pub(crate) fn find(&self, tenant: &Tenant) -> Option<&Arc<Merchant>> {
        self.by_name.get(tenant)
    }

    /// Whether anybody has an account at this channel.
    pub(crate) fn use_channel(&self, kind: ChannelKind) -> bool {
        self.all.iter().any(|merchant| merchant.channel(kind).is_some())
    }

    /// The merchant whose app this is.
    pub(crate) fn of_app(&self, app_id: &str) -> Option<&Arc<Merchant>> {
        self.by_app.get(app_id)
    }

    /// The merchant whose API key this is. Every merchant is compared, so that the time tells
    /// nothing.
    pub(crate) fn authenticate(&self, api_key: &str) -> Option<&Arc<Merchant>> {
        let given = key_digest(api_key);
        let mut found = None;
        for merchant in &self.all {
            if constant_time::verify_slices_are_equal(&merchant.api_key, &given).is_ok() {
                found = Some(merchant);
            }
        }
        found
    }
}

fn key_digest(api_key: &str) -> [u8; 32] {
    let digest = digest::digest(&digest::SHA256, api_key.as_bytes());
    let mut bytes = [0; 32];
    for (slot, byte) in bytes.iter_mut().zip(digest.as_ref()) {
        *slot = *byte;
    }
    bytes
}

type Fault = Box<dyn std::error::Error + Send + Sync>;

impl Merchant {
    fn read(config: &Config, tenant: &config::Tenant, public_url: &str) -> Result<Self, Fault> {
        let api_key = strong_secret(config, &tenant.api_key_file)?;
        let notices = match (&tenant.notice_url, &tenant.notice_secret_file) {
            (Some(url), Some(file)) => {
                Some(NoticeTarget { url: url.clone(), secret: strong_secret(config, file)? })
            }
            _ => None,
        };
        let alipay = tenant.alipay.as_ref();
        Ok(Self {
            tenant: Tenant::parse(&tenant.name)?,
            api_key: key_digest(api_key.expose_secret()),
            notices,
            alipay: alipay.map(|alipay| open_alipay(config, alipay, public_url)).transpose()?,
        })
    }
}

fn strong_secret(config: &Config, file: &std::path::Path) -> Result<SecretString, Fault> {
    let path = config.resolve(file);
    let secret = read_secret(&path)?;
    check_secret(secret.expose_secret().as_bytes())
        .map_err(|why| format!("the file {}: {why}", path.display()))?;
    Ok(secret)
}

fn open_alipay(
    config: &Config,
    alipay: &config::Alipay,
    public_url: &str,
) -> Result<AlipayAccount, Fault> {
    let text = |file: &std::path::Path| -> Result<String, Fault> {
        let path = config.resolve(file);
        std::fs::read_to_string(&path)
            .map_err(|why| format!("the file {} cannot be read: {why}", path.display()).into())
    };
    let app = PrivateKey::parse(&read_secret(&config.resolve(&alipay.app_private_key_file))?)?;
    let keys = match (&alipay.alipay_public_key_file, &alipay.certificates) {
        (Some(file), None) => Keys::plain(app, PublicKey::parse(&text(file)?)?)?,
        (None, Some(files)) => Keys::certified(
            app,
            &Certificate::parse(&text(&files.app)?)?,
            Certificate::parse(&text(&files.alipay)?)?,
            RootSerial::parse(&text(&files.root)?)?,
        )?,
        _ => {
            let rule = "`alipay` needs either `alipay_public_key_file` or `certificates`";
            return Err(rule.into());
        }
    };
    let notify_url = format!("{}{NOTIFY_PATH}", public_url.trim_end_matches('/'));
    let account = Account::new(&alipay.app_id, &alipay.seller_id, &notify_url, keys)?;
    let patience = Patience { answer: config.periods.channel_timeout.0, ..Patience::default() };
    let gateway = Gateway::new(&alipay.gateway, patience)?;
    Ok(AlipayAccount {
        app_id: alipay.app_id.clone(),
        channel: Arc::new(Alipay::new(Protocol::new(account), gateway)),
    })
}
