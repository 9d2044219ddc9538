//! Bytes, alignments and times: the one place that parses and prints them.
//!
//! Sizes are plain bytes or binary multiples (`KiB`, `MiB`, `GiB`, `TiB`). Decimal
//! spellings such as `80GB` are refused with the right spelling, because a reader
//! cannot know whether 80·10⁹ or 80·2³⁰ bytes were meant.

use std::fmt::Write as _;

/// One KiB in bytes.
pub const KIB: u64 = 1 << 10;
/// One MiB in bytes.
pub const MIB: u64 = 1 << 20;
/// One GiB in bytes.
pub const GIB: u64 = 1 << 30;
/// One TiB in bytes.
pub const TIB: u64 = 1 << 40;

/// A size or a duration that could not be read; the text says why and what would do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnitError(String);

/// Reads a size in bytes: `4096`, `256 B`, `20MiB`, `1.5 GiB`, `1_000_000`.
///
/// # Errors
/// A decimal unit (`GB`), an unknown unit, a fraction that is no whole number of
/// bytes, or a value above `u64::MAX`: the error names the text and the way out.
pub fn parse_bytes(text: &str) -> Result<u64, UnitError> {
    let (number, unit) = split_number(text);
    let scale = match unit {
        "" | "B" | "b" | "bytes" => 1,
        "KiB" | "Ki" | "kib" => KIB,
        "MiB" | "Mi" | "mib" => MIB,
        "GiB" | "Gi" | "gib" => GIB,
        "TiB" | "Ti" | "tib" => TIB,
        "KB" | "kB" | "MB" | "GB" | "TB" | "K" | "M" | "G" | "T" | "k" | "m" | "g" => {
            let binary = unit[..1].to_uppercase() + "iB";
            return Err(UnitError(format!(
                "size '{text}': '{unit}' is ambiguous; write {number}{binary}, or plain bytes"
            )));
        }
        _ => {
            return Err(UnitError(format!(
                "size '{text}': unknown unit '{unit}'; use B, KiB, MiB, GiB, TiB, or plain bytes"
            )));
        }
    };
    scaled(number, scale).ok_or_else(|| {
        UnitError(format!(
            "size '{text}': expected a whole number of bytes up to {}, such as 1536MiB or 4096",
            u64::MAX
        ))
    })
}

/// Reads a duration into nanoseconds: `250ns`, `3 us`, `10ms`, `2.5s`, `5min`, `2h`, `1d`.
///
/// # Errors
/// A missing or unknown unit, or a value that is no whole number of nanoseconds.
pub fn parse_nanos(text: &str) -> Result<u64, UnitError> {
    let (number, unit) = split_number(text);
    let scale = match unit {
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" | "sec" => 1_000_000_000,
        "min" | "m" => 60_000_000_000,
        "h" | "hours" => 3_600_000_000_000,
        "d" | "days" => 86_400_000_000_000,
        _ => {
            return Err(UnitError(format!(
                "duration '{text}': unknown unit '{unit}'; use ns, us, ms, s, min, h or d"
            )));
        }
    };
    scaled(number, scale)
        .ok_or_else(|| UnitError(format!("duration '{text}': expected a number such as 5min")))
}

/// Reads a percentage into parts per million: `5%`, `2.5 %`, `0.0001%`.
///
/// # Errors
/// Anything but a number before a `%`, or one that is no whole number of parts per million.
pub fn parse_percent(text: &str) -> Result<u64, UnitError> {
    let (number, unit) = split_number(text);
    let parsed = (unit == "%").then(|| scaled(number, 10_000)).flatten();
    parsed.ok_or_else(|| {
        UnitError(format!(
            "share '{text}': expected a percentage of up to four decimals, such as 2.5%"
        ))
    })
}

/// Splits `12.5 MiB` into its number (underscores kept) and its unit.
fn split_number(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))
        .unwrap_or(text.len());
    (text[..end].trim_end(), text[end..].trim())
}

/// `number × scale` in exact arithmetic; `None` where it is no whole number or too large.
fn scaled(number: &str, scale: u64) -> Option<u64> {
    let clean: String = number.chars().filter(|c| *c != '_').collect();
    let (whole, fraction) = clean.split_once('.').unwrap_or((&clean, ""));
    if whole.is_empty() || fraction.len() > 18 {
        return None;
    }
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let divisor = 10u128.pow(fraction.len() as u32);
    let product = digits.checked_mul(u128::from(scale))?;
    if product % divisor != 0 {
        return None;
    }
    u64::try_from(product / divisor).ok()
}

