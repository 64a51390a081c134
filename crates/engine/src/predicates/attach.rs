//! How many volumes a node can attach.

use std::collections::BTreeMap;

/// How many pods that attach `need` volumes of each CSI driver a node takes beside what is
/// attached. Drivers without a limit attach any number.
/// Source: kubernetes `pkg/scheduler/framework/plugins/nodevolumelimits/csi.go`.
#[must_use]
pub fn attach_room(
    need: &BTreeMap<String, u32>,
    limits: &BTreeMap<String, u32>,
    attached: &BTreeMap<String, u32>,
) -> u32 {
    let room = |(driver, need): (&String, &u32)| {
        let limit = limits.get(driver)?;
        let left = limit.saturating_sub(attached.get(driver).copied().unwrap_or(0));
        left.checked_div(*need)
    };
    need.iter().filter_map(room).min().unwrap_or(u32::MAX)
}
