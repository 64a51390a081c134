//! Leases that are renewed without a write each time.
//!
//! A thousand nodes renew their leases a hundred times a second, and hardly anybody looks. Who keeps
//! a lease says from when on it is renewed, and the renewals that are due are written when somebody
//! asks for leases: whoever reads or watches them sees what he would see otherwise.

use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;

use super::{Cluster, Part, WriteOptions};
use crate::kinds::Kind;
use crate::status::Status;

/// Where the leases of nodes are.
pub(crate) const NAMESPACE: &str = "kube-node-lease";
/// How often a node renews its lease.
pub(crate) const RENEWAL: SignedDuration = SignedDuration::from_secs(10);

/// By node, the first renewal that is not written.
pub(super) type Kept = BTreeMap<String, Timestamp>;

impl Cluster {
    fn kept_leases(&self) -> MutexGuard<'_, Kept> {
        self.0.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From `next` on the lease of a node, which is there, is renewed every [`RENEWAL`].
    pub(crate) fn keep_lease(&self, node: &str, next: Timestamp) {
        self.kept_leases().insert(node.to_owned(), next);
    }

    /// Whether somebody keeps the lease of a node.
    pub(crate) fn keeps_lease(&self, node: &str) -> bool {
        self.kept_leases().contains_key(node)
    }

    /// The lease of a node is no longer renewed.
    pub(crate) fn abandon_lease(&self, node: &str) {
        let next = self.kept_leases().remove(node);
        if let Some(last) = next.and_then(|next| last_due(next, self.clock().now())) {
            self.write_renewal_of(node, last);
        }
    }

    /// When the lease of a node was last renewed, written or not.
    pub(crate) fn lease_renewed_at(&self, node: &str) -> Option<Timestamp> {
        let next = self.kept_leases().get(node).copied();
        if let Some(last) = next.and_then(|next| last_due(next, self.clock().now())) {
            return Some(last);
        }
        let key = (NAMESPACE.to_owned(), node.to_owned());
        let lease = self.store().get(&self.kind_of::<Lease>().resource(), &key)?;
        lease.value["spec"]["renewTime"].as_str()?.parse().ok()
    }

    /// When the next renewal is due.
    pub(crate) fn next_renewal(&self) -> Option<Timestamp> {
        self.kept_leases().values().min().copied()
    }

    /// Writes the renewals that are due, if `kind` is that of leases.
    pub(crate) fn renew_leases(&self, kind: &Kind) {
        if kind.plural != "leases" || kind.group != "coordination.k8s.io" {
            return;
        }
        let now = self.clock().now();
        let due: Vec<(String, Timestamp)> = self
            .kept_leases()
            .iter_mut()
            .filter_map(|(node, next)| {
                let last = last_due(*next, now)?;
                // Taken off the list first: a write reads the lease.
                *next = last + RENEWAL;
                Some((node.clone(), last))
            })
            .collect();
        for (node, last) in due {
            self.write_renewal_of(&node, last);
        }
    }

    fn write_renewal_of(&self, node: &str, at: Timestamp) {
        if let Err(error) = self.write_renewal(node, at) {
            tracing::debug!(node, %error, "lease not renewed");
        }
    }

    /// Renews a lease now.
    ///
    /// # Errors
    ///
    /// 404 if there is none; then nobody keeps it any more.
    pub(crate) fn write_renewal(&self, node: &str, at: Timestamp) -> Result<(), Status> {
        let kind = self.kind_of::<Lease>();
        let renewed_at = at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
        let (part, options) = (Part::Main, WriteOptions::default());
        let renewed = self.update_object(&kind, NAMESPACE, node, part, options, |lease| {
            let mut lease = lease.value.clone();
            lease["spec"]["renewTime"] = renewed_at.as_str().into();
            Ok(lease)
        });
        if renewed.as_ref().is_err_and(|status| status.code == 404) {
            self.kept_leases().remove(node);
        }
        renewed.map(drop)
    }
}

/// The last of the renewals from `next` on that is due.
fn last_due(next: Timestamp, now: Timestamp) -> Option<Timestamp> {
    let over = now.duration_since(next);
    if over.is_negative() {
        return None;
    }
    let whole = over.as_nanos() / RENEWAL.as_nanos();
    let whole = i64::try_from(whole * RENEWAL.as_nanos()).ok()?;
    next.checked_add(SignedDuration::from_nanos(whole)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_renewal_that_is_due() {
        let at = |millis| Timestamp::from_millisecond(millis).unwrap();
        assert_eq!(last_due(at(5_250), at(5_249)), None);
        assert_eq!(last_due(at(5_250), at(5_250)), Some(at(5_250)));
        assert_eq!(last_due(at(5_250), at(15_249)), Some(at(5_250)));
        assert_eq!(last_due(at(5_250), at(86_400_000)), Some(at(86_395_250)));
    }
}
