//! A cluster to read from.

use anyhow::Context;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use super::Args;

/// A client of the cluster that the options name, if they name one.
///
/// # Errors
///
/// If the kubeconfig cannot be read, or has no such context.
pub async fn client(args: &Args) -> anyhow::Result<Option<Client>> {
    let Some(file) = &args.kubeconfig else { return Ok(None) };
    let shown = file.display();
    let kubeconfig = Kubeconfig::read_from(file)
        .with_context(|| format!("kubeconfig {shown} cannot be read"))?;
    let options =
        KubeConfigOptions { context: args.context.clone(), ..KubeConfigOptions::default() };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .with_context(|| format!("kubeconfig {shown} cannot be used"))?;
    Client::try_from(config)
        .map(Some)
        .with_context(|| format!("kubeconfig {shown} gives no way to the cluster"))
}
