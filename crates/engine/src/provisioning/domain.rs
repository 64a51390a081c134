//! What a machine under planning may still become, as pods with constraints join it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use aerostat_api::Requirements;

use super::bits::Bits;
use super::kinds::{Kind, kinds};
use super::market::{Store, Way};
use super::packing::Bin;
use crate::cost::Price;
use crate::limits::{Headroom, Machine};
use crate::pod::Constraints;
use crate::predicates;

/// How one set of constraints can be met in each pool of the market.
pub(crate) struct Group {
    ways: Vec<Vec<Way>>,
    ports: Vec<(String, String, i32)>,
}

/// What a machine may be: the meet of a pool's template and its pods' constraints.
pub(crate) struct Domain {
    /// Index of its pool in the market.
    pub(crate) store: usize,
    pub(crate) requirements: Requirements,
    /// The offers that are left.
    pub(crate) offers: Bits,
    /// Their shapes.
    pub(crate) shapes: Bits,
    ports: Vec<(String, String, i32)>,
    /// The shapes worth buying, cheapest first.
    menu: Vec<Item>,
}

/// A shape and its lowest price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) shape: usize,
    pub(crate) price: Price,
}

/// Domains, each made once.
pub(crate) struct Domains<'m, 'a> {
    pub(crate) stores: &'m [Store<'a>],
    groups: Vec<Group>,
    list: Vec<Domain>,
    joined: BTreeMap<(usize, usize), Rc<[usize]>>,
    kinds: RefCell<BTreeMap<usize, Rc<[Kind<'m, 'a>]>>>,
}

impl Group {
    pub(crate) fn new(constraints: &Constraints, stores: &[Store<'_>]) -> Self {
        let ways = stores.iter().map(|store| store.ways(constraints)).collect();
        Self { ways, ports: constraints.host_ports.clone() }
    }

    /// Whether no two of its pods can share a machine.
    pub(crate) fn is_exclusive(&self) -> bool {
        !self.ports.is_empty()
    }
}

impl Domain {
    fn new(
        index: usize,
        store: &Store<'_>,
        requirements: Requirements,
        offers: Bits,
        ports: Vec<(String, String, i32)>,
    ) -> Self {
        let mut shapes = Bits::empty(store.shapes.len());
        offers.iter().for_each(|at| shapes.insert(store.offers[at].shape));
        let menu = menu(store, &offers);
        Self { store: index, requirements, offers, shapes, ports, menu }
    }
}

impl<'m, 'a> Domains<'m, 'a> {
    /// The first domains are those of the pools' templates, in their order.
    pub(crate) fn new(stores: &'m [Store<'a>], groups: Vec<Group>) -> Self {
        let root = |(index, store): (usize, &Store<'a>)| {
            let offers = Bits::full(store.offers.len());
            Domain::new(index, store, store.template.clone(), offers, Vec::new())
        };
        let list = stores.iter().enumerate().map(root).collect();
        Self { stores, groups, list, joined: BTreeMap::new(), kinds: RefCell::default() }
    }

    pub(crate) fn get(&self, id: usize) -> &Domain {
        &self.list[id]
    }

    pub(crate) fn store(&self, id: usize) -> &'m Store<'a> {
        &self.stores[self.list[id].store]
    }

    pub(crate) fn group(&self, group: usize) -> &Group {
        &self.groups[group]
    }

    /// What a machine may be once pods of `group` join it: one domain for each way that is open.
    pub(crate) fn join(&mut self, id: usize, group: usize) -> Rc<[usize]> {
        if let Some(known) = self.joined.get(&(id, group)) {
            return known.clone();
        }
        let joined: Rc<[usize]> = self.join_anew(id, group).into();
        self.joined.insert((id, group), joined.clone());
        joined
    }

    fn join_anew(&mut self, id: usize, group: usize) -> Vec<usize> {
        let domain = &self.list[id];
        let store = &self.stores[domain.store];
        let mut found: Vec<Domain> = Vec::new();
        let wanted = &self.groups[group].ports;
        if predicates::ports_clash(wanted, &domain.ports) {
            return Vec::new();
        }
        for way in &self.groups[group].ways[domain.store] {
            if domain.requirements.compatible(&way.requirements, &store.well_known).is_err() {
                continue;
            }
            let mut offers = domain.offers.clone();
            offers.intersect(&way.offers);
            if !wanted.is_empty() {
                let mut free = Bits::empty(store.offers.len());
                for at in offers.iter() {
                    let shape = &store.shapes[store.offers[at].shape];
                    if !predicates::ports_clash(wanted, &shape.ports) {
                        free.insert(at);
                    }
                }
                offers = free;
            }
            if offers.is_empty() {
                continue;
            }
            let mut requirements = domain.requirements.clone();
            requirements.merge(&way.requirements);
            let ports = domain.ports.iter().chain(wanted).cloned().collect();
            found.push(Domain::new(domain.store, store, requirements, offers, ports));
        }
        found.into_iter().map(|domain| self.intern(domain)).collect()
    }

