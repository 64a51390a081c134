use aerostat_api::{builtin, requirements::Requirements};
use aerostat_engine::instance::InstanceType;

use super::*;

const TOKYO: &str = "ap-northeast-1";

fn tokyo() -> Arc<Region> {
    Catalog::embedded().region(TOKYO).unwrap()
}

fn on_demand(kind: &InstanceType) -> f64 {
    let offering = kind.offerings.iter().find(|o| o.capacity_type == "on-demand");
    offering.unwrap().price
}

/// Types that a built-in pool may launch, cheapest first.
fn general_purpose(region: &Region) -> Vec<&InstanceType> {
    let spec = builtin::general_purpose().spec.template.spec;
    let requirements = Requirements::from_pool(&spec.requirements).unwrap();
    let allowed = |kind: &&InstanceType| {
        requirements
            .iter()
            .filter(|r| r.key() != labels::CAPACITY_TYPE)
            .all(|r| requirements.allows(r.key(), kind.labels.get(r.key()).map(String::as_str)))
    };
    let mut types: Vec<&InstanceType> = region.types.iter().filter(allowed).collect();
    types.sort_by(|a, b| on_demand(a).total_cmp(&on_demand(b)));
    types
}

mod embedded_data {
    use super::*;

    #[test]
    fn all_regions_can_be_read() {
        let catalog = Catalog::embedded();
        assert_eq!(catalog.regions().len(), 13);
        for region in catalog.regions() {
            let sold = catalog.region(region).unwrap();
            assert!(sold.types.len() > 400, "{region}: {}", sold.types.len());
            assert!(sold.types.is_sorted_by(|a, b| a.name < b.name));
            for zone in sold.zones() {
                assert!(zone.starts_with(region), "{zone}");
            }
        }
    }

