//! One short run for every algorithm and every setting that changes what a step computes.

use motes::Settings;
use motes::algorithms::{
    ABP, EM, IPLA, JOINT_MH, KIPLMC, MARGINAL_MH, MEAN_FIELD, PGD, PMGD, PQN, SHORT_RUN, SOUL,
};
use motes::settings::{InitParticles, JointUpdate, Preconditioner, StepDecay, WarmStart};

use super::models::Gives;

/// A named run: its settings, and what the model gives.
pub struct Entry {
    pub name: String,
    pub settings: Settings,
    pub gives: Gives,
    pub grouped: bool,
}

/// All runs for clouds of n particles, `steps` long. Accept-reject begins at step 1; where it is all there is to see, the
/// step size is `h_accept`.
pub fn catalogue(n: usize, steps: u64, h: f64, h_accept: f64) -> Vec<Entry> {
    let base = Settings {
        particles: n,
        steps,
        burn_in: 1,
        step_size: h,
        adjust_after: 1,
        init_particles: InitParticles::Prior,
        seed: 5,
        ..Settings::default()
    };
    let of = |algorithm| Settings { algorithm, ..base.clone() };
    let accepting = |algorithm| Settings { step_size: h_accept, ..of(algorithm) };
    let mut list = Vec::new();
    let mut add = |name: &str, settings: Settings, gives: Gives| {
        list.push(Entry { name: name.into(), settings, gives, grouped: false });
    };
    for algorithm in [&PGD, &IPLA, &KIPLMC, &PQN, &PMGD, &SOUL, &EM, &ABP] {
        add(&algorithm.to_string(), of(algorithm), Gives::All);
    }
    let init_particles = InitParticles::Value(0.5);
    add("short-run", Settings { init_particles, transitions: 3, ..of(&SHORT_RUN) }, Gives::All);
    add("mean-field", Settings { init_particles, ..of(&MEAN_FIELD) }, Gives::All);
    add("pmgd, numerical", of(&PMGD), Gives::NoMStep);
    for algorithm in [&PGD, &PQN, &PMGD] {
        add(&format!("{algorithm}, adjusted"), Settings { adjust: true, ..accepting(algorithm) }, Gives::All);
    }
    add("marginal-mh", accepting(&MARGINAL_MH), Gives::All);
    add("marginal-mh, numerical", accepting(&MARGINAL_MH), Gives::NoMStep);
    for joint_update in [JointUpdate::Pgd, JointUpdate::Pqn] {
        let settings = Settings { joint_update, ..accepting(&JOINT_MH) };
        add(&format!("joint-mh, {joint_update}"), settings, Gives::All);
    }
    for word in Preconditioner::WORDS {
        let preconditioner = word.parse().expect("a word on the list");
        add(&format!("pgd, {word}"), Settings { preconditioner, ..of(&PGD) }, Gives::All);
        add(&format!("soul, {word}"), Settings { preconditioner, ..of(&SOUL) }, Gives::All);
    }
    let step_decay = Some(StepDecay { power: 0.6, scale: 3.0 });
    let grow = motes::settings::Growth(vec![(2, n + n / 2 + 1), (steps - 1, 2 * n + 3)]);
    for algorithm in [&PGD, &KIPLMC, &PMGD, &SOUL, &MARGINAL_MH] {
        let settings = Settings { step_decay, grow: grow.clone(), ..of(algorithm) };
        add(&format!("{algorithm}, decaying and growing"), settings, Gives::All);
    }
    for (algorithm, warm) in
        [(&PGD, None), (&KIPLMC, None), (&PMGD, Some(&PGD)), (&JOINT_MH, None), (&SOUL, Some(&PQN))]
    {
        let warm_start = Some(WarmStart { algorithm: warm, steps: 4 });
        add(&format!("{algorithm}, warm-started"), Settings { warm_start, ..of(algorithm) }, Gives::All);
    }
    let adam = Preconditioner::Adam;
    let warm_start = Some(WarmStart { algorithm: None, steps: 4 });
    add(
        "pgd, adam, adjusted, growing, warm-started",
        Settings { preconditioner: adam, adjust: true, grow, warm_start, ..of(&PGD) },
        Gives::All,
    );
    list
}

/// The same for a model with groups, and what is done to some groups at a time.
pub fn of_groups(n: usize, steps: u64, h: f64, h_accept: f64, batch: usize) -> Vec<Entry> {
    let mut list = catalogue(n, steps, h, h_accept);
    let batched =
        ["pgd", "ipla", "pqn", "soul", "mean-field", "abp", "short-run", "pgd, adjusted", "pgd, adam"];
    for name in batched {
        let of_all = list.iter().find(|e| e.name == name).expect("an entry");
        let settings = Settings { batch: Some(batch), ..of_all.settings.clone() };
        list.push(Entry { name: format!("{name}, batched"), settings, gives: Gives::All, grouped: true });
    }
    for entry in &mut list {
        entry.grouped = true;
        // A step size that single groups reject now and then is far too large for theta.
        if entry.settings.adjust && entry.settings.algorithm == &PGD {
            entry.settings.theta_rate = Some(h);
        }
    }
    list
}
