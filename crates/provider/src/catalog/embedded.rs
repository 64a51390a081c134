//! The catalog that is compiled in: gzip files that `cargo xtask generate` writes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use flate2::read::GzDecoder;

use super::ec2::{self, Shape};
use super::{File, Region};

const TYPES: &[u8] = include_bytes!("../../data/instance-types.csv.gz");
const KWOK: &[u8] = include_bytes!("../../data/kwok-instance-types.json.gz");

macro_rules! offerings {
    ($($region:literal),* $(,)?) => {
        /// The offerings of each region, by its name.
        pub(super) const REGIONS: &[(&str, &[u8])] =
            &[$(($region, include_bytes!(concat!("../../data/offerings/", $region, ".csv.gz")))),*];
    };
}

offerings![
    "ap-northeast-1",
    "ap-northeast-2",
    "ap-south-1",
    "ap-southeast-1",
    "ap-southeast-2",
    "ca-central-1",
    "eu-central-1",
    "eu-north-1",
    "eu-west-1",
    "sa-east-1",
    "us-east-1",
    "us-east-2",
    "us-west-2",
];

/// One region; `None` if it is not there.
pub(super) fn region(name: &str) -> Option<Region> {
    let (_, offerings) = REGIONS.iter().find(|(known, _)| *known == name)?;
    let (shapes, offerings) = (shapes(), inflate(offerings));
    let file = File { name: "offerings.csv", text: &offerings };
    let mut regions = ec2::regions(&shapes, file, &families_of(&shapes))
        .expect("the embedded offerings are read by a test");
    regions.remove(name)
}

/// The families of EC2.
pub(super) fn families() -> BTreeSet<String> {
    families_of(&shapes())
}

fn families_of(shapes: &BTreeMap<String, Shape>) -> BTreeSet<String> {
    shapes.values().map(|shape| shape.family.clone()).collect()
}

/// All types of EC2, those that Auto Mode does not run included.
pub(super) fn shapes() -> BTreeMap<String, Shape> {
    let text = inflate(TYPES);
    ec2::shapes(File { name: "instance-types.csv", text: &text })
        .expect("the embedded types are read by a test")
}

/// The instance types of Karpenter's KWOK provider, in its own format.
pub(super) fn kwok() -> String {
    inflate(KWOK)
}

fn inflate(data: &[u8]) -> String {
    let mut text = String::new();
    GzDecoder::new(data).read_to_string(&mut text).expect("the embedded data is gzip of a text");
    text
}
