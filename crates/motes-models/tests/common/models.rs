//! Models derived from the toy model: with capabilities taken away, a false Hessian, or half the noise.

use motes::model::{Draws, ExactEm, MStep};
use motes::{At, Model, ModelError, Real, Want};
use motes_models::Hierarchical;

/// The toy model without some of its capabilities.
pub struct Reduced<F: Real> {
    pub inner: Hierarchical<F>,
    pub gives: Gives,
}

/// Which capabilities a [`Reduced`] model still gives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gives {
    /// All of them.
    All,
    /// All but the closed M-step, so that PMGD must maximise numerically.
    NoMStep,
    /// Gradients and nothing else.
    GradientsOnly,
    /// All, but every particle's theta-Hessian is this number.
    Hessian(f64),
}

impl<F: Real> Reduced<F> {
    pub fn new(y: &[f64], gives: Gives) -> Self {
        Reduced { inner: Hierarchical::new(y), gives }
    }

    /// With each latent variable as a group of its own.
    pub fn grouped(y: &[f64], gives: Gives) -> Self {
        Reduced { inner: Hierarchical::grouped(y), gives }
    }

    fn unless_gradients_only<T>(&self, capability: Option<T>) -> Option<T> {
        capability.filter(|_| self.gives != Gives::GradientsOnly)
    }
}

impl<F: Real> Model<F> for Reduced<F> {
    fn name(&self) -> &str {
        "reduced"
    }
    fn d_theta(&self) -> usize {
        1
    }
    fn d_x(&self) -> usize {
        self.inner.d_x()
    }
    fn groups(&self) -> usize {
        self.inner.groups()
    }
    fn nanoseconds_per_row(&self) -> f64 {
        self.inner.nanoseconds_per_row()
    }
    fn evaluate(&self, at: At<'_, F>, mut want: Want<'_, F>) -> Result<(), ModelError> {
        if let Gives::Hessian(value) = self.gives
            && let Some(hessian) = want.hessian.take()
        {
            hessian[0] = value * (at.x.len() / self.d_x()) as f64;
        }
        self.inner.evaluate(at, want)
    }
    fn gives(&self) -> motes::Gives {
        self.unless_gradients_only(Some(self.inner.gives())).unwrap_or_default()
    }
    fn default_step_size(&self) -> f64 {
        self.inner.default_step_size()
    }
    fn curvature(&self) -> Option<f64> {
        self.unless_gradients_only(self.inner.curvature())
    }
    fn theta_terms(&self) -> Option<&[f64]> {
        self.unless_gradients_only(self.inner.theta_terms())
    }
    fn m_step(&self) -> Option<&dyn MStep<F>> {
        let m_step: Option<&dyn MStep<F>> = self.unless_gradients_only(Some(&self.inner));
        m_step.filter(|_| self.gives != Gives::NoMStep)
    }
    fn exact_em(&self) -> Option<&dyn ExactEm> {
        self.unless_gradients_only(self.inner.exact_em())
    }
    fn prior(&self) -> Option<&dyn Draws<F>> {
        self.unless_gradients_only(self.inner.prior())
    }
}

/// The toy model in coordinates z = 2x with l'(theta, z) = 4 l(theta, z/2) in place of l, and the theta-gradient of l.
///
/// Its particles, mapped back by x = z/2, move as those of the toy model with half the noise: they are right in the
/// mean, and their variance is a quarter of what it should be.
pub struct Quiet<F: Real>(pub Reduced<F>);

impl<F: Real> Quiet<F> {
    fn halve<'a>(&self, z: &[F], scratch: &'a mut [F]) -> &'a [F] {
        let x = &mut scratch[..z.len()];
        x.iter_mut().zip(z).for_each(|(x, z)| *x = *z * F::of(0.5));
        x
    }
}

impl<F: Real> Model<F> for Quiet<F> {
    fn name(&self) -> &str {
        "quiet"
    }
    fn d_theta(&self) -> usize {
        1
    }
    fn d_x(&self) -> usize {
        self.0.d_x()
    }
    fn scratch_len(&self, particles: usize) -> usize {
        particles * self.0.d_x()
    }
    fn evaluate(&self, at: At<'_, F>, want: Want<'_, F>) -> Result<(), ModelError> {
        let x = self.halve(at.x, want.scratch);
        let Want { mut log_density, mut grad_x, grad_theta, scores, hessian, .. } = want;
        let of_inner = Want {
            log_density: log_density.as_deref_mut(),
            grad_x: grad_x.as_deref_mut(),
            grad_theta,
            scores,
            hessian, // depends on the number of particles alone
            ..Want::nothing(&mut [])
        };
        self.0.evaluate(At { x, ..at }, of_inner)?;
        grad_x.into_iter().flatten().for_each(|g| *g = *g + *g);
        log_density.into_iter().flatten().for_each(|l| *l *= 4.0);
        Ok(())
    }
    fn gives(&self) -> motes::Gives {
        motes::Gives::ALL
    }
    fn theta_terms(&self) -> Option<&[f64]> {
        self.0.theta_terms()
    }
    fn m_step(&self) -> Option<&dyn MStep<F>> {
        Model::m_step(&self.0).map(|_| self as &dyn MStep<F>)
    }
    fn prior(&self) -> Option<&dyn Draws<F>> {
        Some(self)
    }
}

impl<F: Real> Draws<F> for Quiet<F> {
    fn map_normals(&self, theta: &[f64], _groups: &[u32], z: &mut [F]) {
        z.iter_mut().for_each(|z| *z += F::of(2.0 * theta[0]));
    }
}

impl<F: Real> MStep<F> for Quiet<F> {
    fn statistics_len(&self) -> usize {
        1
    }
    fn statistics(&self, at: At<'_, F>, out: &mut [f64]) -> Result<(), ModelError> {
        self.0.inner.statistics(at, out)?;
        out[0] *= 0.5; // the statistic is the sum of the coordinates
        Ok(())
    }
    fn m_step(&self, mean: &[f64], theta: &mut [f64]) -> Result<(), ModelError> {
        MStep::m_step(&self.0.inner, mean, theta)
    }
}
