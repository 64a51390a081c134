//! Rows of `instance-types.csv` and `offerings.csv`, made instance types of one region.

use std::collections::{BTreeMap, BTreeSet};

use aerostat_api::labels;
use aerostat_engine::instance::{InstanceType, Offering};

use super::csv::{Row, Table};
use super::eligible::eligible;
use super::{CatalogError, File, Flavor, Region, labels_of, overhead};

/// One row of `instance-types.csv`.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub name: String,
    pub family: String,
    pub size: String,
    pub category: String,
    pub generation: i64,
    pub arch: String,
    pub vcpu: i64,
    pub memory_mib: i64,
    pub cpu_manufacturer: String,
    pub cpu_ghz: Option<f64>,
    pub hypervisor: String,
    pub bare_metal: bool,
    pub encryption_in_transit: bool,
    pub enis: i64,
    pub ipv4_per_eni: i64,
    pub efa: i64,
    pub network_mbps: Option<i64>,
    pub ebs_mbps: Option<i64>,
    pub local_nvme_gb: Option<i64>,
    pub gpu_name: String,
    pub gpu_manufacturer: String,
    pub gpu_count: Option<i64>,
    pub gpu_memory_mib: Option<i64>,
    pub accelerator_name: String,
    pub accelerator_count: Option<i64>,
    pub neuron_cores: Option<i64>,
    pub spot: bool,
}

const SHAPE_COLUMNS: [&str; 27] = [
    "name",
    "family",
    "size",
    "category",
    "generation",
    "arch",
    "vcpu",
    "memory_mib",
    "cpu_manufacturer",
    "cpu_ghz",
    "hypervisor",
    "bare_metal",
    "encryption_in_transit",
    "enis",
    "ipv4_per_eni",
    "efa",
    "network_mbps",
    "ebs_mbps",
    "local_nvme_gb",
    "gpu_name",
    "gpu_manufacturer",
    "gpu_count",
    "gpu_memory_mib",
    "accelerator_name",
    "accelerator_count",
    "neuron_cores",
    "spot",
];
const OFFERING_COLUMNS: [&str; 5] = ["region", "name", "zones", "usd_per_hour", "price_source"];

/// Reads `instance-types.csv`: shapes by name.
pub(super) fn shapes(file: File<'_>) -> Result<BTreeMap<String, Shape>, CatalogError> {
    let mut shapes = BTreeMap::new();
    for row in Table::new(file, &SHAPE_COLUMNS)?.rows() {
        let row = row?;
        let shape = shape(&row)?;
        let name = shape.name.clone();
        if shapes.insert(name.clone(), shape).is_some() {
            return Err(row.error(format!("name {name:?} stands in an earlier line already")));
        }
    }
    Ok(shapes)
}

fn shape(row: &Row<'_>) -> Result<Shape, CatalogError> {
    let arch = row.required("arch")?;
    if !["amd64", "arm64"].contains(&arch) {
        return Err(row.error(format!("arch is {arch:?}; it must be amd64 or arm64")));
    }
    let cpu_ghz = row.optional("cpu_ghz", 0.0)?;
    Ok(Shape {
        name: row.required("name")?.to_owned(),
        family: row.required("family")?.to_owned(),
        size: row.required("size")?.to_owned(),
        category: row.required("category")?.to_owned(),
        generation: row.number("generation", 0)?,
        arch: arch.to_owned(),
        vcpu: row.number("vcpu", 1)?,
        memory_mib: row.number("memory_mib", 1)?,
        cpu_manufacturer: row.text("cpu_manufacturer").to_owned(),
        cpu_ghz,
        hypervisor: row.text("hypervisor").to_owned(),
        bare_metal: row.flag("bare_metal")?,
        encryption_in_transit: row.flag("encryption_in_transit")?,
        enis: row.number("enis", 1)?,
        ipv4_per_eni: row.number("ipv4_per_eni", 1)?,
        efa: row.optional("efa", 0)?.unwrap_or(0),
        network_mbps: row.optional("network_mbps", 0)?,
        ebs_mbps: row.optional("ebs_mbps", 0)?,
        local_nvme_gb: row.optional("local_nvme_gb", 0)?,
        gpu_name: row.text("gpu_name").to_owned(),
        gpu_manufacturer: row.text("gpu_manufacturer").to_owned(),
        gpu_count: row.optional("gpu_count", 0)?,
        gpu_memory_mib: row.optional("gpu_memory_mib", 0)?,
        accelerator_name: row.text("accelerator_name").to_owned(),
        accelerator_count: row.optional("accelerator_count", 0)?,
        neuron_cores: row.optional("neuron_cores", 0)?,
        spot: row.flag("spot")?,
    })
}

