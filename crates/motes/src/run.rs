//! The loop: it owns stopping, averaging, observers and checkpoints. Algorithms never print, read clocks or write files.

use std::time::{Duration, Instant};

use crate::auto::{Averaging, Fitter, Stage};
use crate::metrics::TestMetrics;
use crate::moves::Move;
use crate::moves::Moves;
use crate::noise::{Noise, Purpose};
use crate::ranks::{Ranks, poll};
use crate::record::RunDirectory;
use crate::settings::Settings;
use crate::step::{Plan, StepSizes, Stepper, Streams};
use crate::{Error, Flow, Model, Observer, Real, State, StepInfo, Stop, Team};

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All steps were made.
    Complete,
    /// An observer stopped it; it can be resumed.
    Early,
}

/// The state before the first step: initial values, then the warm start if there is one.
///
/// Validates the settings first. Must be called inside [`crate::Pool::install`].
pub fn start<F: Real>(model: &dyn Model<F>, settings: &Settings) -> Result<State<F>, Error> {
    let state = start_unless(model, settings, || false)?;
    Ok(state.expect("nobody stops it"))
}

/// As [`start`], but a warm start is given up, and `None` returned, as soon as `stop` says so: it is asked at each step.
pub fn start_unless<F: Real>(
    model: &dyn Model<F>,
    settings: &Settings,
    stop: impl Fn() -> bool,
) -> Result<Option<State<F>>, Error> {
    settings.validate(model)?;
    let mut state = State::initial(model, settings);
    if let Some(warm) = settings.warm_start {
        let single = Settings { particles: 1, grow: Default::default(), ..settings.clone() };
        let algorithm = warm.algorithm.unwrap_or(settings.algorithm);
        let composition = (algorithm.compose)(settings).unadjusted();
        let plan = Plan {
            seed: settings.seed,
            streams: Streams::WarmStart,
            adjust_after: u64::MAX,
            batch: settings.batch,
            sizes: &[1],
            encoder_rate: 0.0,
        };
        let mut stepper = Stepper::new(model, composition, plan, Stop::default())?;
        let sizes = Settings { step_decay: None, ..settings.clone() }.step_sizes_at(0);
        let mut first = State::initial(model, &single);
        stepper.settle_theta(&mut first, settings.step_size)?;
        for _ in 0..warm.steps {
            if stop() {
                return Ok(None);
            }
            stepper
                .step(&mut first, sizes)
                .map_err(|e| with_suggestion(e, model, &Settings { algorithm, ..settings.clone() }, false))?;
        }
        state.start_from(&first);
    }
    Ok(Some(state))
}

/// Steps until the end or until an observer stops it. Returns how it ended and the time spent in the loop, without
/// that of test metrics.
///
/// Must be called inside [`crate::Pool::install`]. The same state, settings and model give the same bits for any
/// number of threads, however often the run is interrupted and resumed.
pub fn run<F: Real>(
    model: &dyn Model<F>,
    settings: &Settings,
    state: &mut State<F>,
    directory: Option<&mut RunDirectory>,
    observers: &mut [&mut dyn Observer<F>],
) -> Result<(Ended, Duration), Error> {
    run_unless(model, settings, state, directory, observers, Stop::default())
}

