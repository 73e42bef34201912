//! Numbers and times as people read them.

use motes::printable::Number;

/// Seconds as people would say them.
pub fn clock(seconds: f64) -> String {
    let (minutes, hours) = (seconds / 60.0, seconds / 3600.0);
    match seconds {
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 5400.0 => format!("{minutes:.0} min"),
        s if s < 172_800.0 => format!("{hours:.0} h"),
        s if s < 6.4e7 => format!("{:.0} days", hours / 24.0),
        _ => format!("{} years", Number(hours / 8766.0).with_decimals(0)),
    }
}

/// A number with its thousands apart, and a decimal where it has no thousands.
pub fn grouped(value: f64) -> String {
    if value < 100.0 {
        return format!("{value:.1}");
    }
    if value.is_nan() || value >= 1e15 {
        return Number(value).with_decimals(0);
    }
    thousands(&format!("{value:.0}"))
}

/// The digits of a whole number with its thousands apart.
pub fn thousands(digits: &str) -> String {
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::clock;

    #[test]
    fn times_that_are_left_read_well() {
        for (seconds, said) in [
            (0.4, "0 s"),
            (89.0, "89 s"),
            (90.0, "2 min"),
            (5399.0, "90 min"),
            (5400.0, "2 h"),
            (172_800.0, "2 days"),
            (1e12, "31688 years"),
        ] {
            assert_eq!(clock(seconds), said);
        }
    }
}
