//! Images: their names, sizes and digests, and what a node has of them.

use std::collections::BTreeMap;

use aerostat_clock::{Seeds, Stream};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ContainerImage;
use rand::RngExt;

use super::settings::Settings;

/// A node's status lists so many images at most. Source: kubelet's `nodeStatusMaxImages`.
const MAX_LISTED: usize = 50;

/// Compressed sizes for amd64, rounded except where an exact one was observed. A name without a
/// tag stands for all tags that are not listed.
#[rustfmt::skip]
const SIZES: &[(&str, u64)] = &[
    ("perl:5.34.0", 336_374_010),
    ("alpine", 3_800_000),
    ("amazonlinux", 53_000_000),
    ("busybox", 2_200_000),
    ("debian", 48_500_000),
    ("golang", 310_000_000),
    ("hello-world", 2_500),
    ("httpd", 59_000_000),
    ("mariadb", 115_000_000),
    ("memcached", 30_000_000),
    ("mongo", 290_000_000),
    ("mysql", 240_000_000),
    ("nginx", 72_000_000),
    ("node", 400_000_000),
    ("perl", 345_000_000),
    ("php", 180_000_000),
    ("postgres", 155_000_000),
    ("python", 390_000_000),
    ("rabbitmq", 110_000_000),
    ("redis", 52_000_000),
    ("ruby", 385_000_000),
    ("tomcat", 210_000_000),
    ("ubuntu", 29_700_000),
    ("registry.k8s.io/pause", 320_000),
    ("registry.k8s.io/e2e-test-images/agnhost", 52_000_000),
    ("public.ecr.aws/eks-distro/kubernetes/pause", 300_000),
    ("public.ecr.aws/nginx/nginx", 72_000_000),
];

/// Digests that were observed.
const DIGESTS: &[(&str, &str)] =
    &[("perl:5.34.0", "2584f46a92d1042b25320131219e5832c5b3e75086dfaaff33e4fda7a9f47d99")];

/// The name as people write it: without the default registry and the default tag.
fn familiar(image: &str) -> String {
    let name = ["docker.io/library/", "index.docker.io/library/", "docker.io/", "library/"]
        .iter()
        .find_map(|prefix| image.strip_prefix(prefix))
        .unwrap_or(image);
    name.strip_suffix(":latest").unwrap_or(name).to_owned()
}

/// As [`familiar`], without tag and digest.
pub(super) fn familiar_repository(image: &str) -> String {
    let name = familiar(image);
    let name = name.split('@').next().unwrap_or_default();
    let tag = name.rfind(':').filter(|colon| !name[*colon..].contains('/'));
    name[..tag.unwrap_or(name.len())].to_owned()
}

/// The full name: `docker.io/library/perl:5.34.0` for `perl:5.34.0`.
pub(super) fn full_name(image: &str) -> String {
    let first = image.split('/').next().unwrap_or_default();
    let registry = image.contains('/') && (first.contains(['.', ':']) || first == "localhost");
    let name = match (registry, image.contains('/')) {
        (true, _) => image.to_owned(),
        (false, true) => format!("docker.io/{image}"),
        (false, false) => format!("docker.io/library/{image}"),
    };
    let last = name.rsplit('/').next().unwrap_or_default();
    if last.contains([':', '@']) { name } else { format!("{name}:latest") }
}

/// What an image is, wherever it is pulled.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Image {
    /// `docker.io/library/perl:5.34.0`.
    pub(super) name: String,
    /// `docker.io/library/perl@sha256:…`.
    pub(super) id: String,
    /// Compressed, in bytes.
    pub(super) size: u64,
}

impl Image {
    /// The image that a container calls `image`. Sizes come from the settings, then from the
    /// table above; of an unknown image they are 20 MB to 300 MB, drawn by its name.
    pub(super) fn of(image: &str, settings: &Settings, seeds: &Seeds) -> Self {
        let name = full_name(image);
        let familiar = familiar(image);
        let repository = familiar_repository(image);
        let mut stream = seeds.stream(&format!("kubelet/image/{name}"));
        let drawn = stream.random_range(20_000_000..300_000_000);
        let by_settings = [image, &familiar, &repository];
        let size = by_settings.iter().find_map(|name| settings.images.get(*name)).copied();
        let built_in = |wanted: &str| SIZES.iter().find(|(name, _)| *name == wanted);
        let size = size
            .or_else(|| {
                built_in(&familiar).or_else(|| built_in(&repository)).map(|(_, size)| *size)
            })
            .unwrap_or(drawn);
        let given = name.split_once('@').map(|(_, digest)| digest.to_owned());
        let digest = given.unwrap_or_else(|| {
            let observed = DIGESTS.iter().find(|(name, _)| *name == familiar);
            let digest =
                observed.map_or_else(|| hex_256(&mut stream), |(_, digest)| (*digest).to_owned());
            format!("sha256:{digest}")
        });
        let full_repository = full_name(&repository);
        let full_repository = full_repository.strip_suffix(":latest").unwrap_or_default();
        Self { id: format!("{full_repository}@{digest}"), name, size }
    }
}

/// 64 random hex digits.
pub(super) fn hex_256(stream: &mut Stream) -> String {
    (0..2).map(|_| format!("{:032x}", stream.random::<u128>())).collect()
}

