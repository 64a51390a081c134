//! A cluster that runs.

use std::path::{Path, PathBuf};

use anyhow::Context;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// A client of the cluster that a kubeconfig names: `file`, or else the one that kubectl would
/// take, with that of a running `aerostat up` before the user's own.
///
/// # Errors
///
/// If there is no kubeconfig, it cannot be read, or it has no such context.
pub async fn client(file: Option<&Path>, context: Option<&str>) -> anyhow::Result<Client> {
    let (shown, kubeconfig) = match (file, Kubeconfig::from_env()) {
        (Some(file), _) => (file.display().to_string(), Kubeconfig::read_from(file).map(Some)),
        (None, Ok(None)) => {
            let file = standard().context("there is no kubeconfig: name one with --kubeconfig")?;
            (file.display().to_string(), Kubeconfig::read_from(&file).map(Some))
        }
        (None, read) => ("of $KUBECONFIG".to_owned(), read),
    };
    let kubeconfig = kubeconfig
        .with_context(|| format!("the kubeconfig {shown} cannot be read"))?
        .unwrap_or_default();
    let options =
        KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .with_context(|| format!("the kubeconfig {shown} cannot be used"))?;
    Client::try_from(config)
        .with_context(|| format!("the kubeconfig {shown} gives no way to the cluster"))
}

/// That of `aerostat up`, or the user's own.
fn standard() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from)?;
    let files = [".aerostat/kubeconfig", ".kube/config"].map(|file| home.join(file));
    files.into_iter().find(|file| file.is_file())
}
