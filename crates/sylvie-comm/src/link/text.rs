//! The modelled link as text, such as `1Gbps,50us,ranks-per-host=4`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::LinkModel;

/// Why a text is not a [`LinkModel`].
///
/// # Example
/// ```
/// use sylvie_comm::{LinkModel, LinkModelError};
///
/// let refused = "1Gbps,lanes=4".parse::<LinkModel>();
/// assert_eq!(refused, Err(LinkModelError::UnknownSetting { name: "lanes".to_owned() }));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkModelError {
    /// The first part is not a bandwidth.
    #[error(
        "{found:?} is not a bandwidth: write a number above 0 and bps, kbps, Mbps or Gbps, as in 1Gbps"
    )]
    Bandwidth {
        /// The part.
        found: String,
    },
    /// A part is neither a latency nor `ranks-per-host=N`.
    #[error("{found:?} is not a latency: write a number and s, ms, us or ns, as in 50us")]
    Latency {
        /// The part.
        found: String,
    },
    /// The number of ranks is not one, or is 0.
    #[error("{found:?} is not a number of ranks above 0, as in ranks-per-host=4")]
    RanksPerHost {
        /// What follows the equals sign.
        found: String,
    },
    /// The name before an equals sign is not known.
    #[error("a link has no setting {name:?}, only ranks-per-host")]
    UnknownSetting {
        /// The name.
        name: String,
    },
    /// The latency or the ranks a host are given twice.
    #[error("{found:?} repeats what the link was given before")]
    Repeated {
        /// The second mention.
        found: String,
    },
}

const BANDWIDTHS: [(&str, f64); 4] = [("Gbps", 1e9), ("Mbps", 1e6), ("kbps", 1e3), ("bps", 1.0)];
/// Units and nanoseconds in them.
const LATENCIES: [(&str, u32); 4] =
    [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
const RANKS_PER_HOST: &str = "ranks-per-host";

impl FromStr for LinkModel {
    type Err = LinkModelError;

    fn from_str(text: &str) -> Result<Self, LinkModelError> {
        let mut parts = text.split(',').map(str::trim);
        let bits_per_second = bandwidth(parts.next().unwrap_or_default())?;
        let (mut given_latency, mut given_ranks) = (None, None);
        for part in parts {
            let is_first = match part.split_once('=') {
                None => given_latency.replace(latency(part)?).is_none(),
                Some((name, number)) if name.trim().eq_ignore_ascii_case(RANKS_PER_HOST) => {
                    given_ranks.replace(ranks_per_host(number.trim())?).is_none()
                }
                Some((name, _)) => {
                    return Err(LinkModelError::UnknownSetting { name: name.trim().to_owned() });
                }
            };
            if !is_first {
                return Err(LinkModelError::Repeated { found: part.to_owned() });
            }
        }
        let (latency, ranks_per_host) =
            (given_latency.unwrap_or_default(), given_ranks.unwrap_or(1));
        Ok(Self { bits_per_second, latency, ranks_per_host })
    }
}

impl fmt::Display for LinkModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.bits_per_second;
        // The largest unit in which the number is not below 1 and comes back as it was.
        let fits = |&&(_, unit): &&(&str, f64)| bits >= unit && bits / unit * unit == bits;
        let (name, unit) = BANDWIDTHS.iter().find(fits).unwrap_or(&("bps", 1.0));
        write!(f, "{}{name}", bits / unit)?;
        if !self.latency.is_zero() {
            let n_ns = self.latency.as_nanos();
            let divides = |&&(_, unit): &&(&str, u32)| n_ns.is_multiple_of(u128::from(unit));
            let (name, unit) = LATENCIES.iter().find(divides).unwrap_or(&("ns", 1));
            write!(f, ",{}{name}", n_ns / u128::from(*unit))?;
        }
        if self.ranks_per_host != 1 {
            write!(f, ",{RANKS_PER_HOST}={}", self.ranks_per_host)?;
        }
        Ok(())
    }
}

/// The digits at the front, decimal point included, and what follows them.
fn number_and_unit(part: &str) -> (&str, &str) {
    let end = part.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(part.len());
    (&part[..end], part[end..].trim_start())
}

fn bandwidth(part: &str) -> Result<f64, LinkModelError> {
    let (number, unit) = number_and_unit(part);
    let unit = unit.to_ascii_lowercase().replace("b/s", "bps");
    let factor = BANDWIDTHS.iter().find(|(name, _)| name.eq_ignore_ascii_case(&unit));
    let bits = number.parse::<f64>().ok().zip(factor).map(|(number, (_, factor))| number * factor);
    bits.filter(|&bits| bits > 0.0 && bits.is_finite())
        .ok_or_else(|| LinkModelError::Bandwidth { found: part.to_owned() })
}