    #[test]
    fn every_packed_file_is_a_region() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/data/offerings");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .map(|name| name.strip_suffix(".csv.gz").unwrap().to_owned())
            .collect();
        files.sort();
        assert_eq!(Catalog::embedded().regions(), files);
    }

    #[test]
    fn an_unknown_region_names_the_known() {
        let error = Catalog::embedded().region("ap-northeast-9").unwrap_err().to_string();
        assert!(error.starts_with("unknown region \"ap-northeast-9\": the catalog has ap-"));
        assert!(error.contains(", us-west-2"), "{error}");
    }

    #[test]
    fn the_cheapest_of_tokyo_are_the_storys() {
        let tokyo = tokyo();
        let types = general_purpose(&tokyo);
        let first: Vec<(&str, f64)> =
            types.iter().take(3).map(|kind| (kind.name.as_str(), on_demand(kind))).collect();
        assert_eq!(
            first,
            [("c5a.large", 0.096), ("c6a.large", 0.0963), ("c7i-flex.large", 0.10673)]
        );
    }

    #[test]
    fn a_c5a_large_carries_three_balloons() {
        let tokyo = tokyo();
        let kind = tokyo.instance_type("c5a.large").unwrap();
        assert_eq!(kind.allocatable.cpu, 1930);
        assert_eq!(kind.allocatable.memory, 3114 * overhead::MIB);
        assert_eq!(kind.allocatable.pods, 29);
        assert_eq!(kind.capacity.storage, 80 << 30);
        assert_eq!(kind.allocatable.storage, 71 << 30);
        let zones: Vec<&str> = kind
            .offerings
            .iter()
            .filter(|offering| offering.capacity_type == "on-demand")
            .map(|offering| offering.zone.as_str())
            .collect();
        assert_eq!(zones, ["ap-northeast-1a", "ap-northeast-1c"]);
    }

    #[test]
    fn labels_are_auto_modes() {
        let tokyo = tokyo();
        let labels: Vec<String> = tokyo
            .instance_type("c6a.large")
            .unwrap()
            .labels
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        assert_eq!(
            labels,
            [
                "eks.amazonaws.com/compute-type=auto",
                "eks.amazonaws.com/instance-capability-flex=false",
                "eks.amazonaws.com/instance-category=c",
                "eks.amazonaws.com/instance-cpu=2",
                "eks.amazonaws.com/instance-cpu-manufacturer=amd",
                "eks.amazonaws.com/instance-cpu-sustained-clock-speed-mhz=3600",
                "eks.amazonaws.com/instance-ebs-bandwidth=10000",
                "eks.amazonaws.com/instance-encryption-in-transit-supported=true",
                "eks.amazonaws.com/instance-family=c6a",
                "eks.amazonaws.com/instance-generation=6",
                "eks.amazonaws.com/instance-hypervisor=nitro",
                "eks.amazonaws.com/instance-memory=4096",
                "eks.amazonaws.com/instance-network-bandwidth=781",
                "eks.amazonaws.com/instance-size=large",
                "kubernetes.io/arch=amd64",
                "kubernetes.io/os=linux",
                "node.kubernetes.io/instance-type=c6a.large",
                "topology.kubernetes.io/region=ap-northeast-1",
            ]
        );
    }

    #[test]
    fn gpus_and_local_disks_are_there() {
        let tokyo = tokyo();
        let kind = tokyo.instance_type("g5.xlarge").unwrap();
        assert_eq!(kind.allocatable.get("nvidia.com/gpu"), 1);
        assert_eq!(kind.labels["eks.amazonaws.com/instance-gpu-name"], "a10g");
        // 250 GB of local disk are more than the volume of 80 GiB, and take its place.
        assert_eq!(kind.capacity.storage, 250_000_000_000);
    }

    #[test]
    fn auto_mode_runs_no_small_bare_or_old_machines() {
        let tokyo = tokyo();
        for name in ["c7a.medium", "t3.small", "m5.metal", "m3.xlarge", "c9g.large"] {
            assert!(tokyo.instance_type(name).is_none(), "{name}");
        }
        for name in ["t3.medium", "r8g.large", "i4i.large", "m4.large"] {
            assert!(tokyo.instance_type(name).is_some(), "{name}");
        }
    }

    #[test]
    fn no_node_takes_more_than_110_pods() {
        let tokyo = tokyo();
        let kind = tokyo.instance_type("c6a.4xlarge").unwrap();
        assert_eq!(kind.allocatable.pods, 110);
        // What the kubelet keeps follows the pods it may run: 11 MiB each.
        let memory = 32768 - 2458 - (11 * 110 + 255 + 100);
        assert_eq!(kind.allocatable.memory, memory * overhead::MIB);
    }

    #[test]
    fn spot_prices_are_made_up_and_say_so() {
        let tokyo = tokyo();
        for kind in &tokyo.types {
            let on_demand = on_demand(kind);
            for spot in kind.offerings.iter().filter(|o| o.capacity_type == "spot") {
                let share = spot.price / on_demand;
                assert!((0.299..0.401).contains(&share), "{} {}: {share}", kind.name, spot.zone);
            }
        }
        assert_eq!(tokyo.price_source("c5a.large", "spot"), Some(PriceSource::Synthetic));
        let published = PriceSource::Catalog("published-2025-03".to_owned());
        assert_eq!(tokyo.price_source("c5a.large", "on-demand"), Some(published));
        // The formula is a promise: equal seeds must give equal bills in every version.
        let kind = tokyo.instance_type("c5a.large").unwrap();
        let prices: Vec<f64> = kind.offerings.iter().map(|offering| offering.price).collect();
        assert_eq!(prices, [0.096, 0.03769, 0.096, 0.032795]);
    }
}

/// Against Karpenter's own table, which knows no limit of 110 pods.
#[test]
fn what_is_left_to_pods_is_as_karpenter_computes_it() {
    let text = include_str!("../../tests/data/allocatable.csv");
    let file = File { name: "allocatable.csv", text };
    let shapes = embedded::shapes();
    let table = csv::Table::new(file, &["name", "alloc_pods"]).unwrap();
    let mut count = 0;
    for row in table.rows().map(Result::unwrap) {
        let name = row.text("name");
        let shape = &shapes[name];
        let capacity = overhead::capacity(shape, i64::MAX, 20 << 30);
        let mut left = capacity.clone();
        left.subtract(&overhead::reserved(&capacity));
        let number = |column: &str| row.optional::<i64>(column, 0).unwrap();
        assert_eq!(Some(left.cpu), number("alloc_cpu_milli"), "{name}");
        assert_eq!(Some(left.memory / overhead::MIB), number("alloc_memory_mib"), "{name}");
        assert_eq!(Some(left.pods), number("alloc_pods"), "{name}");
        assert_eq!(left.get("nvidia.com/gpu"), number("nvidia_gpu").unwrap_or(0), "{name}");
        assert_eq!(left.get("aws.amazon.com/neuron"), number("neuron").unwrap_or(0), "{name}");
        assert_eq!(shape.network_mbps, number("network_bandwidth"), "{name}");
        assert_eq!(shape.ebs_mbps, number("ebs_bandwidth"), "{name}");
        assert_eq!(shape.local_nvme_gb, number("local_nvme"), "{name}");
        assert_eq!(shape.gpu_name, row.text("gpu_name"), "{name}");
        count += 1;
    }
    assert!(count >= 60);
}

