//! Rows that contrasts give probabilities to.

use std::convert::Infallible;

use motes::Real;
use motes::blocks::for_each;

use super::kernel::{Contrasts, LANES, Rows, log_probabilities};
use crate::tally::{Classified, GROUP};

/// Rows to predict.
#[derive(Debug)]
pub(super) struct NewRows {
    rows: Rows,
    contrasts: Contrasts,
}

impl NewRows {
    pub fn new(features: &[f64], inputs: usize, intercept: bool, classes: usize) -> Self {
        let labels = vec![0; features.len() / inputs];
        NewRows { rows: Rows::new(features, &labels, None, intercept), contrasts: Contrasts::new(classes) }
    }
}

impl<F: Real> Classified<F> for NewRows {
    fn for_each_particle(&self, x: &[F], take: &mut dyn FnMut(&[f64])) {
        let d = self.rows.columns * self.contrasts.count();
        let width = self.contrasts.classes * self.rows.given;
        let mut logs = vec![0.0; width * GROUP.min(x.len() / d)];
        for x in x.chunks(GROUP * d) {
            let logs = &mut logs[..x.len() / d * width];
            let Ok(()) = for_each(true, (&mut *logs, width), |n, logs| {
                let u: Vec<f64> = x[n * d..(n + 1) * d].iter().map(|x| x.f64()).collect();
                let mut work = vec![[0.0; LANES]; self.contrasts.work()];
                log_probabilities(&self.rows, &self.contrasts, &u, &mut work, logs);
                Ok::<(), Infallible>(())
            });
            logs.chunks_exact(width).for_each(&mut *take);
        }
    }
}
