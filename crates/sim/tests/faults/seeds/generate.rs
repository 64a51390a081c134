//! Cases from seeds: a pure function.

use aerostat_clock::{Seeds, Stream};
use rand::RngExt;

use super::case::{Budget, Case, Daemon, Guard, Happening, Job, Pool, What, Workload};

/// For how long things begin to happen, in seconds.
const ACTIVE: u64 = 600;
/// One seed in so many has a burst of a thousand pods.
const BURSTS: u64 = 150;
/// The kinds whose watches are troubled one by one.
const KINDS: &[&str] = &["pods", "nodes", "nodeclaims", "nodepools", "poddisruptionbudgets"];

/// The case of a seed.
pub fn case(seed: u64) -> Case {
    let mut chance = Chance(Seeds::new(seed).stream("case"));
    let mut pools = chance.pools();
    let workloads = chance.workloads(&pools);
    let mut happenings = Vec::new();
    for _ in 0..chance.between(2, 6) {
        let what = chance.deed(&pools, &workloads);
        happenings.push(Happening { at: chance.between(60, ACTIVE), what });
    }
    for _ in 0..chance.between(1, 5) {
        let what = chance.fault(&workloads);
        happenings.push(Happening { at: chance.between(2, ACTIVE), what });
    }
    if seed % BURSTS == BURSTS - 1 {
        let what = What::Burst { pods: 1000, secs: 300 };
        happenings.push(Happening { at: chance.between(60, 300), what });
    }
    // A stream of their own, so that the rest of each seed stays what it was.
    let mut chance = Chance(Seeds::new(seed).stream("more"));
    chance.schedules(&mut pools);
    let (jobs, daemons) = (chance.jobs(), chance.daemons());
    if pools.len() > 1 && chance.happens(15) {
        let what = What::DeletePool { pool: chance.one(&pools[1..]).name };
        happenings.push(Happening { at: chance.between(60, ACTIVE), what });
    }
    happenings.sort_by_key(|happening| happening.at);
    Case { seed, pools, workloads, jobs, daemons, happenings }
}

struct Chance(Stream);

