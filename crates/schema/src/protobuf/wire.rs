//! The protobuf wire format: fields of a message, one by one.

/// The fields of a message, in the order of its bytes.
pub struct Fields<'a> {
    bytes: &'a [u8],
}

/// A field's value as the wire has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wire<'a> {
    /// Integers and booleans.
    Varint(u64),
    /// Doubles.
    Fixed64(u64),
    /// Text, bytes, messages, packed lists.
    Bytes(&'a [u8]),
    /// Floats.
    Fixed32(u32),
}

impl<'a> Fields<'a> {
    /// The fields of the message in `bytes`.
    pub fn of(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.bytes.split_at_checked(length).ok_or_else(truncated)?;
        self.bytes = rest;
        Ok(taken)
    }

    /// The next varint; also used for packed lists.
    pub fn varint(&mut self) -> Result<u64, String> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = *self.take(1)?.first().ok_or_else(truncated)?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("proto: integer overflow".to_owned())
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The next field's number and value; `None` at the end.
    pub fn next(&mut self) -> Result<Option<(u64, Wire<'a>)>, String> {
        if self.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => {
                let bytes = self.take(8)?.try_into().map_err(|_| truncated())?;
                Wire::Fixed64(u64::from_le_bytes(bytes))
            }
            2 => {
                let length = self.varint()?;
                Wire::Bytes(self.take(usize::try_from(length).map_err(|_| truncated())?)?)
            }
            5 => {
                let bytes = self.take(4)?.try_into().map_err(|_| truncated())?;
                Wire::Fixed32(u32::from_le_bytes(bytes))
            }
            other => return Err(format!("proto: illegal wireType {other}")),
        };
        if tag >> 3 == 0 || tag >> 3 > 0xffff {
            return Err(format!("proto: illegal tag {} (wire type {})", tag >> 3, tag & 7));
        }
        Ok(Some((tag >> 3, value)))
    }
}

fn truncated() -> String {
    "unexpected EOF".to_owned()
}