/// Prints bytes for people: `512 B`, `1.50 KiB`, `12.34 GiB` (two decimals, rounded to nearest).
#[must_use]
pub fn format_bytes(bytes: u64) -> String {
    let (scale, unit) = match bytes {
        0..KIB => return format!("{bytes} B"),
        KIB..MIB => (KIB, "KiB"),
        MIB..GIB => (MIB, "MiB"),
        GIB..TIB => (GIB, "GiB"),
        _ => (TIB, "TiB"),
    };
    let hundredths = (u128::from(bytes) * 100 + u128::from(scale) / 2) / u128::from(scale);
    format!("{}.{:02} {unit}", hundredths / 100, hundredths % 100)
}

/// Prints bytes exactly, in the largest unit that divides them: `20MiB`, `3584B`.
#[must_use]
pub fn format_bytes_exact(bytes: u64) -> String {
    for (scale, unit) in [(TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")] {
        if bytes >= scale && bytes.is_multiple_of(scale) {
            return format!("{}{unit}", bytes / scale);
        }
    }
    format!("{bytes}B")
}

/// Prints a duration for people in the unit that fits: `950 ns`, `1.25 ms`, `3.0 h`.
#[must_use]
pub fn format_nanos(nanos: u64) -> String {
    let (scale, unit) = match nanos {
        0..1_000 => return format!("{nanos} ns"),
        1_000..1_000_000 => (1_000, "us"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        1_000_000_000..60_000_000_000 => (1_000_000_000, "s"),
        60_000_000_000..3_600_000_000_000 => (60_000_000_000, "min"),
        3_600_000_000_000..86_400_000_000_000 => (3_600_000_000_000, "h"),
        _ => (86_400_000_000_000u64, "d"),
    };
    let hundredths = (u128::from(nanos) * 100 + u128::from(scale) / 2) / u128::from(scale);
    format!("{}.{:02} {unit}", hundredths / 100, hundredths % 100)
}

/// Prints parts per million as a percentage with one decimal: `123456` is `12.3 %`.
#[must_use]
pub fn format_ppm(ppm: u64) -> String {
    let tenths = (ppm + 500) / 1_000;
    format!("{}.{} %", tenths / 10, tenths % 10)
}

/// Prints an integer with thin groups of three, for tables: `1,234,567`.
#[must_use]
pub fn format_count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        let _ = write!(text, "{digit}");
    }
    text
}

/// `part / whole` in parts per million, rounded down; 0 where `whole` is 0.
#[inline]
#[must_use]
pub fn ppm(part: u64, whole: u64) -> u64 {
    if whole == 0 {
        return 0;
    }
    // Below this the product fits, and so it is for every card there is.
    if part < 1 << 44 {
        return part * 1_000_000 / whole;
    }
    (u128::from(part) * 1_000_000 / u128::from(whole)) as u64
}

/// Addresses lie below this: 2 EiB. Those of cards have 57 bits at most.
pub const ADDRESS_LIMIT: u64 = 1 << 61;

/// Rounds `bytes` up to a multiple of `quantum`; `None` where that passes `u64::MAX`.
///
/// `quantum` is not 0: no parser of the crate lets that through. Of 0 nothing but 0 is a
/// multiple.
#[inline]
#[must_use]
pub fn round_up(bytes: u64, quantum: u64) -> Option<u64> {
    if quantum & quantum.wrapping_sub(1) == 0 {
        // Without the division, which is dear.
        return align_up(bytes, quantum);
    }
    bytes.checked_next_multiple_of(quantum)
}

/// [`round_up`] to a power of two.
#[inline]
#[must_use]
pub fn align_up(bytes: u64, align: u64) -> Option<u64> {
    let below = align.wrapping_sub(1);
    Some(bytes.checked_add(below)? & !below)
}

/// Reads sizes from TOML and JSON, as a string with a unit or as an integer of bytes.
pub mod serde_bytes {
    use std::fmt;

    use serde::de::{Error, Visitor};
    use serde::{Deserializer, Serializer};

