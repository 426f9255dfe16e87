//! The first bytes of an npy array, checked before a library interprets them.

use std::io::{self, Read};

use crate::error::{DataError, Place};

/// Longest header text taken; numpy writes 64 to 118 bytes, and reads no more than this by default.
const MAX_TEXT_BYTES: usize = 10_000;
/// Deepest nesting taken; a plain array has a tuple in a dict.
const MAX_DEPTH: usize = 4;

/// Reads magic, version, length and text of a header, as stored.
///
/// The text is one that npyz interprets in bounded time and memory: short, shallow, and with a shape
/// whose product fits 63 bits.
///
/// # Errors
/// [`DataError::Header`] with what is wrong and where.
pub(crate) fn read_prefix(place: &Place, reader: &mut impl Read) -> Result<Vec<u8>, DataError> {
    let bad = |problem: String| DataError::Header { place: place.clone(), problem };
    let mut prefix = vec![0; 10];
    fill(place, reader, &mut prefix)?;
    if prefix[..6] != *b"\x93NUMPY" {
        return Err(bad("it does not begin with the magic bytes of npy".to_owned()));
    }
    let n_text_bytes = match prefix[6] {
        1 => usize::from(u16::from_le_bytes([prefix[8], prefix[9]])),
        2 | 3 => {
            prefix.resize(12, 0);
            fill(place, reader, &mut prefix[10..])?;
            u32::from_le_bytes([prefix[8], prefix[9], prefix[10], prefix[11]]) as usize
        }
        version => return Err(bad(format!("version {version} where 1, 2 or 3 is known"))),
    };
    if n_text_bytes > MAX_TEXT_BYTES {
        return Err(bad(format!("{n_text_bytes} bytes of text, more than {MAX_TEXT_BYTES}")));
    }
    let begin = prefix.len();
    prefix.resize(begin + n_text_bytes, 0);
    fill(place, reader, &mut prefix[begin..])?;
    check_text(&prefix[begin..], begin).map_err(bad)?;
    Ok(prefix)
}

fn fill(place: &Place, reader: &mut impl Read, bytes: &mut [u8]) -> Result<(), DataError> {
    reader.read_exact(bytes).map_err(|problem| match problem.kind() {
        io::ErrorKind::UnexpectedEof => DataError::Header {
            place: place.clone(),
            problem: "the file ends within it".to_owned(),
        },
        _ => DataError::Io { place: place.clone(), problem },
    })
}

/// Walks over the text once. The product runs over every number outside quotes, which the shape's
/// are among.
fn check_text(text: &[u8], begin: usize) -> Result<(), String> {
    let mut quote = None;
    let mut depth = 0_usize;
    let mut number = 0_u64;
    let mut product = 1_u64;
    for (offset, &byte) in text.iter().enumerate() {
        let unexpected = || format!("unexpected byte {byte:#04x} at byte {}", begin + offset);
        if let Some(open) = quote {
            match byte {
                b'\\' | 0..b' ' => return Err(unexpected()),
                _ if byte == open => quote = None,
                _ => {}
            }
            continue;
        }
        if !byte.is_ascii_digit() {
            number = 0;
        }
        match byte {
            b'\'' | b'"' => quote = Some(byte),
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.checked_sub(1).ok_or_else(unexpected)?,
            b'0'..=b'9' => {
                // The digits before this one are in the product already: replace, not multiply.
                let before = number.max(1);
                number = number.saturating_mul(10).saturating_add(u64::from(byte - b'0'));
                product = (product / before)
                    .checked_mul(number.max(1))
                    .filter(|&product| product <= i64::MAX as u64)
                    .ok_or_else(|| format!("a shape too large at byte {}", begin + offset))?;
            }
            b',' | b':' | b' ' | b'\n' => {}
            // The letters of True and False.
            b'T' | b'r' | b'u' | b'e' | b'F' | b'a' | b'l' | b's' => {}
            _ => return Err(unexpected()),
        }
        if depth > MAX_DEPTH {
            return Err(unexpected());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check_text;

    #[test]
    fn headers_that_numpy_writes_pass() {
        for text in [
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }       \n",
            "{'descr': '|O', 'fortran_order': True, 'shape': (), }\n",
            "{'descr': [('a', '<i4'), ('b', '<f8', (2, 3))], 'fortran_order': False, 'shape': (0,), }",
        ] {
            assert_eq!(check_text(text.as_bytes(), 10), Ok(()), "{text}");
        }
    }

    #[test]
    fn hostile_headers_do_not() {
        let nested = format!("{{'shape': {}", "(".repeat(5000));
        for text in [
            nested.as_str(),
            "{'shape': (9223372036854775807, 2)}",
            "{'shape': (0, 99999999999999999999, 4)}",
            "{'shape': (4294967296, 0, 4294967296)}",
            "{'shape': (0xFFFFFFFFFFFFFFFF, 2)}",
            "{'shape': (1_0, 2)}",
            "{'shape': (-1, 2)}",
            "{'sha\\x70e': (1, 2)}",
            "}",
        ] {
            assert!(check_text(text.as_bytes(), 10).is_err(), "{text}");
        }
    }
}