    /// Whether pods of `group` can join a machine of this domain without narrowing what it may be;
    /// host ports aside.
    pub(crate) fn admits(&self, id: usize, group: usize) -> bool {
        let domain = &self.list[id];
        let well_known = &self.stores[domain.store].well_known;
        self.groups[group].ways[domain.store].iter().any(|way| {
            domain.offers.is_within(&way.offers)
                && domain.requirements.compatible(&way.requirements, well_known).is_ok()
        })
    }

    fn intern(&mut self, domain: Domain) -> usize {
        let same = |other: &Domain| {
            other.store == domain.store
                && other.offers == domain.offers
                && other.ports == domain.ports
                && other.requirements == domain.requirements
        };
        if let Some(id) = self.list.iter().position(same) {
            return id;
        }
        self.list.push(domain);
        self.list.len() - 1
    }

    /// The types that a machine of a domain may be, cheapest first.
    pub(crate) fn kinds(&self, id: usize) -> Rc<[Kind<'m, 'a>]> {
        let mut known = self.kinds.borrow_mut();
        known.entry(id).or_insert_with(|| kinds(self.store(id), &self.list[id]).into()).clone()
    }

    /// The shapes worth buying in a domain, cheapest first.
    pub(crate) fn menu(&self, id: usize) -> &[Item] {
        &self.list[id].menu
    }

    /// What one machine of a bin counts with towards limits.
    pub(crate) fn machine(&self, bin: &Bin) -> Machine<'m> {
        self.store(bin.domain).machine(bin.item)
    }

    /// A shape at its lowest price in a domain.
    pub(crate) fn item_of(&self, id: usize, shape: usize) -> Option<Item> {
        let offers = self.list[id].offers.iter().map(|at| &self.store(id).offers[at]);
        let price = offers.filter(|offer| offer.shape == shape).map(|offer| offer.price).min()?;
        Some(Item { shape, price })
    }

    /// The cheapest machine that holds `load`, if one does and its pool's limits allow it.
    pub(crate) fn cheapest(&self, id: usize, load: &[i64], limits: &[Headroom]) -> Option<Item> {
        let domain = &self.list[id];
        let store = &self.stores[domain.store];
        let holds = |item: &&Item| {
            let shape = &store.shapes[item.shape];
            covers(&shape.room, load)
                && limits
                    .get(domain.store)
                    .is_none_or(|headroom| headroom.allows(&store.machine(**item)))
        };
        let item = domain.menu.iter().find(holds)?;
        store.is_flexible(domain, load).then_some(*item)
    }
}

/// Whether `room` holds `load`.
pub(crate) fn covers(room: &[i64], load: &[i64]) -> bool {
    room.iter().zip(load).all(|(room, load)| *load <= 0 || load <= room)
}

/// The shapes among offers that are worth buying: each at its lowest price, without those that
/// another one beats in price and in everything else.
fn menu(store: &Store<'_>, offers: &Bits) -> Vec<Item> {
    let mut lowest: Vec<Option<Price>> = vec![None; store.shapes.len()];
    for at in offers.iter() {
        let offer = &store.offers[at];
        let price = lowest[offer.shape].get_or_insert(offer.price);
        *price = offer.price.min(*price);
    }
    let priced = lowest.iter().enumerate().filter_map(|(shape, price)| {
        let usable = store.shapes[shape].room.iter().all(|amount| *amount >= 0);
        usable.then_some(Item { shape, price: (*price)? })
    });
    let mut items: Vec<Item> = priced.collect();
    items.sort_by(|a, b| {
        let name = |item: &Item| &store.pool.types[store.shapes[item.shape].kind].name;
        a.price.cmp(&b.price).then_with(|| name(a).cmp(name(b)))
    });
    let limited: Vec<&str> = store.pool.limits.keys().map(String::as_str).collect();
    let mut menu: Vec<Item> = Vec::new();
    for item in items {
        let shape = &store.shapes[item.shape];
        let capacity = |shape: usize| &store.pool.types[store.shapes[shape].kind].capacity;
        let beaten = menu.iter().any(|better| {
            let (mine, theirs) = (capacity(item.shape), capacity(better.shape));
            covers(&store.shapes[better.shape].room, &shape.room)
                && limited.iter().all(|name| theirs.get(name) <= mine.get(name))
        });
        if !beaten {
            menu.push(item);
        }
    }
    menu
}
