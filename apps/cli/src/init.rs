//! `hapax init`: keys, a configuration and a tenant.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use serde::Serialize;

use crate::{
    end::End,
    output,
    sim::{SIM_CONFIG, SimAccount, SimConfig},
};
use hapax_pay::config::{Alipay, Bounds, Config, LateMoney, Periods, Tenant, Tokens};
use hapax_sim::{RsaKeyPem, generate_rsa_key_pem};

/// The name of the service's configuration.
pub(crate) const CONFIG: &str = "hapax.toml";
/// Where the production gateway is.
const GATEWAY: &str = "https://openapi.alipay.com/gateway.do";
/// Random bytes of a secret; twice as many hex digits.
const SECRET_BYTES: usize = 32;

#[derive(clap::Args)]
#[command(after_help = "Example: hapax init --dev shop; hapax sim alipay --dir shop & \
                        hapax serve --config shop/hapax.toml")]
pub(crate) struct Args {
    /// Where to put it; made if it is missing, and left alone if it has a configuration already
    directory: PathBuf,
    /// Set up for development: with a simulated channel on this machine
    #[arg(long)]
    dev: bool,
    /// Name of the first tenant; part of every id, so choose it well
    #[arg(long, default_value = "demo")]
    tenant: String,
}

/// What a set-up is made for.
pub(crate) struct Setup<'a> {
    pub(crate) directory: &'a Path,
    pub(crate) tenants: &'a [NewTenant],
    pub(crate) is_dev: bool,
}

/// A tenant to make keys for.
pub(crate) struct NewTenant {
    pub(crate) name: String,
    pub(crate) notice_url: Option<String>,
}

pub(crate) fn run(args: &Args) -> End {
    let tenants = [NewTenant { name: args.tenant.clone(), notice_url: None }];
    let setup = Setup { directory: &args.directory, tenants: &tenants, is_dev: args.dev };
    match make(&setup) {
        Ok(_) => {
            tell(args);
            End::Fine
        }
        Err(error) => error.into(),
    }
}

fn tell(args: &Args) {
    let directory = args.directory.display();
    output::say(format!("made {directory}/{CONFIG} and keys in {directory}/keys"));
    if args.dev {
        output::say(format!("next: hapax sim alipay --dir {directory}"));
    } else {
        output::say(format!(
            "next: put your app_id, seller_id and Alipay's public key (keys/{}.alipay.pub.pem) in, \
             and give {}.app.pub.pem to Alipay",
            args.tenant, args.tenant
        ));
    }
    output::say(format!("then: hapax serve --config {directory}/{CONFIG}"));
}

/// Makes everything and gives the configuration back.
pub(crate) fn make(setup: &Setup<'_>) -> anyhow::Result<Config> {
    let directory = setup.directory;
    if directory.join(CONFIG).exists() {
        bail!("{} has a {CONFIG} already; choose another directory", directory.display());
    }
    fs::create_dir_all(directory.join("keys"))
        .with_context(|| format!("the directory {} cannot be made", directory.display()))?;
    let secret_file = secret(directory, "tokens.secret")?;
    let channel = if setup.is_dev { Some(generate_rsa_key_pem()?) } else { None };
    let mut tenants = Vec::new();
    let mut accounts = Vec::new();
    for (number, new) in setup.tenants.iter().enumerate() {
        let (tenant, account) = tenant(directory, number, new, channel.as_ref())?;
        tenants.push(tenant);
        accounts.push(account);
    }
    let config = Config {
        listen: "127.0.0.1:8080".parse()?,
        public_url: None,
        database: "sqlite:hapax.db".to_owned(),
        tokens: Tokens {
            secret_file: Some(secret_file),
            secret: None,
            previous_secret_files: Vec::new(),
            per_minute: 30,
        },
        tenants,
        periods: Periods::default(),
        bounds: Bounds::default(),
        late_money: LateMoney::default(),
        home: directory.to_owned(),
    };
    if let Some(channel) = channel {
        let private_key_file = write(directory, "sim.alipay.pem", &channel.private_pkcs8)?;
        let sim = SimConfig {
            listen: "127.0.0.1:8090".parse()?,
            private_key_file,
            seed: 0,
            time_scale: 1.0,
            accounts,
        };
        write_config(&directory.join(SIM_CONFIG), &sim)?;
    }
    write_config(&directory.join(CONFIG), &config)?;
    Ok(config)
}

fn tenant(
    directory: &Path,
    number: usize,
    new: &NewTenant,
    channel: Option<&RsaKeyPem>,
) -> anyhow::Result<(Tenant, SimAccount)> {
    let name = &new.name;
    let app = generate_rsa_key_pem()?;
    let app_private_key_file = write(directory, &format!("{name}.app.pem"), &app.private_pkcs8)?;
    let public_key_file = write(directory, &format!("{name}.app.pub.pem"), &app.public_spki)?;
    let alipay_public = channel.map_or("", |channel| channel.public_spki.as_str());
    let alipay_file = write(directory, &format!("{name}.alipay.pub.pem"), alipay_public)?;
    let (app_id, seller_id, gateway) = match channel {
        Some(_) => (
            format!("20260000000{number:05}"),
            format!("20880000000{number:05}"),
            "http://127.0.0.1:8090/gateway.do",
        ),
        None => ("0".to_owned(), "0".to_owned(), GATEWAY),
    };
    let account =
        SimAccount { app_id: app_id.clone(), seller_id: seller_id.clone(), public_key_file };
    let notice_secret_file = match &new.notice_url {
        Some(_) => Some(secret(directory, &format!("{name}.notice-secret"))?),
        None => None,
    };
    let tenant = Tenant {
        name: name.clone(),
        api_key_file: secret(directory, &format!("{name}.api-key"))?,
        notice_url: new.notice_url.clone(),
        notice_secret_file,
        alipay: Some(Alipay {
            gateway: gateway.to_owned(),
            app_id,
            seller_id,
            app_private_key_file,
            alipay_public_key_file: Some(alipay_file),
            certificates: None,
        }),
    };
    Ok((tenant, account))
}

/// Writes a configuration file.
pub(crate) fn write_config(path: &Path, config: &impl Serialize) -> anyhow::Result<()> {
    let text = toml::to_string(config)?;
    fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))
}

fn secret(directory: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let mut bytes = [0; SECRET_BYTES];
    getrandom::fill(&mut bytes).context("the system gives no random bytes")?;
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    write(directory, name, &text)
}

/// Writes a key that nobody else can read, and gives its path as the configuration has it.
fn write(directory: &Path, name: &str, text: &str) -> anyhow::Result<PathBuf> {
    let relative = Path::new("keys").join(name);
    let path = directory.join(&relative);
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    let mut file = options
        .open(&path)
        .with_context(|| format!("the key file {} cannot be made", path.display()))?;
    file.write_all(text.as_bytes())
        .with_context(|| format!("the key file {} cannot be written", path.display()))?;
    Ok(relative)
}