/// As [`run`], but by a team: a step in the middle of a long evaluation is given up soon after its flag is set, and all of its ranks
/// make the run together, with the same state. Rank 0 alone has the directory; any observer of any rank stops all of them. What one rank
/// alone failed to write at the very end is for the caller to tell the others.
pub fn run_unless<'m, F: Real>(
    model: &'m dyn Model<F>,
    settings: &Settings,
    state: &mut State<F>,
    mut directory: Option<&mut RunDirectory>,
    observers: &mut [&mut dyn Observer<F>],
    team: impl Into<Team<'m>>,
) -> Result<(Ended, Duration), Error> {
    let team = team.into();
    settings.validate(model)?;
    let composition = settings.composition();
    let plan = Plan {
        seed: settings.seed,
        streams: Streams::Run,
        adjust_after: settings.adjust_after,
        batch: settings.batch,
        sizes: &sizes(settings),
        encoder_rate: if composition.movement == Move::Fresh { settings.encoder_rate } else { 0.0 },
    };
    let mut engine = match composition.ends_itself() {
        true => Engine::Auto(Box::new(Fitter::new(model, settings, team))),
        false => Engine::Steps(Box::new(Stepper::new(model, composition, plan, team)?)),
    };
    let mut metrics = TestMetrics::new(model, settings, state.averages.leaves());
    let averages_clouds = composition.averages_clouds();
    let began = Instant::now();
    // What went wrong with files here: the other ranks hear of it at the end of a step.
    let mut files = Files { ranks: team.ranks, trouble: Ok(()) };
    if state.k == 0 {
        engine.settle_theta(state, settings.step_size_at(0))?; // theta_0 = theta_*(X_0), where theta follows from the particles
        metrics.measure(state.k, &state.cloud);
        let mut info = StepInfo::new(state, settings.step_size_at(0), Moves::default(), &[]);
        info.metrics = metrics.measured(state.k);
        info.metrics_time = metrics.watch.total;
        if let Some(directory) = directory.as_deref_mut() {
            files.hear(directory.record(&info))?;
        }
        for observer in observers.iter_mut() {
            observer.observe(&info); // nothing to stop yet
        }
    }
    if let Engine::Auto(fitter) = &mut engine
        && fitter.judge_again(state)
        && let Some(directory) = directory.as_deref_mut()
    {
        files.hear(directory.keep_theta(state, Duration::ZERO))?;
    }
    while !state.is_over(settings) {
        let sizes = settings.step_sizes_at(state.k);
        let kept = directory.is_some();
        let stage = state.auto.as_ref().map(|auto| auto.progress.stage);
        let (moves, averaging) = match engine.step(state, settings, sizes) {
            Err(Error::Stopped) => {
                engine.bring(state);
                let spent = began.elapsed().saturating_sub(metrics.watch.total);
                if let Some(directory) = directory.as_deref_mut() {
                    directory.checkpoint(state, spent)?;
                }
                return Ok((Ended::Early, spent));
            }
            // Not by `map_err`, which copies what it does not map.
            Err(e) => return Err(with_suggestion(e, model, settings, kept)),
            Ok(done) => done,
        };
        let h = sizes.h;
        if let Engine::Steps(stepper) = &mut engine {
            grow(state, settings, stepper)?;
        }
        if averaging == Averaging::Anew {
            state.average_anew(settings);
        }
        if averaging != Averaging::No {
            state.averages.add_theta(&state.theta);
            state.batches.add(&state.theta[..state.batches.width()]);
            if averages_clouds {
                if metrics.takes_all() || state.kept.wants(state.k) {
                    engine.bring(state);
                }
                engine.average(state);
                state.kept.offer(state.k, &state.cloud);
                metrics.accumulate(&state.cloud, &mut state.predictive);
            }
        }
        if moves.proposed > 0 {
            state.acceptance.add(moves, averaging != Averaging::No);
        }
        if metrics.is_due(state.k) {
            engine.bring(state);
        }
        metrics.measure(state.k, &state.cloud);
        let mut info = StepInfo::new(state, h, moves, engine.sums());
        info.scalars = engine.scalars();
        info.metrics = metrics.measured(state.k);
        info.metrics_time = metrics.watch.total;
        if let Some(directory) = directory.as_deref_mut() {
            files.hear(directory.record(&info))?;
        }
        let mut stop = false;
        for observer in observers.iter_mut() {
            stop |= observer.observe(&info) == Flow::Stop;
        }
        let due = directory.as_deref_mut().is_some_and(|directory| directory.checkpoint_is_due(state.k));
        let [stop, due] = files.poll([stop, due])?;
        if stop || due {
            engine.bring(state);
        }
        let spent = || began.elapsed().saturating_sub(metrics.watch.total);
        if let (Some(directory), Some(auto)) = (directory.as_deref_mut(), &state.auto)
            && auto.progress.stage == Stage::Posterior
            && stage != Some(Stage::Posterior)
        {
            files.hear(directory.keep_theta(state, spent()))?;
        }
        if stop && !state.is_over(settings) {
            if let Some(directory) = directory.as_deref_mut() {
                directory.checkpoint(state, spent())?;
            }
            return Ok((Ended::Early, spent()));
        }
        if due && let Some(directory) = directory.as_deref_mut() {
            files.hear(directory.checkpoint(state, spent()))?;
        }
    }
    engine.bring(state);
    if let Engine::Steps(stepper) = &mut engine
        && composition.draws_afresh()
    {
        match stepper.draw_posterior(state, settings.step_sizes_at(state.k)) {
            Err(Error::Stopped) => {
                return Ok((Ended::Early, began.elapsed().saturating_sub(metrics.watch.total)));
            }
            done => done.map_err(|e| with_suggestion(e, model, settings, directory.is_some()))?,
        }
    }
    files.trouble?;
    Ok((Ended::Complete, began.elapsed().saturating_sub(metrics.watch.total)))
}

/// What became of a run's files, which one rank alone writes.
struct Files<'a> {
    ranks: &'a dyn Ranks,
    trouble: Result<(), Error>,
}

impl Files<'_> {
    /// Hears how something went. One process ends here if it went wrong; one of several must not end by itself.
    #[inline(always)]
    fn hear(&mut self, written: Result<(), Error>) -> Result<(), Error> {
        if self.ranks.size() == 1 {
            return written;
        }
        if self.trouble.is_ok() {
            self.trouble = written;
        }
        Ok(())
    }

    /// Whether any rank wishes to stop, and whether for a checkpoint; all end if any of them could not write.
    #[inline(always)]
    fn poll(&mut self, wishes: [bool; 2]) -> Result<[bool; 2], Error> {
        if self.ranks.size() == 1 {
            return Ok(wishes);
        }
        poll(self.ranks, wishes, std::mem::replace(&mut self.trouble, Ok(()))).map(|(wishes, ())| wishes)
    }
}

