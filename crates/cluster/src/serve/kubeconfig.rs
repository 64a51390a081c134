//! The file that tells kubectl where the cluster is and how to get in.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use serde_saphyr::SerializerOptions;

use super::Credentials;

/// Name of the cluster, the user and the context.
pub const NAME: &str = "aerostat";

/// Why a kubeconfig cannot be written. The file is then as it was.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file is there but cannot be read, or cannot be written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// The file is no kubeconfig.
    #[error("{}: it is not a kubeconfig, so nothing was added to it: {why}", path.display())]
    Content {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

/// A kubeconfig for the administrator of the cluster at `server_url`.
#[must_use]
pub fn render(server_url: &str, credentials: &Credentials) -> String {
    to_yaml(&config(server_url, credentials))
}

/// Writes a kubeconfig to `path` (whatever was there is replaced), readable for its owner only.
///
/// # Errors
///
/// If the file cannot be written.
pub fn write(path: &Path, server_url: &str, credentials: &Credentials) -> Result<(), Error> {
    replace(path, &render(server_url, credentials))
}

/// Adds the cluster to the kubeconfig at `path` and makes it the current one. Everything else
/// stays: other clusters, users and contexts, and fields that this program does not know. YAML
/// comments do not survive; if there are any, the file as it was is kept beside it, and its path
/// returned.
///
/// # Errors
///
/// If the file cannot be read or written, or is no kubeconfig.
pub fn merge(
    path: &Path,
    server_url: &str,
    credentials: &Credentials,
) -> Result<Option<PathBuf>, Error> {
    let failed = |source| Error::File { path: path.to_owned(), source };
    let existing = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        result => result.map_err(failed)?,
    };
    let merged = merged(&existing, config(server_url, credentials))
        .map_err(|why| Error::Content { path: path.to_owned(), why })?;
    let mut backup = None;
    if existing.lines().any(|line| line.trim_start().starts_with('#') || line.contains(" #")) {
        let beside = path.with_extension("before-aerostat");
        replace(&beside, &existing)?;
        backup = Some(beside);
    }
    replace(path, &to_yaml(&merged))?;
    Ok(backup)
}

fn config(server_url: &str, credentials: &Credentials) -> Value {
    let encode = |text: &str| BASE64_STANDARD.encode(text);
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": {
            "server": server_url,
            "certificate-authority-data": encode(credentials.authority()),
        }}],
        "users": [{"name": NAME, "user": {
            "client-certificate-data": encode(credentials.client_certificate()),
            "client-key-data": encode(credentials.client_key()),
        }}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME}}],
        "current-context": NAME,
    })
}

fn merged(existing: &str, ours: Value) -> Result<Value, String> {
    if existing.trim().is_empty() {
        return Ok(ours);
    }
    let mut config: Value = serde_saphyr::from_str(existing).map_err(|error| error.to_string())?;
    if config.is_null() {
        return Ok(ours);
    }
    let fields = config.as_object_mut().ok_or("it is not a mapping")?;
    for (field, ours) in ours.as_object().into_iter().flatten() {
        let Some(ours) = ours.as_array() else {
            fields.insert(field.clone(), ours.clone());
            continue;
        };
        let list = fields.entry(field.clone()).or_insert(Value::Null);
        if list.is_null() {
            *list = json!([]);
        }
        let list = list.as_array_mut().ok_or_else(|| format!("{field} is not a list"))?;
        for entry in ours {
            match list.iter_mut().find(|old| old["name"] == entry["name"]) {
                Some(old) => *old = entry.clone(),
                None => list.push(entry.clone()),
            }
        }
    }
    Ok(config)
}

fn to_yaml(value: &Value) -> String {
    let mut options = SerializerOptions::default();
    // Certificates stay on their lines, as in every other kubeconfig.
    options.prefer_block_scalars = false;
    serde_saphyr::to_string_with_options(value, options).expect("JSON can be written as YAML")
}

/// Replaces a file in one step: whoever reads it sees the old or the new one, whole. A symbolic
/// link stays one.
fn replace(path: &Path, text: &str) -> Result<(), Error> {
    let failed = |source| Error::File { path: path.to_owned(), source };
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if let Some(folder) = target.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = target.with_file_name(name);
    let result = private(&temporary)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&temporary, &target));
    if result.is_err() {
        // What is half written is of no use; if it cannot be removed either, so be it.
        let _ = fs::remove_file(&temporary);
    }
    result.map_err(failed)
}

/// A new file that only its owner can read: it holds a key.
fn private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXISTING: &str = "# mine\napiVersion: v1\nkind: Config\nclusters:\n- name: prod\n  cluster:\n    \
                            server: https://prod:443\n    extensions:\n    - name: x\n      extension: \
                            {version: '1.30', n: 7}\nusers:\n- name: aerostat\n  user: {token: old}\n\
                            current-context: prod\npreferences: {colors: true}\n";

    fn credentials() -> Credentials {
        Credentials::generate().expect("certificates")
    }

    #[test]
    fn merging_keeps_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        fs::write(&path, EXISTING).unwrap();
        let backup = merge(&path, "https://127.0.0.1:6443", &credentials()).unwrap();
        assert_eq!(fs::read_to_string(backup.expect("it had comments")).unwrap(), EXISTING);
        let text = fs::read_to_string(&path).unwrap();
        let merged: Value = serde_saphyr::from_str(&text).unwrap();
        let mut before: Value = serde_saphyr::from_str(EXISTING).unwrap();
        assert_eq!(merged["clusters"][0], before["clusters"][0]);
        assert_eq!(
            merged["clusters"][0]["cluster"]["extensions"][0]["extension"]["version"],
            "1.30"
        );
        assert_eq!(merged["preferences"], before["preferences"].take());
        assert_eq!(merged["current-context"], NAME);
        assert_eq!(merged["users"].as_array().map(Vec::len), Some(1), "ours is replaced");
        let again = merge(&path, "https://127.0.0.1:6444", &credentials()).unwrap();
        assert_eq!(again, None);
        let merged: Value = serde_saphyr::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(merged["clusters"].as_array().map(Vec::len), Some(2));
        assert_eq!(merged["clusters"][1]["cluster"]["server"], "https://127.0.0.1:6444");
    }

    #[test]
    fn what_is_no_kubeconfig_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        for text in ["- a\n", "clusters: 7\n", "a: [\n", "\u{0}"] {
            fs::write(&path, text).unwrap();
            let error = merge(&path, "https://x", &credentials()).unwrap_err();
            assert!(matches!(error, Error::Content { .. }), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert!(merge(folder.path(), "https://x", &credentials()).is_err(), "a folder");
    }

    #[test]
    fn a_new_file_is_private_and_its_lines_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/config");
        let credentials = credentials();
        merge(&path, "https://127.0.0.1:1", &credentials).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, render("https://127.0.0.1:1", &credentials));
        let key = BASE64_STANDARD.encode(credentials.client_key());
        assert!(text.contains(&format!("client-key-data: {key}\n")), "{text}");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no leftovers");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().join("real");
        fs::write(&real, "").unwrap();
        let link = folder.path().join("config");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        merge(&link, "https://127.0.0.1:1", &credentials()).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(fs::read_to_string(&real).unwrap().contains("https://127.0.0.1:1"));
    }
}
