//! Which kinds are served, and how.

use std::collections::BTreeMap;
use std::sync::Arc;

use aerostat_schema::custom::CustomSchema;

use crate::store::Resource;

/// A kind as the API serves it.
#[derive(Clone, Debug, Default)]
pub struct Kind {
    /// API group, empty for core.
    pub group: String,
    /// API version, which is also the storage version.
    pub version: String,
    /// `Deployment`.
    pub kind: String,
    /// `deployments`.
    pub plural: String,
    /// `deployment`.
    pub singular: String,
    /// `deploy`.
    pub short_names: Vec<String>,
    /// `all`, `karpenter`.
    pub categories: Vec<String>,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// Whether `/status` is written on its own.
    pub status: bool,
    /// Whether `/scale` is served.
    pub scale: bool,
    /// Whether `metadata.generation` counts changes of the spec.
    pub generation: bool,
    /// Whether an update without a resourceVersion is taken (built-ins mostly; never for CRs).
    pub unconditional_update: bool,
    /// Whether a PUT may create.
    pub create_on_update: bool,
    /// Whether it can only be listed: nothing stands behind it here, and there is none of it.
    pub read_only: bool,
    /// The CRD behind it; `None` for built-ins.
    pub custom: Option<Arc<CustomKind>>,
}

/// What a CRD says of a kind.
#[derive(Debug, Default)]
pub struct CustomKind {
    /// The CRD's name.
    pub definition: String,
    /// `NodePoolList`; the kind of its lists.
    pub list_kind: String,
    /// The CRD's UID and generation: what this was made from.
    pub source: (String, i64),
    /// Every version that is served, [`Kind::version`] among them unless it is stored only.
    pub served: Vec<String>,
    /// The schema of each version.
    pub schemas: BTreeMap<String, CustomSchema>,
    /// Whether the CRD is being deleted.
    pub terminating: bool,
    /// Where `/scale` finds its numbers.
    pub scale: Option<ScalePaths>,
    /// `selectableFields`, without their leading dot.
    pub selectable_fields: Vec<String>,
    /// `additionalPrinterColumns` of the version that is served.
    pub columns: Vec<PrinterColumn>,
}

/// Where the scale of a custom object is: paths like `.spec.replicas`.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalePaths {
    /// How many are wanted.
    pub spec_replicas: String,
    /// How many there are.
    pub status_replicas: String,
    /// Which pods they are, as a query.
    pub selector: Option<String>,
}

/// A column of a custom kind's table.
#[derive(Clone, Debug, PartialEq)]
pub struct PrinterColumn {
    /// Header.
    pub name: String,
    /// OpenAPI type: `string`, `integer`, `number`, `boolean`, `date`.
    pub type_: String,
    /// OpenAPI format; may be empty.
    pub format: String,
    /// What it tells; may be empty.
    pub description: String,
    /// 0 is always shown, 1 and above only with `-o wide`.
    pub priority: i32,
    /// Where in the object its value is, `.spec.weight` for example.
    pub json_path: String,
}

impl Kind {
    /// Group and plural: what the store knows it by.
    #[must_use]
    pub fn resource(&self) -> Resource {
        (self.group.clone(), self.plural.clone())
    }

    /// The kind of its lists: `PodList`.
    #[must_use]
    pub fn list_kind(&self) -> String {
        match &self.custom {
            Some(custom) => custom.list_kind.clone(),
            None => format!("{}List", self.kind),
        }
    }

    /// What a user should know who creates one: the cluster keeps it, but nothing acts on it.
    #[must_use]
    pub fn notice(&self) -> Option<String> {
        let stored_only = STORED_ONLY.contains(&(self.group.as_str(), self.plural.as_str()));
        stored_only.then(|| {
            format!("this embedded cluster keeps a {}, but nothing acts on it yet", self.kind)
        })
    }

