//! Cells as numbers: words for missing values, decimal points and decimal commas.

/// Whether a cell stands for a missing value, as R, pandas, SAS and people write it.
pub(super) fn is_missing(cell: &str) -> bool {
    // Most cells begin as numbers do, and need no list.
    match cell.as_bytes() {
        [] | [b'?'] | [b'.'] => true,
        [b'0'..=b'9', ..] => matches!(cell, "1.#IND" | "1.#QNAN"),
        [b'-', rest @ ..] => matches!(rest, b"nan" | b"NaN" | b"1.#IND" | b"1.#QNAN"),
        [b'#' | b'<' | b'N' | b'n', ..] => matches!(
            cell,
            "NA" | "NaN" | "N/A" | "NULL" | "None" | "nan" | "n/a" | "null" | "<NA>" | "#N/A" | "#NA"
        ),
        _ => false,
    }
}

/// What a cell holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Cell {
    /// A finite number.
    Number(f64),
    /// Nothing.
    Missing,
    /// A number beyond all numbers.
    Infinite,
    /// Something else.
    Text,
}

/// Reads a cell whose decimals follow a point.
pub(super) fn point(cell: &str) -> Cell {
    match cell.parse::<f64>() {
        Ok(value) if value.is_finite() => Cell::Number(value),
        _ if is_missing(cell) => Cell::Missing,
        Ok(value) if value.is_nan() => Cell::Missing,
        Ok(_) => Cell::Infinite,
        Err(_) => Cell::Text,
    }
}

/// Reads a cell whose decimals follow a comma.
pub(super) fn comma(cell: &str) -> Cell {
    match cell.matches(',').count() {
        0 if !cell.contains('.') || is_missing(cell) => point(cell),
        1 if !cell.contains('.') => match cell.replacen(',', ".", 1).parse::<f64>() {
            Ok(value) if value.is_finite() => Cell::Number(value),
            _ => Cell::Text,
        },
        _ => Cell::Text,
    }
}

/// Whether a cell is a number with commas between its thousands: 12,345 or 1,234,567.8.
pub(super) fn is_grouped(cell: &str) -> bool {
    let whole = cell.strip_prefix(['-', '+']).unwrap_or(cell);
    let (whole, decimals) = whole.split_once('.').unwrap_or((whole, ""));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let mut groups = whole.split(',');
    let first = groups.next().unwrap_or_default();
    (1..=3).contains(&first.len())
        && !first.starts_with('0')
        && whole.contains(',')
        && digits(first)
        && digits(decimals)
        && groups.all(|group| group.len() == 3 && digits(group))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_missing_values_are_no_numbers() {
        for word in ["", "?", ".", "NA", "NaN", "nan", "-nan", "N/A", "n/a", "NULL", "None", "<NA>", "#N/A"] {
            assert_eq!((point(word), comma(word)), (Cell::Missing, Cell::Missing), "{word}");
        }
        for word in ["no", "Nay", "-", "0.", "n", "N", "1.#"] {
            assert!(!is_missing(word), "{word}");
        }
        for word in ["inf", "-Infinity", "1e999"] {
            assert_eq!(point(word), Cell::Infinite, "{word}");
        }
    }

    #[test]
    fn decimals_follow_a_point_or_a_comma() {
        assert_eq!((point("+1.5e1"), comma("-1,5e1")), (Cell::Number(15.0), Cell::Number(-15.0)));
        assert_eq!((point("7"), comma("7")), (Cell::Number(7.0), Cell::Number(7.0)));
        for odd in ["1,5", "1.234,5", "1,234,567"] {
            assert_eq!(point(odd), Cell::Text, "{odd}");
        }
        for odd in ["1.5", "1.234,5", "1,234,567", ",", "a,b"] {
            assert_eq!(comma(odd), Cell::Text, "{odd}");
        }
    }

    #[test]
    fn commas_may_stand_between_thousands() {
        for cell in ["1,234", "-12,345", "123,456,789", "+1,234.5"] {
            assert!(is_grouped(cell), "{cell}");
        }
        for cell in
            ["", "1", "1234", "0,123", "1,23", "1,2345", "1234,567", "1,234,5", ",123", "1,abc", "1,234.x"]
        {
            assert!(!is_grouped(cell), "{cell}");
        }
    }
}
