//! Pods that are placed alike.

use std::sync::Arc;

use super::class::Class;
use super::tally::Rule;
use crate::pod::{Pod, PodKey};

/// Classes that come to the same once their domains are settled: where they may go, and with whom
/// they may share a machine.
#[derive(Clone, Debug)]
pub(crate) struct Lot {
    /// What one unit asks for: a pod, kept to its domains; of a bundle, all of its pods.
    pub(crate) sample: Arc<Pod>,
    /// With which pods a unit may share a machine.
    pub(crate) rule: Rule,
    /// To which domains it is kept: topology key and values.
    pub(crate) pins: Vec<Pin>,
    /// Whether all its pods go on one machine, as one unit.
    pub(crate) bundle: bool,
    /// The classes.
    pub(crate) parts: Vec<Class>,
}

/// A topology key and the values that a lot is kept to.
pub(crate) type Pin = (String, Vec<String>);

/// Pods that were taken out of a lot.
#[derive(Default)]
pub(crate) struct Taken {
    /// Those that are there.
    pub(crate) pods: Vec<PodKey>,
    /// How many were only promised.
    pub(crate) promised: u32,
    /// How many of each class, by its name.
    pub(crate) planned: Vec<(String, u32)>,
}

impl Lot {
    /// Pods of a class that are placed one by one.
    pub(crate) fn new(class: Class, rule: Rule) -> Self {
        let sample = class.sample.clone();
        Self { sample, rule, pins: Vec::new(), bundle: false, parts: vec![class] }
    }

    /// The lot, of which only the sample is left here.
    pub(crate) fn taken(&mut self) -> Self {
        let parts = std::mem::take(&mut self.parts);
        let (rule, pins) = (std::mem::take(&mut self.rule), std::mem::take(&mut self.pins));
        Self { sample: self.sample.clone(), rule, pins, bundle: self.bundle, parts }
    }

    /// How many units there are.
    pub(crate) fn count(&self) -> u32 {
        let pods = self.pods();
        if self.bundle { pods.min(1) } else { pods }
    }

    /// How many pods there are, promised ones included.
    pub(crate) fn pods(&self) -> u32 {
        self.parts.iter().map(Class::count).fold(0, u32::saturating_add)
    }

    /// How many pods `count` units have.
    pub(crate) fn pods_of(&self, count: u32) -> u32 {
        if self.bundle && count > 0 { self.pods() } else { count }
    }

    /// Takes `count` units out.
    pub(crate) fn take(&mut self, count: u32) -> Taken {
        let mut left = self.pods_of(count);
        let mut taken = Taken::default();
        for part in &mut self.parts {
            let some = part.count().min(left);
            left -= some;
            if some > 0 {
                taken.add(part, some);
            }
        }
        taken
    }

    /// Takes `count` pods out of a part.
    pub(crate) fn take_part(&mut self, part: usize, count: u32) -> Taken {
        let mut taken = Taken::default();
        taken.add(&mut self.parts[part], count);
        taken
    }
}

impl Taken {
    /// One pod of a class.
    pub(crate) fn one(pod: &Pod, class: &Class) -> Self {
        let key = (pod.namespace.clone(), pod.name.clone());
        Self { pods: vec![key], promised: 0, planned: vec![(class.name().to_owned(), 1)] }
    }

    fn add(&mut self, class: &mut Class, count: u32) {
        let (pods, promised) = class.take(count);
        self.pods.extend(pods.iter().map(|pod| (pod.namespace.clone(), pod.name.clone())));
        self.promised += promised;
        self.planned.push((class.name().to_owned(), count));
    }

    /// As [`crate::plan::planned`] reads it.
    pub(crate) fn text(&self) -> String {
        let mut planned: Vec<(&str, u32)> = Vec::new();
        for (class, count) in &self.planned {
            match planned.iter_mut().find(|(known, _)| known == class) {
                Some((_, known)) => *known += count,
                None => planned.push((class, *count)),
            }
        }
        let texts = planned.iter().map(|(class, count)| format!("{class}={count}"));
        texts.collect::<Vec<_>>().join(",")
    }

    pub(crate) fn join(&mut self, other: Self) {
        self.pods.extend(other.pods);
        self.promised += other.promised;
        self.planned.extend(other.planned);
    }
}