    /// Takes an integer of bytes or a text with a unit.
    struct Size;

    impl Visitor<'_> for Size {
        type Value = u64;

        fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
            to.write_str("a size such as \"2 MiB\", or an integer of bytes")
        }

        fn visit_u64<E: Error>(self, bytes: u64) -> Result<u64, E> {
            Ok(bytes)
        }

        fn visit_i64<E: Error>(self, bytes: i64) -> Result<u64, E> {
            u64::try_from(bytes).map_err(|_| E::custom(format!("size {bytes} is negative")))
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
            super::parse_bytes(text).map_err(E::custom)
        }
    }

    /// Deserialises a size.
    ///
    /// # Errors
    /// As [`super::parse_bytes`].
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        from.deserialize_any(Size)
    }

    /// Serialises a size exactly, in the largest unit that divides it.
    ///
    /// # Errors
    /// Whatever the serializer says.
    pub fn serialize<S: Serializer>(bytes: &u64, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&super::format_bytes_exact(*bytes))
    }
}

/// Reads alignments from TOML: a size that is a power of two.
pub mod serde_align {
    use serde::{Deserializer, Serializer};

    /// Deserialises an alignment in bytes.
    ///
    /// # Errors
    /// As [`super::parse_bytes`], and for what is no power of two.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        let bytes = super::serde_bytes::deserialize(from)?;
        if bytes.is_power_of_two() {
            return Ok(bytes);
        }
        Err(serde::de::Error::custom(format!(
            "alignment of {bytes} bytes: expected a power of two, such as 256"
        )))
    }

    /// Serialises an alignment as a size.
    ///
    /// # Errors
    /// Whatever the serializer says.
    pub fn serialize<S: Serializer>(bytes: &u64, to: S) -> Result<S::Ok, S::Error> {
        super::serde_bytes::serialize(bytes, to)
    }
}

/// Reads durations from TOML: a string with a unit, kept as nanoseconds.
pub mod serde_nanos {
    use serde::{Deserialize, Deserializer, Serializer};

    /// Deserialises a duration.
    ///
    /// # Errors
    /// As [`super::parse_nanos`].
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        let text = String::deserialize(from)?;
        super::parse_nanos(&text).map_err(serde::de::Error::custom)
    }

    /// Serialises nanoseconds as `123ns`.
    ///
    /// # Errors
    /// Whatever the serializer says.
    pub fn serialize<S: Serializer>(nanos: &u64, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&format!("{nanos}ns"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_binary_units_and_plain_bytes() {
        for (text, bytes) in [
            ("4096", 4096),
            ("256 B", 256),
            ("1Ki", 1024),
            ("20MiB", 20 * MIB),
            ("1.5 GiB", 3 * GIB / 2),
            ("1_000", 1000),
            ("8589934592Gi", 1 << 63),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn decimal_units_and_fractions_of_bytes_are_refused_with_the_way_out() {
        let message = parse_bytes("80GB").unwrap_err().to_string();
        assert!(message.contains("80GiB"), "{message}");
        assert!(parse_bytes("0.3 B").is_err());
        assert!(parse_bytes("-4").is_err());
        assert!(parse_bytes("").is_err());
        assert!(parse_bytes("99999999999999999999").is_err());
    }

    #[test]
    fn durations_and_numbers_print_for_people() {
        assert_eq!(parse_nanos("5min"), Ok(300_000_000_000));
        assert!(parse_nanos("5").is_err());
        assert_eq!(format_bytes(3 * GIB / 2), "1.50 GiB");
        assert_eq!(format_bytes_exact(3584), "3584B");
        assert_eq!(format_nanos(1_250_000), "1.25 ms");
        assert_eq!(format_ppm(123_456), "12.3 %");
        assert_eq!(parse_percent("2.5 %"), Ok(25_000));
        assert_eq!(parse_percent("0.0001%"), Ok(1));
        for wrong in ["0.00001%", "5", "%", "-1%"] {
            assert!(parse_percent(wrong).is_err(), "{wrong}");
        }
        assert_eq!(format_count(1_234_567), "1,234,567");
        assert_eq!(ppm(1, 4), 250_000);
        assert_eq!(ppm(u64::MAX, u64::MAX), 1_000_000);
    }
}
