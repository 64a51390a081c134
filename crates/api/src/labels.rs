//! Names that Karpenter, Auto Mode and Kubernetes have agreed on.
//!
//! Source: kubernetes-sigs/karpenter `pkg/apis/v1/labels.go`, `pkg/apis/v1/taints.go`.

/// Which NodePool a claim or node belongs to.
pub const NODEPOOL: &str = "karpenter.sh/nodepool";
/// `spot`, `on-demand` or `reserved`.
pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
/// `true` on a node whose claim is registered.
pub const REGISTERED: &str = "karpenter.sh/registered";
/// `true` on a node whose claim is initialized.
pub const INITIALIZED: &str = "karpenter.sh/initialized";
/// `true` on a node whose taints came with its registration.
pub const DO_NOT_SYNC_TAINTS: &str = "karpenter.sh/do-not-sync-taints";
/// Zone of a node.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// Region of a node.
pub const REGION: &str = "topology.kubernetes.io/region";
/// Instance type of a node.
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// CPU architecture of a node.
pub const ARCH: &str = "kubernetes.io/arch";
/// Operating system of a node.
pub const OS: &str = "kubernetes.io/os";
/// Name of a node as its kubelet sees it.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// Which NodeClass a claim or node uses (Auto Mode's classes).
pub const NODECLASS: &str = "eks.amazonaws.com/nodeclass";
/// `auto` on nodes that Auto Mode runs.
pub const COMPUTE_TYPE: &str = "eks.amazonaws.com/compute-type";
/// Prefix of Auto Mode's instance labels.
pub const EKS_PREFIX: &str = "eks.amazonaws.com/";

/// Set to `true`: never disrupt this pod or node of the cluster's own accord.
pub const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
/// Hash of the NodePool template that a claim came from.
pub const NODEPOOL_HASH: &str = "karpenter.sh/nodepool-hash";
/// Version of the algorithm behind [`NODEPOOL_HASH`].
pub const NODEPOOL_HASH_VERSION: &str = "karpenter.sh/nodepool-hash-version";
/// When the node is terminated whatever its pods say (RFC 3339).
pub const TERMINATION_TIMESTAMP: &str = "karpenter.sh/nodeclaim-termination-timestamp";
/// `true` if a claim's minValues were lowered to what is to be had.
pub const MIN_VALUES_RELAXED: &str = "karpenter.sh/nodeclaim-min-values-relaxed";

/// Finalizer on claims and nodes.
pub const TERMINATION_FINALIZER: &str = "karpenter.sh/termination";
/// Taint (NoSchedule) on nodes about to go.
pub const DISRUPTED_TAINT: &str = "karpenter.sh/disrupted";
/// Taint (NoExecute) on nodes until their claim is registered.
pub const UNREGISTERED_TAINT: &str = "karpenter.sh/unregistered";
/// Keeps load balancers off a draining node.
pub const EXCLUDE_BALANCERS: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// Which capacity reservation a machine uses.
pub const RESERVATION_ID: &str = "eks.amazonaws.com/capacity-reservation-id";
/// On a NodePool: the most that its machines together may cost, USD per hour.
pub const MAX_USD_PER_HOUR: &str = "aerostat.dev/max-usd-per-hour";
/// On a NodeClaim: the hash of the class that it was launched with.
pub const NODECLASS_HASH: &str = "eks.amazonaws.com/nodeclass-hash";
/// By which algorithm.
pub const NODECLASS_HASH_VERSION: &str = "eks.amazonaws.com/nodeclass-hash-version";
/// On a claim: how many pods of each class it was ordered for.
pub const PLANNED_PODS: &str = "aerostat.dev/planned-pods";
/// On a NodePool: the time zone of its budgets' schedules, `Europe/Berlin` for example; UTC unless
/// set.
pub const BUDGET_TIME_ZONE: &str = "aerostat.dev/budget-time-zone";
/// On a pod or a NodePool: what it costs to move a pod, in USD.
pub const POD_MOVE_USD: &str = "aerostat.dev/pod-move-usd";
/// On a claim: the claims that go once it is up.
pub const REPLACES: &str = "aerostat.dev/replaces";
/// On a claim: why it takes the place of others.
pub const REPLACES_BECAUSE: &str = "aerostat.dev/replaces-because";
/// On a node or claim, set to `true`: order a machine in its place, drain it, end it.
pub const REPLACE: &str = "aerostat.dev/replace";
/// On a node or claim, set to `true`: it is ill, end it now, without grace for its pods.
pub const REPAIR: &str = "aerostat.dev/repair";
/// On a pod of a Deployment, set to `true`: it leaves a node by a rollout of its Deployment, which
/// brings its successor first, and not by eviction.
pub const SURGE: &str = "aerostat.dev/surge";

/// Size of a machine of Karpenter's KWOK provider.
pub const KWOK_SIZE: &str = "karpenter.kwok.sh/instance-size";
/// Its family.
pub const KWOK_FAMILY: &str = "karpenter.kwok.sh/instance-family";
/// Its vCPUs.
pub const KWOK_CPU: &str = "karpenter.kwok.sh/instance-cpu";
/// Its memory.
pub const KWOK_MEMORY: &str = "karpenter.kwok.sh/instance-memory";
/// Prefix of these.
pub const KWOK_PREFIX: &str = "karpenter.kwok.sh/instance-";
/// `fake` on nodes that KWOK plays: label and annotation.
pub const KWOK_NODE: &str = "kwok.x-k8s.io/node";
