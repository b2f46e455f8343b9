//! Quantities of resources, as `500m`, `1.5Gi` or `1e3`: parsed, and written in the one form that the API answers.

/// How a quantity is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// Powers of ten with a letter, as `500m` or `2k`.
    Decimal,
    /// Powers of two, as `64Mi`.
    Binary,
    /// Powers of ten with an exponent, as `1e3`.
    Exponent,
}

/// Billionths in one.
const NANOS: i128 = 1_000_000_000;
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [(&str, u32); 6] = [("Ki", 1), ("Mi", 2), ("Gi", 3), ("Ti", 4), ("Pi", 5), ("Ei", 6)];

/// Whether a text has the shape of a quantity.
pub fn is_quantity(text: &str) -> bool {
    split(text).is_some_and(|(_, suffix)| scale(suffix).is_some())
}

/// A quantity in billionths, rounded away from zero; `None` when it is none or does not fit.
pub fn nanos(text: &str) -> Option<i128> {
    let (number, suffix) = split(text)?;
    let (factor, exponent, _) = scale(suffix)?;
    let negative = number.starts_with('-');
    let digits = number.trim_start_matches(['+', '-']);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mantissa: i128 = format!("{whole}{fraction}").parse().ok()?;
    let scale = exponent.saturating_add(9).saturating_sub(i32::try_from(fraction.len()).ok()?);
    let scaled = mantissa.checked_mul(factor)?;
    let power = 10_i128.checked_pow(scale.unsigned_abs());
    let amount = match (scale >= 0, power) {
        (true, power) => scaled.checked_mul(power?)?,
        (false, Some(power)) => scaled / power + i128::from(scaled % power != 0),
        // Less than a billionth, and more than nothing.
        (false, None) => i128::from(scaled != 0),
    };
    Some(if negative { -amount } else { amount })
}

/// The form that the API answers: no fraction, the largest unit, and powers of two only for whole numbers from 1024 on.
/// `None` when the text is no quantity or a very large one.
pub fn canonical(text: &str) -> Option<String> {
    let amount = nanos(text)?;
    if amount == 0 {
        return Some("0".to_owned());
    }
    let (_, suffix) = split(text)?;
    let (_, _, format) = scale(suffix)?;
    if format == Format::Binary && amount.abs() >= 1024 * NANOS && amount % NANOS == 0 {
        let mut number = amount / NANOS;
        let mut unit = "";
        for (name, _) in BINARY {
            if number % 1024 != 0 {
                break;
            }
            number /= 1024;
            unit = name;
        }
        return Some(format!("{number}{unit}"));
    }
    let (mut number, mut exponent) = (amount, -9);
    while exponent < 18 && number % 1000 == 0 {
        number /= 1000;
        exponent += 3;
    }
    match format {
        Format::Exponent if exponent == 0 => Some(number.to_string()),
        Format::Exponent => Some(format!("{number}e{exponent}")),
        Format::Decimal | Format::Binary => {
            let (unit, _) = DECIMAL.into_iter().find(|(_, power)| *power == exponent)?;
            Some(format!("{number}{unit}"))
        }
    }
}

/// Number and suffix; a sign, digits and at most one point make the number.
fn split(text: &str) -> Option<(&str, &str)> {
    let sign = usize::from(text.starts_with(['+', '-']));
    let rest = text.get(sign..)?;
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let number = &rest[..end];
    let shaped = number.bytes().any(|byte| byte.is_ascii_digit())
        && number.bytes().filter(|&byte| byte == b'.').count() <= 1;
    shaped.then(|| text.split_at(sign + end))
}

/// What a suffix multiplies by: a factor, a power of ten, and the format it means.
fn scale(suffix: &str) -> Option<(i128, i32, Format)> {
    if let Some((_, power)) = BINARY.into_iter().find(|(name, _)| *name == suffix) {
        return Some((1024_i128.pow(power), 0, Format::Binary));
    }
    if let Some((_, power)) = DECIMAL.into_iter().find(|(name, _)| *name == suffix) {
        return Some((1, power, Format::Decimal));
    }
    let power = suffix.strip_prefix(['e', 'E'])?;
    let digits = power.strip_prefix(['+', '-']).unwrap_or(power);
    let shaped = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    // A power that does not fit makes a number that does not fit either.
    shaped.then(|| (1, power.parse().unwrap_or(1000), Format::Exponent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_written_as_upstream_writes_them() {
        let cases = [
            ("0", "0"),
            ("0Gi", "0"),
            ("1", "1"),
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1.5", "1500m"),
            ("1500", "1500"),
            ("2000", "2k"),
            ("100m", "100m"),
            ("1024Mi", "1Gi"),
            ("1536Mi", "1536Mi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Gi", "512Mi"),
            ("512Ki", "512Ki"),
            ("0.5Ki", "512"),
            ("1e3", "1e3"),
            ("12e6", "12e6"),
            ("1e2", "100"),
            ("-5", "-5"),
            ("0.0000000001", "1n"),
            ("1E", "1E"),
        ];
        for (text, wanted) in cases {
            assert_eq!(canonical(text).as_deref(), Some(wanted), "{text}");
            assert_eq!(canonical(wanted).as_deref(), Some(wanted), "twice {text}");
        }
        for odd in ["", "1x", "Gi", "1.2.3", "e3", "1e", "--1", "1ki"] {
            assert!(!is_quantity(odd) && canonical(odd).is_none(), "{odd}");
        }
        assert!(is_quantity("1e999") && canonical("1e999").is_none());
    }
}