/// How long it takes to pull so many bytes.
pub(super) fn transfer(size: u64, settings: &Settings, stream: &mut Stream) -> SignedDuration {
    let nanos = u128::from(size) * 1_000_000_000 / u128::from(settings.pull_bytes_per_second.get());
    let exact = SignedDuration::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX));
    if settings.pull_jitter == 0.0 {
        return exact;
    }
    let factor = 1.0 + settings.pull_jitter * stream.random_range(-1.0..=1.0);
    SignedDuration::try_from_secs_f64(exact.as_secs_f64() * factor).unwrap_or(exact)
}

/// A pull that was ordered, as it will have been.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pull {
    /// When it is done.
    pub(super) finish: Timestamp,
    /// How long it took once it was its turn.
    pub(super) took: SignedDuration,
    /// How long it took since it was ordered.
    pub(super) waited: SignedDuration,
}

/// The images of one node. Pulls run one after the other, as kubelets do by default.
#[derive(Debug, Default)]
pub(super) struct Images {
    /// By full name: the image, and since (or from) when it is there.
    known: BTreeMap<String, (Image, Timestamp)>,
    busy_until: Timestamp,
}

impl Images {
    pub(super) fn has(&self, name: &str, now: Timestamp) -> bool {
        self.known.get(name).is_some_and(|(_, since)| *since <= now)
    }

    /// Orders a pull that takes `transfer` if the image is not there by its turn, else `check`.
    pub(super) fn pull(
        &mut self,
        image: &Image,
        transfer: SignedDuration,
        check: SignedDuration,
        now: Timestamp,
    ) -> Pull {
        let start = self.busy_until.max(now);
        let took = if self.has(&image.name, start) { check } else { transfer };
        let finish = start + took;
        self.busy_until = finish;
        self.known.entry(image.name.clone()).or_insert_with(|| (image.clone(), finish));
        Pull { finish, took, waited: finish.duration_since(now) }
    }

    /// When the next image is there after `at`.
    pub(super) fn next_after(&self, at: Timestamp) -> Option<Timestamp> {
        self.known.values().map(|(_, since)| *since).filter(|since| *since > at).min()
    }

    /// How many the node's status lists.
    pub(super) fn count(&self, now: Timestamp) -> usize {
        self.known.values().filter(|(_, since)| *since <= now).count().min(MAX_LISTED)
    }

    /// As the node's status lists them: the largest first.
    pub(super) fn listed(&self, now: Timestamp) -> Vec<ContainerImage> {
        let mut images: Vec<&Image> = self
            .known
            .values()
            .filter(|(_, since)| *since <= now)
            .map(|(image, _)| image)
            .collect();
        images.sort_by_key(|image| std::cmp::Reverse(image.size));
        images.truncate(MAX_LISTED);
        images
            .into_iter()
            .map(|image| ContainerImage {
                names: Some(vec![image.id.clone(), image.name.clone()]),
                size_bytes: i64::try_from(image.size).ok(),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (short, full) in [
            ("perl:5.34.0", "docker.io/library/perl:5.34.0"),
            ("ubuntu", "docker.io/library/ubuntu:latest"),
            ("grafana/loki", "docker.io/grafana/loki:latest"),
            ("localhost:5000/a", "localhost:5000/a:latest"),
            ("ghcr.io/a/b@sha256:00", "ghcr.io/a/b@sha256:00"),
        ] {
            assert_eq!(full_name(short), full);
        }
        assert_eq!(familiar_repository("docker.io/library/perl:5.34.0"), "perl");
        assert_eq!(familiar_repository("localhost:5000/a"), "localhost:5000/a");
    }

    #[test]
    fn sizes_come_from_settings_then_table_then_name() {
        let mut settings = Settings::default();
        let seeds = Seeds::new(1);
        let size = |image: &str, settings: &Settings| Image::of(image, settings, &seeds).size;
        assert_eq!(size("docker.io/library/perl:5.34.0", &settings), 336_374_010);
        assert_eq!(size("nginx:1.27", &settings), 72_000_000);
        let unknown = size("example.com/app:1", &settings);
        assert!((20_000_000..300_000_000).contains(&unknown));
        assert_eq!(size("example.com/app:1", &settings), unknown);
        settings.images.insert("nginx".into(), 7);
        assert_eq!(size("nginx:1.27", &settings), 7);
    }

    #[test]
    fn ids_carry_the_observed_or_given_digest() {
        let id = |image| Image::of(image, &Settings::default(), &Seeds::new(1)).id;
        let perl = "docker.io/library/perl@sha256:2584f46a92d1042b25320131219e5832c5b3e75086dfaaff33e4fda7a9f47d99";
        assert_eq!(id("perl:5.34.0"), perl);
        assert_eq!(id("ghcr.io/a/b@sha256:00"), "ghcr.io/a/b@sha256:00");
    }

    #[test]
    fn pulls_run_one_after_the_other() {
        let seconds = SignedDuration::from_secs;
        let image = |name: &str| Image::of(name, &Settings::default(), &Seeds::new(1));
        let start = Timestamp::UNIX_EPOCH;
        let mut images = Images::default();
        let first = images.pull(&image("a"), seconds(10), seconds(1), start);
        let second = images.pull(&image("b"), seconds(5), seconds(1), start + seconds(2));
        let again = images.pull(&image("a"), seconds(10), seconds(1), start + seconds(3));
        assert_eq!((first.took, first.waited), (seconds(10), seconds(10)));
        assert_eq!((second.took, second.waited), (seconds(5), seconds(13)));
        assert_eq!((again.took, again.waited), (seconds(1), seconds(13)));
        assert!(!images.has("docker.io/library/b:latest", start + seconds(14)));
        assert!(images.has("docker.io/library/b:latest", start + seconds(15)));
        assert_eq!(images.listed(start + seconds(12)).len(), 1);
    }
}