mod tables {
    use super::*;

    const TYPES: &str = "name,family,size,category,generation,arch,vcpu,memory_mib,\
        cpu_manufacturer,cpu_ghz,hypervisor,bare_metal,burstable,current_generation,\
        encryption_in_transit,enis,ipv4_per_eni,efa,branch_enis,network_mbps,ebs_mbps,\
        ebs_attachments,ebs_attachment_limit,local_nvme_gb,gpu_name,gpu_manufacturer,gpu_count,\
        gpu_memory_mib,accelerator_name,accelerator_count,neuron_cores,spot
c5a.large,c5a,large,c,5,amd64,2,4096,amd,3.3,nitro,0,0,1,1,3,10,0,9,750,3170,27,shared,,,,,,,,,1
box.one,box,one,c,9,amd64,1,4096,,,,1,0,1,1,3,10,0,,,,,,,,,,,,,,0
";
    const OFFERINGS: &str = "region,name,zones,usd_per_hour,price_source
here,c5a.large,ab,0.5,own
here,box.one,hall-1|hall-2,0.1,own
there,c5a.large,a,0.6,own
";

    fn read(types: &str, offerings: &str) -> Result<Catalog, CatalogError> {
        let types = File { name: "types.csv", text: types };
        Catalog::from_csv(types, File { name: "offers.csv", text: offerings })
    }

    fn offerings_error(from: &str, to: &str) -> String {
        assert!(OFFERINGS.contains(from), "{from}");
        read(TYPES, &OFFERINGS.replacen(from, to, 1)).unwrap_err().to_string()
    }

    fn types_error(from: &str, to: &str) -> String {
        assert!(TYPES.contains(from), "{from}");
        read(&TYPES.replacen(from, to, 1), OFFERINGS).unwrap_err().to_string()
    }

    #[test]
    fn a_users_tables_are_read() {
        let catalog = read(TYPES, OFFERINGS).unwrap();
        assert_eq!(catalog.regions(), ["here", "there"]);
        let here = catalog.region("here").unwrap();
        assert_eq!(Vec::from_iter(here.zones()), ["hall-1", "hall-2", "herea", "hereb"]);
        // Auto Mode's rules are about EC2's families: one's own may have one vCPU, and be bare.
        let own = here.instance_type("box.one").unwrap();
        assert_eq!(own.offerings.len(), 2, "no spot");
        assert_eq!(on_demand(here.instance_type("c5a.large").unwrap()), 0.5);
    }

    #[test]
    fn line_ends_and_a_byte_order_mark_of_windows_are_no_matter() {
        let offerings = format!("\u{feff}{}", OFFERINGS.replace('\n', "\r\n"));
        assert_eq!(read(&TYPES.replace('\n', "\r\n"), &offerings).unwrap().regions().len(), 2);
    }

    #[test]
    fn holes_in_offerings_are_named() {
        let error = offerings_error("ab,0.5", "ab,");
        assert_eq!(error, "offers.csv:2: usd_per_hour is empty");
        let error = offerings_error("ab,0.5", "ab,-1");
        assert_eq!(error, "offers.csv:2: usd_per_hour is \"-1\"; it must be a number, at least 0");
        assert_eq!(offerings_error("0.6", "0"), "offers.csv:4: usd_per_hour must be above 0");
        assert_eq!(offerings_error("0.6", "inf"), "offers.csv:4: usd_per_hour must be above 0");
        let error = offerings_error("box.one", "box.two");
        assert_eq!(
            error,
            "offers.csv:3: \"box.two\" is no instance type: it has no line in the other file"
        );
        assert_eq!(offerings_error(",ab,", ",,"), "offers.csv:2: zones is empty");
        let error = offerings_error(",ab,", ",aa,");
        assert_eq!(
            error,
            "offers.csv:2: zones is \"aa\"; it must be letters, or names with | between"
        );
        let error = offerings_error("there,", "here,");
        assert_eq!(error, "offers.csv:4: c5a.large in here stands in an earlier line already");
        let error = offerings_error(",0.6,own", "");
        assert_eq!(error, "offers.csv:4: has 3 cells; the header has 5 columns");
        assert_eq!(
            offerings_error("usd_per_hour", "price"),
            "offers.csv: has no column \"usd_per_hour\"; \
             it must have region,name,zones,usd_per_hour,price_source"
        );
    }