fn latency(part: &str) -> Result<Duration, LinkModelError> {
    let (number, unit) = number_and_unit(part);
    let unit = unit.to_lowercase().replace(['\u{b5}', '\u{3bc}'], "u");
    let unit_ns = LATENCIES.iter().find(|(name, _)| *name == unit).map(|&(_, unit_ns)| unit_ns);
    unit_ns
        .and_then(|unit_ns| duration(number, unit_ns))
        .ok_or_else(|| LinkModelError::Latency { found: part.to_owned() })
}

/// `number` times the unit: exact for whole numbers, to the nearest nanosecond for others.
fn duration(number: &str, unit_ns: u32) -> Option<Duration> {
    if let Ok(whole) = number.parse::<u128>() {
        let n_ns = whole.checked_mul(unit_ns.into())?;
        let n_secs = u64::try_from(n_ns / 1_000_000_000).ok()?;
        return Some(Duration::new(n_secs, (n_ns % 1_000_000_000) as u32));
    }
    let n_secs = number.parse::<f64>().ok()? * f64::from(unit_ns) / 1e9;
    Duration::try_from_secs_f64(n_secs).ok()
}

fn ranks_per_host(number: &str) -> Result<usize, LinkModelError> {
    let ranks = number.parse().ok().filter(|&ranks| ranks > 0);
    ranks.ok_or_else(|| LinkModelError::RanksPerHost { found: number.to_owned() })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::LinkModelError;
    use crate::LinkModel;

    fn parsed(text: &str) -> (f64, Duration, usize) {
        let LinkModel { bits_per_second, latency, ranks_per_host } =
            text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        (bits_per_second, latency, ranks_per_host)
    }

    #[test]
    fn units_are_understood_in_any_case() {
        let us = Duration::from_micros;
        assert_eq!(parsed("1Gbps,50us,ranks-per-host=4"), (1e9, us(50), 4));
        assert_eq!(parsed("1gbps"), (1e9, us(0), 1));
        assert_eq!(parsed("2.5 GB/S , 1.5MS"), (2.5e9, us(1500), 1));
        assert_eq!(parsed("100Mb/s,Ranks-Per-Host = 2,3s"), (1e8, us(3_000_000), 2));
        assert_eq!(parsed("64KBPS,7ns"), (64e3, Duration::from_nanos(7), 1));
        assert_eq!(parsed("300b/s,4\u{b5}s"), (300.0, us(4), 1));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        let error = |text: &str| text.parse::<LinkModel>().expect_err(text);
        let not_bandwidths =
            ["", "1", "Gbps", "0Gbps", "-1Gbps", "1GBs", "1e9bps", "infbps", "1..2bps", "50us"];
        for found in not_bandwidths.map(str::to_owned) {
            assert_eq!(error(&format!("{found},1s")), LinkModelError::Bandwidth { found });
        }
        for found in ["", "5", "5m", "-5us", "us", "1Mbps", "1.us.", "99999999999999999999999s"] {
            let found = found.to_owned();
            assert_eq!(error(&format!("1Gbps,{found}")), LinkModelError::Latency { found });
        }
        for found in ["", "0", "-1", "1.5", "four"].map(str::to_owned) {
            let text = format!("1Gbps,ranks-per-host={found}");
            assert_eq!(error(&text), LinkModelError::RanksPerHost { found });
        }
        let name = "hosts".to_owned();
        assert_eq!(error("1Gbps,hosts=3"), LinkModelError::UnknownSetting { name });
        let found = "2us".to_owned();
        assert_eq!(error("1Gbps,1us,2us"), LinkModelError::Repeated { found });
        assert_eq!(
            error("1Gbps,fast").to_string(),
            "\"fast\" is not a latency: write a number and s, ms, us or ns, as in 50us"
        );
    }

    #[test]
    fn text_is_short_and_leaves_out_what_goes_without_saying() {
        for text in ["1Gbps", "2.5Gbps", "100Mbps,1ms", "1.5bps,7ns", "9kbps,2s,ranks-per-host=8"] {
            let link: LinkModel = text.parse().expect("the text is right");
            assert_eq!(link.to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn text_gives_back_the_model(
            bits in any::<f64>(),
            // Any number of bits and the usual ones.
            whole in 1..u64::MAX,
            n_secs in any::<u64>(),
            n_ns in 0..1_000_000_000_u32,
            ranks_per_host in 1..usize::MAX,
        ) {
            let latency = Duration::new(n_secs, n_ns);
            for bits_per_second in [bits.abs(), whole as f64, (whole % 1000 + 1) as f64 * 1e8] {
                if bits_per_second.is_finite() && bits_per_second > 0.0 {
                    let link = LinkModel { bits_per_second, latency, ranks_per_host };
                    prop_assert_eq!(link.to_string().parse(), Ok(link));
                }
            }
        }
    }
}