    /// `v1`, `apps/v1`.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

const NAMESPACED: u8 = 1;
const STATUS: u8 = 2;
const SCALE: u8 = 4;
const GENERATION: u8 = 8;
const CREATE_ON_UPDATE: u8 = 16;
const READ_ONLY: u8 = 32;

/// Kinds whose controllers are not there.
const STORED_ONLY: &[(&str, &str)] = &[
    ("", "replicationcontrollers"),
    ("apps", "statefulsets"),
    ("autoscaling.x-k8s.io", "capacitybuffers"),
    ("batch", "cronjobs"),
    ("networking.k8s.io", "ingresses"),
    ("networking.k8s.io", "networkpolicies"),
];

/// Group, version, kind, plural, short names, categories, traits. Source: the discovery documents
/// of Kubernetes v1.36.
#[rustfmt::skip]
const BUILTIN: &[(&str, &str, &str, &str, &str, &str, u8)] = &[
    ("", "v1", "ConfigMap", "configmaps", "cm", "", NAMESPACED),
    ("", "v1", "Endpoints", "endpoints", "ep", "", NAMESPACED),
    ("", "v1", "Event", "events", "ev", "", NAMESPACED | CREATE_ON_UPDATE),
    ("", "v1", "LimitRange", "limitranges", "limits", "", NAMESPACED),
    ("", "v1", "Namespace", "namespaces", "ns", "", STATUS),
    ("", "v1", "Node", "nodes", "no", "", STATUS),
    ("", "v1", "PersistentVolume", "persistentvolumes", "pv", "", STATUS),
    ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", "pvc", "", NAMESPACED | STATUS),
    ("", "v1", "Pod", "pods", "po", "all", NAMESPACED | STATUS | GENERATION),
    ("", "v1", "PodTemplate", "podtemplates", "", "", NAMESPACED | GENERATION),
    ("", "v1", "ReplicationController", "replicationcontrollers", "rc", "all", NAMESPACED | STATUS | SCALE | GENERATION),
    ("", "v1", "ResourceQuota", "resourcequotas", "quota", "", NAMESPACED | STATUS),
    ("", "v1", "Secret", "secrets", "", "", NAMESPACED),
    ("", "v1", "Service", "services", "svc", "all", NAMESPACED | STATUS),
    ("", "v1", "ServiceAccount", "serviceaccounts", "sa", "", NAMESPACED),
    ("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", "", "api-extensions", STATUS | GENERATION),
    ("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", "", "api-extensions", GENERATION),
    ("apps", "v1", "ControllerRevision", "controllerrevisions", "", "", NAMESPACED),
    ("apps", "v1", "DaemonSet", "daemonsets", "ds", "all", NAMESPACED | STATUS | GENERATION),
    ("apps", "v1", "Deployment", "deployments", "deploy", "all", NAMESPACED | STATUS | SCALE | GENERATION),
    ("apps", "v1", "ReplicaSet", "replicasets", "rs", "all", NAMESPACED | STATUS | SCALE | GENERATION),
    ("apps", "v1", "StatefulSet", "statefulsets", "sts", "all", NAMESPACED | STATUS | SCALE | GENERATION),
    ("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "hpa", "all", NAMESPACED | STATUS),
    ("batch", "v1", "CronJob", "cronjobs", "cj", "all", NAMESPACED | STATUS | GENERATION),
    ("batch", "v1", "Job", "jobs", "", "all", NAMESPACED | STATUS | GENERATION),
    ("coordination.k8s.io", "v1", "Lease", "leases", "", "", NAMESPACED | CREATE_ON_UPDATE),
    ("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", "", "", NAMESPACED | GENERATION),
    ("networking.k8s.io", "v1", "Ingress", "ingresses", "ing", "", NAMESPACED | STATUS | GENERATION),
    ("networking.k8s.io", "v1", "IngressClass", "ingressclasses", "", "", GENERATION),
    ("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", "netpol", "", NAMESPACED | GENERATION),
    ("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", "", "", 0),
    ("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", "pdb", "", NAMESPACED | STATUS | GENERATION),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", "", "", 0),
    ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", "", "", 0),
    ("rbac.authorization.k8s.io", "v1", "Role", "roles", "", "", NAMESPACED),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", "", "", NAMESPACED),
    ("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", "", "", READ_ONLY),
    ("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", "", "", NAMESPACED | READ_ONLY),
    ("resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates", "", "", NAMESPACED | READ_ONLY),
    ("resource.k8s.io", "v1", "ResourceSlice", "resourceslices", "", "", READ_ONLY),
    ("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", "pc", "", GENERATION),
    ("storage.k8s.io", "v1", "CSIDriver", "csidrivers", "", "", GENERATION),
    ("storage.k8s.io", "v1", "CSINode", "csinodes", "", "", 0),
    ("storage.k8s.io", "v1", "StorageClass", "storageclasses", "sc", "", GENERATION),
    ("storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments", "", "", STATUS | GENERATION),
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", "crd,crds", "api-extensions", STATUS | GENERATION),
];

/// The built-in kinds.
#[must_use]
pub fn builtin() -> Vec<Kind> {
    let words = |list: &str| list.split(',').filter(|w| !w.is_empty()).map(str::to_owned).collect();
    BUILTIN
        .iter()
        .map(|&(group, version, kind, plural, short, categories, traits)| Kind {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            plural: plural.into(),
            singular: kind.to_ascii_lowercase(),
            short_names: words(short),
            categories: words(categories),
            namespaced: traits & NAMESPACED != 0,
            status: traits & STATUS != 0,
            scale: traits & SCALE != 0,
            generation: traits & GENERATION != 0,
            unconditional_update: true,
            create_on_update: traits & CREATE_ON_UPDATE != 0,
            read_only: traits & READ_ONLY != 0,
            custom: None,
        })
        .collect()
}
