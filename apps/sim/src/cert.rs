//! Serial numbers of certificates, as certificate mode defines them.
//!
//! Invariant: a serial number is the MD5 of the issuer's parts from last to first, followed by the
//! serial in decimal (`the_serial_number_of_the_vector_is_reproduced`).

use md5::{Digest as _, Md5};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use x509_parser::parse_x509_certificate;
use x509_parser::prelude::X509Certificate;
use x509_parser::x509::X509Name;

use crate::error::{Error, Kind};
use crate::keys::Verifier;

/// Signature algorithms under this arc are RSA; only such roots take part in the root number.
const RSA_SIGNATURES: &str = "1.2.840.113549.1.1";

/// A certificate's serial number and the key inside it.
pub(crate) struct AppCertificate {
    pub(crate) sn: String,
    pub(crate) verifier: Verifier,
}

/// Reads the app's certificate.
pub(crate) fn app(pem: &str) -> Result<AppCertificate, Error> {
    let der = first(pem, "the app certificate")?;
    let certificate = parse(&der, "the app certificate")?;
    Ok(AppCertificate {
        sn: serial_number(&certificate)?,
        verifier: Verifier::from_spki(certificate.public_key().raw)?,
    })
}

/// The serial number of the first certificate in `pem`, and the public key that it certifies.
pub(crate) fn alipay(pem: &str) -> Result<(String, Vec<u8>), Error> {
    let der = first(pem, "the Alipay certificate")?;
    let certificate = parse(&der, "the Alipay certificate")?;
    Ok((serial_number(&certificate)?, certificate.public_key().raw.to_vec()))
}

/// The joined serial numbers of all RSA-signed certificates of the root file.
pub(crate) fn roots(pem: &str) -> Result<String, Error> {
    let mut numbers = Vec::new();
    for der in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let der = der.map_err(|error| unreadable("the Alipay root file").because(error))?;
        let certificate = parse(&der, "the Alipay root file")?;
        if certificate.signature_algorithm.algorithm.to_id_string().starts_with(RSA_SIGNATURES) {
            numbers.push(serial_number(&certificate)?);
        }
    }
    if numbers.is_empty() {
        return Err(Error::new(Kind::Key, "find an RSA certificate in the Alipay root file"));
    }
    Ok(numbers.join("_"))
}

fn serial_number(certificate: &X509Certificate<'_>) -> Result<String, Error> {
    let text = format!("{}{}", issuer(certificate.issuer())?, certificate.tbs_certificate.serial);
    Ok(Md5::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect())
}

fn issuer(name: &X509Name<'_>) -> Result<String, Error> {
    let mut parts = Vec::new();
    for part in name.iter_attributes() {
        let label = match part.attr_type().to_id_string().as_str() {
            "2.5.4.3" => "CN",
            "2.5.4.6" => "C",
            "2.5.4.7" => "L",
            "2.5.4.8" => "ST",
            "2.5.4.10" => "O",
            "2.5.4.11" => "OU",
            _ => return Err(Error::new(Kind::Key, "name a part of a certificate's issuer")),
        };
        let value = part.as_str().map_err(|error| unreadable("an issuer").because(error))?;
        parts.push(format!("{label}={value}"));
    }
    parts.reverse();
    Ok(parts.join(","))
}

fn first(pem: &str, what: &str) -> Result<CertificateDer<'static>, Error> {
    CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|error| unreadable(what).because(error))
}

fn parse<'a>(der: &'a [u8], what: &str) -> Result<X509Certificate<'a>, Error> {
    let (_, certificate) =
        parse_x509_certificate(der).map_err(|error| unreadable(what).because(error.to_string()))?;
    Ok(certificate)
}

fn unreadable(what: &str) -> Error {
    Error::new(Kind::Key, format!("read {what}: a PEM of BEGIN CERTIFICATE is needed"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vectors;

    #[test]
    fn the_serial_number_of_the_vector_is_reproduced() {
        let case = vectors::case("cert_sn");
        let pem = case["pem"].as_str().unwrap();
        let expected = case["sn"].as_str().unwrap();
        assert_eq!(alipay(pem).unwrap().0, expected);
        assert_eq!(app(pem).unwrap().sn, expected);
        assert_eq!(roots(pem).unwrap(), expected);
        assert_eq!(roots(&format!("{pem}{pem}")).unwrap(), format!("{expected}_{expected}"));
    }

    #[test]
    fn text_that_is_no_certificate_is_refused() {
        for text in ["", "hello", &vectors::key("app_public")] {
            assert!(alipay(text).is_err());
            assert!(roots(text).is_err());
        }
    }
}
