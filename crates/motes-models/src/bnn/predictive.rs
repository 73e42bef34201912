//! Rows that a network gives probabilities to.

use motes::Real;
use motes::blocks::for_each;

use super::Products;
use super::design::Design;
use super::network::Pass;
use crate::tally::{Classified, GROUP};

/// Rows to predict. Their columns are their own: some may be zero in training but not here.
#[derive(Clone, Debug)]
pub(super) struct NewRows<F> {
    design: Design<F>,
    inputs: usize,
    classes: usize,
    rows: usize,
}

impl<F: Real> NewRows<F> {
    pub fn new(features: &[f64], [inputs, hidden, classes]: [usize; 3]) -> Self {
        let design = Design::new(features, inputs, hidden, Products::Dense);
        NewRows { design, inputs, classes, rows: features.len() / inputs }
    }
}

impl<F: Real> Classified<F> for NewRows<F> {
    fn for_each_particle(&self, x: &[F], take: &mut dyn FnMut(&[f64])) {
        let classes = self.classes;
        let (d, width) = (self.design.hidden * (self.inputs + classes), classes * self.rows);
        let pass = Pass::new(&self.design, self.inputs, classes, 1);
        let mut logs = vec![0.0; width * GROUP.min(x.len() / d)];
        for x in x.chunks(GROUP * d) {
            let logs = &mut logs[..x.len() / d * width];
            let of_particle = |n: usize, logs: &mut [f64]| {
                let mut scratch = vec![F::default(); pass.scratch_len()];
                pass.logits(&x[n * d..(n + 1) * d], None, false, &mut scratch, |place, logits| {
                    let (row, all) = (self.design.order[place] as usize, logits.log_sum_exp());
                    let logs = &mut logs[row * classes..(row + 1) * classes];
                    logs.iter_mut().enumerate().for_each(|(l, log)| *log = logits.get(l) - all);
                });
                Ok::<(), std::convert::Infallible>(())
            };
            let Ok(()) = for_each(true, (&mut *logs, width), of_particle);
            logs.chunks_exact(width).for_each(&mut *take);
        }
    }
}
