//! What overlays say of prices.

/// What an overlay makes of a price.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Adjustment {
    /// This price, USD per hour.
    Fixed(f64),
    /// So much more or less, USD per hour.
    Amount(f64),
    /// So many percent more or less.
    Percent(f64),
}

impl Adjustment {
    /// Reads an overlay's `price` and `priceAdjustment`.
    ///
    /// # Errors
    ///
    /// Names the field, and says what would be right there.
    pub fn of(price: Option<&str>, adjustment: Option<&str>) -> Result<Option<Self>, String> {
        match (price, adjustment) {
            (None, None) => Ok(None),
            (Some(_), Some(_)) => {
                Err("spec.price and spec.priceAdjustment cannot both be set".to_owned())
            }
            (Some(text), None) => {
                number(text).map(|price| Some(Self::Fixed(price))).ok_or_else(|| {
                    format!(
                        "spec.price is {text:?}: it must be USD per hour, for example \"0.096\""
                    )
                })
            }
            (None, Some(text)) => change(text).map(Some).ok_or_else(|| {
                format!(
                    "spec.priceAdjustment is {text:?}: it must be a sign and a number, as USD per \
                     hour or with % behind, for example \"+0.01\" or \"-15%\"; not below -100%"
                )
            }),
        }
    }

    /// The price that comes of `base`, USD per hour; never below 0.
    #[must_use]
    pub fn apply(self, base: f64) -> f64 {
        let price = match self {
            Self::Fixed(price) => price,
            Self::Amount(more) => base + more,
            Self::Percent(more) => base * (1.0 + more / 100.0),
        };
        price.max(0.0)
    }
}

/// A number without a sign.
fn number(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.parse().ok().filter(|_| plain)
}

fn change(text: &str) -> Option<Adjustment> {
    let sign = match text.as_bytes().first()? {
        b'+' => 1.0,
        b'-' => -1.0,
        _ => return None,
    };
    let amount = &text[1..];
    match amount.strip_suffix('%') {
        Some(percent) => {
            let percent = sign * number(percent)?;
            (percent >= -100.0).then_some(Adjustment::Percent(percent))
        }
        None => Some(Adjustment::Amount(sign * number(amount)?)),
    }
}