/// Reads `offerings.csv`: what each region sells of `shapes`, as far as Auto Mode runs it; `ec2` are
/// the families that its rules are about.
pub(super) fn regions(
    shapes: &BTreeMap<String, Shape>,
    file: File<'_>,
    ec2: &BTreeSet<String>,
) -> Result<BTreeMap<String, Region>, CatalogError> {
    let mut regions: BTreeMap<String, Region> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for row in Table::new(file, &OFFERING_COLUMNS)?.rows() {
        let row = row?;
        let (region, name) = (row.required("region")?, row.required("name")?);
        let Some(shape) = shapes.get(name) else {
            let problem = format!("{name:?} is no instance type: it has no line in the other file");
            return Err(row.error(problem));
        };
        if !seen.insert((region, name)) {
            return Err(row.error(format!("{name} in {region} stands in an earlier line already")));
        }
        let price: f64 = row.number("usd_per_hour", 0.0)?;
        if !(price.is_finite() && price > 0.0) {
            return Err(row.error("usd_per_hour must be above 0".to_owned()));
        }
        let zones = zones(&row, region)?;
        let entry = regions
            .entry(region.to_owned())
            .or_insert_with(|| Region::new(region, Flavor::AutoMode));
        if eligible(shape, ec2) {
            entry.types.push(instance_type(shape, region, &zones, price));
            entry.sources.insert(name.to_owned(), row.required("price_source")?.to_owned());
        }
    }
    let whole = |problem: String| CatalogError::File { file: file.name.to_owned(), problem };
    for region in regions.values_mut() {
        region.types.sort_by(|a, b| a.name.cmp(&b.name));
        if region.types.is_empty() {
            let problem = "is of a type that Auto Mode runs: it takes no type with one vCPU";
            return Err(whole(format!("no offering in {} {problem}", region.name)));
        }
    }
    if regions.is_empty() {
        return Err(whole("has no offering; it must have a line for each region and type".into()));
    }
    Ok(regions)
}

/// `abd` stands for three zones of the region; other names are written out, with `|` between them.
fn zones(row: &Row<'_>, region: &str) -> Result<Vec<String>, CatalogError> {
    let text = row.required("zones")?;
    let mut zones: Vec<String> = if text.chars().all(|letter| letter.is_ascii_lowercase()) {
        text.chars().map(|letter| format!("{region}{letter}")).collect()
    } else {
        text.split('|').map(|name| name.trim().to_owned()).collect()
    };
    zones.sort();
    let count = zones.len();
    zones.dedup();
    if zones.len() < count || zones.iter().any(String::is_empty) {
        let problem = format!("zones is {text:?}; it must be letters, or names with | between");
        return Err(row.error(problem));
    }
    Ok(zones)
}

fn instance_type(shape: &Shape, region: &str, zones: &[String], price: f64) -> InstanceType {
    let capacity = overhead::capacity(shape, overhead::MAX_PODS, overhead::DATA_VOLUME);
    let mut allocatable = capacity.clone();
    allocatable.subtract(&overhead::reserved(&capacity));
    let mut offerings = Vec::new();
    for zone in zones {
        let mut offer = |capacity_type: &str, price| {
            let (zone, capacity_type) = (zone.clone(), capacity_type.to_owned());
            offerings.push(Offering {
                zone,
                capacity_type,
                price,
                available: true,
                reservation: None,
            });
        };
        offer("on-demand", price);
        if shape.spot {
            offer("spot", spot_price(&shape.name, zone, price));
        }
    }
    let labels = type_labels(shape, region);
    InstanceType { name: shape.name.clone(), labels, offerings, capacity, allocatable }
}

/// A spot price that is made up: there is no public history to take one from. Between 30 and 40 %
/// of the on-demand price, fixed for each type and zone by a hash of `TYPE/ZONE` (64-bit FNV-1a,
/// mixed as MurmurHash3 ends), rounded to a millionth of a dollar.
fn spot_price(name: &str, zone: &str, on_demand: f64) -> f64 {
    let hash = format!("{name}/{zone}").bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    // FNV's high bits hardly know the last letter, the zone's.
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    let part = f64::from((hash >> 32) as u32) / f64::from(u32::MAX);
    (on_demand * (0.3 + 0.1 * part) * 1e6).round() / 1e6
}

/// Source of the names: aws/karpenter-provider-aws `pkg/providers/instancetype/types.go`, under
/// Auto Mode's prefix; the EKS user guide lists them.
fn type_labels(shape: &Shape, region: &str) -> BTreeMap<String, String> {
    let mut labels = labels_of(&shape.name, region, &shape.arch, "linux");
    let mut set = |name: &str, value: String| {
        if !value.is_empty() {
            labels.insert(format!("{}instance-{name}", labels::EKS_PREFIX), value);
        }
    };
    let number = |number: Option<i64>| number.map_or_else(String::new, |n| n.to_string());
    set("category", shape.category.clone());
    set("family", shape.family.clone());
    set("generation", shape.generation.to_string());
    set("size", shape.size.clone());
    set("cpu", shape.vcpu.to_string());
    set("cpu-manufacturer", shape.cpu_manufacturer.clone());
    let mhz = |ghz: f64| format!("{:.0}", ghz * 1000.0);
    set("cpu-sustained-clock-speed-mhz", shape.cpu_ghz.map_or_else(String::new, mhz));
    set("memory", shape.memory_mib.to_string());
    set("hypervisor", shape.hypervisor.clone());
    set("capability-flex", shape.family.contains("-flex").to_string());
    set("encryption-in-transit-supported", shape.encryption_in_transit.to_string());
    set("ebs-bandwidth", number(shape.ebs_mbps));
    set("network-bandwidth", number(shape.network_mbps));
    set("local-nvme", number(shape.local_nvme_gb));
    set("gpu-name", shape.gpu_name.clone());
    set("gpu-manufacturer", shape.gpu_manufacturer.clone());
    set("gpu-count", number(shape.gpu_count));
    set("gpu-memory", number(shape.gpu_memory_mib));
    labels
}
