//! Where the kubeconfig goes.

use std::path::{Path, PathBuf};

use aerostat_cluster::serve::{Credentials, kubeconfig};
use anyhow::Context;

use super::listen::DEFAULT_PORT;

/// The kubeconfig of this cluster, and the one that it is merged into.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
    /// Whether the file is ours to remove in the end.
    ours: bool,
    merged: Option<PathBuf>,
}

impl Place {
    /// At `file`, or else where kubectl and we would look; with `merge` also in the user's own.
    ///
    /// # Errors
    ///
    /// If there is no home folder to put it, and no `file`.
    pub fn new(file: Option<&Path>, merge: bool, port: u16) -> anyhow::Result<Self> {
        let home = std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
        let path = match (file, &home) {
            (Some(path), _) => std::path::absolute(path)?,
            (None, Some(home)) if port == DEFAULT_PORT => home.join(".aerostat/kubeconfig"),
            (None, Some(home)) => home.join(format!(".aerostat/kubeconfig-{port}")),
            (None, None) => std::env::temp_dir().join(format!("aerostat-{port}/kubeconfig")),
        };
        let merged = if merge {
            let named = std::env::var_os("KUBECONFIG").filter(|paths| !paths.is_empty());
            let first = named.and_then(|paths| std::env::split_paths(&paths).next());
            let standard = home.map(|home| home.join(".kube/config"));
            Some(first.or(standard).context("there is no home folder: set KUBECONFIG")?)
        } else {
            None
        };
        Ok(Self { path, ours: file.is_none(), merged })
    }

    /// The kubeconfig of this cluster alone.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes it.
    ///
    /// # Errors
    ///
    /// Names the file that cannot be written; what stood in it is not lost.
    pub fn write(&self, url: &str, credentials: &Credentials) -> anyhow::Result<()> {
        let shown = self.path.display();
        if let Some(folder) = self.path.parent() {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("the folder of the kubeconfig {shown} cannot be made"))?;
        }
        kubeconfig::write(&self.path, url, credentials)
            .context("the kubeconfig cannot be written: name another file with --kubeconfig")?;
        if let Some(merged) = &self.merged {
            let backup = kubeconfig::merge(merged, url, credentials)?;
            if let Some(backup) = backup {
                eprintln!("notice: comments do not survive; {} is as it was", backup.display());
            }
        }
        Ok(())
    }

    /// Takes away what would only point to a cluster that is gone.
    pub fn clean_up(&self) {
        if self.ours {
            // Someone else may have taken it away already.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