    #[test]
    fn holes_in_types_are_named() {
        assert_eq!(
            types_error("amd64,2,", "amd64,-2,"),
            "types.csv:2: vcpu is \"-2\"; it must be a number, at least 1"
        );
        assert_eq!(
            types_error("amd64,2,", "x86,2,"),
            "types.csv:2: arch is \"x86\"; it must be amd64 or arm64"
        );
        assert_eq!(types_error("amd64,2,4096", "amd64,2,"), "types.csv:2: memory_mib is empty");
        assert_eq!(
            types_error("nitro,0", "nitro,no"),
            "types.csv:2: bare_metal is \"no\"; it must be 0 or 1"
        );
        assert_eq!(
            types_error("box.one", "c5a.large"),
            "types.csv:3: name \"c5a.large\" stands in an earlier line already"
        );
    }

    #[test]
    fn nothing_left_is_an_error() {
        let header = OFFERINGS.lines().next().unwrap();
        let error = read(TYPES, header).unwrap_err().to_string();
        assert_eq!(
            error,
            "offers.csv: has no offering; it must have a line for each region and type"
        );
        assert!(read(TYPES, "").unwrap_err().to_string().starts_with("offers.csv: is empty"));
        let one = TYPES.replace("amd64,2,4096", "amd64,1,4096");
        let error = read(&one, OFFERINGS).unwrap_err().to_string();
        assert_eq!(
            error,
            "offers.csv: no offering in there is of a type that Auto Mode runs: \
             it takes no type with one vCPU"
        );
    }
}

mod kwok_json {
    use serde_json::{Value, json};

    use super::*;

