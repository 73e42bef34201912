//! Summaries as they are read: one that contradicts itself is refused.

use std::path::Path;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::{Metrics, SCHEMA, Summary};
use crate::sentence::foreign;
use crate::{Error, LISTED};

impl Summary {
    /// Reads the summary of a run directory; there is none before a run has finished.
    pub fn read(dir: &Path) -> Result<Option<Self>, Error> {
        let path = dir.join("summary.json");
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::read(&path)(e)),
        };
        Self::parse(&bytes).map(Some).map_err(|what| Error::File {
            path,
            problem: format!("cannot be understood ({what}); `resume()` the run, which writes it again"),
        })
    }

    /// Reads the text of a summary, and refuses one that contradicts itself.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let any: Value = serde_json::from_slice(bytes).map_err(foreign)?;
        match any.get("schema") {
            Some(schema) if *schema == SCHEMA => {}
            Some(other) => return Err(format!("its schema is {}, not {SCHEMA}", foreign(other))),
            None => return Err("it does not say its schema".into()),
        }
        let summary: Summary = serde_json::from_slice(bytes).map_err(foreign)?;
        summary.check()?;
        Ok(summary)
    }

    /// Says what is wrong with the lengths of its lists; what may be missing may also be empty.
    fn check(&self) -> Result<(), String> {
        let (theta, d) = (&self.theta, &self.diagnostics);
        if !(self.level > 0.0 && self.level < 1.0) {
            return Err(format!("level is {:e}, which is not a share", self.level));
        }
        let listed = theta.names.len();
        let mut lists = vec![
            ("theta.names", listed, listed.min(self.d_theta).min(LISTED), false),
            ("theta.last", theta.last.len(), listed, false),
            ("theta.mean", theta.mean.as_ref().map_or(listed, Vec::len), listed, false),
            ("theta.mc_error", theta.mc_error.len(), listed, true),
            ("theta.se", theta.se.len(), listed, true),
            ("theta.se_mc_error", theta.se_mc_error.len(), listed, true),
            ("theta.interval", theta.interval.len(), listed, true),
            ("theta.information_share", theta.information_share.len(), listed, true),
            (
                "theta.covariance",
                theta.covariance.as_ref().map_or(self.d_theta, Vec::len),
                self.d_theta,
                false,
            ),
            ("diagnostics.ess", d.ess.len(), listed, true),
            ("diagnostics.drift", d.drift.len(), listed, true),
        ];
        if let Some(p) = &self.posterior {
            let all = self.d_x.saturating_mul(self.groups);
            lists.extend([
                ("posterior.names", p.names.len(), all, false),
                ("posterior.mean", p.mean.len(), all, false),
                ("posterior.var", p.var.len(), all, false),
                ("posterior.quantiles", p.quantiles.as_ref().map_or(all, Vec::len), all, false),
                ("posterior.groups", p.groups.as_ref().map_or(self.groups, Vec::len), self.groups, false),
            ]);
        }
        if let Some(r) = &self.replicates {
            lists.push(("replicates.r_hat", r.r_hat.len(), listed, true));
            lists.extend(r.runs.iter().map(|r| ("replicates.theta", r.theta.len(), listed, false)));
            lists.extend(r.runs.iter().map(|r| ("replicates.mc_error", r.mc_error.len(), listed, true)));
        }
        match lists.iter().find(|(_, len, want, optional)| len != want && !(*optional && *len == 0)) {
            Some((name, len, want, _)) => Err(format!("{name} has {len} entries and {want} are expected")),
            None => Ok(()),
        }
    }
}

impl Serialize for Metrics {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de> Deserialize<'de> for Metrics {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Metrics;

            fn expecting(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                to.write_str("numbers by their names")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Metrics, M::Error> {
                let mut metrics = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, Option<f64>>()? {
                    metrics.push((name, value.unwrap_or(f64::NAN)));
                }
                Ok(Metrics(metrics))
            }
        }
        source.deserialize_map(InOrder)
    }
}

/// A number, or null for one that is not finite: JSON has no other word for it.
pub(super) fn number<'de, D: Deserializer<'de>>(source: D) -> Result<f64, D::Error> {
    Option::deserialize(source).map(|v: Option<f64>| v.unwrap_or(f64::NAN))
}

/// Numbers, some of them perhaps null.
pub(super) fn numbers<'de, D: Deserializer<'de>>(source: D) -> Result<Vec<f64>, D::Error> {
    let read = Vec::<Option<f64>>::deserialize(source)?;
    Ok(read.into_iter().map(|v| v.unwrap_or(f64::NAN)).collect())
}

/// The same, or null.
pub(super) fn maybe_numbers<'de, D: Deserializer<'de>>(source: D) -> Result<Option<Vec<f64>>, D::Error> {
    let read = Option::<Vec<Option<f64>>>::deserialize(source)?;
    Ok(read.map(|list| list.into_iter().map(|v| v.unwrap_or(f64::NAN)).collect()))
}

pub(super) fn one() -> usize {
    1
}

pub(super) fn usual_level() -> f64 {
    0.95
}
