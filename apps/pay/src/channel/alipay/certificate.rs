//! Certificate mode: serials of certificates, and the public key of the pinned one.
//!
//! A serial is the MD5 of the issuer's names, last to first, followed by the decimal serial
//! number. MD5 is only a name here; the trust comes from pinning the file.

use md5::{Digest as _, Md5};
use x509_parser::{
    certificate::X509Certificate, objects, pem::Pem, prelude::X509Name, x509::AlgorithmIdentifier,
};

use super::key::{KeyFault, PublicKey};

/// A chain file has five or so; more is the wrong file.
const CHAIN_LEN_MAX: usize = 32;

/// The object identifiers of all RSA signatures begin with this.
const RSA_SIGNATURES: &str = "1.2.840.113549.1.1.";

/// The serial that Alipay gives a certificate with this issuer and serial number.
///
/// ```
/// # use hapax_pay::channel::alipay::serial;
/// let issuer = "CN=hapax alipay simulator root,OU=sim,O=hapax test,C=CN";
/// let serial = serial(issuer, "24197857200151252728969465429440056815");
/// assert_eq!(serial, "056644b541fa211d588f74c56f6e4188");
/// ```
pub fn serial(issuer: &str, number: &str) -> String {
    let digest = Md5::new().chain_update(issuer).chain_update(number).finalize();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A certificate of ours or of Alipay's.
#[derive(Debug)]
pub struct Certificate {
    serial: String,
    key: PublicKey,
}

impl Certificate {
    /// Reads the first certificate of a PEM file; what follows it is its chain.
    pub fn parse(pem: &str) -> Result<Self, CertificateFault> {
        let first = blocks(pem).next().ok_or(CertificateFault::NotPem)??;
        let certificate = first.parse_x509().map_err(|_| CertificateFault::NotX509)?;
        let key = PublicKey::from_der(certificate.public_key().raw, "key of the certificate")?;
        Ok(Self { serial: serial_of(&certificate)?, key })
    }

    /// The serial by which Alipay names the certificate.
    pub fn serial(&self) -> &str {
        &self.serial
    }

    /// The public key that it certifies.
    pub const fn key(&self) -> &PublicKey {
        &self.key
    }

    pub(super) fn into_parts(self) -> (PublicKey, String) {
        (self.key, self.serial)
    }
}

/// The serial of a root file: those of its RSA certificates, joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootSerial(String);

impl RootSerial {
    /// Reads a PEM file of root certificates, of which those signed otherwise than by RSA, such
    /// as SM2, do not count.
    pub fn parse(pem: &str) -> Result<Self, CertificateFault> {
        let mut serials = Vec::new();
        for (index, block) in blocks(pem).enumerate() {
            if index == CHAIN_LEN_MAX {
                return Err(CertificateFault::TooMany);
            }
            let block = block?;
            let certificate = block.parse_x509().map_err(|_| CertificateFault::NotX509)?;
            if is_rsa(&certificate.signature_algorithm) {
                serials.push(serial_of(&certificate)?);
            }
        }
        if serials.is_empty() { Err(CertificateFault::NoRoot) } else { Ok(Self(serials.join("_"))) }
    }

    /// The serial, as requests carry it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a certificate file cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateFault {
    /// No PEM block.
    #[error("the file has no PEM block, give the .crt from Alipay")]
    NotPem,
    /// A block that is not a certificate.
    #[error("the file holds something other than a certificate")]
    NotX509,
    /// A name in the issuer for which Alipay has no abbreviation.
    #[error("the issuer has a name that the serial cannot be made of")]
    Issuer,
    /// More certificates than a chain has.
    #[error("the file holds more certificates than a chain has")]
    TooMany,
    /// No certificate signed with RSA.
    #[error("the file holds no certificate signed with RSA")]
    NoRoot,
    /// The key inside cannot be used.
    #[error(transparent)]
    Key(#[from] KeyFault),
}

fn blocks(pem: &str) -> impl Iterator<Item = Result<Pem, CertificateFault>> {
    Pem::iter_from_buffer(pem.as_bytes()).map(|block| block.map_err(|_| CertificateFault::NotPem))
}

fn is_rsa(algorithm: &AlgorithmIdentifier<'_>) -> bool {
    algorithm.oid().to_id_string().starts_with(RSA_SIGNATURES)
}

fn serial_of(certificate: &X509Certificate<'_>) -> Result<String, CertificateFault> {
    Ok(serial(&names(certificate.issuer())?, &certificate.serial.to_string()))
}

/// The names of `issuer` from last to first, as `CN=..,OU=..,O=..,C=..`.
fn names(issuer: &X509Name<'_>) -> Result<String, CertificateFault> {
    let mut names = Vec::new();
    for name in issuer.iter_attributes() {
        let kind = objects::oid2abbrev(name.attr_type(), objects::oid_registry())
            .map_err(|_| CertificateFault::Issuer)?;
        let value = name.as_str().map_err(|_| CertificateFault::Issuer)?;
        names.push(format!("{kind}={value}"));
    }
    names.reverse();
    Ok(names.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_serials_of_alipay_follow_from_issuer_and_number() {
        let issuer = |class: u8| {
            format!(
                "CN=Ant Financial Certification Authority Class {class} R1,\
                 OU=Certification Authority,O=Ant Financial,C=CN"
            )
        };
        assert_eq!(
            serial(&issuer(1), "42701552708448241360226107228231049510"),
            "866efef280dec9137a87d047ac446315"
        );
        assert_eq!(
            serial(&issuer(2), "42701552432456004857627230056898180491"),
            "7513daaaa48aa3ba2e4018d84402479c"
        );
    }

    #[test]
    fn a_file_without_certificates_is_refused() {
        assert_eq!(Certificate::parse("").err(), Some(CertificateFault::NotPem));
        assert_eq!(Certificate::parse("AQID").err(), Some(CertificateFault::NotPem));
        assert_eq!(RootSerial::parse("").err(), Some(CertificateFault::NoRoot));
        let block = "-----BEGIN CERTIFICATE-----\nAQID\n-----END CERTIFICATE-----\n";
        assert_eq!(Certificate::parse(block).err(), Some(CertificateFault::NotX509));
    }
}
