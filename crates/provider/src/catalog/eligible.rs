//! Which EC2 types Auto Mode runs.
//!
//! Source: the EKS user guide, "Create a Node Pool for EKS Auto Mode", its list of supported
//! instances.

use std::collections::BTreeSet;

use super::ec2::Shape;

/// Families that are listed one by one.
const FAMILIES: [&str; 63] = [
    "c8a", "c8g", "c8gb", "c8gd", "c8gn", "c8i", "c8i-flex", "c8id", "d3", "d3en", "g4ad", "g4dn",
    "g5", "g5g", "g6", "g6e", "g7e", "gr6", "hpc8a", "i3", "i3en", "i4g", "i4i", "i7i", "i7ie",
    "i8g", "i8ge", "im4gn", "inf1", "inf2", "is4gen", "m8a", "m8azn", "m8g", "m8gb", "m8gd",
    "m8gn", "m8i", "m8i-flex", "m8id", "p3dn", "p4d", "p4de", "p5", "p5e", "p5en", "p6-b200",
    "p6-b300", "t2", "t3", "t3a", "t4g", "trn1", "trn1n", "trn2", "x2gd", "x2idn", "x2iedn",
    "x2iezn", "x8aedz", "x8g", "x8i", "z1d",
];
/// Categories of which whole generations are listed.
const GENERATIONS: [(&str, std::ops::RangeInclusive<i64>); 3] =
    [("c", 4..=7), ("m", 4..=7), ("r", 4..=8)];

/// Whether Auto Mode runs machines of this shape: a listed family, more than one vCPU, not nano,
/// micro or small, no bare metal. The rules are about EC2's families `ec2`; a family that a user
/// made up is taken as it is.
pub(super) fn eligible(shape: &Shape, ec2: &BTreeSet<String>) -> bool {
    let generation = GENERATIONS
        .iter()
        .any(|(category, range)| shape.category == *category && range.contains(&shape.generation));
    let listed = generation || FAMILIES.contains(&shape.family.as_str());
    let large = shape.vcpu > 1 && !["nano", "micro", "small"].contains(&shape.size.as_str());
    !ec2.contains(&shape.family) || (listed && large && !shape.bare_metal)
}
