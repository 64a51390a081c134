//! What a pod's claims demand of its node, or why it cannot run anywhere.
//!
//! Sources: kubernetes `pkg/scheduler/framework/plugins/volumebinding/{volume_binding,binder}.go`,
//! kubernetes-sigs/karpenter `pkg/controllers/provisioning/scheduling/volumetopology.go`.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::NodeSelectorTerm;

use super::{Claim, ClaimKey, Storage, Volume, Volumes};
use crate::pod::{ClaimRef, Pod};

/// The provisioner of classes whose volumes people make.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// Why no node can have a pod's volumes. [`fmt::Display`] names the claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unresolved {
    /// There is no such claim.
    NoClaim(String),
    /// The claim of an ephemeral volume has not been made yet.
    NotMade(String),
    /// The claim is another's, though it has the name of the pod's ephemeral volume.
    Foreign(String),
    /// The claim is being deleted.
    Deleting(String),
    /// The volume of a claim is gone.
    NoVolume {
        /// The claim.
        claim: String,
        /// The volume that it names.
        volume: String,
        /// Whether the claim knows that.
        is_lost: bool,
    },
    /// The claim does not wait for a pod to be bound, and is not bound.
    Unbound(String),
    /// The claim has no class, and is not bound.
    Classless(String),
    /// There is no such class.
    NoClass {
        /// The claim.
        claim: String,
        /// The class that it names.
        class: String,
    },
    /// Volumes of the class are not made on demand, and there is none that suits.
    NothingToBind(String),
}

impl Unresolved {
    /// What kube-scheduler says that keeps the pod off all nodes; `None` if it tells of each node
    /// alone why.
    #[must_use]
    pub fn to_scheduler(&self) -> Option<String> {
        match self {
            Self::NoVolume { is_lost: false, .. } | Self::NothingToBind(_) => None,
            Self::Unbound(_) | Self::Classless(_) | Self::NoClass { .. } => {
                Some("pod has unbound immediate PersistentVolumeClaims".to_owned())
            }
            other => Some(other.to_string()),
        }
    }
}

impl fmt::Display for Unresolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoClaim(claim) => write!(f, "persistentvolumeclaim {claim:?} not found"),
            Self::NotMade(claim) => write!(
                f,
                "waiting for ephemeral volume controller to create the persistentvolumeclaim \
                 {claim:?}"
            ),
            Self::Foreign(claim) => write!(
                f,
                "persistentvolumeclaim {claim:?} was not created for the pod: it is not its owner"
            ),
            Self::Deleting(claim) => write!(f, "persistentvolumeclaim {claim:?} is being deleted"),
            Self::NoVolume { claim, volume, .. } => write!(
                f,
                "persistentvolumeclaim {claim:?} bound to non-existent persistentvolume {volume:?}"
            ),
            Self::Unbound(claim) => write!(
                f,
                "pod has unbound immediate PersistentVolumeClaims (PersistentVolumeClaim={claim})"
            ),
            Self::Classless(claim) => {
                write!(f, "unbound pvc must define a storage class (PersistentVolumeClaim={claim})")
            }
            Self::NoClass { claim, class } => write!(
                f,
                "failed to get storage class, storageclass.storage.k8s.io {class:?} not found \
                 (PersistentVolumeClaim={claim})"
            ),
            Self::NothingToBind(claim) => write!(
                f,
                "no persistent volume is available for persistentvolumeclaim {claim:?}, and its \
                 class makes none"
            ),
        }
    }
}

impl Storage {
    /// What a pod's claims demand of its node.
    ///
    /// # Errors
    ///
    /// The first claim for which no node can have a volume.
    pub fn resolve(&self, pod: &Pod) -> Result<Volumes, Unresolved> {
        let mut volumes = Volumes::default();
        for wanted in &pod.claims {
            let (key, claim) = self.claim_of(pod, wanted)?;
            if let Some(name) = &claim.volume {
                let Some(volume) = self.volumes.get(name) else {
                    let (claim, volume) = (wanted.name.clone(), name.clone());
                    return Err(Unresolved::NoVolume { claim, volume, is_lost: false });
                };
                if !claim.is_bound {
                    return Err(Unresolved::Unbound(wanted.name.clone()));
                }
                volumes.bound.extend(volume.terms.clone());
            } else {
                volumes.unbound.extend(self.places(&key, claim)?);
            }
        }
        volumes.attached = self.attached(pod);
        // The same demand made twice is one.
        for list in [&mut volumes.bound, &mut volumes.unbound] {
            let mut distinct: Vec<Vec<NodeSelectorTerm>> = Vec::new();
            for terms in std::mem::take(list) {
                if !distinct.contains(&terms) {
                    distinct.push(terms);
                }
            }
            *list = distinct;
        }
        Ok(volumes)
    }

