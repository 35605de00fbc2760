//! Notices to merchants, signed and sent again until they are acknowledged.

use std::{collections::HashMap, sync::Arc};

use serde::Deserialize;

use crate::{
    error::{Error, Kind},
    flow::Desk,
};
use hapax::{
    Tenant,
    message::Delivery,
    transport::{Address, Target, Webhook},
};

/// The webhook that finds each merchant's address.
pub(super) fn webhook(desk: &Arc<Desk>) -> Result<Webhook, Error> {
    let mut targets = HashMap::new();
    for merchant in desk.merchants.iter() {
        let Some(notices) = &merchant.notices else { continue };
        let address = Address::parse(&notices.url).map_err(|why| {
            let tenant = &merchant.tenant;
            let why = format!("tenant {tenant}: `notice_url`: {why}");
            Error::caused(Kind::Config, "set up notices to merchants", why)
        })?;
        let target = Target { address, secret: notices.secret.clone() };
        targets.insert(merchant.tenant.clone(), target);
    }
    let patience = desk.config.periods.notice_timeout.0;
    let webhook =
        Webhook::new(patience, move |delivery| targets.get(&tenant_of(delivery)?).cloned());
    webhook.map_err(|why| Error::system("set up notices to merchants", why))
}

fn tenant_of(delivery: &Delivery) -> Option<Tenant> {
    #[derive(Deserialize)]
    struct Addressed {
        tenant: String,
    }

    let addressed: Addressed = serde_json::from_slice(&delivery.message.payload).ok()?;
    Tenant::parse(&addressed.tenant).ok()
}
