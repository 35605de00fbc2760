//! Secrets from files that only their owner can read.

use std::{fs, io, path::Path};

use secrecy::SecretString;

/// Longest secret that is read: a 4096-bit key in PEM is 3 KiB.
const SECRET_BYTES_MAX: u64 = 64 * 1024;

/// Why a secret cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// The file cannot be read.
    #[error("the secret file {file} cannot be read")]
    Unreadable {
        /// Its path.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// Others may read the file.
    #[error("the secret file {file} can be read by others; run `chmod 600 {file}`")]
    Exposed {
        /// Its path.
        file: String,
    },
    /// The file is empty or far too long.
    #[error("the secret file {file} is empty or longer than 64 KiB")]
    Size {
        /// Its path.
        file: String,
    },
}

/// Reads a secret: trimmed, and only from a file that nobody else can read.
///
/// # Errors
/// [`SecretError`] names the file and what to do.
pub fn read_secret(path: &Path) -> Result<SecretString, SecretError> {
    let file = || path.display().to_string();
    let unreadable = |source| SecretError::Unreadable { file: file(), source };
    let metadata = fs::metadata(path).map_err(unreadable)?;
    if is_exposed(&metadata) {
        return Err(SecretError::Exposed { file: file() });
    }
    if metadata.len() > SECRET_BYTES_MAX {
        return Err(SecretError::Size { file: file() });
    }
    let text = fs::read_to_string(path).map_err(unreadable)?;
    match text.trim() {
        "" => Err(SecretError::Size { file: file() }),
        secret => Ok(SecretString::from(secret)),
    }
}

#[cfg(unix)]
fn is_exposed(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    metadata.permissions().mode() & 0o077 != 0
}

#[cfg(not(unix))]
fn is_exposed(_: &fs::Metadata) -> bool {
    false
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use secrecy::ExposeSecret;

    use super::*;

    #[test]
    fn a_secret_that_others_can_read_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        fs::write(&path, " secret\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(read_secret(&path), Err(SecretError::Exposed { .. })));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(read_secret(&path).unwrap().expose_secret(), "secret");
        assert!(read_secret(&directory.path().join("none")).is_err());
    }
}