    fn offering(zone: &str, capacity_type: &str, price: f64) -> Value {
        json!({"Price": price, "Available": true, "Requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity_type]},
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]},
        ]})
    }

    fn entry(name: &str, memory: &str) -> Value {
        json!({
            "name": name,
            "offerings": [
                offering("test-zone-b", "spot", 0.02),
                offering("test-zone-a", "on-demand", 0.1),
            ],
            "architecture": "amd64",
            "operatingSystems": ["linux"],
            "resources": {"cpu": "4", "memory": memory, "pods": "64", "ephemeral-storage": "20Gi"},
        })
    }

    fn read(entries: &Value) -> Result<Catalog, CatalogError> {
        let text = serde_json::to_string_pretty(entries).unwrap();
        Catalog::from_kwok_json(File { name: "types.json", text: &text })
    }

    fn error(change: impl Fn(&mut Value)) -> String {
        let mut entry = entry("c-4x-amd64-linux", "8Gi");
        change(&mut entry);
        read(&json!([entry])).unwrap_err().to_string()
    }

    #[test]
    fn the_default_pool_can_use_such_types() {
        let catalog = read(&json!([
            entry("m-4x-amd64-linux", "32Gi"),
            entry("s-4x-amd64-linux", "16Gi"),
            entry("c-4x-amd64-linux", "8Gi"),
        ]))
        .unwrap();
        assert_eq!(catalog.regions(), ["test-zone"]);
        let region = catalog.region("test-zone").unwrap();
        assert_eq!(general_purpose_names(&region).len(), 3);
        let categories: Vec<&str> = region
            .types
            .iter()
            .map(|kind| kind.labels["eks.amazonaws.com/instance-category"].as_str())
            .collect();
        assert_eq!(categories, ["c", "r", "m"], "by GiB a vCPU");
        let kind = region.instance_type("c-4x-amd64-linux").unwrap();
        let label = |name: &str| kind.labels[&format!("eks.amazonaws.com/instance-{name}")].clone();
        assert_eq!([label("family"), label("size"), label("generation")], ["c", "4x", "5"]);
        assert_eq!([label("cpu"), label("memory")], ["4", "8192"]);
        assert_eq!(kind.offerings[0].zone, "test-zone-a");
        assert_eq!(kind.allocatable.cpu, 3920);
        assert_eq!(kind.allocatable.memory, (8192 - (11 * 64 + 355)) * overhead::MIB);
        assert_eq!(region.price_source("c-4x-amd64-linux", "spot"), None, "given, not made up");
    }

    fn general_purpose_names(region: &Region) -> Vec<&str> {
        general_purpose(region).into_iter().map(|kind| kind.name.as_str()).collect()
    }

    #[test]
    fn allocatable_and_labels_may_be_given() {
        let mut entry = entry("c7x.large", "8Gi");
        entry["allocatable"] = json!({"cpu": "3", "memory": "7Gi", "pods": "10"});
        entry["labels"] = json!({"rack": "r1", "eks.amazonaws.com/instance-category": "own"});
        let catalog = read(&json!([entry])).unwrap();
        let region = catalog.region("test-zone").unwrap();
        let kind = &region.types[0];
        assert_eq!((kind.allocatable.cpu, kind.allocatable.pods), (3000, 10));
        assert_eq!(kind.labels["rack"], "r1");
        assert_eq!(kind.labels["eks.amazonaws.com/instance-category"], "own");
        assert_eq!(kind.labels["eks.amazonaws.com/instance-generation"], "7", "from the name");
    }

    #[test]
    fn regions_come_from_zones() {
        let mut entry = entry("c5a.large", "8Gi");
        entry["offerings"] = json!([
            offering("us-west-2a", "on-demand", 0.1),
            offering("eu-west-1b", "on-demand", 0.2),
            offering("hall", "on-demand", 0.3),
        ]);
        let catalog = read(&json!([entry])).unwrap();
        assert_eq!(catalog.regions(), ["eu-west-1", "hall", "us-west-2"]);
        assert_eq!(catalog.region("us-west-2").unwrap().types[0].offerings.len(), 1);
    }

    #[test]
    fn holes_are_named() {
        let first = error(|e| e["offerings"][0]["Price"] = Value::Null);
        assert_eq!(
            first,
            "types.json:8: invalid type: null, \
             expected a price in USD per hour, a number above 0"
        );
        let zero = error(|e| e["offerings"][0]["Price"] = json!(0));
        assert_eq!(zero, "types.json:8: Price is 0; it must be above 0, USD per hour");
        let gone = error(|e| drop(e["offerings"][0].as_object_mut().unwrap().remove("Price")));
        assert!(gone.ends_with("missing field `Price`"), "{gone}");
        let negative = error(|e| e["resources"]["cpu"] = json!("-4"));
        assert!(negative.ends_with("cpu is -4; it must not be negative"), "{negative}");
        let missing = error(|e| drop(e["resources"].as_object_mut().unwrap().remove("memory")));
        assert!(missing.ends_with("a machine has cpu, memory and pods"), "{missing}");
        let wrong = error(|e| e["resources"]["cpu"] = json!("4x"));
        assert!(wrong.contains("quantities must match"), "{wrong}");
        let none = error(|e| e["offerings"] = json!([]));
        assert_eq!(
            none,
            "types.json: type \"c-4x-amd64-linux\": offerings is empty; it needs at least one"
        );
        let kind = error(|e| e["offerings"][0] = offering("test-zone-a", "cheap", 0.1));
        assert!(kind.ends_with("it must be on-demand, spot or reserved"), "{kind}");
        let twice = error(|e| e["offerings"][0] = offering("test-zone-a", "on-demand", 0.2));
        assert!(twice.ends_with("has two offerings of on-demand in test-zone-a"), "{twice}");
        let arch = error(|e| e["architecture"] = json!("x86"));
        assert!(arch.contains("unknown variant `x86`, expected `amd64` or `arm64`"), "{arch}");
        let typo = error(|e| e["alocatable"] = json!({}));
        assert!(typo.contains("unknown field `alocatable`, expected one of `name`"), "{typo}");
        let tiny = error(|e| e["resources"]["memory"] = json!("512Mi"));
        assert!(tiny.contains("a kubelet with 64 pods keeps 1059Mi of memory"), "{tiny}");
        let more = error(|e| e["allocatable"] = json!({"cpu": "5", "memory": "1Gi", "pods": "1"}));
        assert!(more.ends_with("allocatable is more than resources"), "{more}");
        let region = read(&json!([])).unwrap_err().to_string();
        assert!(region.starts_with("types.json: is an empty list"), "{region}");
        let broken = Catalog::from_kwok_json(File { name: "types.json", text: "[\n{" });
        assert!(broken.unwrap_err().to_string().starts_with("types.json:2: EOF"));
    }
}