    /// How many volumes a pod attaches, by CSI driver, as far as is known.
    #[must_use]
    pub fn attached(&self, pod: &Pod) -> BTreeMap<String, u32> {
        let mut attached = BTreeMap::new();
        for wanted in &pod.claims {
            let claim = self.claims.get(&(pod.namespace.clone(), wanted.name.clone()));
            if let Some(driver) = claim.and_then(|claim| self.driver(claim)) {
                *attached.entry(driver.to_owned()).or_insert(0) += 1;
            }
        }
        attached
    }

    /// The driver of a claim's volume, or of those that its class makes.
    fn driver(&self, claim: &Claim) -> Option<&str> {
        if let Some(volume) = &claim.volume {
            return self.volumes.get(volume)?.driver.as_deref();
        }
        let provisioner = self.classes.get(&claim.class)?.provisioner.as_str();
        Some(match provisioner {
            "kubernetes.io/aws-ebs" => "ebs.csi.aws.com",
            other => other,
        })
    }

    fn claim_of(&self, pod: &Pod, wanted: &ClaimRef) -> Result<(ClaimKey, &Claim), Unresolved> {
        let key = (pod.namespace.clone(), wanted.name.clone());
        let name = || wanted.name.clone();
        let Some(claim) = self.claims.get(&key) else {
            let missing =
                if wanted.is_ephemeral { Unresolved::NotMade } else { Unresolved::NoClaim };
            return Err(missing(name()));
        };
        if claim.is_lost {
            let volume = claim.volume.clone().unwrap_or_default();
            return Err(Unresolved::NoVolume { claim: name(), volume, is_lost: true });
        }
        if claim.is_deleting {
            return Err(Unresolved::Deleting(name()));
        }
        let is_own = claim.owner.as_ref().is_some_and(|owner| *owner == pod.uid);
        if wanted.is_ephemeral && !is_own && !pod.uid.is_empty() {
            return Err(Unresolved::Foreign(name()));
        }
        Ok((key, claim))
    }

    /// Where the volume of an unbound claim can be; `None` for everywhere.
    fn places(
        &self,
        key: &ClaimKey,
        claim: &Claim,
    ) -> Result<Option<Vec<NodeSelectorTerm>>, Unresolved> {
        let name = key.1.clone();
        if claim.class.is_empty() {
            return Err(Unresolved::Classless(name));
        }
        let Some(class) = self.classes.get(&claim.class) else {
            return Err(Unresolved::NoClass { claim: name, class: claim.class.clone() });
        };
        if !class.waits {
            return Err(Unresolved::Unbound(name));
        }
        let makes = !class.provisioner.is_empty() && class.provisioner != NO_PROVISIONER;
        let there: Vec<&Volume> = self.suitable(key, claim).map(|(_, volume)| volume).collect();
        if there.is_empty() && !makes {
            return Err(Unresolved::NothingToBind(name));
        }
        // One that is there or one that is made: either may be had.
        let made = makes.then_some(&class.terms);
        let mut terms = Vec::new();
        for alternative in there.into_iter().map(|volume| &volume.terms).chain(made) {
            let Some(alternative) = alternative else { return Ok(None) };
            terms.extend(alternative.iter().cloned());
        }
        Ok(Some(terms))
    }

    /// The volumes that a claim may be bound to, the smallest first.
    pub fn suitable<'a>(
        &'a self,
        key: &'a ClaimKey,
        claim: &'a Claim,
    ) -> impl Iterator<Item = (&'a str, &'a Volume)> {
        let mut found: Vec<(&str, &Volume)> = self
            .volumes
            .iter()
            .filter(|(_, volume)| volume.suits(key, claim))
            .map(|(name, volume)| (name.as_str(), volume))
            .collect();
        // One that is kept for the claim goes before all others.
        found.sort_by_key(|(name, volume)| (volume.claim.is_none(), volume.size, *name));
        found.into_iter()
    }
}
