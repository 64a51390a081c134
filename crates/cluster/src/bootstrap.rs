//! The objects that every cluster has from its first moment.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    ConfigMap, Namespace, Service, ServiceAccount, ServicePort, ServiceSpec,
};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::registry::{Cluster, Typed};
use crate::status::Status;

/// Name of the ConfigMap that every namespace has.
pub const ROOT_CA: &str = "kube-root-ca.crt";
/// The first address of the default service range.
const API_SERVER: &str = "10.96.0.1";

/// Creates them; those that are there stay as they are. `ca` is the certificate authority of the
/// API server, in PEM.
///
/// # Errors
///
/// If the registry refuses one: a mistake of this program.
pub fn run(cluster: &Cluster, ca: &str) -> Result<(), Status> {
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        ensure(cluster, "", &Namespace { metadata: named(name), ..Namespace::default() })?;
        populate(cluster, name, ca)?;
    }
    for (name, value, description) in [
        (
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
        (
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
    ] {
        let class = PriorityClass {
            metadata: named(name),
            value: Some(value),
            description: Some(description.to_owned()),
            preemption_policy: Some("PreemptLowerPriority".into()),
            ..PriorityClass::default()
        };
        ensure(cluster, "", &class)?;
    }
    api_server(cluster)
}

/// Creates what every namespace has: the service account `default` and the root CA.
///
/// # Errors
///
/// What the registry answers, 403 for a namespace that is being deleted for example.
pub fn populate(cluster: &Cluster, namespace: &str, ca: &str) -> Result<(), Status> {
    let account = ServiceAccount { metadata: named("default"), ..ServiceAccount::default() };
    ensure(cluster, namespace, &account)?;
    let annotation = "Contains a CA bundle that can be used to verify the kube-apiserver when \
                      using internal endpoints such as the internal service IP or \
                      kubernetes.default.svc. No other usage is guaranteed across distributions of \
                      Kubernetes clusters.";
    let annotations = [("kubernetes.io/description".to_owned(), annotation.to_owned())];
    let root = ConfigMap {
        metadata: ObjectMeta { annotations: Some(annotations.into()), ..named(ROOT_CA) },
        data: Some([("ca.crt".to_owned(), ca.to_owned())].into()),
        ..ConfigMap::default()
    };
    ensure(cluster, namespace, &root)
}

/// The API server as a service, `default/kubernetes`.
fn api_server(cluster: &Cluster) -> Result<(), Status> {
    let labels: BTreeMap<_, _> = [
        ("component".to_owned(), "apiserver".to_owned()),
        ("provider".to_owned(), "kubernetes".to_owned()),
    ]
    .into();
    let service = Service {
        metadata: ObjectMeta { labels: Some(labels), ..named("kubernetes") },
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".into()),
            cluster_ip: Some(API_SERVER.into()),
            cluster_ips: Some(vec![API_SERVER.into()]),
            ip_families: Some(vec!["IPv4".into()]),
            ip_family_policy: Some("SingleStack".into()),
            internal_traffic_policy: Some("Cluster".into()),
            session_affinity: Some("None".into()),
            ports: Some(vec![ServicePort {
                name: Some("https".into()),
                port: 443,
                protocol: Some("TCP".into()),
                target_port: Some(IntOrString::Int(6443)),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    };
    ensure(cluster, "default", &service)?;
    let labels = [("kubernetes.io/service-name".to_owned(), "kubernetes".to_owned())];
    let slice = EndpointSlice {
        metadata: ObjectMeta { labels: Some(labels.into()), ..named("kubernetes") },
        address_type: "IPv4".into(),
        endpoints: Some(vec![Endpoint {
            addresses: vec!["127.0.0.1".into()],
            conditions: Some(EndpointConditions {
                ready: Some(true),
                ..EndpointConditions::default()
            }),
            ..Endpoint::default()
        }]),
        ports: Some(vec![EndpointPort {
            name: Some("https".into()),
            port: Some(6443),
            protocol: Some("TCP".into()),
            ..EndpointPort::default()
        }]),
    };
    ensure(cluster, "default", &slice)
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}

fn ensure<K: Typed>(cluster: &Cluster, namespace: &str, object: &K) -> Result<(), Status> {
    match cluster.create(namespace, object) {
        Err(status) if status.reason != "AlreadyExists" => Err(status),
        _ => Ok(()),
    }
}