/// What makes the steps of a run.
enum Engine<'m, F: Real> {
    /// A rule, a move and an order, for as many steps as are asked for.
    Steps(Box<Stepper<'m, F>>),
    /// The fit without tuning, which ends itself.
    Auto(Box<Fitter<'m, F>>),
}

impl<F: Real> Engine<'_, F> {
    /// One step, and whether its cloud is one to average.
    #[inline(always)]
    fn step(
        &mut self,
        state: &mut State<F>,
        settings: &Settings,
        sizes: StepSizes,
    ) -> Result<(Moves, Averaging), Error> {
        match self {
            Engine::Auto(fitter) => fitter.step(state),
            Engine::Steps(stepper) => {
                let moves = stepper.step(state, sizes)?;
                let averaging = if state.k > settings.burn_in { Averaging::Yes } else { Averaging::No };
                Ok((moves, averaging))
            }
        }
    }

    fn settle_theta(&mut self, state: &mut State<F>, h: f64) -> Result<(), Error> {
        match self {
            Engine::Auto(_) => Ok(()),
            Engine::Steps(stepper) => stepper.settle_theta(state, h),
        }
    }

    /// Adds the cloud to the averages.
    fn average(&self, state: &mut State<F>) {
        match self {
            Engine::Auto(_) => state.averages.add_cloud(&state.cloud, None),
            Engine::Steps(stepper) => stepper.average(state),
        }
    }

    /// Has the whole cloud here, with all that there is for each particle, where ranks have kept their parts for themselves.
    fn bring(&self, state: &mut State<F>) {
        if let Engine::Steps(stepper) = self {
            stepper.bring(state);
        }
    }

    fn sums(&self) -> &[f64] {
        match self {
            Engine::Auto(_) => &[],
            Engine::Steps(stepper) => stepper.sums(),
        }
    }

    fn scalars(&self) -> &[f64] {
        match self {
            Engine::Auto(_) => &[],
            Engine::Steps(stepper) => stepper.scalars(),
        }
    }
}

/// All the numbers of particles that the run will have.
fn sizes(settings: &Settings) -> Vec<usize> {
    if !settings.has_cloud() {
        return Vec::new();
    }
    let grown = settings.grow.0.iter().map(|(_, n)| *n);
    std::iter::once(settings.particles).chain(grown).collect()
}

/// From step k on there are N particles: new ones are copies of old ones chosen by the seed.
fn grow<F: Real>(
    state: &mut State<F>,
    settings: &Settings,
    stepper: &mut Stepper<'_, F>,
) -> Result<(), Error> {
    let Some((k, n)) = settings.grow.0.iter().find(|(k, _)| *k == state.k) else {
        return Ok(());
    };
    let noise = Noise::new(settings.seed, Purpose::Grow);
    let old = state.cloud.n();
    let most = settings.max_particles();
    let parent = |number: usize| ((noise.uniform(*k, number as u64) * old as f64) as usize).min(old - 1);
    let parents = |g: usize| (old..*n).map(|i| parent(g * most + i)).collect();
    state.push_copies(&(0..state.cloud.groups()).map(parents).collect::<Vec<_>>());
    if settings.composition().movement == Move::Chain {
        state.cloud.swap(old - 1, *n - 1); // the next chain starts where this one ended
    }
    stepper.settle_theta(state, settings.step_size_at(state.k))
}

/// Puts a step size into a divergence that is smaller than the one tried and safe as far as the model can tell.
fn with_suggestion<F: Real>(error: Error, model: &dyn Model<F>, settings: &Settings, kept: bool) -> Error {
    let safe = |h: f64| two_digits(settings.auto_step_size(model).min(h / 2.0));
    match error {
        Error::Diverged { step, what, norm, h, .. } => match settings.theta_rate {
            // Where theta has a rate of its own and runs away, that is what was too large.
            Some(rate) if what.contains("theta") => {
                let suggestion = two_digits(rate / 10.0);
                Error::Diverged { step, what, norm, h: rate, setting: "theta-rate", suggestion, kept }
            }
            _ => Error::Diverged { step, what, norm, h, setting: "step-size", suggestion: safe(h), kept },
        },
        Error::Rejected { step, reason, h, .. } => {
            Error::Rejected { step, reason, h, suggestion: safe(h), kept }
        }
        other => other,
    }
}

/// Rounds down to two significant digits: people retype these numbers.
pub(crate) fn two_digits(value: f64) -> f64 {
    let unit = libm::pow(10.0, libm::log10(value).floor() - 1.0);
    let rounded = (value / unit).floor() * unit;
    format!("{rounded:.1e}").parse().unwrap_or(rounded)
}