impl Chance {
    /// From `from` to `to`, both included.
    fn between(&mut self, from: u64, to: u64) -> u64 {
        self.0.random_range(from..=to)
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.0.random_range(0..of.len())].clone()
    }

    /// Whether something of `percent` happens.
    fn happens(&mut self, percent: u64) -> bool {
        self.between(1, 100) <= percent
    }

    fn maybe<T: Clone>(&mut self, percent: u64, of: &[T]) -> Option<T> {
        self.happens(percent).then(|| self.one(of))
    }

    fn pools(&mut self) -> Vec<Pool> {
        let mut pools = vec![self.pool("base")];
        if self.happens(50) {
            let mut other = self.pool("other");
            other.weight = Some(10);
            other.limit_cpu = self.maybe(50, &[4, 8, 12, 16]);
            other.limit_nodes = self.maybe(30, &[1, 2, 3]);
            pools.push(other);
        }
        if self.happens(10) {
            let mut fixed = self.pool("fixed");
            fixed.replicas = Some(self.one(&[1, 2]));
            pools.push(fixed);
        }
        pools
    }

    fn pool(&mut self, name: &str) -> Pool {
        let types: [&[&str]; 4] =
            [&["on-demand"], &["spot"], &["on-demand", "spot"], &["on-demand", "spot"]];
        let policies =
            ["WhenEmpty", "WhenEmptyOrUnderutilized", "WhenEmptyOrUnderutilized", "Balanced"];
        Pool {
            name: name.to_owned(),
            capacity_types: self.one(&types).iter().map(|&kind| kind.to_owned()).collect(),
            weight: None,
            limit_cpu: None,
            limit_nodes: None,
            budgets: self.budgets(),
            consolidate_after: self.maybe(85, &[0, 15, 30, 60, 120]),
            policy: self.one(&policies).to_owned(),
            expire_after: self.maybe(15, &[1200, 1800, 3600]),
            termination_grace: self.maybe(40, &[30, 60, 300]),
            replicas: None,
        }
    }

    fn budgets(&mut self) -> Vec<Budget> {
        let budget = |nodes: &str, reasons: Option<&[&str]>| Budget {
            nodes: nodes.to_owned(),
            reasons: reasons.map(|list| list.iter().map(|&reason| reason.to_owned()).collect()),
            minutes: None,
        };
        match self.between(0, 6) {
            0 => vec![budget("0", None)],
            1 => vec![budget("1", None)],
            2 => vec![budget("50%", None)],
            3 => vec![budget("100%", None)],
            4 => vec![budget("100%", None), budget("0", Some(&["Underutilized"]))],
            5 => vec![budget("2", None), budget("1", Some(&["Drifted", "Empty"]))],
            _ => vec![budget("10%", None)],
        }
    }

    /// Some pools get a budget that holds for a part of the time only.
    fn schedules(&mut self, pools: &mut [Pool]) {
        for pool in pools {
            if self.happens(25) {
                let (nodes, reasons) = (self.one(&["0", "0", "1"]), self.maybe(30, &["Drifted"]));
                pool.budgets.push(Budget {
                    nodes: nodes.to_owned(),
                    reasons: reasons.map(|reason| vec![reason.to_owned()]),
                    minutes: Some((self.between(0, 12), self.between(1, 15))),
                });
            }
        }
    }

    fn jobs(&mut self) -> Vec<Job> {
        let count = if self.happens(25) { self.between(1, 2) } else { 0 };
        let job = |number| Job {
            name: format!("j{number}"),
            pods: u32::try_from(self.between(1, 4)).unwrap_or(1),
            cpu_milli: self.one(&[250, 500, 1000]),
            secs: self.between(20, 600),
        };
        (1..=count).map(job).collect()
    }

    fn daemons(&mut self) -> Vec<Daemon> {
        let sizes = self.maybe(25, &[50, 100, 200]);
        sizes.map(|cpu_milli| Daemon { name: "d1".to_owned(), cpu_milli }).into_iter().collect()
    }

    fn workloads(&mut self, pools: &[Pool]) -> Vec<Workload> {
        let count = self.between(1, 4);
        (1..=count).map(|number| self.workload(number, pools)).collect()
    }

    fn workload(&mut self, number: u64, pools: &[Pool]) -> Workload {
        let replicas = self.between(1, 5);
        let replicas = u32::try_from(replicas).unwrap_or(1);
        let guard = match self.between(0, 5) {
            0 => Some(Guard::MaxUnavailable(0)),
            1 | 2 => Some(Guard::MaxUnavailable(1)),
            3 => Some(Guard::MinAvailable(replicas.saturating_sub(1).max(1))),
            _ => None,
        };
        let pinned: Vec<String> = pools.iter().map(|pool| pool.name.clone()).collect();
        Workload {
            name: format!("w{number}"),
            replicas,
            cpu_milli: self.one(&[100, 250, 500, 1000, 1500]),
            memory_mib: self.one(&[128, 512, 1024]),
            grace: self.one(&[1, 5, 30, 60]),
            guard,
            do_not_disrupt: self.maybe(15, &["true".to_owned(), "5m".to_owned()]),
            ignores_term: self.happens(20),
            pool: self.maybe(20, &pinned),
            spread: self.maybe(25, &["zone".to_owned(), "host".to_owned()]),
            move_usd: self.maybe(60, &["0".to_owned(), "0.01".to_owned()]),
        }
    }

    /// What somebody does.
    fn deed(&mut self, pools: &[Pool], workloads: &[Workload]) -> What {
        let workload = self.one(workloads);
        let node = usize::try_from(self.between(0, 5)).unwrap_or(0);
        let few = |chance: &mut Self, most| u32::try_from(chance.between(0, most)).unwrap_or(0);
        match self.between(0, 11) {
            0..=4 => What::Scale { workload: workload.name, replicas: few(self, 6) },
            5 => What::Remove { workload: workload.name },
            6 => What::Churn { workload: workload.name, pods: few(self, 3) },
            7 => What::Drift { pool: self.one(pools).name },
            8 => What::DeleteNode { node },
            9 => What::DeleteClaim { node },
            10 => What::Replace { node },
            _ => What::Burst { pods: few(self, 20), secs: self.between(30, 300) },
        }
    }

    /// What goes wrong.
    fn fault(&mut self, workloads: &[Workload]) -> What {
        let node = usize::try_from(self.between(0, 5)).unwrap_or(0);
        let workload = self.one(workloads).name;
        let kinds: Vec<String> = KINDS.iter().map(|&kind| kind.to_owned()).collect();
        match self.between(0, 29) {
            0..=6 => What::Crash { write: self.between(0, 12), after: self.happens(50) },
            7 | 8 => What::Stale { kind: self.maybe(70, &kinds), secs: self.between(5, 60) },
            9 => What::DropWatches,
            10 => What::Gone { kind: self.one(&kinds) },
            11 | 12 => What::Answer {
                code: self.one(&[409, 429, 500, 503]),
                every: self.between(1, 4),
                secs: self.between(5, 60),
            },
            13 | 14 => What::Unanswered {
                every: self.between(1, 4),
                done: self.happens(70),
                secs: self.between(5, 60),
            },
            15 | 16 => What::SoldOut {
                instance_type: self
                    .maybe(50, &["m-2x-amd64-linux".to_owned(), "m-4x-amd64-linux".to_owned()]),
                zone: self.maybe(30, &["test-zone-a".to_owned(), "test-zone-b".to_owned()]),
                capacity_type: self.maybe(30, &["spot".to_owned(), "on-demand".to_owned()]),
                secs: self.between(30, 300),
            },
            17 => What::NeverJoin { machines: usize::try_from(self.between(1, 2)).unwrap_or(1) },
            18 => What::OrdersFail { orders: 2 },
            19 => What::OrdersUnanswered { orders: 1 },
            20 => What::EndsFail { ends: 2 },
            21 => What::ListFails { secs: self.between(60, 600) },
            22 => What::NotReady { node, secs: self.between(30, 300) },
            23 => What::NotReady { node, secs: self.one(&[120, 240, 360, 600, 2100]) },
            24 => What::Interrupt { node },
            25 => What::Lose { node },
            26 => What::Terminate { node },
            27 => What::HoldNode { node, secs: self.between(60, 300) },
            28 => match self.happens(50) {
                true => What::HoldPod { workload, secs: self.between(60, 400) },
                false => What::Freeze { workload, secs: self.between(60, 400) },
            },
            _ => What::Jump { secs: self.between(5, 300) },
        }
    }
}
